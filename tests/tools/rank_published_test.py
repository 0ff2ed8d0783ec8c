#!/usr/bin/env python3
"""rank_published_test.py [PROGRAM]: tools/rank_published.py on a table of nine rows, with a program that answers from a list.

tau, regret, precision and the others are known by hand, and are counted again by brute force on drawn rows. With PROGRAM the
real program answers one row.
"""
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from predict_training import LeftOut  # noqa: E402
from ranking import figures, questions, report, runs  # noqa: E402

PROGRAM = sys.argv.pop() if len(sys.argv) > 1 and os.path.exists(sys.argv[-1]) else None
COLUMNS = ("group model layers hidden heads kv_heads ffn vocab seq gpu gpus gpus_per_node network framework TP PP CP EP DP zero "
           "seq_parallel micro_batch global_batch schedule virtual recompute attention precision outcome step_s "
           "tokens_per_s_per_gpu memory_GB note overlap").split()
COMMON = {"group": "X-a", "model": "GPT-0.1B", "layers": 2, "hidden": 256, "heads": 4, "kv_heads": 4, "ffn": 1024, "vocab": 1024,
          "seq": 128, "gpu": "A100-80GB", "gpus": 4, "gpus_per_node": 8, "framework": "Megatron-LM", "TP": 1, "PP": 1, "CP": 1,
          "EP": 1, "micro_batch": 1, "global_batch": 8, "recompute": "none", "precision": "bf16", "outcome": "ok"}
# What is changed, the measured and the predicted step (s), and the predicted memory (GB, of 80).
ROWS = [
    ({"TP": 1}, 1.0, 2.0, 10),  # the best; predicted second
    ({"TP": 2}, 1.2, 1.9, 20),  # predicted first: a regret of 20%
    ({"TP": 4}, 1.21, 2.5, 30),  # a tie with the last
    ({"TP": 4, "micro_batch": 2}, 1.6, 2.2, 90),  # ran, predicted not to fit
    ({"micro_batch": 2, "outcome": "OOM"}, None, 1.8, 95),  # rightly predicted not to fit
    ({"micro_batch": 4, "outcome": "OOM"}, None, 3.0, 70),  # missed
    ({"recompute": "half of it"}, 1.0, 1.0, 10),  # not asked
    ({"outcome": "kernel not available", "TP": 2}, None, 1.0, 10),  # not asked
    ({"TP": 1, "memory_GB": 5}, 1.0, 2.0, 10),  # the first once more
]
FAKE = """#!/usr/bin/env python3
import json, sys
words = sys.argv[1:]
if words[0] == "searches":
    print(json.dumps({"searches": [{"name": "megatron", "options": OPTIONS}, {"name": "zero", "options": {}}]}))
elif words[0] == "clusters":
    print("kind: gpu\\n    memory_gibytes: 74.5058\\n    fused_attention: 1\\ntopology:\\n  link: {bandwidth_gbytes_per_s: 25}\\n"
          "    - {name: gpu, count: 8, type: A100}")
else:
    open("CALLS", "a").write("x")
    tensor = words[words.index("--search") + 1].split("tensor=")[1].split(",")[0]
    step, memory = ANSWERS[tensor + "," + words[words.index("--micro-batch-size") + 1]]
    print(json.dumps({"step_time_us": step * 1e6, "peak_memory_bytes": 0, "least_memory_bytes": memory * 1e9,
                      "peak_memory_by_kind": {"communication buffers": 12e9}}))
"""


def row_of(changed, step=None):
    return {**dict.fromkeys(COLUMNS, ""), **{k: str(v) for k, v in {**COMMON, **changed}.items()}, "step_s": str(step or "")}


def fake_program(folder, options=None):
    answers = {f"{row['TP']},{row['micro_batch']}": (step, memory)
               for changed, _, step, memory in reversed(ROWS) for row in [{**COMMON, **changed}] if row["recompute"] == "none"
               and row["outcome"] != "kernel not available"}
    path = Path(folder, "program")
    path.write_text(FAKE.replace("OPTIONS", json.dumps(options or {})).replace("CALLS", f"{folder}/calls")
                    .replace("ANSWERS", json.dumps(answers)))
    path.chmod(0o755)
    return str(path)


