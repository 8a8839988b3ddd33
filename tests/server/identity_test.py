"""Who may call what: tokens, roles, the file of them that changes, and what clients say of a refusal."""

import hashlib
import os
import queue
import subprocess
import time
import unittest

import grpc
from google.protobuf import descriptor_pool, json_format

from gluond.v1 import (
    checkpoint_pb2,
    custom_operator_pb2,
    dataset_pb2,
    model_pb2,
    operator_pb2,
    parameters_pb2,
    server_pb2,  # noqa: F401
    serving_pb2,
    session_pb2,
    trainer_pb2,
    training_pb2,
)
from proto.inference import grpc_service_pb2  # noqa: F401
from tests import case_runner
from tests.server.identity_fixture import STATUS, IdentityCase, command
from tests.server.running_server import BINARY, RunningServer

REFUSED = (STATUS.UNAUTHENTICATED, STATUS.PERMISSION_DENIED)

OPEN = {"Health/Check", "Health/Watch", "GRPCInferenceService/ServerLive", "GRPCInferenceService/ServerReady"}
ANY_ROLE = {
    "Health/List",
    "ServerReflection/ServerReflectionInfo",
    "ServerService/GetServerInfo",
    "GroupService/GetGroup",
    "OperatorService/ListOperators",
    "OperatorService/DescribeOperator",
    "OperatorService/ListComponents",
    "ModelService/Explain",
    "ModelService/GetModel",
    "ModelService/ListModels",
    "ServingService/ListVersions",
} | {
    f"GRPCInferenceService/{name}"
    for name in ("ModelReady", "ServerMetadata", "ModelMetadata", "ModelConfig", "ModelStatistics", "RepositoryIndex")
}
INFER = {"ModelService/Predict"} | {
    f"GRPCInferenceService/{name}"
    for name in ("ModelInfer", "ModelStreamInfer", "SystemSharedMemoryStatus", "CudaSharedMemoryStatus")
}
PUBLISH = {
    "ServingService/PublishModel",
    "ServingService/RouteVersions",
    "ServingService/RetireVersion",
    "GRPCInferenceService/RepositoryModelLoad",
    "GRPCInferenceService/RepositoryModelUnload",
}
ADMIN = {
    f"GRPCInferenceService/{name}"
    for name in (
        "SystemSharedMemoryRegister",
        "SystemSharedMemoryUnregister",
        "CudaSharedMemoryRegister",
        "CudaSharedMemoryUnregister",
        "TraceSetting",
        "LogSettings",
    )
} | {"ServingService/ReloadServing", "GroupService/DrainMember"}
FOLLOW = {"ServingService/FollowVersions", "ServingService/ReadVersion"}
MEMBER = {"GroupService/Join"}
OWN = {"infer": INFER, "publish": PUBLISH, "admin": ADMIN, "follow": FOLLOW, "member": MEMBER}


def methods():
    """(service, method) of every service of every .proto that the server has."""
    pool = descriptor_pool.Default()
    for name in (
        "gluond.v1.ServerService",
        "gluond.v1.GroupService",
        "gluond.v1.OperatorService",
        "gluond.v1.SessionService",
        "gluond.v1.ModelService",
        "gluond.v1.TrainingService",
        "gluond.v1.ServingService",
        "inference.GRPCInferenceService",
    ):
        service = pool.FindServiceByName(name)
        for method in service.methods:
            yield name, method.name
    yield "grpc.health.v1.Health", "Check"
    yield "grpc.health.v1.Health", "List"
    yield "grpc.reflection.v1.ServerReflection", "ServerReflectionInfo"
    yield "grpc.reflection.v1alpha.ServerReflection", "ServerReflectionInfo"


