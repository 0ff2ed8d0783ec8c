"""How long Python's onnx package takes to load a file and to check it: python bench/onnx/load.py onnx_import_bench.onnx"""
import sys
import time

import onnx

best = [1e9, 1e9]
for _ in range(5):
    start = time.perf_counter()
    model = onnx.load(sys.argv[1])
    loaded = time.perf_counter()
    onnx.checker.check_model(model, full_check=True)
    best = [min(best[0], loaded - start), min(best[1], time.perf_counter() - loaded)]
print(f"{len(model.graph.node)} nodes: loaded in {best[0]:.3f} s, checked with shape inference in {best[1]:.3f} s")
