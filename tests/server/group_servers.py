"""The processes of a group of servers on this machine, for a client of any kind: no messages are known here."""

import contextlib
import os
import signal

from tests.server.running_server import RunningServer

GLOO = "--gloo_plugin=server/group/gloo/libgluond_gloo.so"


class GroupServers:
    """A leader, whose ring has up to `most` processes, and its members; stops all when the `with` block ends."""

    def __init__(self, most, least=1, timeout="2s", leader_flags=()):
        self._flags = [f"--group_size={least}:{most}", "--group_allow_solo", f"--group_timeout={timeout}", GLOO, "--cpu_threads=1"]
        self._ends = contextlib.ExitStack()
        self.members = []
        self.leader = self._server("--group=127.0.0.1:0", "--group_role=leader", *leader_flags)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._ends.close()

    def _server(self, *flags):
        log = self._ends.enter_context(open(os.devnull, "w"))
        return self._ends.enter_context(RunningServer(*self._flags, *flags, stdout=log, stderr=log))

    def add_member(self, *flags):
        member = self._server(f"--group={self.leader.address}", "--group_role=member", *flags)
        self.members.append(member)
        return member


def kill(server, number=signal.SIGKILL):
    server.process.send_signal(number)
    if number == signal.SIGKILL:
        server.process.wait()
