"""Functions for training scripts: splitting a batch over devices, clipping gradients, checking files."""
from __future__ import annotations

import hashlib
import math
import os
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

import numpy as np

from .. import ndarray
from .._array.array import NDArray
from ..base import WrongValue
from ..context import Context

__all__ = [
    "split_data",
    "split_and_load",
    "clip_global_norm",
    "check_sha1",
    "download",
    "HookHandle",
    "replace_file",
    "shape_is_known",
]


def split_data(data: NDArray, num_slice: int, batch_axis: int = 0, even_split: bool = True) -> List[NDArray]:
    """`data` cut along `batch_axis` into `num_slice` pieces, equal ones if `even_split`.

    Otherwise the first pieces may be one longer.
    """
    size = data.shape[batch_axis]
    if even_split and size % num_slice != 0:
        raise ValueError(
            f"data with shape {data.shape} cannot be evenly split into {num_slice} slices along axis "
            f"{batch_axis}. Use a batch size that's multiple of {num_slice} or set even_split=False to "
            "allow uneven partitioning of data."
        )
    if num_slice > size:
        raise ValueError(
            f"Too many slices for data with shape {data.shape}. Arguments are num_slice={num_slice} and "
            f"batch_axis={batch_axis}."
        )
    if num_slice == 1:
        return [data]
    step, longer = divmod(size, num_slice)
    ends = [step * (i + 1) + min(i + 1, longer) for i in range(num_slice)]
    return [ndarray.slice_axis(data, axis=batch_axis, begin=begin, end=end) for begin, end in zip([0] + ends, ends)]


def split_and_load(data: Any, ctx_list: Sequence[Context], batch_axis: int = 0, even_split: bool = True) -> List[NDArray]:
    """`data` (NDArray or numpy) cut into one piece for each context, each on its context."""
    if not isinstance(data, NDArray):
        data = ndarray.array(data, ctx=ctx_list[0])
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    pieces = split_data(data, len(ctx_list), batch_axis, even_split)
    return [piece.as_in_context(ctx) for piece, ctx in zip(pieces, ctx_list)]


def clip_global_norm(arrays: Sequence[NDArray], max_norm: float, check_isfinite: bool = True) -> Union[float, NDArray]:
    """Scales `arrays` in place so that the 2-norm of all of them together is at most `max_norm`; returns that norm.

    With `check_isfinite` the norm is a float, which costs a round trip, and one that is not finite is warned about.
    Without it the norm is an NDArray of shape (1,), and nothing waits.
    """
    if len(arrays) == 0:
        raise WrongValue("clip_global_norm: there are no arrays to clip.")
    home = arrays[0].context
    squares = [ndarray.sum(ndarray.square(a.astype("float32"))).as_in_context(home) for a in arrays]
    norm = ndarray.sqrt(ndarray.add_n(*squares))
    scale = ndarray.minimum(max_norm / (norm + 1e-8), 1.0)
    total: Union[float, NDArray] = norm
    if check_isfinite:
        total = float(norm.asscalar())
        if not math.isfinite(total):
            warnings.warn(UserWarning("nan or inf is detected. Clipping results will be undefined."), stacklevel=2)
        elif total <= max_norm:
            return total
    for array in arrays:
        factor = scale.as_in_context(array.context).astype(array.dtype)
        array *= factor
    return total


def check_sha1(filename: str, sha1_hash: str) -> bool:
    """Whether the file's SHA-1 is `sha1_hash` (40 hex digits, or the first 8)."""
    digest = hashlib.sha1()
    with open(filename, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()[: max(len(sha1_hash), 8)] == sha1_hash


def download(
    url: str,
    path: Optional[str] = None,
    overwrite: bool = False,
    sha1_hash: Optional[str] = None,
    retries: int = 5,
    verify_ssl: bool = True,
) -> str:
    """The local file for `url`, if it is there already; gluond fetches nothing from the internet.

    Raises FileNotFoundError with the path at which the file is expected.
    """
    name = url.split("/")[-1]
    target = name if path is None else os.path.expanduser(path)
    if os.path.isdir(target):
        target = os.path.join(target, name)
    if os.path.exists(target) and (sha1_hash is None or check_sha1(target, sha1_hash)):
        return target
    state = "has another SHA-1 than expected" if os.path.exists(target) else "is not there"
    raise FileNotFoundError(
        f"{target} {state}, and gluond downloads nothing. Fetch {url} by other means " f"(curl -Lo {target} {url}) and run again."
    )


def _get_repo_url() -> str:
    """The address before the names of MXNet's files, of which libraries make addresses to `download`: MXNET_GLUON_REPO."""
    url = os.environ.get("MXNET_GLUON_REPO", "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/")
    return url if url.endswith("/") else url + "/"


def _get_repo_file_url(namespace: str, filename: str) -> str:
    """The address of one of them."""
    return f"{_get_repo_url()}{namespace}/{filename}"


def replace_file(src: str, dst: str) -> None:
    """Renames a file, in the place of another one if that is there, in one step."""
    os.replace(src, dst)


def shape_is_known(shape: Optional[Sequence[int]]) -> bool:
    """Whether every dimension is known; 0 and -1 are not, and a rank of 0 is not."""
    return shape is not None and len(shape) > 0 and all(dimension > 0 for dimension in shape)


def _indent(text: str, spaces: int) -> str:
    """`text` with all lines but the first moved to the right."""
    first, *others = text.split("\n")
    return "\n".join([first] + [" " * spaces + line for line in others])


def _brief_print_list(names: Sequence[str], limit: int = 7) -> str:
    """The names quoted, the middle of a long list left out."""
    names = list(names)
    if len(names) > limit:
        return f"{_brief_print_list(names[:limit // 2], limit)}, ..., {_brief_print_list(names[-limit // 2:], limit)}"
    return ", ".join(f"'{name}'" for name in names)


class HookHandle:
    """A registered hook; `detach()`, or the end of a `with`, removes it."""

    def __init__(self, hooks: Dict[int, Callable[..., Any]], hook: Callable[..., Any]) -> None:
        self._hooks: Optional[Dict[int, Callable[..., Any]]] = hooks
        self._key = id(self)
        hooks[self._key] = hook

    def detach(self) -> None:
        """The hook is not called any more. Detaching twice is harmless."""
        if self._hooks is not None:
            self._hooks.pop(self._key, None)
            self._hooks = None

    def __enter__(self) -> "HookHandle":
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self.detach()


def dtype_name(dtype: Any) -> str:
    """MXNet's name of a dtype, as `float32`."""
    return np.dtype(dtype).name