class IdentityTest(IdentityCase):
    def test_each_role_may_call_its_methods_and_no_others(self):
        tokens = {role: self.token(f"has-{role}", role) for role in ("infer", "train", "publish", "admin", "follow", "member")}
        channel = self.channel(self.server(f"--identities={self.identities}"))
        seen = set()
        for service, method in methods():
            short = f"{service.rsplit('.', 1)[1]}/{method}"
            seen.add(short)
            for role in (None, "wrong", *tokens):
                may = (
                    short in OPEN
                    or role == "admin"
                    or role in tokens
                    and (
                        short in ANY_ROLE
                        and role not in ("follow", "member")
                        or short in OWN.get(role, ())
                        or role == "train"
                        and not any(short in own for own in OWN.values())
                    )
                )
                # A message of wrong bytes ends each call at once; streams that wait for more end by their deadline.
                code, said = self.ask(channel, f"{service}/{method}", tokens.get(role, role), request=b"\xff", timeout=2)
                with self.subTest(method=short, role=role):
                    if may:
                        self.assertNotIn(code, REFUSED, said)
                    else:
                        self.assertEqual(code, STATUS.PERMISSION_DENIED if role in tokens else STATUS.UNAUTHENTICATED, said)
        self.assertLessEqual(ANY_ROLE | INFER | PUBLISH | ADMIN | FOLLOW | MEMBER | (OPEN - {"Health/Watch"}), seen)

    def test_metadata_that_is_no_token_is_refused(self):
        token = self.token("alice", "admin")
        channel = self.channel(self.server(f"--identities={self.identities}"))
        for wrong in (
            "",
            "Bearer",
            "Bearer ",
            "Basic YWxpY2U6",
            token,
            f"Bearer{token}",
            f"Bearer {token}x",
            f"Bearer {token} {token}",
            "Bearer " + "a" * 8000,
            "Bearer sha256:" + "0" * 64,
        ):
            code, _ = self.ask(channel, self.INFO, metadata=(("authorization", wrong),))
            self.assertEqual(code, STATUS.UNAUTHENTICATED, wrong[:80])
        twice = (("authorization", f"Bearer {token}"),) * 2
        self.assertEqual(self.ask(channel, self.INFO, metadata=twice)[0], STATUS.UNAUTHENTICATED)
        for right in (f"Bearer {token}", f"bearer  {token} "):
            self.assertEqual(self.ask(channel, self.INFO, metadata=(("authorization", right),))[0], STATUS.OK)

    def test_a_method_that_there_is_not_is_told_to_those_who_are_known(self):
        token = self.token("alice", "infer")
        channel = self.channel(self.server(f"--identities={self.identities}"))
        self.assertEqual(self.ask(channel, "no.Such/Method")[0], STATUS.UNAUTHENTICATED)
        self.assertEqual(self.ask(channel, "no.Such/Method", token)[0], STATUS.UNIMPLEMENTED)

    def test_a_changed_file_is_taken_up_and_a_broken_one_is_not(self):
        alice = self.token("alice", "infer")
        server = self.server(f"--identities={self.identities}")
        channel = self.channel(server)
        self.assertEqual(self.ask(channel, self.INFO, alice)[0], STATUS.OK)
        bob = self.token("bob", "infer")
        self.until(lambda: self.ask(channel, self.INFO, bob)[0] is STATUS.OK)
        text = self.identities.read_text()
        self.identities.write_text(text + "carol king sha256:0\n")
        time.sleep(3)
        self.assertEqual(self.ask(channel, self.INFO, bob)[0], STATUS.OK)
        self.identities.write_text(text.replace("alice", "# alice"))
        self.until(lambda: self.ask(channel, self.INFO, alice)[0] is STATUS.UNAUTHENTICATED)
        self.assertEqual(self.ask(channel, self.INFO, bob)[0], STATUS.OK)
        _, _, log = server.stop()
        self.assertEqual(log.count("line 4: 'king' is no role"), 1, log)

    def test_a_file_that_is_away_or_has_lost_its_lines_changes_nothing_and_is_told_once(self):
        alice = self.token("alice", "infer")
        with (self.folder / "stderr").open("w") as stderr:
            server = self.server(f"--identities={self.identities}", f"--error_log={self.folder}/errors", stderr=stderr)
        told = (self.folder / "stderr").read_text
        channel = self.channel(server)
        lines, empty = self.folder / "lines", self.folder / "empty"
        empty.write_text("# Nobody.\n")
        self.identities.rename(lines)
        self.until(lambda: "cannot be read" in told())
        self.assertEqual(self.ask(channel, self.INFO, alice)[0], STATUS.OK)
        time.sleep(2.5)  # Two looks more.
        empty.rename(self.identities)
        self.until(lambda: "no lines any more" in told())
        self.assertEqual(self.ask(channel, self.INFO, alice)[0], STATUS.OK)
        lines.rename(self.identities)
        bob = self.token("bob", "infer")
        self.until(lambda: self.ask(channel, self.INFO, bob)[0] is STATUS.OK)
        self.assertEqual((told().count("cannot be read"), told().count("no lines any more")), (1, 1), told())
        self.assertNotIn("--identities", (self.folder / "errors").read_text())

    def test_a_wrong_file_of_identities_ends_the_start(self):
        digits = "0" * 64
        for line, expected in (
            ("alice infer", "2 words"),
            (f"alice boss sha256:{digits}", "boss"),
            (f"a/ infer sha256:{digits}", "name"),
            (f"a%2 infer sha256:{digits}", "hexadecimal"),
            (f"alice infer,proxy certificate:a", "no other role"),
            (f"edge proxy sha256:{digits}", "known by its certificate"),
            ("alice infer sha256:12", "64 hexadecimal"),
            (f"alice infer md5:{digits}", "credential"),
            (f"alice infer sha256:{digits}\nbob infer sha256:{digits}", "line 2"),
        ):
            self.identities.write_text(line)
            ended = subprocess.run(
                [BINARY, "--devices=cpu", "--address=127.0.0.1:0", f"--identities={self.identities}"],
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(ended.returncode, 1, line)
            self.assertIn(expected, ended.stderr)
            self.assertNotIn(digits, ended.stderr)  # The error repeats nothing that might be a credential.
        ended = subprocess.run(
            [BINARY, "--devices=cpu", "--address=127.0.0.1:0", f"--identities={self.folder}"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(ended.returncode, 1)
        self.assertIn("it is no regular file", ended.stderr)

    def test_two_callers_with_one_name_for_themselves_are_two_clients(self):
        tokens = [self.token(name, "train") for name in ("alice", "bob")]
        channel = self.channel(self.server(f"--identities={self.identities}"))
        define = json_format.ParseDict(
            {
                "model": "m",
                "variables": [{"name": "data", "shape": [1, 3]}],
                "block": {"block": "Dense", "attributes": {"units": 2}},
            },
            model_pb2.DefineModelRequest(),
        )
        code, said = self.ask(channel, "gluond.v1.ModelService/DefineModel", tokens[0], define.SerializeToString())
        self.assertEqual(code, STATUS.OK, said)
        first = parameters_pb2.InitializeParametersRequest(model="m")
        first.call.client_id, first.call.sequence = "laptop", 1
        for token in tokens:  # A second call of one client with this number would be answered from the first.
            code, answer = self.ask(channel, "gluond.v1.ModelService/InitializeParameters", token, first.SerializeToString())
            self.assertEqual(code, STATUS.OK, answer)
            self.assertFalse(parameters_pb2.InitializeParametersResponse.FromString(answer).replayed)

    def open_streams(self, channel, token):
        """Streams that stay open, by their methods: the one of inferences has been answered once, the session has begun."""
        metadata = (("authorization", f"Bearer {token}"),)
        streams = {}
        protocol = server_pb2.GetServerInfoResponse.FromString(self.ask(channel, self.INFO, token)[1]).protocol
        session = session_pb2.OpenSession(protocol=protocol)
        host = custom_operator_pb2.OpenHost(scope=hashlib.sha256(token.encode()).hexdigest())
        for path, first in (
            ("inference.GRPCInferenceService/ModelStreamInfer", grpc_service_pb2.ModelInferRequest()),
            ("gluond.v1.SessionService/Run", session_pb2.SessionRequest(open=session)),
            ("gluond.v1.OperatorService/HostOperators", custom_operator_pb2.HostRequest(open=host)),
            ("grpc.reflection.v1.ServerReflection/ServerReflectionInfo", None),
        ):
            requests = queue.Queue()
            requests.put(b"" if first is None else first.SerializeToString())
            streams[path] = channel.stream_stream(f"/{path}")(iter(requests.get, None), metadata=metadata, timeout=60)
            next(streams[path])
        return streams

    def train(self, channel, token):
        """A training that lasts for ever."""
        call = lambda path, request: self.ask(channel, path, token, request.SerializeToString())
        parse = json_format.ParseDict
        done = [
            call(
                "gluond.v1.ModelService/DefineModel",
                parse(
                    {
                        "model": "m",
                        "variables": [{"name": "data", "shape": [-1, 3]}],
                        "block": {"block": "Dense", "attributes": {"units": 2}},
                    },
                    model_pb2.DefineModelRequest(),
                ),
            ),
            call(
                "gluond.v1.ModelService/InitializeParameters",
                parse({"model": "m", "initializer": {"name": "xavier"}}, parameters_pb2.InitializeParametersRequest()),
            ),
            call(
                "gluond.v1.TrainingService/CreateTrainer",
                parse(
                    {
                        "model": "m",
                        "loss": {"name": "SoftmaxCrossEntropyLoss"},
                        "optimizer": {"name": "sgd", "attributes": {"learning_rate": 0.01}},
                    },
                    trainer_pb2.CreateTrainerRequest(),
                ),
            ),
            call(
                "gluond.v1.TrainingService/UploadDataset",
                parse(
                    {
                        "dataset": "d",
                        "commit": True,
                        "tensors": {
                            "data": {"shape": [64, 3], "fill": {"constant": 1}},
                            "label": {"shape": [64], "dtype": "INT32", "fill": {}},
                        },
                    },
                    dataset_pb2.UploadDatasetRequest(),
                ),
            ),
        ]
        self.assertEqual([code for code, _ in done], [STATUS.OK] * len(done), done)
        request = parse(
            {"model": "m", "rows": {"dataset": "d"}, "batchSize": "8", "epochs": "1000000", "progressEvery": "0.05s"},
            training_pb2.TrainRequest(),
        )
        call = channel.unary_stream("/gluond.v1.TrainingService/Train")(
            request.SerializeToString(), metadata=(("authorization", f"Bearer {token}"),), timeout=60
        )
        next(call)
        return call

    def test_open_streams_end_when_their_callers_are_revoked(self):
        alice, bob = self.token("alice", "train,infer"), self.token("bob", "train,infer")
        server = self.server(f"--identities={self.identities}")
        channel = self.channel(server)
        health = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
        next(health)
        of_bob = self.open_streams(channel, bob)
        of_alice = self.open_streams(channel, alice)
        of_alice["gluond.v1.TrainingService/Train"] = self.train(channel, alice)
        lines = self.identities.read_text().splitlines()
        self.identities.write_text("\n".join(line for line in lines if not line.startswith("alice")) + "\n")
        for path, stream in of_alice.items():
            with self.assertRaises(grpc.RpcError, msg=path) as ended:
                while True:
                    next(stream)
            self.assertEqual(ended.exception.code(), STATUS.UNAUTHENTICATED, path)
            self.assertIn("has been revoked since", ended.exception.details(), path)
        for path, stream in (*of_bob.items(), ("Watch", health)):
            self.assertTrue(stream.is_active(), path)
        # A role that is taken away ends what it was good for.
        self.identities.write_text("\n".join(lines).replace("bob train,infer", "bob infer") + "\n")
        for path in "gluond.v1.SessionService/Run", "gluond.v1.OperatorService/HostOperators":
            self.assertEqual(of_bob[path].exception(timeout=10).code(), STATUS.UNAUTHENTICATED, path)
        self.assertTrue(of_bob["inference.GRPCInferenceService/ModelStreamInfer"].is_active())

    @unittest.skipIf(os.geteuid() != 0, "only root can be somebody else")
    def test_a_unix_socket_is_for_those_whom_the_kernel_names(self):
        self.folder.chmod(0o755)
        socket = self.folder / "socket"
        nobody = 65534
        ask = (
            "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.settimeout(20); "
            "s.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n\\0\\0\\0\\4\\0\\0\\0\\0\\0'); sys.exit(s.recv(9) == b'')"
        )
        for flags, may in (((), False), ((f"--unix_users=7,{nobody}",), True)):
            with RunningServer(f"--address=unix:{socket}", *flags):
                socket.chmod(0o777)
                for user, expected in ((0, True), (nobody, may)):
                    ended = subprocess.run(["/usr/bin/python3", "-c", ask, str(socket)], user=user, timeout=60)
                    self.assertEqual(ended.returncode == 0, expected, (flags, user))

    def test_the_command_has_flags_and_variables_for_it(self):
        folder = self.certificates("tls")
        self.token("alice", "infer")
        server = self.server(*self.tls(folder), f"--identities={self.identities}")
        plain = {name: value for name, value in os.environ.items() if not name.startswith("GLUOND_")}
        flags = (f"--tls_ca={folder}/ca.pem", f"--token_file={self.folder}/alice.token")
        self.assertEqual(command("models", f"--address={server.address}", *flags, env=plain).returncode, 0)
        variables = {
            **plain,
            "GLUOND_ADDRESS": server.address,
            "GLUOND_TLS_CA": str(folder / "ca.pem"),
            "GLUOND_TOKEN_FILE": str(self.folder / "alice.token"),
        }
        self.assertEqual(command("models", env=variables).returncode, 0)
        self.assertIn("who calls", command("models", f"--address={server.address}", flags[0], env=plain).stderr)
        self.assertIn("in clear", command("models", "--address=192.0.2.1:1", flags[1], env=plain).stderr)
        self.assertIn("wants publish", command("publish", "m", env=variables).stderr)


if __name__ == "__main__":
    case_runner.main()
