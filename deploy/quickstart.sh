#!/bin/bash
# From a fresh Debian 12 machine to a trained network, in one command:
#
#   deploy/quickstart.sh [SEED] [--data=FOLDER]
#   deploy/quickstart.sh --wheel=FILE          with the programs of a wheel; installs nothing as root, builds nothing
#   deploy/quickstart.sh --build               builds, though there are a `gluond` and a `gluond-server` on PATH
#
# Says what it will do and how long that takes. Installs missing Debian packages, builds, starts a server on loopback, and lets
# a client train LeNet on the 60,000 images of Fashion-MNIST over gRPC. Then it saves a checkpoint, restarts the server, loads the
# checkpoint, and shows ten images with the network's answers. With a wheel, or the programs on PATH, the images are those of
# --data, by default /usr/share/datasets/fashion-mnist (Debian's dataset-fashion-mnist). Everything it writes is in quickstart/.
# Safe to run again, and to interrupt: no process stays behind. The last line is `test accuracy: 0.9xxx`.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' deploy/quickstart.sh; exit 0 ;; esac
. deploy/quickstart_server.sh
options "$@"
seed=1 data=()
for option in "${rest[@]}"; do
  case $option in
    --data=*) data=("--data=$(path "${option#--data=}")") ;;
    [0-9]*) seed=$option ;;
    *) fail "there is no option $option; --help lists them" ;;
  esac
done
if [[ $from != build && ${#data[@]} == 0 && ! -d /usr/share/datasets/fashion-mnist ]]; then
  fail "there are no images: install Debian's dataset-fashion-mnist, or name their folder with --data=FOLDER"
fi

prepare 5 --no-deps

say "3/5 train LeNet on Fashion-MNIST: a server, and a client that speaks to it over gRPC"
start_server
"$gluond" train --address="$address" --recipe=lenet --seed="$seed" --replace "${data[@]}" \
  --curve="$out/training-curve.svg" | tee "$out/train.log"

say "4/5 restart the server, load the checkpoint, predict"
stop_server
start_server
"$gluond" predict --address="$address" --model=lenet --checkpoint=lenet "${data[@]}"

say "5/5 stop"
stop_server
echo "training curve:  quickstart/training-curve.svg"
echo "checkpoint:      quickstart/store"
grep '^test accuracy:' "$out/train.log" | tail -n 1
