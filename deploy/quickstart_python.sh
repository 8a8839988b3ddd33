#!/bin/bash
# From a fresh Debian 12 machine to Gluon in Python, in one command:
#
#   deploy/quickstart_python.sh [lenet.py's options]
#   deploy/quickstart_python.sh --wheel=FILE [lenet.py's options]      with the package and programs of a wheel
#   deploy/quickstart_python.sh --build [lenet.py's options]           builds, though there are programs on PATH
#
# Says what it will do and how long that takes. Installs missing Debian packages, builds the server, the command `gluond` and the
# Python package's messages, starts a server on loopback, and runs client/python/examples/lenet.py: the code of MXNet's tutorials,
# computed by that server. Its last act is to save what it has trained as the server's model `lenet`, which `gluond predict`
# and, where it is installed, grpcurl then ask. All output is in quickstart/. Safe to run again, and to interrupt: no process
# stays behind. The last line is `test accuracy: 0.9xxx`.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' deploy/quickstart_python.sh; exit 0 ;; esac
. deploy/quickstart_server.sh
options "$@"

prepare 4
# The checkout's package, unless another is installed.
package=''
if [[ $from == build ]] || ! "$python" -c 'import gluond' 2>/dev/null; then
  package=$PWD/client/python
  "$python" client/python/build_stubs.py
fi

say "3/4 train LeNet on Fashion-MNIST, and save it as a model"
start_server
GLUOND_ADDRESS=$address PYTHONPATH=$package \
  "$python" client/python/examples/lenet.py "${rest[@]}" | tee "$out/lenet.log"

say "4/4 ask the model from elsewhere"
"$gluond" predict --address="$address" --model=lenet
if command -v "${GRPCURL:-grpcurl}" >/dev/null; then
  deploy/grpcurl/run.sh "$address" deploy/grpcurl/lenet
fi
stop_server
grep '^test accuracy:' "$out/lenet.log" | tail -n 1
