"""For tools/rank_published.py: how well predicted times order measured ones, what the first choice costs, and what fits.

A row is a dict: `outcome` (ok or OOM), `measured` and `predicted` (seconds a token and device, or None), `fits`
(predicted), `memory` and `predicted_memory` (GB, or None), and the columns of configs.csv.
"""
from itertools import combinations
from statistics import median

TIE = 0.02  # measured times that differ by less are in no order
# What configurations of a group differ in. The degree of data parallelism follows from the others.
AXES = ("gpus", "global_batch", "TP", "PP", "CP", "EP", "zero", "seq_parallel", "micro_batch", "virtual", "recompute",
        "attention", "overlap")


def is_tie(a, b, share):
    return abs(a - b) <= share * min(a, b)


def order(a, b):
    """1 if both are in the same order, -1 if not, 0 if the prediction has none; None: the measurements are a tie."""
    if is_tie(a["measured"], b["measured"], TIE):
        return None
    if is_tie(a["predicted"], b["predicted"], 1e-6):
        return 0
    return 1 if (a["measured"] < b["measured"]) == (a["predicted"] < b["predicted"]) else -1


def timed(rows):
    """Rows with a measured and a predicted time."""
    return [r for r in rows if r["measured"] and r["predicted"]]


def orders(rows):
    """The order of each pair whose measured times are no tie."""
    return [o for a, b in combinations(timed(rows), 2) if (o := order(a, b)) is not None]


def tau(rows):
    """Kendall's tau over pairs whose measured times differ: (right - wrong) / pairs. None: no such pair."""
    found = orders(rows)
    return sum(found) / len(found) if found else None


def regret(rows):
    """How much longer our first choice takes than the best row, minus one, and whether there is a choice.

    The choice is the shortest predicted time among rows that are predicted to fit; of equal ones the mean. A row that ran
    out of memory takes as long as the slowest, and so does no choice. None: nothing was measured."""
    known = [r for r in rows if r["predicted"] and (r["measured"] or r["outcome"] == "OOM")]
    times = [r["measured"] for r in known if r["measured"]]
    if not times:
        return None, False
    fitting = [r for r in known if r["fits"]]
    if not fitting:
        return max(times) / min(times) - 1, False
    least = min(r["predicted"] for r in fitting)
    chosen = [r["measured"] or max(times) for r in fitting if is_tie(r["predicted"], least, 1e-6)]
    return sum(chosen) / len(chosen) / min(times) - 1, True


def confusion(rows):
    """Of "does not fit": how often it is right, false, and missed; and how often "fits" is right."""
    known = [r for r in rows if r["predicted"]]
    says, is_so = [not r["fits"] for r in known], [r["outcome"] == "OOM" for r in known]
    count = (lambda s, t: sum(a == s and b == t for a, b in zip(says, is_so)))
    return count(True, True), count(True, False), count(False, True), count(False, False)


def share(part, rest):
    return part / (part + rest) if part + rest else None


def precision_recall(rows):
    right, false, missed, _ = confusion(rows)
    return share(right, false), share(right, missed)


def errors(rows, measured="measured", predicted="predicted"):
    """Predicted / measured - 1."""
    return [r[predicted] / r[measured] - 1 for r in rows if r[measured] and r[predicted]]


def bias(found):
    """The median error and the median absolute one; None without errors."""
    return (median(found), median(map(abs, found))) if found else None


def without_repeats(rows):
    """Rows that were measured several times with the same settings are one, with the medians of what was measured."""
    same = {}
    for row in rows:
        same.setdefault((row["group"], row["outcome"], *(row[axis] for axis in AXES)), []).append(row)
    merged = []
    for several in same.values():
        merged.append(dict(several[0]))
        for column in ("measured", "memory"):
            values = [r[column] for r in several if r[column]]
            merged[-1][column] = median(values) if values else None
    return merged


def family(group):
    """Groups of one source: hidden faults of a source are in all of its groups."""
    return group.split("-")[0]


def median_of_families(values):
    """The median over families of each family's median; values by group. None without values."""
    by_family = {}
    for group, value in values.items():
        if value is not None:
            by_family.setdefault(family(group), []).append(value)
    return median(median(v) for v in by_family.values()) if by_family else None


def axis_key(text):
    """Numbers in their order, "none" before other texts."""
    try:
        return (0, float(text or 0), "")
    except ValueError:
        return (1, 0, "" if text == "none" else text)


def axis_pairs(rows):
    """By axis: pairs of a group that differ in this axis alone, the smaller value first."""
    found = {}
    for a, b in combinations(timed(rows), 2):
        differing = [axis for axis in AXES if a[axis] != b[axis]]
        if a["group"] == b["group"] and len(differing) == 1:
            axis = differing[0]
            found.setdefault(axis, []).append(tuple(sorted((a, b), key=lambda r: axis_key(r[axis]))))
    return found


def axis_summary(pairs):
    """Pairs in some order, how many are wrong and how many we tie, and the median of predicted over measured ratios."""
    found = [o for a, b in pairs if (o := order(a, b)) is not None]
    ratios = [(b["predicted"] / a["predicted"]) / (b["measured"] / a["measured"]) for a, b in pairs]
    return {"pairs": len(found), "wrong": found.count(-1), "tied": found.count(0), "ratio": median(ratios)}
