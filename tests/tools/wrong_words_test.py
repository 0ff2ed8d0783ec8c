#!/usr/bin/env python3
"""Scripts end with one line and exit code 2 where a word of their command line is wrong, and begin nothing."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIGURES, JUDGE = "bench/placement/figures.py", "bench/placement/judge.py"
MEASURE, VARIANTS = "tools/measure_plans.py", "tools/place_variants.py"


class WrongWords(unittest.TestCase):
    def refused(self, script, *words, says):
        result = subprocess.run([sys.executable, ROOT / "tools" / "isolated.py", ROOT / script, *words],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, cwd=ROOT)
        with self.subTest(script=script, words=words):
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertEqual(result.stdout, "")
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            for part in says:
                self.assertIn(part, result.stderr)

    def test_names(self):
        for word in ("", "bogus", "coarsen,"):
            self.refused(FIGURES, "--only", word, says=("--only", "coarsen, variants, instances"))
        for script, option in ((FIGURES, "--models"), (VARIANTS, "--only")):
            for word in ("", "RNNLM", "NASNet-4-212,x"):
                self.refused(script, option, word, says=(option, "RNNLM-2-2048"))
        self.refused(VARIANTS, "--partita", sys.executable, "--tables", "--only", "RNNLM-16-1024",
                     says=("--only", "NMT-4-1024"))

    def test_numbers(self):
        for script, options in ((FIGURES, ("--seconds", "--solver-seconds", "--vertices")), (JUDGE, ("--seconds", "--workers")),
                                (MEASURE, ("--models", "--seconds", "--tries")), (VARIANTS, ("--seconds", "--limit"))):
            for option in options:
                for word in ("", "0", "-1", "nan", "bogus"):
                    self.refused(script, option, word, says=(option, f"'{word}'"))

    def test_programs(self):
        for script in (MEASURE, VARIANTS):
            self.refused(script, "--partita", "/nowhere/partita", says=("--partita", "/nowhere/partita", "cmake --build"))
            self.refused(script, "--partita", str(ROOT), says=("--partita", "no program"))
        self.refused(FIGURES, "--build", "/nowhere", says=("--build", "partita_coarsen_bench", "cmake --build"))

    def test_other_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            lists = Path(folder) / "lists"
            lists.write_text("#!/bin/sh\necho '[]'\n")
            lists.chmod(0o755)
            for script, program, *kind in ((MEASURE, "true"), (MEASURE, str(lists), "--spread"), (VARIANTS, "echo"),
                                           (VARIANTS, "false", "--sweeps"), (VARIANTS, "true", "--tables")):
                self.refused(script, "--partita", program, *kind,
                             says=("--partita", f"'{program}'", "output", "not partita's"))

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            for option in ("--profile", "-o"):
                for word in ("", folder, folder + "/none/file"):
                    self.refused(MEASURE, option, word, says=(option, f"'{word}'"))
            file = Path(folder) / "file"
            file.write_text("{}")
            self.refused(FIGURES, "--write", folder, says=("--write", "has files already"))
            self.refused(FIGURES, "--write", str(file), says=("--write", "no folder"))
            for word in (str(file), folder + "/none"):
                self.refused(JUDGE, word, says=(word, "no problem"))

    def test_what_does_not_go_together(self):
        self.refused(MEASURE, "--all", "--soap", says=("--all", "--soap"))
        self.refused(VARIANTS, "--sweeps", "--tables", says=("--sweeps", "--tables"))
        self.refused(VARIANTS, "--merges", "--tables", says=("--merges", "--tables"))
        self.refused(VARIANTS, "--partita", sys.executable, "--merges", "--limit", "0.5", says=("--limit", "--merges"))
        self.refused(VARIANTS, "--partita", sys.executable, "--sweeps", "--only", "NMT-2-1024", says=("--sweeps", "--only"))
        self.refused(VARIANTS, "--partita", sys.executable, "--tables", "--limit", "0.5", says=("--limit",))
        for script in (FIGURES, JUDGE, MEASURE, VARIANTS):
            self.refused(script, "--bogus", says=(Path(script).name,))


if __name__ == "__main__":
    unittest.main()
