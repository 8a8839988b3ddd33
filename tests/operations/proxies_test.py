"""Debian's HAProxy and nginx before a real server: what one client does through them ends no call of another one's."""

import contextlib
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

import grpc

from tests import case_runner
from tests.server.watched_server import WatchedServer

STATUS = grpc.StatusCode
CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
INVOKE, UNKNOWN = "/gluond.v1.OperatorService/Invoke", "/no.Such/Method"
REASONS = ("resets", "answers", "messages", "headers", "transport")
SERVING = b"\x08\x01"

# All streams that one connection to the server takes are on it.
HAPROXY = """
global
  nbthread 1
  tune.bufsize 262144
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
frontend clients
  bind unix@{folder}/socket proto h2
  default_backend gluond
backend gluond
  http-reuse always
  server gluond {address} proto h2
"""
# Each call has a connection to the server for itself, which is kept for the next one.
# nginx as root gives its folders to `nobody`, whom a sandbox may not know.
NGINX = """
daemon off;
user root root;
worker_processes 1;
error_log stderr;
pid {folder}/pid;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream gluond {{ server {address}; keepalive 64; }}
  server {{
    listen unix:{folder}/socket http2;
    client_max_body_size 0;
    client_body_timeout 1h;
    large_client_header_buffers 4 256k;
    location / {{
      grpc_pass grpc://gluond;
      grpc_read_timeout 1h;
      grpc_send_timeout 1h;
      grpc_buffer_size 256k;
    }}
  }}
}}
"""


def program(name):
    path = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
    assert path, f"{name} is not here; run deploy/setup.sh haproxy nginx-light"
    return path


@contextlib.contextmanager
def proxy(config, address, *command):
    """A proxy before the server of this address; its own address."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "config"
        file.write_text(config.format(folder=folder, address=address))
        process = subprocess.Popen([program(command[0]), *command[1:], file])
        try:
            yield f"unix:{folder}/socket"
        finally:
            process.terminate()
            process.wait(timeout=60)


class Neighbour:
    """A client with a stream that lasts, and calls all the time."""

    def __init__(self, address):
        self._channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])  # A connection of its own.
        grpc.channel_ready_future(self._channel).result(timeout=60)
        self._watch = self._channel.unary_stream(WATCH)(b"", wait_for_ready=True)
        assert next(self._watch) == SERVING
        self._left, self.errors, self.answers = threading.Event(), [], 0
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self):
        check = self._channel.unary_unary(CHECK)
        while not self._left.wait(0.01):
            try:
                assert check(b"", timeout=60) == SERVING
                self.answers += 1
            except grpc.RpcError as error:
                if (
                    "error code 7" not in error.details()
                ):  # A stream that a proxy refuses has not begun, and may be asked for again.
                    self.errors.append(f"{error.code()}: {error.details()}")

    def leave(self):
        """What went wrong."""
        self._left.set()
        self._thread.join()
        if not self._watch.is_active():
            self.errors.append(f"the stream has ended: {self._watch.code()}: {self._watch.details()}")
        self._channel.close()
        return self.errors


class ProxiesTest(unittest.TestCase):
    def assert_others_notice_nothing(self, config, *command, late=0):
        """late: so many calls whose time is over before they are answered."""
        with WatchedServer("--max_memory_bytes=4294967296") as server, proxy(config, server.address, *command) as address:
            with grpc.insecure_channel(address) as channel:
                neighbour = Neighbour(address)
                check = channel.unary_unary(CHECK)
                for size in (1000, 20_000, 60_000):
                    try:
                        self.assertEqual(check(b"", timeout=60, metadata=(("x-large", "a" * size),)), SERVING)
                        self.assertEqual(size, 1000)
                    except grpc.RpcError as error:
                        self.assertEqual(error.code(), STATUS.RESOURCE_EXHAUSTED, error.details())
                        self.assertIn("16384", error.details())
                calls = [channel.unary_unary(INVOKE).future(bytes(100_000)) for _ in range(500)]
                for call in calls:
                    call.cancel()
                time.sleep(1)
                calls = [channel.unary_unary(INVOKE).future(bytes(1000), timeout=0.02 + 1e-4 * i) for i in range(late)]
                for call in calls:
                    call.exception()
                for _ in range(100):
                    with self.assertRaises(grpc.RpcError) as caught:
                        channel.unary_unary(UNKNOWN)(b"", timeout=60)
                    self.assertEqual(caught.exception.code(), STATUS.UNIMPLEMENTED)
                self.assertEqual(neighbour.leave(), [])
                self.assertGreater(neighbour.answers, 0)
                ended = {reason: server.value("gluond_connections_ended_total", reason=reason) for reason in REASONS}
                self.assertEqual(ended, dict.fromkeys(REASONS, 0))

    def test_haproxy(self):  # HAProxy itself ends streams where many calls of a connection are late: docs/decisions.md.
        self.assert_others_notice_nothing(HAPROXY, "haproxy", "-db", "-f")

    def test_nginx(self):
        self.assert_others_notice_nothing(NGINX, "nginx", "-c", late=3000)


if __name__ == "__main__":
    case_runner.main()
