#!/usr/bin/env python3
"""check_links.py PROGRAM: the program, and every library it loads at start-up, needs neither libtorch nor MPI nor CUDA.

Reads the dynamic sections (readelf -d) and follows them as the loader would, without running anything. Exits 1 on a finding.
"""
import os
import re
import subprocess
import sys

HEAVY = re.compile(r"^lib(torch|c10|aten|caffe2|mpi|open-rte|open-pal|cuda|nccl|cublas|partita_engine)")


def dynamic_section(path):
    """The names that a file needs, and the folders where it says to look for them."""
    text = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", text)
    folders = [folder for paths in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", text) for folder in paths.split(":")]
    return needed, [folder.replace("$ORIGIN", os.path.dirname(os.path.abspath(path))) for folder in folders]


def system_libraries():
    """{name: path} of the loader's cache."""
    ldconfig = next(p for p in ("/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig") if os.path.exists(p) or p == "ldconfig")
    text = subprocess.run([ldconfig, "-p"], check=True, capture_output=True, text=True).stdout
    found = {}
    for name, path in re.findall(r"^\s+(\S+) \([^)]*\) => (\S+)$", text, re.M):
        found.setdefault(name, path)
    return found


def main(program):
    cache, errors = system_libraries(), []
    seen, queue = {}, [(program, program)]
    while queue:
        path, chain = queue.pop()
        needed, folders = dynamic_section(path)
        for name in needed:
            if name in seen:
                continue
            seen[name] = f"{chain} -> {name}"
            if HEAVY.match(name):
                errors.append(f"loaded at start-up: {seen[name]}")
                continue
            places = [os.path.join(folder, name) for folder in folders] + [cache.get(name, "")]
            found = next((place for place in places if place and os.path.exists(place)), None)
            if found:
                queue.append((found, seen[name]))
            else:
                errors.append(f"not found: {seen[name]}")
    print("\n".join(errors) or f"{program} loads {', '.join(sorted(seen))}")
    return 1 if errors else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: check_links.py PROGRAM")
    sys.exit(main(sys.argv[1]))
