"""Tenants of one server: none sees, names or starves another, and each keeps within its quotas."""

import collections
import contextlib
import hashlib
import json
import pathlib
import queue
import re
import tempfile
import threading
import time
import unittest

import grpc
from google.protobuf import json_format

from tests import case_runner
from tests.server import exposition
from tests.server.reflection_client import Reflection
from tests.server.running_server import RunningServer
from tests.server.square_operators import SquareOperators
from tests.server.watched_server import get

MODELS, TRAINING, SESSIONS = "gluond.v1.ModelService", "gluond.v1.TrainingService", "gluond.v1.SessionService"
SERVING, OPERATORS, SERVER = "gluond.v1.ServingService", "gluond.v1.OperatorService", "gluond.v1.ServerService"
INFERENCE, HEALTH = "inference.GRPCInferenceService", "grpc.health.v1.Health"
STATUS = grpc.StatusCode
CALLERS = ("acme/ann", "acme/art", "globex/gil", "dora", "root")
METRICS = ("--metrics_address=127.0.0.1:0",)
DATA = {"tensors": {"data": {"shape": [2, 1], "floatData": [1, 2]}}, "commit": True}


class _Details(collections.namedtuple("_Details", ("method", "timeout", "metadata", "credentials", "wait_for_ready",
                                                   "compression")), grpc.ClientCallDetails):
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
        iter(self._requests.get, None), timeout=60)
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

  def end(self):
    self._requests.put(None)
    for _ in self._call:
      pass


