"""Tenants of one server: each keeps within its quotas, and none starves another."""

import collections
import threading
import time

import grpc
from google.protobuf import json_format

from tests import case_runner
from tests.server import exposition
from tests.server.tenants_fixture import (
    CALLERS,
    DATA,
    INFERENCE,
    METRICS,
    MODELS,
    OPERATORS,
    SERVER,
    SERVING,
    SESSIONS,
    STATUS,
    TRAINING,
    Session,
    TenantsCase,
)


class TenantQuotasTest(TenantsCase):
    def test_each_quota_is_reached_and_released(self):
        self.serve("acme models=2 datasets=1 versions=1 sessions=1 saved_sessions=1 store_bytes=1MiB bytes=16MiB", "globex")
        self.define(self.ann, "a")
        self.define(self.art, "b", 60_000)
        text = self.refused(
            STATUS.RESOURCE_EXHAUSTED, self.ann, MODELS, "DefineModel", {"model": "c", "block": {"block": "Flatten"}}
        )
        self.assertIn("models=2", text)
        self.define(self.ann, "a", replace=True)
        self.define(self.gil, "c")
        self.ann.call(TRAINING, "UploadDataset", {"dataset": "d", **DATA})
        self.assertIn(
            "datasets=1", self.refused(STATUS.RESOURCE_EXHAUSTED, self.ann, TRAINING, "UploadDataset", {"dataset": "e", **DATA})
        )
        self.ann.call(SERVING, "PublishModel", {"model": "a"})
        self.assertIn("versions=1", self.refused(STATUS.RESOURCE_EXHAUSTED, self.ann, SERVING, "PublishModel", {"model": "a"}))
        self.ann.call(MODELS, "SaveCheckpoint", {"model": "b"})  # Takes 480,000 bytes.
        self.ann.call(MODELS, "SaveCheckpoint", {"model": "b", "checkpoint": "c"})
        self.assertIn(
            "store_bytes=1048576",
            self.refused(STATUS.RESOURCE_EXHAUSTED, self.ann, MODELS, "SaveCheckpoint", {"model": "b", "checkpoint": "d"}),
        )
        self.ann.call(MODELS, "DeleteCheckpoint", {"checkpoint": "b"})
        self.ann.call(MODELS, "SaveCheckpoint", {"model": "b", "checkpoint": "d"})
        self.ann.call(MODELS, "DeleteModel", {"model": "b"})
        huge = {
            "model": "c",
            "block": {"block": "Dense", "attributes": {"units": 3_000_000}},
            "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 1]}],
        }
        self.ann.call(MODELS, "DefineModel", huge)
        self.assertIn(
            "--tenants:bytes", self.refused(STATUS.RESOURCE_EXHAUSTED, self.ann, MODELS, "InitializeParameters", {"model": "c"})
        )
        self.gil.call(MODELS, "DefineModel", {**huge, "model": "huge"})
        self.gil.call(MODELS, "InitializeParameters", {"model": "huge"})
        first = Session(self.ann, self.channel("acme/ann"))
        with self.assertRaises(grpc.RpcError) as full:
            Session(self.art, self.channel("acme/art"))
        self.assertEqual(full.exception.code(), STATUS.RESOURCE_EXHAUSTED)
        self.assertIn("sessions=1", full.exception.details())
        first.put(1, [1.0])
        key = first.command(saveSession={"name": "one", "arrays": {"x": "1"}}).saved.key
        self.assertIn("saved_sessions=1", first.command(saveSession={"name": "two", "arrays": {"x": "1"}}))
        self.ann.call(SESSIONS, "DeleteSavedSession", {"name": "one", "key": key})
        self.assertEqual(first.command(saveSession={"name": "two", "arrays": {"x": "1"}}).saved.name, "two")
        first.end()
        self.until(lambda: self._opens_a_session())

    def _opens_a_session(self):
        try:
            Session(self.art, self.channel("acme/art")).end()
            return True
        except grpc.RpcError:
            return False

    def test_what_a_tenant_uses_counts_on_when_its_line_is_back(self):
        lines = ("acme sessions=1 bytes=8MiB", "globex")
        self.serve(*lines)
        self.define(self.ann, "a", 300_000)  # Takes 4,800,000 bytes.
        session = Session(self.ann, self.channel("acme/ann"))
        self.tenants.write_text("globex\n")
        self.assertEqual(session.error().code(), STATUS.PERMISSION_DENIED)
        self.tenants.write_text("\n".join(lines) + "\n")
        self.until(lambda: self.may(self.ann))
        with self.assertRaises(grpc.RpcError) as full:
            Session(self.art, self.channel("acme/art"))
        self.assertIn("sessions=1", full.exception.details())
        self.ann.call(
            MODELS,
            "DefineModel",
            {
                "model": "b",
                "block": {"block": "Dense", "attributes": {"units": 300_000}},
                "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 1]}],
            },
        )
        self.assertIn(
            "--tenants:bytes", self.refused(STATUS.RESOURCE_EXHAUSTED, self.ann, MODELS, "InitializeParameters", {"model": "b"})
        )

    def test_requests_per_second(self):
        self.serve("acme requests_per_second=2", "globex")
        ask = {name: self.channel(name).unary_unary(f"/{SERVER}/GetServerInfo") for name in CALLERS}
        refused = []
        for _ in range(50):
            try:
                ask["acme/ann"](b"", timeout=20)
            except grpc.RpcError as error:
                refused.append(error)
        self.assertGreaterEqual(len(refused), 20)
        self.assertEqual(refused[0].code(), STATUS.RESOURCE_EXHAUSTED)
        self.assertRegex(refused[0].details(), r"requests_per_second.* ask again in 0\.\d+ s")
        for name in ("globex/gil", "dora"):
            for _ in range(20):
                ask[name](b"", timeout=20)
        time.sleep(1.2)
        ask["acme/art"](b"", timeout=20)

    def test_a_tenants_flood_leaves_others_their_turns(self):
        self.serve(flags=("--cpu_threads=1",))
        self.gil.find(OPERATORS)
        request = json_format.ParseDict(
            {"op": "dot", "encoding": "NONE", "inputs": [{"shape": [700, 700], "fill": {"constant": 1}}] * 2},
            self.gil.prototype("gluond.v1.InvokeRequest")(),
        ).SerializeToString()
        done, stop = collections.Counter(), threading.Event()

        def work(name, invoke):
            while not stop.is_set():
                invoke(request, timeout=60)
                done[name.partition("/")[0]] += 1

        one = self.channel("globex/gil")
        callers = [(name, self.channel(name)) for name in ("acme/ann", "acme/art") * 4] + [("globex/gil", one)] * 2
        threads = [
            threading.Thread(target=work, args=(name, channel.unary_unary(f"/{OPERATORS}/Invoke"))) for name, channel in callers
        ]
        for thread in threads:
            thread.start()
        time.sleep(6)
        stop.set()
        for thread in threads:
            thread.join()
        # By connections globex would have a ninth, which is an eighth of the flood's.
        self.assertGreater(done["globex"], 0.35 * done["acme"], done)

    def test_a_caller_with_many_connections_is_one_in_a_versions_queue(self):
        self.serve(flags=METRICS)
        self.publish(self.ann, maxQueueSize=4)
        many = [self.infer("acme/ann") for _ in range(4)]
        self.until(lambda: self.waiting("acme/m") == 4)
        one = self.infer("acme/art")
        self.until(lambda: any(call.done() for call in (*many, one)))
        self.assertFalse(one.done())
        self.assertEqual([call.exception().code() for call in many if call.done()], [STATUS.UNAVAILABLE])
        self.assertIn("4 of the 4 requests", next(call for call in many if call.done()).exception().details())

    def infer(self, name):
        """A call that waits for others for as long as the version lets it."""
        self.ann.find(INFERENCE)
        request = json_format.ParseDict(
            {
                "modelName": "m",
                "inputs": [{"name": "data", "datatype": "FP32", "shape": [1, 1], "contents": {"fp32Contents": [1]}}],
            },
            self.ann.prototype("inference.ModelInferRequest")(),
        )
        call = self.channel(name).unary_unary(f"/{INFERENCE}/ModelInfer").future(request.SerializeToString(), timeout=60)
        self.addCleanup(call.cancel)
        return call

    def publish(self, client, **options):
        """A version that waits for more requests than there will be."""
        self.define(client, "m")
        client.call(
            SERVING, "PublishModel", {"model": "m", "options": {"maxBatchSize": 64, "maxQueueDelayUs": "30000000", **options}}
        )

    def waiting(self, model):
        return exposition.value(self.metrics(), "gluond_inference_queue_length", model=model, version="1")

    def test_a_tenant_takes_half_of_the_requests_at_most(self):
        self.serve(flags=("--max_requests=8", *METRICS))
        self.publish(self.ann)
        self.publish(self.gil)
        for name in ("acme/ann", "acme/art", "acme/ann", "acme/art"):
            self.infer(name)
        self.until(lambda: self.waiting("acme/m") == 4)
        text = self.refused(STATUS.RESOURCE_EXHAUSTED, self.art, MODELS, "GetModel", {"model": "m"})
        self.assertIn(
            "tenant 'acme' has 4 requests in flight, and 1 more exceed its quota, requests=4, of the 8 of --max_requests", text
        )
        requests = self.ann.prototype("inference.ModelInferRequest")
        stream = self.channel("acme/ann").stream_stream(
            f"/{INFERENCE}/ModelStreamInfer",
            requests.SerializeToString,
            self.ann.prototype("inference.ModelStreamInferResponse").FromString,
        )
        self.assertIn("requests=4", next(stream(iter([requests(model_name="m")]), timeout=30)).error_message)
        for client in (self.gil, self.dora):
            client.call(MODELS, "ListModels", {})
        for _ in range(4):
            self.infer("globex/gil")
        self.until(lambda: self.waiting("globex/m") == 4)
        self.assertIn("requests=4", self.refused(STATUS.RESOURCE_EXHAUSTED, self.gil, MODELS, "GetModel", {"model": "m"}))
        self.tenants.write_text("acme requests=6\nglobex\n")
        self.until(lambda: self._may(self.art))
        self.refused(STATUS.RESOURCE_EXHAUSTED, self.gil, MODELS, "GetModel", {"model": "m"})

    def _may(self, client):
        try:
            client.call(MODELS, "GetModel", {"model": "m"})
            return True
        except grpc.RpcError:
            return False

    def test_a_tenant_takes_half_of_the_clients_at_most(self):
        self.serve("acme", "globex clients=1", flags=("--max_clients=4",))
        for client in (self.ann, self.gil):
            self.define(client, "m")

        def numbered(client, name):
            client.call(MODELS, "InitializeParameters", {"model": "m", "call": {"clientId": name, "sequence": "1"}})

        def answered(client, name):
            try:
                return client.call(MODELS, "InitializeParameters", {"model": "m", "call": {"clientId": name, "sequence": "1"}})[
                    "replayed"
                ]
            except grpc.RpcError:  # Only the number is known.
                self.assertEqual(client.call(TRAINING, "GetSequence", {"clientId": name, "model": "m"})["last"], "1")
                return False

        def known(client, names):
            return [name for name in names if answered(client, name)]

        numbered(self.gil, "a")
        for name in "abcdefgh":
            numbered(self.ann, name)
        self.assertEqual(known(self.gil, "a"), ["a"])
        self.assertEqual(known(self.ann, "abcdefgh"), ["g", "h"])
        numbered(self.gil, "b")
        self.assertEqual(known(self.gil, "ab"), ["b"], "its line says so")
        self.assertEqual(known(self.ann, "gh"), ["g", "h"])

    def test_a_tenant_takes_half_of_the_memory_of_saved_sessions_at_most(self):
        self.serve("acme", "globex saved_session_bytes=64KiB", flags=("--store_dir=", "--max_named_session_bytes=400000"))
        rows = [1.0] * 30_000  # A value has 4 bytes.
        for client, name, says in (
            (self.ann, "acme/ann", "of tenant 'acme' would have 24"),
            (self.gil, "globex/gil", "quota is saved_session_bytes=65536"),
        ):
            session = Session(client, self.channel(name))
            session.put(1, rows if client is self.ann else rows[:10_000])
            self.assertEqual(session.command(saveSession={"name": "one", "arrays": {"x": "1"}}).saved.name, "one")
            self.assertIn(says, session.command(saveSession={"name": "two", "arrays": {"x": "1"}}))
            session.end()
        session = Session(self.dora, self.channel("dora"))
        session.put(1, rows)
        self.assertEqual(session.command(saveSession={"name": "two", "arrays": {"x": "1"}}).saved.name, "two")
        self.assertIn("of --max_named_session_bytes", session.command(saveSession={"name": "three", "arrays": {"x": "1"}}))

    def test_a_tenants_sessions_that_are_away_end_before_anothers(self):
        self.serve(flags=("--max_named_session_bytes=1200000", "--session_lease_seconds=1", "--session_grace_seconds=60"))

        def leave(client, floats):
            session = Session(client, self.channel(client.name))
            session.put(1, [1.0] * floats)
            session.command(saveSession={"name": session.id[:8], "arrays": {"x": "1"}})
            session.leave()
            return session.id

        def is_there(client, session):
            try:
                Session(client, self.channel(client.name), session=session).leave()
                return True
            except grpc.RpcError as gone:
                self.assertEqual(gone.code(), STATUS.NOT_FOUND)
                return False

        of_gil = leave(self.gil, 30_000)
        time.sleep(1.5)  # It is away longest.
        of_ann = [leave(self.ann, 30_000) for _ in range(5)]  # Each has 120,000 bytes of values.
        time.sleep(4)
        there = [is_there(self.ann, session) for session in of_ann]
        self.assertIn(there.count(True), (1, 2, 3), there)
        self.assertTrue(is_there(self.gil, of_gil))


if __name__ == "__main__":
    case_runner.main()
