"""Writes autocast.npz: five steps of training under torch.autocast(bfloat16).

    python tests/data/make_autocast.py

A network with batch norm over few samples leaves its course by rounding alone: of resnet18, the first losses say something.
For each model the losses of SGD (lr 0.01, no momentum) on the batch of NAME-reference.npz with the mean cross-entropy, from the
weights of NAME.onnx, which are float32 and stay so. PyTorch's lists for the CPU leave softmax and layer norm in the type that comes;
those for GPUs, which Partita follows, compute them in float32.
"""
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def weights(name):
    return {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in onnx.load(HERE / f"{name}.onnx").graph.initializer}


def losses(name, model):
    held = weights(name)
    state = model.state_dict()
    for key in state:
        tied = key.replace("transformer.wte.", "lm_head.")  # one weight, under its other name in the file
        if key in held or tied in held:
            state[key] = held[key if key in held else tied]
        else:
            assert key.endswith("num_batches_tracked"), key
    model.load_state_dict(state)
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    reference = np.load(HERE / f"{name}-reference.npz")
    x, labels = torch.from_numpy(reference["x"]), torch.from_numpy(reference["labels"])
    if x.is_floating_point():
        x = x.float()
    model.train()
    sgd = torch.optim.SGD(model.parameters(), lr=0.01)
    result = []
    for _ in range(5):
        sgd.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            y = model(x)
            y = getattr(y, "logits", y)
            loss = nn.functional.cross_entropy(y.float().flatten(0, -2), labels.flatten())
        loss.backward()
        sgd.step()
        result.append(loss.item())
    print(name, result, reference["losses"][:5])
    return np.array(result)


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    import make_models
    import make_transformers
    np.savez_compressed(HERE / "autocast.npz", mlp=losses("mlp", make_models.Mlp()), resnet18=losses("resnet18", make_models.ResNet18()),
                        gpt2=losses("gpt2", make_transformers.gpt2()[0]))


if __name__ == "__main__":
    main()
