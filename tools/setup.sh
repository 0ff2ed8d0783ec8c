#!/usr/bin/env bash
# Installs what the build needs and the machine lacks: distribution packages (Debian's names, through apt-get), and in .deps/
# Python wheels: torch (ATen's headers and libraries) and onnx (onnx.proto).
# coinor-cbc is the solver that the integer program of placements runs; without it all else works.
#   --tests   also the Python packages that torch, and the scripts of tests and examples, import (.deps/python)
#   --style   also clang-format and clang-tidy, which `make style` runs
#   --fuzz    also clang and its libraries of sanitizers, which `make fuzz` builds with
# Prints what it will install and asks first, unless CI is set. Nothing to install: it says nothing.
#   CI=1                    do not ask
#   CMAKE_PREFIX_PATH=DIR   use the torch or libtorch at DIR (it has include/ATen) instead of installing one
# Exit codes: 0 all there, 3 something is missing that it may not or cannot install.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly torch_version=2.13.0
readonly onnx_version=1.23.2
# All that torch, onnx and onnxscript import, so that nothing depends on what this machine's Python has (tools/isolated.py).
readonly python_packages=(
  typing_extensions==4.16.0 sympy==1.14.0 mpmath==1.3.0 numpy==2.4.6 filelock==4.3.1 networkx==3.6.1 jinja2==3.1.6
  markupsafe==3.0.4 fsspec==2026.9.0 onnxscript==0.7.2 onnx_ir==1.1.0 ml_dtypes==0.6.0
  protobuf==7.36.2 packaging==26.4)
readonly packages=(
  g++ cmake ninja-build ccache mold make git ca-certificates
  protobuf-compiler libprotobuf-dev libcli11-dev nlohmann-json3-dev libyaml-cpp-dev libfmt-dev libgtest-dev
  libbenchmark-dev zlib1g-dev nettle-dev libmimalloc-dev coinor-cbc python3)
readonly style_packages=(clang-format-14 clang-tidy-14)
readonly fuzz_packages=(clang-14 libclang-rt-14-dev)

say() { printf 'setup: %s\n' "$*" >&2; }
refuse() { say "$@"; exit 3; }

# wheel_is_there NAME VERSION: .deps/NAME holds that version, completely (the stamp is written last).
wheel_is_there() { [ "$(cat ".deps/$1/.version" 2>/dev/null)" = "$2" ]; }

# A torch that was pointed to, as CMake will look for it (cmake/dependencies.cmake).
torch_is_pointed_to() {
  local dir
  for dir in ${CMAKE_PREFIX_PATH//[:;]/ }; do
    [ -e "$dir/include/ATen/ATen.h" ] || [ -e "$dir/../../include/ATen/ATen.h" ] && return 0
  done
  return 1
}
CMAKE_PREFIX_PATH=${CMAKE_PREFIX_PATH:-}

# The stamp of .deps/python: its packages, in one line.
readonly python_stamp="${python_packages[*]}"

with_tests= with_style= with_fuzz=
for option in "$@"; do
  case $option in
    --tests) with_tests=1 ;;
    --style) with_style=1 ;;
    --fuzz) with_fuzz=1 ;;
    *) refuse "$option is no option: --tests, --style or --fuzz" ;;
  esac
done

wheels=()
torch_is_pointed_to || wheel_is_there torch "$torch_version" || wheels+=("torch==$torch_version")
wheel_is_there onnx "$onnx_version" || wheels+=("onnx==$onnx_version")
python_wheels=()
[ -z "$with_tests" ] || wheel_is_there python "$python_stamp" || python_wheels=("${python_packages[@]}")

