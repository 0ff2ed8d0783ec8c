"""For tools/rank_published.py: the tables that it prints, as Markdown."""
import collections
import textwrap

from ranking import figures

TABLES = "<!-- tools/rank_published.py writes what follows -->\n"
AXES_HEAD = """## Pairs that differ in one axis

The last column is the median over pairs: how many times longer we predict the larger value to take than the smaller,
divided by how many times longer it took. Above 1 the larger value is predicted too slow beside the smaller.
"""


def percent(value, sign=""):
    return "" if value is None else f"{100 * value:{sign}.0f}%"


def both(found):
    """The median error and the median absolute one."""
    return "" if found is None else f"{100 * found[0]:+.0f}%, {100 * found[1]:.0f}%"


def plain(value):
    return "" if value is None else f"{value:.2f}"


def bullets(lines):
    lines = list(lines)
    return "".join(textwrap.fill(line, 120, initial_indent="- ", subsequent_indent="  ", break_long_words=False) + "\n"
                   for line in lines or ["none"])


def table(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def by_group(rows):
    groups = collections.OrderedDict()
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    return groups


def summary_of(rows):
    """The figures of a group."""
    asked = [r for r in rows if "why" not in r]
    measured = figures.timed(asked)
    orders = figures.orders(asked)
    regret, chose = figures.regret(asked)
    return {"ok": len(measured), "oom": sum(r["outcome"] == "OOM" for r in asked), "refused": len(rows) - len(asked),
            "right": orders.count(1), "pairs": len(orders), "tau": figures.tau(asked) if len(measured) >= 4 else None,
            "regret": regret if len(measured) >= 2 else None, "chose": chose, "fit": figures.confusion(asked)[:3],
            "step": figures.bias(figures.errors(asked)),
            "memory": figures.bias(figures.errors(asked, "memory", "predicted_memory"))}


def group_line(name, s):
    return [name, s["ok"], s["oom"], s["refused"], f"{s['right']} of {s['pairs']}", plain(s["tau"]),
            percent(s["regret"]) + ("" if s["chose"] or s["regret"] is None else " -"),
            " / ".join(map(str, s["fit"])) if s["oom"] or any(s["fit"]) else "", both(s["step"]), both(s["memory"])]


def groups_table(summaries):
    return table(["group", "timed", "out of memory", "not asked", "pairs right", "tau", "regret",
                  "does not fit: right / false / missed", "step", "memory"],
                 [group_line(name, s) for name, s in summaries.items() if s["ok"] or s["oom"] or s["memory"]])


def nine_of_ten(values, best):
    """What nine of ten values reach, where `best` is min or max."""
    found = sorted((v for v in values.values() if v is not None), reverse=best is max)
    return found[-(-9 * len(found) // 10) - 1] if found else None


def families_table(summaries):
    """A line for each family, and one for all."""
    lines = []
    for name in sorted({figures.family(group) for group in summaries}):
        own = {group: s for group, s in summaries.items() if figures.family(group) == name}
        if any(s["ok"] or s["oom"] for s in own.values()):
            lines.append(family_line(name, own))
    return table(["family", "groups", "pairs right", "tau", "regret", "does not fit: precision, recall", "step", "memory"],
                 lines + [family_line("all", summaries)])


def family_line(name, summaries):
    right, false, missed = (sum(s["fit"][i] for s in summaries.values()) for i in range(3))
    middle = (lambda key, part=None: figures.median_of_families(
        {g: (s[key] if part is None or s[key] is None else s[key][part]) for g, s in summaries.items()}))
    pair = (lambda key: None if middle(key, 0) is None else (middle(key, 0), middle(key, 1)))
    fit = f"{percent(figures.share(right, false))}, {percent(figures.share(right, missed))}" if right + false + missed else ""
    return [name, sum(bool(s["ok"] or s["oom"]) for s in summaries.values()),
            f"{sum(s['right'] for s in summaries.values())} of {sum(s['pairs'] for s in summaries.values())}",
            plain(middle("tau")), percent(middle("regret")), fit, both(pair("step")), both(pair("memory"))]


def goals_text(summaries):
    taus, regrets = ({g: s[key] for g, s in summaries.items()} for key in ("tau", "regret"))
    return (f"Nine of ten groups have a tau of at least {plain(nine_of_ten(taus, max))}, and a regret of at most "
            f"{percent(nine_of_ten(regrets, min))}.\n")


def axes_table(rows):
    """Pairs that differ in one axis, all groups together, and those of each family."""
    pairs, lines = figures.axis_pairs([r for r in rows if "why" not in r]), []
    for axis, found in sorted(pairs.items(), key=lambda item: -len(item[1])):
        names = sorted({figures.family(a["group"]) for a, _ in found})
        for name in (["all"] if len(names) == 1 else ["all", *names]):
            s = figures.axis_summary([p for p in found if name in ("all", figures.family(p[0]["group"]))])
            lines.append([axis, names[0] if len(names) == 1 else name, s["pairs"], s["wrong"], s["tied"], plain(s["ratio"])])
    return table(["axis", "family", "pairs", "wrong", "we tie", "predicted / measured ratio"], lines)


def counts_text(rows):
    """Why rows were not asked, and what the commands of others leave out."""
    reasons = collections.Counter(r["why"] for r in rows if "why" in r)
    gaps = collections.Counter(gap for r in rows if "why" not in r for gap in r["gaps"])
    return ("Not asked, or without an answer:\n\n" + bullets(f"{count}: {reason}" for reason, count in reasons.most_common()) +
            "\nAsked without a detail that the row has and the program cannot be told:\n\n" +
            bullets(f"{count}: {gap}" for gap, count in gaps.most_common()))


def farthest_text(rows):
    timed = [r for r in figures.timed([r for r in rows if "why" not in r])]
    far = sorted(timed, key=lambda r: -max(r["predicted"] / r["measured"], r["measured"] / r["predicted"]))[:10]
    return bullets(f"{r['group']}: tensor {r['TP']}, stages {r['PP']}, micro-batch {r['micro_batch']}, recompute "
                   f"{r['recompute']}, {r['attention'] or 'attention not said'}: {percent(r['predicted'] / r['measured'] - 1, '+')}"
                   for r in far)


def report(rows, drawn):
    """The whole text. `drawn` says which rows these are."""
    summaries = {name: summary_of(some) for name, some in by_group(rows).items()}
    parts = [f"## Families\n\n{textwrap.fill(drawn, 120)}\n", families_table(summaries), goals_text(summaries)]
    parts += ["## Groups\n", groups_table(summaries)]
    parts += [AXES_HEAD, axes_table(rows)]
    parts += ["## What was not asked\n", counts_text(rows), "## Farthest off\n", farthest_text(rows)]
    return "\n".join(parts)


def write_page(path, text):
    """Replaces the tables of a page, which are behind the line TABLES; the text before it is written by hand."""
    with open(path) as file:
        head, found, _ = file.read().partition(TABLES)
    if not found:
        raise SystemExit(f"{path} has no line {TABLES.strip()}: the tables begin behind it")
    with open(path, "w") as file:
        file.write(head + TABLES + "\n" + text.rstrip() + "\n")
