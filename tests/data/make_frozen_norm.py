"""Writes cases/frozen_norm, frozen_norm_older and frozen_norm_dropout: models in training mode, as PyTorch's exporters write them, and three steps
of SGD in float64. Needs torch, onnx and onnxscript.

frozen_norm          a batch norm that is trained, one that is in eval(), and a function batch_norm(training=False)
frozen_norm_older    one that is trained and one in eval(), by the exporter of dynamo=False
frozen_norm_dropout  all in eval(), beside a Dropout that draws (and drops nothing)

    python tests/data/make_frozen_norm.py
"""
import torch
import torch.nn.functional as F
from make_kink_model import export, train
from pathlib import Path

LR = 0.1


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)
        self.trained, self.frozen, self.called = (torch.nn.BatchNorm1d(4) for _ in range(3))

    def forward(self, x):
        y = self.frozen(self.trained(self.first(x)))
        c = self.called
        return self.second(F.batch_norm(y, c.running_mean, c.running_var, c.weight, c.bias, training=False))


class Norms(torch.nn.Module):
    def __init__(self, between):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)
        self.other, self.frozen, self.between = torch.nn.BatchNorm1d(4), torch.nn.BatchNorm1d(4), between

    def forward(self, x):
        return self.second(self.frozen(self.between(self.other(self.first(x)))))


def export_older(model, x, folder):
    folder.mkdir(exist_ok=True)
    torch.onnx.export(model, (x,), folder / "model.onnx", dynamo=False, training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
                      input_names=["x"], output_names=["y"])


def write(name, model, frozen, exporter):
    """Norms of `frozen` have other running statistics than a new one's."""
    for norm in frozen:
        norm.running_mean.uniform_(-1, 1), norm.running_var.uniform_(0.5, 2)
    folder, x = Path(__file__).with_name("cases") / name, torch.randn(6, 3)
    exporter(model, x, folder)
    train(model, x, torch.randn(6, 2), folder, LR)


def main():
    torch.manual_seed(7)
    model = Model().train()
    model.frozen.eval()
    write("frozen_norm", model, [model.frozen, model.called], export)
    older = Norms(torch.nn.Identity()).train()
    older.frozen.eval()
    write("frozen_norm_older", older, [older.frozen], export_older)
    dropout = Norms(torch.nn.Dropout(1e-12)).train()
    dropout.other.eval(), dropout.frozen.eval()
    write("frozen_norm_dropout", dropout, [dropout.other, dropout.frozen], export)


if __name__ == "__main__":
    main()
