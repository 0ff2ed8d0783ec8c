#!/usr/bin/env python3
"""Line coverage of the quick tests, a table by room. `make coverage` builds what it runs.

    tools/coverage.py [--build DIR] [--uncovered] [ROOM..]        without ROOM: all test programs that DIR has

Runs the test programs, without suites named Many or Long, and reads what each line was executed (gcov). A room's row counts the lines of
all its files that one of the programs could reach: with ROOMs named, those of rooms below are in the table too. --uncovered lists the
lines never executed, of the rooms named. Exit codes: 0 done, 1 a test failed, 2 it cannot run.
"""
import collections
import concurrent.futures
import glob
import json
import os
import subprocess
import sys

import words

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def programs_of(build, rooms):
    """The test programs, and those of rooms that are not built."""
    if not rooms:
        return sorted(glob.glob(os.path.join(build, "partita_*_test"))), []
    paths = [os.path.join(build, f"partita_{room.replace('/', '_')}_test") for room in rooms]
    return paths, [path for path in paths if not os.path.exists(path)]


def run_tests(path):
    done = subprocess.run([path, "--gtest_filter=-Many*:Long*", "--gtest_brief=1"], cwd=os.path.dirname(path),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return done.returncode == 0, f"{os.path.basename(path)}: {done.stdout.strip().splitlines()[-1] if done.stdout.strip() else 'no output'}"


def room_of(path):
    """The folder under partita/ of a source that is no test; none of another file."""
    name = os.path.relpath(path, ROOT)
    if not name.startswith("partita/") or name.endswith("_test.cc") or "/testing/" in name:
        return None
    return os.path.dirname(name)[len("partita/"):] or "(pipeline)"


def counts_in(data):
    """{source: {line: times}} of one object's counts."""
    done = subprocess.run(["gcov", "--json-format", "--stdout", data], cwd=os.path.dirname(data), capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"gcov {data}: {done.stderr.strip()}")
    counts = {}
    for printed in done.stdout.splitlines():
        record = json.loads(printed)
        for file in record["files"]:
            path = os.path.normpath(os.path.join(record["current_working_directory"], file["file"]))
            if room_of(path):
                lines = counts.setdefault(path, {})
                for line in file["lines"]:
                    lines[line["line_number"]] = max(lines.get(line["line_number"], 0), line["count"])
    return counts


def counts_of(build):
    """The same of all objects together: a line of a header counts once."""
    total = collections.defaultdict(dict)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for counts in pool.map(counts_in, glob.glob(os.path.join(build, "**/*.gcda"), recursive=True)):
            for path, lines in counts.items():
                for line, count in lines.items():
                    total[path][line] = max(total[path].get(line, 0), count)
    return total


def print_table(total):
    rooms = collections.defaultdict(lambda: [0, 0])
    for path, lines in total.items():
        rooms[room_of(path)][0] += len(lines)
        rooms[room_of(path)][1] += sum(count > 0 for count in lines.values())
    print(f"{'room':28} {'lines':>8} {'covered':>8}")
    for room, (lines, covered) in sorted(rooms.items()) + [("all", [sum(column) for column in zip(*rooms.values())])]:
        print(f"{room:28} {lines:8} {covered / lines:8.1%}")


def print_uncovered(total, rooms):
    for path, lines in sorted(total.items()):
        if not rooms or room_of(path) in rooms:
            for line in sorted(line for line, count in lines.items() if not count):
                print(f"{os.path.relpath(path, ROOT)}:{line}")


def main():
    parser = words.Parser(__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/coverage"))
    parser.add_argument("--uncovered", action="store_true")
    parser.add_argument("rooms", nargs="*", metavar="ROOM")
    args = parser.parse_args()
    programs, missing = programs_of(os.path.abspath(args.build), args.rooms)
    if missing or not programs:
        parser.error(f"not built: {', '.join(map(os.path.basename, missing)) or 'no test program'}; make coverage builds them")
    for data in glob.glob(os.path.join(args.build, "**/*.gcda"), recursive=True):
        os.remove(data)  # of an earlier run
    failed = 0
    for path in programs:
        passed, line = run_tests(path)
        failed += not passed
        print(f"coverage: {line}", flush=True)
    total = counts_of(args.build)
    if not total:
        parser.error(f"the programs in {args.build} count no lines; they are built without --coverage")
    if args.uncovered:
        print_uncovered(total, args.rooms)
    print_table(total)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
