"""The Hosts of this process, one for each server that calls it."""

from __future__ import annotations

import threading
from typing import Any, Dict, List, Optional

from .. import _side_effects
from .._wire import connect, credential, outside
from . import callbacks, functions, registry
from .host import Host

_lock = threading.Lock()
_hosts: Dict[str, Host] = {}  # By address.
_of_the_parent: List[Host] = []


def of(session: Any) -> Host:
    """The open stream to a session's server."""
    found = _hosts.get(session.address)
    if found is None or found.has_ended:
        with _lock:
            found = _hosts.get(session.address)
            if found is None or found.has_ended:
                for address in [address for address, host in _hosts.items() if host.has_ended]:
                    del _hosts[address]
                found = _hosts[session.address] = Host(session, credential.key, callbacks.answer, functions.release)
    found.add_session(session)
    if not found.is_open:
        found.offer({})
    return found


def registered(operator: registry.Registered, before: Optional[registry.Registered]) -> None:
    """Tells servers of a new registration, where they must know of it now. before: the one that it replaces. After an error
    that one stands again."""
    if operator.shared:
        try:
            of(connect.current()).offer({operator.op_type: True})
        except BaseException:
            registry.take_back(operator, before)
            raise
    elif before is not None:
        for host in _running():
            host.renew(operator.op_type, False)


def _running() -> List[Host]:
    return [host for host in list(_hosts.values()) if not host.has_ended]


@_side_effects.at_end
def _end_all() -> None:
    for host in _running():
        host.end()


@outside.settle
def _settle() -> None:
    for host in _running():
        host.settle()


@_side_effects.in_child
def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _of_the_parent.extend(_hosts.values())  # Their gRPC objects must not be touched, not even freed.
    for host in _of_the_parent:
        host.abandon()
    _hosts.clear()
