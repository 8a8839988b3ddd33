"""Lists of operators that servers have sent, in files: a server that tells the same registry_hash has the same list.

A file that cannot be read or written is as good as none.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
from typing import Any, Optional

from google.protobuf.message import DecodeError

from ._files import write_whole
from ._proto import operator_pb2

_HASH = re.compile("[0-9a-f]{8,64}")
_MOST_FILES = 8
_MOST_BYTES = 16 << 20


def _folder() -> pathlib.Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "gluond"


def load(registry_hash: str) -> Optional[Any]:
    """The ListOperatorsResponse with this hash, if there is one."""
    if not _HASH.fullmatch(registry_hash):
        return None
    with contextlib.suppress(OSError, RuntimeError, DecodeError):
        path = _folder() / f"operators-{registry_hash}.pb"
        if path.stat().st_size > _MOST_BYTES:
            return None
        answer = operator_pb2.ListOperatorsResponse.FromString(path.read_bytes())
        if answer.registry_hash == registry_hash and answer.operators:
            return answer
    return None


def store(answer: Any) -> None:
    """Writes a complete ListOperatorsResponse, whole or not at all, and removes the oldest files beyond a few."""
    if not _HASH.fullmatch(answer.registry_hash) or answer.ByteSize() > _MOST_BYTES:
        return
    with contextlib.suppress(OSError, RuntimeError):
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / f"operators-{answer.registry_hash}.pb", [answer.SerializeToString()])
        kept = sorted(folder.glob("operators-*.pb"), key=lambda path: path.stat().st_mtime)
        for path in kept[:-_MOST_FILES]:
            path.unlink()
