#!/bin/bash
# The format of C++ (clang-format, .clang-format) and Python (black, client/python/pyproject.toml). Where a formatter is not
# installed its part is skipped by name. The last line is `N passed, N failed`, in files.
#
#   tests/format.sh          names each file that differs
#   tests/format.sh --fix    formats the files
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
fix=''
case ${1:-} in
  '') ;;
  --fix) fix=1 ;;
  *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' tests/format.sh; exit 2 ;;
esac
passed=0 failed=0

# check FORMATTER VERSION PATTERN...: counts the files of the patterns. `differ FILE...` names those that differ.
check() {
  local formatter=$1 version=$2 all wrong
  shift 2
  if ! command -v "$formatter" >/dev/null; then
    echo "skipped: $formatter is not installed (deploy/setup.sh clang-format black)"
    return
  fi
  if [[ ! $("$formatter" --version) =~ (^|\ )$version\. ]]; then
    echo "skipped: this $formatter is not $version: $("$formatter" --version | head -n 1)"
    return
  fi
  mapfile -t all < <(git ls-files --cached --others --exclude-standard --deduplicate -- "$@")
  mapfile -t wrong < <("differ_$formatter" "${all[@]}")
  ((${#wrong[@]} == 0)) || printf 'not formatted: %s\n' "${wrong[@]}"
  passed=$((passed + ${#all[@]} - ${#wrong[@]})) failed=$((failed + ${#wrong[@]}))
}

differ_clang-format() {
  if [[ -n $fix ]]; then
    printf '%s\0' "$@" | xargs -0 -P "$(nproc)" -n 40 clang-format -i
  else
    printf '%s\0' "$@" | xargs -0 -P "$(nproc)" -n 40 clang-format --dry-run 2>&1 | sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: warning: .*/\1/p' | sort -u
  fi
}

differ_black() {
  local options=(--config client/python/pyproject.toml)
  if [[ -n $fix ]]; then
    black --quiet "${options[@]}" "$@"
  else
    black --check "${options[@]}" "$@" 2>&1 | sed -n 's/^would reformat //p; s/^error: cannot format \([^:]*\): .*/\1/p'
  fi
}

check clang-format 14 '*.cc' '*.h' '*.cu' '*.cuh'
check black 23 '*.py'
echo "$passed passed, $failed failed"
((failed == 0))
