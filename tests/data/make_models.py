"""Writes the ONNX files and PyTorch's reference numbers in this folder. Needs torch, onnx, onnxscript and numpy.

    python tests/data/make_models.py

For each NAME: NAME.onnx as the exporter writes it with optimize=False (NAME-optimized.onnx, NAME-torchscript.onnx: its other
two ways), and NAME-reference.npz, all in float64:
    x, y, labels                 one batch, the model's answer in eval mode, and labels to train towards
    losses, final.NAME           of five steps of SGD (lr 0.01, no momentum) on that batch with the mean cross-entropy, in
                                 training mode; the parameters and running statistics after them, under PyTorch's names
    momentum_losses              of ten steps with momentum 0.9
    train_y                      the answer in training mode, before any step
"""
import copy
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))
from export_digits import BATCH, Digits  # noqa: E402
from relative_paths import make_paths_relative  # noqa: E402


class Mlp(nn.Module):
    """Exported with a symbolic batch."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Dropout(0.5), nn.Linear(20, 16), nn.Sigmoid(), nn.Linear(16, 5))

    def forward(self, x):
        return self.layers(x)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 5, padding=2)
        self.conv2 = nn.Conv2d(4, 6, 5)
        self.pool = nn.AvgPool2d(2)
        self.fc1 = nn.Linear(6 * 2 * 2, 20)
        self.fc2 = nn.Linear(20, 10)

    def forward(self, x):
        x = self.pool(torch.tanh(self.conv1(x)))
        x = self.pool(torch.tanh(self.conv2(x)))
        x = x.view(x.size(0), -1)
        return self.fc2(torch.tanh(self.fc1(x)))


class BasicBlock(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample = None
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        short = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x))
        x += short
        return self.relu(x)


class ResNet18(nn.Module):
    """torchvision's resnet18, module for module, with `width` channels after the stem instead of 64."""

    def __init__(self, width=4, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels = width
        for i, out in enumerate([width, 2 * width, 4 * width, 8 * width]):
            blocks = [BasicBlock(channels, out, 1 if i == 0 else 2), BasicBlock(out, out, 1)]
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
            channels = out
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Mixed(nn.Module):
    """What the others lack: strided, dilated and grouped convolution, pads, slices, concat, transposes, reductions, shapes
    computed in the graph, an activation written by hand, log-softmax."""

    def __init__(self):
        super().__init__()
        self.grouped = nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2)
        self.dilated = nn.Conv2d(4, 8, 3, stride=2, padding=2, dilation=2, bias=False)
        self.norm = nn.BatchNorm2d(16, momentum=0.2, eps=1e-3)
        self.gain = nn.Parameter(torch.ones(1, 16, 1, 1))
        self.project = nn.Linear(16, 12)
        self.out = nn.Linear(12, 6)

    def forward(self, x):
        x = torch.cat([self.grouped(x), self.dilated(x)], dim=1)
        x = nn.functional.pad(self.norm(x) * self.gain, (1, 0, 0, 1))
        x = x[:, :, 1:, ::2] - 0.5 * x[:, :, :-1, 1::2]
        x = nn.functional.avg_pool2d(x * torch.sigmoid(x), 2, stride=1, padding=1, count_include_pad=False)
        n, c, h, w = x.shape
        x = x.permute(0, 2, 3, 1).reshape(n, h * w, c)
        x = torch.tanh(self.project(x))
        q, k = x.unsqueeze(1), x.unsqueeze(2)
        mixed = ((q - k) ** 2).mean(dim=2)
        x = torch.relu(mixed.max(dim=1).values) + x.sum(dim=1) / (h * w)
        return torch.log_softmax(self.out(x), dim=-1)


