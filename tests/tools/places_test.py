#!/usr/bin/env python3
"""tools/check_places.py finds what the documentation names and is not there, in a small project with one error of each kind."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import check_places  # noqa: E402

DOCS = "docs"  # so that the whole project's check does not look for these pages
ARCHITECTURE = """# Architecture

## 6. Where things are decided

| question | where | names |
|---|---|---|
| who decides? | `partita/a.cc` | `decide` |
"""
FILES = {
    "README.md": f"See [the guide]({DOCS}/guide/plans.md#first-plans), [of `a`]({DOCS}/guide/plans.md#what-a-does) and partita/a.cc.\n",
    f"{DOCS}/guide/plans.md": "# First plans\n\n## What `a` does\n\n```\n# no heading\n[no link](nowhere.md)\n```\n[up](../ARCHITECTURE.md)\n",
    "docs/ARCHITECTURE.md": ARCHITECTURE,
    "partita/a.cc": f"// decide ({DOCS}/guide/plans.md), as in PyTorch's docs/elsewhere.md.\n",
}


def errors_of(changed):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**FILES, **changed}.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_places.check(folder)[0]


class Places(unittest.TestCase):
    def test_whole_project(self):
        self.assertEqual(errors_of({}), [])

    def test_one_error_each(self):
        for name, text, error in (
                ("README.md", f"\n\n[a\nb]({DOCS}/plans.md)\n", f"README.md:3: the link to {DOCS}/plans.md leads nowhere: there is no"),
                ("README.md", f"[a]({DOCS}/guide/plans.md#no-heading)\n", f"{DOCS}/guide/plans.md has no such heading"),
                (f"{DOCS}/guide/plans.md", FILES[f"{DOCS}/guide/plans.md"] + "[a](#first-plan)\n", f"{DOCS}/guide/plans.md:10: the link to"),
                (f"{DOCS}/guide/more.md", "partita/b.cc\n", f"{DOCS}/guide/more.md:1: partita/b.cc does not exist"),
                ("partita/b.h", f"\n// {DOCS}/plans.md\n", f"partita/b.h:2: {DOCS}/plans.md does not exist"),
                ("docs/ARCHITECTURE.md", ARCHITECTURE.replace("`decide`", "`choose`"), "partita/a.cc has no choose")):
            with self.subTest(name=name, text=text):
                errors = errors_of({name: text})
                self.assertEqual(len(errors), 1, errors)
                self.assertIn(error, errors[0])

    def test_nothing_to_check(self):
        errors = errors_of({"README.md": "", f"{DOCS}/guide/plans.md": "# First plans\n"})
        self.assertTrue(any(error.startswith("no links were found") for error in errors), errors)


if __name__ == "__main__":
    unittest.main()
