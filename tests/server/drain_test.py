"""How a server stops, whatever is under way."""

import contextlib
import queue
import signal
import threading
import time
import unittest

from google.protobuf import json_format
import grpc

from tests import case_runner
from tests.server.reflection_client import Reflection
from tests.server.running_server import RunningServer

_OPERATOR = "gluond.v1.OperatorService"


class SquareOperators:
  """A client that computes `square`. Its first forward pass waits until it may be answered."""

  def __init__(self, channel, client):
    client.find(_OPERATOR)
    self._request = client.prototype("gluond.v1.HostRequest")
    response = client.prototype("gluond.v1.HostResponse")
    self._requests = queue.Queue()
    self._arrived, self._may_answer = threading.Event(), threading.Event()
    self._send(open={"scope": "0123456789abcdef"})
    self._send(offer={"opType": "square", "shared": True})
    host = channel.stream_stream(f"/{_OPERATOR}/HostOperators", self._request.SerializeToString, response.FromString)
    self._responses = host(iter(self._requests.get, None))
    while not next(self._responses).offered:
      pass
    self._thread = threading.Thread(target=self._run, daemon=True)
    self._thread.start()

  def wait_for_forward(self):
    self._arrived.wait()

  def answer_forward(self):
    self._may_answer.set()

  def join(self):
    self._thread.join()

  def _send(self, **request):
    self._requests.put(json_format.ParseDict(request, self._request()))

  def _run(self):
    try:
      for response in self._responses:
        for callback in response.callbacks:
          self._answer(callback)
    except grpc.RpcError:
      self._requests.put(None)

  def _answer(self, callback):
    kind = callback.WhichOneof("ask")
    result = self._request().result
    result.call = callback.call
    if kind in ("infer_shape", "infer_type"):
      argument = getattr(callback, kind).arguments[0]
      result.inferred.arguments.add().CopyFrom(argument)
      result.inferred.outputs.add().CopyFrom(argument)
    else:
      # The same values serve for both passes: they are looked at by nobody.
      values = callback.forward.arguments[0] if kind == "forward" else callback.backward.out_grads[0].tensor
      result.computed.outputs.add().CopyFrom(values)
    if kind == "forward":
      self._arrived.set()
      self._may_answer.wait()
    self._requests.put(self._request(result=result))


