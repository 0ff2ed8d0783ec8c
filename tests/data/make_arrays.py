"""Writes arrays-stored.npz and arrays-deflated.npz, for partita/runtime/formats_test.cc. Needs numpy."""
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
arrays = {
    "f4": np.arange(6, dtype=np.float32).reshape(2, 3) / 2,
    "f8": np.float64(0.1),
    "i8": np.array([-1, 0, 1 << 40]),
    "i4": np.array([-7, 7], dtype=np.int32),
    "u1": np.array([0, 255], dtype=np.uint8),
    "b1": np.array([[True], [False]]),
    "none": np.zeros((0, 3), dtype=np.float32),
    "long": np.full(5000, 3),
}
np.savez(HERE / "arrays-stored.npz", **{**arrays, "long": arrays["long"].astype(np.uint8)})
np.savez_compressed(HERE / "arrays-deflated.npz", **arrays)
