"""gluond-server as a process: its flags, its refusals, its dependencies."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import tempfile
import unittest

import grpc

from tests import case_runner
from tests.server.reflection_client import Reflection
from tests.server.running_server import BINARY, RunningServer, Waits, resident


def run(*flags):
    return subprocess.run([BINARY, "--devices=cpu", *flags], capture_output=True, text=True, timeout=60)


class ProcessTest(Waits, unittest.TestCase):
    def test_it_says_what_it_found_and_where_it_listens(self):
        with RunningServer("--max_requests=7") as server:
            code, out, _ = server.stop()
            self.assertEqual(code, 0)
            self.assertIn("device cpu:", out)
            self.assertIn("--max_requests=7", out)
            self.assertRegex(out, rf"listening on {re.escape(server.address)}\n")

    def test_interrupt_stops_it_too(self):
        with RunningServer() as server:
            self.assertEqual(server.stop(signal.SIGINT)[0], 0)

    def test_a_hangup_does_not(self):
        with RunningServer() as server:
            server.process.send_signal(signal.SIGHUP)
            self.assertIn("SIGHUP: there is no file --serve", server.process.stderr.readline())
            self.assertEqual(server.stop()[0], 0)

    def test_it_lists_its_flags_and_tells_its_release(self):
        listed = run("--help").stdout
        for flag in ("--address", "--max_named_session_bytes", "--checkpoint_every"):
            self.assertIn(f"{flag} (", listed)
        self.assertRegex(run("--version").stdout, r"\Agluond-server \d+\.\d+\.\d+ \((unknown|[0-9a-f]{12}(-dirty)?)\)\n\Z")

    def test_another_machine_needs_to_be_allowed(self):
        for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:0", ":0", "127.0.0.1.example.com:0"):
            result = run(f"--address={address}")
            self.assertEqual(result.returncode, 1, address)
            self.assertIn("--insecure_public", result.stderr)

    def test_wrong_flags_are_refused_in_one_line(self):
        for flag, expected in (
            ("--devices=tpu", "tpu"),
            ("--max_message_bytes=0", "--max_message_bytes"),
            ("--checkpoint_every=500", "500steps,10m"),
            ("--checkpoint_every=10m", "--store_dir"),
            ("stray", "stray"),
            ("--max_models=-1", "--max_models is -1"),
            ("--address=127.0.0.1:99999", "address"),
        ):
            result = run("--address=127.0.0.1:0", flag)
            self.assertNotEqual(result.returncode, 0, flag)
            self.assertIn(expected, result.stderr)

    def test_flags_may_stand_in_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "server.yaml")

            def write(text):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)

            write("max_requests: 7\nmax_models: 8\ndeterministic: false\nunix_users: [0, 1]\n")
            with RunningServer(f"--config={path}", "--max_models=9") as server:
                self.assertIn("--max_requests=7", server.stop()[1])
            for text, expected in (
                ("max_request: 7\n", "there is no flag 'max_request'; did you mean 'max_requests'?"),
                ("max_requests: x\n", "line 1, column 15"),
                ("max_requests: 0\n", "--max_requests is 0"),
                ("config: other.yaml\n", "names no other one"),
                ("max_models: {a: 1}\n", "line 1, column 13"),
                ("max_models: [", "server.yaml, line"),
                ("helpfull: true\n", "there is no flag 'helpfull'; --help lists them"),
            ):
                write(text)
                for flags in ((f"--config={path}",), ("--config", path), ("-config", path)):
                    result = run("--address=127.0.0.1:0", "--check", *flags)
                    self.assertEqual(result.returncode, 1, (text, flags, result.stdout))
                    self.assertIn(expected, result.stderr)
            write("max_models: 0\n")
            self.assertEqual(run("--address=127.0.0.1:0", "--check", f"--config={path}", "--max_models=1").returncode, 0)
            self.assertIn("no/such", run(f"--config={folder}/no/such").stderr)

    def test_a_port_in_use_is_refused(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            result = run(f"--address=127.0.0.1:{other.getsockname()[1]}")
            self.assertEqual(result.returncode, 1)
            self.assertIn("--address", result.stderr)

    def test_a_gpu_that_is_demanded_and_not_there_is_an_error(self):
        result = subprocess.run(
            [BINARY, "--address=127.0.0.1:0", "--devices=gpu:0", "--cuda_plugin=/no/such/file"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(result.returncode, 1)
        self.assertIn("no GPU", result.stderr)

    def test_without_a_gpu_auto_means_the_cpu(self):
        with RunningServer("--devices=auto", "--cuda_plugin=/no/such/file") as server:
            _, out, err = server.stop()
            self.assertIn("device cpu:", out)
            self.assertEqual(len([line for line in err.splitlines() if "no GPU" in line]), 1)

    def test_a_unix_socket_works(self):
        with tempfile.TemporaryDirectory() as folder:
            with RunningServer(f"--address=unix:{folder}/socket"):
                with grpc.insecure_channel(f"unix:{folder}/socket") as channel:
                    call = channel.unary_unary("/gluond.v1.ServerService/GetServerInfo")
                    self.assertGreater(len(call(b"", timeout=20)), 0)

    def test_clients_may_compress_their_messages(self):
        with RunningServer() as server, grpc.insecure_channel(server.address) as channel:
            call = channel.unary_unary("/inference.GRPCInferenceService/ModelMetadata")
            for compression in grpc.Compression.Gzip, grpc.Compression.Deflate:
                with self.assertRaises(grpc.RpcError) as refused:
                    call(b"\x0a\x40" + b"a" * 64, timeout=20, compression=compression)
                self.assertEqual(refused.exception.code(), grpc.StatusCode.NOT_FOUND)
                self.assertIn("a" * 64, refused.exception.details())

    def test_nobody_waits_for_whoever_should_read_its_errors(self):
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        os.set_blocking(writer, True)
        with RunningServer(stderr=writer) as server, grpc.insecure_channel(server.address) as channel:
            os.close(writer)
            call = channel.unary_unary("/gluond.v1.ModelService/GetModel")
            for _ in range(100):
                with self.assertRaises(grpc.RpcError) as caught:
                    call(b"\n\x06nobody", timeout=20)
                self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
            self.assertEqual(server.stop()[0], 0)
        os.close(reader)

    def test_a_mistake_that_is_repeated_is_counted_in_its_log(self):
        with RunningServer() as server, grpc.insecure_channel(server.address) as channel:
            call = channel.unary_unary("/gluond.v1.ModelService/GetModel")
            calls = [call.future(b"\n\x06nobody", timeout=60) for _ in range(1000)]
            for one in calls:
                self.assertIn(one.code(), (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.RESOURCE_EXHAUSTED))
            err = [json.loads(line) for line in server.stop()[2].splitlines()]
            self.assertLess(len(err), 200)
            self.assertEqual(sum(line.get("left_out", 0) + (line["event"] == "request_failed") for line in err), 1000)

    def test_a_full_disk_hurts_nobody_else(self):
        models = "gluond.v1.ModelService"
        with RunningServer() as server, grpc.insecure_channel(server.address) as channel:
            client = Reflection(channel)
            for name, units in (("small", 4), ("large", 50_000)):
                client.call(
                    models,
                    "DefineModel",
                    {
                        "model": name,
                        "block": {"block": "Dense", "attributes": {"units": units}},
                        "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 4]}],
                    },
                )
                client.call(models, "InitializeParameters", {"model": name, "initializer": {"name": "zero"}})
            client.call(models, "SaveCheckpoint", {"model": "small"})
            # A file may be no longer: to the server that is a disk that is full in the middle of a write.
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (100_000, 100_000))
            with self.assertRaises(grpc.RpcError) as caught:
                client.call(models, "SaveCheckpoint", {"model": "large"})
            self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.assertIn("checkpoint 'large': cannot write", caught.exception.details())
            self.assertFalse((server.folder / "store" / "large").exists())
            client.call(models, "SaveCheckpoint", {"model": "small", "overwrite": True})
            client.call(models, "LoadCheckpoint", {"checkpoint": "small", "model": "again"})
            self.assertEqual(server.stop()[0], 5)  # The large model is not kept for the next process.

    def test_a_store_has_its_quota(self):
        models = "gluond.v1.ModelService"
        with RunningServer("--max_store_bytes=20000") as server, grpc.insecure_channel(server.address) as channel:
            client = Reflection(channel)
            client.call(
                models,
                "DefineModel",
                {
                    "model": "m",
                    "block": {"block": "Dense", "attributes": {"units": 5_000}},
                    "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 4]}],
                },
            )
            client.call(models, "InitializeParameters", {"model": "m", "initializer": {"name": "zero"}})
            with self.assertRaises(grpc.RpcError) as caught:
                client.call(models, "SaveCheckpoint", {"model": "m"})
            self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.assertIn("--max_store_bytes=20000", caught.exception.details())
            self.assertFalse((server.folder / "store" / "m").exists())

    def test_freed_memory_goes_back_to_the_kernel(self):
        models = "gluond.v1.ModelService"
        with RunningServer() as server, grpc.insecure_channel(server.address) as channel:
            client = Reflection(channel)
            layers = [{"block": "Dense", "attributes": {"units": 500}}] * 500  # 1 MB each: larger tensors are not the allocator's.
            client.call(
                models,
                "DefineModel",
                {
                    "model": "m",
                    "block": {"block": "HybridSequential", "children": layers},
                    "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 500]}],
                },
            )
            client.call(models, "InitializeParameters", {"model": "m", "initializer": {"name": "one"}})
            self.assertGreater(resident(server.process.pid), 400 << 20)
            client.call(models, "DeleteModel", {"model": "m"})
            self.until(lambda: resident(server.process.pid) < 200 << 20)

    def test_it_does_not_depend_on_what_plugins_bring(self):
        libraries = subprocess.run(["ldd", BINARY], capture_output=True, text=True, check=True).stdout
        self.assertIn("libdnnl", libraries)
        for name in ("libcuda", "libcudart", "libcublas", "libcudnn", "libgloo", "libibverbs"):
            self.assertNotIn(name, libraries)

    def test_what_the_plugin_needs_is_exported(self):
        symbols = subprocess.run(["nm", "-D", "--defined-only", "-C", BINARY], capture_output=True, text=True, check=True).stdout
        # The last is of Abseil, and nothing in the server calls it: a plugin may.
        for name in ("gluond::OpRegistration::OpRegistration", "gluond::RegisterGpuDriver", "::ParseCivilTime("):
            self.assertIn(name, symbols)
        # A copy of OpenSSL in the program would be mixed with the one that libjwt loads (third_party/linkopts.bzl).
        self.assertNotIn(" T EVP_", symbols)


if __name__ == "__main__":
    case_runner.main()
