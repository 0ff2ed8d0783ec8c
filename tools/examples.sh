#!/usr/bin/env bash
# Runs the scripts of examples/ as a user would: exports each model into build/examples/, sees that Partita finds in it what it finds
# in the file that lies in examples/, and trains it for a few steps on 3 devices against a serial run, in float64.
# The scripts need torch, onnx and onnxscript. What Python lacks of these goes into .deps/python, after asking unless CI is set.
#   PARTITA=PROGRAM   another program than build/release/partita
# Exit codes: 0 all as it should be, 1 not, 3 Python's packages are missing and may not or cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
partita=${PARTITA:-build/release/partita}
readonly packages=(onnx==1.23.2 onnxscript==0.7.2 numpy filelock typing-extensions sympy networkx jinja2 fsspec)

say() { printf 'examples: %s\n' "$*" >&2; }
export PYTHONPATH=$PWD/.deps/torch:$PWD/.deps/python${PYTHONPATH:+:$PYTHONPATH}

can_export() { python3 -c 'import torch, onnx, onnxscript, numpy' 2>/dev/null; }
if ! can_export; then
  say "the exporting scripts need ${packages[*]}, which pip will put into .deps/python of this folder (0.15 GB)"
  if [ -z "${CI:-}" ]; then
    [ -t 0 ] || { say "there is no terminal to ask on: run it again with CI=1 to agree"; exit 3; }
    read -r -p "Go on? [Y/n] " answer || answer=n
    case $answer in '' | [yY]*) ;; *) say "nothing was installed"; exit 3 ;; esac
  fi
  rm -rf .deps/python
  python3 -m pip install -q --no-compile --root-user-action=ignore --target .deps/python "${packages[@]}" || { say "pip could not install them"; exit 3; }
  can_export || { say "Python still cannot import torch, onnx and onnxscript: $(python3 -c 'import torch, onnx, onnxscript, numpy' 2>&1 | tail -1)"; exit 3; }
fi

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
  python3 "examples/export_$script.py" build/examples >"build/examples/$script.log" 2>&1 || { cat "build/examples/$script.log" >&2; exit 1; }
done
train=("$partita" train --devices 3 --steps 4 --lr 0.05 --dtype float64 --verify serial)
same_model digits.onnx
"${train[@]}" build/examples/digits.onnx --data examples/digits-train.npz
same_model language_model.onnx
"${train[@]}" build/examples/language_model.onnx --data build/examples/text.npz --optimizer adamw
same_model custom_op.onnx --tdl examples/swish_gate.tdl
"${train[@]}" build/examples/custom_op.onnx --tdl examples/swish_gate.tdl --data examples/digits-train.npz
say "all three exported, the same as in examples/, and trained"
