"""Clients that compute operators for graphs, their own and others', and what goes wrong with them."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

import grpc
import numpy as np

import gluond as mx
from gluond import autograd, nd
from gluond._wire import credential
from gluond._custom import host, hosts, pool
from gluond._proto import custom_operator_pb2 as pb
from gluond._wire import connect
from tests import case_runner
from tests.client.python.array_case import ArrayCase
from tests.client.python.beside import in_child
from tests.client.python.custom_case import gradient, registered
from tests.server.running_server import RunningServer

PROVIDER = """
import sys, time
import numpy as np
import gluond as mx

class Op(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        print("called", flush=True)
        time.sleep(float(sys.argv[1]))
        self.assign(out_data[0], req[0], in_data[0].asnumpy() + in_data[1].asnumpy())
    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0].asnumpy() * 2)

@mx.operator.register("remote", shared=True)
class Prop(mx.operator.CustomOpProp):
    def list_arguments(self):
        return ["a", "b"]
    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Op()

print("ready", flush=True)
sys.stdin.read()
"""

# As a file of the provider's has it: this process does not know the operator.
REMOTE = """{"nodes": [{"op": "null", "name": "a", "inputs": []}, {"op": "null", "name": "b", "inputs": []},
    {"op": "Custom", "name": "r", "attrs": {"op_type": "%s", "__custom__": "{\\"arguments\\": [\\"a\\", \\"b\\"], \\"outputs\\": [\\"output\\"]}"},
     "inputs": [[0, 0, 0], [1, 0, 0]]}], "arg_nodes": [0, 1], "node_row_ptr": [0, 1, 2, 3], "heads": [[2, 0, 0]],
    "attrs": {"mxnet_version": ["int", 10901]}}"""


def remote(op_type="remote"):
    """An executor of an operator that another client computes, as soon as its offer has arrived."""
    arrays = [nd.array([1.0, 2.0]), nd.array([10.0, 20.0])]
    return until_it_is_there(lambda: mx.sym.load_json(REMOTE % op_type).bind(mx.cpu(), arrays, [nd.zeros(2), nd.zeros(2)]))


def until_it_is_there(function):
    """The function's result, once the operators that it needs are offered."""
    end = time.monotonic() + 30
    while True:
        try:
            return function()
        except mx.MXNetError as error:
            if time.monotonic() > end or "no client that computes it" not in str(error):
                raise
            time.sleep(0.02)


class Double(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * 2)


