"""write_whole: the one way in which the package writes files.

    write_whole("net.params", [b"...", b"..."])

The bytes are written to a file aside, which takes the place of the old one at the end. So an interrupt, a full disk or a
crash leaves the old file as it was, and nobody reads half a file.
"""
from __future__ import annotations

import contextlib
import os
import secrets
import stat
from typing import Iterable, Optional, Union

from .base import cannot_open

_MOST_LETTERS = 50  # The letters of the old name in the name aside; file systems allow 255 bytes.


def write_whole(path: Union[str, "os.PathLike[str]"], pieces: Iterable[bytes], mode: int = 0o666) -> None:
    """Writes a file, or leaves the one that is there. mode: the permissions of a new one, from which umask takes away.

    A file that is no ordinary one, such as /dev/stdout, is written in place; so is a file in a folder that takes no new files.
    FileError: the file cannot be written; it names `path`.
    """
    try:
        found = _status(path)
        if found is not None and not stat.S_ISREG(found.st_mode):
            _write(os.open(path, os.O_WRONLY), pieces, is_ordinary=False)
            return
        _replace(os.path.realpath(os.fsdecode(path)), found, pieces, mode)
    except OSError as error:
        raise cannot_open(OSError(error.errno, error.strerror, os.fsdecode(path))) from None


def _replace(target: str, found: Optional[os.stat_result], pieces: Iterable[bytes], mode: int) -> None:
    folder, name = os.path.split(target)
    aside = os.path.join(folder, f".{name[:_MOST_LETTERS]}-{secrets.token_hex(4)}")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    except PermissionError:
        if found is None:
            raise
        _write(os.open(target, os.O_WRONLY | os.O_TRUNC), pieces)
        return
    try:
        if found is not None:
            os.chmod(aside, stat.S_IMODE(found.st_mode))
        _write(descriptor, pieces)
        os.replace(aside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise


def _status(path: Union[str, "os.PathLike[str]"]) -> Optional[os.stat_result]:
    with contextlib.suppress(FileNotFoundError):
        return os.stat(path)
    return None


def _write(descriptor: int, pieces: Iterable[bytes], is_ordinary: bool = True) -> None:
    with open(descriptor, "wb") as file:
        file.writelines(pieces)
        file.flush()
        if is_ordinary:
            os.fsync(descriptor)  # A disk may tell only now that it is full.
