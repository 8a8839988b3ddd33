"""Whose things are: what each method, and each command of a session, lets an owner, a stranger and those with grants do."""

import contextlib
import hashlib
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import grpc
from google.protobuf import descriptor_pb2, json_format

from tests import case_runner
from tests.server.reflection_client import Reflection
from tests.server.running_server import BINARY, RunningServer
from tests.server.tenants_fixture import (
    DATA,
    GROUPS,
    HEALTH,
    INFERENCE,
    MODELS,
    OPERATORS,
    SERVER,
    SERVING,
    SESSIONS,
    STATUS,
    TRAINING,
    Session,
    _Token,
)

REFLECTION = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
# Identities, and the fields of their lines, which grant those who are not the owner what he may do.
RELATIONS = {"owner": "", "stranger": "", "reader": "reads=other,th*", "changer": "changes=thing", "co-owner": "owns=thing"}
ASK, READ, CHANGE, DELETE, NOTHING = "ask", "read", "change", "delete", "nothing"
MAY = {
    "owner": {READ, CHANGE, DELETE},
    "stranger": set(),
    "reader": {READ},
    "changer": {READ, CHANGE},
    "co-owner": {READ, CHANGE, DELETE},
    "admin": {READ, CHANGE, DELETE},
}
M = {"model": "thing"}
KEY = "the key of a saved session"

