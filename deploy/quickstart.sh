#!/bin/bash
# From a fresh Debian 12 machine to a trained network, in one command:
#
#   deploy/quickstart.sh [SEED]
#
# Installs missing Debian packages, builds, starts a server on loopback, and lets a client train LeNet on the
# 60,000 images of Fashion-MNIST over gRPC. Then it saves a checkpoint, restarts the server, loads the checkpoint, and
# shows ten images with the network's answers. Everything it writes is in quickstart/. Safe to run again, and
# to interrupt: no process stays behind. The last line is `test accuracy: 0.9xxx`.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' deploy/quickstart.sh; exit 0 ;; esac
seed=${1:-1}
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

start_server() {
  rm -f "$out/port"
  "$bin/server/gluond-server" --address=127.0.0.1:0 --port_file="$out/port" --store_dir="$out/store" \
    2>>"$out/server.log" &
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
}

say "1/5 packages"
deploy/setup.sh

say "2/5 build (a few minutes the first time)"
# Without a Bazel server, which would outlive this script.
rm -f "bazel-${PWD##*/}"
bazel --batch build //server:gluond-server //client/cli:gluond
bin=$PWD/bazel-bin
mkdir -p "$out"
: >"$out/server.log"

say "3/5 train LeNet on Fashion-MNIST: a server, and a client that speaks to it over gRPC"
start_server
"$bin/client/cli/gluond" train --address="$address" --recipe=lenet --seed="$seed" --replace \
  --curve="$out/training-curve.svg" | tee "$out/train.log"

say "4/5 restart the server, load the checkpoint, predict"
stop_server
start_server
"$bin/client/cli/gluond" predict --address="$address" --model=lenet --checkpoint=lenet

say "5/5 stop"
stop_server
echo "training curve:  quickstart/training-curve.svg"
echo "checkpoint:      quickstart/store"
grep '^test accuracy:' "$out/train.log" | tail -n 1
