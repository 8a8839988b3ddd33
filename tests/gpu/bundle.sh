#!/bin/bash
# Makes one archive to try the GPU with, on a Linux machine that has nothing but a GPU and CUDA's libraries:
#
#   tests/gpu/bundle.sh [OUT.tar.xz]                 here, with the CUDA toolkit
#   tar xf gluond-gpu.tar.xz && gluond-gpu/run.sh    there
#
# It holds the server, the client, the plugin, the operator cases, Fashion-MNIST, and every library but CUDA's own.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' tests/gpu/bundle.sh; exit 0 ;; esac
out=${1:-gluond-gpu.tar.xz}
data=/usr/share/datasets/fashion-mnist
limit=$((60 << 20))
read -ra bazel <<< "${BAZEL:-bazel}"

targets=(//server:gluond-server //client/cli:gluond //ops:libgluond_cuda.so //tests/gpu:gpu_op_test)
"${bazel[@]}" build --config=cuda "${targets[@]}" >&2
bin=$("${bazel[@]}" info --config=cuda bazel-bin 2> /dev/null)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
root=$stage/gluond-gpu
mkdir -p "$root"/{bin,lib,libc,data}
install -m 755 "$bin"/{server/gluond-server,client/cli/gluond,ops/libgluond_cuda.so,tests/gpu/gpu_op_test} "$root/bin"
strip "$root"/bin/*

# What the programs load, but CUDA's. The C library goes apart: it is used only where the machine's own is older.
ldd "$root"/bin/{gluond-server,gluond,gpu_op_test} | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
  while read -r library; do
    case $(basename "$library") in
      libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libresolv.so.* | libmvec.so.*) folder=libc ;;
      *) folder=lib ;;
    esac
    cp -L "$library" "$root/$folder"
  done
cp -L /lib64/ld-linux-x86-64.so.2 "$root/libc"
cp "$data"/*.gz "$root/data"
install -m 755 tests/gpu/run_bundle.sh "$root/run.sh"

tar -C "$stage" --owner=0 --group=0 --sort=name -cf - gluond-gpu | xz -T0 -6 > "$out"
size=$(stat -c %s "$out")
echo "$out: $((size >> 20)) MiB"
if ((size >= limit)); then
  echo "bundle: more than $((limit >> 20)) MiB" >&2
  exit 1
fi
