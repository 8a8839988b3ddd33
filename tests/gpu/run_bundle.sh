#!/bin/bash
# Runs what tests/gpu/bundle.sh packed: every operator case on the GPU and against the CPU, then LeNet's training through
# server and client. The last line is `N passed, N failed`. Fails where a case fails, and where there is no GPU.
#
#   run.sh [EPOCHS]      epochs of the training; 2 unless said
set -uo pipefail
here=$(dirname "$(readlink -f "$0")")
epochs=${1:-2}
work=$(mktemp -d)
server=
stop() {
  [ -n "$server" ] && kill "$server" 2> /dev/null && wait "$server" 2> /dev/null
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' INT TERM

# CUDA's libraries: a toolkit's, or those that PyTorch brought.
cuda=
for folder in "${CUDA_HOME:-/usr/local/cuda}"/{lib64,lib,targets/x86_64-linux/lib}; do
  [ -d "$folder" ] && cuda=$cuda:$folder
done
if command -v python3 > /dev/null; then
  while read -r folder; do cuda=$cuda:$folder; done < <(python3 -c '
import glob, site, sys
for root in sys.path + site.getsitepackages() + [site.getusersitepackages()]:
  for folder in glob.glob(root + "/nvidia/*/lib"): print(folder)' 2> /dev/null | sort -u)
fi
export LD_LIBRARY_PATH=$here/lib$cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# The machine's C library, or ours where it is too old for the programs.
loader=()
if ! "$here/bin/gluond" --help > /dev/null 2>&1; then
  loader=("$here/libc/ld-linux-x86-64.so.2" --library-path "$here/libc:$LD_LIBRARY_PATH")
fi
export GOMP_SPINCOUNT=75000  # The server would start itself anew to set it, which a loader of ours prevents.

passed=0 failed=0
count() {  # count NAME STATUS
  if [ "$2" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED: $1"; fi
}
finish() {
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
  exit
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2> /dev/null
plugin=$here/bin/libgluond_cuda.so
"${loader[@]}" "$here/bin/gpu_op_test" --plugin="$plugin" --gtest_brief=1 > "$work/ops" 2>&1
status=$?
grep -v '^Running\|^\[ *=' "$work/ops" | tail -200
if [ $status = 3 ]; then  # No GPU, or no CUDA libraries: its one line stands above.
  count "a GPU" 1
  finish
fi
passed=$((passed + $(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests\?\.$/\1/p' "$work/ops" | tail -1)))
failures=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) tests\?, listed below:$/\1/p' "$work/ops" | tail -1)
failed=$((failed + ${failures:-0}))
if [ $status != 0 ] && [ -z "$failures" ]; then count "gpu_op_test ended with status $status" 1; fi

"${loader[@]}" "$here/bin/gluond-server" --address=127.0.0.1:0 --port_file="$work/port" --devices=gpu:0,cpu \
  --cuda_plugin="$plugin" > "$work/server" 2>&1 &
server=$!
for _ in $(seq 300); do
  [ -s "$work/port" ] && break
  kill -0 "$server" 2> /dev/null || break
  sleep 0.1
done
if [ ! -s "$work/port" ]; then
  cat "$work/server"
  count "the server on gpu:0" 1
  finish
fi
grep device "$work/server"
"${loader[@]}" "$here/bin/gluond" train --address="127.0.0.1:$(cat "$work/port")" --data="$here/data" --device=gpu:0 \
  --epochs="$epochs" --checkpoint=- --curve=- | tee "$work/train" | tr '\r' '\n' | tail -5
count "LeNet's training on gpu:0" "${PIPESTATUS[0]}"
accuracy=$(sed -n 's/.*test accuracy: \([0-9.]*\).*/\1/p' "$work/train" | tail -1)
awk -v a="${accuracy:-0}" 'BEGIN {exit !(a >= 0.85)}'
count "test accuracy ${accuracy:-unknown}, expected 0.85 or more" $?
kill -TERM "$server"
wait "$server"
count "the server's stop" $?
server=
finish
