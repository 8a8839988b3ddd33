"""Modules of MXNet that are not here, and what to use instead."""

from __future__ import annotations

import importlib.abc
import sys
from typing import Any

_TRAINING = ("train with autograd.record(), backward() and gluon.Trainer, or with symbol.simple_bind(); saved models are "
             "read by gluon.SymbolBlock.imports")
_BATCHES = "batches come from gluon.data.DataLoader(gluon.data.ArrayDataset(data, label), batch_size, shuffle=True)"
_IMAGES = "gluon.data.vision has datasets and transforms of arrays; image files are read by another library"
_ARRAYS = "arrays are MXNet 1.x's mx.nd.NDArray"
_DEVICES = "gluon.Trainer sums gradients over the server's devices by itself"
_OPERATORS = "operators are written with mx.operator.CustomOp, or in C++ on the server"

_INSTEAD = {
    "callback": "gluond.progress.Progress shows how far a loop has come, and plots",
    "contrib": "there are gluon.contrib, nd.contrib and sym.contrib",
    "image": _IMAGES, "img": _IMAGES, "recordio": _IMAGES,
    "io": _BATCHES,
    "kv": _DEVICES, "kvstore": _DEVICES,
    "library": _OPERATORS, "rtc": _OPERATORS,
    "mod": _TRAINING, "module": _TRAINING, "FeedForward": _TRAINING,
    "model_zoo": "build the network of gluon.nn, or read an exported one with gluon.SymbolBlock.imports",
    "mon": "HybridBlock.register_op_hook sees each operator's outputs",
    "monitor": "HybridBlock.register_op_hook sees each operator's outputs",
    "np": _ARRAYS, "npx": _ARRAYS, "numpy": _ARRAYS, "numpy_extension": _ARRAYS,
    "profiler": "the answer to each TrainStep says where its time went (Timing in docs/wire.md)",
    "rnn": "cells and layers are in gluon.rnn",
    "sparse": "arrays of the server are dense",
    "estimator": "train with autograd.record(), backward() and gluon.Trainer; gluond.progress.Progress shows how far",
}
_PACKAGES = tuple(__package__ + part for part in ("", ".gluon", ".gluon.contrib", ".ndarray", ".symbol"))


def no_attribute(module: str, name: str) -> AttributeError:
    """The error for a name that a module has not."""
    hint = f": it is not part of gluond; {_INSTEAD[name]}" if name in _INSTEAD else ""
    return AttributeError(f"module '{module}' has no attribute '{name}'{hint}")


class _Finder(importlib.abc.MetaPathFinder):
    """Of modules that nobody else has found: `from gluond import image` does not ask no_attribute, or hides its answer."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """None, or ModuleNotFoundError with the hint."""
        package, _, name = fullname.rpartition(".")
        if package in _PACKAGES and name in _INSTEAD:
            raise ModuleNotFoundError(f"No module named '{fullname}': it is not part of gluond; {_INSTEAD[name]}",
                                      path=fullname)


sys.meta_path.append(_Finder())
