"""A server with tenants, and callers of each."""

import collections
import contextlib
import hashlib
import pathlib
import queue
import tempfile
import unittest

import grpc
from google.protobuf import json_format

from tests.server import exposition
from tests.server.reflection_client import Reflection
from tests.server.running_server import RunningServer, Waits
from tests.server.watched_server import get

MODELS, TRAINING, SESSIONS = "gluond.v1.ModelService", "gluond.v1.TrainingService", "gluond.v1.SessionService"
SERVING, OPERATORS, SERVER = "gluond.v1.ServingService", "gluond.v1.OperatorService", "gluond.v1.ServerService"
GROUPS = "gluond.v1.GroupService"
INFERENCE, HEALTH = "inference.GRPCInferenceService", "grpc.health.v1.Health"
STATUS = grpc.StatusCode
CALLERS = ("acme/ann", "acme/art", "globex/gil", "dora", "root")
METRICS = ("--metrics_address=127.0.0.1:0",)
DATA = {"tensors": {"data": {"shape": [2, 1], "floatData": [1, 2]}}, "commit": True}


class _Details(
    collections.namedtuple("_Details", ("method", "timeout", "metadata", "credentials", "wait_for_ready", "compression")),
    grpc.ClientCallDetails,
):
    pass


class _Token(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Puts a caller's token into the metadata of each call."""

    def __init__(self, token):
        self._metadata = (("authorization", f"Bearer {token}"),)

    def _pass_on(self, continuation, details, request):
        return continuation(_Details(details.method, details.timeout, self._metadata, None, None, None), request)

    intercept_unary_unary = intercept_unary_stream = intercept_stream_stream = _pass_on


class Session:
    """A session's stream: each command waits for its reply."""

    def __init__(self, client, channel, session="", number=1):
        client.find(SESSIONS)
        self._request = client.prototype("gluond.v1.SessionRequest")
        response = client.prototype("gluond.v1.SessionResponse")
        self._requests, self._number = queue.Queue(), number
        self._send(open={"session": session, "protocol": 2})
        self._call = channel.stream_stream(f"/{SESSIONS}/Run", self._request.SerializeToString, response.FromString)(
            iter(self._requests.get, None), timeout=60
        )
        self.id = next(self._call).opened.session

    def _send(self, **request):
        self._requests.put(json_format.ParseDict(request, self._request()))

    def command(self, **command):
        """The reply, or the message of its failure."""
        number = self._number
        self.tell(**command)
        # A session that was taken up sends those again that nobody has acknowledged.
        reply = next(reply for response in self._call for reply in response.replies if reply.number == number)
        return reply.failures[0].status.message if reply.failures else reply

    def tell(self, **command):
        """A command that is not answered."""
        self._send(firstNumber=str(self._number), commands=[command])
        self._number += 1

    def put(self, array, values):
        self.tell(put={"array": str(array), "tensor": {"shape": [len(values)], "floatData": values}})

    def leave(self):
        self._call.cancel()

    def error(self):
        """Waits until the server has ended the stream."""
        return self._call.exception(timeout=30)

    def end(self):
        self._requests.put(None)
        for _ in self._call:
            pass


class TenantsCase(Waits, unittest.TestCase):
    """self.serve starts a server with tenants; then self.ann, self.art, self.gil, self.dora and self.root are its callers."""

    def setUp(self):
        self._exits = contextlib.ExitStack()
        self.addCleanup(self._exits.close)
        self.folder = pathlib.Path(self._exits.enter_context(tempfile.TemporaryDirectory()))
        self.identities, self.tenants = self.folder / "identities", self.folder / "tenants"
        self._looks = 0
        self.identities.write_text(
            "".join(
                f"{name} {'admin' if name == 'root' else 'infer,train,publish'} sha256:{hashlib.sha256(self.token(name)).hexdigest()}\n"
                for name in CALLERS
            )
        )

    @staticmethod
    def token(name):
        return f"token-of-{name}".encode()

    def serve(self, *lines, flags=()):
        """A server with these tenants; afterwards self.ann and so on are its callers."""
        self.port = None
        self.tenants.write_text("\n".join(lines or ("acme", "globex")) + "\n")
        self.server = self._exits.enter_context(
            RunningServer(f"--identities={self.identities}", f"--tenants={self.tenants}", *flags)
        )
        self.connect()

    def connect(self):
        for name in CALLERS:
            setattr(self, name.rpartition("/")[2], self.client(name))

    def channel(self, name, address=None):
        channel = self._exits.enter_context(
            grpc.insecure_channel(
                address or self.server.address, [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
            )
        )
        return grpc.intercept_channel(channel, _Token(self.token(name).decode()))

    def client(self, name):
        client = Reflection(self.channel(name))
        client.name = name
        return client

    def wait_for_looks(self):
        """Waits until the server has looked at the files as they are now."""
        for _ in range(2):  # The first look may have begun before.
            name = f"looked-{self._looks}"
            self._looks += 1
            with self.identities.open("a") as file:
                file.write(f"{name} infer sha256:{hashlib.sha256(self.token(name)).hexdigest()}\n")
            client = self.client(name)
            self.until(lambda: self.may(client))

    def may(self, client):
        try:
            client.call(MODELS, "ListModels", {})
            return True
        except grpc.RpcError:
            return False

    def refused(self, code, client, service, method, request):
        """The error's message; it and its facts name nothing of other tenants."""
        with self.assertRaises(grpc.RpcError, msg=f"{method} {request}") as caught:
            client.call(service, method, request)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        facts = dict(caught.exception.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
        for text in (caught.exception.details().encode(), facts):
            for said in (f"'{client.name}'", *(value for value in request.values() if isinstance(value, str))):
                text = text.replace(said.encode(), b"")
            self.assertNotRegex(text, b"acme/|globex/|secret")
        return caught.exception.details()

    def define(self, client, model, units=1, **request):
        client.call(
            MODELS,
            "DefineModel",
            {
                "model": model,
                "block": {"block": "Dense", "attributes": {"units": units}},
                "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 1]}],
                **request,
            },
        )
        client.call(MODELS, "InitializeParameters", {"model": model})

    def names(self, client, service, method, field, name="name"):
        return [entry[name] for entry in client.call(service, method, {}).get(field, [])]

    def models(self, client):
        return self.names(client, MODELS, "ListModels", "models")

    def units(self, client, model):
        parameters = client.call(MODELS, "GetModel", {"model": model})["model"]["parameters"]
        return next(int(p["shape"][0]) for p in parameters if p["name"] == "bias")

    def metrics(self):
        """What the server tells that was started with METRICS, by family."""
        line = ""
        while self.port is None:
            line = self.server.process.stdout.readline()
            self.port = int(line.split()[-1]) if "metrics on port" in line else None
        return exposition.parse(get(self.port)[1])
