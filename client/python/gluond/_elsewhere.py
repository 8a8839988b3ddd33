"""Modules of MXNet that gluond lacks, and their replacements."""

from __future__ import annotations

import dis
import importlib.abc
import sys
import types
from typing import Any, Callable, NoReturn, Set

from . import _side_effects
from .base import did_you_mean

_TRAINING = "train a symbol with mx.mod.Module, or with gluon.Trainer; saved models are read by mx.mod.Module.load"
_BOXES = "images with boxes come from mx.image.ImageDetIter, or from gluon.data.vision.ImageRecordDataset"
_ARRAYS = "arrays are MXNet 1.x's mx.nd.NDArray"
_OPERATORS = "operators are written with mx.operator.CustomOp, or in C++ on the server"

_INSTEAD = {
    "onnx": "networks are files of MXNet's: net.export(...), gluon.SymbolBlock.imports(...)",
    "quantization": "models are trained and served in float types; net.cast('float16') halves them",
    "tensorboard": "model.fit(...).plot('curve.svg') draws the history, and mx.callback has functions for each batch",
    "svrg_optimization": "use mx.mod.Module with another optimizer",
    "batchify": "gluon.data.DataLoader takes a batchify_fn of the program's own",
    "cnn": "write DeformableConvolution as a mx.operator.CustomOp",
    **{f"WikiText{size}": "nothing is downloaded; mx.contrib.text has vocabularies" for size in ("2", "103")},
    "KVStoreServer": "one gluond server keeps the arrays", "kvstore_server": "one gluond server keeps the arrays",
    "libinfo": "there is no library of MXNet's to find", "misc": "use mx.lr_scheduler",
    "notebook": "model.fit(...).plot('curve.svg') draws the history", "torch": "arrays go through x.asnumpy()",
    "executor_manager": _TRAINING, "DataParallelExecutorManager": _TRAINING, "DataParallelExecutorGroup": _TRAINING,
    "subgraph": "a graph runs as the server sees fit",
    "ImageDetRecordIter": _BOXES,
    "library": _OPERATORS, "rtc": _OPERATORS,
    "FeedForward": _TRAINING,
    "np": _ARRAYS, "npx": _ARRAYS, "numpy": _ARRAYS, "numpy_extension": _ARRAYS,
    "profiler": "the answer to each TrainStep says where its time went (Timing in docs/wire.md)",
    "sparse": "arrays of the server are dense",
    "LBSGD": "use mx.optimizer.LARS, or a schedule of mx.lr_scheduler with warmup_steps",
    "MXDataIter": "iterators are mx.io.NDArrayIter, CSVIter, ImageRecordIter and so on, or subclasses of mx.io.DataIter",
    "runtime": "dir(mx.nd) lists the server's operators, and mx.num_gpus() counts its GPUs",
    **{f"{kind}Conv{cell}Cell": "gluon.contrib.rnn has Conv1DRNNCell, Conv2DLSTMCell and their relatives"
       for kind, cell in (("Base", "RNN"), ("", "RNN"), ("", "LSTM"), ("", "GRU"))},
    **{name: "there is no library of MXNet's to call: the server computes" for name in (
        "_LIB", "check_call", "c_str", "c_array", "c_str_array", "c_handle_array", "c_array_buf", "mx_uint", "mx_float", "NDArrayHandle",
        "SymbolHandle", "ExecutorHandle", "_new_empty_handle")},
    "executor_group": _TRAINING,
    "estimator": "train with autograd.record(), backward() and gluon.Trainer; gluond.progress.Progress shows how far",
}
# Operators and functions of MXNet's that are not here. Their names, or how these begin, before what is to be done.
_OPERATORS_INSTEAD = (
    ("imdecode", "use mx.image.imdecode"),
    ("group_adagrad_update", "use mx.optimizer.contrib.GroupAdaGrad"),
    ("quantize quantize_ dequantize requantize quantized_ calibrate_entropy", "models are trained and served in float types"),
    ("dgl_ edge_id getnnz", "arrays of the server are dense, and hold no graphs"),
    ("to_dlpack_ from_dlpack", "values are handed over by x.asnumpy() and mx.nd.array(...)"),
    ("adjust_lighting random_brightness random_color_jitter random_contrast random_hue random_lighting random_saturation resize",
     "images are changed by gluon.data.vision.transforms and by mx.image, in this process; BilinearResize2D of contrib resizes on the "
     "server"),
    ("multi_lamb_update multi_mp_lamb_update", "use lamb_update_phase1 and lamb_update_phase2 for each weight"),
    ("multi_adamw_update multi_mp_adamw_update", "these write arrays: nd.contrib has them"),
    ("preloaded_multi_", "use multi_sgd_update and its relatives"),
    ("linalg_syevd syevd", "numpy.linalg.eigh(x.asnumpy()) has the eigenvectors as columns"),
    ("IdentityAttachKLSparseReg DeformableConvolution DeformablePSROIPooling ModulatedDeformableConvolution MultiProposal PSROIPooling "
     "Proposal RROIAlign count_sketch fft ifft hawkesll",
     "make it of other operators, or write it as a mx.operator.CustomOp"),
)
_PACKAGES = tuple(__package__ + part for part in (
    "", ".contrib", ".gluon", ".gluon.contrib", ".gluon.contrib.data", ".gluon.data", ".gluon.data.vision", ".gluon.nn", ".gluon.rnn",
    ".ndarray", ".optimizer", ".symbol"))


def hint(name: str) -> str:
    """The replacement of MXNet's module of this name, for an error; nothing where there is no such module."""
    return f": it is not part of gluond; {_INSTEAD[name]}" if name in _INSTEAD else ""


def operator_hint(name: str) -> str:
    """The replacement of MXNet's operator of this name; nothing where there is no such operator."""
    for names, instead in _OPERATORS_INSTEAD:
        if any(name == each or each.endswith("_") and name.startswith(each) for each in names.split()):
            return f": it is not part of gluond; {instead}"
    return ""


def no_attribute(module: str, name: str) -> Exception:
    """The error for a name that a module lacks, with the replacement or the closest names."""
    known = [each for each in vars(sys.modules[module]) if not each.startswith("_")] if module in sys.modules else []
    close = hint(name) or operator_hint(name) or ("" if name.startswith("_") else did_you_mean(name, known))
    return lacking(module, name, close)


def lacking(module: str, name: str, instead: str) -> Exception:
    """An AttributeError; an ImportError for `from module import name`, where Python would keep what to do instead to itself."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__package__") == __package__ and frame.f_code.co_name in _ASKED:
        frame = frame.f_back
    if instead and frame is not None and frame.f_code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]:
        return ImportError(f"cannot import name '{name}' from '{module}'{instead}", name=module)
    return AttributeError(f"module '{module}' has no attribute '{name}'{instead}")


_ASKED = ("lacking", "no_attribute", "get", "__getattr__")  # The functions on the way from the module that is asked.


class _Module(types.ModuleType):
    """A module that says of a name that it lacks what to use."""

    def __getattr__(self, name: str) -> NoReturn:
        raise no_attribute(self.__name__, name)


def getter(package: str) -> Callable[[str], NoReturn]:
    """`__getattr__` of a package, whose public modules, which are all imported, get one as well."""
    for name, module in list(sys.modules.items()):
        inner = name[len(package) + 1:]
        if name.startswith(package + ".") and not inner.startswith("_") and "._" not in inner and "__getattr__" not in vars(module):
            module.__class__ = _Module

    def get(name: str) -> NoReturn:
        raise no_attribute(package, name)

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


_side_effects.find_missing_modules(_Finder())
