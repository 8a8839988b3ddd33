#!/bin/bash
# Sets up, builds and runs the tests. The last line is `N passed, N failed`, in test cases.
#
#   tests/run.sh                      every test
#   tests/run.sh PATTERN              the targets whose label matches this regular expression; where none
#                                     does, the cases whose name holds PATTERN (of gtest and unittest)
#   tests/run.sh [PATTERN] --asan     with AddressSanitizer; likewise --ubsan
#   tests/run.sh [PATTERN] --tsan     with ThreadSanitizer: engine/runtime and server only
#   tests/run.sh --operations         with Prometheus, HAProxy and nginx, which are installed first: the tests with the tag
#                                     `operations` only
#   tests/run.sh [PATTERN] --cuda     with the CUDA toolkit: the tests with the tag `cuda` only
#   tests/run.sh [PATTERN] --peers    others' programs against the real server: the tests with the tag `peers` only. The
#                                     programs are installed from PyPI and Debian, outside of the checkout; where that
#                                     is not possible the tests are skipped by name
#
# Fails if a case fails, if a target cannot be built, crashes or runs no case, or if PATTERN matches nothing.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' tests/run.sh; exit 0 ;; esac
programs=()
case " $* " in *" --operations "*) programs=(prometheus haproxy nginx-light) ;; esac
deploy/setup.sh "${programs[@]}"
# Bazel's link to its working folder, if another user or output root left it, would be searched for BUILD files.
rm -f "bazel-${PWD##*/}"
exec /usr/bin/python3 tests/run_cases.py "$@"
