"""Where others' programs are. A test that imports this goes on in the Python that has them."""

import os
import pathlib
import sys

if "GLUOND_PEERS" not in os.environ:
    sys.exit("tests/run.sh --peers runs this test")

FOLDER = pathlib.Path(os.environ["GLUOND_PEERS"])
_PYTHON = FOLDER / "venv/bin/python"
if pathlib.Path(sys.prefix) != _PYTHON.parent.parent:
    os.execv(_PYTHON, [_PYTHON, *sys.argv])

PERF_ANALYZER = FOLDER / "perf_analyzer"
CUDA_RUNTIME = next(FOLDER.glob("venv/lib/python3*/site-packages/nvidia/cuda_runtime/lib"))
