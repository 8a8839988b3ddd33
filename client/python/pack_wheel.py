"""Packs the wheel of gluond with its programs in it: //client/python:wheel.

    pack_wheel.py --out FILE.whl --pyproject FILE --program FILE... --module FILE [--plugin FILE] .../client/python/gluond/FILE...

The programs (gluond-server, and gluond for the shell) and the library of the package's streams are stripped and lie in gluond/_bin; the
libraries that they load lie beside them in lib/, where their run paths point. So they run where the C library is not older than that of the machine which
has packed the wheel, and need no other. pip puts a command for each onto PATH.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import pathlib
import re
import subprocess
import tempfile
import tomllib
import zipfile
from typing import Dict, List

# pip writes its interpreter into the first line. The package itself is not imported: that would take longer than most commands.
_COMMAND = """#!python
import importlib.util
import os
import sys

program = os.path.join(os.path.dirname(importlib.util.find_spec("gluond").origin), "_bin", "{name}")
os.execv(program, ["{name}", *sys.argv[1:]])
"""
# Parts of the C library, which must all be the machine's own.
_C_LIBRARY = re.compile(r"(linux-vdso|ld-linux.*|libc|libm|libdl|libpthread|librt|libresolv|libmvec|libutil)\.so.*")


def libraries(program: pathlib.Path) -> Dict[str, pathlib.Path]:
    """The libraries that the program loads, but the C library."""
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    missing = re.findall(r"(\S+) => not found", listed)
    if missing:
        raise SystemExit(f"pack_wheel.py: {program} needs {', '.join(missing)}")
    found = re.findall(r"(\S+) => (/\S+)", listed)
    return {name: pathlib.Path(path) for name, path in found if not _C_LIBRARY.fullmatch(name)}


def metadata(project: Dict) -> str:
    """The METADATA file, from pyproject.toml's [project]."""
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"Requires-Python: {project['requires-python']}",
    ]
    return "\n".join(lines + [f"Requires-Dist: {each}" for each in project["dependencies"]]) + "\n"


class Wheel:
    """A wheel under way. The same content makes the same file."""

    def __init__(self, path: str) -> None:
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self._record: List[str] = []

    def add(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """A file."""
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100000 | mode) << 16
        self._zip.writestr(entry, content, zipfile.ZIP_DEFLATED)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(content)}")

    def close(self, folder: str) -> None:
        """Adds the list of all files."""
        self._zip.writestr(
            zipfile.ZipInfo(f"{folder}/RECORD", (1980, 1, 1, 0, 0, 0)), "\n".join([*self._record, f"{folder}/RECORD,,"]) + "\n"
        )
        self._zip.close()


def stripped(program: pathlib.Path) -> bytes:
    """The program without its symbol table."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["strip", "-o", out.name, program], check=True)
        return pathlib.Path(out.name).read_bytes()


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--pyproject", required=True)
    parser.add_argument("--program", action="append", required=True, type=pathlib.Path)
    parser.add_argument("--module", required=True, type=pathlib.Path)
    parser.add_argument("--plugin", type=pathlib.Path)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    project = tomllib.loads(pathlib.Path(options.pyproject).read_text())["project"]
    name, version, tag = pathlib.Path(options.out).stem.split("-", 2)
    if (name, version) != (project["name"], project["version"]):
        raise SystemExit(f"pack_wheel.py: {options.out} is to be named after {project['name']} {project['version']}")
    wheel = Wheel(options.out)
    for path in sorted(options.files):
        wheel.add(path.as_posix().rpartition("client/python/")[2], path.read_bytes())
    loaded: Dict[str, pathlib.Path] = {}
    for program in options.program:
        wheel.add(f"gluond/_bin/{program.name}", stripped(program), 0o755)
        wheel.add(f"{name}-{version}.data/scripts/{program.name}", _COMMAND.format(name=program.name).encode(), 0o755)
        loaded.update(libraries(program))
    wheel.add(f"gluond/_bin/{options.module.name}", stripped(options.module), 0o755)
    loaded.update(libraries(options.module))
    for library, path in sorted(loaded.items()):
        wheel.add(f"gluond/_bin/lib/{library}", path.read_bytes(), 0o755)
    if options.plugin:
        wheel.add("gluond/_bin/libgluond_cuda.so", stripped(options.plugin), 0o755)
    folder = f"{name}-{version}.dist-info"
    wheel.add(f"{folder}/METADATA", metadata(project).encode())
    wheel.add(f"{folder}/WHEEL", f"Wheel-Version: 1.0\nGenerator: pack_wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    wheel.close(folder)


if __name__ == "__main__":
    main()
