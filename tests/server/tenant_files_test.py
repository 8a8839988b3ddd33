"""The file of tenants: a restart, changes of it under way and what they end, and mistakes in it."""

import queue
import time

import grpc
from google.protobuf import json_format

from tests import case_runner
from tests.server.running_server import RunningServer
from tests.server.tenants_fixture import (
    DATA,
    INFERENCE,
    MODELS,
    SERVING,
    SESSIONS,
    STATUS,
    TRAINING,
    Session,
    TenantsCase,
)


class TenantFilesTest(TenantsCase):
    def test_a_restart_keeps_what_is_the_tenants(self):
        self.serve()
        for units, client in ((2, self.ann), (3, self.gil)):
            self.define(client, "m", units)
            client.call(TRAINING, "UploadDataset", {"dataset": "rows", **DATA})
            client.call(SERVING, "PublishModel", {"model": "m"})
            session = Session(client, self.channel(client.name))
            session.put(1, [float(units)])
            session.command(saveSession={"name": "run", "arrays": {"x": "1"}})
            session.end()
        self.assertEqual(self.server.stop()[0], 0)
        self.server.start()
        self.connect()
        for units, client in ((2, self.ann), (3, self.gil)):
            self.assertEqual((self.models(client), self.units(client, "m")), (["m"], units))
            self.assertEqual(self.names(client, TRAINING, "ListDatasets", "datasets"), ["rows"])
            self.assertEqual(self.names(client, INFERENCE, "RepositoryIndex", "models"), ["m"])
            self.assertEqual(self.names(client, SESSIONS, "ListSavedSessions", "sessions"), ["run"])
        self.assertEqual(self.models(self.dora), [])
        self.assertEqual(self.models(self.root), ["acme/m", "globex/m"])
        self.assertEqual(self.server.stop()[0], 0)
        self.tenants.write_text("acme\n")
        self.server.start()
        self.connect()
        self.assertEqual(self.models(self.root), ["acme/m"], "nobody owns the other")
        self.assertIn("--tenants", self.refused(STATUS.PERMISSION_DENIED, self.gil, MODELS, "ListModels", {}))

    def test_a_changed_file_is_taken_up_and_a_broken_one_is_not(self):
        self.serve("acme models=1", "globex")
        self.define(self.ann, "a")
        self.refused(STATUS.RESOURCE_EXHAUSTED, self.ann, MODELS, "DefineModel", {"model": "b", "block": {"block": "Flatten"}})
        self.tenants.write_text("acme models=2\n")

        def may(client, model):
            try:
                client.call(
                    MODELS,
                    "DefineModel",
                    {
                        "model": model,
                        "block": {"block": "Dense", "attributes": {"units": 1}},
                        "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 1]}],
                    },
                )
                return True
            except grpc.RpcError:
                return False

        self.until(lambda: may(self.ann, "b"))
        self.assertIn("--tenants", self.refused(STATUS.PERMISSION_DENIED, self.gil, MODELS, "ListModels", {}))
        self.tenants.write_text("acme models=9\nglobex lane_share=no\n")
        time.sleep(3)
        self.assertFalse(may(self.ann, "c"), "a broken file changes nothing")
        _, _, err = self.server.stop()
        self.assertRegex(err, "--tenants, line 2: lane_share is 'no'; want 0.01 to 100; those known before stay")

    def open_inference(self, name):
        """Asks a served model by one stream; the answer's error."""
        request = self.root.prototype("inference.ModelInferRequest")
        requests = queue.Queue()
        self._exits.callback(requests.put, None)
        stream = self.channel(name).stream_stream(
            f"/{INFERENCE}/ModelStreamInfer",
            request.SerializeToString,
            self.root.prototype("inference.ModelStreamInferResponse").FromString,
        )(iter(requests.get, None), timeout=60)

        def ask(model):
            requests.put(
                json_format.ParseDict(
                    {
                        "modelName": model,
                        "inputs": [{"name": "data", "datatype": "FP32", "shape": [1, 1], "contents": {"fp32Contents": [1]}}],
                    },
                    request(),
                )
            )
            return next(stream).error_message

        return stream, ask

    def test_open_streams_end_with_the_reach_of_their_caller(self):
        self.serve()
        self.define(self.ann, "m")
        self.ann.call(SERVING, "PublishModel", {"model": "m", "served": "shop"})
        self.root.find(INFERENCE)
        stream, ask = self.open_inference("root")
        session = Session(self.root, self.channel("root"))
        self.assertEqual(ask("acme/shop"), "")
        self.assertEqual(session.command(openModel={"model": "acme/m", "arrays": {"bias": "1"}}).model.name, "acme/m")
        self.identities.write_text(self.identities.read_text().replace("root admin", "root infer,train"))
        for error in (stream.exception(timeout=30), session.error()):
            self.assertEqual(error.code(), STATUS.UNAUTHENTICATED)
            self.assertIn("has been revoked since", error.details())
        self.refused(STATUS.NOT_FOUND, self.root, MODELS, "GetModel", {"model": "acme/m"})
        with self.assertRaises(grpc.RpcError) as gone:
            Session(self.root, self.channel("root"), session=session.id)
        self.assertEqual(gone.exception.code(), STATUS.NOT_FOUND)

    def test_open_streams_end_with_their_tenants_line(self):
        self.serve()
        self.define(self.ann, "m")
        self.ann.call(SERVING, "PublishModel", {"model": "m", "served": "shop"})
        self.root.find(INFERENCE)
        stream, ask = self.open_inference("acme/ann")
        self.assertEqual(ask("shop"), "")
        session, other = Session(self.ann, self.channel("acme/ann")), Session(self.gil, self.channel("globex/gil"))
        session.put(1, [1.0])
        self.tenants.write_text("globex\n")
        for error in (stream.exception(timeout=30), session.error()):
            self.assertEqual(error.code(), STATUS.PERMISSION_DENIED)
            self.assertIn("has no line", error.details())
        other.put(1, [2.0])
        self.assertEqual(list(other.command(fetch={"arrays": ["1"]}).tensors[0].shape), [1])
        self.tenants.write_text("acme\nglobex\n")
        self.until(lambda: self.may(self.ann))
        again = Session(self.ann, self.channel("acme/ann"), session=session.id, number=2)
        self.assertEqual(list(again.command(fetch={"arrays": ["1"]}).tensors[0].shape), [1])
        again.end()
        other.end()

    def test_a_file_that_lost_its_lines_or_is_away_changes_nothing_and_is_told_once(self):
        errors = self.folder / "errors"
        self.serve(flags=(f"--error_log={errors}",))
        session = Session(self.ann, self.channel("acme/ann"))
        empty = self.folder / "empty"
        empty.write_text("# Nobody.\n")
        self.tenants.rename(self.folder / "lines")
        self.wait_for_looks()
        self.assertTrue(self.may(self.ann))
        empty.rename(self.tenants)
        self.wait_for_looks()
        self.assertTrue(self.may(self.ann))
        (self.folder / "lines").rename(self.tenants)
        self.wait_for_looks()
        session.put(1, [1.0])
        session.end()
        _, _, err = self.server.stop()
        for says in (f"--tenants={self.tenants} cannot be read", "--tenants: the file has no lines any more"):
            self.assertEqual(err.count(says), 1, err)
        self.assertNotIn("--tenants", errors.read_text())

    def test_a_wrong_file_of_tenants_ends_the_start(self):
        for line, expected in (
            ("acme models=0", "models is '0'"),
            ("acme models=many", "models is 'many'"),
            ("acme size=1", "no quota 'size'"),
            ("acme bytes=1PB", "bytes is '1PB'"),
            ("acme bytes=9999999TiB", "bytes is '9999999TiB'"),
            ("acme requests_per_second=-1", "requests_per_second"),
            ("acme lane_share=nan", "lane_share"),
            ("acme lane_share=1000", "0.01 to 100"),
            ("a/b", "letters, digits"),
            (".acme", "begin with"),
            ("a" * 33, "the name has 33 letters; want 32"),
            ("acme\nacme", "line 2: an earlier line"),
            ("acme models", "models is ''"),
        ):
            self.tenants.write_text(line + "\n")
            with self.subTest(line=line), self.assertRaisesRegex(AssertionError, expected):
                RunningServer(f"--identities={self.identities}", f"--tenants={self.tenants}")
        with self.assertRaisesRegex(AssertionError, "it is no regular file"):
            RunningServer(f"--identities={self.identities}", f"--tenants={self.folder}")
        self.tenants.write_text("acme\n")
        with self.assertRaisesRegex(AssertionError, "set --identities"):
            RunningServer(f"--tenants={self.tenants}")
        with self.identities.open("a") as file:
            file.write(f"acme infer sha256:{'0' * 64}\n")
        with self.assertRaisesRegex(AssertionError, "'acme' is the name of a tenant, too"):
            RunningServer(f"--identities={self.identities}", f"--tenants={self.tenants}")


if __name__ == "__main__":
    case_runner.main()
