#!/bin/bash
# Makes the image of the Containerfile without a container engine: builds on this machine (Debian 12),
# collects the root file system, and writes an OCI archive. Needs neither root nor a daemon.
#
#   deploy/container/build_oci.sh [OUT.tar [PLUGIN...]]     default: gluond-image.tar
#
# A plugin is a target of Bazel's, and comes beside the server: //server/group/gloo:libgluond_gloo.so for groups.
#
#   podman load -i gluond-image.tar && podman run -p 127.0.0.1:50051:50051 -v gluond:/var/lib/gluond gluond
set -euo pipefail
out=$(realpath "${1:-gluond-image.tar}")
plugins=("${@:2}")
cd "$(dirname "$(readlink -f "$0")")/../.."
read -ra bazel <<<"${BAZEL:-bazel}"

deploy/setup.sh binutils
"${bazel[@]}" build //server:gluond-server //client/cli:gluond "${plugins[@]}"
bin=$("${bazel[@]}" info bazel-bin)
files=("$bin/server/gluond-server" "$bin/client/cli/gluond")
for plugin in "${plugins[@]}"; do
  path=${plugin#//}
  files+=("$bin/${path/://}")
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
deploy/container/rootfs.sh "$work/rootfs" "${files[@]}"
# The date of the commit, so that one commit gives one image.
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
export SOURCE_DATE_EPOCH
/usr/bin/python3 deploy/container/oci_image.py "$work/rootfs" deploy/container/Containerfile "$out"