def define_and_train(client):
  """A model with that operator between two layers, ready to be trained."""
  models, training = "gluond.v1.ModelService", "gluond.v1.TrainingService"
  client.call(models, "DefineModel", {"model": "m", "graph": {"nodes": [
      {"name": "fc1", "op": "FullyConnected", "inputs": ["data"], "attributes": {"num_hidden": 8}},
      {"name": "mid", "op": "Custom", "inputs": ["fc1"], "attributes": {"op_type": "square"}},
      {"name": "fc2", "op": "FullyConnected", "inputs": ["mid"], "attributes": {"num_hidden": 3}}]},
      "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 4]}]})
  client.call(models, "InitializeParameters", {"model": "m", "initializer": {"name": "xavier"}})
  client.call(training, "CreateTrainer", {"model": "m", "loss": {"name": "SoftmaxCrossEntropyLoss"},
                                          "optimizer": {"name": "sgd", "attributes": {"learning_rate": 0.1}}})


def step_json():
  return {"model": "m", "inputs": {"data": {"shape": [2, 4], "fill": {"constant": 1}},
                                   "label": {"shape": [2], "fill": {}}}}


class DrainTest(unittest.TestCase):
  """SIGTERM: NOT_SERVING, then no new calls; finish and exit with 0, or cut and exit with 3."""

  def _watch(self, channel, client):
    client.find("grpc.health.v1.Health")
    request = client.prototype("grpc.health.v1.HealthCheckRequest")
    reply = client.prototype("grpc.health.v1.HealthCheckResponse")
    return channel.unary_stream("/grpc.health.v1.Health/Watch", request.SerializeToString, reply.FromString)(request())

  @contextlib.contextmanager
  def _stopping(self, flag):
    """A server that has just told those who watch its health that it stops, and a client of it."""
    with RunningServer(flag) as server, grpc.insecure_channel(server.address) as channel:
      client = Reflection(channel)
      watch = self._watch(channel, client)
      self.assertEqual(next(watch).status, 1)
      server.process.terminate()
      self.assertEqual(next(watch).status, 2)
      yield server, client

  def test_watchers_are_told_and_the_server_exits_with_0(self):
    with self._stopping("--drain_seconds=1") as (server, _):
      code, out, err = server.stop()
      self.assertEqual(code, 0, err)
      self.assertIn("stopped", out)

  def test_a_call_under_way_ends_or_is_cancelled(self):
    for drain, expected, exits in (("60", grpc.StatusCode.OK, (0,)), ("0", None, (0, 3))):
      with RunningServer(f"--drain_seconds={drain}") as server, grpc.insecure_channel(server.address) as channel:
        client = Reflection(channel)
        found = client.find("gluond.v1.OperatorService").methods_by_name["CheckGradient"]
        request = client.prototype(found.input_type.full_name)()
        json_format.ParseDict({"op": "dot", "inputs": [{"shape": [50, 100], "fill": {"normal": {"seed": "1"}}},
                                                       {"shape": [100, 50], "fill": {"normal": {"seed": "2"}}}]}, request)
        stub = channel.unary_unary("/gluond.v1.OperatorService/CheckGradient", type(request).SerializeToString, bytes)
        call = stub.future(request, timeout=120)
        while not call.running():
          pass
        client.call("gluond.v1.ServerService", "GetServerInfo", {})  # By then the call has arrived.
        server.process.terminate()
        code, _, err = server.stop(timeout=100)
        self.assertIn(code, exits, err)
        if code == 3:
          self.assertIn("1 calls or sessions had not ended", err)
        if expected is not None:
          self.assertEqual(call.code(), expected)
        else:
          self.assertIn(call.code(), (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.OK))

  def test_for_the_lame_ducks_time_calls_are_taken_as_before(self):
    with self._stopping("--lame_duck_seconds=3600") as (_, client):
      self.assertIn("version", client.call("gluond.v1.ServerService", "GetServerInfo", {}))

  def test_a_second_signal_ends_at_once(self):
    for number in (signal.SIGTERM, signal.SIGINT):
      with RunningServer("--lame_duck_seconds=3600") as server:
        while server.process.poll() is None:  # The first of them; for a moment those that follow are the same one.
          server.process.send_signal(number)
          time.sleep(0.05)
        self.assertEqual(server.process.returncode, 128 + number)

  def test_a_step_that_needs_its_clients_operator_ends(self):
    with RunningServer() as server, grpc.insecure_channel(server.address) as channel:
      client = Reflection(channel)
      operators = SquareOperators(channel, client)
      define_and_train(client)
      watch = self._watch(channel, client)
      next(watch)
      step = client.start("gluond.v1.TrainingService", "TrainStep", step_json())
      operators.wait_for_forward()
      server.process.terminate()
      self.assertEqual(next(watch).status, 2)
      self.assertIn("stopping", self._refusal(client))
      operators.answer_forward()
      self.assertEqual(step.exception(timeout=60), None)
      operators.join()  # Its stream ends, after the calls that needed it.
      self.assertEqual(server.process.wait(timeout=60), 0)  # A second signal would cut it short.

  def _refusal(self, client):
    """The text with which a draining server refuses a call; who watches over it is answered."""
    while True:
      self.assertEqual(client.call("grpc.health.v1.Health", "Check", {}), {"status": "NOT_SERVING"})
      self.assertIn("version", client.call("gluond.v1.ServerService", "GetServerInfo", {}))
      try:
        client.call("gluond.v1.ModelService", "ListModels", {})
      except grpc.RpcError as error:
        self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
        return error.details()


if __name__ == "__main__":
  case_runner.main()
