#!/usr/bin/env bash
# What `make demo` runs: plans, simulates and trains a real model on 4 devices of this machine, and says what it found.
set -euo pipefail
cd "$(dirname "$0")/.."
partita=build/release/partita
model=examples/digits.onnx
out=build/demo
mkdir -p "$out"
settings=(--loss cross_entropy --lr 0.02 --momentum 0.9)

echo "The model: a convolutional classifier with batch norm, as PyTorch exports it, for 8x8 images of handwritten digits."
"$partita" show "$model"
echo
echo "Plans for 4 devices. Each says how every operation and tensor is split; the better one moves fewer bytes."
best="" least=""
for search in soybean data-parallel; do
  echo
  "$partita" plan "$model" "${settings[@]}" --devices 4 --search "$search" -o "$out/$search.json" 2>/dev/null
  bytes=$("$partita" check "$out/$search.json" --json | sed -n 's/.*"comm_bytes": \([0-9]*\).*/\1/p')
  if [ -z "$least" ] || [ "$bytes" -lt "$least" ]; then least=$bytes best=$search; fi
done
cp "$out/$best.json" plan.json
echo
echo "Training with the plan of $best, on 1,437 images; 360 others are the test. The serial run is repeated to compare."
"$partita" train plan.json --data examples/digits-train.npz --test-data examples/digits-test.npz --epochs 16 --verify serial --trace trace.json | tee "$out/train.txt"
accuracy=$(sed -n 's/^test accuracy *\([0-9]*\)\..*/\1/p' "$out/train.txt")
if [ "$accuracy" -lt 95 ]; then
  echo "The test accuracy is below 95%: something is wrong. Please report this output." >&2
  exit 1
fi
echo
echo "Over hundreds of steps rounding alone drives float32 runs of a network with ReLU apart. In float64, 20 steps of the same plan:"
"$partita" train "$model" "${settings[@]}" --devices 4 --search "$best" --dtype float64 --data examples/digits-train.npz --steps 20 --verify serial 2>/dev/null |
  grep '^against serial'
cat <<'END'

Written:  plan.json   the plan: read it, pin a part of it, plan again with --pin
          trace.json  what ran when: open it in a trace viewer such as Perfetto
Try next: build/release/partita simulate plan.json --trace predicted.json
          build/release/partita compare examples/digits.onnx --devices 8 --search data-parallel,model-parallel,soybean
          build/release/partita plan zoo:resnet-18 --cluster p2.8xlarge
END
