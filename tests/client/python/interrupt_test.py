"""After any number of interrupts (Ctrl-C) a process computes on, and can fork: DataLoader's workers, multiprocessing, os.fork."""

import _thread
import collections
import contextlib
import ctypes
import faulthandler
import functools
import hashlib
import io
import multiprocessing
import operator
import os
import signal
import threading
import time
import unittest
import weakref
from unittest import mock

import gluond as mx
import numpy as np
from gluond import gluon, nd
from tests import case_runner
from tests.client.python.beside import in_child
from tests.client.python.custom_case import registered


def child_computes():
    return nd.full((3,), 2).asnumpy().tolist() == [2, 2, 2]


def interrupted(wait, times):
    """Runs `wait` again and again, and interrupts it at so many different moments."""
    waits = []

    def interrupt(*unused):
        if waits:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for place in range(times):
            with contextlib.suppress(KeyboardInterrupt):
                waits.append(True)
                signal.setitimer(signal.ITIMER_REAL, 0.0007 * (1 + place % 25), 0.3)  # Again, as a finalizer may swallow one.
                while True:
                    wait()
            waits.clear()
    finally:
        waits.clear()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Ending:
    def __init__(self, ended):
        self.ended = ended

    def __del__(self):
        self.ended.append(True)


class FinalizerTest(unittest.TestCase):
    """An interrupt that comes at the first step of a finalizer is raised after it, and the finalizer runs."""

    def interrupt_at_the_end_of(self, things):
        steps = [_thread.interrupt_main, things.clear]
        with self.assertRaises(KeyboardInterrupt):
            collections.deque(map(operator.methodcaller("__call__"), steps), maxlen=0)  # Python's code has no part in it.
            time.sleep(30)

    def test_of_an_array(self):
        arrays = [nd.ones(3) + 1]
        arrays[0].asnumpy()
        name, session = arrays[0]._name, arrays[0]._session
        freed = collections.deque()  # The pipeline's thread may send what is in its own.
        with mock.patch.object(session, "dead_arrays", freed):
            self.interrupt_at_the_end_of(arrays)
        self.assertIn(name, freed)
        session.dead_arrays.extend(freed)

    def test_of_a_class_of_the_program(self):
        ended = []
        self.interrupt_at_the_end_of([Ending(ended)])
        self.assertEqual(ended, [True])

    def test_of_a_weak_reference(self):
        ended, things = [], [Ending([])]
        weakref.finalize(things[0], ended.append, True)
        things[0].ended = ended
        self.interrupt_at_the_end_of(things)
        self.assertEqual(ended, [True, True])

    def test_a_program_that_dies_of_the_signal_does_not(self):
        def interrupt(*unused):
            raise KeyboardInterrupt

        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, interrupt))
        ended, words = [], io.StringIO()
        things = [Ending(ended)]
        steps = [functools.partial(_thread.interrupt_main, signal.SIGALRM), things.clear]
        with contextlib.redirect_stderr(words):
            collections.deque(map(operator.methodcaller("__call__"), steps), maxlen=0)
            time.sleep(0.05)
        self.assertEqual(ended, [])
        self.assertIn("Exception ignored in: <function Ending.__del__", words.getvalue())


class InterruptAndForkTest(unittest.TestCase):
    def setUp(self):
        faulthandler.dump_traceback_later(120, exit=True)  # A hang is a failure that tells where.
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        self.x = nd.ones((200, 200))

    def interrupt(self):
        interrupted(lambda: nd.dot(self.x, self.x).asnumpy(), 30)

    def test_os_fork(self):
        for _ in range(4):
            self.interrupt()
            self.assertTrue(in_child(child_computes))
            self.assertEqual(nd.dot(self.x, self.x).asnumpy()[0, 0], 200)

    def test_custom_operators_that_the_server_calls_go_on_after_a_fork(self):
        registered("twice", lambda self, req, in_data, out_data, **_: self.assign(out_data[0], req[0], in_data[0] * 2))
        executor = mx.sym.Custom(mx.sym.Variable("x"), op_type="twice").bind(mx.cpu(), [nd.ones(1)])
        self.assertEqual(executor.forward()[0].asscalar(), 2)
        for _ in range(5):
            results = [executor.forward()[0] for _ in range(3)]
            self.assertTrue(in_child(child_computes))
            self.assertEqual(executor.forward()[0].asscalar(), 2)
            self.assertEqual([result.asscalar() for result in results], [2, 2, 2])

    def test_workers_of_a_data_loader(self):
        data = gluon.data.ArrayDataset(np.arange(12, dtype=np.float32))
        for _ in range(3):
            self.interrupt()
            loader = gluon.data.DataLoader(data, batch_size=4, num_workers=2)
            self.assertEqual([batch.asnumpy().sum() for batch in loader], [6, 22, 38])

    def test_a_fork_waits_for_a_thread_of_grpcs_core_that_is_at_work(self):
        begun, done = threading.Event(), []

        def work():
            ctypes.CDLL(None).prctl(15, b"default-executor")  # PR_SET_NAME: the name that gRPC's thread has.
            begun.set()
            hashlib.pbkdf2_hmac("sha256", b"", b"", 200_000)  # Without the interpreter's lock, as gRPC is.
            done.append(True)

        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
        time.sleep(0.02)
        self.assertTrue(in_child(lambda: done))
        thread.join()

    def test_a_pool_of_processes(self):
        self.interrupt()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            self.assertEqual(pool.map_async(os.path.basename, ["/a/b", "/c/d"]).get(timeout=60), ["b", "d"])

    def test_after_a_fit_that_was_interrupted(self):
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Dense(64), gluon.nn.Dense(2))
        net.initialize()
        x, labels = nd.ones((512, 8)), nd.zeros(512)
        net.hybridize()
        net(x)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        model = net.save_as_model("interrupted", loss=gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer, replace=True)
        interrupted(lambda: model.fit(x, labels, epochs=100, batch_size=16), 10)
        self.assertTrue(in_child(child_computes))


if __name__ == "__main__":
    case_runner.main()
