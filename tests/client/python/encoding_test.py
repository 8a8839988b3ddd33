"""The client's own encoding and decoding agree with protobuf's: each kind of message is made in both ways."""

import struct
import sys
import types
import unittest
from unittest import mock

import numpy as np

from gluond._custom.values import encode_computed
from gluond._proto import command_pb2, custom_operator_pb2, session_pb2, tensor_pb2
from gluond._wire import batches, encoding, fields, responses
from tests import case_runner

A, B, C = (encoding.name_of(number) for number in (7, 1 << 20, (1 << 49) - 1))
NUMBERS = [encoding.number_of(name) for name in (A, B, C)]


class CommandTest(unittest.TestCase):
    def assert_is(self, written, **command):
        request = session_pb2.SessionRequest.FromString(written)
        self.assertEqual(request, session_pb2.SessionRequest(commands=[command_pb2.Command(**command)]))

    def test_invoke(self):
        frame = encoding.CallFrame(encoding.INVOKE, 300, 2, 1)
        self.assert_is(
            frame.head + A + B + frame.middle + C + encoding.mode_flags(True, False),
            invoke={"call": 300, "inputs": NUMBERS[:2], "outputs": NUMBERS[2:], "recording": True},
        )

    def test_invoke_without_inputs(self):
        extra = encoding.invoke_device("gpu:1") + encoding.WHEN_FRESH + B
        frame = encoding.CallFrame(encoding.INVOKE, 1, 0, 1, len(extra))
        self.assert_is(
            frame.head + frame.middle + A + encoding.mode_flags(False, True) + extra,
            invoke={"call": 1, "outputs": [7], "training": True, "device": "gpu:1", "when_fresh": 1 << 20},
        )

    def test_run_graph(self):
        frame = encoding.CallFrame(encoding.RUN_GRAPH, 5, 1, 2)
        self.assert_is(
            frame.head + A + frame.middle + B + C + encoding.mode_flags(True, True),
            run_graph={"graph": 5, "inputs": NUMBERS[:1], "outputs": NUMBERS[1:], "recording": True, "training": True},
        )

    def test_put(self):
        values = np.arange(200, dtype=np.int32).reshape(2, 100)
        head = encoding.put_head(A, values.shape, 4, values.nbytes, "cpu")
        self.assert_is(
            head + values.tobytes(),
            put={"array": 7, "tensor": {"shape": [2, 100], "dtype": 4, "raw": values.tobytes()}, "device": "cpu"},
        )

    def test_fetch_and_describe(self):
        self.assert_is(encoding.fetch([A, B, C]), fetch={"arrays": NUMBERS})
        self.assert_is(encoding.fetch_one(B), fetch={"arrays": NUMBERS[1:2]})
        self.assert_is(encoding.fetch_elements(C, 5, 1000), fetch={"arrays": NUMBERS[2:], "begin": 5, "end": 1000})
        self.assert_is(encoding.describe([A, B]), describe={"arrays": NUMBERS[:2]})
        self.assert_is(encoding.describe_one(C), describe={"arrays": NUMBERS[2:]})

    def test_free(self):
        self.assert_is(encoding.free([A, C]), free={"arrays": [NUMBERS[0], NUMBERS[2]]})
        self.assert_is(encoding.free([], [1, 300]), free={"calls": [1, 300]})
        self.assert_is(encoding.free([B], [4]), free={"arrays": NUMBERS[1:2], "calls": [4]})

    def test_assign(self):
        for recording in (False, True):
            self.assert_is(encoding.assign(A, B, recording=recording), assign={"to": 7, "from": 1 << 20, "recording": recording})
            self.assert_is(
                encoding.assign(B, A, "gpu:0", recording),
                assign={"to": 1 << 20, "from": 7, "device": "gpu:0", "recording": recording},
            )

    def test_each_kind_of_command(self):
        for field in command_pb2.Command.DESCRIPTOR.fields:
            with self.subTest(field=field.name):
                message = getattr(command_pb2.Command(), field.name)
                kind = getattr(encoding, field.name.upper())
                written = session_pb2.SessionRequest.FromString(encoding.message(kind, message))
                self.assertEqual(written.commands[0].WhichOneof("command"), field.name)


