"""While a process forks, no other thread asks for the interpreter's lock.

grpcio's handlers run Python inside fork(), in the child before Python has repaired its lock there. If another thread
had asked for the lock, the child would hand it over and wait for a thread that it does not have. A thread asks when it
has waited for a switch interval, so the interval is made longer than a fork takes. Import this module before
registering hooks that need other threads.
"""

from __future__ import annotations

import os
import sys
import threading
import time

# Also how long a fork may wait for a thread that computes in Python.
FORK_SECONDS = 0.5
_usual = sys.getswitchinterval()
# Two threads may fork at once.
_forking = threading.RLock()


def _before() -> None:
    global _usual
    _forking.acquire()
    if threading.active_count() > 1 and sys.getswitchinterval() < FORK_SECONDS:
        _usual = sys.getswitchinterval()
        sys.setswitchinterval(FORK_SECONDS)
        time.sleep(2 * _usual)  # Threads that wait already ask now.


def _after() -> None:
    if sys.getswitchinterval() == FORK_SECONDS:
        sys.setswitchinterval(_usual)


def _after_in_parent() -> None:
    _after()
    _forking.release()


def _after_in_child() -> None:
    global _forking
    _forking = threading.RLock()
    _after()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
