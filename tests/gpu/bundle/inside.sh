#!/bin/bash
# Runs a program of the bundle with the libraries that run.sh has found: `bin/inside PROGRAM [ARGUMENT]...`. The machine's
# own programs must not load ours, so nothing else sets LD_LIBRARY_PATH.
here=$(dirname "$(readlink -f "$0")")
export LD_LIBRARY_PATH=$GLUOND_LIBRARIES PYTHONHOME=$here/../python
export PYTHONPATH=$here/..:$here/../client:$here/../python/packages PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1 PYTHONUNBUFFERED=1
loader=()
if [ -n "$GLUOND_OLD_LIBC" ]; then
  libc=$(readlink -f "$here/../libc")
  loader=("$libc/ld-linux-x86-64.so.2" --library-path "$libc:$LD_LIBRARY_PATH")
fi
exec "${loader[@]}" "$here/$1" "${@:2}"
