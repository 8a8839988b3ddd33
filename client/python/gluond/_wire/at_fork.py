"""Functions around a fork. A fork copies only its own thread: no other thread may be within gRPC, or hold a lock, which
the child would never see released.

Before a fork, the last registered function is called first; after it, the first registered one.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Iterable, List, TypeVar

Function = TypeVar("Function", bound=Callable[[], None])


def in_child(function: Function) -> Function:
    """A decorator: the function is called in each forked child."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)
    return function


def pause(streams: Callable[[], Iterable[Any]]) -> None:
    """Has each stream's `pause()` called before a fork, and its `resume()` after it, in the parent. streams: lists the
    streams at the time of the fork."""
    paused: List[Any] = []

    def before() -> None:
        paused.extend(streams())
        for stream in paused:
            stream.pause()

    def after_in_parent() -> None:
        while paused:
            paused.pop().resume()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=after_in_parent, after_in_child=paused.clear)
