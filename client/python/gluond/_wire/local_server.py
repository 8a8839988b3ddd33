"""A server of this process's own, on a Unix socket that only its user can reach. It ends with the process, however that
ends.

A shell first starts the keeper, a part of itself that reads from a pipe of which this process has the other end; then it
becomes the server. When the process is gone, the keeper reads the end of the pipe and kills the group of both. So the
server is never without a keeper, the thread that started it may end (PR_SET_PDEATHSIG would then fire), and no reused
process number is ever killed. A forked child closes its copy of the pipe's end.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from typing import Optional

from .. import _side_effects
from ..base import MXNetError
from .server_binary import find

START_SECONDS = 60.0
# $0: the log, in the server's folder if it has one. $@: the server's command.
_START = """exec 3<&0 </dev/null >"$0" 2>&1
{ read -r _; [ "$0" = /dev/null ] || /bin/rm -rf "${0%/log}"; kill -9 0; } <&3 >/dev/null 2>&1 &
exec "$@" 3<&-"""
# A socket's path has 107 bytes at most; the folder may have the rest.
_LONGEST_FOLDER = 107 - len("/gluond-12345678/socket")

_running: "weakref.WeakSet[LocalServer]" = weakref.WeakSet()
# Held from a server's start to its entry into _running: a child forked in between would keep the pipe open.
_starting = threading.Lock()


def _new_folder() -> Optional[str]:
    """A folder for the socket and the log; None: there is none that this process may write."""
    try:
        short = len(os.fsencode(tempfile.gettempdir())) <= _LONGEST_FOLDER
        return tempfile.mkdtemp(prefix="gluond-", dir=None if short else "/tmp")
    except OSError:
        return None


def answers(address: str) -> bool:
    """Whether a server listens at the address of a Unix socket."""
    kind, _, path = address.partition(":")
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect("\0" + path if kind == "unix-abstract" else path)
            return True
        except OSError:
            return False


class LocalServer:
    """A running server; `address` is for gRPC."""

    def __init__(self) -> None:
        self._binary = find()
        self._folder = _new_folder()
        self._log = os.path.join(self._folder, "log") if self._folder else os.devnull
        # Without a folder the socket has a name that is no file's. The server asks in either case who connects.
        self.address = f"unix:{self._folder}/socket" if self._folder else f"unix-abstract:gluond-{secrets.token_hex(8)}"
        command = [self._binary, f"--address={self.address}", "--drain_seconds=0"]
        with _starting:
            # In a session of its own: Ctrl-C is for the program, not for its server.
            self._server = subprocess.Popen(
                ["/bin/sh", "-c", _START, self._log, *command],
                bufsize=0,
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            _running.add(self)
        try:
            self._wait_until_it_listens()
        except BaseException:
            self.stop()
            raise

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not answers(self.address):
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise MXNetError(f"The local server {self._binary} did not start:\n{self.log()}")
            time.sleep(0.005)

    def log(self) -> str:
        """The last lines that it printed."""
        try:
            text = pathlib.Path(self._log).read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-20:])

    def exit_code(self) -> Optional[int]:
        """None while it runs."""
        return self._server.poll()

    def stop(self) -> None:
        """Ends it and removes its folder."""
        if self._server.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(self._server.pid, signal.SIGKILL)
        self.forget()
        self._server.wait()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def forget(self) -> None:
        """Closes this process's end of the pipe; in a forked child: leaves the server to the parent."""
        self._server.stdin.close()  # type: ignore[union-attr]


@_side_effects.in_child
def _after_fork() -> None:
    global _starting
    _starting = threading.Lock()
    for server in list(_running):
        server.forget()
    _running.clear()


_side_effects.around_fork(lambda: _starting.acquire(), lambda: _starting.release())  # pylint: disable=unnecessary-lambda
