#!/bin/bash
# The engine's tests, the seeds', the Python client's and the networks of tests/bench, with each optional pass of the compiler left
# out in turn. The last line is `N passed, N failed`, in passes.
#
#   tests/passes.sh [PASS...]     such as fold_affine; none: all
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
passes=("$@")
# The list's names are texts, or constants of its header.
names() {
  grep -oP '\{\K("[a-z_]+"|k\w+)(?=, Stage::k\w+, kOptional)' engine/compile/pipeline.cc | while read -r name; do
    [[ $name == \"* ]] || name=$(grep -oP "$name = \K\"[a-z_]+\"" engine/compile/pipeline.h)
    echo "${name//\"/}"
  done
}
[[ $# -gt 0 ]] || mapfile -t passes < <(names)
tests=(//tests/engine/... //tests/seeds/... //tests/client/python/... //tests/bench:tiny_test)
passed=0 failed=0
for pass in "${passes[@]}"; do
  echo "== without $pass"
  if bazel test --test_env="GLUOND_PASSES=-$pass" --test_output=errors --keep_going --build_tests_only "${tests[@]}"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed"
[[ $failed == 0 && $passed != 0 ]]
