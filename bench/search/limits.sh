#!/usr/bin/env bash
# limits.sh PARTITA [LIMIT..]: how time limits are kept, and `auto` beside `exact` within the same limit (seconds; 5 10 30 unless others are
# given). A row for each of ten models, both objectives and each limit: of each search the seconds from its start to its end, and what its plan
# costs, bytes or ns a step. Exit code 1 where a run ended later than its limit by more than a second and 5%, or where `auto` was dearer.
set -u
partita=$1
shift
limits=${*:-5 10 30}
data=$(dirname "$0")/../../tests/data/huggingface
models=(
  "zoo:mlp?layers=8,width=4096 --batch 512"
  "zoo:alexnet --batch 256"
  "zoo:vgg-16 --batch 64"
  "zoo:resnet-50 --batch 256"
  "zoo:inception-v3 --batch 64"
  "zoo:gpt2 --batch 8"
  "zoo:bert-large --batch 16"
  "zoo:rnnlm?steps=10 --batch 64"
  "$data/llama-3-8b --batch 8 --bind steps=2048"
  "$data/mixtral-8x7b --batch 8 --bind steps=2048"
)
cluster=dgx-h100
failed=0

# one SEARCH OBJECTIVE LIMIT MODEL..: sets `seconds` and `cost`; cost is empty without a plan.
one() {
  local search=$1 objective=$2 limit=$3
  shift 3
  local before out
  before=$(date +%s.%N)
  out=$("$partita" plan "$@" --cluster $cluster --search "$search" --objective "$objective" --time-limit "$limit" --json 2>/dev/null)
  seconds=$(awk -v a="$before" -v b="$(date +%s.%N)" 'BEGIN { print b - a }')
  local key=comm_bytes
  [ "$objective" = time ] && key=step_time_us
  cost=$(grep -oE "\"$key\": [0-9.e+]+" <<<"$out" | head -1 | grep -oE '[0-9.e+]+$')
  if awk -v s="$seconds" -v l="$limit" 'BEGIN { exit !(s > l + 1 && s > 1.05 * l) }'; then
    late=" LATE"
    failed=1
  else
    late=""
  fi
}

printf '%-62s %-5s %5s %22s %22s\n' model objective limit exact auto
for model in "${models[@]}"; do
  for objective in comm time; do
    for limit in $limits; do
      read -ra words <<<"$model"
      one exact $objective "$limit" "${words[@]}"
      exact=$cost exact_text=$(printf '%.1f s %s%s' "$seconds" "${cost:--}" "$late")
      one auto $objective "$limit" "${words[@]}"
      text=$(printf '%.1f s %s%s' "$seconds" "${cost:--}" "$late")
      if [ -n "$exact" ] && { [ -z "$cost" ] || awk -v a="$cost" -v e="$exact" 'BEGIN { exit !(a > e) }'; }; then
        text="$text DEARER"
        failed=1
      fi
      printf '%-62s %-5s %5s %22s %22s\n' "${model##*/}" $objective "$limit" "$exact_text" "$text"
    done
  done
done
exit $failed
