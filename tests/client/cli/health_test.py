"""`gluond health` as a probe: its exit status is the health service's answer, whatever else the server says."""

from concurrent import futures
import contextlib
import os
import pathlib
import socket
import subprocess
import tempfile
import threading
import unittest
from unittest import mock

import grpc

from tests import case_runner

_BIN = pathlib.Path("client/cli/gluond")
_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"  # HealthCheckResponse.status.


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class BusyServer(grpc.GenericRpcHandler):
    """Answers health, and refuses all other calls as a server does that has too many of them."""

    def __init__(self, status):
        self._status = status

    def service(self, details):
        def answer(_, context):
            if details.method == "/grpc.health.v1.Health/Check":
                return self._status
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "256 requests in flight")

        return grpc.unary_unary_rpc_method_handler(answer)


class HealthTest(unittest.TestCase):
    def health(self, status, *flags):
        server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[BusyServer(status)])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, 0)
        return subprocess.run(
            [_BIN, "health", f"--address=127.0.0.1:{port}", *flags], capture_output=True, text=True, timeout=120, check=False
        )

    def test_a_server_that_serves_is_healthy_though_it_is_too_busy_to_describe_itself(self):
        result = self.health(_SERVING)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("SERVING", result.stdout)
        self.assertIn("256 requests in flight", result.stdout)

    def test_quiet_asks_for_no_more(self):
        result = self.health(_SERVING, "--quiet")
        self.assertEqual((result.returncode, result.stdout), (0, "SERVING\n"))

    def test_without_a_wait_it_is_asked_once(self):
        result = self.health(_SERVING, "--quiet", "--wait=0s")
        self.assertEqual((result.returncode, result.stdout), (0, "SERVING\n"), result.stderr)

    def test_a_proxy_for_web_pages_does_not_come_between(self):
        nowhere = "http://127.0.0.1:9"
        proxies = {name: nowhere for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy")}
        with mock.patch.dict(os.environ, proxies):
            result = self.health(_SERVING, "--quiet")
            self.assertEqual((result.returncode, result.stdout), (0, "SERVING\n"), result.stderr)
            self.assertIn("256 requests in flight", self.health(_SERVING).stdout)

    def test_what_is_there_instead_of_a_server_is_told(self):
        authority = self.certificates()
        tls = grpc.server(futures.ThreadPoolExecutor(2), handlers=[BusyServer(_SERVING)])
        encrypted = tls.add_secure_port(
            "127.0.0.1:0",
            grpc.ssl_server_credentials([((authority / "server.key").read_bytes(), (authority / "server.pem").read_bytes())]),
        )
        tls.start()
        self.addCleanup(tls.stop, 0)
        plain = grpc.server(futures.ThreadPoolExecutor(2), handlers=[BusyServer(_SERVING)])
        clear = plain.add_insecure_port("127.0.0.1:0")
        plain.start()
        self.addCleanup(plain.stop, 0)
        told = {}
        for what, port, flags in (
            ("nobody", free_port(), ()),
            ("http", self.listen(b"HTTP/1.1 400 Bad Request\r\n\r\n"), ()),
            ("silent", self.listen(None), ()),
            ("encrypted", encrypted, ()),
            ("clear", clear, (f"--tls_ca={authority / 'ca.pem'}",)),
        ):
            result = subprocess.run(
                [_BIN, "health", f"--address=127.0.0.1:{port}", *flags], capture_output=True, text=True, timeout=60, check=False
            )
            self.assertEqual((result.returncode, result.stdout), (1, ""), what)
            self.assertIn(f"no answer from 127.0.0.1:{port} within 2s: ", result.stderr)
            told[what] = result.stderr.replace(str(port), "PORT")
            other = subprocess.run(
                [_BIN, "models", f"--address=127.0.0.1:{port}", "--timeout=2s", *flags],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            if what != "silent":  # Which one cannot tell from a server that takes its time.
                self.assertEqual(result.stderr.rpartition(". ")[2], other.stderr.rpartition(". ")[2], what)
        self.assertEqual(len(set(told.values())), len(told), told)
        for what, expected in (
            ("nobody", "refused"),
            ("http", "HTTP/1"),
            ("silent", "nothing that speaks gRPC"),
            ("encrypted", "does it want TLS? Name its authority"),
            ("clear", "no TLS"),
        ):
            self.assertIn(expected, told[what])

    def certificates(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        made = subprocess.run([_BIN, "certificates", f"{folder.name}/tls"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        return pathlib.Path(folder.name, "tls")

    def listen(self, answer):
        """A port at which each connection gets `answer` when it has said something; None: never any."""
        listening = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listening.close)
        kept = []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    if answer is None:
                        kept.append(connection)
                        continue
                    with connection:
                        connection.recv(1 << 16)
                        connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        return listening.getsockname()[1]

    def test_one_that_does_not_serve_is_not(self):
        for flags in ((), ("--quiet",)):
            self.assertEqual(self.health(_NOT_SERVING, *flags).returncode, 1)


if __name__ == "__main__":
    case_runner.main()
