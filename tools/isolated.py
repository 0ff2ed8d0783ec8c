#!/usr/bin/env python3
"""Runs a Python script that sees the standard library, .deps/ and the torch that CMAKE_PREFIX_PATH points to, and nothing else.

    tools/isolated.py SCRIPT [ARGUMENT..]

Tests run their scripts with it, so that a package which happens to be installed cannot hide one that tools/setup.sh forgets.
Python starts with -I and -S: no PYTHONPATH, no site-packages, no user's packages. Exit codes: the script's; 2 if no script is named.
"""
import os
import runpy
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def installed():
    """The folders of .deps/: a folder for each call of pip."""
    deps = os.path.join(ROOT, ".deps")
    return sorted(entry.path for entry in os.scandir(deps) if entry.is_dir()) if os.path.isdir(deps) else []


def pointed_to():
    """The folders that hold a package torch that CMAKE_PREFIX_PATH names, as cmake/dependencies.cmake reads it."""
    named = [f for f in os.environ.get("CMAKE_PREFIX_PATH", "").replace(";", ":").split(":") if f]
    torches = (os.path.abspath(f) for folder in named for f in (folder, os.path.join(folder, "..", "..")))
    return [os.path.dirname(t) for t in torches if os.path.exists(os.path.join(t, "include", "ATen", "ATen.h"))]


def main():
    if len(sys.argv) < 2:
        print("isolated.py: name the script to run: tools/isolated.py SCRIPT [ARGUMENT..]", file=sys.stderr)
        sys.exit(2)
    if not (sys.flags.isolated and sys.flags.no_site):
        os.execv(sys.executable, [sys.executable, "-I", "-S", os.path.abspath(__file__), *sys.argv[1:]])
    script = os.path.abspath(sys.argv[1])
    sys.path[:0] = [os.path.dirname(script), *installed(), *pointed_to()]
    sys.dont_write_bytecode = True
    sys.argv = [script, *sys.argv[2:]]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
