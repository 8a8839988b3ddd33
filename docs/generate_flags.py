#!/usr/bin/python3
"""Writes docs/flags.md, the table of the server's flags, from what the server says of them.

    docs/generate_flags.py [SERVER]     SERVER: bazel-bin/server/gluond-server

tests/docs/flags_test.py fails where docs/flags.md is not what this script writes.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "flags.md"

HEADER = """# The server's flags

*Written by `docs/generate_flags.py` from `gluond-server --help`; do not edit.*

Each may stand on the command line, or in the file of `--config` without its dashes:

```yaml
address: 127.0.0.1:50051
max_models: 100
```

A flag on the command line counts in place of the file's. `--check` looks at all of them, and at the files that they name, and ends.
A `RESOURCE_EXHAUSTED` names the flag of its limit, and `GetServerInfo` tells clients the limits that they need.

| flag | default | what it is for |
| --- | --- | --- |
"""
FLAG = re.compile(r"^--(\w+) \((.*)\);(?: default: (.*);)?$")


def flags(text):
    """(name, default, help) for each flag of a page of help."""
    entries = []
    for line in text.partition("\n  Flags from ")[2].splitlines()[1:]:
        if line.startswith("    --"):
            entries.append(line.strip())
        elif line.startswith("      ") and entries:
            entries[-1] += " " + line.strip()
        elif line.strip():
            break
    for entry in entries:
        found = FLAG.match(entry)
        if found is None:
            raise ValueError(f"not a flag: {entry}")
        yield found[1], found[3] or "", found[2]


def generate(text):
    """The page of the flags of a page of help."""
    return HEADER + "".join(
        "| `--%s` | %s | %s |\n" % (name, "" if default in ("", '""') else "`%s`" % default.strip('"'), told.replace("|", "\\|"))
        for name, default, told in flags(text)
    )


def listed(server):
    """The server's page of help."""
    return subprocess.run([server, "--help"], stdout=subprocess.PIPE, text=True, check=False).stdout


def main():
    PAGE.write_text(
        generate(listed(sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "bazel-bin/server/gluond-server"))), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
