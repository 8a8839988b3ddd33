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
. deploy/quickstart_server.sh

prepare 5

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
