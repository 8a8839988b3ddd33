"""Tenants of one server: what is limited for all of them together, none takes from another."""

import json
import queue

import grpc
from google.protobuf import json_format

from tests import case_runner
from tests.server import exposition
from tests.server.tenants_fixture import METRICS, MODELS, OPERATORS, SERVER, STATUS, TRAINING, Session, TenantsCase


class TenantSharesTest(TenantsCase):
    def host(self, channel, scope, *offers):
        """A stream that hosts operators, which is open."""
        self.ann.find(OPERATORS)
        request = self.ann.prototype("gluond.v1.HostRequest")
        requests = queue.Queue()
        for message in ({"open": {"scope": scope}}, *({"offer": {"opType": name}} for name in offers)):
            requests.put(json_format.ParseDict(message, request()))
        call = channel.stream_stream(
            f"/{OPERATORS}/HostOperators", request.SerializeToString, self.ann.prototype("gluond.v1.HostResponse").FromString
        )(iter(requests.get, None), timeout=60)
        self.addCleanup(call.cancel)
        next(call)
        return call

    def full(self, action):
        with self.assertRaises(grpc.RpcError) as caught:
            action()
        self.assertEqual(caught.exception.code(), STATUS.RESOURCE_EXHAUSTED, caught.exception.details())
        return caught.exception.details()

    def test_a_tenants_hosts_of_operators_keep_no_other_out(self):
        self.serve("acme sessions=2", "globex", flags=("--max_sessions=4",))
        for i in range(2):
            self.host(self.channel("acme/ann"), f"scope-of-ann-{i:08d}")
        self.assertIn("sessions=2", self.full(lambda: self.host(self.channel("acme/art"), "scope-of-art-00000000")))
        one = self.channel("globex/gil")
        for i in range(2):
            self.host(self.channel("globex/gil"), f"scope-of-gil-{i:08d}")
        self.assertIn("--max_sessions", self.full(lambda: self.host(one, "scope-of-gil-0000000x")))
        self.host(self.channel("dora"), "scope-of-dora-0000000")

    def test_offers_are_charged_to_their_tenant(self):
        self.serve("acme bytes=1MiB", "globex")
        names = [f"operator-{i}" for i in range(4000)]
        for client, scope in ((self.ann, "scope-of-ann-00000000"), (self.gil, "scope-of-gil-00000000")):
            call, offered = self.host(self.channel(client.name), scope, *names), 0
            try:
                while offered < len(names):
                    offered += len(next(call).offered)
                self.assertIs(client, self.gil)
            except grpc.RpcError as error:
                self.assertIs(client, self.ann, error)
                self.assertIn("--tenants:bytes", error.details())

    def test_a_tenant_has_half_of_the_uploads_and_checkpoints(self):
        self.serve(flags=("--max_uploads=6", "--max_checkpoints=6"))
        for client in (self.ann, self.gil, self.dora):
            self.define(client, "m")

        def upload(client, name):
            client.call(
                MODELS,
                "UploadParameter",
                {
                    "model": "m",
                    "parameter": "bias",
                    "dtype": "FLOAT32",
                    "shape": ["1"],
                    "chunk": {"data": "AA==", "offset": "0"},
                    "call": {"clientId": name},
                },
            )

        def save(client, name):
            client.call(MODELS, "SaveCheckpoint", {"model": "m", "checkpoint": name, "overwrite": True})

        for action, flag in ((upload, "--max_uploads"), (save, "--max_checkpoints")):
            for name in "abc":
                action(self.ann, name)
            self.assertIn(f"half of the 6 of {flag}", self.full(lambda: action(self.ann, "d")))
            action(self.ann, "c")
            for client, name in ((self.gil, "a"), (self.dora, "a"), (self.dora, "b")):
                action(client, name)
            self.assertIn(f"the limit of {flag}", self.full(lambda: action(self.gil, "b")))

    def test_a_tenants_numbers_and_answers_outlive_others_floods(self):
        self.serve(flags=("--max_clients=10", "--max_answer_bytes=2000"))
        for client in (self.gil, self.dora, self.ann):
            self.define(client, "m")
        call = {"model": "m", "call": {"clientId": "laptop", "sequence": "1"}}
        self.gil.call(MODELS, "InitializeParameters", call)
        for client in (self.dora, self.ann):
            for i in range(12):
                client.call(MODELS, "InitializeParameters", {"model": "m", "call": {"clientId": f"c{i}", "sequence": "1"}})
            self.assertTrue(self.gil.call(MODELS, "InitializeParameters", call)["replayed"])

    def test_refusals_by_quotas_and_of_sessions_commands_are_counted_and_logged(self):
        errors = self.folder / "errors"
        self.serve("acme requests_per_second=0.01", "globex", flags=("--max_models=1", f"--error_log={errors}", *METRICS))
        count = lambda limit: exposition.value(self.metrics(), "gluond_refusals_total", limit=limit)
        self.assertEqual(count("--max_models"), 0)
        ask = self.channel("acme/ann").unary_unary(f"/{SERVER}/GetServerInfo")
        ask.future(b"", timeout=20).exception()  # It may be let in.
        for _ in range(2):
            self.full(lambda: ask(b"", timeout=20))
        self.assertGreaterEqual(count("--tenants:requests_per_second"), 2)
        lines = lambda: [json.loads(line) for line in errors.read_text().splitlines()] if errors.exists() else []
        self.until(
            lambda: [(line["method"], line["code"]) for line in lines()].count((f"/{SERVER}/GetServerInfo", "RESOURCE_EXHAUSTED"))
            >= 2
        )
        self.define(self.gil, "one")
        session = Session(self.gil, self.channel("globex/gil"))
        self.assertIn("--max_models", session.command(saveAsModel={"model": "two", "graph": "1"}))
        session.end()
        self.assertEqual(count("--max_models"), 1)

    def test_names_may_be_as_long_as_for_callers_of_no_tenant(self):
        self.serve()
        model, name = "n" * 128, "c" * 128
        for client in (self.ann, self.root):
            self.define(client, model)
            client.call(MODELS, "InitializeParameters", {"model": model, "call": {"clientId": name, "sequence": "1"}})
            client.call(
                MODELS,
                "UploadParameter",
                {
                    "model": model,
                    "parameter": "bias",
                    "dtype": "FLOAT32",
                    "shape": ["1"],
                    "chunk": {"data": "AA==", "offset": "0"},
                    "call": {"clientId": name},
                },
            )
            client.call(
                TRAINING,
                "UploadDataset",
                {
                    "dataset": model,
                    "call": {"clientId": name},
                    "tensors": {"data": {"shape": [1, 1], "floatData": [1]}},
                    "commit": True,
                },
            )
            for method, request in (
                ("InitializeParameters", {"model": "m", "call": {"clientId": name + "c", "sequence": "1"}}),
                ("InitializeParameters", {"model": model + "n", "call": {"clientId": "c", "sequence": "1"}}),
                ("UploadParameter", {"model": "m", "call": {"clientId": name + "c"}}),
            ):
                self.refused(STATUS.INVALID_ARGUMENT, client, MODELS, method, request)

    def test_the_servers_bytes_are_told_to_its_admin_alone(self):
        self.serve()
        bytes_of = lambda client: int(client.call(SERVER, "GetServerInfo", {}).get("tensorBytes", 0))
        self.define(self.ann, "m", units=1000)
        self.assertGreaterEqual(bytes_of(self.art), 8000)
        self.assertGreaterEqual(bytes_of(self.root), 8000)
        for client in (self.gil, self.dora):
            self.assertEqual(bytes_of(client), 0)
            self.assertFalse(
                {"memoryUsedBytes", "memoryPeakBytes", "tensorBytes"} & set(client.call(SERVER, "GetServerInfo", {})["devices"][0])
            )

    def test_an_audit_line_is_short_whatever_the_target(self):
        audit = self.folder / "audit"
        self.serve(flags=(f"--audit_log={audit}",))
        name = "y" * (2 << 20)
        with self.assertRaises(grpc.RpcError):
            self.ann.call(MODELS, "DeleteModel", {"model": name})
        session = Session(self.ann, self.channel("acme/ann"))
        session.command(saveAsModel={"model": name, "graph": "1"})
        session.end()
        lines = lambda: [line for line in audit.read_text().splitlines() if "yyyy" in line] if audit.exists() else []
        self.until(lambda: len(lines()) == 2)
        for line in lines():
            self.assertLess(len(line), 1000)
            self.assertTrue(json.loads(line)["target"].startswith("acme/yyyy"), line)


if __name__ == "__main__":
    case_runner.main()
