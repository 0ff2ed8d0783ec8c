#!/usr/bin/env python3
"""clang-tidy over partita/'s sources (.clang-tidy), but for tests, in parallel.

    tools/tidy.py [--build DIR] [--newest N | FILE..]   without FILE: every .cc of partita/ that DIR/compile_commands.json knows

--newest N: the N of them that the newest commits changed, a changed header as the .cc of its name.

A file takes some three seconds, so what it came to is kept in ~/.cache/partita-tidy (XDG_CACHE_HOME), under the hash of the preprocessed
file, the checks and clang-tidy's version. Prints what was found. Exit codes: 0 no error (warnings may be there), 1 errors, 2 it cannot run.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "partita-tidy")


def plain(entry):
    """The entry without what starts the compiler, and without g++'s precompiled header, which clang cannot read."""
    words = shlex.split(entry["command"])
    while os.path.basename(words[0]) in ("ccache", "env") or "=" in words[0]:
        words = words[1:]
    kept = []
    for word in words:
        if word.endswith("/cmake_pch.hxx") and kept[-1] == "-include":
            kept.pop()
        elif word not in ("-Winvalid-pch", "-fpch-preprocess"):
            kept.append(word)
    return entry | {"command": shlex.join(kept)}


def preprocessed(entry):
    """The file as the compiler sees it, without comments and line markers."""
    words = shlex.split(entry["command"])
    at = words.index("-o")
    words = [w for i, w in enumerate(words) if i not in (at, at + 1) and w != "-c"] + ["-E", "-P"]
    return subprocess.run(words, cwd=entry["directory"], capture_output=True, check=True).stdout


def findings_of(printed):
    """What was found in this project's files; some checks look into others' headers, whatever the header filter says."""
    each = re.split(r"\n(?=\S+:\d+:\d+: (?:error|warning))", printed.strip())
    return [finding for finding in each if finding.startswith("partita/")]


def tidy(entry, build, salt):
    """(what clang-tidy found, whether that has errors)."""
    path = os.path.relpath(entry["file"], ROOT)
    try:
        with open(entry["file"], "rb") as file:
            left_out = b"".join(line for line in file if b"NOLINT" in line)  # the preprocessor drops comments
        key = hashlib.sha256(salt + path.encode() + preprocessed(entry) + left_out).hexdigest()
    except subprocess.CalledProcessError as error:
        return [error.stderr.decode(errors="replace")], True
    kept = os.path.join(CACHE, key)
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as file:
            printed = file.read()
    else:
        done = subprocess.run([PROGRAM, "-p", build, "--quiet", entry["file"]], capture_output=True, text=True, cwd=ROOT)
        printed = done.stdout.replace(ROOT + os.sep, "")
        if done.returncode and "error:" not in printed:
            return [printed + done.stderr], True
        os.makedirs(CACHE, exist_ok=True)
        with open(f"{kept}.{os.getpid()}", "w", encoding="utf-8") as file:
            file.write(printed)
        os.replace(f"{kept}.{os.getpid()}", kept)
    findings = findings_of(printed)
    return findings, any(": error:" in finding for finding in findings)


def newest(chosen, count):
    """Those of the entries that changed last by git's history; what lies beyond a shallow clone's history comes in its own order."""
    listed = subprocess.run(["git", "log", "--format=", "--name-only", "--no-renames", "--", "partita"], cwd=ROOT, capture_output=True,
                            text=True).stdout.splitlines()
    place = {}
    for name in listed:
        place.setdefault(os.path.join(ROOT, os.path.splitext(name)[0] + ".cc"), len(place))
    return sorted(chosen, key=lambda entry: place.get(entry["file"], len(place)))[:count]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    options.add_argument("--newest", type=int)
    options.add_argument("files", nargs="*")
    args = options.parse_args()
    if not PROGRAM:
        print("tidy: clang-tidy is missing (Debian: apt-get install clang-tidy-14)")
        return 2
    try:
        with open(os.path.join(args.build, "compile_commands.json"), encoding="utf-8") as file:
            entries = [plain(entry) for entry in json.load(file)]
        commands = os.path.join(args.build, "tidy")  # where clang-tidy reads how files are compiled
        os.makedirs(commands, exist_ok=True)
        with open(os.path.join(commands, "compile_commands.json"), "w", encoding="utf-8") as file:
            json.dump(entries, file)
    except OSError as error:
        print(f"tidy: {error}; build first, with make build")
        return 2
    asked = {os.path.abspath(f) for f in args.files}
    source = re.compile(re.escape(ROOT + os.sep) + r"partita/(?!.*(_test\.cc$|/testing/)).*\.cc$")
    chosen = [e for e in entries if (e["file"] in asked if asked else source.match(e["file"]))]
    if not chosen:
        print("tidy: compile_commands.json has none of these files")
        return 2
    if args.newest and not asked:
        chosen = newest(chosen, args.newest)
    version = subprocess.run([PROGRAM, "--version"], capture_output=True).stdout
    with open(os.path.join(ROOT, ".clang-tidy"), "rb") as file:
        salt = version + file.read()
    wrong, seen = 0, set()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for findings, errors in pool.map(lambda e: tidy(e, commands, salt), chosen):
            wrong += errors
            for finding in findings:
                if finding not in seen:  # one in a header is found by many files
                    seen.add(finding)
                    print(finding, flush=True)
    print(f"tidy: {len(chosen)} files, {wrong} with errors")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
