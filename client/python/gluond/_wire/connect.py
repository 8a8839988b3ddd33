"""The session of this process: opened at first use, or by `mx.connect`."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from typing import Optional

from .. import _side_effects
from .access import Access
from .local_server import LocalServer
from .session import Session

# At the program's end a failure that nobody has been told of is waited for so long.
_LAST_SECONDS = 1.0

_lock = threading.Lock()
_current: Optional[Session] = None
_all: "weakref.WeakSet[Session]" = weakref.WeakSet()
# In a forked child: sessions of the parent, whose gRPC objects must not be touched, not even freed.
_of_the_parent: list = []


def current() -> Session:
    """The session that new arrays belong to. Connects to GLUOND_ADDRESS, else starts a private local server."""
    session = _current
    return session if session is not None else _open(os.environ.get("GLUOND_ADDRESS"), Access.of(), again=False)


def replace(address: Optional[str], access: Access) -> None:
    """Opens a session for all arrays from now on, as `current` does where there is no address."""
    _open(address or os.environ.get("GLUOND_ADDRESS"), access, again=True)


def _open(address: Optional[str], access: Access, again: bool) -> Session:
    global _current
    with _lock:
        if _current is not None and not again:
            return _current
        _side_effects.keep_freed_memory()
        if address:
            session = Session(address, access=access)
        else:
            local = LocalServer()
            session = Session(local.address, local)
        if again:  # An address that is wrong changes nothing.
            session.open()
        _all.add(session)
        _current = session
        _end_unused()
        return session


def _end_unused() -> None:
    """Ends the private servers of earlier sessions, of which the program has no array any more."""
    for session in list(_all):
        if session is not _current and session.local is not None and not session.has_arrays():
            _all.discard(session)
            session.close()


def disconnect() -> None:
    """Ends the session, with its arrays and its private server. The next use opens another one."""
    global _current
    with _lock:
        session, _current = _current, None
        if session is not None:
            _all.discard(session)
            session.close()


@_side_effects.at_end
def _close_all() -> None:
    for session in list(_all):
        unheard = session.unheard(_LAST_SECONDS)
        if unheard:
            sys.stderr.write(f"gluond: a call of this program has failed, and the program has not asked for its result:\n{unheard}\n")
        session.close()


_side_effects.prepare_grpc_for_forks()


@_side_effects.in_child
def _after_fork() -> None:
    global _lock, _current
    _lock = threading.Lock()
    _of_the_parent.extend(_all)
    for session in _of_the_parent:
        session.abandon()
    _all.clear()
    _current = None
