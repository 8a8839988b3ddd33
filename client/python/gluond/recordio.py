"""Files of records, each some bytes, as MXNet's mx.recordio: the form in which MXNet keeps images and their labels.

    record = mx.recordio.MXIndexedRecordIO("data.idx", "data.rec", "w")
    record.write_idx(0, mx.recordio.pack(mx.recordio.IRHeader(0, 3.0, 0, 0), b"..."))
    record.close()

A record begins with MAGIC and a number: its length and, in the highest three bits, a part's place. It is filled up to
four bytes. A record with MAGIC inside, at a place that four divides, is written in parts without these MAGICs, so that
a reader who begins anywhere finds where records begin.
"""
from __future__ import annotations

import numbers
import os
import struct
import threading
from collections import namedtuple
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from . import _image_files
from .base import MXNetError, cannot_open

__all__ = ["IRHeader", "MXIndexedRecordIO", "MXRecordIO", "pack", "pack_img", "unpack", "unpack_img"]

MAGIC = struct.pack("<I", 0xCED7230A)
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)  # The place of a part in its record.
_LENGTH_BITS = 29
_HEAD = struct.Struct("<4sI")


def _parts(data: bytes) -> Iterator[Tuple[int, bytes]]:
    """The parts of a record: (place, bytes)."""
    begin, at = 0, data.find(MAGIC)
    while at >= 0:
        if at % 4 == 0:
            yield (_MIDDLE if begin else _FIRST), data[begin:at]
            begin = at + 4
        at = data.find(MAGIC, max(at + 1, begin))
    yield (_LAST if begin else _WHOLE), data[begin:]


def _written(data: bytes) -> bytes:
    """A record as it is in a file."""
    return b"".join(
        _HEAD.pack(MAGIC, place << _LENGTH_BITS | len(part)) + part + b"\0" * (-len(part) % 4) for place, part in _parts(data)
    )


class MXRecordIO:
    """A file of records: `flag` "w" writes a new one, "r" reads one. `close` it after writing.

    A pickled reader is opened anew, at its beginning. NoSuchFile: there is none to read. ValueError: another flag.
    """

    def __init__(self, uri: str, flag: str) -> None:
        self.uri = uri
        self.flag = flag
        self.is_open = False
        self.open()

    def open(self) -> None:
        """Opens the file, at its beginning; for writing, empty."""
        if self.flag not in ("r", "w"):
            raise ValueError(f"Invalid flag {self.flag}")
        self.writable = self.flag == "w"
        try:
            # Records are written at once, so that a forked process has nothing left to write at its end.
            self._file: Any = open(self.uri, "wb", 0) if self.writable else open(self.uri, "rb")
        except OSError as error:
            raise cannot_open(error) from error
        self.pid = os.getpid()
        self.is_open = True

    def close(self) -> None:
        """Closes the file; a closed one is left as it is."""
        if self.is_open:
            self._file.close()
            self.is_open = False
            self.pid = None  # type: ignore[assignment]

    def __del__(self) -> None:
        if getattr(self, "is_open", False):
            self.close()

    def __getstate__(self) -> Dict[str, Any]:
        if self.writable and self.is_open:
            raise MXNetError(f"{self.uri} is being written; it would be emptied where it is opened anew. Call close() " "first.")
        return {name: value for name, value in vars(self).items() if name not in ("_file", "_lock", "fidx")}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        vars(self).update(state, is_open=False)
        if state["is_open"]:
            self.open()

    def reset(self) -> None:
        """Goes back to the beginning. A file that is being written becomes empty."""
        self.close()
        self.open()

    def _check(self, writable: bool, may_reset: bool = False) -> None:
        """AssertionError: it is open for the other direction. MXNetError: it is closed, or another process's."""
        if self.writable != writable:
            raise AssertionError(f"{self.uri} is open to be {'written' if self.writable else 'read'}.")
        if not self.is_open:
            raise MXNetError(f"{self.uri} is closed; open() opens it anew.")
        if self.pid != os.getpid():
            if not may_reset:
                raise MXNetError(
                    f"Forbidden operation in multiple processes: {self.uri} was opened before a fork; " "call reset() first."
                )
            self.reset()

    def write(self, buf: bytes) -> None:
        """Adds a record, of less than 2**29 bytes."""
        self._check(writable=True)
        buf = bytes(buf)
        if len(buf) >> _LENGTH_BITS:
            raise MXNetError(f"{self.uri}: RecordIO only accept record less than 2^29 bytes; got {len(buf)}.")
        rest = memoryview(_written(buf))
        while rest:
            rest = rest[self._file.write(rest) :]

    def read(self) -> Optional[bytes]:
        """The next record; None after the last one. MXNetError: there is no whole record."""
        self._check(writable=False)
        found: List[bytes] = []
        while True:
            head = self._file.read(_HEAD.size)
            if not head and not found:
                return None
            if len(head) < _HEAD.size or head[:4] != MAGIC:
                raise self._damaged(len(head), "is cut off" if len(head) < _HEAD.size else "does not begin here")
            place, size = divmod(_HEAD.unpack(head)[1], 1 << _LENGTH_BITS)
            if (place in (_MIDDLE, _LAST)) != bool(found) or place > _LAST:
                raise self._damaged(len(head), "has a part that does not follow")
            part = self._file.read(size + -size % 4)
            if len(part) < size + -size % 4:
                raise self._damaged(len(part), "is cut off")
            found.append(part[:size])
            if place in (_WHOLE, _LAST):
                return MAGIC.join(found)

    def _damaged(self, behind: int, what: str) -> MXNetError:
        return MXNetError(f"{self.uri}: Invalid RecordIO File: a record {what}, at byte {self._file.tell() - behind}.")


