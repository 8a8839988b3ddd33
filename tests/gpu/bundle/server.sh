#!/bin/bash
# The bundle's server, as a program that needs no arguments: GLUOND_SERVER of the Python client.
here=$(dirname "$(readlink -f "$0")")
most=$((64 << 30))  # ResNet-50's activations may need more than what one session and one model have by default.
exec "$here/inside" gluond-server --devices=gpu:0,cpu --tf32="${GLUOND_TF32:-none}" --cuda_plugin="$GLUOND_PLUGIN" \
  --max_session_bytes=$most --max_model_bytes=$most "$@"
