"""gluond-server --follow=LEADER: a replica serves what its leader publishes, whatever becomes of the leader and of the disk."""

import base64
import contextlib
import hashlib
import pathlib
import signal
import struct
import tempfile
import threading
import time
import unittest
from concurrent import futures

import grpc

from tests import case_runner
from tests.server.free_ports import free_ports
from tests.server.identity_fixture import IdentityCase
from tests.server.reflection_client import Reflection
from tests.server.running_server import RunningServer, Waits
from tests.server.watched_server import WatchedServer, get

MODELS, SERVING, INFERENCE = "gluond.v1.ModelService", "gluond.v1.ServingService", "inference.GRPCInferenceService"
BEHIND, SILENT, FAILURES = "gluond_follow_versions_behind", "gluond_follow_silent_seconds", "gluond_follow_failures_total"


def define(client, bias, padding=0):
    """A model that gives its input plus `bias`, with so many bytes beside it."""
    client.call(
        MODELS,
        "DefineModel",
        {
            "model": "add",
            "replace": True,
            "graph": {
                "nodes": [
                    {"name": "pad", "op": "sum", "inputs": ["padding"]},
                    {"name": "padded", "op": "broadcast_add", "inputs": ["bias", "pad"]},
                    {"name": "y", "op": "broadcast_add", "inputs": ["x", "padded"]},
                ],
                "outputs": ["y"],
            },
            "variables": [
                {"name": "x", "kind": "INPUT", "shape": [-1, 1]},
                {"name": "bias", "kind": "PARAMETER", "shape": [1]},
                {"name": "padding", "kind": "PARAMETER", "shape": [max(1, padding // 4)]},
            ],
        },
    )
    client.call(MODELS, "InitializeParameters", {"model": "add", "initializer": {"name": "zero"}})
    client.call(MODELS, "SetParameters", {"model": "add", "parameters": {"bias": {"shape": [1], "floatData": [bias]}}})


def publish(client, bias, labels=("stable",), padding=0):
    define(client, bias, padding)
    return client.call(SERVING, "PublishModel", {"model": "add", "labels": list(labels)})


def ask(client, version=""):
    """What the version adds to 0."""
    answer = client.call(
        INFERENCE,
        "ModelInfer",
        {
            "modelName": "add",
            "modelVersion": version,
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "contents": {"fp32Contents": [0]}}],
        },
    )
    return struct.unpack("<f", base64.b64decode(answer["rawOutputContents"][0]))[0]


class Asking:
    """Asks a server again and again; all answers and errors."""

    def __init__(self, address, threads=2):
        self.answers, self.errors, self._ends = [], [], threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(address,)) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _ask(self, address):
        with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            client = Reflection(channel)
            while not self._ends.wait(0.002):
                try:
                    self.answers.append(ask(client))
                except grpc.RpcError as error:
                    self.errors.append(f"{error.code()}: {error.details()}")

    def end(self):
        self._ends.set()
        for thread in self._threads:
            thread.join()
        return self.errors


