"""Everything by hand: the documents of deploy/grpcurl, played as grpcurl does it.

No generated stub is used: methods and messages come from the server's reflection, documents through protobuf's JSON
mapping.
"""

import json
import pathlib
import re
import unittest

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
import grpc

from tests import case_runner
from tests.server.running_server import RunningServer

DOCUMENTS = sorted(pathlib.Path("deploy/grpcurl").glob("[0-9]*.json"))
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


def _reflection_messages():
  """grpc.reflection.v1alpha's messages, as far as they are used here."""
  file = descriptor_pb2.FileDescriptorProto(name="reflection.proto", package="r", syntax="proto3")

  def add(name, *fields):
    message = file.message_type.add(name=name)
    for number, field, type_name, repeated in fields:
      entry = message.field.add(name=field, number=number, label=3 if repeated else 1)
      if type_name in ("string", "bytes"):
        entry.type = 9 if type_name == "string" else 12
      else:
        entry.type, entry.type_name = 11, ".r." + type_name

  add("Request", (4, "file_containing_symbol", "string", False), (7, "list_services", "string", False))
  add("Files", (1, "file_descriptor_proto", "bytes", True))
  add("Service", (1, "name", "string", False))
  add("Services", (1, "service", "Service", True))
  add("Error", (2, "error_message", "string", False))
  add("Response", (4, "files", "Files", False), (6, "services", "Services", False), (7, "error", "Error", False))
  pool = descriptor_pool.DescriptorPool()
  pool.Add(file)
  factory = message_factory.MessageFactory(pool)
  return [factory.GetPrototype(pool.FindMessageTypeByName("r." + name)) for name in ("Request", "Response")]


class Reflection:
  """A client that learns everything from the server."""

  def __init__(self, channel):
    self._channel = channel
    self._request, self._response = _reflection_messages()
    self._pool = descriptor_pool.DescriptorPool()
    self._factory = message_factory.MessageFactory(self._pool)
    self._known = set()

  def _ask(self, **question):
    call = self._channel.stream_stream(REFLECTION, self._request.SerializeToString, self._response.FromString)
    return next(iter(call(iter([self._request(**question)]))))

  def services(self):
    return [service.name for service in self._ask(list_services="*").services.service]

  def find(self, service):
    answer = self._ask(file_containing_symbol=service)
    assert not answer.error.error_message, answer.error.error_message
    files = [descriptor_pb2.FileDescriptorProto.FromString(raw) for raw in answer.files.file_descriptor_proto]
    while files:  # A file may be added after those that it imports.
      ready = [f for f in files if all(d in self._known for d in f.dependency)]
      assert ready, f"reflection gives no {[f.dependency for f in files]}"
      for file in ready:
        if file.name not in self._known:
          self._pool.Add(file)
          self._known.add(file.name)
        files.remove(file)
    return self._pool.FindServiceByName(service)

  def call(self, service, method, request_json):
    found = self.find(service).methods_by_name[method]
    request = self._factory.GetPrototype(found.input_type)()
    json_format.ParseDict(request_json, request)
    reply_type = self._factory.GetPrototype(found.output_type)
    stub = self._channel.unary_unary(f"/{service}/{method}", type(request).SerializeToString, reply_type.FromString)
    return json_format.MessageToDict(stub(request, timeout=60))

  def prototype(self, message):
    return self._factory.GetPrototype(self._pool.FindMessageTypeByName(message))


class ReflectionTest(unittest.TestCase):

  @classmethod
  def setUpClass(cls):
    cls.server = RunningServer()
    cls.channel = grpc.insecure_channel(cls.server.address)
    cls.client = Reflection(cls.channel)

  @classmethod
  def tearDownClass(cls):
    cls.channel.close()
    cls.server.__exit__()

  def test_every_service_is_listed_and_described(self):
    services = self.client.services()
    for service in ("gluond.v1.ModelService", "gluond.v1.OperatorService", "gluond.v1.ServerService",
                    "gluond.v1.TrainingService", "grpc.health.v1.Health"):
      self.assertIn(service, services)
      self.assertGreater(len(self.client.find(service).methods), 0)

  def test_documents_are_answered_in_order(self):
    self.assertEqual(len(DOCUMENTS), 28)
    replies = {}
    for path in DOCUMENTS:
      _, method, remark = re.fullmatch(r"(\d+)-([\w.]+)(?:-([\w-]+))?\.json", path.name).groups()
      service, _, method = method.rpartition(".")
      for _ in range(int(remark[1:]) if re.fullmatch(r"x\d+", remark or "") else 1):
        with self.subTest(path.name):
          replies.setdefault(path.name, []).append(self.client.call(service, method, json.loads(path.read_text())))
    steps = next(r for name, r in replies.items() if "TrainStep-x10" in name)
    self.assertEqual([step["report"]["step"] for step in steps], [str(i) for i in range(1, 11)])
    self.assertLess(steps[-1]["loss"], steps[0]["loss"])

  def test_health_is_checked_by_service(self):
    for service in ("", "gluond.v1.ModelService"):
      self.assertEqual(self.client.call("grpc.health.v1.Health", "Check", {"service": service}), {"status": "SERVING"})
    with self.assertRaises(grpc.RpcError) as caught:
      self.client.call("grpc.health.v1.Health", "Check", {"service": "no.such"})
    self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)

  def test_an_error_is_readable(self):
    with self.assertRaises(grpc.RpcError) as caught:
      self.client.call("gluond.v1.ModelService", "GetModel", {"model": "nobody"})
    self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
    self.assertIn("GetModel: there is no model 'nobody'", caught.exception.details())


class DrainTest(unittest.TestCase):
  """SIGTERM: NOT_SERVING, finish or cancel, exit 0."""

  def _watch(self, channel, client):
    client.find("grpc.health.v1.Health")
    request = client.prototype("grpc.health.v1.HealthCheckRequest")
    reply = client.prototype("grpc.health.v1.HealthCheckResponse")
    return channel.unary_stream("/grpc.health.v1.Health/Watch", request.SerializeToString, reply.FromString)(request())

  def test_watchers_are_told_and_the_server_exits_with_0(self):
    with RunningServer("--drain_seconds=1") as server, grpc.insecure_channel(server.address) as channel:
      client = Reflection(channel)
      watch = self._watch(channel, client)
      self.assertEqual(next(watch).status, 1)
      server.process.terminate()
      self.assertEqual(next(watch).status, 2)
      code, out, err = server.stop()
      self.assertEqual(code, 0, err)
      self.assertIn("stopped", out)

  def test_a_call_under_way_ends_or_is_cancelled(self):
    for drain, expected in (("60", grpc.StatusCode.OK), ("0", None)):
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
        self.assertEqual(code, 0, err)
        if expected is not None:
          self.assertEqual(call.code(), expected)
        else:
          self.assertIn(call.code(), (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.OK))


if __name__ == "__main__":
  case_runner.main()
