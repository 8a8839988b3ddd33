"""The keys of saved sessions: those that this process has got, and, in a file, those of all processes of this user.

The file is `gluond/sessions` in XDG_CONFIG_HOME, else in ~/.config: {"format": 1, "keys": {address: {name: key}}}. Only its
user can read it. A private server's address ends with its process, and so its keys are in this process alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
from typing import Any, Dict, Iterator, Optional, Tuple

try:
    import fcntl
except ImportError:  # Not a Unix: two processes that save at once may then lose one of both keys.
    fcntl = None  # type: ignore[assignment]

from .._files import write_whole
from .._wire.session import Session
from ..base import MXNetError

Keys = Dict[str, Dict[str, str]]

_here: Dict[Tuple[str, str], str] = {}


def path() -> pathlib.Path:
    """The file."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return pathlib.Path(base) / "gluond" / "sessions"


def where(session: Session) -> str:
    """The place where this session's keys are, for messages."""
    return "this process" if session.local is not None else f"{path()} under '{session.address}'"


def find(session: Session, name: str) -> Optional[str]:
    """The key of a name on a session's server. MXNetError: the file is damaged, or cannot be read."""
    known = None if session.local is not None else _read().get(session.address, {}).get(name)
    return known or _here.get((session.address, name))


def store(session: Session, name: str, key: str) -> None:
    """Remembers a key. MXNetError, OSError: this process does, but the file cannot be written."""
    _here[session.address, name] = key
    if session.local is None and _known_in_file(session, name) != key:
        with _changing() as keys:
            keys.setdefault(session.address, {})[name] = key


def forget(session: Session, name: str) -> None:
    """Forgets the key of a name. MXNetError, OSError: as store()."""
    _here.pop((session.address, name), None)
    if session.local is None and _known_in_file(session, name) is not None:
        with _changing() as keys:
            keys.get(session.address, {}).pop(name, None)


def _known_in_file(session: Session, name: str) -> Optional[str]:
    return _read().get(session.address, {}).get(name)


@contextlib.contextmanager
def _changing() -> Iterator[Keys]:
    """The keys, which are written when the block ends. One process at a time is in here."""
    folder = path().parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _narrow(folder, 0o700)
    with open(os.open(folder / "sessions.lock", os.O_RDWR | os.O_CREAT, 0o600)) as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        keys = _read()
        yield keys
        content = {"format": 1, "keys": {address: names for address, names in keys.items() if names}}
        write_whole(path(), [json.dumps(content, indent=1).encode()], 0o600)


def _read() -> Keys:
    file = path()
    try:
        text = file.read_text(encoding="utf-8")
        _narrow(file, 0o600)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise _damaged(str(error)) from None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(str(error)) from None
    keys = content.get("keys") if isinstance(content, dict) and content.get("format") == 1 else None
    if not isinstance(keys, dict) or not all(
        isinstance(names, dict) and all(isinstance(key, str) for key in names.values()) for names in keys.values()
    ):
        raise _damaged("it is not of the form of this client")
    return keys


def _damaged(why: str) -> MXNetError:
    return MXNetError(
        f"the file of keys, {path()}, cannot be read: {why}; repair it, or move it away and give the key that "
        "save_session returned, as key="
    )


def _narrow(at: pathlib.Path, mode: int) -> None:
    """Takes permissions away that others have."""
    if at.stat().st_mode & 0o077:
        at.chmod(mode)