wanted=("${packages[@]}")
[ -z "$with_style" ] || wanted+=("${style_packages[@]}")
[ -z "$with_fuzz" ] || wanted+=("${fuzz_packages[@]}")
if [ $((${#wheels[@]} + ${#python_wheels[@]})) -gt 0 ] && ! python3 -c 'import pip' 2>/dev/null; then wanted+=(python3-pip); fi

missing=()
if command -v dpkg-query >/dev/null; then
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true)
  for package in "${wanted[@]}"; do
    grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
  done
else
  say "this is not a Debian-like system: the build needs what Debian calls ${packages[*]}"
  for tool in g++ cmake ninja protoc python3; do
    command -v "$tool" >/dev/null || refuse "$tool is missing: install it and run this again"
  done
fi
[ $((${#missing[@]} + ${#wheels[@]} + ${#python_wheels[@]})) -gt 0 ] || exit 0

# How packages would be installed: as root, or through sudo. Without either the line is named for someone who may.
# Another apt-get may hold the lock, such as the system's own upgrades: it is waited for.
apt=()
if [ ${#missing[@]} -gt 0 ]; then
  line="apt-get install --no-install-recommends ${missing[*]}"
  if [ "$(id -u)" = 0 ]; then
    apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    apt=(sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  else
    refuse "packages are missing, and installing them needs root. As root run: $line"
  fi
fi

say "the build needs what is not here yet, and will install"
[ ${#missing[@]} -eq 0 ] || say "  with apt-get: ${missing[*]}"
[ ${#wheels[@]} -eq 0 ] || say "  with pip, into .deps/ of this folder: ${wheels[*]} (torch takes 0.7 GB, its CUDA build 4 GB)"
[ ${#python_wheels[@]} -eq 0 ] || say "  with pip, into .deps/python, for tests and examples (0.2 GB): ${python_wheels[*]}"
if [ -z "${CI:-}" ]; then
  [ -t 0 ] || refuse "there is no terminal to ask on: run it again with CI=1 to agree"
  read -r -p "Go on? [Y/n] " answer || answer=n
  case $answer in '' | [yY]*) ;; *) refuse "nothing was installed" ;; esac
fi

if [ ${#missing[@]} -gt 0 ]; then
  "${apt[@]}" update -q || say "apt-get update failed; trying with the package lists that are here"
  "${apt[@]}" install -q -y --no-install-recommends "${missing[@]}" ||
    refuse "apt-get could not install the packages; when that is mended, run this again (or, as root: $line)"
fi

# fetch NAME STAMP HINT WHEEL..: the wheels into .deps/NAME, all or nothing. --target leaves the system's Python alone (PEP 668).
fetch() {
  local name=$1 stamp=$2 hint=$3 new=.deps/$1.new
  shift 3
  rm -rf "$new"
  mkdir -p .deps
  python3 -m pip install -q --no-compile --root-user-action=ignore --no-deps --target "$new" "$@" || refuse "pip could not install $*$hint"
  # Torch's CUDA build loads NVIDIA's libraries from folders beside its own: they come along.
  local cuda
  cuda=$(python3 tools/cuda_wheels.py "$new")
  if [ -n "$cuda" ]; then
    say "torch is its CUDA build here: its libraries come along"
    mapfile -t cuda <<<"$cuda"
    python3 -m pip install -q --no-compile --root-user-action=ignore --target "$new" "${cuda[@]}" || refuse "pip could not install what torch needs: ${cuda[*]}"
  fi
  echo "$stamp" >"$new/.version"
  rm -rf ".deps/$name"
  mv "$new" ".deps/$name"
}
for wheel in "${wheels[@]}"; do
  say "installing $wheel"
  hint=
  [[ $wheel != torch==* ]] || hint=" (with a torch or libtorch on this machine: CMAKE_PREFIX_PATH=ITS_FOLDER make build)"
  fetch "${wheel%%==*}" "${wheel##*==}" "$hint" "$wheel"
done
if [ ${#python_wheels[@]} -gt 0 ]; then
  say "installing the Python packages of tests and examples"
  fetch python "$python_stamp" "" "${python_wheels[@]}"
fi
