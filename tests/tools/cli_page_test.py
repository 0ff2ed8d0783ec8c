#!/usr/bin/env python3
"""cli_page_test.py PROGRAM: docs/reference/cli.md describes exactly the commands and options of the program's own help.
Examples in all documents have options of their commands.

The page's first table lists the commands. A table `| option | meaning |` is of the commands that the heading above it names, or
of every command. Choices of an option (`--objective comm|time`) are those that the help prints.
"""
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "cli.md"
FOREIGN = {"--gtest_filter"}  # options of other programs
NAME = r"-(?:[a-z]|-[a-z][\w-]*)"


def options_of_help(text):
    """{option: its choices, sorted} of what `partita COMMAND --help` prints."""
    found = {}
    for names, choices in re.findall(rf"^  ({NAME}(?:,{NAME})*)(?: TEXT:\{{([^}}]*)\}})?", text, re.M):
        for name in names.split(","):
            found[name] = sorted(choices.split(",")) if choices else []
    return found


def commands_of_help(program):
    """{command: its options} as the program prints them."""
    def help_of(*command):
        return subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
    names = re.findall(r"^  ([a-z]\w*) ", help_of().split("Subcommands:")[1], re.M)
    return {name: options_of_help(help_of(name)) for name in names}


def cells_of(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def tables_of(page):
    """(heading above, header, rows) of each table."""
    heading, table = "", None
    for line in page.splitlines() + [""]:
        if line.startswith("#"):
            heading = line
        if line.startswith("|"):
            table = table or (heading, cells_of(line), [])
            table[2].append(cells_of(line))
        elif table:
            yield table[0], table[1], table[2][2:]
            table = None


def errors_of(page, program):
    """How the page differs from `program`, {command: its options}."""
    errors, listed, described = [], set(), {name: {} for name in program}
    for heading, header, rows in tables_of(page):
        if header[0] == "command":
            listed |= {word.split()[0] for row in rows for word in re.findall(r"`([^`]+)`", row[0])}
        if header != ["option", "meaning"]:
            continue
        commands = [name for name in re.findall(r"`(\w+)`", heading) if name in program]
        commands = list(program) if "every command" in heading else commands
        if not commands:
            errors.append(f"options of no command: {heading}")
        for row in rows:
            for option in re.findall(r"`([^`]*)`", row[0]):
                name, _, value = option.replace("\\|", "|").partition(" ")
                for command in commands:
                    described[command][name] = value
    errors += [f"not in the list of commands: {name}" for name in program if name not in listed]
    errors += [f"no command of the program: {name}" for name in listed if name not in program]
    for command, options in program.items():
        errors += [f"{command}: not described: {name}" for name in options if name not in described[command]]
        errors += [f"{command}: no such option: {name}" for name in described[command] if name not in options]
        errors += [f"{command}: {name} is {value}, not {choices}" for name, value in described[command].items()
                   for choices in [options.get(name)] if choices and sorted(value.split("|")) != choices]
    known = {name for options in program.values() for name in options} | FOREIGN
    errors += [f"no command has {name}" for name in sorted(set(re.findall(r"(?<![\w-])--[a-z][\w-]*", page)) - known)]
    return errors


def wrong_examples(text, program):
    """Examples of commands in the text, `partita COMMAND ..`, with an option that the command has not; and how many there are."""
    examples = re.findall(r"(?:^|[\s`/])partita (\w+)([^\n`|]*)", text.replace("\\\n", " "), re.M)
    examples = [(command, words) for command, words in examples if command in program]
    return [f"partita {command}{words}: no option {name}" for command, words in examples
            for name in re.findall(rf"(?<!\S)({NAME})(?=[\s=\])]|$)", words) if name not in program[command]], len(examples)


class CliPage(unittest.TestCase):
    program = None

    @classmethod
    def setUpClass(cls):
        cls.commands, cls.page = commands_of_help(cls.program), PAGE.read_text(encoding="utf-8")

    def test_page_is_the_help(self):
        self.assertGreater(len(self.commands), 15)
        self.assertEqual(errors_of(self.page, self.commands), [])

    def test_every_described_option_is_needed(self):
        rows = [line for line in self.page.splitlines() if re.match(r"\| `-", line)]
        self.assertGreater(len(rows), 60)
        for row in rows:
            self.assertTrue(errors_of(self.page.replace(row + "\n", "", 1), self.commands), f"nobody misses {row}")

    def test_differences_are_found(self):
        for old, new, error in (("| `--seed N` |", "| `--seeds N` |", "plan: not described: --seed"),
                                ("| `--seed N` |", "| `--seeds N` |", "plan: no such option: --seeds"),
                                ("`--objective comm\\|time`", "`--objective comm\\|times`", "plan: --objective is comm|times"),
                                ("| [`solve`](#solve) |", "| [`solved`](#solve) |", "not in the list of commands: solve"),
                                ("| [`solve`](#solve) |", "| [`solved`](#solve) |", "no command of the program: solved"),
                                ("## Exit codes", "`--exit-code`", "no command has --exit-code")):
            with self.subTest(new=new):
                self.assertEqual(self.page.count(old), 1)
                self.assertTrue(any(e.startswith(error) for e in errors_of(self.page.replace(old, new), self.commands)), error)

    def test_examples_have_options_of_their_commands(self):
        seen = 0
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "bench" / "README.md"]:
            wrong, examples = wrong_examples(path.read_text(encoding="utf-8"), self.commands)
            self.assertEqual(wrong, [], path)
            seen += examples
        self.assertGreater(seen, 100)
        self.assertEqual(len(wrong_examples("    $ partita plan m.onnx \\\n  --searches tofu\n", self.commands)[0]), 1)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: cli_page_test.py PROGRAM")
    CliPage.program = sys.argv.pop()
    unittest.main()
