"""Words of scripts' command lines, and programs that they run: what is wrong is one line on standard error.

    parser = words.Parser(__doc__)
    parser.add_argument("--partita", type=words.program, default="build/release/partita")
    args = parser.parse_args()  # a wrong word ends the script with exit code 2
"""
import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path


class Parser(argparse.ArgumentParser):
    """One line where others print how the script is used before it; options are spelt out."""

    def __init__(self, text):
        super().__init__(description=text, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; --help lists the options\n")


def positive(text):
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return number


def count(text):
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 1_000_000):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1 to 999999")
    return int(text)


def some_of(known, what):
    """A list of names with commas between them."""
    def read(text):
        names = text.split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"no {what} is named '{unknown[0]}'; there are: {', '.join(known)}")
        return names
    return read


def program(text):
    """The path of a program that can be run, or the name of one in a folder of PATH."""
    if shutil.which(text):
        return text
    if os.path.exists(text):
        raise argparse.ArgumentTypeError(f"'{text}' cannot be run: it is no program")
    target = os.path.basename(text) or "partita"
    raise argparse.ArgumentTypeError(f"there is no program '{text}'; build it (cmake --build --preset release --target "
                                     f"{target}), or name another")


def expect_partita(parser, name):
    """Ends the script where the program that --partita names does not list searches as partita does."""
    try:
        listed = subprocess.run([name, "searches", "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, timeout=60, check=True).stdout
        known = bool(json.loads(listed)["searches"])
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError):
        known = False
    if not known:
        parser.error(f"--partita: '{name}' is another program: the output of `{name} searches --json` is not partita's")


def output(text):
    """A file that can be written."""
    file = Path(text)
    if not text or file.is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' is no name of a file")
    if not file.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' cannot be written: its folder is not there")
    return text


def run(command, **options):
    """subprocess.run, its standard output dropped unless it is asked for; a program that fails ends the script."""
    command = [str(word) for word in command]
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, **options}
    result = subprocess.run(command, **options)
    if result.returncode != 0:
        said = (result.stderr or "").strip().splitlines()
        sys.exit(f"{shlex.join(command)}: ended with {result.returncode}" + (f": {said[-1]}" if said else ""))
    return result
