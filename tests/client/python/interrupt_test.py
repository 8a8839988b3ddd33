"""After any number of interrupts (Ctrl-C) a process computes on, and can fork: DataLoader's workers, multiprocessing, os.fork."""

import contextlib
import ctypes
import faulthandler
import hashlib
import multiprocessing
import os
import signal
import threading
import time
import unittest

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
