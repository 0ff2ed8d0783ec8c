#!/usr/bin/env python3
"""tools/isolated.py hides what this machine's Python has, and .deps/ has all that the scripts of tests and examples import."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Isolated(unittest.TestCase):
    def run_script(self, text, *words):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "by_chance.py").write_text("")
            script = Path(folder, "scripts", "script.py")
            script.parent.mkdir()
            script.write_text(text)
            return subprocess.run([sys.executable, ROOT / "tools" / "isolated.py", script, *words], capture_output=True,
                                  text=True, timeout=300, env={**os.environ, "PYTHONPATH": folder})

    def test_other_packages_are_not_there(self):
        self.assertIn("No module named 'by_chance'", self.run_script("import by_chance").stderr)
        self.assertIn("No module named 'pip'", self.run_script("import pip").stderr)

    def test_words_and_exit_codes_pass(self):
        result = self.run_script("import sys\nprint(sys.argv[1:], __name__)\nsys.exit(7)", "a b", "--help")
        self.assertEqual((result.returncode, result.stdout), (7, "['a b', '--help'] __main__\n"), result.stderr)
        none = subprocess.run([sys.executable, ROOT / "tools" / "isolated.py"], capture_output=True, text=True)
        self.assertEqual(none.returncode, 2, none.stderr)

    def test_what_scripts_import_is_there(self):
        text = ("import warnings\nwarnings.simplefilter('error')\n"
                "import torch, numpy, onnx, onnxscript, sympy\nimport torch.onnx._internal.exporter._core\n"
                "torch.einsum('ij,kj->ik', torch.ones(2, 3), torch.ones(2, 3))\n")
        result = self.run_script(text)
        self.assertEqual((result.returncode, result.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