def ranked(folder, *words, program=None, rows=None):
    """The rows that the tool writes, and what it prints."""
    with open(Path(folder, "configs.csv"), "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows or [row_of(changed, step) for changed, step, *_ in ROWS])
    done = subprocess.run([sys.executable, ROOT / "tools" / "rank_published.py", folder, program or fake_program(folder), "-o",
                           f"{folder}/out.json", "--cache", f"{folder}/cache", *words], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.loads(Path(folder, "out.json").read_text()), done.stdout


def timed(measured, predicted, **more):
    return {"group": "X-a", "outcome": "ok", "measured": measured, "predicted": predicted, "fits": True, **more}


class Ranking(unittest.TestCase):
    def test_figures_by_hand(self):
        with tempfile.TemporaryDirectory() as folder:
            rows, text = ranked(folder)
        asked = [r for r in rows if "why" not in r]
        self.assertEqual(len(asked), 6)  # the repeated row is one with the first
        self.assertEqual(next(r["memory"] for r in asked if r["TP"] == "1" and r["outcome"] == "ok"), 5)
        # Of six pairs one is a tie. Wrong are (1.0, 1.2) and (1.21, 1.6); right the three others.
        self.assertAlmostEqual(figures.tau(asked), (3 - 2) / 5)
        regret, chose = figures.regret(asked)
        self.assertTrue(chose)
        self.assertAlmostEqual(regret, 0.2)
        self.assertEqual(figures.confusion(asked), (1, 1, 1, 3))
        self.assertEqual(figures.precision_recall(asked), (0.5, 0.5))
        self.assertIn("| X-a | 4 | 2 | 2 | 3 of 5 | 0.20 | 20% | 1 / 1 / 1 | +79%, 79% | +100%, 100% |", text)
        self.assertIn("- 1: recomputation: half of it\n- 1: kernel not available\n", text)
        self.assertIn("| TP | X | 2 | 1 | 0 | 1.03 |\n| micro_batch | X | 1 | 1 | 0 | 0.67 |\n", text)

    def test_a_rerun_asks_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            first = ranked(folder)
            calls = Path(folder, "calls").read_text()
            self.assertEqual(len(calls), 7)  # six questions; one of the two that do not fit may fit without buckets
            self.assertEqual(ranked(folder), first)
            self.assertEqual(Path(folder, "calls").read_text(), calls)

    def test_a_page_keeps_its_text(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "page.md")
            page.write_text(f"# By hand\n\n{report.TABLES}\n## Old\n")
            text = ranked(folder)[1]
            ranked(folder, "--markdown", str(page))
            self.assertEqual(page.read_text(), f"# By hand\n\n{report.TABLES}\n{text.rstrip()}\n")

    def test_brute_force(self):
        seed = random.SystemRandom().randrange(1 << 32)
        print("seed", seed)
        rng = random.Random(seed)
        for _ in range(200):
            rows = [timed(rng.choice([1, 1.01, 1.1, 1.5, 2]), rng.choice([1, 2, 3]), outcome=rng.choice(["ok", "ok", "OOM"]),
                          fits=rng.random() < 0.7) for _ in range(rng.randrange(1, 8))]
            rows = [{**r, "measured": r["measured"] if r["outcome"] == "ok" else None} for r in rows]
            self.compare(rows)

    def compare(self, rows):
        ok = [r for r in rows if r["outcome"] == "ok"]
        sign = (lambda x: (x > 0) - (x < 0))
        pairs = [(ok[i], ok[j]) for i in range(len(ok)) for j in range(i)]
        pairs = [(a, b) for a, b in pairs if max(a["measured"], b["measured"]) / min(a["measured"], b["measured"]) > 1.02]
        products = [sign(a["measured"] - b["measured"]) * sign(a["predicted"] - b["predicted"]) for a, b in pairs]
        self.assertEqual(figures.tau(rows), sum(products) / len(products) if products else None)
        fit = [r for r in rows if r["fits"]]
        if ok and fit:
            slowest = max(r["measured"] for r in ok)
            first = [r for r in fit if r["predicted"] == min(f["predicted"] for f in fit)]
            taken = [r["measured"] if r["outcome"] == "ok" else slowest for r in first]
            expected = sum(taken) / len(taken) / min(r["measured"] for r in ok) - 1
            self.assertAlmostEqual(figures.regret(rows)[0], expected)
        no = [r for r in rows if not r["fits"]]
        out = [r for r in rows if r["outcome"] == "OOM"]
        self.assertEqual(figures.precision_recall(rows), tuple(
            sum(r["outcome"] == "OOM" for r in no) / len(some) if some else None for some in (no, out)))

    def test_equal_predictions_and_no_choice(self):
        self.assertEqual(figures.tau([timed(1, 1), timed(2, 1)]), 0)
        self.assertAlmostEqual(figures.regret([timed(1, 1), timed(2, 1)])[0], 0.5)
        self.assertEqual(figures.regret([timed(1, 1, fits=False), timed(3, 2, fits=False)]), (2, False))
        self.assertEqual(figures.tau([timed(1, 1), timed(1.01, 2)]), None)
        self.assertEqual(figures.median_of_families({"A-1": 0.1, "A-2": 0.3, "A-3": 0.9, "B-1": 0.5, "C-1": None}), 0.4)


class Questions(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.program = questions.Program(fake_program(self.folder.name))

    def test_options_that_the_rule_lacks_are_gaps(self):
        row = row_of({"TP": 2, "PP": 2, "zero": "ZeRO-1 over 8 GPUs of a node", "seq_parallel": 1, "network": "4x100Gb RoCE a node",
                      "gpus": 16, "model": "LLAMA-1B"})
        question = questions.question_of(row, self.program)
        self.assertIn("megatron?tensor=2,zero=1,sequence=1,pipeline=2,schedule=1f1b", question.options)
        self.assertEqual(question.gaps, ("framework=megatron-lm", "zero-group=8", "layers=even", "norms in elementary kernels"))
        self.assertIn("link: {bandwidth_gbytes_per_s: 6.25}", question.cluster)
        self.program.options["megatron"] = {"framework": ["none", "megatron-lm"], "zero-group": ["N"], "layers": ["even"]}
        question = questions.question_of(row, self.program)
        self.assertTrue(question.options[question.options.index("--search") + 1].endswith(
            ",schedule=1f1b,framework=megatron-lm,zero-group=8,layers=even"))
        self.assertEqual(question.gaps, ("norms in elementary kernels",))

    def test_attention_in_several_kernels_is_a_configuration(self):
        question = questions.question_of(row_of({"model": "LLAMA-1B", "attention": "torch"}), self.program)
        self.assertEqual((question.model, json.loads(question.config)["attention_dropout"]), ("", 0.1))
        question = questions.question_of(row_of({"model": "LLAMA-1B", "attention": "flash_attentionv1.0.8"}), self.program)
        self.assertEqual((question.config, "fused_attention: 0.5\n" in question.cluster), ("", True))

    def test_rows_that_are_not_asked(self):
        for changed, reason in (({"CP": 2}, "context parallelism"), ({"EP": 8}, "experts"), ({"precision": "fp8"}, "precision fp8"),
                                ({"gpu": "MI325X"}, "no preset of the GPU: MI325X"), ({"seq": ""}, "sequence length not published"),
                                ({"recompute": ""}, "recomputation: not published"), ({"framework": "other"}, "framework: other")):
            with self.assertRaises(LeftOut) as raised:
                questions.question_of(row_of(changed), self.program)
            self.assertEqual(str(raised.exception), reason)

    def test_a_run_that_takes_too_long(self):
        path = Path(self.folder.name, "slow")
        path.write_text("#!/bin/sh\nwhile :; do :; done\n")
        path.chmod(0o755)
        question = questions.question_of(row_of({}), self.program)
        self.program.path = str(path)
        self.assertEqual(runs.Runner(self.program, runs.Cache(None), 1, self.folder.name).ask(question), {"why": "time out"})

    @unittest.skipUnless(PROGRAM, "no program was named")
    def test_the_real_program_answers(self):
        with tempfile.TemporaryDirectory() as folder:
            rows, _ = ranked(folder, program=PROGRAM, rows=[row_of({"TP": 2, "PP": 2}, 1), row_of({"zero": "FSDP"}, 1),
                                                             row_of({"model": "LLAMA-0.1B", "attention": "torch"}, 1),
                                                             row_of({"gpu": "V100-32GB", "gpus_per_node": 4, "precision": "fp16"}, 1)])
        self.assertEqual([r.get("why") for r in rows], [None] * 4)
        self.assertTrue(all(r["fits"] and 0 < r["predicted_memory"] < 1 for r in rows), rows)


if __name__ == "__main__":
    unittest.main()
