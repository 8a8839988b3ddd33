"""The audit log: who did what, who read what, who was refused, and what changed meanwhile."""

import json
import os
import queue
import signal

from gluond.v1 import (
    checkpoint_pb2,
    custom_operator_pb2,
    dataset_pb2,
    model_pb2,
    parameters_pb2,
    serving_pb2,
    trainer_pb2,
    training_pb2,
)
from proto.inference import grpc_service_pb2
from tests import case_runner
from tests.server.identity_fixture import STATUS, IdentityCase

DELETE = "gluond.v1.ModelService/DeleteModel"


class AuditTest(IdentityCase):
    def start(self, *flags, **options):
        self.audit = self.folder / "audit"
        self.running = self.server(f"--identities={self.identities}", f"--audit_log={self.audit}", *flags, **options)
        return self.channel(self.running)

    def lines(self):
        return [json.loads(line) for line in self.audit.read_text().splitlines()] if self.audit.exists() else []

    def ended(self):
        """All lines of a server that is stopped now."""
        self.running.stop()
        return self.lines()

    def test_changes_are_audited_with_whoever_made_them(self):
        token = self.token("alice", "train,publish")
        channel = self.start()
        self.ask(
            channel,
            "gluond.v1.ModelService/DeleteModel",
            token,
            model_pb2.DeleteModelRequest(model="digits").SerializeToString(),
            metadata=(("x-request-id", "r-1"),),
        )
        self.ask(channel, "gluond.v1.ModelService/ListModels", token)
        for method, request in (
            ("gluond.v1.ServingService/RetireVersion", serving_pb2.RetireVersionRequest(served="digits", version=7)),
            ("gluond.v1.TrainingService/DeleteDataset", dataset_pb2.DeleteDatasetRequest(dataset="digits")),
            ("gluond.v1.ModelService/DeleteCheckpoint", checkpoint_pb2.DeleteCheckpointRequest(checkpoint="digits")),
            (
                "inference.GRPCInferenceService/RepositoryModelUnload",
                grpc_service_pb2.RepositoryModelUnloadRequest(model_name="digits"),
            ),
        ):
            self.ask(channel, method, token, request.SerializeToString())
        lines = self.ended()
        self.assertEqual([line["target"] for line in lines], ["digits"] * 5, lines)
        told = {key: lines[0][key] for key in ("event", "caller", "method", "target", "code", "request_id")}
        self.assertEqual(
            told,
            {
                "event": "audit",
                "caller": "alice",
                "method": "/gluond.v1.ModelService/DeleteModel",
                "target": "digits",
                "code": "NOT_FOUND",
                "request_id": "r-1",
            },
        )

    def test_refusals_are_audited_and_floods_of_them_counted(self):
        token = self.token("shop", "infer")
        channel = self.start()
        self.ask(channel, "gluond.v1.ModelService/DeleteModel", token, metadata=(("x-request-id", "r-2"),))
        for _ in range(200):
            self.ask(channel, self.INFO)
        lines = self.ended()
        told = {key: lines[0][key] for key in ("event", "caller", "method", "code", "request_id")}
        self.assertEqual(
            told,
            {
                "event": "audit",
                "caller": "shop",
                "method": "/gluond.v1.ModelService/DeleteModel",
                "code": "PERMISSION_DENIED",
                "request_id": "r-2",
            },
        )
        self.assertEqual(
            {(line.get("method"), line["code"]) for line in lines[1:] if line["event"] == "audit"},
            {(f"/{self.INFO}", "UNAUTHENTICATED")},
        )
        self.assertNotIn("caller", lines[1])
        self.assertLess(len(lines), 60)
        self.assertEqual(sum(line.get("left_out", 0) + (line["event"] == "audit") for line in lines[1:]), 200)

    def test_a_flood_of_one_caller_hides_no_line_of_another(self):
        mallory, eve = (self.token(name, "infer") for name in ("mallory", "eve"))
        channel = self.start()
        for _ in range(80):
            self.ask(channel, DELETE, mallory)
            self.ask(channel, DELETE)
        for _ in range(5):
            self.ask(channel, DELETE, eve)
        self.ask(channel, "gluond.v1.ModelService/DefineModel", mallory)
        lines = self.ended()
        self.assertEqual([line.get("left_out", 0) for line in lines if line.get("caller") == "eve"], [0] * 5)
        self.assertEqual(len([line for line in lines if line.get("method", "").endswith("DefineModel")]), 1)
        self.assertLess(len(lines), 130)

    def test_whoever_reads_what_a_model_has_learned_has_a_line(self):
        token = self.token("alice", "train")
        channel = self.start()
        service, training = "gluond.v1.ModelService", "gluond.v1.TrainingService"
        requests = {
            f"{service}/GetParameters": parameters_pb2.GetParametersRequest(model="m"),
            f"{service}/DownloadParameter": parameters_pb2.DownloadParameterRequest(model="m"),
            f"{service}/UploadParameter": parameters_pb2.UploadParameterRequest(model="m", parameter="w"),
            f"{training}/GetOptimizerState": trainer_pb2.GetOptimizerStateRequest(model="m"),
            f"{training}/GetGradients": training_pb2.GetGradientsRequest(model="m"),
        }
        for path, request in requests.items():
            for _ in range(70):
                self.ask(channel, path, token, request.SerializeToString())
        lines = self.ended()
        for path in requests:
            its = [line for line in lines if line.get("method") == f"/{path}"]
            self.assertEqual({(line["caller"], line["target"]) for line in its}, {("alice", "m")}, path)
            self.assertEqual(len(its), 50, path)
        self.assertEqual(sorted(line["left_out"] for line in lines if line["event"] == "audit_left_out"), [20] * len(requests))

    def test_who_offers_operators_has_a_line(self):
        token = self.token("alice", "train")
        channel = self.start()
        requests = queue.Queue()
        requests.put(custom_operator_pb2.HostRequest(open=custom_operator_pb2.OpenHost(scope="0" * 32)))
        for shared in (False, True):
            requests.put(custom_operator_pb2.HostRequest(offer=custom_operator_pb2.OfferOperator(op_type="square", shared=shared)))
        stream = channel.stream_stream(
            "/gluond.v1.OperatorService/HostOperators", custom_operator_pb2.HostRequest.SerializeToString
        )(iter(requests.get, None), metadata=(("authorization", f"Bearer {token}"),), timeout=60)
        self.until(lambda: len(self.lines()) == 2)
        stream.cancel()
        requests.put(None)
        self.assertEqual(
            [(line["caller"], line["command"], line["target"], line["code"]) for line in self.lines()],
            [("alice", "Offer", "square", "OK"), ("alice", "Share", "square", "OK")],
        )

    def reloads(self):
        return [
            (line["method"], line.get("command"), line.get("target"), line["code"])
            for line in self.lines()
            if line.get("method") in ("reload", "SIGHUP")
        ]

    def test_what_is_taken_up_meanwhile_has_a_line(self):
        folder, other = self.certificates("tls"), self.certificates("other")
        self.token("alice", "infer")
        tenants = self.folder / "tenants"
        tenants.write_text("acme\n")
        self.start(*self.tls(folder), f"--tenants={tenants}")
        first = self.identities.read_text()
        self.token("mallory", "train")
        self.identities.write_text(self.identities.read_text().replace("alice infer", "alice admin"))
        expected = [
            ("reload", None, "--identities", "OK"),
            ("reload", "revoked", "alice infer", "OK"),
            ("reload", "granted", "alice admin", "OK"),
            ("reload", "granted", "mallory train", "OK"),
        ]
        self.until(lambda: sorted(self.reloads(), key=str) == sorted(expected, key=str))
        self.identities.write_text("alice boss sha256:0\n")
        self.until(lambda: ("reload", None, "--identities", "INVALID_ARGUMENT") in self.reloads())
        self.identities.write_text(first)
        self.until(lambda: ("reload", "revoked", "mallory train", "OK") in self.reloads())
        tenants.write_text("acme\nglobex\n")
        self.until(lambda: ("reload", None, "--tenants", "OK") in self.reloads())
        for name in ("server.pem", "server.key"):
            (folder / name).write_bytes((other / name).read_bytes())
        self.until(lambda: ("reload", None, "--tls_cert", "OK") in self.reloads())
        os.kill(self.running.process.pid, signal.SIGHUP)
        self.until(lambda: ("SIGHUP", None, None, "FAILED_PRECONDITION") in self.reloads())

    def replace(self, target):
        """The log's path leads to `target` from here on."""
        link = self.folder / "link"
        link.symlink_to(target)
        link.rename(self.folder / "audit")

    def test_what_has_a_line_is_refused_while_a_required_log_cannot_be_written(self):
        token = self.token("alice", "train")
        channel = self.start("--audit=required")
        delete = lambda: self.ask(channel, DELETE, token, model_pb2.DeleteModelRequest(model="m").SerializeToString())
        self.assertEqual(delete()[0], STATUS.NOT_FOUND)
        self.replace("/dev/full")
        self.until(lambda: delete()[0] is STATUS.UNAVAILABLE)
        self.assertIn("--audit=required", delete()[1])
        for path in ("gluond.v1.ModelService/GetParameters", "gluond.v1.SessionService/Run"):
            self.assertEqual(self.ask(channel, path, token)[0], STATUS.UNAVAILABLE, path)
        for path in (self.INFO, "gluond.v1.ModelService/ListModels"):  # They have no lines.
            self.assertEqual(self.ask(channel, path, token)[0], STATUS.OK, path)
        self.replace(self.folder / "again")
        self.until(lambda: delete()[0] is STATUS.NOT_FOUND)
        self.until(lambda: '"target":"m"' in (self.folder / "again").read_text())

    def test_a_required_log_that_cannot_be_written_ends_the_start(self):
        self.token("alice", "train")
        identities = f"--identities={self.identities}"
        for flags, says in (
            ((identities, "--audit=required", "--audit_log=/dev/full"), "cannot be written"),
            (("--audit=required",), "--audit_log"),
            ((identities, "--audit=wanted"), "want required"),
        ):
            self.assertIn(says, self.start_fails(*flags), flags)


if __name__ == "__main__":
    case_runner.main()
