"""Makes digits-train.npz and digits-test.npz from scikit-learn's digits.csv.gz.

    pip download --no-deps scikit-learn
    unzip -j scikit_learn-*.whl sklearn/datasets/data/digits.csv.gz
    python make_digits_data.py digits.csv.gz

Needs numpy. A row of the table is one image of 8x8 pixels from 0 to 16, and its digit.
"""
import sys
from pathlib import Path

import numpy as np

TRAIN = 1437  # the rest, 360, is for test: other writers than those of most training samples

table = np.loadtxt(sys.argv[1], delimiter=",")
images = (table[:, :64].reshape(-1, 1, 8, 8) / 16).astype(np.float32)
labels = table[:, 64].astype(np.int64)
folder = Path(__file__).resolve().parent
np.savez_compressed(folder / "digits-train.npz", x=images[:TRAIN], labels=labels[:TRAIN])
np.savez_compressed(folder / "digits-test.npz", x=images[TRAIN:], labels=labels[TRAIN:])
