"""Modules of MXNet that gluond lacks, and their replacements."""

from __future__ import annotations

import importlib.abc
import sys
from typing import Any, Callable, NoReturn, Set

_TRAINING = "train a symbol with mx.mod.Module, or with gluon.Trainer; saved models are read by mx.mod.Module.load"
_BOXES = "images with boxes come from mx.image.ImageDetIter, or from gluon.data.vision.ImageRecordDataset"
_ARRAYS = "arrays are MXNet 1.x's mx.nd.NDArray"
_OPERATORS = "operators are written with mx.operator.CustomOp, or in C++ on the server"
_CONTRIB = "of mx.contrib there are autograd, text, nd and sym; there is gluon.contrib as well"

_INSTEAD = {
    "amp": _CONTRIB, "onnx": _CONTRIB, "quantization": _CONTRIB, "tensorboard": _CONTRIB,
    "ImageDetRecordIter": _BOXES,
    "library": _OPERATORS, "rtc": _OPERATORS,
    "FeedForward": _TRAINING,
    "np": _ARRAYS, "npx": _ARRAYS, "numpy": _ARRAYS, "numpy_extension": _ARRAYS,
    "profiler": "the answer to each TrainStep says where its time went (Timing in docs/wire.md)",
    "sparse": "arrays of the server are dense",
    "estimator": "train with autograd.record(), backward() and gluon.Trainer; gluond.progress.Progress shows how far",
}
_PACKAGES = tuple(__package__ + part for part in (
    "", ".contrib", ".gluon", ".gluon.contrib", ".gluon.data", ".gluon.data.vision", ".gluon.nn", ".gluon.rnn", ".ndarray",
    ".optimizer", ".symbol"))


def hint(name: str) -> str:
    """The replacement of MXNet's module of this name, for an error; nothing where there is no such module."""
    return f": it is not part of gluond; {_INSTEAD[name]}" if name in _INSTEAD else ""


def no_attribute(module: str, name: str) -> AttributeError:
    """The error for a name that a module lacks."""
    return AttributeError(f"module '{module}' has no attribute '{name}'{hint(name)}")


def getter(module: str) -> Callable[[str], NoReturn]:
    """`__getattr__` of a module."""
    def get(name: str) -> NoReturn:
        raise no_attribute(module, name)

    return get


class _Finder(importlib.abc.MetaPathFinder):
    """Asked for missing modules: `from gluond import image` does not ask no_attribute, or hides its answer."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """None; an error as Python's, with the hint, for who imports it rather than asks whether it is there."""
        package, _, name = fullname.rpartition(".")
        if package not in _PACKAGES or name not in _INSTEAD:
            return
        callers = _callers_in_importlib()
        if "_handle_fromlist" in callers:
            raise ImportError(f"cannot import name '{name}' from '{package}'{hint(name)}", name=package)
        if "_find_and_load" in callers:
            raise ModuleNotFoundError(f"No module named '{fullname}'{hint(name)}", name=fullname)


def _callers_in_importlib() -> Set[str]:
    found = set()
    frame: Any = sys._getframe(2)
    while frame is not None and "importlib" in frame.f_code.co_filename:
        found.add(frame.f_code.co_name)
        frame = frame.f_back
    return found


sys.meta_path.append(_Finder())
