"""Before a fork everybody leaves gRPC: no thread of theirs is within it, and their channels are closed.

A user of channels joins, and is then asked to `leave`, which returns when no thread is within gRPC for it, or too long a
time has passed. Meanwhile `is_due()`, and nobody enters gRPC anew: `wait()`. In the child each is asked to `abandon` what is its
parent's.

A call that has ended may still be in the queue of a thread of gRPC's core, to be destroyed. 1.51 does that within its handler of
forks, where it waits for the fork to be over: the fork waits for that thread to sleep.

gRPC's core stays, with an idle channel: where there is none it ends, and ends incompletely (1.51 keeps its epoll descriptor, which a child
would share); where there is one, its own handlers of forks renew in the child all that it has.
"""

from __future__ import annotations

import pathlib
import threading
import time
from typing import Any, Callable, List, Optional, Set

import grpc

from .. import _side_effects

# The threads of gRPC's core that have a queue, by the 15 bytes that Linux keeps of their names.
_WITH_QUEUE = ("default-executo", "resolver-execut")
# A fork waits so long for them, and then goes on.
_REST_SECONDS = 2.0

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
    end = time.monotonic() + _REST_SECONDS
    while _core_is_at_work() and time.monotonic() < end:
        time.sleep(0.001)


def _core_is_at_work() -> bool:
    """Whether a thread of gRPC's core that has a queue is not asleep: work in the queue wakes the thread at once."""
    for path in pathlib.Path("/proc/self/task").glob("*/stat"):
        try:
            name, _, state = path.read_text().partition("(")[2].rpartition(")")
        except OSError:  # The thread has ended, or the system has no such files.
            continue
        if name in _WITH_QUEUE and state.split()[0] != "S":
            return True
    return False


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
