#!/bin/bash
# Lists the slowest compilations of the last `bazel build` or `bazel test` (ten, or as many as named).
# What was cached was not compiled: for the whole list, build from clean.
#
#   bazel clean && bazel build //server:gluond-server && bazel/slowest.sh [COUNT]
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
profile=$(${BAZEL:-bazel} info output_base 2>/dev/null)/command.profile.gz
if [[ ! -s $profile ]]; then
  echo "slowest: no profile at $profile; build something first" >&2
  exit 1
fi
exec /usr/bin/python3 - "$profile" "${1:-10}" <<'END'
import gzip
import json
import sys

with gzip.open(sys.argv[1], "rt") as profile:
  events = json.load(profile)["traceEvents"]
compiled = sorted(
    ((event["dur"] / 1e6, event["name"]) for event in events
     if event.get("cat") == "action processing" and event["name"].startswith("Compiling ")), reverse=True)
for seconds, name in compiled[:int(sys.argv[2])]:
  print(f"{seconds:7.1f} s  {name}")
print(f"{sum(seconds for seconds, _ in compiled):7.1f} s  in all, {len(compiled)} compilations")
END
