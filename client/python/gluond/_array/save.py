"""Files of arrays in MXNet's `.params` format, little-endian:

    u64 0x112, u64 0; u64 number of arrays, the arrays; u64 number of names (0 or that of the arrays), the names
    array: u32 magic; i32 storage type (0: dense); shape: i32 dimensions, i64 each; i32, i32 device; i32 dtype; the bytes
    name: u64 length, the bytes

A file is read as data and nothing else, and no length in it is believed before it is compared with the file's.
"""

from __future__ import annotations

import struct
from math import prod
from typing import Any, Dict, List, Tuple, Union

import numpy as np

from .._files import write_whole
from .._wire.tensors import BFLOAT16, DTYPE_OF, flag_of
from ..base import MXNetError, cannot_open
from ..context import cpu
from . import transfer
from .array import NDArray

_LIST_MAGIC = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
# Dtypes of files that the server lacks: each is read as a dtype that holds all its values, or, for u64, nearly all.
_WIDER = {8: ("<i2", "int32"), 9: ("<u2", "int32"), 10: ("<u4", "int64"), 11: ("<u8", "int64")}
_MOST_DIMENSIONS = 32


def save(fname: str, data: Union[NDArray, List[NDArray], Dict[str, NDArray]]) -> None:
    """Writes arrays, without or with names. MXNet reads the file, and gluond's load() reads MXNet's."""
    write_whole(fname, pieces_of(data))


def pieces_of(data: Union[NDArray, List[NDArray], Dict[str, NDArray]]) -> List[bytes]:
    """The bytes of such a file, in pieces."""
    if isinstance(data, NDArray):
        data = [data]
    if isinstance(data, dict):
        names, arrays = list(data), list(data.values())
        if not all(isinstance(name, str) for name in names):
            raise TypeError("save only accept dict str->NDArray or list of NDArray")
    elif isinstance(data, (list, tuple)):
        names, arrays = [], list(data)
    else:
        raise ValueError("data needs to either be a NDArray, dict of str, NDArray pairs or a list of NDarrays.")
    if not all(isinstance(array, NDArray) for array in arrays):
        raise TypeError("save only accept dict str->NDArray or list of NDArray")
    pieces = [struct.pack("<QQQ", _LIST_MAGIC, 0, len(arrays))]
    for array in arrays:
        pieces += _written(array)
    pieces.append(struct.pack("<Q", len(names)))
    for name in names:
        encoded = name.encode()
        pieces += [struct.pack("<Q", len(encoded)), encoded]
    return pieces


def _written(array: NDArray) -> List[Any]:
    values = np.ascontiguousarray(array.asnumpy())
    shape = values.shape
    # A rank of 0 means "no array" in version 2; version 3 knows scalars.
    head = struct.pack("<Iii", _V2 if shape else _V3, 0, len(shape)) + struct.pack(f"<{len(shape)}q", *shape)
    return [head + struct.pack("<iii", 1, 0, flag_of(values.dtype)), values.tobytes()]


def load(fname: str) -> Any:
    """Reads a file of arrays: a dict if they have names, else a list. They live on the CPU."""
    try:
        with open(fname, "rb") as file:
            data = file.read()
    except OSError as error:
        raise cannot_open(error) from None
    return _read(data, fname)


def load_named(fname: str) -> Dict[str, NDArray]:
    """Reads a file of arrays with names; one of no arrays may be a dict or a list. ValueError: the arrays have no names."""
    loaded = load(fname)
    if loaded and not isinstance(loaded, dict):
        raise ValueError(f"'{fname}' holds arrays without names; parameters are found by their names.")
    return dict(loaded)


def load_frombuffer(buf: Union[bytes, bytearray]) -> Any:
    """The same from the bytes of such a file."""
    return _read(bytes(buf), "the buffer")


class _Reader:
    """Takes values from the bytes of a file; MXNetError where it ends too soon."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._at = 0
        self._what = what

    def left(self) -> int:
        """Bytes that are not read yet."""
        return len(self._data) - self._at

    def bytes(self, count: int) -> memoryview:
        """The next bytes."""
        if not 0 <= count <= self.left():
            raise self.broken(f"{count} bytes are announced at byte {self._at}, but {self.left()} follow")
        self._at += count
        return memoryview(self._data)[self._at - count : self._at]

    def number(self, form: str) -> int:
        """The next number, of struct's form."""
        return struct.unpack("<" + form, self.bytes(struct.calcsize("<" + form)))[0]

    def broken(self, why: str) -> MXNetError:
        """The error for a broken file."""
        return MXNetError(f"{self._what} is no file of NDArrays, or a damaged one: {why}")


def _read(data: bytes, what: str) -> Union[List[NDArray], Dict[str, NDArray]]:
    reader = _Reader(data, what)
    if reader.left() < 24 or reader.number("Q") != _LIST_MAGIC:
        raise reader.broken("it does not begin with the number 0x112")
    reader.number("Q")
    count = reader.number("Q")
    if count > reader.left() // 4:
        raise reader.broken(f"it announces {count} arrays, but has {reader.left()} bytes left")
    values = [_read_array(reader) for _ in range(count)]
    names = _read_names(reader, count)
    arrays = [transfer.put(NDArray, each, cpu(), each.dtype) for each in values]
    return dict(zip(names, arrays)) if names else arrays


def _read_names(reader: _Reader, arrays: int) -> List[str]:
    count = reader.number("Q")
    if count not in (0, arrays):
        raise reader.broken(f"it has {arrays} arrays, but {count} names")
    try:
        return [str(reader.bytes(reader.number("Q")), "utf-8") for _ in range(count)]
    except UnicodeDecodeError:
        raise reader.broken("a name is not UTF-8") from None


def _read_shape(reader: _Reader, dimensions: int, form: str) -> Tuple[int, ...]:
    if dimensions > _MOST_DIMENSIONS:
        raise reader.broken(f"an array has {dimensions} dimensions")
    return tuple(reader.number(form) for _ in range(dimensions))


def _read_array(reader: _Reader) -> np.ndarray:
    magic = reader.number("I")
    if magic in (_V2, _V3):
        if reader.number("i") != 0:
            raise reader.broken(
                "an array is sparse; gluond has dense arrays only. Convert it in MXNet with " "x.tostype('default')"
            )
        dimensions = reader.number("i")
        if dimensions < 0 or (dimensions == 0 and magic == _V2):
            raise reader.broken("an array is empty (it was never given a shape)")
        shape = _read_shape(reader, dimensions, "q")
    elif magic == _V1:
        shape = _read_shape(reader, reader.number("i"), "q")
    else:  # The oldest files begin with the number of dimensions.
        shape = _read_shape(reader, magic, "I")
    if not shape and magic != _V3:
        raise reader.broken("an array is empty (it was never given a shape)")
    reader.bytes(8)  # The device.
    flag = reader.number("i")
    if min(shape, default=1) < 0:
        raise reader.broken(f"an array has the shape {shape}")
    if flag in _WIDER:
        stored, dtype = _WIDER[flag]
        return _values(reader, np.dtype(stored), shape).astype(dtype)
    if flag not in DTYPE_OF or flag == BFLOAT16:
        raise reader.broken(f"an array has the unknown dtype {flag}")
    return _values(reader, DTYPE_OF[flag], shape)


def _values(reader: _Reader, dtype: np.dtype, shape: Tuple[int, ...]) -> np.ndarray:
    return np.frombuffer(reader.bytes(prod(shape) * dtype.itemsize), dtype).reshape(shape)
