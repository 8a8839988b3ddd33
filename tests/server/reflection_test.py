"""Everything by hand: the documents of deploy/grpcurl, played as grpcurl does it.

No generated stub is used: methods and messages come from the server's reflection, documents through protobuf's JSON
mapping.
"""

import itertools
import json
import pathlib
import queue
import re
import unittest

import grpc

from tests import case_runner
from tests.server import reflection_client
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
        for service in (
            "gluond.v1.ModelService",
            "gluond.v1.OperatorService",
            "gluond.v1.ServerService",
            "gluond.v1.TrainingService",
            "grpc.health.v1.Health",
        ):
            self.assertIn(service, services)
            self.assertGreater(len(self.client.find(service).methods), 0)

    def test_both_versions_are_described_and_answer_alike(self):
        answers = []
        for version in (reflection_client.V1, reflection_client.V1ALPHA):
            client = Reflection(self.channel, version)
            self.assertIn(version, client.services())
            self.assertEqual(client.find(version).methods[0].name, "ServerReflectionInfo")
            answers.append(client.ask(host="me", file_containing_symbol="gluond.v1.Tensor").SerializeToString())
        self.assertEqual(*answers)

    def test_each_question_of_a_stream_is_answered_in_order(self):
        option = {"containing_type": "google.protobuf.FieldOptions", "extension_number": 1}
        answers = list(
            self.client.stream(
                [
                    {"host": "me", "file_by_filename": "gluond/v1/tensor.proto"},
                    {"file_by_filename": "no/such.proto"},
                    {"file_containing_symbol": "gluond.v1.Tensor.shape"},
                    {"file_containing_symbol": "gluond.v1.Nobody"},
                    {"file_containing_extension": option},
                    {"all_extension_numbers_of_type": "gluond.v1.Tensor"},
                    {"all_extension_numbers_of_type": "gluond.v1.Nobody"},
                    {},
                ]
            )
        )
        self.assertEqual([a.error.error_code for a in answers], [0, 5, 0, 5, 5, 0, 5, 3])
        self.assertEqual((answers[0].valid_host, answers[0].original_request.host), ("me", "me"))
        self.assertEqual(answers[0].files, answers[2].files)
        self.assertEqual(answers[1].error.error_message, "no file here has the name no/such.proto")
        self.assertEqual(answers[4].error.error_message, "no file here has the extension 1 of google.protobuf.FieldOptions")
        self.assertEqual((answers[5].numbers.base_type_name, list(answers[5].numbers.extension_number)), ("gluond.v1.Tensor", []))
        self.assertIn("set one of its fields", answers[7].error.error_message)

    def test_a_question_that_is_no_name_ends_the_stream(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.client.ask(file_by_filename="x" * 20_000)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn("16384 are enough for a name", caught.exception.details())

    def test_an_open_stream_holds_no_thread(self):
        tasks = pathlib.Path(f"/proc/{self.server.process.pid}/task")
        self.client.services()
        before, ends = len(list(tasks.iterdir())), queue.SimpleQueue()
        with grpc.insecure_channel(self.server.address) as channel:
            streams = [
                Reflection(channel).stream(itertools.chain([{"list_services": ""}], iter(ends.get, None))) for _ in range(60)
            ]
            for stream in streams[:8]:  # A connection may have so many at least.
                next(stream)
            self.assertLess(len(list(tasks.iterdir())), before + 8)
            for _ in streams:
                ends.put(None)

    def test_documents_are_answered_in_order(self):
        self.assertEqual(len(DOCUMENTS), 33)
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
        (trained,) = next(r for name, r in replies.items() if "Train-epochs" in name)
        self.assertEqual((trained["done"], trained["steps"], trained["totalSteps"]), (True, "6", "6"))
        self.assertEqual(trained["ended"][-1]["evaluation"]["samples"], "8")

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