class Recurrent(nn.Module):
    """Sequences [batch, 5, 5] through two bidirectional LSTM layers, a GRU with a state of its own, an RNN of each kind."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(5, 4, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(8, 6)
        self.start = nn.Linear(4, 6)
        self.rnn = nn.RNN(6, 5)
        self.relu = nn.RNN(5, 5, nonlinearity="relu", bias=False, bidirectional=True)
        self.out = nn.Linear(14, 4)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        y, last = self.gru(y.transpose(0, 1), torch.tanh(self.start(h[0] * c[3])).unsqueeze(0))
        y, _ = self.rnn(y)
        y, end = self.relu(y)
        return self.out(torch.cat([y[-1], c[2] + h[1]], dim=1) + last.sum())


def stir(model):
    """Statistics and scales that no accident leaves unused."""
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.6, 1.4)
            nn.init.uniform_(part.bias, -0.3, 0.3)
            nn.init.uniform_(part.running_mean, -0.2, 0.2)
            nn.init.uniform_(part.running_var, 0.6, 1.5)
    return model


def reference(name, model, x, classes):
    """Dropout is switched off in training too."""
    x = x.double()
    labels = torch.randint(0, classes, (x.shape[0],))
    model = copy.deepcopy(model).double()
    out = {"x": x, "labels": labels, "y": model.eval()(x).detach()}
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    out["train_y"] = copy.deepcopy(model).train()(x).detach()

    def train(steps, momentum):
        net = copy.deepcopy(model).train()
        sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=momentum)
        losses = []
        for _ in range(steps):
            sgd.zero_grad()
            loss = nn.functional.cross_entropy(net(x), labels)
            loss.backward()
            sgd.step()
            losses.append(loss.item())
        return net, torch.tensor(losses, dtype=torch.float64)

    trained, out["losses"] = train(5, 0.0)
    for key, value in trained.state_dict().items():
        if not key.endswith("num_batches_tracked"):
            out["final." + key] = value
    out["momentum_losses"] = train(10, 0.9)[1]
    np.savez_compressed(HERE / f"{name}-reference.npz", **{key: value.numpy() for key, value in out.items()})


def export(file, model, x, **options):
    path = HERE / f"{file}.onnx"
    if options.get("dynamo", True):
        torch.onnx.export(model, (x,), dynamo=True, input_names=["x"], output_names=["y"], verbose=False, **options).save(
            path, external_data=False)
    else:
        torch.onnx.export(model, (x,), path, input_names=["x"], output_names=["y"], **options)
    make_paths_relative(path, EXAMPLES, HERE)


def main():
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    digits = Digits().eval()  # the weights of examples/digits.onnx
    torch.manual_seed(1)
    x = torch.rand(BATCH, 1, 8, 8)
    export("digits-optimized", digits, x, optimize=True)
    export("digits-torchscript", digits, x, dynamo=False)
    export("digits-train", copy.deepcopy(digits).train(), x, optimize=False)
    reference("digits", digits, x, 10)

    resnet, x = stir(ResNet18()).eval(), torch.randn(6, 3, 32, 32)
    export("resnet18", copy.deepcopy(resnet).train(), x, optimize=False)
    export("resnet18-optimized", resnet, x, optimize=True)
    export("resnet18-torchscript", copy.deepcopy(resnet), x, dynamo=False, do_constant_folding=False,
           training=torch.onnx.TrainingMode.TRAINING)
    reference("resnet18", resnet, x, 10)

    mlp, x = Mlp().eval(), torch.randn(7, 12)
    batch = torch.export.Dim("batch", min=2, max=4096)
    export("mlp", mlp, x, optimize=False, dynamic_shapes=({0: batch},))
    export("mlp-optimized", mlp, x, optimize=True, dynamic_shapes=({0: batch},))
    export("mlp-torchscript", mlp, x, dynamo=False, dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})
    reference("mlp", mlp, x, 5)

    lenet, x = LeNet().eval(), torch.randn(5, 1, 16, 16)
    export("lenet", lenet, x, optimize=False, dynamic_shapes=({0: batch},))
    export("lenet-optimized", lenet, x, optimize=True)
    export("lenet-torchscript", lenet, x, dynamo=False, dynamic_axes={"x": {0: "batch"}})
    reference("lenet", lenet, x, 10)

    mixed, x = stir(Mixed()).eval(), torch.randn(4, 4, 9, 10)
    export("mixed", mixed, x, optimize=False, dynamic_shapes=({0: batch},))
    export("mixed-optimized", mixed, x, optimize=True)
    export("mixed-torchscript", mixed, x, dynamo=False, dynamic_axes={"x": {0: "batch"}})
    reference("mixed", mixed, x, 6)

    torch.manual_seed(7)
    recurrent, x = Recurrent().eval(), torch.randn(6, 5, 5)
    export("recurrent", recurrent, x, optimize=False)
    export("recurrent-optimized", recurrent, x, optimize=True)
    export("recurrent-torchscript", recurrent, x, dynamo=False)
    reference("recurrent", recurrent, x, 4)


if __name__ == "__main__":
    main()
