"""Puts this machine's Python, as far as the client needs it, into a folder: `pack_python.py FOLDER`. The interpreter comes to
bin/python3, its library to python/, packages to python/packages."""

import pathlib
import shutil
import sys
import sysconfig

LIBRARY = pathlib.Path(sysconfig.get_path("stdlib"))
PACKAGES = pathlib.Path("/usr/lib/python3/dist-packages")
# Of the library and of the packages: what no program imports here.
LEFT_OUT = ("__pycache__", "test", "tests", "idlelib", "pydoc_data", "ensurepip", "lib2to3", "distutils", "tkinter", "turtledemo",
            "config-*", "dist-packages", "*.pyi", "*.pyx", "*.pxd", "*.h", "*.a", "*.c", "f2py", "include", "sqlite3",
            "_sqlite3.*", "_dbm.*", "_curses*", "readline.*", "nis.*", "grpc_tools", "_simd.*", "roots.pem", "_codecs_*", "_pydecimal.py",
            "_pyio.py", "turtle.py", "mailbox.py", "msilib", "wsgiref", "xmlrpc", "curses", "cgi.py", "imaplib.py", "smtplib.py",
            "nntplib.py", "_test*", "_ctypes_test.*", "xxlimited*")
KEPT_TESTS = ("numpy/testing",)


def main():
  root = pathlib.Path(sys.argv[1])
  home = root / "python"
  shutil.copyfile(pathlib.Path(sys.executable).resolve(), root / "bin/python3")
  (root / "bin/python3").chmod(0o755)
  ignore = shutil.ignore_patterns(*LEFT_OUT)
  shutil.copytree(LIBRARY, home / "lib" / LIBRARY.name, ignore=ignore)
  for package in ("numpy", "grpc", "google"):
    shutil.copytree(PACKAGES / package, home / "packages" / package, ignore=ignore)
  shutil.copyfile(PACKAGES / "six.py", home / "packages/six.py")


if __name__ == "__main__":
  main()
