#!/usr/bin/env python3
"""Ranks published configurations by predicted steps, and prints how well: the tables of docs/reproduction/ranking.md.

    tools/rank_published.py FOLDER [build/release/partita] [--groups TEXT] [--sample N] [--seed S] [--jobs J] [--markdown [PAGE]]
                            [--cache FILE] [--seconds S] [-o OUT.json]

FOLDER has configs.csv, one configuration a row (its columns: docs/reproduction/ranking.md). tools/ranking/ has the parts:
questions.py maps a row to a command, runs.py asks the program, figures.py has tau and the other figures, report.py the
tables. Answers are kept in a file, so that a rerun with the same program is free.
"""
import csv
import json
import os
import random
import sys
import tempfile

import words
from predict_training import LeftOut
from ranking import figures, report
from ranking.questions import Program, question_of
from ranking.runs import Cache, Runner

MOST_OF_A_GROUP = 12  # rows of a drawn group, so that a small sample has several groups


def drawn(rows, most, seed):
    """At most so many rows: groups of all families in turn, in an order that is drawn, and some rows of each."""
    rng, families = random.Random(seed), {}
    for name, some in report.by_group(rows).items():
        families.setdefault(figures.family(name), []).append(some)
    for groups in families.values():
        rng.shuffle(groups)
    taken = []
    while len(taken) < most and any(families.values()):
        for groups in families.values():
            if groups and len(taken) < most:
                some = groups.pop()
                taken += [some[i] for i in sorted(rng.sample(range(len(some)), min(MOST_OF_A_GROUP, len(some))))]
    return taken[:most]


def seconds_of_token(row):
    """Measured seconds a token and device; None: no time was measured."""
    if row["outcome"] != "ok":
        return None
    if row["step_s"] and row["global_batch"] and row["seq"]:
        return float(row["step_s"]) * int(row["gpus"]) / (int(row["global_batch"]) * int(row["seq"]))
    return 1 / float(row["tokens_per_s_per_gpu"]) if row["tokens_per_s_per_gpu"] else None


def asked(rows, runner, jobs):
    """The rows with what was measured and predicted, or with `why` not."""
    found, questions = [], []
    for row in rows:
        row = {**row, "measured": seconds_of_token(row), "memory": float(row["memory_GB"]) if row["memory_GB"] else None}
        found.append(row)
        try:
            if row["outcome"] not in ("ok", "OOM"):
                raise LeftOut(row["outcome"])
            question = question_of(row, runner.program)
            questions.append((row, question))
        except LeftOut as reason:
            row["why"] = str(reason)
    progress = (lambda done: print(f"\r{done} of {len(questions)}", end="", file=sys.stderr))
    for (row, question), answer in zip(questions, runner.all([q for _, q in questions], jobs, progress)):
        row["gaps"] = question.gaps
        if "why" in answer:
            row["why"] = answer["why"]
            continue
        row |= {"predicted": answer["step_s"] * question.devices / question.tokens, "fits": answer["fits"],
                "predicted_memory": answer["memory"] / 1e9}
    print(file=sys.stderr)
    return figures.without_repeats(found)


def main():
    parser = words.Parser(__doc__)
    parser.add_argument("folder")
    parser.add_argument("program", nargs="?", type=words.program, default="build/release/partita")
    parser.add_argument("--groups", default="", help="only groups whose name has one of these texts, with commas between")
    parser.add_argument("--sample", type=words.count, help="so many rows, drawn by --seed")
    parser.add_argument("--seed", type=int, default=57)
    parser.add_argument("--jobs", type=words.count, default=1)
    parser.add_argument("--markdown", nargs="?", const="docs/reproduction/ranking.md", metavar="PAGE",
                        help="write the tables into this page, docs/reproduction/ranking.md if none is named")
    parser.add_argument("--cache", default="build/ranking.jsonl", help="the file that keeps answers; empty: none")
    parser.add_argument("--seconds", type=words.count, default=5, help="CPU time of one run")
    parser.add_argument("-o", dest="out", type=words.output, help="write the rows here, as JSON")
    arguments = parser.parse_args()
    with open(os.path.join(arguments.folder, "configs.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    rows = [r for r in rows if any(text in r["group"] for text in arguments.groups.split(","))]
    of_groups = f" of groups named {arguments.groups.replace(',', ', ')}" if arguments.groups else ""
    what = f"All {len(rows)} rows{of_groups}."
    if arguments.sample:
        rows = drawn(rows, arguments.sample, arguments.seed)
        what = f"{len(rows)} rows{of_groups}, drawn by seed {arguments.seed}."
    with tempfile.TemporaryDirectory() as folder:
        rows = asked(rows, Runner(Program(arguments.program), Cache(arguments.cache), arguments.seconds, folder), arguments.jobs)
    text = report.report(rows, what)
    if arguments.markdown:
        report.write_page(arguments.markdown, text)
    else:
        print(text)
    if arguments.out:
        with open(arguments.out, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
