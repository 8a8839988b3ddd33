#!/bin/bash
# Every row of the operators' tables, forward and backward, in every floating-point type on the emulated GPU, against float64 on
# the CPU. tests/run.sh takes one large row of each operator; this takes all, and much longer.
#
#   tests/gpu/every_type.sh [gtest's flags]
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' tests/gpu/every_type.sh; exit 0 ;; esac
read -ra bazel <<< "${BAZEL:-bazel}"
"${bazel[@]}" build //tests/gpu:gpu_op_test //tests/gpu/emulated:libgluond_cuda_emulated.so >&2
exec bazel-bin/tests/gpu/gpu_op_test --plugin=bazel-bin/tests/gpu/emulated/libgluond_cuda_emulated.so \
  --gtest_filter='*EveryFloatType*' "$@"
