"""Puts what the programs and modules in a folder load, but CUDA's own, into its lib/: `pack_libraries.py FOLDER`. The C library
goes apart, to libc/: it is used only where the machine's own is older."""

import pathlib
import re
import shutil
import subprocess
import sys

# OpenBLAS has what they define; NumPy loads them by these names.
IN_OPENBLAS = ("libblas.so.3", "liblapack.so.3")
C_LIBRARY = re.compile(r"lib(c|m|dl|pthread|rt|resolv|mvec|util)\.so\..*")


def loaded(path):
    """Name and place of each library. The plugin's are looked up on the machine that it runs on."""
    listed = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
    missing = re.findall(r"(\S+) => not found", listed)
    if missing:
        raise SystemExit(f"pack_libraries.py: {path} needs {', '.join(missing)}")
    return re.findall(r"(\S+) => (/\S+)", listed)


def main():
    root = pathlib.Path(sys.argv[1])
    for folder in ("lib", "libc"):
        (root / folder).mkdir()
    programs = [root / "bin" / name for name in ("gluond-server", "gluond", "gpu_op_test", "python3", "libgluond_cuda_emulated.so")]
    libraries = [path for folder in ("python", "client") for path in (root / folder).rglob("*.so")]
    found = dict(each for path in [*programs, *libraries] for each in loaded(path))
    for name, place in found.items():
        if name in IN_OPENBLAS:
            (root / "lib" / name).symlink_to("libopenblas.so.0")
            continue
        shutil.copyfile(place, root / ("libc" if C_LIBRARY.fullmatch(name) else "lib") / name)
    loader = root / "libc/ld-linux-x86-64.so.2"
    shutil.copyfile("/lib64/ld-linux-x86-64.so.2", loader)
    loader.chmod(0o755)


if __name__ == "__main__":
    main()