class MXIndexedRecordIO(MXRecordIO):
    """A file of records with a second file, `idx_path`, of their keys and places, which finds them in any order.

    `keys` are in the order of writing; `idx` has the place of each. `key_type` makes a key of its text.
    Threads may call read_idx at once.
    """

    def __init__(self, idx_path: str, uri: str, flag: str, key_type: Callable[[Any], Any] = int) -> None:
        self.idx_path = idx_path
        self.idx: Dict[Any, int] = {}
        self.keys: List[Any] = []
        self.key_type = key_type
        self.fidx: Any = None
        super().__init__(uri, flag)

    def open(self) -> None:
        """Opens both files, and reads the one of keys."""
        super().open()
        self._lock = threading.RLock()
        self.idx, self.keys = {}, []
        try:
            self.fidx = open(self.idx_path, self.flag, 1, encoding="utf-8")
            if not self.writable:
                self._read_keys()
        except OSError as error:
            self.close()
            raise cannot_open(error) from error

    def _read_keys(self) -> None:
        for number, line in enumerate(self.fidx, 1):
            try:
                key, place = line.strip().split("\t")[:2]
                self.idx[self.key_type(key)] = int(place)
                self.keys.append(self.key_type(key))
            except ValueError as error:
                raise MXNetError(
                    f"{self.idx_path}, line {number}: a key, a tab and a number are expected; it is " f"{line.strip()[:80]!r}."
                ) from error

    def close(self) -> None:
        """Closes both files."""
        super().close()
        if self.fidx is not None:
            self.fidx.close()
            self.fidx = None

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.fidx = None
        super().__setstate__(state)

    def seek(self, idx: Any) -> None:
        """Goes to the record of a key. KeyError: there is no such key."""
        self._check(writable=False, may_reset=True)
        self._file.seek(self.idx[idx])

    def tell(self) -> int:
        """The place of the record that is written next."""
        self._check(writable=True)
        return self._file.tell()

    def read_idx(self, idx: Any) -> Optional[bytes]:
        """The record of a key. KeyError: there is no such key."""
        self._check(writable=False, may_reset=True)
        with self._lock:
            self.seek(idx)
            return self.read()

    def write_idx(self, idx: Any, buf: bytes) -> None:
        """Adds a record and its key."""
        key, place = self.key_type(idx), self.tell()
        self.write(buf)
        self.fidx.write(f"{key}\t{place}\n")
        self.idx[key] = place
        self.keys.append(key)


def record_places(uri: str) -> List[int]:
    """The place of each record in a file. MXNetError: something else is there."""
    reader, found = MXRecordIO(uri, "r"), []
    size = os.path.getsize(uri)
    at, place = 0, _LAST
    while at < size:
        reader._file.seek(at)
        head = reader._file.read(_HEAD.size)
        if len(head) < _HEAD.size or head[:4] != MAGIC:
            raise reader._damaged(len(head), "does not begin here")
        if place in (_WHOLE, _LAST):
            found.append(at)
        place, length = divmod(_HEAD.unpack(head)[1], 1 << _LENGTH_BITS)
        at += _HEAD.size + length + -length % 4
    reader.close()
    return found


# The label of a packed sample, a number or `flag` numbers, and two numbers of its own, of which `id` is the usual one.
IRHeader = namedtuple("HEADER", ["flag", "label", "id", "id2"])  # type: ignore[name-match]
IRHeader.__qualname__ = "IRHeader"  # Pickle asks for it; the other name is the one that MXNet prints.

_IR_FORMAT = "IfQQ"  # Libraries that read records by themselves import these two.
_HEADER = struct.Struct("<" + _IR_FORMAT)
_IR_SIZE = _HEADER.size


def pack(header: Any, s: bytes) -> bytes:
    """A record of a header and bytes. The label is a number, or an array of any shape, which becomes float32."""
    header = IRHeader(*header)
    if isinstance(header.label, numbers.Number):
        return _HEADER.pack(0, *header[1:]) + s
    label = np.asarray(header.label, np.float32)
    return _HEADER.pack(label.size, 0, header.id, header.id2) + label.tobytes() + s


def unpack(s: bytes) -> Tuple[IRHeader, bytes]:
    """The header and the bytes of a record. MXNetError: it is too short."""
    flag = _HEADER.unpack_from(s)[0] if len(s) >= _HEADER.size else 0
    if len(s) < _HEADER.size + 4 * flag:
        raise MXNetError(
            f"unpack: a record of {len(s)} bytes has no place for its header" f"{f' and {flag} labels' if flag else ''}."
        )
    header = IRHeader(*_HEADER.unpack_from(s))
    if flag:
        header = header._replace(label=np.frombuffer(s, np.float32, flag, _HEADER.size))
    return header, s[_HEADER.size + 4 * flag :]


def pack_img(header: Any, img: np.ndarray, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """A record of a header and an image (H, W) or (H, W, C) of bytes, blue first, which is written as `img_fmt` tells.

    `quality`: 1 to 100 of .jpg; of .png how small it is made, 1 to 9. MXNetError: the format cannot be written.
    """
    return pack(header, _image_files.encode(img, img_fmt, quality))


def unpack_img(s: bytes, iscolor: int = -1) -> Tuple[IRHeader, np.ndarray]:
    """The header and the image of a record: (H, W, 3), blue first, or gray (H, W) with `iscolor` 0.

    -1 leaves an image gray that is so, and keeps its transparency (H, W, 4); others turn a photograph as its camera
    was held.
    """
    header, content = unpack(s)
    pixels = _image_files.decode(content, iscolor, to_rgb=False, turn=True)
    return header, pixels[..., 0] if pixels.shape[2] == 1 else pixels
