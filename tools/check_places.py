#!/usr/bin/env python3
"""The places that the documentation names are there.

Every path (partita/.., tools/.., tests/.., bench/.., docs/.., examples/.., cmake/..) in the documentation exists; one without an ending
may be a .h or .cc file. In the table of docs/ARCHITECTURE.md under "Where things are decided", each row is `| question | path | names |`,
and every name in backticks occurs in that file. Exits 1 if anything is wrong, naming file and line.
"""
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PATH = re.compile(r"(?<![\w/.(-])(?:partita|tools|tests|bench|docs|examples|cmake)/[\w/.-]*\w/?")
SECTION = "## 6. Where things are decided"


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def exists(path):
    return any(os.path.exists(os.path.join(ROOT, path.rstrip("/") + end)) for end in ("", ".h", ".cc"))


def check_paths(document):
    """Errors, and how many paths were seen."""
    errors, seen = [], 0
    for number, line in enumerate(read(document).splitlines(), 1):
        for match in PATH.finditer(line):
            if line[match.end():match.end() + 1] in ("*", "{", "N", "X"):
                continue  # a pattern
            seen += 1
            if not exists(match.group()):
                errors.append(f"{document}:{number}: {match.group()} does not exist")
    return errors, seen


def check_decisions(document):
    """Errors of the table, and its rows."""
    text = read(document)
    if SECTION not in text:
        return [f'{document}: there is no section "{SECTION}"'], 0
    section = text.split(SECTION, 1)[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")][2:]
    errors = []
    for row in rows:
        if len(row) != 3:
            errors.append(f"{document}: a row has {len(row)} cells, not 3: {row[0]}")
            continue
        path = row[1].strip("`")
        if not os.path.isfile(os.path.join(ROOT, path)):
            errors.append(f"{document}: '{row[0]}': {path} is no file")
            continue
        source = read(path)
        errors += [f"{document}: '{row[0]}': {path} has no {name}" for name in re.findall(r"`([^`]+)`", row[2])
                   if not re.search(rf"\b{re.escape(name.split('::')[-1].rstrip('()'))}\b", source)]
    return errors, len(rows)


def main():
    errors, paths = [], 0
    documents = ["README.md", "CONTRIBUTING.md"] + sorted(os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, "*/*.md")))
    for document in (d for d in documents if not d.startswith("build/")):
        wrong, seen = check_paths(document)
        errors += wrong
        paths += seen
    wrong, rows = check_decisions("docs/ARCHITECTURE.md")
    errors += wrong
    if not paths or not rows and not wrong:
        errors.append("no paths or no decisions were found: this check reads the documentation's paths and one table")
    print("\n".join(errors) or f"{paths} paths and {rows} decisions of the documentation are where it says")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
