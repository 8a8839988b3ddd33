"""Runs a file of the Python client's tests with gpu(0) in the place of cpu(0): `on_gpu MODULE`."""

import importlib
import sys

import gluond as mx
from tests import case_runner

if __name__ == "__main__":
    sys.modules["__main__"] = importlib.import_module(sys.argv.pop(1))
    with mx.gpu(0):
        case_runner.main()
