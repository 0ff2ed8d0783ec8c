#!/usr/bin/env bash
# Whether the subjects of the commits that are not pushed yet have fewer than 72 characters; prints those that have not.
# Without an upstream branch no commit is looked at. Exit codes: 0 all are shorter, 1 not.
set -euo pipefail
cd "$(dirname "$0")/.."
long=$(git log --no-merges --format='%h %s' '@{upstream}..HEAD' 2>/dev/null |
  awk '{ subject = substr($0, index($0, " ") + 1) } length(subject) >= 72') || true
[ -z "$long" ] && exit 0
echo "check_subjects: these have 72 characters or more; the why belongs in the body (git rebase -i '@{upstream}'):"
echo "$long"
exit 1
