#!/bin/bash
# From a fresh Debian 12 machine to Gluon in Python, in one command:
#
#   deploy/quickstart_python.sh [lenet.py's options]
#
# Installs missing Debian packages, builds the server and the Python package's messages, and runs
# client/python/examples/lenet.py: the code of MXNet's tutorials, computed by a private server that it starts and ends.
# Its output is in quickstart/. Safe to run again, and to interrupt: no process stays behind. The last line is
# `test accuracy: 0.9xxx`.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' deploy/quickstart_python.sh; exit 0 ;; esac

printf '\n== 1/3 packages\n'
deploy/setup.sh

printf '\n== 2/3 build (a few minutes the first time)\n'
# Without a Bazel server, which would outlive this script.
rm -f "bazel-${PWD##*/}"
bazel --batch build //server:gluond-server
/usr/bin/python3 client/python/build_stubs.py

printf '\n== 3/3 train LeNet on Fashion-MNIST\n'
# In this script's place: so a signal meets Python itself, and the server ends with that.
GLUOND_SERVER=$PWD/bazel-bin/server/gluond-server PYTHONPATH=$PWD/client/python \
  exec /usr/bin/python3 client/python/examples/lenet.py "$@"
