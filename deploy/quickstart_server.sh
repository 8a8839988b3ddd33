# Sourced by the quickstarts: where the programs come from, and a server on loopback that ends with the script, however that
# ends. All output is in $out. The caller has put its arguments through `options`.

out=$PWD/quickstart
bin=$PWD/bazel-bin
wheel='' from=''

# What the programs take to build from nothing, and LeNet to train, in seconds of one processor. A slow machine takes twice that.
readonly build_seconds=1000 train_seconds=200

say() { printf '\n== %s\n' "$*"; }

fail() {
  printf 'quickstart: %s\n' "$@" >&2
  exit 1
}

# about SECONDS: as a person says it.
about() {
  case $((($1 + 30) / 60)) in
    0) echo "less than a minute" ;;
    1) echo "about a minute" ;;
    *) echo "about $((($1 + 30) / 60)) minutes" ;;
  esac
}

# path FILE: of a file that is named from the folder where the caller stands, before this script left that.
path() { (cd "$OLDPWD" && realpath -m -- "$1"); }

# Takes --wheel=FILE and --build out of the arguments; the others are in $rest.
options() {
  local option
  rest=()
  for option in "$@"; do
    case $option in
      --wheel=*) wheel=$(path "${option#--wheel=}") from=wheel ;;
      --build) from=build ;;
      *) rest+=("$option") ;;
    esac
  done
  [[ $from != wheel || -f $wheel ]] || fail "there is no $wheel"
  if [[ -z $from ]]; then
    from=build
    # Those of this checkout's build are what a build brings up to date.
    if command -v gluond >/dev/null && command -v gluond-server >/dev/null &&
      [[ $(readlink -f "$(command -v gluond-server)") != "$(readlink -f "$bin")"/* ]]; then
      from=path
    fi
  fi
}

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

# Changes with every file that the build reads, and with the programs that it has made. Empty where they are not there.
fingerprint() {
  [[ -x $bin/server/gluond-server && -x $bin/client/cli/gluond ]] || return 0
  { find WORKSPACE BUILD .bazelrc bazel client engine ops proto server third_party -type f ! -name '*.py[ci]' ! -name '*.md' \
      -printf '%p %s %C@\n' 2>/dev/null || true
    stat -Lc '%n %s %z' "$bin/server/gluond-server" "$bin/client/cli/gluond"; readlink -f "$bin"; } | sort | sha256sum
}

is_built() { [[ -s $out/built && $(<"$out/built") == "$(fingerprint)" ]]; }

# Seconds that the build will take here, by the sources that no object file has been made of. The compiler's notes stand beside
# an object file; where several sources were joined for it, the joined file names them.
build_estimate() {
  local sources built
  sources=$(find client engine ops server -name '*.cc' 2>/dev/null | wc -l)
  built=$(find -L "$bin"/{client,engine,ops,server} -name '*.d' ! -name '*.pic.d' 2>/dev/null | while read -r notes; do
    joined=${notes%%/_objs/*}/${notes##*/} joined=${joined%.d}.cc
    if [[ -f $joined ]]; then grep '^#line 1 ' "$joined"; else echo "$notes"; fi
  done | sort -u | wc -l) || true
  ((sources > 0)) || sources=1
  ((built < sources)) || built=$sources
  echo $((build_seconds * (sources - built) / sources / $(nproc)))
}

# Says what will be done, before anything is.
announce() {
  local missing count estimate where='' outputs=''
  say "what this does"
  case $from in
    wheel) echo "  installs  $(basename "$wheel") into quickstart/.venv; nothing as root"
           echo "  builds    nothing" ;;
    path)  echo "  installs  nothing"
           echo "  builds    nothing: runs $(command -v gluond-server) and $(command -v gluond) (--build builds instead)" ;;
    build)
      missing=$(deploy/setup.sh --missing) count=$(wc -w <<<"$missing")
      if ((count == 0)); then
        echo "  installs  nothing: all packages are here"
      else
        [[ $(id -u) == 0 ]] || where=", by sudo"
        echo "  installs  $count Debian packages, by apt-get as root$where, in about 3 minutes:"
        fold -s -w 96 <<<"$missing" | sed 's/^/              /'
      fi
      estimate=$(build_estimate)
      if is_built; then
        echo "  builds    nothing: the last build is up to date"
      elif ((estimate == 0)); then
        echo "  builds    what has changed since the last build"
      else
        echo "  builds    the server and its clients: $(about "$estimate") on $(nproc) processor(s), twice that on slow ones"
      fi ;;
  esac
  echo "  trains    LeNet on 60,000 images: $(about $((train_seconds / $(nproc))))"
  [[ $from != build ]] || outputs="; Bazel keeps up to 4 GB of outputs"
  echo "  writes    quickstart/$outputs"
}

