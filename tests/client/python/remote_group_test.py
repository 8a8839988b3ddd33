"""Models that a group of servers trains, from Python: what is asked for, what is told of them, and a server without a group."""

import unittest
from unittest import mock

import gluond as mx
import grpc
from gluond._proto import group_pb2, model_pb2
from gluond._remote import calls, descriptions, groups, saving
from gluond._wire import encoding
from tests import case_runner
from tests.client.python.remote_case import defined, mlp

MEMBERS = [
    {"member": 0, "name": "a", "place": "RANK", "applied": 41, "silent": {"seconds": 0}, "waited": {"nanos": 2_000_000}},
    {"member": 3, "name": "b", "place": "RANK", "applied": 40, "silent": {"seconds": 1, "nanos": 500_000_000}, "is_leaving": True},
]


def three():
    net = mlp()
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((1, 4)))
    return net


class RequestTest(unittest.TestCase):
    def sent_by_define(self, **options):
        with mock.patch.object(calls.current(), "apply") as apply:
            defined("asked", loss=None, **options)
        return apply.call_args_list[0].args[1]

    def sent_by_save(self, **options):
        with mock.patch.object(saving.encoding, "message", wraps=encoding.message) as message:
            try:
                three().save_as_model("asked", replace=True, **options)
            except mx.MXNetError:
                pass  # The test's server leads no group.
        return next(each.args[1] for each in message.call_args_list if each.args[0] == encoding.SAVE_AS_MODEL)

    def test_a_placement_is_sent_where_a_group_is_asked_for(self):
        for sent in (self.sent_by_define, self.sent_by_save):
            self.assertEqual(sent(group=True, virtual_shards=8).placement, group_pb2.Placement(group=True, virtual_shards=8))
            self.assertEqual(sent(group=True).placement, group_pb2.Placement(group=True))
            self.assertFalse(sent(group=True).placement.HasField("virtual_shards"))
            self.assertFalse(sent().HasField("placement"))

    def test_parts_without_a_group_are_a_mistake(self):
        for make in (lambda **options: defined("parts", **options), lambda **options: three().save_as_model("parts", **options)):
            with self.assertRaisesRegex(mx.MXNetError, "virtual_shards=8 are .* in a group of servers; give group=True as well"):
                make(virtual_shards=8)
        self.assertNotIn("parts", [model.name for model in mx.remote.models()])


class RefusalTest(unittest.TestCase):
    """A server that was started without --group."""

    def test_it_makes_no_model_of_a_group(self):
        with self.assertRaisesRegex(mx.MXNetError, "--group") as refused:
            defined("never", group=True)
        self.assertEqual(refused.exception.code, grpc.StatusCode.FAILED_PRECONDITION)
        with self.assertRaisesRegex(mx.MXNetError, "--group"):
            three().save_as_model("never", group=True, virtual_shards=8)
        self.assertNotIn("never", [model.name for model in mx.remote.models()])

    def test_it_has_no_group_to_tell_of(self):
        with self.assertRaisesRegex(mx.MXNetError, "--group") as refused:
            mx.remote.group()
        self.assertEqual(refused.exception.code, grpc.StatusCode.FAILED_PRECONDITION)


class DescriptionTest(unittest.TestCase):
    def test_a_group_is_plain_data(self):
        answer = group_pb2.GetGroupResponse(
            generation=2, min=1, max=2, applied=41, steps=40, steps_per_second=12.5, rows_per_second=800, why_not="too few"
        )
        answer.members.extend(group_pb2.GroupMember(**each) for each in MEMBERS)
        answer.pause.nanos = 250_000_000
        with mock.patch.object(calls.current(), "call", return_value=answer):
            group = mx.remote.group()
        self.assertEqual(group[:1] + group[2:], (2, 1, 2, 41, 40, 12.5, 800.0, 0.25, "too few"))
        self.assertEqual(
            group.members,
            [
                mx.remote.GroupMember(0, "a", "RANK", 41, 0.0, 0.002, False),
                mx.remote.GroupMember(3, "b", "RANK", 40, 1.5, None, True),
            ],
        )

    def test_a_model_tells_where_it_is_trained(self):
        proto = model_pb2.Model(name="m", device="cpu", placement=group_pb2.Placement(group=True, virtual_shards=8))
        about = descriptions.of_model(proto)
        self.assertEqual(about.placement, mx.remote.Placement(virtual_shards=8))
        self.assertIn("\n  trained by a group of servers, in 8 virtual shards\n", descriptions.table(about))
        with mock.patch.object(calls.current(), "pages", return_value=[model_pb2.ListModelsResponse(models=[proto])]):
            self.assertEqual([repr(each) for each in mx.remote.models()], ["<Model 'm' on cpu, by a group: 0 trained numbers>"])

    def test_one_server_is_no_group(self):
        about = defined("alone").describe()
        self.assertIsNone(about.placement)
        self.assertNotIn("group", descriptions.table(about))
        self.assertIsNone(groups.placement_of(model_pb2.Model(placement=group_pb2.Placement(virtual_shards=8))))


if __name__ == "__main__":
    case_runner.main()
