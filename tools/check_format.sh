#!/usr/bin/env bash
# Whether every .h and .cc is as clang-format writes it (.clang-format); prints where not. Versions differ in what they write, so only
# the one below is asked. Exit codes: 0 all formatted, 1 not, 2 it cannot run.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly version=14
git rev-parse --git-dir >/dev/null 2>&1 || { echo "check_format: this is no git checkout, which says what the sources are"; exit 2; }
clang_format=$(command -v "clang-format-$version" || command -v clang-format) || {
  echo "check_format: clang-format $version is missing (Debian: apt-get install clang-format-$version)"
  exit 2
}
if ! "$clang_format" --version | grep -q "version $version\\."; then
  echo "check_format: $("$clang_format" --version) is not version $version, which this code is formatted with (Debian: apt-get install clang-format-$version)"
  exit 2
fi
if ! git ls-files '*.h' '*.cc' | xargs "$clang_format" --dry-run -Werror --ferror-limit=1; then
  echo "check_format: not formatted: run make format"
  exit 1
fi
echo "check_format: $(git ls-files '*.h' '*.cc' | wc -l) files are formatted"
