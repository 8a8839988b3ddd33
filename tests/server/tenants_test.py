"""Tenants of one server: none sees or names another's things.

tenant_files_test has the file of tenants, and tenant_quotas_test that none starves another.
"""

import contextlib
import hashlib
import json
import re

import grpc

from tests import case_runner
from tests.server import exposition
from tests.server.square_operators import SquareOperators
from tests.server.tenants_fixture import (
    DATA,
    HEALTH,
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


class TenantsTest(TenantsCase):
    def test_the_same_names_of_models_do_not_meet(self):
        self.serve()
        for units, client in enumerate((self.ann, self.gil, self.dora), start=2):
            self.define(client, "digits", units)
            self.assertEqual(self.units(client, "digits"), units)
        self.assertEqual(self.units(self.art, "digits"), 2, "a tenant's callers share its models")
        for client in (self.ann, self.gil, self.dora):
            self.assertEqual(self.models(client), ["digits"])
            self.assertEqual(client.call(SERVER, "GetServerInfo", {})["models"], "1")
        self.assertEqual(self.models(self.root), ["acme/digits", "digits", "globex/digits"])
        self.assertEqual(self.units(self.root, "globex/digits"), 3)
        self.gil.call(MODELS, "DeleteModel", {"model": "digits"})
        self.assertEqual(self.models(self.root), ["acme/digits", "digits"])
        self.root.call(MODELS, "DeleteModel", {"model": "acme/digits"})
        self.assertEqual(self.models(self.ann), [])
        self.define(self.root, "acme/new")
        self.assertEqual(self.models(self.art), ["new"])
        self.assertIn(
            "'nobody/new' is not allowed",
            self.refused(
                STATUS.INVALID_ARGUMENT,
                self.root,
                MODELS,
                "DefineModel",
                {"model": "nobody/new", "block": {"block": "Dense", "attributes": {"units": 1}}},
            ),
        )

    def test_the_same_names_of_checkpoints_and_datasets_do_not_meet(self):
        self.serve()
        for units, client in ((2, self.ann), (3, self.gil)):
            self.define(client, "m", units)
            client.call(MODELS, "SaveCheckpoint", {"model": "m", "checkpoint": "best"})
            client.call(TRAINING, "UploadDataset", {"dataset": "rows", **DATA})
            self.assertEqual(self.names(client, MODELS, "ListCheckpoints", "checkpoints"), ["best"])
            self.assertEqual(self.names(client, TRAINING, "ListDatasets", "datasets"), ["rows"])
        self.assertEqual(self.names(self.dora, MODELS, "ListCheckpoints", "checkpoints"), [])
        self.assertEqual(self.names(self.dora, TRAINING, "ListDatasets", "datasets"), [])
        self.assertEqual(self.names(self.root, MODELS, "ListCheckpoints", "checkpoints"), ["acme/best", "globex/best"])
        self.assertEqual(self.names(self.root, TRAINING, "ListDatasets", "datasets"), ["acme/rows", "globex/rows"])
        loaded = self.gil.call(MODELS, "LoadCheckpoint", {"checkpoint": "best", "model": "again"})["model"]["name"]
        self.assertEqual((loaded, self.units(self.gil, "again"), self.models(self.ann)), ("again", 3, ["m"]))
        self.gil.call(MODELS, "DeleteCheckpoint", {"checkpoint": "best"})
        self.gil.call(TRAINING, "DeleteDataset", {"dataset": "rows"})
        self.assertEqual(self.names(self.ann, MODELS, "ListCheckpoints", "checkpoints"), ["best"])
        self.assertEqual(self.names(self.ann, TRAINING, "ListDatasets", "datasets"), ["rows"])

    def test_the_same_names_of_versions_do_not_meet(self):
        self.serve()
        for units, client in ((2, self.ann), (3, self.gil)):
            self.define(client, "m", units)
            published = client.call(SERVING, "PublishModel", {"model": "m", "served": "shop", "labels": ["stable"]})["version"]
            self.assertEqual((published["served"], published["source"]), ("shop", "m"))
        for units, client in ((2, self.ann), (3, self.gil)):
            self.assertEqual(self.names(client, SERVING, "ListVersions", "versions", "served"), ["shop"])
            metadata = client.call(INFERENCE, "ModelMetadata", {"name": "shop"})
            self.assertEqual((metadata["name"], metadata["outputs"][0]["shape"][1]), ("shop", str(units)))
            answer = client.call(
                INFERENCE,
                "ModelInfer",
                {
                    "modelName": "shop",
                    "inputs": [{"name": "data", "datatype": "FP32", "shape": [1, 1], "contents": {"fp32Contents": [1]}}],
                },
            )
            self.assertEqual((answer["modelName"], answer["outputs"][0]["shape"]), ("shop", ["1", str(units)]))
            self.assertEqual(self.names(client, INFERENCE, "RepositoryIndex", "models"), ["shop"])
            self.assertEqual(self.names(client, INFERENCE, "ModelStatistics", "modelStats"), ["shop"])
            self.assertEqual(client.call(INFERENCE, "ModelConfig", {"name": "shop"})["config"]["name"], "shop")
        self.assertEqual(self.names(self.root, INFERENCE, "RepositoryIndex", "models"), ["acme/shop", "globex/shop"])
        self.assertEqual(self.names(self.dora, INFERENCE, "ModelStatistics", "modelStats"), [])
        for client, listed in ((self.ann, ["acme"]), (self.gil, ["globex"]), (self.dora, []), (self.root, ["acme", "globex"])):
            statuses = client.call(HEALTH, "List", {})["statuses"]
            self.assertEqual(
                sorted(name for name in statuses if name.startswith("model:")), [f"model:{name}/shop" for name in listed]
            )
            self.assertEqual({answer["status"] for answer in statuses.values()}, {"SERVING"})
            for name in statuses:
                self.assertEqual(client.call(HEALTH, "Check", {"service": name}), statuses[name])
        request = self.ann.prototype("inference.ModelInferRequest")(model_name="shop")
        stream = self.channel("acme/ann").stream_stream(
            f"/{INFERENCE}/ModelStreamInfer",
            type(request).SerializeToString,
            self.ann.prototype("inference.ModelStreamInferResponse").FromString,
        )
        answers = list(
            stream(iter([request, type(request)(model_name="globex/shop"), type(request)(model_name="shap")]), timeout=30)
        )
        self.assertEqual([a.infer_response.model_name for a in answers], ["shop", "globex/shop", "shap"])
        self.assertIn("'globex/shop'", answers[1].error_message)
        self.assertNotIn("acme", "".join(a.error_message for a in answers))

    def test_a_clients_numbers_are_its_own(self):
        self.serve()
        for client in (self.ann, self.gil):
            self.define(client, "m")
        call = {"model": "m", "call": {"clientId": "laptop", "sequence": "1"}}
        first = self.ann.call(MODELS, "InitializeParameters", call)
        self.assertNotIn("replayed", first)
        self.assertTrue(self.ann.call(MODELS, "InitializeParameters", call)["replayed"])
        for client in (self.gil, self.art):
            self.assertNotIn("replayed", client.call(MODELS, "InitializeParameters", call))
            self.assertEqual(client.call(TRAINING, "GetSequence", {"clientId": "laptop", "model": "m"})["last"], "1")
        self.assertNotIn("last", self.gil.call(TRAINING, "GetSequence", {"clientId": "acme/ann/laptop", "model": "m"}))

    def test_sessions_are_of_the_caller_who_opened_them(self):
        self.serve()
        self.define(self.ann, "m", 2)
        session = Session(self.ann, self.channel("acme/ann"))
        reply = session.command(openModel={"model": "m", "arrays": {"bias": "1"}})
        self.assertEqual(reply.model.name, "m")
        saved = session.command(saveSession={"name": "run", "arrays": {"b": "1"}}).saved
        self.assertEqual(saved.name, "run")
        for failure in (
            session.command(openModel={"model": "globex/m"}),
            session.command(openModel={"model": "mm"}),
            session.command(openSaved={"name": "../run", "key": saved.key}),
        ):
            self.assertIsInstance(failure, str)
            self.assertNotIn("acme", failure)
        session.leave()
        for name in ("acme/art", "globex/gil", "dora", "root"):
            with self.assertRaises(grpc.RpcError) as gone:
                Session(self.ann, self.channel(name), session=session.id)
            self.assertEqual(gone.exception.code(), STATUS.NOT_FOUND, name)
        again = Session(self.ann, self.channel("acme/ann"), session=session.id)
        again.leave()
        other = Session(self.gil, self.channel("globex/gil"))
        self.assertIn("no saved session 'run'", other.command(openSaved={"name": "run", "key": saved.key}))
        self.assertEqual(self.names(self.gil, SESSIONS, "ListSavedSessions", "sessions"), [])
        self.assertEqual(self.names(self.art, SESSIONS, "ListSavedSessions", "sessions"), ["run"])
        self.assertEqual(self.names(self.root, SESSIONS, "ListSavedSessions", "sessions"), ["acme/run"])
        other.end()

    def test_shared_operators_are_the_tenants(self):
        self.serve()
        operators = SquareOperators(self.channel("acme/ann"), self.ann)
        operators.answer_forward()
        graph = {"nodes": [{"name": "y", "op": "Custom", "inputs": ["x"], "attributes": {"op_type": "square"}}]}
        request = {"model": "squares", "graph": graph, "variables": [{"name": "x", "kind": "INPUT", "shape": [1]}]}
        inputs = {"x": {"shape": [1], "floatData": [3]}}
        self.art.call(MODELS, "DefineModel", request)
        self.assertIn("outputs", self.art.call(MODELS, "Predict", {"model": "squares", "inputs": inputs}))
        for client in (self.gil, self.dora):
            self.assertIn("no client that computes it", self.refused(STATUS.UNAVAILABLE, client, MODELS, "DefineModel", request))
            self.assertEqual(self.models(client), [])

    def test_a_tenants_client_computes_for_no_others_model(self):
        self.serve()
        operators = SquareOperators(self.channel("acme/ann"), self.ann)
        operators.answer_forward()
        graph = {
            "nodes": [
                {
                    "name": "y",
                    "op": "Custom",
                    "inputs": ["x"],
                    "custom": {"opType": "square", "arguments": ["data"], "outputs": ["output"]},
                }
            ]
        }
        for client in (self.dora, self.gil):
            said = self.refused(
                STATUS.INVALID_ARGUMENT,
                client,
                MODELS,
                "DefineModel",
                {
                    "model": "q",
                    "host": "acme/0123456789abcdef",
                    "graph": graph,
                    "variables": [{"name": "x", "kind": "INPUT", "shape": [1]}],
                },
            )
            self.assertIn("DefineModelRequest.host has a slash", said)
        self.assertEqual(operators.answers, 0)

    def test_errors_tell_nothing_of_other_tenants(self):
        self.serve()
        for client in (self.ann, self.gil):
            self.define(client, "secret-1")
            client.call(MODELS, "SaveCheckpoint", {"model": "secret-1"})
            client.call(TRAINING, "UploadDataset", {"dataset": "secret-1", **DATA})
            client.call(SERVING, "PublishModel", {"model": "secret-1"})
        # Each text is the same whether another tenant has the thing or nobody.
        methods = (
            (MODELS, "GetModel", "model"),
            (MODELS, "DeleteModel", "model"),
            (MODELS, "GetParameters", "model"),
            (MODELS, "LoadCheckpoint", "checkpoint"),
            (MODELS, "DeleteCheckpoint", "checkpoint"),
            (TRAINING, "DeleteDataset", "dataset"),
            (TRAINING, "Step", "model"),
            (SERVING, "PublishModel", "model"),
            (SERVING, "PublishModel", "checkpoint"),
            (SERVING, "RouteVersions", "served"),
            (SERVING, "RetireVersion", "served"),
            (INFERENCE, "ModelConfig", "name"),
            (INFERENCE, "ModelStatistics", "name"),
            (INFERENCE, "RepositoryModelUnload", "modelName"),
        )
        for client, other in ((self.dora, "acme"), (self.ann, "globex")):
            for service, method, field in methods:
                texts = set()
                for name in (f"{other}/secret-1", f"{other}/secret-9", "nobody/secret-1"):
                    with self.subTest(caller=client.name, method=method, name=name), self.assertRaises(grpc.RpcError) as caught:
                        client.call(service, method, {field: name})
                    error = caught.exception
                    self.assertIn(error.code(), (STATUS.NOT_FOUND, STATUS.INVALID_ARGUMENT), error.details())
                    texts.add((error.code(), re.sub(r"; did you mean [^?]*\?", "", error.details().replace(name, "NAME"))))
                self.assertEqual(len(texts), 1, texts)
                ready = {
                    client.call(INFERENCE, "ModelReady", {"name": name}).get("ready", False)
                    for name in (f"{other}/secret-1", f"{other}/secret-9", "nobody/secret-1")
                }
                self.assertEqual(ready, {False})
        for name in (
            "secret-2",
            "../acme/secret-1",
            "acme//secret-1",
            "/acme/secret-1",
            "acme+secret-1",
            "..",
            "acme/../x",
            "a\0b",
        ):
            for service, method, field in methods:
                with self.subTest(method=method, name=name), self.assertRaises(grpc.RpcError) as caught:
                    self.dora.call(service, method, {field: name})
                self.assertNotRegex(caught.exception.details().replace(repr(name), "").replace(name, ""), "acme/|globex/|secret-1")
            with self.assertRaises(grpc.RpcError):
                self.define(self.ann, name if name != "secret-2" else "secret-1")
        self.assertEqual(
            sorted(p.name for p in (self.server.folder / "store").iterdir() if not p.name.startswith(".")),
            ["acme+secret-1", "globex+secret-1"],
        )

    def test_names_in_health_are_for_callers_and_within_their_reach_where_they_are_closed(self):
        self.serve(flags=("--health_names=closed",))
        for client in (self.ann, self.gil):
            self.define(client, "m")
            client.call(SERVING, "PublishModel", {"model": "m"})
        stranger = self._exits.enter_context(grpc.insecure_channel(self.server.address)).unary_unary(f"/{HEALTH}/Check")

        def asked(service):
            """What whom nobody knows is told; a name of less than 128 bytes is the message's one field."""
            try:
                stranger(bytes((10, len(service))) + service.encode(), timeout=20)
                return STATUS.OK
            except grpc.RpcError as error:
                return error.code()

        self.assertEqual(asked(""), STATUS.OK)
        for name in ("model:acme/m", "model:acme/none", "cpu", MODELS, "nothing"):
            self.assertEqual(asked(name), STATUS.UNAUTHENTICATED, name)
        check = lambda client, name: client.call(HEALTH, "Check", {"service": name})["status"]
        for client, name in (
            (self.ann, "model:acme/m"),
            (self.gil, "model:globex/m:1"),
            (self.root, "model:acme/m"),
            (self.ann, "cpu"),
        ):
            self.assertEqual(check(client, name), "SERVING", name)
        for client, name in ((self.gil, "model:acme/m"), (self.dora, "model:acme/m:1")):
            self.refused(STATUS.NOT_FOUND, client, HEALTH, "Check", {"service": name})

    def test_metrics_count_by_method_code_and_tenant(self):
        self.serve(flags=METRICS)
        self.define(self.ann, "m")
        self.define(self.dora, "m")
        get_model, made_up = f"/{MODELS}/GetModel", ("/no.Service/A", "/no.Service/B")
        for client, times in ((self.ann, 1), (self.gil, 2), (self.dora, 3)):
            for _ in range(times):
                self.refused(STATUS.NOT_FOUND, client, MODELS, "GetModel", {"model": "n"})
        for path in made_up:
            with self.assertRaises(grpc.RpcError):
                self.channel("acme/art").unary_unary(path)(b"", timeout=20)
        families = self.metrics()
        value = lambda **labels: exposition.value(families, "gluond_requests_total", **labels)
        for tenant, times in (("acme", 1), ("globex", 2)):
            self.assertEqual(value(method=get_model, code="NOT_FOUND", tenant=tenant), times)
        self.assertEqual(value(method=get_model, code="NOT_FOUND"), 3, "those of no tenant")
        self.assertEqual(value(method=f"/{MODELS}/DefineModel", code="OK", tenant="acme"), 1)
        self.assertIsNone(value(method=f"/{MODELS}/DefineModel", code="OK", tenant="globex"))
        self.assertEqual(value(method="unknown", code="UNIMPLEMENTED", tenant="acme"), 2)
        self.assertEqual(exposition.value(families, "gluond_request_seconds_count", method=get_model), 6)
        tenants = {dict(labels).get("tenant") for _, labels in families["gluond_requests_total"].samples}
        self.assertEqual(tenants, {None, "acme", "globex"})
        self.assertGreater(exposition.value(families, "gluond_model_bytes", model="acme/m"), 0)

    def test_a_model_that_a_session_makes_is_audited_by_its_caller(self):
        audit = self.folder / "audit"
        self.serve(flags=(f"--audit_log={audit}",))
        save = {
            "graph": "1",
            "inputs": [{"name": "x", "shape": [-1, 1], "dtype": "FLOAT32"}],
            "parameters": [{"variable": {"name": "w"}, "array": "1"}],
        }
        session = Session(self.ann, self.channel("acme/ann"))
        session.put(1, [1.0])
        session.tell(
            defineGraph={
                "graph": "1",
                "inputs": ["x", "w"],
                "definition": {"nodes": [{"name": "y", "op": "broadcast_add", "inputs": ["x", "w"]}], "outputs": ["y"]},
            }
        )
        self.assertEqual(session.command(saveAsModel={"model": "one", **save}).model.name, "one")
        session.leave()
        again = Session(self.ann, self.channel("acme/ann"), session=session.id, number=4)
        self.assertEqual(again.command(saveAsModel={"model": "two", **save}).model.name, "two")
        self.assertIn("already", again.command(saveAsModel={"model": "two", **save}))
        again.end()
        self.server.stop()
        lines = [json.loads(line) for line in audit.read_text().splitlines()]
        told = [[line.get(key) for key in ("caller", "method", "command", "target", "code")] for line in lines]
        self.assertEqual(
            told,
            [
                ["acme/ann", f"/{SESSIONS}/Run", *rest]
                for rest in (
                    ("OpenSession", None, "OK"),
                    ("SaveAsModel", "acme/one", "OK"),
                    ("TakeUpSession", None, "OK"),
                    ("SaveAsModel", "acme/two", "OK"),
                    ("SaveAsModel", "acme/two", "ALREADY_EXISTS"),
                )
            ],
        )
        peers = [line["peer"] for line in lines]
        self.assertEqual([peers.index(peer) for peer in peers], [0, 0, 2, 2, 2], peers)
        self.assertNotIn(session.id, audit.read_text(), "whoever knows it takes the session up")

    def test_each_change_and_each_refusal_is_audited(self):
        audit = self.folder / "audit"
        self.serve(flags=(f"--audit_log={audit}",))
        self.define(self.ann, "m")
        with contextlib.suppress(grpc.RpcError):
            self.ann.call(TRAINING, "UploadDataset", {"dataset": "more", "tensors": DATA["tensors"]})  # Is not committed.
        self.ann.call(TRAINING, "UploadDataset", {"dataset": "rows", **DATA})
        session = Session(self.ann, self.channel("acme/ann"))
        session.command(openModel={"model": "m", "arrays": {"bias": "1"}})
        session.command(storeToModel={"model": "m", "arrays": {"bias": "1"}})
        session.command(storeToModel={"model": "n", "arrays": {"bias": "1"}})
        session.command(saveSession={"name": "run", "arrays": {"b": "1"}})
        self.assertIn("another key", session.command(openSaved={"name": "run", "key": "0" * 32}))
        self.ann.find(OPERATORS)
        request = self.ann.prototype("gluond.v1.HostRequest")
        host = self.channel("acme/ann").stream_stream(f"/{OPERATORS}/HostOperators", request.SerializeToString)(
            iter([request(open={"scope": "key:" + "0" * 32, "key": "k" * 20})]), timeout=30
        )
        self.assertEqual(host.exception(timeout=30).code(), STATUS.PERMISSION_DENIED)
        self.identities.write_text(
            "".join(line for line in self.identities.read_text().splitlines(True) if not line.startswith("acme/ann"))
        )
        self.assertEqual(session.error().code(), STATUS.UNAUTHENTICATED)
        self.server.stop()
        lines = [json.loads(line) for line in audit.read_text().splitlines()]
        self.assertEqual({line["caller"] for line in lines if line["method"] != "reload"}, {"acme/ann"})
        told = [(line["method"].rpartition("/")[2], *(line.get(key) for key in ("command", "target", "code"))) for line in lines]
        self.assertEqual(
            told[2:],
            [
                ("UploadDataset", None, "acme/rows", "OK"),
                ("Run", "OpenSession", None, "OK"),
                ("Run", "OpenModel", "acme/m", "OK"),
                ("Run", "StoreToModel", "acme/m", "OK"),
                ("Run", "StoreToModel", "acme/n", "NOT_FOUND"),
                ("Run", "SaveSession", "acme/run", "OK"),
                ("Run", "OpenSaved", "acme/run", "PERMISSION_DENIED"),
                ("HostOperators", None, None, "PERMISSION_DENIED"),
                ("reload", None, "--identities", "OK"),
                ("reload", "revoked", "acme/ann infer,train,publish", "OK"),
                ("Run", None, None, "UNAUTHENTICATED"),
            ],
        )

    def test_a_tenants_admin_is_not_the_servers(self):
        with self.identities.open("a") as file:
            file.write(f"acme/amy admin sha256:{hashlib.sha256(self.token('acme/amy')).hexdigest()}\n")
        self.serve()
        self.define(self.ann, "m")
        self.define(self.gil, "m")
        amy = self.client("acme/amy")
        self.assertEqual(self.models(amy), ["m"])
        self.refused(STATUS.NOT_FOUND, amy, MODELS, "GetModel", {"model": "globex/m"})
        self.refused(STATUS.PERMISSION_DENIED, amy, INFERENCE, "TraceSetting", {})
        self.assertIn("settings", self.root.call(INFERENCE, "TraceSetting", {}))


if __name__ == "__main__":
    case_runner.main()
