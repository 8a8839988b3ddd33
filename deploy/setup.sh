#!/bin/bash
# Installs what gluond needs to be built, tested and tried: Debian packages only, and only what is missing.
#
#   deploy/setup.sh [PACKAGE...]     further packages are installed along
#   deploy/setup.sh --missing        names what it would install, on one line, and changes nothing
#
# Safe to run again: where nothing is missing it changes nothing, asks nothing and needs no network.
set -euo pipefail

# package  why
wanted() {
  cat <<'END'
bazel-bootstrap          builds everything
g++                      compiles C++20
clang                    the test of the C++ library's headers
cmake                    the test of a program on the C++ library
pkgconf                  tells Bazel the versions of the libraries
protobuf-compiler        generates code from proto/
protobuf-compiler-grpc   generates the service stubs
libprotobuf-dev          messages
libprotoc-dev            messages, for the code generator
libgrpc++-dev            the server and its clients
libabsl-dev              Status, strings, flags, hash maps
libdnnl-dev              oneDNN: matrix products and convolutions on the CPU
libopenblas-dev          matrix products in float64, which oneDNN lacks
prometheus-cpp-dev       the server's metrics, as Prometheus reads them
libcivetweb-dev          HTTP for the metrics and for probes
libyaml-cpp-dev          the file of what the server serves
libgoogle-perftools-dev  tcmalloc, the server's allocator
libssl-dev               certificates, keys and hashes
libjwt-dev               the signatures of JSON Web Tokens
libgloo-dev              the plugin by which a group of servers adds up gradients
zlib1g-dev               compressed messages, and image files that the client reads
libgtest-dev             tests
libgmock-dev             tests
libbenchmark-dev         benchmarks
python3-grpcio           tests that speak to the server without our own client
python3-protobuf         the same
python3-numpy            the same
python3-crc32c           the same
python3-cryptography     tests that sign tokens
python3-yaml             the test of the manifests for Kubernetes
mypy                     the test of the Python package's types
dataset-fashion-mnist    70,000 real images, for the quickstart and the tests
END
  for package in "$@"; do echo "$package asked for on the command line"; done
}

# Reads lines of `wanted`, and leaves out those whose package is installed.
missing() {
  local package why status
  declare -A installed
  while read -r package status; do
    [[ $status != installed ]] || installed[$package]=1
  done <<<"$(dpkg-query -W -f '${Package} ${db:Status-Status}\n')"
  while read -r package why; do
    [[ -n ${installed[$package]:-} ]] || printf '%-24s %s\n' "$package" "$why"
  done
}

only_names=''
if [[ ${1:-} == --missing ]]; then
  only_names=1
  shift
fi
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup: this is not a Debian system (no apt-get); install these yourself, as Debian 12 has them:" >&2
  wanted "$@" >&2
  exit 1
fi

lacking=$(wanted "$@" | missing)
if [[ -n $only_names ]]; then
  awk '{print $1}' <<<"$lacking" | xargs
  exit 0
fi
if [[ -z $lacking ]]; then
  echo "setup: all packages are installed"
  exit 0
fi
mapfile -t packages < <(awk '{print $1}' <<<"$lacking")
echo "setup: installing from Debian, because these are missing:"
sed 's/^/  /' <<<"$lacking"

as_root=()
if [[ $(id -u) != 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: installing packages needs root, and there is no sudo; run as root:" >&2
    echo "  apt-get update && apt-get install -y --no-install-recommends ${packages[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
# Waits for another apt instead of failing beside it.
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
if ! "${apt[@]}" update -q; then
  echo "setup: the package lists could not be refreshed; trying with those that are here" >&2
fi
if ! "${apt[@]}" install -q -y --no-install-recommends "${packages[@]}"; then
  . /etc/os-release
  echo "setup: apt-get could not install the packages; see its message above." >&2
  echo "setup: this is ${PRETTY_NAME:-an unknown system}; gluond is built on Debian 12 (bookworm)." >&2
  exit 1
fi
lacking=$(wanted "$@" | missing)
if [[ -n $lacking ]]; then
  echo "setup: still missing after the installation:" >&2
  echo "$lacking" >&2
  exit 1
fi
echo "setup: done"