# A row for each method: the role that it wants ("": none), what it does to a thing, and a request about that.
ROWS = {
    f"{HEALTH}/Check": ("", ASK, {"service": "model:thing"}),
    f"{HEALTH}/Watch": ("", NOTHING, {}),
    f"{HEALTH}/List": ("any", NOTHING, {}),
    **{f"{name}/ServerReflectionInfo": ("any", NOTHING, {}) for name in REFLECTION},
    f"{SERVER}/GetServerInfo": ("any", NOTHING, {}),
    f"{OPERATORS}/ListOperators": ("any", NOTHING, {}),
    f"{OPERATORS}/DescribeOperator": ("any", NOTHING, {}),
    f"{OPERATORS}/ListComponents": ("any", NOTHING, {}),
    f"{OPERATORS}/Invoke": ("train", NOTHING, {}),
    f"{OPERATORS}/CheckGradient": ("train", NOTHING, {}),
    f"{OPERATORS}/HostOperators": ("train", NOTHING, {}),
    f"{GROUPS}/Join": ("member", NOTHING, {}),
    f"{GROUPS}/GetGroup": ("any", NOTHING, {}),
    f"{GROUPS}/DrainMember": ("admin", NOTHING, {}),
    f"{SESSIONS}/Run": ("train", NOTHING, {}),
    f"{SESSIONS}/ListSavedSessions": ("train", NOTHING, {}),
    f"{SESSIONS}/DeleteSavedSession": ("train", DELETE, {"name": "thing", "key": KEY}),
    f"{MODELS}/DefineModel": (
        "train",
        CHANGE,
        {
            **M,
            "block": {"block": "Dense", "attributes": {"units": 1}},
            "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 1]}],
            "replace": True,
        },
    ),
    f"{MODELS}/Explain": ("any", READ, M),
    f"{MODELS}/GetModel": ("any", READ, M),
    f"{MODELS}/ListModels": ("any", NOTHING, {}),
    f"{MODELS}/DeleteModel": ("train", DELETE, M),
    f"{MODELS}/InitializeParameters": ("train", CHANGE, M),
    f"{MODELS}/SetParameters": ("train", CHANGE, M),
    f"{MODELS}/GetParameters": ("train", READ, M),
    f"{MODELS}/UploadParameter": ("train", CHANGE, M),
    f"{MODELS}/DownloadParameter": ("train", READ, M),
    f"{MODELS}/Predict": ("infer", READ, M),
    f"{MODELS}/SaveCheckpoint": ("train", CHANGE, {**M, "overwrite": True}),
    f"{MODELS}/LoadCheckpoint": ("train", CHANGE, {"checkpoint": "thing"}),
    f"{MODELS}/ListCheckpoints": ("train", NOTHING, {}),
    f"{MODELS}/DeleteCheckpoint": ("train", DELETE, {"checkpoint": "thing"}),
    f"{TRAINING}/Forward": ("train", CHANGE, M),
    f"{TRAINING}/Backward": ("train", CHANGE, M),
    f"{TRAINING}/CreateTrainer": ("train", CHANGE, M),
    f"{TRAINING}/GetTrainer": ("train", READ, M),
    f"{TRAINING}/Step": ("train", CHANGE, M),
    f"{TRAINING}/TrainStep": ("train", CHANGE, M),
    f"{TRAINING}/Train": ("train", CHANGE, {**M, "rows": {"dataset": "thing"}}),
    f"{TRAINING}/CancelTraining": ("train", CHANGE, M),
    f"{TRAINING}/ZeroGradients": ("train", CHANGE, M),
    f"{TRAINING}/GetGradients": ("train", READ, M),
    f"{TRAINING}/SetLearningRate": ("train", CHANGE, M),
    f"{TRAINING}/GetOptimizerState": ("train", READ, M),
    f"{TRAINING}/SetOptimizerState": ("train", CHANGE, M),
    f"{TRAINING}/Evaluate": ("train", READ, {**M, "rows": {"dataset": "thing"}}),
    f"{TRAINING}/UploadDataset": ("train", CHANGE, {"dataset": "thing", **DATA}),
    f"{TRAINING}/ListDatasets": ("train", NOTHING, {}),
    f"{TRAINING}/DeleteDataset": ("train", DELETE, {"dataset": "thing"}),
    f"{TRAINING}/GetSequence": ("train", ASK, M),
    f"{SERVING}/PublishModel": ("publish", CHANGE, M),
    f"{SERVING}/ListVersions": ("any", ASK, {"served": "thing"}),
    f"{SERVING}/RouteVersions": ("publish", CHANGE, {"served": "thing", "labels": {"new": "1"}}),
    f"{SERVING}/RetireVersion": ("publish", DELETE, {"served": "thing", "version": "99"}),
    f"{SERVING}/ReloadServing": ("admin", NOTHING, {}),
    f"{SERVING}/FollowVersions": ("follow", NOTHING, {}),
    f"{SERVING}/ReadVersion": ("follow", ASK, {"served": "thing", "version": "1", "file": "manifest.json"}),
    f"{INFERENCE}/ServerLive": ("", NOTHING, {}),
    f"{INFERENCE}/ServerReady": ("", NOTHING, {}),
    f"{INFERENCE}/ServerMetadata": ("any", NOTHING, {}),
    f"{INFERENCE}/ModelReady": ("any", ASK, {"name": "thing"}),
    f"{INFERENCE}/ModelMetadata": ("any", ASK, {"name": "thing"}),
    f"{INFERENCE}/ModelConfig": ("any", ASK, {"name": "thing"}),
    f"{INFERENCE}/ModelStatistics": ("any", ASK, {"name": "thing"}),
    f"{INFERENCE}/RepositoryIndex": ("any", NOTHING, {}),
    f"{INFERENCE}/ModelInfer": ("infer", ASK, {"modelName": "thing"}),
    f"{INFERENCE}/ModelStreamInfer": ("infer", ASK, {"modelName": "thing"}),
    f"{INFERENCE}/RepositoryModelLoad": ("publish", CHANGE, {"modelName": "thing"}),
    f"{INFERENCE}/RepositoryModelUnload": ("publish", CHANGE, {"modelName": "thing"}),
    **{f"{INFERENCE}/{kind}SharedMemoryStatus": ("infer", NOTHING, {}) for kind in ("System", "Cuda")},
    **{
        f"{INFERENCE}/{kind}SharedMemory{what}": ("admin", NOTHING, {})
        for kind in ("System", "Cuda")
        for what in ("Register", "Unregister")
    },
    f"{INFERENCE}/TraceSetting": ("admin", NOTHING, {}),
    f"{INFERENCE}/LogSettings": ("admin", NOTHING, {}),
}
# The same for the commands of sessions that touch things.
COMMANDS = {
    "openModel": (READ, lambda number: {"model": "thing", "arrays": {"bias": str(number)}}),
    "storeToModel": (CHANGE, lambda number: {"model": "thing"}),
    "saveAsModel": (CHANGE, lambda number: {"model": "thing", "graph": "1", "replace": True}),
    "saveSession": (CHANGE, lambda number: {"name": "thing", "arrays": {}}),
    "openSaved": (ASK, lambda number: {"name": "thing", "key": "no key"}),
}


