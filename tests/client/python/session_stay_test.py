"""What a session has saved outlives the server; and the session itself outlives its lease while its client is away."""

import contextlib
import io
import os
import signal
import time

import gluond as mx
import numpy as np
from gluond import nd
from gluond._wire import connect, pipeline
from tests import case_runner
from tests.client.python.proxy import Proxy
from tests.client.python.saved_case import SavedCase, bits, points, program, started, train, trained

LEASE = 1.0
SHORT = ("--session_lease_seconds=1", "--session_grace_seconds=60")
SLEEPER = """
import gluond as mx
mx.connect(%r)
x = mx.nd.array([1, 2])
x.attach_grad()
x.wait_to_read()
if %r: mx.save_session("run", x=x)
print(flush=True)
input()
try:
    with mx.autograd.record(): y = (x * x).sum()
    y.backward()
    print(x.grad.asnumpy().tolist(), flush=True)
except mx.MXNetError as error: print(str(error).replace("\\n", " "), flush=True)
"""


class ServerKilledTest(SavedCase):
    def test_training_goes_on_after_a_kill(self):
        server = started(self)
        net, trainer = trained()
        mx.save_session("run", net=net, trainer=trainer, epoch=3)
        train(net, trainer)
        expected = bits(net)
        server.process.kill()
        server.process.communicate()
        server.start()
        with self.assertRaisesRegex(
            mx.MXNetError,
            r"is lost(?s:.*)mx.attach\('run'\) after mx.connect\(\) gives what was " r"saved at \d\d:\d\d on 20\d\d-\d\d-\d\d\.$",
        ):
            net(points()[0]).asnumpy()
        mx.connect(server.address)
        work = mx.attach("run")
        self.assertEqual(work.epoch, 3)
        train(work.net, work.trainer)
        self.assertEqual(bits(work.net), expected)

    def test_without_a_store_the_error_says_when_it_is_gone(self):
        server = started(self, "--store_dir=")
        x = nd.ones(1)
        mx.save_session("run", x=x)
        server.process.kill()
        server.process.communicate()
        server.start()
        with self.assertRaisesRegex(mx.MXNetError, "unless the server was restarted, as it has no --store_dir"):
            x.asnumpy()
        mx.connect(server.address)
        with self.assertRaisesRegex(mx.MXNetError, "run"):
            mx.attach("run")
        mx.save_session("run", x=nd.zeros(1))  # The old key is no obstacle.
        self.assert_equal(mx.attach("run").x, [0])


class AwayTest(SavedCase):
    def test_a_laptop_that_sleeps_goes_on_where_it_was(self):
        server = started(self, *SHORT)
        words = []
        sleepers = [program(SLEEPER % (server.address, saves)) for saves in (True, False)]
        for each in sleepers:
            each.stdout.readline()
            os.kill(each.pid, signal.SIGSTOP)
        time.sleep(4 * LEASE)  # Nothing happens that could be waited for.
        for each in sleepers:
            os.kill(each.pid, signal.SIGCONT)
            words.append(each.communicate("\n", timeout=60)[0])
        self.assertEqual(words[0].strip(), "[2.0, 4.0]")
        self.assertIn("is lost", words[1])

    def test_a_client_without_a_network_tries_for_longer_than_the_lease(self):
        for saves in (True, False):
            server = started(self, *SHORT)
            proxy = Proxy(server.address)
            self.addCleanup(proxy.close)
            mx.connect(proxy.address)
            x = nd.array([1, 2])
            x.wait_to_read()
            if saves:
                mx.save_session("run", x=x)
            target, proxy._target = proxy._target, ("127.0.0.1", 1)
            proxy.cut()
            time.sleep(4 * LEASE)
            proxy._target = target
            if saves:
                self.assert_equal(x + 1, np.array([2, 3]))
            else:
                with self.assertRaisesRegex(mx.MXNetError, "is lost"):
                    (x + 1).asnumpy()

    def test_an_attached_session_stays_as_well(self):
        started(self, *SHORT)
        mx.save_session("run", x=nd.ones(1))
        mx.connect(connect.current().address)
        self.assertEqual(connect.current()._pipeline.patience, 0)
        mx.attach("run")
        self.assertEqual(connect.current()._pipeline.patience, 60)

    def test_somebody_who_waits_long_is_told(self):
        server = started(self)
        proxy = Proxy(server.address)
        self.addCleanup(proxy.close)
        mx.connect(proxy.address)
        x = nd.ones(1)
        mx.save_session("run", x=x)
        target, proxy._target = proxy._target, ("127.0.0.1", 1)
        before, pipeline.WARN_SECONDS = pipeline.WARN_SECONDS, 0.0
        self.addCleanup(setattr, pipeline, "WARN_SECONDS", before)
        with contextlib.redirect_stderr(io.StringIO()) as told:
            proxy.cut()
            while not told.getvalue():
                time.sleep(0.01)
            proxy._target = target
            self.assert_equal(x + 1, np.array([2]))
        self.assertRegex(
            told.getvalue(), r"^gluond: no answer from the server: .*\. Calls wait for it for up to \d+ s more; Ctrl-C ends"
        )

    def test_the_last_error_tells_what_ended_the_stream(self):
        server = started(self, "--session_lease_seconds=1", "--drain_seconds=0")
        mx.connect(server.address)
        x = nd.ones(1)
        x.wait_to_read()
        server.stop()
        with self.assertRaisesRegex(
            mx.MXNetError, r"has gone, or cannot be reached any more: .*\(The stream before had ended with: "
        ):
            while True:
                (x + 1).asnumpy()


if __name__ == "__main__":
    case_runner.main()
