#!/bin/bash
# Lists the slowest compilations of the last `bazel build` or `bazel test` (ten, or as many as named), and the sums by room.
# What was cached was not compiled: for the whole list, build from clean. What each file reads: tests/headers.py.
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
import collections
import gzip
import json
import sys

with gzip.open(sys.argv[1], "rt") as profile:
  events = json.load(profile)["traceEvents"]
compiled = sorted(
    ((event["dur"] / 1e6, event["name"]) for event in events
     if event.get("cat") == "action processing" and event["name"].startswith("Compiling ")), reverse=True)
rooms = collections.defaultdict(list)
for seconds, name in compiled:
  rooms["/".join(name.split()[1].split("/")[:-1][:2])].append(seconds)
for seconds, name in compiled[:int(sys.argv[2])]:
  print(f"{seconds:7.1f} s  {name}")
print("by room:")
for room, all_ in sorted(rooms.items(), key=lambda each: -sum(each[1])):
  print(f"{sum(all_):7.1f} s  {room}, {len(all_)} compilations")
print(f"{sum(seconds for seconds, _ in compiled):7.1f} s  in all, {len(compiled)} compilations")
END
