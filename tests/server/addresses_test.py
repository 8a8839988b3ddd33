"""The forms of an address: which a server listens on, and by which it is reached. What a container may lack: a home, the
standard descriptors, a folder to write."""

import os
import socket
import subprocess
import tempfile
import unittest

import grpc

from tests import case_runner
from tests.server.running_server import BINARY, RunningServer
from tests.server.watched_server import get

METHOD = "/gluond.v1.ServerService/GetServerInfo"
PUBLIC = "--insecure_public=grpc"


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as found:
            found.bind(("::1", 0))
        return True
    except OSError:
        return False


class Server(RunningServer):
    """A server on an address of any form."""

    def __init__(self, address, *flags, **options):
        self._listens = address
        super().__init__(f"--address={address}", *flags, **options)

    def port(self):
        return int((self.folder / "port").read_text())


class AddressesTest(unittest.TestCase):
    def reached(self, address):
        with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
            self.assertGreater(len(channel.unary_unary(METHOD)(b"", timeout=60)), 0, address)
        environment = {**os.environ, "GLUOND_ADDRESS": address}
        answer = subprocess.run(
            ["client/cli/gluond", "health", "--quiet"], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual((answer.returncode, answer.stdout), (0, "SERVING\n"), f"{address}: {answer.stderr}")

    def test_a_server_is_reached_by_each_form_that_means_it(self):
        forms = [
            ("127.0.0.1:0", (), ("127.0.0.1:{}", "localhost:{}", "ipv4:127.0.0.1:{}", "dns:///localhost:{}")),
            ("localhost:0", (), ("127.0.0.1:{}", "localhost:{}")),
            ("0.0.0.0:0", (PUBLIC,), ("127.0.0.1:{}", "localhost:{}")),
        ]
        if has_ipv6():
            forms += [
                ("[::1]:0", (), ("[::1]:{}", "ipv6:[::1]:{}")),
                ("[::]:0", (PUBLIC,), ("[::1]:{}", "127.0.0.1:{}")),
                (":0", (PUBLIC,), ("[::1]:{}", "127.0.0.1:{}")),
            ]
        else:
            print("not run: this machine has no IPv6")
        for address, flags, clients in forms:
            with self.subTest(address), Server(address, *flags) as server:
                for client in clients:
                    self.reached(client.format(server.port()))

    def test_a_unix_socket_is_reached_by_its_path_or_its_name(self):
        with tempfile.TemporaryDirectory() as folder:
            for address in (f"unix:{folder}/socket", f"unix-abstract:gluond-test-{os.getpid()}"):
                with self.subTest(address), Server(address):
                    self.reached(address)
            with Server(f"unix:{folder}/again"):
                self.reached(f"unix://{folder}/again")

    def test_a_name_that_is_taken_or_too_long_is_refused(self):
        with Server(f"unix-abstract:gluond-test-{os.getpid()}"):
            for name in (f"gluond-test-{os.getpid()}", "n" * 108, ""):
                result = subprocess.run(
                    [BINARY, "--devices=cpu", f"--address=unix-abstract:{name}"],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                self.assertEqual(result.returncode, 1, name)
                self.assertIn("cannot listen on unix-abstract:", result.stderr)

    def test_metrics_have_version_4_alone_and_offer_nothing_else(self):
        for address in ("127.0.0.1:0", "localhost:0", "0.0.0.0:0"):
            with self.subTest(address), Server(
                "127.0.0.1:0", f"--metrics_address={address}", "--insecure_public=metrics"
            ) as server:
                line = ""
                while "metrics on port" not in line:
                    line = server.process.stdout.readline()
                self.assertEqual(get(int(line.split()[-1]), "/healthz"), (200, "ok\n"))
        for address, expected in (
            ("[::1]:0", "has no IPv6; want an address of version 4"),
            ("[::]:0", "has no IPv6"),
            ("here:0", "as in 127.0.0.1:9100"),
        ):
            result = subprocess.run(
                [BINARY, "--devices=cpu", "--address=127.0.0.1:0", f"--metrics_address={address}", "--insecure_public"],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.assertEqual(result.returncode, 1, address)
            self.assertIn(expected, result.stderr)
        self.assertNotIn("[::1]", result.stderr)

    def test_each_port_is_made_public_by_itself(self):
        grpc_port, metrics = ("--address=0.0.0.0:0",), ("--address=127.0.0.1:0", "--metrics_address=0.0.0.0:0")
        for flags, expected in (
            ((*grpc_port,), 1),
            ((*grpc_port, "--insecure_public=grpc"), 0),
            ((*grpc_port, "--insecure_public=metrics"), 1),
            ((*grpc_port, "--insecure_public"), 0),
            ((*metrics,), 1),
            ((*metrics, "--insecure_public=metrics"), 0),
            ((*metrics, "--insecure_public=grpc"), 1),
            ((*metrics, "--insecure_public=grpc,metrics"), 0),
            ((*metrics, "-insecure_public"), 0),
            ((*metrics, "--insecure_public=true"), 0),
            ((*metrics, "--insecure_public", "--noinsecure_public"), 1),
            ((*metrics, "--insecure_public=http"), 1),
        ):
            result = subprocess.run(
                [BINARY, "--devices=cpu", "--check", *flags], capture_output=True, text=True, timeout=60, check=False
            )
            self.assertEqual(result.returncode, expected, f"{flags}: {result.stderr}")
            self.assertTrue(expected == 0 or "--insecure_public" in result.stderr or "insecure_public" in result.stderr)


class ContainerTest(unittest.TestCase):
    def test_closed_descriptors_are_nobody_elses(self):
        def close():
            for fd in (0, 1, 2):
                os.close(fd)

        with Server("127.0.0.1:0", stdin=None, stdout=None, stderr=None, preexec_fn=close) as server:
            for fd in (0, 1, 2):
                self.assertEqual(os.readlink(f"/proc/{server.process.pid}/fd/{fd}"), "/dev/null")
            with grpc.insecure_channel(f"127.0.0.1:{server.port()}") as channel:
                channel.unary_unary(METHOD)(b"", timeout=60)
                with self.assertRaises(grpc.RpcError):  # Its line goes nowhere.
                    channel.unary_unary("/gluond.v1.ModelService/GetModel")(b"", timeout=60)
            self.assertEqual(server.stop()[0], 0)

    def test_without_a_home_an_environment_and_a_folder_of_its_own_it_serves(self):
        with Server("127.0.0.1:0", "--store_dir=", binary=BINARY.resolve(), env={}, cwd="/proc") as server:
            with grpc.insecure_channel(f"127.0.0.1:{server.port()}") as channel:
                channel.unary_unary(METHOD)(b"", timeout=60)
            self.assertEqual(server.stop()[0], 0)

    def test_a_folder_that_is_missing_is_named(self):
        for flag in (
            "--port_file=/no/such/port",
            "--access_log=/no/such/log",
            "--store_dir=/proc/no/such",
            "--identities=/no/such/file",
            "--serve=/no/such/file",
        ):
            result = subprocess.run(
                [BINARY, "--devices=cpu", "--address=127.0.0.1:0", "--store_dir=", flag],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.assertEqual(result.returncode, 1, flag)
            self.assertIn("/no/such", result.stderr, flag)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_what_is_printed_and_goes_nowhere_is_an_error(self):
        for flag in ("--help", "--version"):
            with open("/dev/full", "w") as full:
                result = subprocess.run([BINARY, flag], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
            self.assertEqual(result.returncode, 1, flag)
            self.assertIn("the standard output could not be written: No space left on device", result.stderr)

    def test_a_reader_that_goes_away_is_none(self):
        result = subprocess.run(
            f"set -o pipefail; {BINARY} --version | true",
            shell=True,
            executable="/bin/bash",
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual(result.stderr, "")


if __name__ == "__main__":
    case_runner.main()
