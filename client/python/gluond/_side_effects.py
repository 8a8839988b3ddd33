"""All that the package does to the process that imports it, beyond its own modules and threads; the README lists it.

At import: functions around a fork, functions at the program's end, a finder of modules, a hook that raises again an interrupt
which a finalizer has swallowed, and GRPC_ENABLE_FORK_SUPPORT=1, unless the environment has it. With the first session: freed memory is kept, and GLUOND_PARENT names the server to child processes.
"""

from __future__ import annotations

import _thread
import atexit
import ctypes
import json
import multiprocessing
import os
import platform
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, TypeVar

Function = TypeVar("Function", bound=Callable[[], None])

_PARENT = "GLUOND_PARENT"
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # Numbers of mallopt(3).


def prepare_grpc_for_forks() -> None:
    """Has gRPC's core prepare for forks, for a program that has gRPC channels of its own. Called when gRPC is loaded: its
    handlers in Python, which a variable set before switches on, want the interpreter's lock within fork(), and may wait there for
    a thread that the child does not have."""
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "1")


def keep_freed_memory() -> None:
    """Keeps up to 64 MiB of freed memory in this process from now on, unless its environment sets how glibc allocates, or it
    has another allocator.

    Arrays and messages of some hundred kilobytes come and go with every call. glibc gives their pages back to the kernel each
    time, and getting them again costs more than computing with them: half the time of a custom operator on 64 x 1000 numbers.
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return
    if platform.libc_ver()[0] != "glibc":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, 32 << 20)
    mallopt(_TRIM_THRESHOLD, 64 << 20)


def at_end(function: Function) -> Function:
    """A decorator: the function is called at the program's end."""
    atexit.register(function)  # type: ignore[arg-type]
    return function


def find_missing_modules(finder: Any) -> None:
    """Asks this finder for modules that nobody else has found."""
    sys.meta_path.append(finder)


# Interrupts.

_RAISED_AGAIN_SECONDS = 0.001  # By then the hook has ended, which would swallow the interrupt as the finalizer did.


def _interrupt_again() -> None:
    time.sleep(_RAISED_AGAIN_SECONDS)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def _raises_interrupts_again(told_before: Callable[[Any], Any]) -> Callable[[Any], None]:
    """A hook for exceptions that nobody can catch, in front of the one before.

    Python runs a signal's handler between any two steps of the main thread, and drops what the handler raises within a finalizer.
    A training frees an array every few microseconds: one Ctrl-C in seventy came while it did.
    """

    def told(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt) or not callable(signal.getsignal(signal.SIGINT)):
            told_before(unraisable)
            return
        at = unraisable.exc_traceback
        if at is not None and at.tb_next is None and at.tb_lineno == at.tb_frame.f_code.co_firstlineno:
            # The finalizer was not begun.
            unraisable.object(*([at.tb_frame.f_locals["self"]] if hasattr(unraisable.object, "__code__") else []))
        _thread.start_new_thread(_interrupt_again, ())

    return told


if hasattr(signal, "pthread_kill"):
    sys.unraisablehook = _raises_interrupts_again(sys.unraisablehook)


# Processes that multiprocessing starts.


def tell_children(variables: Optional[Dict[str, str]]) -> None:
    """Has child processes of multiprocessing find these variables by of_parent(); None: they find nothing."""
    if variables is None:
        os.environ.pop(_PARENT, None)
    else:
        os.environ[_PARENT] = json.dumps({"pid": os.getpid(), **variables})


def of_parent() -> Dict[str, str]:
    """The variables that the process that started this one by multiprocessing has told."""
    parent = multiprocessing.parent_process()
    told = json.loads(os.environ.get(_PARENT, "{}"))
    return told if parent is not None and told.pop("pid", None) == parent.pid else {}


# Forks.

_pauses: List[Callable[[], None]] = []
_resumes: List[Callable[[], None]] = []
_forking = _thread.allocate_lock()  # Two threads may fork at once.
_interrupts: List[BaseException] = []


def in_child(function: Function) -> Function:
    """A decorator: the function is called in each forked child."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)
    return function


def around_fork(pause: Callable[[], Any], resume: Callable[[], Any]) -> None:
    """Has the one called before a fork, and the other after it, in the parent. Neither is interrupted by a signal's handler."""
    _pauses.append(pause)
    _resumes.append(resume)


def _pause() -> None:
    _forking.acquire()
    for pause in reversed(_pauses):
        pause()


def _resume() -> None:
    for resume in _resumes:
        resume()
    _forking.release()


def _uninterrupted(work: Callable[[], None]) -> None:
    """Runs it in a thread of its own, where no signal's handler runs, and waits for it whatever a handler raises here."""
    begun, ended, over = _thread.allocate_lock(), _thread.allocate_lock(), []
    ended.acquire()

    def run() -> None:
        if begun.acquire(False):
            try:
                work()
            finally:
                over.append(True)
                ended.release()

    while not over:
        try:
            if not begun.locked():  # A second thread finds that the first has begun.
                _thread.start_new_thread(run, ())
            ended.acquire(timeout=0.05)
        except RuntimeError:  # No thread is to be had.
            run()
        except BaseException as error:  # pylint: disable=broad-except
            _interrupts.append(error)


def _before() -> None:
    _uninterrupted(_pause)


def _after_in_parent() -> None:
    _uninterrupted(_resume)
    interrupts = _interrupts[:]
    _interrupts.clear()
    if any(isinstance(error, KeyboardInterrupt) for error in interrupts):
        _thread.interrupt_main()
    elif interrupts:
        raise interrupts[0]


def _after_in_child() -> None:
    global _forking
    _forking = _thread.allocate_lock()
    _interrupts.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