class Between(grpc.GenericRpcHandler):
    """Stands between a follower and its leader, and changes a byte of each part of a file while `damages` is set."""

    def __init__(self, leader):
        self._channel = grpc.insecure_channel(leader)
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self.damages, self.parts = True, 0
        self._server.start()

    def service(self, details):
        if details.method.endswith("/FollowVersions"):
            return grpc.unary_stream_rpc_method_handler(lambda request, _: self._channel.unary_stream(details.method)(request))
        return grpc.unary_unary_rpc_method_handler(lambda request, _: self._read(details.method, request))

    def _read(self, method, request):
        answer = bytearray(self._channel.unary_unary(method)(request))
        self.parts += 1
        answer[len(answer) // 2] ^= self.damages
        return bytes(answer)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._server.stop(None).wait()
        self._channel.close()


class FollowTest(Waits, unittest.TestCase):
    def setUp(self):
        self._exits = contextlib.ExitStack()
        self.addCleanup(self._exits.close)
        self.leader = self._exits.enter_context(RunningServer())
        self.client = self.client_of(self.leader)

    def client_of(self, server):
        return Reflection(self._exits.enter_context(grpc.insecure_channel(server.address)))

    def follower(self, *flags):
        return self._exits.enter_context(WatchedServer(f"--follow={self.leader.address}", *flags))

    def is_ready(self, server):
        return get(server.port, "/readyz")[0] == 200

    def labels(self, client):
        listed = client.call(SERVING, "ListVersions", {"served": "add"}).get("versions", [])
        return {int(each["version"]): sorted(each.get("labels", [])) for each in listed}

    def said(self, server):
        """All lines of the server's log, which ends."""
        return server.stop()[2]

    def test_versions_come_and_go_and_no_request_fails(self):
        publish(self.client, 1)
        for flags in ((), ("--store_dir=",)):
            with self.subTest(flags=flags):
                follower = self.follower(*flags)
                self.until(lambda: self.is_ready(follower))
                self.assertEqual(ask(follower.client), 1)
                asking = Asking(follower.address)
                first = min(self.labels(self.client))
                for bias in (2, 3):
                    publish(self.client, bias)
                    self.until(lambda: ask(follower.client) == bias)
                self.client.call(SERVING, "RetireVersion", {"served": "add", "version": first})
                self.until(lambda: self.labels(follower.client) == self.labels(self.client))
                self.client.call(SERVING, "RouteVersions", {"served": "add", "labels": {"canary": first + 1}})
                self.until(lambda: self.labels(follower.client) == self.labels(self.client))
                self.assertEqual(asking.end(), [])
                self.assertGreater(len(asking.answers), 20)
                self.assertEqual(set(asking.answers), {1, 2, 3})
                self.assertEqual(follower.value(BEHIND), 0)
                self.client.call(SERVING, "RouteVersions", {"served": "add", "labels": {"canary": 0}})
                for number in sorted(self.labels(self.client))[:-1]:
                    self.client.call(SERVING, "RetireVersion", {"served": "add", "version": number})
                publish(self.client, 1)

    def test_a_follower_goes_on_without_its_leader(self):
        publish(self.client, 1)
        follower = self.follower()
        self.until(lambda: self.is_ready(follower))
        asking = Asking(follower.address)
        self.leader.stop(signal.SIGKILL)
        self.until(lambda: follower.value(SILENT) > 2)
        self.assertEqual(ask(follower.client), 1)
        # The follower is started anew meanwhile, and has its own store.
        self.assertEqual(asking.end(), [])
        follower.stop()
        again = self._exits.enter_context(WatchedServer(f"--follow={self.leader.address}", f"--store_dir={follower.folder}/store"))
        self.assertTrue(self.is_ready(again))
        self.assertEqual(ask(again.client), 1)
        asking = Asking(again.address)
        self.leader.start()
        client = self.client_of(self.leader)
        publish(client, 2)
        self.until(lambda: ask(again.client) == 2)
        self.assertEqual(asking.end(), [])

    def test_a_follower_without_versions_is_not_ready_while_its_leader_is_away(self):
        address = self.leader.address
        self.leader.stop(signal.SIGKILL)
        follower = self.follower("--store_dir=")
        status, text = get(follower.port, "/readyz")
        self.assertEqual(status, 503)
        self.assertIn(address, text)
        self.leader.start()
        self.until(lambda: self.is_ready(follower))

    def test_a_leader_that_dies_again_and_again_is_followed_to_the_end(self):
        publish(self.client, 1)
        follower = self.follower()
        self.until(lambda: self.is_ready(follower))
        asking = Asking(follower.address)
        publish(self.client, 2, padding=60_000_000)
        for _ in range(3):
            self.leader.stop(signal.SIGKILL)
            self.leader.start()
            time.sleep(0.5)
        self.until(lambda: ask(follower.client) == 2)
        self.assertEqual(asking.end(), [])

    def test_a_byte_that_changes_on_the_way_is_not_served(self):
        publish(self.client, 1)
        with Between(self.leader.address) as between:
            follower = self._exits.enter_context(WatchedServer(f"--follow={between.address}"))
            self.until(lambda: follower.value(FAILURES) >= 2)
            self.assertFalse(self.is_ready(follower))
            self.assertEqual(self.labels(follower.client), {})
            between.damages = False
            self.until(lambda: self.is_ready(follower))
            self.assertEqual(ask(follower.client), 1)
            self.assertGreater(between.parts, 3)
            self.assertIn("DATA_LOSS", self.said(follower))

    def test_a_full_store_keeps_the_old_version_and_says_so(self):
        publish(self.client, 1)
        follower = self.follower("--max_store_bytes=200000")
        self.until(lambda: self.is_ready(follower))
        asking = Asking(follower.address)
        publish(self.client, 2, padding=1_000_000)
        self.until(lambda: follower.value(FAILURES) >= 2)
        self.assertEqual(follower.value(BEHIND), 1)
        self.assertEqual(ask(follower.client), 1)
        self.assertEqual(self.labels(follower.client), {1: ["stable"]})
        publish(self.client, 3)  # One that has room.
        self.until(lambda: ask(follower.client) == 3)
        self.assertEqual(asking.end(), [])
        said = self.said(follower)
        self.assertIn('"event":"not_followed"', said)
        self.assertIn("--max_store_bytes", said)
        self.assertNotIn("gluond/error_info", said)

    def test_a_version_that_never_comes_does_not_stop_the_others(self):
        last = int(publish(self.client, 1)["version"]["version"])
        follower = self.follower("--max_tensor_bytes=24000000", "--max_store_bytes=3000000")
        self.until(lambda: self.is_ready(follower))
        publish(self.client, 2, labels=("canary",), padding=32_000_000)
        for bias in range(3, 11):  # More than the store has room for.
            number = int(publish(self.client, bias, padding=600_000)["version"]["version"])
            self.client.call(SERVING, "RetireVersion", {"served": "add", "version": last})
            self.until(lambda: self.labels(follower.client) == {number: ["stable"]})
            self.assertEqual(ask(follower.client), bias)
            last = number
        self.assertEqual(follower.value(BEHIND), 1)
        self.assertEqual(self.labels(self.client), {2: ["canary"], last: ["stable"]})

    def test_what_is_followed_is_the_leaders_to_change(self):
        publish(self.client, 1)
        follower = self.follower()
        self.until(lambda: self.is_ready(follower))
        define(follower.client, 7)
        for method, request in (
            ("PublishModel", {"model": "add"}),
            ("RouteVersions", {"served": "add", "labels": {"x": 1}}),
            ("RetireVersion", {"served": "add", "version": 1}),
        ):
            with self.subTest(method), self.assertRaises(grpc.RpcError) as caught:
                follower.client.call(SERVING, method, request)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
            self.assertIn(self.leader.address, caught.exception.details())
        with self.assertRaises(grpc.RpcError) as caught:
            follower.client.call(INFERENCE, "RepositoryModelUnload", {"modelName": "add"})
        self.assertEqual(caught.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
        # A follower with a store leads others.
        second = self._exits.enter_context(WatchedServer(f"--follow={follower.address}", "--store_dir="))
        self.until(lambda: self.is_ready(second))
        self.assertEqual(ask(second.client), 1)
        with self.assertRaises(grpc.RpcError) as caught:
            list(second.client._channel.unary_stream(f"/{SERVING}/FollowVersions")(b"", timeout=20))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
        self.assertIn("--store_dir", caught.exception.details())

    def test_servers_that_follow_each_other_say_so_and_are_not_ready(self):
        for ports in (free_ports(1), free_ports(2)):
            with self.subTest(servers=len(ports)), contextlib.ExitStack() as exits:
                addresses = [f"127.0.0.1:{port}" for port in ports]
                servers = [
                    exits.enter_context(WatchedServer(f"--address={own}", f"--follow={leader}"))
                    for own, leader in zip(addresses, addresses[1:] + addresses[:1])
                ]
                for server in servers:
                    self.until(lambda: server.value(SILENT) > 3)
                    self.assertFalse(self.is_ready(server))
                for server in servers:
                    lines = [line for line in self.said(server).splitlines() if '"leader_away"' in line]
                    words = "follows itself" if len(ports) == 1 else "nobody leads"
                    self.assertTrue(any(words in line for line in lines), lines)

    def test_flags_that_do_not_fit_end_the_start(self):
        for flags, says in (
            (["--follow_token_file=x"], "--follow=HOST:PORT"),
            (["--follow=127.0.0.1:1", "--follow_ca=/nowhere"], "--follow_ca=/nowhere"),
            (["--follow=127.0.0.1:1", "--follow_token_file=/nowhere"], "--follow_token_file=/nowhere"),
            (["--follow=127.0.0.1:1", "--serve=x"], "--serve and --follow"),
        ):
            with self.subTest(flags), self.assertRaises(AssertionError) as caught:
                RunningServer(*flags)
            self.assertIn(says, str(caught.exception))
        with tempfile.TemporaryDirectory() as folder:
            token = pathlib.Path(folder) / "token"
            token.write_text("secret\n")
            with self.assertRaises(AssertionError) as caught:
                RunningServer("--follow=192.0.2.1:1", f"--follow_token_file={token}")
            self.assertIn("in clear", str(caught.exception))
            token.write_text("\n")
            with self.assertRaises(AssertionError) as caught:
                RunningServer("--follow=127.0.0.1:1", f"--follow_token_file={token}")
            self.assertIn("has no token", str(caught.exception))


class FollowingIdentityTest(IdentityCase):
    def test_a_token_of_the_role_follow_over_tls_reads_versions_and_nothing_else(self):
        tls = self.certificates("tls", "--hosts=localhost,127.0.0.1")
        follow, admin = self.token("replica", "follow"), self.token("boss", "admin")
        infer = self.token("shop", "infer")
        leader = self.server(f"--tls_cert={tls}/server.pem", f"--tls_key={tls}/server.key", f"--identities={self.identities}")
        channel = self.channel(leader, tls)
        for path in (self.INFO, f"{SERVING}/ListVersions", f"{SERVING}/PublishModel", f"{MODELS}/GetParameters"):
            self.assertEqual(self.ask(channel, path, follow)[0], grpc.StatusCode.PERMISSION_DENIED, path)
        self.assertEqual(self.ask(channel, f"{SERVING}/ReadVersion", infer)[0], grpc.StatusCode.PERMISSION_DENIED)
        self.assertEqual(self.ask(channel, f"{SERVING}/ReadVersion", follow)[0], grpc.StatusCode.INVALID_ARGUMENT)
        credentials = [("authorization", f"Bearer {admin}")]
        boss = Reflection(grpc.intercept_channel(channel, _Sends(credentials)))
        publish(boss, 5)
        name = f"localhost:{leader.address.rsplit(':', 1)[1]}"
        follower = self._exits.enter_context(
            WatchedServer(
                f"--follow={name}", f"--follow_ca={tls}/ca.pem", f"--follow_token_file={self.folder}/replica.token", "--store_dir="
            )
        )
        self.until(lambda: get(follower.port, "/readyz")[0] == 200)
        self.assertEqual(ask(follower.client), 5)
        # A revoked token ends the stream; what is here is served.
        self.identities.write_text("\n".join(line for line in self.identities.read_text().splitlines() if "replica" not in line))
        self.until(lambda: follower.value(SILENT) > 7)  # The leader's word comes every five seconds.
        publish(boss, 6)
        self.assertEqual(ask(follower.client), 5)
        self.assertIn("UNAUTHENTICATED", follower.stop()[2])

    def test_a_tenants_replica_follows_the_names_of_its_tenant(self):
        tenants = self.folder / "tenants"
        tenants.write_text("acme\nglobex\n")
        callers = {"acme/ann": "train,publish", "globex/gil": "train,publish", "acme/replica": "follow"}
        self.identities.write_text(
            "".join(f"{name} {roles} sha256:{hashlib.sha256(name.encode()).hexdigest()}\n" for name, roles in callers.items())
        )
        leader = self.server(f"--identities={self.identities}", f"--tenants={tenants}")
        channel = self.channel(leader)
        for name, bias in (("acme/ann", 1), ("globex/gil", 2)):
            publish(Reflection(grpc.intercept_channel(channel, _Sends([("authorization", f"Bearer {name}")]))), bias)
        token = self.folder / "token"
        token.write_text("acme/replica\n")
        follower = self._exits.enter_context(
            WatchedServer(f"--follow={leader.address}", f"--follow_token_file={token}", "--store_dir=")
        )
        self.until(lambda: get(follower.port, "/readyz")[0] == 200)
        listed = follower.client.call(SERVING, "ListVersions", {})["versions"]
        self.assertEqual([each["served"] for each in listed], ["add"])
        self.assertEqual(ask(follower.client), 1)


class _Sends(grpc.UnaryUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Adds metadata to each call."""

    def __init__(self, metadata):
        self._metadata = metadata

    def _with(self, details):
        return details._replace(metadata=[*(details.metadata or ()), *self._metadata])

    def intercept_unary_unary(self, go_on, details, request):
        return go_on(self._with(details), request)

    def intercept_stream_stream(self, go_on, details, requests):
        return go_on(self._with(details), requests)


if __name__ == "__main__":
    case_runner.main()
