#!/bin/sh
# The server with two emulated GPUs beside its CPU. GLUOND_EMULATED_GPU has options, see machine.h.
here=$(dirname "$0")
export GLUOND_EMULATED_GPU="devices=2${GLUOND_EMULATED_GPU:+,$GLUOND_EMULATED_GPU}"
exec "$here/../../../server/gluond-server" --devices=auto --tf32="${GLUOND_TF32:-none}" --cuda_plugin="$here/libgluond_cuda_emulated.so" "$@"
