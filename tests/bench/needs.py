"""A benchmark's needs of its Python: one sentence names the missing package, and the way to get it.

usage: PYTHON needs.py MODULE...
"""

import importlib
import sys

_PACKAGES = {"grpc": "grpcio", "google.protobuf": "protobuf", "mxnet": "mxnet==1.9.1 'numpy<1.24'"}


def require(*modules):
    """Ends the program where one of the modules cannot be imported."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # MXNet fails in many ways with a numpy that is too new.
            package = _PACKAGES.get(module, module)
            sys.exit(
                f"{sys.executable} cannot import {module} ({type(error).__name__}: {error}); install it: "
                f"{sys.executable} -m pip install {package}"
            )


if __name__ == "__main__":
    require(*sys.argv[1:])
