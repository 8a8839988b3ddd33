# Sourced by the quickstarts: a server on loopback that ends with the script, however that ends. All output is in $out.

out=$PWD/quickstart
bin=$PWD/bazel-bin

say() { printf '\n== %s\n' "$*"; }

# Asks the shell which server there is: an interruption can come before a variable of this script would be set.
stop_server() {
  local server
  for server in $(jobs -p); do
    kill -TERM "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  done
}
# A second signal while the server drains must not leave it behind.
trap 'trap "" INT TERM; stop_server' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Installs what is missing and builds what the quickstarts run; $1: how many steps they have.
prepare() {
  say "1/$1 packages"
  deploy/setup.sh
  say "2/$1 build (a few minutes the first time)"
  # Without a Bazel server, which would outlive the script.
  rm -f "bazel-${PWD##*/}"
  bazel --batch build //server:gluond-server //client/cli:gluond //client/python:gluond/_bin/libgluond_stream.so
  mkdir -p "$out"
  : >"$out/server.log"
}

# Sets $address.
start_server() {
  rm -f "$out/port"
  "$bin/server/gluond-server" --address=127.0.0.1:0 --port_file="$out/port" --store_dir="$out/store" \
    2>>"$out/server.log" &
  for _ in {1..200}; do
    [[ -s $out/port ]] && break
    kill -0 $! 2>/dev/null || break
    sleep 0.05
  done
  if [[ ! -s $out/port ]]; then
    echo "quickstart: the server did not start; its log ends:" >&2
    tail -n 20 "$out/server.log" >&2
    exit 1
  fi
  address=127.0.0.1:$(<"$out/port")
}
