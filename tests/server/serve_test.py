"""gluond-server --serve=FILE: a file says what is served; SIGHUP and ReloadServing have it read again, all or nothing."""

import base64
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import grpc

from tests import case_runner
from tests.server.reflection_client import Reflection
from tests.server.running_server import BINARY, RunningServer, Waits

MODELS, SERVING, INFERENCE = "gluond.v1.ModelService", "gluond.v1.ServingService", "inference.GRPCInferenceService"


def checkpoint(client, name, bias):
    """A model that gives its input plus `bias`, in the store."""
    client.call(
        MODELS,
        "DefineModel",
        {
            "model": "add",
            "replace": True,
            "graph": {"nodes": [{"name": "y", "op": "broadcast_add", "inputs": ["x", "bias"]}], "outputs": ["y"]},
            "variables": [{"name": "x", "kind": "INPUT", "shape": [-1, 1]}, {"name": "bias", "kind": "PARAMETER", "shape": [1]}],
        },
    )
    client.call(MODELS, "InitializeParameters", {"model": "add"})
    client.call(MODELS, "SetParameters", {"model": "add", "parameters": {"bias": {"shape": [1], "floatData": [bias]}}})
    client.call(MODELS, "SaveCheckpoint", {"model": "add", "checkpoint": name, "overwrite": True})


