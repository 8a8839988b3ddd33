#!/bin/bash
# From a fresh Debian 12 machine to Gluon in Python, in one command:
#
#   deploy/quickstart_python.sh [lenet.py's options]
#
# Installs missing Debian packages, builds the server, the command `gluond` and the Python package's messages, starts a
# server on loopback, and runs client/python/examples/lenet.py: the code of MXNet's tutorials, computed by that server. Its
# last act is to save what it has trained as the server's model `lenet`, which `gluond predict` and, where it is
# installed, grpcurl then ask. All output is in quickstart/. Safe to run again, and to interrupt: no process stays behind.
# The last line is `test accuracy: 0.9xxx`.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' deploy/quickstart_python.sh; exit 0 ;; esac
out=$PWD/quickstart
server_pid=

say() { printf '\n== %s\n' "$*"; }

stop_server() {
  [[ -n $server_pid ]] || return 0
  kill -TERM "$server_pid" 2>/dev/null || true
  wait "$server_pid" 2>/dev/null || true
  server_pid=
}
# A second signal while the server drains must not leave it behind.
trap 'trap "" INT TERM; stop_server' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say "1/4 packages"
deploy/setup.sh

say "2/4 build (a few minutes the first time)"
# Without a Bazel server, which would outlive this script.
rm -f "bazel-${PWD##*/}"
bazel --batch build //server:gluond-server //client/cli:gluond
bin=$PWD/bazel-bin
/usr/bin/python3 client/python/build_stubs.py

say "3/4 train LeNet on Fashion-MNIST, and save it as a model"
mkdir -p "$out"
rm -f "$out/port"
"$bin/server/gluond-server" --address=127.0.0.1:0 --port_file="$out/port" --store_dir="$out/store" 2>"$out/server.log" &
server_pid=$!
for _ in {1..200}; do
  [[ -s $out/port ]] && break
  kill -0 "$server_pid" 2>/dev/null || break
  sleep 0.05
done
if [[ ! -s $out/port ]]; then
  echo "quickstart: the server did not start; its log ends:" >&2
  tail -n 20 "$out/server.log" >&2
  exit 1
fi
address=127.0.0.1:$(<"$out/port")
GLUOND_ADDRESS=$address PYTHONPATH=$PWD/client/python \
  /usr/bin/python3 client/python/examples/lenet.py "$@" | tee "$out/lenet.log"

say "4/4 ask the model from elsewhere"
"$bin/client/cli/gluond" predict --address="$address" --model=lenet
if command -v "${GRPCURL:-grpcurl}" >/dev/null; then
  deploy/grpcurl/run.sh "$address" deploy/grpcurl/lenet
fi
stop_server
grep '^test accuracy:' "$out/lenet.log" | tail -n 1
