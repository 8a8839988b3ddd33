#!/bin/bash
# Builds the fuzz targets with clang and its sanitizers, and runs them, one after the other, from the corpus on.
#
#   tests/fuzz/run.sh [SECONDS] [TARGET...]    SECONDS for each target (default 60); every target, or those named
#   tests/fuzz/run.sh --merge [TARGET...]      takes over into corpus/ which of the inputs found reach something new
#
# A line for each target says how much of the code was reached (libFuzzer's cov: edges, ft: features), the number of
# executions, and the findings: inputs that crash, leak, take too long or too much memory. They, and new inputs, are kept
# in ${GLUOND_FUZZ_DIR:-/tmp/gluond-fuzz}/TARGET. Fails if there is a finding. A finding that is repaired belongs in
# corpus/TARGET under a name that says what it is: tests/run.sh runs every target on its corpus.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' tests/fuzz/run.sh; exit 0 ;; esac

seconds=60 merge=
if [[ ${1:-} == --merge ]]; then merge=1; shift; elif [[ ${1:-} =~ ^[0-9]+$ ]]; then seconds=$1; shift; fi
targets=("$@")
if [[ $# == 0 ]]; then targets=($(ls tests/fuzz/corpus)); fi
for target in "${targets[@]}"; do
  [[ -d tests/fuzz/corpus/$target ]] || { echo "run: no target '$target'; there are:" $(ls tests/fuzz/corpus) >&2; exit 2; }
done

deploy/setup.sh clang libclang-rt-14-dev libomp-14-dev
bazel build --config=fuzz $(printf '//tests/fuzz:%s_fuzz ' "${targets[@]}")
programs=$(bazel info --config=fuzz bazel-bin 2>/dev/null)/tests/fuzz

fuzz() {
  local target=$1 folder=${GLUOND_FUZZ_DIR:-/tmp/gluond-fuzz}/$1 log found
  mkdir -p "$folder/inputs" "$folder/findings"
  log=$folder/log
  if [[ -n $merge ]]; then
    "$programs/${target}_fuzz" -merge=1 "tests/fuzz/corpus/$target" "$folder/inputs" >"$log" 2>&1
    echo "$target: $(ls "tests/fuzz/corpus/$target" | wc -l) inputs"
    return
  fi
  "$programs/${target}_fuzz" -max_total_time="$seconds" -max_len=8192 -timeout=30 -rss_limit_mb=3072 \
    -print_final_stats=1 -artifact_prefix="$folder/findings/" "$folder/inputs" "tests/fuzz/corpus/$target" \
    >"$log" 2>&1 || true
  found=$(find "$folder/findings" -type f | wc -l)
  printf '%-12s cov %s, %s executions, %s findings%s\n' "$target" \
    "$(grep -o 'cov: [0-9]* ft: [0-9]*' "$log" | tail -1 | sed 's/cov: //; s/ ft:/ ft/')" \
    "$(sed -n 's/^stat::number_of_executed_units: //p' "$log")" "$found" "${found:+ (log: $log)}"
  [[ $found == 0 ]]
}

failed=0
for target in "${targets[@]}"; do fuzz "$target" || failed=1; done
exit "$failed"