class OwnershipTest(unittest.TestCase):
    def setUp(self):
        self._exits = contextlib.ExitStack()
        self.addCleanup(self._exits.close)
        self.folder = pathlib.Path(self._exits.enter_context(tempfile.TemporaryDirectory()))
        self.identities = self.folder / "identities"
        # An identity for each relation, with a credential for each role, and one for all of them.
        lines = [
            self.line(name, role, fields)
            for name, fields in RELATIONS.items()
            for role in ("infer", "train", "publish", "infer,train,publish")
        ]
        self.identities.write_text("".join([*lines, self.line("admin", "admin", "")]))

    def line(self, name, roles, fields):
        return f"{name} {roles} sha256:{hashlib.sha256(self.token(name, roles).encode()).hexdigest()} {fields}\n"

    def token(self, name, roles):
        return f"token of {name} as {roles}".replace(" ", "-")

    def serve(self, *flags):
        self.server = self._exits.enter_context(RunningServer(f"--identities={self.identities}", *flags))

    def channel(self, name, roles="infer,train,publish"):
        channel = self._exits.enter_context(grpc.insecure_channel(self.server.address, [("grpc.use_local_subchannel_pool", 1)]))
        return grpc.intercept_channel(channel, _Token(self.token(name, roles)))

    def client(self, name, roles="infer,train,publish"):
        return Reflection(self.channel(name, roles))

    def code(self, client, path, request):
        """How the call ends, which has this as its only message."""
        service, method = path.rsplit("/", 1)
        try:
            found = client.find(service).methods_by_name[method]
            described = descriptor_pb2.MethodDescriptorProto()
            found.CopyToProto(described)
            message = json_format.ParseDict(request, client.prototype(found.input_type.full_name)()).SerializeToString()
            if described.server_streaming or described.client_streaming:
                list(client._channel.stream_stream(f"/{path}")(iter([message]), timeout=3))
            else:
                client._channel.unary_unary(f"/{path}")(message, timeout=30)
            return STATUS.OK
        except grpc.RpcError as error:
            return error.code()

    def make(self, owner):
        """Everything of this name, of the owner's."""

        def is_missing(service, method, request, field, name="name"):
            return not any(each[name] == "thing" for each in owner.call(service, method, request).get(field, []))

        if is_missing(MODELS, "ListModels", {}, "models"):
            owner.call(MODELS, "DefineModel", ROWS[f"{MODELS}/DefineModel"][2])
            owner.call(MODELS, "InitializeParameters", M)
        if is_missing(MODELS, "ListCheckpoints", {}, "checkpoints"):
            owner.call(MODELS, "SaveCheckpoint", M)
        if is_missing(TRAINING, "ListDatasets", {}, "datasets"):
            owner.call(TRAINING, "UploadDataset", {"dataset": "thing", **DATA})
        if is_missing(SERVING, "ListVersions", {}, "versions", "served"):
            owner.call(SERVING, "PublishModel", M)
        if is_missing(SESSIONS, "ListSavedSessions", {}, "sessions"):
            session = Session(owner, owner._channel)
            session.command(saveSession={"name": "thing", "key": KEY, "arrays": {}})
            session.end()

    def all_methods(self):
        client = self.client("admin", "admin")
        for service in client.services():
            for method in client.find(service).methods:
                yield f"{service}/{method.name}"

    def check(self, is_strict):
        self.serve(*(("--ownership=strict",) if is_strict else ()))
        self.assertEqual(set(self.all_methods()), set(ROWS), "each method has a row in this test's table")
        owner = self.client("owner")
        self.make(owner)
        callers = {(name, role): self.client(name, role) for name in RELATIONS for role in ("infer", "train", "publish")}
        callers[("admin", "admin")] = self.client("admin", "admin")
        for path, (role, deed, request) in ROWS.items():
            for (name, roles), client in callers.items():
                may_by_role = role in ("", "any", roles) or name == "admin"
                may = may_by_role and (not is_strict or deed in (ASK, NOTHING) or deed in MAY[name])
                with self.subTest(method=path, caller=name, role=roles):
                    self.assertEqual(self.code(client, path, request) is not STATUS.PERMISSION_DENIED, may)
                if may and deed == DELETE:
                    self.make(owner)
        for name in (*RELATIONS, "admin"):
            client = self.client(name, *(("admin",) if name == "admin" else ()))
            session = Session(client, client._channel)
            for number, (command, (deed, request)) in enumerate(COMMANDS.items(), start=100):
                said = session.command(**{command: request(number)})
                may = not is_strict or deed == ASK or deed in MAY[name]
                with self.subTest(command=command, caller=name):
                    self.assertEqual("--ownership=strict" not in str(said), may, said)
            session.end()

    def test_what_is_shared_is_everybodys_whom_the_role_allows(self):
        self.check(is_strict=False)

    def test_what_is_owned_is_the_owners_and_of_those_whom_a_grant_or_the_role_admin_allows(self):
        self.check(is_strict=True)

    def test_an_owner_is_whoever_made_the_first_of_a_name_until_it_is_gone(self):
        self.serve("--ownership=strict")
        owner, changer, stranger = (self.client(name) for name in ("owner", "changer", "stranger"))
        self.make(owner)
        define = ROWS[f"{MODELS}/DefineModel"][2]
        changer.call(MODELS, "DefineModel", define)  # Replaces it, and leaves it the owner's.
        self.assertEqual(self.code(changer, f"{MODELS}/DeleteModel", M), STATUS.PERMISSION_DENIED)
        owner.call(MODELS, "DeleteModel", M)
        self.assertEqual(self.code(stranger, f"{MODELS}/DeleteModel", M), STATUS.NOT_FOUND)
        stranger.call(MODELS, "DefineModel", define)
        with self.assertRaises(grpc.RpcError) as refused:
            owner.call(MODELS, "DefineModel", define)
        self.assertIn("the model 'thing' is that of 'stranger'; 'owner' may not change it", refused.exception.details())
        stranger.call(MODELS, "DeleteModel", M)
        self.assertEqual(self.code(owner, f"{MODELS}/LoadCheckpoint", {"checkpoint": "thing"}), STATUS.OK)

    def test_owners_are_in_the_store_and_what_has_none_is_the_admins(self):
        self.serve()  # Owners are kept before they count.
        self.make(self.client("owner"))
        everything = (
            (f"{MODELS}/DeleteModel", M),
            (f"{MODELS}/DeleteCheckpoint", {"checkpoint": "thing"}),
            (f"{TRAINING}/DeleteDataset", {"dataset": "thing"}),
            (f"{SESSIONS}/DeleteSavedSession", {"name": "thing", "key": KEY}),
            (f"{SERVING}/RetireVersion", {"served": "thing", "version": "99"}),
        )
        self.server.stop()
        self.server._flags.append("--ownership=strict")
        self.server.start()
        for path, request in everything:
            self.assertEqual(self.code(self.client("stranger"), path, request), STATUS.PERMISSION_DENIED, path)
        self.assertEqual(self.code(self.client("owner"), f"{MODELS}/SaveCheckpoint", {**M, "overwrite": True}), STATUS.OK)
        self.server.stop()
        shutil.rmtree(self.server.folder / "store/.owners")  # As servers left it that kept no owners.
        self.server.start()
        for path, request in everything:
            self.assertEqual(self.code(self.client("owner"), path, request), STATUS.PERMISSION_DENIED, path)
            self.assertNotIn(
                self.code(self.client("admin", "admin"), path, request), (STATUS.PERMISSION_DENIED, STATUS.UNAUTHENTICATED), path
            )

    def test_strict_ownership_wants_to_know_who_calls(self):
        for flag, says in (
            ("strict", "--ownership=strict needs to know who calls"),
            ("mine", "--ownership is 'mine'; want shared or strict"),
        ):
            ended = subprocess.run(
                [BINARY, "--devices=cpu", "--address=127.0.0.1:0", f"--ownership={flag}"],
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(ended.returncode, 1)
            self.assertIn(says, ended.stderr)

    def test_a_wrong_grant_ends_the_start(self):
        for fields, says in (
            ("reads=a*b", "'reads' has the pattern 'a*b'"),
            ("owns=", "'owns' has the pattern ''"),
            ("writes=a", "'writes=a' is no grant; want reads=, changes= or owns="),
        ):
            self.identities.write_text(self.line("alice", "train", fields))
            ended = subprocess.run(
                [BINARY, "--devices=cpu", "--address=127.0.0.1:0", f"--identities={self.identities}"],
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(ended.returncode, 1)
            self.assertIn(says, ended.stderr)


if __name__ == "__main__":
    case_runner.main()
