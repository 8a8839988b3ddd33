"""The processes of a group of servers on this machine, for a client of any kind: no messages are known here."""

import contextlib
import ctypes
import errno
import os
import signal
import socket

from tests.server.running_server import RunningServer

_PIDFD_GETFD = 438  # The number of the system call, on all of Linux's processors.

GLOO = "--gloo_plugin=server/group/gloo/libgluond_gloo.so"


class GroupServers:
    """A leader, whose ring has up to `most` processes, and its members; stops all when the `with` block ends."""

    def __init__(self, most, least=1, timeout="2s", leader_flags=(), flags=(), **options):
        """`flags` are every server's, `leader_flags` the leader's alone, and `options` RunningServer's."""
        self._flags = [
            f"--group_size={least}:{most}",
            "--group_allow_solo",
            f"--group_timeout={timeout}",
            GLOO,
            "--cpu_threads=1",
            *flags,
        ]
        self._options = options
        self._ends = contextlib.ExitStack()
        self.members = []
        self.leader = self._server("--group=127.0.0.1:0", "--group_role=leader", *leader_flags)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._ends.close()

    def _server(self, *flags):
        log = self._ends.enter_context(open(os.devnull, "w"))
        return self._ends.enter_context(RunningServer(*self._flags, *flags, stdout=log, stderr=log, **self._options))

    def add_member(self, *flags):
        member = self._server(f"--group={self.leader.address}", "--group_role=member", *flags)
        self.members.append(member)
        return member


def kill(server, number=signal.SIGKILL):
    server.process.send_signal(number)
    if number == signal.SIGKILL:
        server.process.wait()


def cut(server, rng):
    """Cuts one of a server's connections, whatever it is for, as a network that fails does. False: the server has none now."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(server.process.pid)
    try:
        numbers = [int(number) for number in os.listdir(f"/proc/{server.process.pid}/fd")]
        for number in rng.sample(numbers, len(numbers)):
            copy = libc.syscall(_PIDFD_GETFD, process, number, 0)
            if copy < 0 and ctypes.get_errno() == errno.EBADF:
                continue  # Closed since.
            if copy < 0:
                raise OSError(ctypes.get_errno(), f"pidfd_getfd: {os.strerror(ctypes.get_errno())}")
            try:
                connection = socket.socket(fileno=copy)
            except OSError:  # No socket.
                os.close(copy)
                continue
            with connection, contextlib.suppress(OSError):  # One that listens has no peer.
                connection.getpeername()
                connection.shutdown(socket.SHUT_RDWR)
                return True
    finally:
        os.close(process)
    return False
