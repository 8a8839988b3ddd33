#!/bin/bash
# Plays the documents of a folder on a server, in order, with grpcurl through reflection.
#
#   deploy/grpcurl/run.sh HOST:PORT [FOLDER]
#
# FOLDER: default: the script's own. lenet/ has those that ask the model that deploy/quickstart_python.sh leaves.
# A document is called ORDER-METHOD[-REMARK].json; with the remark xN it is sent N times. The server
# needs a --store_dir for the checkpoint. The models are called grpcurl-*, and replace older ones.
set -euo pipefail
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
  exit 2
fi
grpcurl=${GRPCURL:-grpcurl}
if ! command -v "$grpcurl" >/dev/null; then
  echo "run.sh: '$grpcurl' was not found; install it, or say where it is: GRPCURL=/path/grpcurl" >&2
  exit 1
fi
cd "${2:-$(dirname "$(readlink -f "$0")")}"
for document in [0-9]*.json; do
  IFS=- read -r _ method remark <<<"${document%.json}"
  times=1
  [[ $remark =~ ^x([0-9]+)$ ]] && times=${BASH_REMATCH[1]}
  for ((i = 1; i <= times; i++)); do
    echo "== $document ($i of $times)"
    if ! "$grpcurl" -plaintext -d @ "$1" "${method%.*}/${method##*.}" <"$document"; then
      echo "run.sh: $document failed" >&2
      exit 1
    fi
  done
done
echo "all documents were answered"
