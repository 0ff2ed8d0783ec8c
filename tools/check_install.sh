#!/usr/bin/env bash
# check_install.sh BUILD: installs BUILD into a fresh folder, builds examples/cpp against it as a stranger would, and runs both that
# program and the installed `partita`.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
folder=$build/install_check
rm -rf "$folder"
cmake --install "$build" --prefix "$folder/prefix" >/dev/null
cmake -S "$source/examples/cpp" -B "$folder/cpp" -G Ninja -DCMAKE_PREFIX_PATH="$folder/prefix" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$folder/cpp"
"$folder/cpp/train"
"$folder/prefix/bin/partita" train zoo:mlp --devices 2 --steps 2 --verify serial