# Reads Bazel's output for people who see no terminal: every $QUICKSTART_SECONDS how far the build is, and how long it will
# take, by its pace since the first such line: before that Bazel counts what is there already. What is no progress, as an error
# of the compiler, goes through.
progress() {
  local line part='' status every=${QUICKSTART_SECONDS:-10} told=$SECONDS begun='' first=0 at=0 all=0 left
  while true; do
    line='' status=0
    IFS= read -r -t "$every" line || status=$?
    if ((status > 128)); then  # Nothing has come in time, but perhaps the beginning of a line.
      part+=$line line=''
    else
      line=$part$line part=''
    fi
    if [[ $line =~ ^\[([0-9,]+)\ /\ ([0-9,]+)\] ]]; then
      at=${BASH_REMATCH[1]//,/} all=${BASH_REMATCH[2]//,/}
    elif [[ -n $line && ! $line =~ ^(Analyzing|Computing|DEBUG|Extracting|INFO|Loading|OpenJDK|Starting|Target|\ \ bazel-bin/) ]]; then
      printf '%s\n' "$line"
    fi
    if ((all > 0 && SECONDS - told >= every)); then
      told=$SECONDS left=''
      if [[ -z $begun ]]; then
        begun=$SECONDS first=$at
      elif ((at - first >= 5)); then
        left=", $(about $(((SECONDS - begun) * (all - at) / (at - first)))) to go"
      fi
      echo "  built $at of $all parts$left"
    fi
    ((status == 0 || status > 128)) || break
  done
}

build() {
  # Without a Bazel server, which would outlive the script.
  local bazel=(bazel --batch build //server:gluond-server //client/cli:gluond //client/python:gluond/_bin/libgluond_stream.so
                     //server/group/gloo:libgluond_gloo.so)
  rm -f "bazel-${PWD##*/}"
  if [[ -t 1 && -t 2 ]]; then
    "${bazel[@]}"
  else
    "${bazel[@]}" --curses=no --color=no --show_progress_rate_limit=1 2>&1 | progress
  fi
}

# Installs the wheel into an environment of its own, unless this very file is there already. Arguments are pip's.
install_wheel() {
  local venv=$out/.venv installed
  installed="$(sha256sum <"$wheel") $*"
  if [[ ! -s $venv/installed || $(<"$venv/installed") != "$installed" ]]; then
    rm -rf "$venv"
    python3 -m venv "$venv" || fail "python3 makes no environment: Debian's package python3-venv is missing"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$@" "$wheel"
    echo "$installed" >"$venv/installed"
  fi
  gluond=$venv/bin/gluond gluond_server=$venv/bin/gluond-server python=$venv/bin/python
}

# Gets the programs $gluond and $gluond_server, and $python; $1: how many steps the quickstart has. Further arguments are pip's.
prepare() {
  local steps=$1
  shift
  announce
  mkdir -p "$out"
  say "1/$steps packages"
  case $from in
    build) deploy/setup.sh ;;
    wheel)
      install_wheel "$@"
      echo "$(basename "$wheel") is in quickstart/.venv" ;;
    path)
      gluond=$(command -v gluond) gluond_server=$(command -v gluond-server) python=$(command -v python3)
      echo "nothing to install" ;;
  esac
  say "2/$steps build"
  if [[ $from != build ]]; then
    echo "nothing to build"
  else
    gluond=$bin/client/cli/gluond gluond_server=$bin/server/gluond-server python=/usr/bin/python3
    if is_built; then
      echo "up to date"
    else
      build
      fingerprint >"$out/built"
    fi
  fi
  : >"$out/server.log"
}

# Sets $address.
start_server() {
  rm -f "$out/port"
  "$gluond_server" --address=127.0.0.1:0 --port_file="$out/port" --store_dir="$out/store" 2>>"$out/server.log" &
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
