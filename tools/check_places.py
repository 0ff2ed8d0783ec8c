#!/usr/bin/env python3
"""Checks that whatever the documentation and comments point to exists: paths, links, anchors, and where things are decided.

- Documents are the Markdown files of the root and, at any depth, of its folders. A path in one (partita/.., tools/.., tests/..,
  bench/.., docs/.., examples/.., cmake/..) exists; one without an ending may be a .h or .cc file.
- A link between documents leads to a file, and its anchor to a heading of that file.
- A page docs/.. that a source file names exists.
- The table of docs/ARCHITECTURE.md under "Where things are decided" has rows `| question | path | names |`. Every name in
  backticks occurs in that file.

Exits 1 if anything is wrong, naming file and line.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("partita", "tools", "tests", "bench", "docs", "examples", "cmake", ".ci", ".github")
SOURCES = (".h", ".cc", ".c", ".py", ".sh", ".cmake", ".txt", ".yml", ".json")
PATH = re.compile(r"(?<![\w/.(-])(?:partita|tools|tests|bench|docs|examples|cmake)/[\w/.-]*\w/?")
PAGE = re.compile(r"(?<![\w/.-])docs/[\w/.-]*\.(?:md|json)\b")
LINK = re.compile(r"\[(?:[^\[\]`]|`[^`]*`)*\]\(([^)\s]+)\)")
FOREIGN = re.compile(r"(?:'s|\w/\w+) $")
SECTION = "## 6. Where things are decided"


def read(path, root=ROOT):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def exists(path, root=ROOT):
    return any(os.path.exists(os.path.join(root, path.rstrip("/") + end)) for end in ("", ".h", ".cc"))


def files(endings, root=ROOT):
    """Paths of the files with these endings, of the root and of the folders."""
    found = [name for name in os.listdir(root) if name.endswith(endings) and os.path.isfile(os.path.join(root, name))]
    for folder in FOLDERS:
        for place, _, names in os.walk(os.path.join(root, folder)):
            found += [os.path.relpath(os.path.join(place, name), root) for name in names if name.endswith(endings)]
    return sorted(found)


def prose(text):
    """The text with its fenced code blocks emptied, so that line numbers stay."""
    lines, fenced = [], False
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        lines.append("" if fence or fenced else line)
        fenced = fenced != fence
    return "\n".join(lines)


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them: a heading that comes again gets -1, -2, .."""
    found = {}
    for heading in re.findall(r"^#+ +(.*?)\s*$", prose(text), re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
    return {name if n == 0 else f"{name}-{n}" for name, times in found.items() for n in range(times + 1)}


def check_paths(document, root=ROOT):
    """Errors, and how many paths were seen."""
    errors, seen = [], 0
    for number, line in enumerate(read(document, root).splitlines(), 1):
        for match in PATH.finditer(line):
            if line[match.end():match.end() + 1] in ("*", "{", "N", "X"):
                continue  # a pattern
            seen += 1
            if not exists(match.group(), root):
                errors.append(f"{document}:{number}: {match.group()} does not exist")
    return errors, seen


def check_links(document, root=ROOT):
    """Errors, and how many links were seen. Links to the web are not followed."""
    errors, seen, text = [], 0, prose(read(document, root))
    for match in LINK.finditer(text):
        target = match.group(1)
        if re.match(r"\w+:", target):
            continue
        seen += 1
        path, _, anchor = target.partition("#")
        page = os.path.normpath(os.path.join(os.path.dirname(document), path)) if path else document
        where = f"{document}:{text.count(chr(10), 0, match.start()) + 1}: the link to {target} leads nowhere"
        if not os.path.exists(os.path.join(root, page)):
            errors.append(f"{where}: there is no {page}")
        elif anchor and anchor not in anchors(read(page, root)):
            errors.append(f"{where}: {page} has no such heading")
    return errors, seen


def check_sources(root=ROOT):
    """Errors of pages that source files name, and how many were seen. Other projects' pages
    ("PyTorch's docs/..") are not looked for."""
    errors, seen = [], 0
    for path in files(SOURCES, root):
        for number, line in enumerate(read(path, root).splitlines(), 1):
            for match in PAGE.finditer(line):
                if FOREIGN.search(line[:match.start()]):
                    continue
                seen += 1
                if not os.path.isfile(os.path.join(root, match.group())):
                    errors.append(f"{path}:{number}: {match.group()} does not exist")
    return errors, seen


def check_decisions(document, root=ROOT):
    """Errors of the table, and its rows."""
    text = read(document, root)
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
        if not os.path.isfile(os.path.join(root, path)):
            errors.append(f"{document}: '{row[0]}': {path} is no file")
            continue
        source = read(path, root)
        errors += [f"{document}: '{row[0]}': {path} has no {name}" for name in re.findall(r"`([^`]+)`", row[2])
                   if not re.search(rf"\b{re.escape(name.split('::')[-1].rstrip('()'))}\b", source)]
    return errors, len(rows)


def check(root=ROOT):
    """Errors, and how many of each kind were seen."""
    documents = [document for document in files((".md",), root) if document != "CHANGELOG.md"]
    paths = [check_paths(document, root) for document in documents]
    links = [check_links(document, root) for document in documents]
    results = {"paths": paths, "links": links, "pages in sources": [check_sources(root)],
               "decisions": [check_decisions("docs/ARCHITECTURE.md", root)]}
    errors = [error for parts in results.values() for found, _ in parts for error in found]
    seen = {kind: sum(n for _, n in parts) for kind, parts in results.items()}
    errors += [f"no {kind} were found: this check has come apart from what it reads" for kind, n in seen.items() if n == 0]
    return errors, seen


def main():
    errors, seen = check()
    print("\n".join(errors) or ", ".join(f"{n} {kind}" for kind, n in seen.items()) + ": all of them are there")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
