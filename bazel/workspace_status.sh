#!/bin/sh
# Bazel asks this which commit the workspace is at (--workspace_status_command): 12 digits, and `-dirty` where files differ from
# it. In a folder that is no clone, or without git, it is `unknown`.
cd "$(dirname "$0")/.." || exit 0
commit=$(git rev-parse --short=12 --verify HEAD 2>/dev/null) || commit=unknown
[ "$commit" = unknown ] || git diff --quiet HEAD 2>/dev/null || commit=$commit-dirty
echo "GLUOND_COMMIT $commit"
