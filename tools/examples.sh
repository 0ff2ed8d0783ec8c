#!/usr/bin/env bash
# Runs the scripts of examples/ as a user would: exports each model into build/examples/, sees that Partita finds in it what it finds
# in the file that lies in examples/, and trains it for a few steps on 3 devices against a serial run, in float64.
# The scripts need torch, onnx and onnxscript, which `tools/setup.sh --tests` puts into .deps/; they see nothing else (tools/isolated.py).
#   PARTITA=PROGRAM   another program than build/release/partita
# Exit codes: 0 all as it should be, 1 not.
set -euo pipefail
cd "$(dirname "$0")/.."
partita=${PARTITA:-build/release/partita}

say() { printf 'examples: %s\n' "$*" >&2; }

# same_model FILE OPTIONS..: the exported file is to Partita what the one in examples/ is.
same_model() {
  local file=$1
  shift
  diff <("$partita" show "examples/$file" "$@" --nodes) <("$partita" show "build/examples/$file" "$@" --nodes) ||
    { say "build/examples/$file is not as examples/$file"; exit 1; }
}

mkdir -p build/examples
for script in digits language_model custom_op; do
  say "export_$script.py"
  python3 tools/isolated.py "examples/export_$script.py" build/examples >"build/examples/$script.log" 2>&1 || { cat "build/examples/$script.log" >&2; exit 1; }
done
train=("$partita" train --devices 3 --steps 4 --lr 0.05 --dtype float64 --verify serial)
same_model digits.onnx
"${train[@]}" build/examples/digits.onnx --data examples/digits-train.npz
same_model language_model.onnx
"${train[@]}" build/examples/language_model.onnx --data build/examples/text.npz --optimizer adamw
same_model custom_op.onnx --tdl examples/swish_gate.tdl
"${train[@]}" build/examples/custom_op.onnx --tdl examples/swish_gate.tdl --data examples/digits-train.npz
say "all three exported, the same as in examples/, and trained"
