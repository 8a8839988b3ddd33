"""Before a fork everybody leaves gRPC: no thread of theirs is within it, and their channels are closed.

A user of channels joins, and is then asked to `leave`, which returns when no thread is within gRPC for it, or too long a
time has passed. Meanwhile `is_due()`, and nobody enters gRPC anew: `wait()`. In the child each is asked to `abandon` what is its
parent's.

gRPC's core stays, with an idle channel: where there is none it ends, and ends incompletely (1.51 keeps its epoll descriptor, which a child
would share); where there is one, its own handlers of forks renew in the child all that it has.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, List, Optional, Set

import grpc

from .. import _side_effects

_inside: Set[Any] = set()
_settling: List[Callable[[], None]] = []
_of_the_parent: List[Any] = []  # In a forked child.
_idle_channel: Optional[grpc.Channel] = None
_may_enter = threading.Event()
_may_enter.set()


def join(user: Any) -> None:
    """Has this user of gRPC leave before forks, from now on."""
    _inside.add(user)


def part(user: Any) -> None:
    """The user has no channel any more."""
    _inside.discard(user)


def is_due() -> bool:
    """Whether a fork is under way."""
    return not _may_enter.is_set()


def wait() -> None:
    """Returns when no fork is under way, for a thread that enters gRPC then. Not for the program's main thread, which an interrupt
    would leave with a lock."""
    global _idle_channel
    _may_enter.wait()
    if _idle_channel is None:
        _idle_channel = grpc.insecure_channel("unix:/no/server")  # It connects at a call, and nobody calls.


def settle(function: Callable[[], None]) -> Callable[[], None]:
    """A decorator: the function is called before everybody leaves."""
    _settling.append(function)
    return function


def _leave() -> None:
    for function in _settling:
        function()
    _may_enter.clear()
    for user in list(_inside):
        user.leave()


def _come_back() -> None:
    _may_enter.set()


_side_effects.around_fork(_leave, _come_back)


@_side_effects.in_child
def _after_fork() -> None:
    global _may_enter, _idle_channel
    _of_the_parent.append(_idle_channel)
    _idle_channel = None
    _of_the_parent.extend(_inside)  # Never freed: threads that are not here have left them in some state.
    for user in _inside:
        user.abandon()
    _inside.clear()
    _may_enter = threading.Event()
    _may_enter.set()
