"""A classifier of 8x8 digits with an operator of its own, exported to custom_op.onnx beside this file.

PyTorch knows how the operator is computed, ONNX and Partita do not: the file has a node examples::swish_gate, and the one line
of swish_gate.tdl tells Partita what it is. Strategies, gradients and kernels are derived from that line.

Needs torch, onnx and onnxscript:  python export_custom_op.py [FOLDER]
"""
import sys
from pathlib import Path

import onnx
import onnxscript
import torch
from torch import nn

from relative_paths import make_paths_relative

HERE = Path(__file__).resolve().parent
BATCH = 45


@torch.library.custom_op("examples::swish_gate", mutates_args=())
def swish_gate(a: torch.Tensor, g: torch.Tensor, beta: float) -> torch.Tensor:
    """a g sigmoid(beta g), element by element."""
    return a * g * torch.sigmoid(beta * g)


@swish_gate.register_fake
def _(a, g, beta):
    return torch.empty_like(a)


# The node that stands for it: an operator of a domain of its own, which the exporter wants declared.
Schema = onnx.defs.OpSchema
onnx.defs.register_schema(Schema(
    "swish_gate", "examples", 1, inputs=[Schema.FormalParameter("a", "T"), Schema.FormalParameter("g", "T")],
    outputs=[Schema.FormalParameter("y", "T")], type_constraints=[("T", ["tensor(float)"], "")],
    attributes=[Schema.Attribute("beta", Schema.AttrType.FLOAT)]))


def as_onnx(a, g, beta):
    return onnxscript.values.Opset("examples", 1).swish_gate(a, g, beta=beta)


class Gated(nn.Module):
    """Images [batch, 1, 8, 8] to the logits of the ten digits."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(64, 96)  # values and their gates, in one product
        self.classifier = nn.Linear(48, 10)

    def forward(self, x):
        values, gates = self.gate(x.flatten(1)).chunk(2, dim=1)
        return self.classifier(swish_gate(values, gates, 1.5))


def main():
    file = Path(sys.argv[1] if len(sys.argv) > 1 else HERE) / "custom_op.onnx"
    torch.manual_seed(0)
    program = torch.onnx.export(Gated().eval(), (torch.zeros(BATCH, 1, 8, 8),), dynamo=True, optimize=False, input_names=["x"],
                                output_names=["logits"],
                                custom_translation_table={torch.ops.examples.swish_gate.default: as_onnx})
    program.save(file, external_data=False)
    make_paths_relative(file, HERE)


if __name__ == "__main__":
    main()