class ServeTest(Waits, unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.file = self.folder / "serve.yaml"
        self.store = f"--store_dir={self.folder}/store"
        with RunningServer(self.store) as server, grpc.insecure_channel(server.address) as channel:
            for name, bias in ("one", 1), ("two", 2), ("three", 3):
                checkpoint(Reflection(channel), name, bias)
            self.assertEqual(server.stop()[0], 0)

    def serve(self, text, *flags):
        """A server that serves what the text declares."""
        self.file.write_text(text)
        self.server = self.enterContext(RunningServer(self.store, f"--serve={self.file}", *flags))
        self.channel = self.enterContext(grpc.insecure_channel(self.server.address))
        self.client = Reflection(self.channel)

    def ask(self, model, version="", client=None):
        """What the version adds to 0."""
        answer = (client or self.client).call(
            INFERENCE,
            "ModelInfer",
            {
                "modelName": model,
                "modelVersion": version,
                "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "contents": {"fp32Contents": [0]}}],
            },
        )
        return struct.unpack("<f", base64.b64decode(answer["rawOutputContents"][0]))[0]

    def refused(self, code, says, service, method, request):
        with self.assertRaises(grpc.RpcError) as caught:
            self.client.call(service, method, request)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        self.assertIn(says, caught.exception.details())

    def reload(self, text):
        self.file.write_text(text)
        return self.client.call(SERVING, "ReloadServing", {})

    def versions(self, name=""):
        listed = self.client.call(SERVING, "ListVersions", {"served": name}).get("versions", [])
        return [(each["served"], int(each["version"]), each["source"]) for each in listed]

    def test_versions_labels_weights_and_options_are_those_of_the_file(self):
        self.serve(
            "models:\n  a:\n    options: {max_batch_size: 4}\n    versions:\n      1: {checkpoint: one}\n"
            "      5: {checkpoint: two, options: {instances: 2}}\n    labels: {stable: 1, canary: 5}\n"
            "  b: {versions: {3: {checkpoint: three}}, weights: {3: 1}}\n"
        )
        self.assertEqual([self.ask("a"), self.ask("a", "canary"), self.ask("a", "5"), self.ask("b")], [1, 2, 2, 3])
        first, second, third = self.client.call(SERVING, "ListVersions", {})["versions"]
        self.assertEqual((first["labels"], first["declared"], first["stored"]), (["stable"], True, True))
        self.assertEqual(second["options"] | {"device": ""}, {"maxBatchSize": 4, "instances": 2, "device": ""})
        self.assertEqual(third["weight"], 1)

    def test_a_reload_changes_what_the_file_changes(self):
        self.serve("models: {a: {versions: {1: {checkpoint: one}}}, b: {versions: {1: {checkpoint: two}}}}")
        self.ask("a")
        answer = self.reload("models: {a: {versions: {1: {checkpoint: one}, 2: {checkpoint: three}}, labels: {stable: 2}}}")
        self.assertEqual([(each["served"], each["version"]) for each in answer["versions"]], [("a", "1"), ("a", "2")])
        self.assertEqual([self.ask("a"), self.ask("a", "1")], [3, 1])
        counted = self.client.call(SERVING, "ListVersions", {"served": "a"})["versions"][0]["requests"]
        self.assertEqual(counted, "2", "version 1 went on as it was")
        self.refused(grpc.StatusCode.NOT_FOUND, "'b'", INFERENCE, "ModelMetadata", {"name": "b"})
        # A checkpoint that was saved again is another one.
        checkpoint(self.client, "three", 30)
        self.assertEqual(self.ask("a"), 3)
        self.reload(self.file.read_text())
        self.assertEqual(self.ask("a"), 30)

    def test_a_mistake_changes_nothing_and_says_where_it_stands(self):
        good = "models: {a: {versions: {1: {checkpoint: one}}}}"
        self.serve(good)
        code = grpc.StatusCode
        for text, expected, says in (
            ("models:\n  a:\n    versions: {1: {checkpoint: on}}\n", code.NOT_FOUND, "line 3, column 19: models.a.versions.1: "),
            (
                "models:\n  b: {versions: {1: {checkpoint: two}}}\n  a:\n    versions: {1: {checkpoint: two, option: {}}}\n",
                code.INVALID_ARGUMENT,
                "line 4, column 37: models.a.versions.1: there is no key 'option' here; did you mean " "'options'?",
            ),
            (
                "models: {b: {versions: {1: {checkpoint: two}}}, a: {versions: {1: {checkpoint: two, options: {device: 'gpu:0'}}}}}",
                code.NOT_FOUND,
                "models.a.versions.1",
            ),
            ("models: {a: {versions: {1: {checkpoint: two}}}", code.INVALID_ARGUMENT, "it is no YAML"),
            ("", code.INVALID_ARGUMENT, "is empty"),
        ):
            self.file.write_text(text)
            self.refused(expected, says, SERVING, "ReloadServing", {})
            self.assertEqual(self.versions(), [("a", 1, "one")], text)
            self.assertEqual(self.ask("a"), 1)
        self.file.unlink()
        self.refused(code.NOT_FOUND, "cannot be read", SERVING, "ReloadServing", {})
        self.reload(good)
        self.assertEqual(self.ask("a"), 1)

    def test_a_hangup_reloads_and_the_log_tells_the_outcome(self):
        self.serve("models: {a: {versions: {1: {checkpoint: one}}}}")
        self.file.write_text("models: {a: {versions: {1: {checkpoint: two}}}}")
        os.kill(self.server.process.pid, signal.SIGHUP)
        self.until(lambda: self.ask("a") == 2)
        self.file.write_text("models: {a: 7}")
        os.kill(self.server.process.pid, signal.SIGHUP)
        time.sleep(1)
        self.assertEqual(self.ask("a"), 2)
        code, _, log = self.server.stop()
        self.assertEqual(code, 0)
        self.assertIn("SIGHUP: it serves 1 model, 1 version", log)
        self.assertIn("models.a: want a map, got one value; all goes on as before", log)

    def test_calls_change_no_name_that_the_file_declares(self):
        self.serve("models: {a: {versions: {1: {checkpoint: one}}}}")
        refused = grpc.StatusCode.FAILED_PRECONDITION
        for service, method, request in (
            (SERVING, "PublishModel", {"checkpoint": "two", "served": "a"}),
            (SERVING, "RouteVersions", {"served": "a", "labels": {"stable": 1}}),
            (SERVING, "RetireVersion", {"served": "a", "version": 1}),
            (INFERENCE, "RepositoryModelUnload", {"modelName": "a"}),
        ):
            self.refused(refused, "declared in the server's file --serve", service, method, request)
        self.client.call(INFERENCE, "RepositoryModelLoad", {"modelName": "a"})  # It is loaded.
        self.client.call(SERVING, "PublishModel", {"checkpoint": "two", "served": "b"})
        self.assertEqual([self.ask("a"), self.ask("b")], [1, 2])
        # The file does not take a name that has published versions, and all of it stays as it was.
        self.file.write_text("models: {a: {versions: {1: {checkpoint: three}}}, b: {versions: {1: {checkpoint: three}}}}")
        self.refused(refused, "'b' is declared, and it has 1 published versions", SERVING, "ReloadServing", {})
        self.assertEqual([self.ask("a"), self.ask("b")], [1, 2])
        self.client.call(SERVING, "RetireVersion", {"served": "b", "version": 1})
        self.client.call(SERVING, "ReloadServing", {})
        self.assertEqual([self.ask("a"), self.ask("b")], [3, 3])
        # A name that the file gives up is anybody's, and goes on counting where it was.
        self.reload("models: {}")
        self.assertEqual(self.versions(), [])
        published = self.client.call(SERVING, "PublishModel", {"checkpoint": "one", "served": "b"})["version"]
        self.assertEqual(published["version"], "2")

    def test_requests_go_on_through_reloads_and_each_has_one_version(self):
        texts = [f"models: {{a: {{versions: {{1: {{checkpoint: {name}}}}}}}}}" for name in ("one", "two")]
        self.serve(texts[0])
        seen, failed, over = set(), [], threading.Event()

        def ask():
            with grpc.insecure_channel(self.server.address) as channel:
                client = Reflection(channel)
                while not over.is_set():
                    try:
                        seen.add(self.ask("a", client=client))
                    except grpc.RpcError as error:
                        failed.append(error)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for i in range(10):
            self.reload(texts[(i + 1) % 2])
        over.set()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        self.assertEqual(seen, {1, 2})

    def test_a_file_is_checked_without_a_server(self):
        run = lambda *flags: subprocess.run(
            [BINARY, "--check", "--devices=cpu", *flags], capture_output=True, text=True, timeout=60
        )
        serve = f"--serve={self.file}"
        self.file.write_text("models: {a: {versions: {1: {checkpoint: one}}}}")
        with RunningServer(self.store):  # A server on the same store is not disturbed.
            checked = run(self.store, serve)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        self.assertIn("1 model, 1 version", checked.stdout)
        self.assertEqual(run().returncode, 0)
        missing = self.folder / "nowhere"
        for flags, text, says in (
            ((self.store, serve), "models: {a: {versions: {1: {checkpoint: on}}}}", "did you mean 'one'?"),
            ((self.store, serve), "models: {a: {versons: {}}}", "did you mean 'versions'?"),
            ((f"--store_dir={missing}", serve), "models: {a: {versions: {1: {checkpoint: one}}}}", "is no folder"),
            (("--max_models=0",), "", "--max_models is 0; want 1 or more"),
            (("--serve=/no/such/file",), "", "cannot be read"),
            (("--identities=/no/such/file",), "", "cannot be read"),
            (("--address=0.0.0.0:1",), "", "--insecure_public"),
            (("--jwt_keys=/no/such/file",), "", "--jwt_issuer"),
            (("--access_log_every=0",), "", "--access_log_every is 0"),
            (("--keepalive_seconds=-1",), "", "--keepalive_seconds is -1"),
            (("--serve_share=0",), "", "--serve_share is 0"),
            (("--cpu_threads=-1",), "", "--cpu_threads is -1"),
            (("--drain_seconds=-1",), "", "--drain_seconds is -1"),
            (("--checkpoint_every=9steps",), "", "--store_dir"),
            (("--devices=bogus",), "", "'bogus' is not a device"),
            (("--store_dir=/dev/null",), "", "/dev/null is no folder"),
            (("--store_dir=/no/such/store",), "", "--store_dir"),
            (("--address=unix:/no/such/socket",), "", "/no/such/ is no folder"),
            (("--port_file=/no/such/file",), "", "--port_file"),
            (("--metrics_address=127.0.0.1:0", "--metrics_token_file=/no/such/file"), "", "--metrics_token_file"),
            (("--jwt_issuer=me",), "", "--jwt_keys"),
        ):
            self.file.write_text(text)
            checked = run(*flags)
            self.assertEqual(checked.returncode, 1, checked)
            self.assertIn(says, checked.stderr)
        self.assertFalse(missing.exists())

    def test_a_server_does_not_start_by_a_mistaken_file(self):
        self.file.write_text("models: {a: {versions: {1: {checkpoint: none}}}}")
        ended = subprocess.run(
            [BINARY, "--devices=cpu", "--address=127.0.0.1:0", self.store, f"--serve={self.file}"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(ended.returncode, 1)
        self.assertIn("models.a.versions.1", ended.stderr)

    def test_the_limit_of_versions_holds_for_a_file(self):
        self.serve("models: {a: {versions: {1: {checkpoint: one}}}}", "--max_served_versions=2")
        self.file.write_text("models: {a: {versions: {1: {checkpoint: one}, 2: {checkpoint: two}, 3: {checkpoint: two}}}}")
        self.refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "--max_served_versions", SERVING, "ReloadServing", {})
        self.assertEqual(self.versions(), [("a", 1, "one")])

    def test_without_a_file_there_is_nothing_to_reload(self):
        with RunningServer(self.store) as server, grpc.insecure_channel(server.address) as channel:
            self.client = Reflection(channel)
            self.refused(grpc.StatusCode.FAILED_PRECONDITION, "--serve=FILE", SERVING, "ReloadServing", {})


if __name__ == "__main__":
    case_runner.main()
