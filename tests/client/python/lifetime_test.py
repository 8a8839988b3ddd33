"""Names that outlive their arrays, other threads at the wrong moment, signal handlers and finalizers that compute."""

import collections
import gc
import signal
import threading
import time
import unittest
from unittest import mock

import gluond as mx
import numpy as np
from gluond import autograd, nd
from gluond._custom import recorded
from gluond._wire.frame import NOT_RECORDING
from gluond._wire.batches import Batches
from gluond._wire.pipeline import Pipeline
from gluond._wire.wire import Wire
from gluond._array import calls, part
from gluond.symbol import _definition
from tests import case_runner
from tests.client.python.array_case import ArrayCase


def before(cls, method, action):
    """Runs the action before the method's next call in this thread, and nothing after that."""
    original, me, due = getattr(cls, method), threading.get_ident(), [action]

    def call(*args, **kwargs):
        if due and threading.get_ident() == me:
            due.pop()()
        return original(*args, **kwargs)

    return mock.patch.object(cls, method, call)


def elsewhere(action):
    """Runs it in another thread and returns its result."""
    found = []
    thread = threading.Thread(target=lambda: found.append(action()))
    thread.start()
    thread.join()
    return found[0]


class ThreadsTest(ArrayCase):
    def test_two_threads_read_a_view_for_the_first_time(self):
        view = nd.array([1, 2, 3, 4])[1:3]
        with before(part, "_run", lambda: np.testing.assert_array_equal(elsewhere(view.asnumpy), [2, 3])):
            self.assert_equal(view, [2, 3])

    def test_a_call_that_is_about_to_be_used_is_not_freed_when_it_is_prepared_again(self):
        x, call = nd.ones(1), calls.Call("_plus_scalar", (("scalar", "1.0"),), 1, 1)
        ready = call.prepare(x._session)
        call.prepare(x._session)
        nd.ones(1).wait_to_read()  # Takes along the names that are to be freed.
        out = calls.blank(nd.NDArray, x._session, x._context, x._shape, x._dtype)
        x._session.submit(ready[1] + x._name + ready[2] + out._name + NOT_RECORDING)
        self.assert_equal(out, [2])
        freed = []
        with mock.patch.object(x._session, "dead_calls", freed):
            del ready
            self.assertEqual(len(freed), 1)
            del call
            self.assertEqual(len(freed), 2)

    def test_another_thread_frees_the_same_graphs(self):
        class TakenMeanwhile(collections.deque):
            def __len__(self):
                return 1

        with mock.patch.object(_definition, "_dead_graphs", lambda session: TakenMeanwhile()):
            x = mx.sym.var("x")
            (out,) = (x * 2).bind(mx.cpu(), {"x": nd.ones(1)}).forward()
        self.assert_equal(out, [2])

    def test_another_thread_adds_to_what_is_known(self):
        class AddedMeanwhile(dict):
            def __iter__(self):
                places = super().__iter__()
                self[object()] = None
                return places

        calls.forget_oldest(AddedMeanwhile(a=1))
        calls.forget_oldest({})
        known = {"a": 1, "b": 2}
        calls.forget_oldest(known)
        self.assertEqual(known, {"b": 2})

    def test_a_result_that_dies_while_the_server_is_told_of_it_is_freed(self):
        class Two(autograd.Function):
            def forward(self, x):
                return x * 2, x * 3

            def backward(self, da, db):
                return 2 * da + 3 * db

        x = nd.ones(1)
        x.attach_grad()
        with autograd.record():
            results = list(Two()(x))
        name = results[1]._where.recording.names[1]
        tell = recorded.tell

        def told(*args):
            tell(*args)
            results.pop()

        with mock.patch.object(recorded, "tell", told):
            self.assert_equal(results[0] + 0, [2])
        with self.assertRaisesRegex(mx.MXNetError, "no array"):
            x._session.describe(name)


class HandlerTest(ArrayCase):
    """A signal's handler, or a finalizer, computes."""

    def setUp(self):
        self.x = nd.ones(2)
        self.computed = 0

    def compute(self):
        self.assert_equal(self.x * 3, [3, 3])
        self.computed += 1

    def test_while_its_thread_waits(self):
        for cls, moment in ((Pipeline, "submit"), (Pipeline, "_wait"), (Wire, "send"), (Wire, "lead")):
            with self.subTest(moment), before(cls, moment, self.compute):
                computed = self.computed
                while self.computed == computed:  # Another thread may do it, now and then.
                    self.assert_equal(self.x + 1, [2, 2])

    def test_while_its_thread_appends_it_gets_an_error(self):
        def finalize():
            with self.assertRaisesRegex(mx.MXNetError, "finalizer.*flag"):
                self.x + 5
            with self.assertRaisesRegex(mx.MXNetError, "finalizer.*flag"):
                self.x.asnumpy()

        with before(Batches, "append", finalize):
            self.assert_equal(self.x + 1, [2, 2])

    def test_finalizers_of_cycles(self):
        computed, refused = [], []

        class Cycle:
            def __init__(self):
                self.itself = self
                self.x = nd.ones(2)

            def __del__(self):
                try:
                    computed.append((self.x * 2).asnumpy())
                except mx.MXNetError as error:
                    refused.append(str(error))

        threshold = gc.get_threshold()
        self.addCleanup(gc.set_threshold, *threshold)
        gc.set_threshold(30, 2, 2)
        for _ in range(300):
            Cycle()
            self.assert_equal(self.x + 1, [2, 2])
        gc.set_threshold(*threshold)
        end = time.monotonic() + 20
        while len(computed) + len(refused) < 300 and time.monotonic() < end:
            gc.collect()  # The collector does nothing while another thread's collection is at work.
            time.sleep(0.01)
        self.assertEqual(len(computed) + len(refused), 300)
        self.assertTrue(computed)  # The others were collected by threads in which the stream lives, or amid a call.
        self.assertTrue(all("flag" in each for each in refused), refused[:1])

    def test_signals(self):
        refused = []

        def handler(*unused):
            try:
                self.compute()
            except mx.MXNetError as error:
                refused.append(str(error))

        before_that = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before_that)
        for place in range(60):
            signal.setitimer(signal.ITIMER_REAL, 0.0005 * (1 + place % 20))
            while self.computed + len(refused) == place:
                self.assert_equal(self.x + 1, [2, 2])
        self.assertGreater(self.computed, 30)
        self.assertTrue(all("flag" in each for each in refused), refused[:1])


class InterruptTest(unittest.TestCase):
    def test_ctrl_c_gives_up_a_backward_that_waits_for_gradients(self):
        class Double(autograd.Function):
            def forward(self, x):
                return x * 2

            def backward(self, dy):
                return 2 * dy

        request = Pipeline.request

        def interrupted(*args):
            request(*args)
            raise KeyboardInterrupt

        x = nd.array([3])
        x.attach_grad()
        for _ in range(65):  # The server keeps 64.
            with autograd.record():
                y = Double()(x * x)
                with mock.patch.object(Pipeline, "request", interrupted), self.assertRaises(KeyboardInterrupt):
                    autograd.grad([y], [x], create_graph=True)
        with autograd.record():
            (gradient,) = autograd.grad([Double()(x * x)], [x], create_graph=True)
        self.assertEqual(gradient.asscalar(), 12)


if __name__ == "__main__":
    case_runner.main()
