"""The session of this process: opened at first use, or by `mx.connect`."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from typing import Dict, Optional

from .. import _side_effects
from .access import Access
from .local_server import LocalServer, answers
from .session import Session

# At the program's end a failure that nobody has been told of is waited for so long.
_LAST_SECONDS = 1.0

_lock = threading.Lock()
_current: Optional[Session] = None
_all: "weakref.WeakSet[Session]" = weakref.WeakSet()
# In a forked child: the variables by which it reaches its parent's server.
_inherited: Dict[str, str] = {}
# In a forked child: sessions of the parent, whose gRPC objects must not be touched, not even freed.
_of_the_parent: list = []


def current() -> Session:
    """The session that new arrays belong to. Connects to the server of the process that forked this one, or started it by
    multiprocessing; else to GLUOND_ADDRESS; else starts a private local server."""
    session = _current
    if session is not None:
        return session
    variables = {**os.environ, **_of_a_server_that_is_there(_inherited or _side_effects.of_parent())}
    return _open(variables.get("GLUOND_ADDRESS"), Access.of(variables), replacing=False)


def _of_a_server_that_is_there(variables: Dict[str, str]) -> Dict[str, str]:
    """The variables, unless they name a private server that has ended with its process."""
    address = variables.get("GLUOND_ADDRESS", "")
    return {} if address.startswith("unix") and not answers(address) else variables


def replace(address: Optional[str], access: Access) -> None:
    """Opens a session for all arrays from now on, as `current` does where there is no address."""
    _open(address or os.environ.get("GLUOND_ADDRESS"), access, replacing=True)


def _open(address: Optional[str], access: Access, replacing: bool) -> Session:
    global _current
    with _lock:
        if _current is not None and not replacing:
            return _current
        _side_effects.keep_freed_memory()
        if address:
            session = Session(address, access=access)
        else:
            local = LocalServer()
            session = Session(local.address, local)
        if replacing:  # An address that is wrong changes nothing.
            session.open()
        _side_effects.tell_children(session.environment)
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
        _inherited.clear()
        _side_effects.tell_children(None)


@_side_effects.at_end
def _close_all() -> None:
    for session in list(_all):
        unheard = session.unheard(_LAST_SECONDS)
        if unheard:
            sys.stderr.write(
                f"gluond: a call of this program has failed, and the program has not asked for its result:\n{unheard}\n"
            )
        session.close()


_side_effects.prepare_grpc_for_forks()


@_side_effects.in_child
def _after_fork() -> None:
    global _lock, _current
    _lock = threading.Lock()
    if _current is not None:
        _inherited.update(_current.environment)
    _of_the_parent.extend(_all)
    for session in _of_the_parent:
        session.abandon()
    _all.clear()
    _current = None
