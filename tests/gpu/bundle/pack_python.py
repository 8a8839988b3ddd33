"""Puts this machine's Python, as far as the client needs it, into a folder: `pack_python.py FOLDER`. The interpreter comes to
bin/python3, its library to python/, packages to python/packages."""

import importlib.metadata
import pathlib
import re
import shutil
import sys
import sysconfig
import tomllib

LIBRARY = pathlib.Path(sysconfig.get_path("stdlib"))
PACKAGES = pathlib.Path("/usr/lib/python3/dist-packages")
# Of the library and of the packages: what no program imports here.
LEFT_OUT = (
    "__pycache__",
    "test",
    "tests",
    "idlelib",
    "pydoc_data",
    "ensurepip",
    "lib2to3",
    "distutils",
    "tkinter",
    "turtledemo",
    "config-*",
    "dist-packages",
    "*.pyi",
    "*.pyx",
    "*.pxd",
    "*.h",
    "*.a",
    "*.c",
    "f2py",
    "include",
    "sqlite3",
    "_sqlite3.*",
    "_dbm.*",
    "_curses*",
    "readline.*",
    "nis.*",
    "grpc_tools",
    "_simd.*",
    "roots.pem",
    "_codecs_*",
    "_pydecimal.py",
    "_pyio.py",
    "turtle.py",
    "mailbox.py",
    "msilib",
    "wsgiref",
    "xmlrpc",
    "curses",
    "cgi.py",
    "imaplib.py",
    "smtplib.py",
    "nntplib.py",
    "_test*",
    "_ctypes_test.*",
    "xxlimited*",
)
PROJECT = pathlib.Path("client/python/pyproject.toml")


def required():
    """The files and folders of what the client's package depends on."""
    dependencies = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    for name in sorted({re.match(r"[\w.-]+", text)[0] for text in dependencies}):
        for module in importlib.metadata.distribution(name).read_text("top_level.txt").split():
            found = [PACKAGES / module] if (PACKAGES / module).is_dir() else sorted(PACKAGES.glob(f"{module}.*"))
            if not found:
                raise SystemExit(f"pack_python.py: {PACKAGES} has no module {module} of {name}")
            yield from found


def main():
    root = pathlib.Path(sys.argv[1])
    home = root / "python"
    shutil.copyfile(pathlib.Path(sys.executable).resolve(), root / "bin/python3")
    (root / "bin/python3").chmod(0o755)
    ignore = shutil.ignore_patterns(*LEFT_OUT)
    shutil.copytree(LIBRARY, home / "lib" / LIBRARY.name, ignore=ignore)
    (home / "packages").mkdir()
    # Debian's gRPC imports six.
    for place in [*required(), PACKAGES / "six.py"]:
        if place.is_dir():
            shutil.copytree(place, home / "packages" / place.name, ignore=ignore)
        else:
            shutil.copyfile(place, home / "packages" / place.name)


if __name__ == "__main__":
    main()