class MessageTest(unittest.TestCase):
    def test_a_batch(self):
        frame, command = sys._getframe(), encoding.fetch_one(A)
        for tail, commands in ((None, 2), (memoryview(bytes(1 << 17)), 3)):
            waiting = batches.Batches()
            waiting.append(command, None, frame)
            waiting.append(command, None, frame)
            if tail is not None:
                waiting.append(encoding.put_head(B, (1 << 17,), 3, 1 << 17, ""), tail, frame)
            request = session_pb2.SessionRequest.FromString(waiting.next_message(300))
            waiting.note_sent()
            self.assertEqual((request.first_number, len(request.commands)), (1, commands))
            self.assertEqual(request.replies_received, 300 if tail is None else 0)
            self.assertEqual(request.commands[1].fetch.arrays, [7])
        self.assertEqual(
            session_pb2.SessionRequest.FromString(encoding.received(300)), session_pb2.SessionRequest(replies_received=300)
        )

    def test_a_long_answer(self):
        response = session_pb2.SessionResponse(
            received=12,
            replies=[
                {
                    "index": 1,
                    "number": 2,
                    "tensors": [{"shape": [2, 3], "dtype": 3, "raw": b"abcdef"}],
                    "failures": [{"status": {"message": "m"}}],
                },
                {"index": 2, "number": 5},
            ],
        )
        with mock.patch.object(responses, "SMALL", 0):
            found = responses.parse(response.SerializeToString())
        self.assertEqual(found.received, 12)
        self.assertEqual([(reply.index, reply.number) for reply in found.replies], [(1, 2), (2, 5)])
        self.assertEqual(found.replies[0].failures[0].status.message, "m")
        (tensor,) = found.replies[0].tensors
        self.assertEqual((tensor.shape, tensor.dtype, bytes(tensor.raw)), ((2, 3), 3, b"abcdef"))

    def test_what_a_custom_operator_has_computed(self):
        values = np.array([[1.5, 2]], np.float32)
        written = encode_computed(
            9, [(values, values.dtype), (None, values.dtype)], [(values[0], values.dtype)], struct.pack("<d", 0.25)
        )
        tensor = {"shape": [1, 2], "dtype": 0, "raw": values.tobytes()}
        self.assertEqual(
            custom_operator_pb2.HostRequest.FromString(written),
            custom_operator_pb2.HostRequest(
                result={"call": 9, "seconds": 0.25, "computed": {"outputs": [tensor, {}], "auxiliary": [{**tensor, "shape": [2]}]}}
            ),
        )


class FieldsTest(unittest.TestCase):
    def test_a_tag_is_what_protobuf_writes_before_a_value(self):
        for message, field, value, size in (
            (command_pb2.Command.Invoke, "call", 1, 1),
            (command_pb2.Command.Invoke, "inputs", [1], 2),
            (command_pb2.Command.Invoke, "device", "a", 2),
            (command_pb2.Command.Put, "tensor", {}, 1),
            (custom_operator_pb2.CallbackResult, "seconds", 1.0, 8),
            (tensor_pb2.Tensor, "raw", b"ab", 3),
            (command_pb2.Command, "seed", {}, 1),
        ):
            with self.subTest(message=message.DESCRIPTOR.name, field=field):
                written = message(**{field: value}).SerializeToString()
                self.assertEqual(fields.tag(message, field), written[:-size])

    def test_descriptors_of_a_newer_protobuf_say_whether_a_field_is_repeated(self):
        of_types = vars(type(command_pb2.Command.Invoke.DESCRIPTOR.fields[0])).items()
        newer = types.SimpleNamespace(
            number=2, type=4, is_repeated=True, **{name: value for name, value in of_types if name.startswith("TYPE_")}
        )
        message = types.SimpleNamespace(DESCRIPTOR=types.SimpleNamespace(fields_by_name={"inputs": newer}))
        self.assertEqual(fields.tag(message, "inputs"), fields.tag(command_pb2.Command.Invoke, "inputs"))


if __name__ == "__main__":
    case_runner.main()
