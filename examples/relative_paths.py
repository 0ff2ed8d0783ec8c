"""The exporter writes the absolute path of every source file into the nodes' metadata; this makes them relative."""
import re
import sys
from pathlib import Path

import onnx


def metadata(message):
    """Every metadata entry at or below a message of the model."""
    yield from getattr(message, "metadata_props", [])
    for field, value in message.ListFields():
        if field.message_type and field.name not in ("metadata_props", "opset_import"):
            for part in value if hasattr(value, "__len__") else [value]:
                yield from metadata(part)


def make_paths_relative(model_file, *folders):
    """Paths below one of `folders` become relative to it; those of installed packages start with the package's name."""
    model = onnx.load(model_file)
    for entry in metadata(model):
        for folder in folders:
            entry.value = entry.value.replace(f"{Path(folder).resolve()}/", "")
        entry.value = re.sub(r'"/[^"]*/site-packages/', '"', entry.value)
        for folder in sorted(filter(None, sys.path), key=len, reverse=True):  # packages that lie elsewhere, and Python's own files
            entry.value = entry.value.replace(f'"{folder}/', '"')
        if re.search(r'"/', entry.value):
            raise SystemExit(f"{model_file}: {entry.key} still has an absolute path: {entry.value}")
    onnx.save(model, model_file)