class TenantsTest(unittest.TestCase):

  def setUp(self):
    self._exits = contextlib.ExitStack()
    self.addCleanup(self._exits.close)
    self.folder = pathlib.Path(self._exits.enter_context(tempfile.TemporaryDirectory()))
    self.identities, self.tenants = self.folder / "identities", self.folder / "tenants"
    self.identities.write_text("".join(
        f"{name} {'admin' if name == 'root' else 'infer,train,publish'} sha256:{hashlib.sha256(self.token(name)).hexdigest()}\n"
        for name in CALLERS))

  @staticmethod
  def token(name):
    return f"token-of-{name}".encode()

  def serve(self, *lines, flags=()):
    """A server with these tenants; afterwards self.ann and so on are its callers."""
    self.port = None
    self.tenants.write_text("\n".join(lines or ("acme", "globex")) + "\n")
    self.server = self._exits.enter_context(RunningServer(f"--identities={self.identities}", f"--tenants={self.tenants}",
                                                          *flags))
    self.connect()

  def connect(self):
    for name in CALLERS:
      setattr(self, name.rpartition("/")[2], self.client(name))

  def channel(self, name, address=None):
    channel = self._exits.enter_context(grpc.insecure_channel(
        address or self.server.address, [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]))
    return grpc.intercept_channel(channel, _Token(self.token(name).decode()))

  def client(self, name):
    client = Reflection(self.channel(name))
    client.name = name
    return client

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
    client.call(MODELS, "DefineModel", {
        "model": model, "block": {"block": "Dense", "attributes": {"units": units}},
        "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 1]}], **request})
    client.call(MODELS, "InitializeParameters", {"model": model})

  def names(self, client, service, method, field, name="name"):
    return [entry[name] for entry in client.call(service, method, {}).get(field, [])]

  def models(self, client):
    return self.names(client, MODELS, "ListModels", "models")

  def units(self, client, model):
    parameters = client.call(MODELS, "GetModel", {"model": model})["model"]["parameters"]
    return next(int(p["shape"][0]) for p in parameters if p["name"] == "bias")

  def until(self, holds):
    end = time.monotonic() + 30
    while not holds():
      self.assertLess(time.monotonic(), end, "not within 30 s")
      time.sleep(0.1)

  # Names.

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
    self.assertIn("'nobody/new' is not allowed", self.refused(STATUS.INVALID_ARGUMENT, self.root, MODELS, "DefineModel", {
        "model": "nobody/new", "block": {"block": "Dense", "attributes": {"units": 1}}}))

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
      answer = client.call(INFERENCE, "ModelInfer", {"modelName": "shop", "inputs": [
          {"name": "data", "datatype": "FP32", "shape": [1, 1], "contents": {"fp32Contents": [1]}}]})
      self.assertEqual((answer["modelName"], answer["outputs"][0]["shape"]), ("shop", ["1", str(units)]))
      self.assertEqual(self.names(client, INFERENCE, "RepositoryIndex", "models"), ["shop"])
      self.assertEqual(self.names(client, INFERENCE, "ModelStatistics", "modelStats"), ["shop"])
      self.assertEqual(client.call(INFERENCE, "ModelConfig", {"name": "shop"})["config"]["name"], "shop")
    self.assertEqual(self.names(self.root, INFERENCE, "RepositoryIndex", "models"), ["acme/shop", "globex/shop"])
    self.assertEqual(self.names(self.dora, INFERENCE, "ModelStatistics", "modelStats"), [])
    for client, listed in ((self.ann, ["acme"]), (self.gil, ["globex"]), (self.dora, []), (self.root, ["acme", "globex"])):
      statuses = client.call(HEALTH, "List", {})["statuses"]
      self.assertEqual(sorted(name for name in statuses if name.startswith("model:")), [f"model:{name}/shop" for name in listed])
      self.assertEqual({answer["status"] for answer in statuses.values()}, {"SERVING"})
      for name in statuses:
        self.assertEqual(client.call(HEALTH, "Check", {"service": name}), statuses[name])
    request = self.ann.prototype("inference.ModelInferRequest")(model_name="shop")
    stream = self.channel("acme/ann").stream_stream(
        f"/{INFERENCE}/ModelStreamInfer", type(request).SerializeToString,
        self.ann.prototype("inference.ModelStreamInferResponse").FromString)
    answers = list(stream(iter([request, type(request)(model_name="globex/shop"), type(request)(model_name="shap")]), timeout=30))
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
    for failure in (session.command(openModel={"model": "globex/m"}), session.command(openModel={"model": "mm"}),
                    session.command(openSaved={"name": "../run", "key": saved.key})):
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

  def test_errors_tell_nothing_of_other_tenants(self):
    self.serve()
    for client in (self.ann, self.gil):
      self.define(client, "secret-1")
      client.call(MODELS, "SaveCheckpoint", {"model": "secret-1"})
      client.call(TRAINING, "UploadDataset", {"dataset": "secret-1", **DATA})
      client.call(SERVING, "PublishModel", {"model": "secret-1"})
    # Each text is the same whether another tenant has the thing or nobody.
    methods = ((MODELS, "GetModel", "model"), (MODELS, "DeleteModel", "model"), (MODELS, "GetParameters", "model"),
               (MODELS, "LoadCheckpoint", "checkpoint"), (MODELS, "DeleteCheckpoint", "checkpoint"),
               (TRAINING, "DeleteDataset", "dataset"), (TRAINING, "Step", "model"), (SERVING, "PublishModel", "model"),
               (SERVING, "PublishModel", "checkpoint"), (SERVING, "RouteVersions", "served"),
               (SERVING, "RetireVersion", "served"), (INFERENCE, "ModelReady", "name"), (INFERENCE, "ModelConfig", "name"),
               (INFERENCE, "ModelStatistics", "name"), (INFERENCE, "RepositoryModelUnload", "modelName"))
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
    for name in ("secret-2", "../acme/secret-1", "acme//secret-1", "/acme/secret-1", "acme+secret-1", "..", "acme/../x", "a\0b"):
      for service, method, field in methods:
        with self.subTest(method=method, name=name), self.assertRaises(grpc.RpcError) as caught:
          self.dora.call(service, method, {field: name})
        self.assertNotRegex(caught.exception.details().replace(repr(name), "").replace(name, ""), "acme/|globex/|secret-1")
      with self.assertRaises(grpc.RpcError):
        self.define(self.ann, name if name != "secret-2" else "secret-1")
    self.assertEqual(sorted(p.name for p in (self.server.folder / "store").iterdir() if not p.name.startswith(".")),
                     ["acme+secret-1", "globex+secret-1"])

  # Quotas.

  def test_each_quota_is_reached_and_released(self):
    self.serve("acme models=2 datasets=1 versions=1 sessions=1 saved_sessions=1 store_bytes=1MiB bytes=16MiB", "globex")
    self.define(self.ann, "a")
    self.define(self.art, "b", 60_000)
    text = self.refused(STATUS.RESOURCE_EXHAUSTED, self.ann, MODELS, "DefineModel", {"model": "c", "block": {"block": "Flatten"}})
    self.assertIn("models=2", text)
    self.define(self.ann, "a", replace=True)
    self.define(self.gil, "c")
    self.ann.call(TRAINING, "UploadDataset", {"dataset": "d", **DATA})
    self.assertIn("datasets=1", self.refused(STATUS.RESOURCE_EXHAUSTED, self.ann, TRAINING, "UploadDataset",
                                             {"dataset": "e", **DATA}))
    self.ann.call(SERVING, "PublishModel", {"model": "a"})
    self.assertIn("versions=1", self.refused(STATUS.RESOURCE_EXHAUSTED, self.ann, SERVING, "PublishModel", {"model": "a"}))
    self.ann.call(MODELS, "SaveCheckpoint", {"model": "b"})  # Takes 480,000 bytes.
    self.ann.call(MODELS, "SaveCheckpoint", {"model": "b", "checkpoint": "c"})
    self.assertIn("store_bytes=1048576", self.refused(STATUS.RESOURCE_EXHAUSTED, self.ann, MODELS, "SaveCheckpoint",
                                                      {"model": "b", "checkpoint": "d"}))
    self.ann.call(MODELS, "DeleteCheckpoint", {"checkpoint": "b"})
    self.ann.call(MODELS, "SaveCheckpoint", {"model": "b", "checkpoint": "d"})
    self.ann.call(MODELS, "DeleteModel", {"model": "b"})
    huge = {"model": "c", "block": {"block": "Dense", "attributes": {"units": 3_000_000}},
            "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 1]}]}
    self.ann.call(MODELS, "DefineModel", huge)
    self.assertIn("--tenants:bytes", self.refused(STATUS.RESOURCE_EXHAUSTED, self.ann, MODELS, "InitializeParameters",
                                                  {"model": "c"}))
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
    request = json_format.ParseDict({"op": "dot", "encoding": "NONE",
                                     "inputs": [{"shape": [700, 700], "fill": {"constant": 1}}] * 2},
                                    self.gil.prototype("gluond.v1.InvokeRequest")()).SerializeToString()
    done, stop = collections.Counter(), threading.Event()

    def work(name, invoke):
      while not stop.is_set():
        invoke(request, timeout=60)
        done[name.partition("/")[0]] += 1

    one = self.channel("globex/gil")
    callers = [(name, self.channel(name)) for name in ("acme/ann", "acme/art") * 4] + [("globex/gil", one)] * 2
    threads = [threading.Thread(target=work, args=(name, channel.unary_unary(f"/{OPERATORS}/Invoke")))
               for name, channel in callers]
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
    request = json_format.ParseDict({"modelName": "m", "inputs": [
        {"name": "data", "datatype": "FP32", "shape": [1, 1], "contents": {"fp32Contents": [1]}}]},
                                    self.ann.prototype("inference.ModelInferRequest")())
    call = self.channel(name).unary_unary(f"/{INFERENCE}/ModelInfer").future(request.SerializeToString(), timeout=60)
    self.addCleanup(call.cancel)
    return call

  def publish(self, client, **options):
    """A version that waits for more requests than there will be."""
    self.define(client, "m")
    client.call(SERVING, "PublishModel", {"model": "m", "options": {
        "maxBatchSize": 64, "maxQueueDelayUs": "30000000", **options}})

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
    self.assertIn("tenant 'acme' has 4 requests in flight, and 1 more exceed its quota, requests=4, of the 8 of --max_requests", text)
    requests = self.ann.prototype("inference.ModelInferRequest")
    stream = self.channel("acme/ann").stream_stream(
        f"/{INFERENCE}/ModelStreamInfer", requests.SerializeToString,
        self.ann.prototype("inference.ModelStreamInferResponse").FromString)
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

    def known(client, names):
      last = lambda name: client.call(TRAINING, "GetSequence", {"clientId": name, "model": "m"}).get("last")
      return [name for name in names if last(name) == "1"]

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
    for client, name, says in ((self.ann, "acme/ann", "of tenant 'acme' would have 24"), (self.gil, "globex/gil", "quota is saved_session_bytes=65536")):
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

  # The files.

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
        client.call(MODELS, "DefineModel", {"model": model, "block": {"block": "Dense", "attributes": {"units": 1}},
                                            "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 1]}]})
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

  def test_a_wrong_file_of_tenants_ends_the_start(self):
    for line, expected in (("acme models=0", "models is '0'"), ("acme models=many", "models is 'many'"), ("acme size=1", "no quota 'size'"),
                           ("acme bytes=1PB", "bytes is '1PB'"), ("acme bytes=9999999TiB", "bytes is '9999999TiB'"),
                           ("acme requests_per_second=-1", "requests_per_second"), ("acme lane_share=nan", "lane_share"),
                           ("acme lane_share=1000", "0.01 to 100"), ("a/b", "letters, digits"), (".acme", "begin with"),
                           ("acme\nacme", "line 2: an earlier line"), ("acme models", "models is ''")):
      self.tenants.write_text(line + "\n")
      with self.subTest(line=line), self.assertRaisesRegex(AssertionError, expected):
        RunningServer(f"--identities={self.identities}", f"--tenants={self.tenants}")
    self.tenants.write_text("acme\n")
    with self.assertRaisesRegex(AssertionError, "set --identities"):
      RunningServer(f"--tenants={self.tenants}")
    with self.identities.open("a") as file:
      file.write(f"acme infer sha256:{'0' * 64}\n")
    with self.assertRaisesRegex(AssertionError, "'acme' is the name of a tenant, too"):
      RunningServer(f"--identities={self.identities}", f"--tenants={self.tenants}")

  def metrics(self):
    """What the server tells that was started with METRICS, by family."""
    line = ""
    while self.port is None:
      line = self.server.process.stdout.readline()
      self.port = int(line.split()[-1]) if "metrics on port" in line else None
    return exposition.parse(get(self.port)[1])

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
    save = {"graph": "1", "inputs": [{"name": "x", "shape": [-1, 1], "dtype": "FLOAT32"}],
            "parameters": [{"variable": {"name": "w"}, "array": "1"}]}
    session = Session(self.ann, self.channel("acme/ann"))
    session.put(1, [1.0])
    session.tell(defineGraph={"graph": "1", "inputs": ["x", "w"], "definition": {
        "nodes": [{"name": "y", "op": "broadcast_add", "inputs": ["x", "w"]}], "outputs": ["y"]}})
    self.assertEqual(session.command(saveAsModel={"model": "one", **save}).model.name, "one")
    session.leave()
    again = Session(self.ann, self.channel("acme/ann"), session=session.id, number=4)
    self.assertEqual(again.command(saveAsModel={"model": "two", **save}).model.name, "two")
    self.assertIn("already", again.command(saveAsModel={"model": "two", **save}))
    again.end()
    self.server.stop()
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    told = [[line[key] for key in ("caller", "method", "command", "target", "code")] for line in lines]
    self.assertEqual(told, [["acme/ann", f"/{SESSIONS}/Run", "SaveAsModel", f"acme/{name}", code] for name, code in (
        ("one", "OK"), ("two", "OK"), ("two", "ALREADY_EXISTS"))])
    peers = [line["peer"] for line in lines]
    self.assertEqual((peers[0] == peers[1], peers[1] == peers[2]), (False, True), peers)

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
