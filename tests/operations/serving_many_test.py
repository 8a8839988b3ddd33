"""Two replicas that follow a leader, behind Debian's HAProxy: a rolling update fails no request, and a crash those under way there."""

import contextlib
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import grpc

from tests import case_runner
from tests.server.free_ports import free_ports
from tests.server.published import PublishingServer
from tests.server.running_server import RunningServer, Waits
from tests.server.watched_server import get

COMMAND = pathlib.Path("client/cli/gluond").absolute()
CALLERS = 8

# The probes ask each replica whether it is ready, and a call that found no connection goes to the other one. A probe may take its
# time on a busy machine: without `timeout check`, that would be as long as from one to the next.
HAPROXY = """
global
  nbthread 1
  stats socket {folder}/stats
defaults
  mode http
  timeout connect 1s
  timeout check 10s
  timeout client 1h
  timeout server 1h
  retries 3
  option redispatch 1
frontend clients
  bind unix@{folder}/socket proto h2
  default_backend replicas
backend replicas
  option httpchk GET /readyz
  http-reuse safe
  {retries}
  default-server proto h2 inter 100ms fall 1 rise 1
{servers}
"""


class Replica(RunningServer):
    def __init__(self, leader):
        self.probe = free_ports(1)[0]
        super().__init__(
            f"--follow={leader.address}",
            "--store_dir=",
            f"--metrics_address=127.0.0.1:{self.probe}",
            "--lame_duck_seconds=2",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def is_ready(self):
        return get(self.probe, "/readyz")[0] == 200


class ServingManyTest(Waits, unittest.TestCase):
    def setUp(self):
        self._exits = contextlib.ExitStack()
        self.addCleanup(self._exits.close)
        self.leader = self._exits.enter_context(PublishingServer())
        self.leader.define_echo("echo")
        self.leader.publish("echo", max_batch_size=8)
        self.replicas = [self._exits.enter_context(Replica(self.leader)) for _ in range(2)]
        for replica in self.replicas:
            self.until(replica.is_ready)

    @contextlib.contextmanager
    def proxy(self, retries):
        program = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/sbin:/bin")
        assert program, "haproxy is not here; run deploy/setup.sh haproxy"
        with tempfile.TemporaryDirectory() as folder:
            servers = "\n".join(
                f"  server r{i} {r.address} port {r.probe} check check-proto h1" for i, r in enumerate(self.replicas)
            )
            config = pathlib.Path(folder) / "config"
            config.write_text(HAPROXY.format(folder=folder, servers=servers, retries=retries))
            process = subprocess.Popen([program, "-db", "-f", config])
            address, self.stats = f"unix:{folder}/socket", f"{folder}/stats"
            try:
                with grpc.insecure_channel(address) as channel:
                    grpc.channel_ready_future(channel).result(timeout=60)
                yield address
            finally:
                process.terminate()
                process.wait(timeout=60)

    def takes(self, number):
        """Whether HAProxy gives calls to a replica."""
        with socket.socket(socket.AF_UNIX) as stats:
            stats.connect(self.stats)
            stats.sendall(b"show stat\n")
            lines = b"".join(iter(lambda: stats.recv(1 << 16), b"")).decode().splitlines()
        return any(line.startswith(f"replicas,r{number},") and ",UP," in line for line in lines)

    def load(self, seconds, retries=""):
        address = self._exits.enter_context(self.proxy(retries))
        return subprocess.Popen(
            [
                COMMAND,
                "load",
                "echo",
                f"--address={address}",
                f"--concurrency={CALLERS}",
                f"--duration={seconds}s",
                "--json",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )

    def report(self, load):
        out, _ = load.communicate(timeout=120)
        return json.loads(out)

    def test_a_rolling_update_fails_no_request(self):
        load = self.load(30)
        for number, replica in enumerate(self.replicas):
            self.assertEqual(replica.stop(signal.SIGTERM)[0], 0)
            replica.start()
            self.until(lambda: self.takes(number))
        self.leader.define_echo("other")  # The leader is updated, too: nothing is asked of it.
        self.assertEqual(self.leader.stop()[0], 0)
        self.assertIsNone(load.poll(), "the load has ended before the update")
        report = self.report(load)
        self.assertEqual(report["failed"], 0, report)
        self.assertGreater(report["succeeded"], 100)

    def crash(self, retries=""):
        load = self.load(6, retries)
        self.until(lambda: load.poll() is not None or self.has_begun())
        self.replicas[0].stop(signal.SIGKILL)
        report = self.report(load)
        self.assertLessEqual(set(report["errors"]), {"UNAVAILABLE"}, report)
        self.assertGreater(report["succeeded"], 100)
        return report["failed"]

    def test_a_crash_fails_the_calls_under_way_there_alone(self):
        # Each caller's call there, and the next ones, which HAProxy sends over connections that it does not know yet to be broken.
        self.assertLessEqual(self.crash(), 3 * CALLERS)

    def test_a_proxy_may_send_again_what_a_crash_has_left_unanswered(self):
        self.assertEqual(self.crash("retry-on conn-failure empty-response"), 0)

    def has_begun(self):
        return "gluond_inference_requests_total" in get(self.replicas[0].probe)[1]


if __name__ == "__main__":
    case_runner.main()
