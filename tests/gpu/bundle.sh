#!/bin/bash
# Makes one archive to try the GPU with, on a Linux machine that has nothing but a GPU and CUDA's libraries:
#
#   tests/gpu/bundle.sh [OUT.tar.xz]                 here, with the CUDA toolkit
#   tar xf gluond-gpu.tar.xz && gluond-gpu/run.sh    there; with a python3 that has PyTorch, side by side with it
#   tests/gpu/bundle.sh --check                      makes one, and runs it here on an emulated GPU; ends with run.sh's count
#
# It holds the server, the clients with a Python of their own, the plugin, the operator cases, 15,000 images of Fashion-MNIST,
# and every library but CUDA's own.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' tests/gpu/bundle.sh; exit 0 ;; esac
data=/usr/share/datasets/fashion-mnist
limit=$((52 << 20))
read -ra bazel <<< "${BAZEL:-bazel}"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
out=${1:-gluond-gpu.tar.xz}
[ "$out" != --check ] || out=$stage/gluond-gpu.tar.xz

targets=(//server:gluond-server //client/cli:gluond //client/python:descriptors //client/python:gluond/_bin/libgluond_stream.so
  //ops:libgluond_cuda.so //tests/gpu:gpu_op_test //tests/gpu/emulated:libgluond_cuda_emulated.so)
"${bazel[@]}" build --config=cuda "${targets[@]}" >&2
bin=$("${bazel[@]}" info --config=cuda bazel-bin 2> /dev/null)
root=$stage/gluond-gpu
mkdir -p "$root"/{bin,data,tests}
install -m 755 "$bin"/{server/gluond-server,client/cli/gluond,ops/libgluond_cuda.so,tests/gpu/gpu_op_test} "$root/bin"
install -m 755 "$bin"/tests/gpu/emulated/libgluond_cuda_emulated.so "$root/bin"
strip "$root"/bin/*
install -m 755 tests/gpu/bundle/inside.sh "$root/bin/inside"
install -m 755 tests/gpu/bundle/server.sh "$root/bin/server"
install -m 755 tests/gpu/run_bundle.sh "$root/run.sh"

cp -r --parents tests/case_runner.py tests/client/python/*.py tests/server/running_server.py tests/gpu/emulated/on_gpu.py "$root"
cp -r tests/gpu/bundle "$root/bundle"
rm -f "$root"/bundle/{*.sh,*.cc,BUILD,*_test.py}
# Where the toolkit has CUPTI, what `run.sh --profile` records with.
cuda=${CUDA_HOME:-/usr/local/cuda}
if [ -f "$cuda/include/cupti.h" ]; then
  g++ -O2 -std=c++20 -Wall -Wextra -Werror -shared -fPIC "-I$cuda/include" tests/gpu/bundle/kernel_times.cc \
    -o "$root/bin/libkernel_times.so" "-L$cuda/lib64" -lcupti
fi
/usr/bin/python3 tests/gpu/bundle/images.py "$data" "$root/data"
# The files of tests/client/python that tests/gpu/emulated runs on a GPU.
"${bazel[@]}" query 'filter(":client_.*_test$", tests(//tests/gpu/emulated:all))' 2> /dev/null |
  sed 's/.*:client_\(.*\)_test$/\1/' > "$root/bundle/client_cases.txt"
cp -r client/python "$root/client"
install -m 644 "$bin/client/python/gluond/_proto/descriptors.binpb" "$root/client/gluond/_proto"
install -m 755 -D "$bin/client/python/gluond/_bin/libgluond_stream.so" "$root/client/gluond/_bin/libgluond_stream.so"
/usr/bin/python3 tests/gpu/bundle/pack_python.py "$root"
/usr/bin/python3 tests/gpu/bundle/pack_libraries.py "$root"

# The filter for x86's code, and a dictionary in which the programs find what they have in common.
tar -C "$stage" --owner=0 --group=0 --sort=name -cf - gluond-gpu | xz --x86 --lzma2=preset=6,dict=64MiB > "$out"
size=$(stat -c %s "$out")
echo "$out: $((size >> 20)) MiB" >&2
if ((size >= limit)); then
  echo "bundle: more than $((limit >> 20)) MiB" >&2
  exit 1
fi
if [ "${1:-}" = --check ]; then
  mkdir "$stage/there"
  tar -C "$stage/there" -xf "$out"
  "$stage/there/gluond-gpu/run.sh" --emulated
fi