class Doubling(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Double()


class SharedOperatorTest(ArrayCase):
    def start(self, seconds=0.0):
        nd.ones(1).asnumpy()
        provider = subprocess.Popen(
            [sys.executable, "-c", PROVIDER, str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, "PYTHONPATH": ":".join(sys.path), "GLUOND_ADDRESS": connect.current().address},
        )
        self.addCleanup(self.stop, provider)
        self.assertEqual(provider.stdout.readline(), "ready\n")
        return provider

    def stop(self, provider):
        provider.kill()
        provider.wait()
        provider.stdin.close()
        provider.stdout.close()

    def test_another_process_computes(self):
        self.start()
        executor = remote()
        self.assert_equal(executor.forward(is_train=True)[0], [11, 22])
        executor.backward(nd.ones(2))
        self.assert_equal(executor.grad_dict["a"], [2, 2])
        self.assert_equal(executor.grad_dict["b"], [0, 0])

    def test_one_that_is_killed_fails_its_run_only_and_the_next_provider_goes_on(self):
        provider = self.start(60)
        executor = remote()
        (output,) = executor.forward()
        self.assertEqual(provider.stdout.readline(), "called\n")
        self.assertEqual(nd.ones(3).sum().asscalar(), 3)
        provider.send_signal(signal.SIGKILL)
        with self.assertRaisesRegex(mx.MXNetError, "custom operator 'remote': the client that computes it has gone"):
            output.asnumpy()
        with self.assertRaisesRegex(mx.MXNetError, "'remote': no client that computes it is connected"):
            executor.forward()[0].asnumpy()
        self.start()
        np.testing.assert_array_equal(until_it_is_there(lambda: executor.forward()[0].asnumpy()), [11, 22])

    def test_a_name_that_is_another_programs_is_refused_and_its_own_ones_go_on(self):
        self.start()
        executor = remote()
        with mock.patch.object(host, "CLAIM_SECONDS", 0.0):
            with self.assertRaisesRegex(mx.MXNetError, "the shared operator 'remote' belongs to a connected client"):
                mx.operator.register("remote", shared=True)(Doubling)
        mx.operator.register("own", shared=True)(Doubling)
        self.assert_equal(nd.Custom(nd.array([1.0, 2.0]), op_type="own"), [2, 4])
        self.assert_equal(executor.forward()[0], [11, 22])


class HandMade:
    """A client of HostOperators that answers callbacks as `answer(callback)` says: a list of results."""

    def __init__(self, name, answer):
        self._requests = []
        self._more = threading.Condition()
        self._channel = grpc.insecure_channel(connect.current().address)
        method = self._channel.stream_stream(host.METHOD, pb.HostRequest.SerializeToString, pb.HostResponse.FromString)
        self.send(pb.HostRequest(open=pb.OpenHost(scope="0123456789abcdef" + name, client_id="by hand")))
        self.send(pb.HostRequest(offer=pb.OfferOperator(op_type=name, shared=True)))
        self._call = method(self._read())
        self._answer = answer
        threading.Thread(target=self._run, daemon=True).start()

    def send(self, request):
        with self._more:
            self._requests.append(request)
            self._more.notify()

    def _read(self):
        while True:
            with self._more:
                while not self._requests:
                    self._more.wait()
                request = self._requests.pop(0)
            if request is None:
                return
            yield request

    def _run(self):
        try:
            for response in self._call:
                for callback in response.callbacks:
                    for result in self._answer(callback):
                        result.call = callback.call
                        self.send(pb.HostRequest(result=result))
        except grpc.RpcError:
            pass

    def close(self):
        self._call.cancel()
        self._channel.close()


def inferred(callback):
    """The right answer about shapes and types: all as the first argument's."""
    given = list((callback.infer_shape if callback.HasField("infer_shape") else callback.infer_type).arguments)
    return pb.CallbackResult(inferred={"arguments": given, "outputs": given[:1]})


def computed(values, shape=None, **fields):
    values = np.asarray(values, np.float32)
    tensor = {"shape": values.shape if shape is None else shape, "raw": values.tobytes(), **fields}
    return pb.CallbackResult(computed={"outputs": [tensor]})


class WrongProviderTest(ArrayCase):
    def run_with(self, name, answers):
        """The result of a run for each answer to a forward callback: values or the error's text."""
        nd.ones(1).asnumpy()
        queue = list(answers)

        def answer(callback):
            return queue.pop(0) if callback.HasField("forward") else [inferred(callback)]

        provider = HandMade(name, answer)
        self.addCleanup(provider.close)
        executor = remote(name)
        found = []
        while queue:
            try:
                found.append(executor.forward()[0].asnumpy().tolist())
            except mx.MXNetError as error:
                found.append(str(error))
        return found

    def test_lies_about_shape_and_dtype_and_number(self):
        right = computed([5, 6])
        lies = [
            computed([1, 2, 3]),
            computed([1, 2], dtype=4),
            computed([1, 2], shape=(4,)),
            pb.CallbackResult(computed={}),
            pb.CallbackResult(inferred={}),
            pb.CallbackResult(),
            pb.CallbackResult(computed={"outputs": [{"shape": [1 << 40]}]}),
            pb.CallbackResult(computed={"outputs": [{"shape": [2], "fill": {}}]}),
        ]
        answers = [[lie] for lie in lies]
        found = self.run_with("liar", [each for answer in answers for each in (answer, [right])])
        for lie, text in zip(lies, found[::2]):
            self.assertIsInstance(text, str, lie)
            self.assertIn("liar", text)
        self.assertEqual(found[1::2], [[5, 6]] * len(lies))

    def test_answering_twice_changes_nothing(self):
        found = self.run_with("twice", [[computed([1, 2]), computed([3, 4])]] * 5)
        self.assertEqual(found, [[1, 2]] * 5)

    def test_answers_that_nobody_asked_for_are_dropped(self):
        nd.ones(1).asnumpy()
        provider = HandMade("unasked", lambda callback: [])
        self.addCleanup(provider.close)
        for call in (0, 1, 1 << 60):
            provider.send(pb.HostRequest(result=pb.CallbackResult(call=call)))
        self.assertEqual(self.run_with("asked", [[computed([1, 2])]]), [[1, 2]])

    def test_failures_carry_the_traceback(self):
        failure = pb.CallbackResult(failure={"type": "Boom", "message": "it broke", "traceback": "in line 7\n"})
        found = self.run_with("breaks", [[failure], [computed([1, 2])]])
        self.assertIn("forward of custom operator 'breaks' failed in its client: Boom: it broke", found[0])
        self.assertIn("in line 7", found[0])
        self.assertEqual(found[1], [1, 2])

    def test_a_silent_one_holds_up_nobody_else(self):
        nd.ones(1).asnumpy()
        provider = HandMade("silent", lambda callback: [] if callback.HasField("forward") else [inferred(callback)])
        executor = remote("silent")
        (output,) = executor.forward()
        x = nd.zeros(1)
        self.assertEqual(gradient(x, called_back=True, op_type="sigmoid").asscalar(), 0.5)
        self.assertEqual(x.grad.asscalar(), 0.25)
        provider.close()
        with self.assertRaisesRegex(mx.MXNetError, "custom operator 'silent'"):
            output.asnumpy()

    def test_a_stream_without_an_opening_ends(self):
        channel = grpc.insecure_channel(connect.current().address)
        self.addCleanup(channel.close)
        method = channel.stream_stream(host.METHOD, pb.HostRequest.SerializeToString, pb.HostResponse.FromString)
        for first, code in (
            (pb.HostRequest(offer={"op_type": "x"}), grpc.StatusCode.FAILED_PRECONDITION),
            (pb.HostRequest(open={"scope": "short"}), grpc.StatusCode.INVALID_ARGUMENT),
            (pb.HostRequest(open={"scope": credential.scope}), grpc.StatusCode.INVALID_ARGUMENT),
            (
                pb.HostRequest(open={"scope": credential.scope, "key": "not what this process knows"}),
                grpc.StatusCode.PERMISSION_DENIED,
            ),
        ):
            with self.assertRaises(grpc.RpcError) as caught:
                list(method(iter([first])))
            self.assertEqual(caught.exception.code(), code)


LATE = """
import threading
import gluond as mx
from tests.client.python.custom_case import gradient, registered
go_on = threading.Event()
registered("late", None, lambda self, **_: go_on.wait(30))
x = mx.nd.zeros(1)
gradient(x, called_back=True, op_type="late")
try:
    x.grad.asnumpy()
except mx.MXNetError as error:
    print("1 s of --callback_seconds" in str(error))
go_on.set()
gradient(x, called_back=True, op_type="late")
print(x.grad.asscalar())
"""


class DeadlineTest(unittest.TestCase):
    def test_a_call_that_takes_too_long_fails_its_run_only(self):
        with RunningServer("--callback_seconds=1") as server:
            result = subprocess.run(
                [sys.executable, "-c", LATE],
                capture_output=True,
                text=True,
                timeout=60,
                env={**os.environ, "PYTHONPATH": ":".join(sys.path), "GLUOND_ADDRESS": server.address},
            )
        self.assertEqual((result.stdout, result.returncode), ("True\n0.0\n", 0), result.stderr)


class StreamTest(ArrayCase):
    def test_a_broken_stream_is_opened_again(self):
        x = nd.zeros(1)
        executor = mx.sym.Custom(mx.sym.Variable("x"), op_type="sigmoid").bind(mx.cpu(), [x])
        self.assertEqual(executor.forward()[0].asscalar(), 0.5)
        own = hosts.of(connect.current())
        own._wire.cut()
        for _ in range(100):
            try:
                value = executor.forward()[0].asscalar()
                break
            except mx.MXNetError as error:
                self.assertRegex(str(error), "no client that computes it|has gone")
                time.sleep(0.05)
        self.assertEqual(value, 0.5)
        self.assertEqual(gradient(x, called_back=True, op_type="sigmoid").asscalar(), 0.5)
        self.assertEqual(x.grad.asscalar(), 0.25)

    def test_a_gradient_that_the_break_has_lost_says_so(self):
        own = hosts.of(connect.current())
        cut = []

        def backward(self, **_):
            cut.append(own._wire._stream)
            own._wire.cut()
            time.sleep(0.5)

        registered("cuts", None, backward)
        x = nd.zeros(1)
        gradient(x, called_back=True, op_type="cuts")
        with self.assertRaisesRegex(mx.MXNetError, "has gone"):
            x.grad.asnumpy()
        with own._lock:  # The session may tell of the break before the host's own stream has ended.
            self.assertTrue(own._wait_until(lambda: own._wire._stream is not cut[0] and own.is_open, seconds=30))
        gradient(x, called_back=True, op_type="sigmoid")
        self.assertEqual(x.grad.asscalar(), 0.25)

    def test_a_slow_one_holds_up_nobody_else(self):
        go_on = threading.Event()
        registered("slow", lambda self, req, out_data, **_: (go_on.wait(30), self.assign(out_data[0], req[0], 1)))
        x = nd.zeros(1)
        (slow,) = mx.sym.Custom(mx.sym.Variable("x"), op_type="slow").bind(mx.cpu(), [x]).forward()
        self.assertEqual(gradient(x, called_back=True, op_type="sigmoid").asscalar(), 0.5)
        self.assertEqual(x.grad.asscalar(), 0.25)
        go_on.set()
        self.assertEqual(slow.asscalar(), 1)

    def test_threads_that_nobody_needs_end(self):
        barrier = threading.Barrier(8, timeout=30)
        registered("meet", None, lambda self, **_: barrier.wait())
        arrays = [nd.ones(1) for _ in range(8)]
        for x in arrays:
            gradient(x, called_back=True, op_type="meet")
        nd.waitall()
        for _ in range(100):
            count = sum(thread.name == "gluond-custom" for thread in threading.enumerate())
            if count <= pool.MOST_IDLE + 1:
                break
            time.sleep(0.02)
        self.assertLessEqual(count, pool.MOST_IDLE + 1)


def compute_sigmoid(queue):
    x = nd.zeros(2)
    gradient(x, called_back=True, op_type="sigmoid")
    y = mx.sym.Custom(mx.sym.Variable("x"), op_type="sigmoid").eval(x=x)[0]
    queue.put((x.grad.asnumpy().tolist(), y.asnumpy().tolist()))


class ProcessesTest(unittest.TestCase):
    def run_children(self, method):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        children = [context.Process(target=compute_sigmoid, args=(queue,)) for _ in range(2)]
        for child in children:
            child.start()
        found = [queue.get(timeout=60) for _ in children]
        for child in children:
            child.join(60)
        self.assertEqual(found, [([0.25, 0.25], [0.5, 0.5])] * 2)

    def test_forked_children_have_operators_of_their_own(self):
        x = nd.zeros(1)
        executor = mx.sym.Custom(mx.sym.Variable("x"), op_type="sigmoid").bind(mx.cpu(), [x])
        self.assertEqual(executor.forward()[0].asscalar(), 0.5)
        gradient(x, called_back=True, op_type="sigmoid")
        self.run_children("fork")
        self.assertEqual(x.grad.asscalar(), 0.25)
        self.assertEqual(executor.forward()[0].asscalar(), 0.5)
        gradient(x, called_back=True, op_type="sigmoid")
        self.assertEqual(x.grad.asscalar(), 0.25)

    def test_spawned_children_too(self):
        self.run_children("spawn")

    def test_symbols_of_the_parent_s_are_the_child_s_own(self):
        net = mx.sym.Custom(mx.sym.Variable("x"), op_type="sigmoid")
        self.assertEqual(net.eval(x=nd.zeros(1))[0].asscalar(), 0.5)
        self.assertTrue(in_child(lambda: net.eval(x=nd.zeros(1))[0].asscalar() == 0.5))
        self.assertEqual(net.eval(x=nd.zeros(1))[0].asscalar(), 0.5)

    def test_it_works_while_recording_threads_fork(self):
        x = nd.zeros(1)
        for _ in range(3):
            gradient(x, called_back=True, op_type="sigmoid")
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
            self.assertEqual(x.grad.asscalar(), 0.25)
            with autograd.record():
                y = nd.Custom(x, op_type="sigmoid")
            y.backward()


if __name__ == "__main__":
    case_runner.main()
