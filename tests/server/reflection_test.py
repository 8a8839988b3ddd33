"""Everything by hand: the documents of deploy/grpcurl, played as grpcurl does it.

No generated stub is used: methods and messages come from the server's reflection, documents through protobuf's JSON
mapping.
"""

import json
import pathlib
import re
import unittest

import grpc

from tests import case_runner
from tests.server.reflection_client import Reflection
from tests.server.running_server import RunningServer

DOCUMENTS = sorted(pathlib.Path("deploy/grpcurl").glob("[0-9]*.json"))


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


if __name__ == "__main__":
  case_runner.main()
