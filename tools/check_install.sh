#!/usr/bin/env bash
# check_install.sh BUILD: installs BUILD into a fresh folder, builds examples/cpp and README.md's program against it as a
# stranger would, and runs both and the installed `partita`.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
folder=$build/install_check
rm -rf "$folder"
cmake --install "$build" --prefix "$folder/prefix" >/dev/null
cmake -S "$source/examples/cpp" -B "$folder/cpp" -G Ninja -DCMAKE_PREFIX_PATH="$folder/prefix" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$folder/cpp"
"$folder/cpp/train"
mkdir "$folder/readme"
cp "$source/examples/cpp/CMakeLists.txt" "$folder/readme"
sed -n '/^    #include/,/^    }/s/^    //p' "$source/README.md" > "$folder/readme/train.cc"
cmake -S "$folder/readme" -B "$folder/readme/build" -G Ninja -DCMAKE_PREFIX_PATH="$folder/prefix" >/dev/null
cmake --build "$folder/readme/build"
"$folder/readme/build/train"
"$folder/prefix/bin/partita" train zoo:mlp --devices 2 --steps 2 --verify serial
