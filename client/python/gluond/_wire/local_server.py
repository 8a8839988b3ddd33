"""A server of this process's own, on a Unix socket that only its user can reach. It ends with the process, however that
ends: a small shell holds the other end of a pipe and stops the server when the pipe is closed."""

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
from typing import Optional

from ..base import MXNetError

BUILD_COMMAND = "bazel build //server:gluond-server"
START_SECONDS = 60.0
_PACKAGE = pathlib.Path(__file__).resolve().parents[1]
# $1: the server's process, $2: its folder.
_KEEPER = 'read -r _; kill "$1" 2>/dev/null; sleep 3; kill -9 "$1" 2>/dev/null; rm -rf "$2"'


def find() -> str:
    """Path of the server's binary: GLUOND_SERVER, in the wheel, on PATH, in the checkout."""
    named = os.environ.get("GLUOND_SERVER")
    if named:
        if os.access(named, os.X_OK):
            return named
        raise MXNetError(f"GLUOND_SERVER={named} is no program that can be run")
    candidates = [str(_PACKAGE / "_bin" / "gluond-server"), shutil.which("gluond-server")]
    checkout = next((folder for folder in _PACKAGE.parents if (folder / "WORKSPACE").exists()), None)
    if checkout is not None:
        candidates.append(str(checkout / "bazel-bin" / "server" / "gluond-server"))
    for path in candidates:
        if path and os.access(path, os.X_OK):
            return path
    raise MXNetError("There is no gluond-server to start: it was looked for at GLUOND_SERVER, in the installed package, on "
                     f"PATH and in the checkout. Build it in the checkout with `{BUILD_COMMAND}` and set "
                     "GLUOND_SERVER=<checkout>/bazel-bin/server/gluond-server, or use a running one: "
                     "GLUOND_ADDRESS=host:port, or mx.connect('host:port').")


class LocalServer:
    """A running server; `address` is for gRPC."""

    def __init__(self) -> None:
        binary = find()
        self._folder = tempfile.mkdtemp(prefix="gluond-")
        self._socket = os.path.join(self._folder, "socket")
        self.address = "unix:" + self._socket
        with open(os.path.join(self._folder, "log"), "wb") as log:
            # In a session of their own: Ctrl-C is for the program, not for its server.
            self._server = subprocess.Popen([binary, f"--address={self.address}", "--drain_seconds=0"],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self._keeper = subprocess.Popen(["/bin/sh", "-c", _KEEPER, "gluond-keeper", str(self._server.pid), self._folder],
                                        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        bufsize=0, start_new_session=True)
        self._wait_until_it_listens()

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            with socket.socket(socket.AF_UNIX) as client:
                try:
                    client.connect(self._socket)
                    return
                except OSError:
                    pass
            if self._server.poll() is not None or time.monotonic() > deadline:
                log = self.log()
                self.stop()
                raise MXNetError(f"The local server {self._server.args[0]} did not start:\n{log}")
            time.sleep(0.005)

    def log(self) -> str:
        """The last lines that it printed."""
        try:
            text = pathlib.Path(self._folder, "log").read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-20:])

    def exit_code(self) -> Optional[int]:
        """None while it runs."""
        return self._server.poll()

    def stop(self) -> None:
        """Ends it and removes its folder."""
        self._keeper.kill()
        self._keeper.wait()
        self.forget()
        self._server.kill()
        self._server.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def forget(self) -> None:
        """Closes this process's end of the pipe; in a forked child: leaves the server to the parent."""
        self._keeper.stdin.close()
