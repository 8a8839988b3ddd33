"""The numbers of MXNet's dtypes, kinds of storage and of gradients, under the names by which libraries import them."""

from __future__ import annotations

from typing import Any, Dict

from .._wire.tensors import FLAG_OF

_DTYPE_NP_TO_MX: Dict[Any, int] = {None: -1, **{dtype.type: flag for dtype, flag in FLAG_OF.items() if dtype.names is None}}
_DTYPE_MX_TO_NP: Dict[int, Any] = {flag: kind for kind, flag in _DTYPE_NP_TO_MX.items()}
_STORAGE_TYPE_STR_TO_ID = {"undefined": -1, "default": 0, "row_sparse": 1, "csr": 2}
_STORAGE_TYPE_ID_TO_STR = {number: name for name, number in _STORAGE_TYPE_STR_TO_ID.items()}
_GRAD_REQ_MAP = {"null": 0, "write": 1, "add": 3}
