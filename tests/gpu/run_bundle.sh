#!/bin/bash
# Runs what tests/gpu/bundle.sh packed, within 8 minutes. Prints what it does, tables for docs/performance.md, and, as the last
# line, `N passed, N failed`. Fails where a case fails, and where there is no GPU.
#
#   run.sh                    on the machine's GPU
#   run.sh --emulated         on one that the processor emulates: a few operator cases, and each table with one small row
#   run.sh --torch PYTHON     an interpreter that has PyTorch, to compare with; python3 unless said
#   run.sh --profile WHAT...  instead of all that: the kernels of a step on both sides, as in `resnet50:training:all`
set -uo pipefail
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;; esac
here=$(dirname "$(readlink -f "$0")")
scale=full torch=python3 profile=()
export GLUOND_PLUGIN=$here/bin/libgluond_cuda.so
while (($#)); do
  case $1 in
    --emulated) scale=tiny GLUOND_PLUGIN=$here/bin/libgluond_cuda_emulated.so ;;
    --torch) torch=${2:?"--torch wants a PYTHON"} && shift ;;
    --profile) profile=("${@:2}") && break ;;
    *) echo "run.sh: '$1' is no option; see run.sh --help" >&2 && exit 2 ;;
  esac
  shift
done

# What the machine's own programs get, PyTorch above all.
for name in LD_LIBRARY_PATH PYTHONHOME PYTHONPATH PYTHONNOUSERSITE; do
  if [ -n "${!name:-}" ]; then export "MACHINE_$name=${!name}"; fi
done
# CUDA's libraries: a toolkit's, or those that PyTorch brought.
cuda=
for folder in "${CUDA_HOME:-/usr/local/cuda}"/{lib64,lib,targets/x86_64-linux/lib}; do
  [ -d "$folder" ] && cuda=$cuda:$folder
done
if command -v "$torch" > /dev/null; then
  while read -r folder; do cuda=$cuda:$folder; done < <("$torch" -c '
import glob, site, sys
for root in sys.path + site.getsitepackages() + [site.getusersitepackages()]:
  for folder in glob.glob(root + "/nvidia/*/lib"): print(folder)' 2> /dev/null | sort -u)
fi
export GLUOND_LIBRARIES=$here/lib$cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# The machine's C library, or ours where it is too old for the programs.
export GLUOND_OLD_LIBC=
"$here/bin/inside" gluond --help > /dev/null 2>&1 || GLUOND_OLD_LIBC=1

if ((${#profile[@]})); then exec "$here/bin/inside" python3 "$here/bundle/kernel_profile.py" --torch "$torch" "${profile[@]}"; fi

passed=0 failed=0 log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM
finish() {
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
  exit
}
# part SECONDS FILE ARGUMENT...: adds what a part counted. One that fails without a count, or in spite of it, is one failure.
part() {
  local limit=$1 file=$2 begin=$SECONDS
  shift 2
  echo "== $file $*"
  timeout --kill-after=5 "$limit" "$here/bin/inside" python3 "$here/bundle/$file" "$@" 2>&1 | tee "$log"
  local status=${PIPESTATUS[0]}
  if [[ $(tail -n 1 "$log") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
    [[ $status == 0 || ${BASH_REMATCH[2]} != 0 ]] || failed=$((failed + 1))
  elif [ "$status" != 0 ]; then
    echo "FAILED: $file ended with status $status and no count$([ "$status" = 124 ] && echo ", after its $limit seconds")"
    failed=$((failed + 1))
  fi
  echo "== $file: $((SECONDS - begin)) seconds"
  return "$status"
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2> /dev/null
if [ $scale = tiny ]; then
  part 120 operators.py few
else
  part 150 operators.py all
fi
[ $? != 3 ] || finish  # No GPU, or no CUDA libraries: its one line stands above.
if [ $scale = tiny ]; then
  part 60 large_operators.py tiny
  part 120 client_cases.py autograd
  part 120 trainings.py tiny
else
  part 90 large_operators.py full
  part 80 client_cases.py
  part 80 trainings.py full
  part 90 operators.py sanitizer
fi
left=$((475 - SECONDS))
part "$left" compare.py $scale --torch "$torch" --seconds $((left - 30))
finish
