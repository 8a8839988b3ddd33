"""One session: from many threads, over broken connections, with servers that go away."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

import gluond as mx
import numpy as np
from gluond import nd
from gluond._proto import session_pb2
from gluond._wire import connect, encoding, pipeline
from tests import case_runner
from tests.client.python.beside import in_threads
from tests.client.python.proxy import Proxy
from tests.server.running_server import RunningServer


class SessionTest(unittest.TestCase):
    def setUp(self):
        self.server = RunningServer()
        self.addCleanup(self.server.__exit__)
        self.proxy = Proxy(self.server.address)
        self.addCleanup(self.proxy.close)
        mx.connect(self.proxy.address)

    def test_many_threads_share_it(self):
        results = {}

        def work(number):
            x = nd.full((8,), number)
            for _ in range(200):
                x = x + 1
            results[number] = x.asnumpy()

        in_threads(work, 8)
        for number in range(8):
            np.testing.assert_array_equal(results[number], np.full(8, number + 200))

    def test_a_lone_command_leaves_though_nobody_asks_for_its_result(self):
        x = nd.ones((4,)) + 1
        pipeline = x._session._pipeline
        given = pipeline._batches.unsent[-1].first + len(pipeline._batches.unsent[-1].commands)
        deadline = time.monotonic() + 10
        while pipeline._batches.unsent[-1].first < given:
            self.assertLess(time.monotonic(), deadline, "it has not left")
            time.sleep(0.01)
        np.testing.assert_array_equal(x.asnumpy(), np.full(4, 2))

    def test_a_broken_connection_is_taken_up_again_and_nothing_is_done_twice(self):
        x = nd.zeros((4,))
        for round_ in range(1, 6):
            for number in range(300):
                x += 1
                if number == 150:
                    self.proxy.cut()
            np.testing.assert_array_equal(x.asnumpy(), np.full(4, 300 * round_))

    def test_an_answer_that_was_on_its_way_comes_again(self):
        x = nd.arange(1 << 20)
        for _ in range(5):
            threading.Timer(0.005, self.proxy.cut).start()
            self.assertEqual(x.asnumpy()[-1], (1 << 20) - 1)

    def test_a_server_that_is_gone_is_an_error_that_says_what_is_lost(self):
        x = nd.ones((2,))
        x.asnumpy()
        self.server.process.kill()
        self.server.process.wait()
        self.proxy.close()
        x._session._pipeline.opened.lease.FromSeconds(1)
        with self.assertRaisesRegex(mx.MXNetError, "is lost.*mx.connect"):
            (x + 1).asnumpy()
        with self.assertRaisesRegex(mx.MXNetError, "is lost"):
            x + 1

    def test_a_restarted_server_has_no_session_and_the_error_says_so(self):
        x = nd.ones((2,))
        x.asnumpy()
        with RunningServer() as other:
            host, port = other.address.split(":")
            self.proxy._target = host, int(port)
            self.proxy.cut()
            with self.assertRaisesRegex(mx.MXNetError, "no longer has this session"):
                (x + 1).asnumpy()
            mx.connect(other.address)
            self.assertEqual((nd.ones(1) + 1).asscalar(), 2)
            with self.assertRaisesRegex(mx.MXNetError, "two sessions"):
                nd.ones(2) + x
            connect.current().close()

    def test_a_program_that_ends_ends_it_for_the_server_too(self):
        code = "import gluond as mx; mx.nd.ones(2).asnumpy()"
        variables = {**os.environ, "PYTHONPATH": ":".join(sys.path), "GLUOND_ADDRESS": self.server.address}
        for _ in range(3):
            subprocess.run([sys.executable, "-c", code], env=variables, timeout=60, check=True)
        connect.current().close()
        status, _, log = self.server.stop()
        self.assertEqual((status, log), (0, ""))

    def test_nobody_there_is_an_error_at_once(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = "127.0.0.1:%d" % free.getsockname()[1]
        with self.assertRaisesRegex(mx.MXNetError, "No gluond-server can be reached at " + address):
            mx.connect(address)


class InterruptTest(unittest.TestCase):
    def test_an_interrupted_write_leaves_no_old_values(self):
        writes = {
            "in place": lambda x: x.__iadd__(1),
            "a number": lambda x: x.__setitem__(slice(None), 1),
            "an array": lambda x: nd.ones((1,)).copyto(x),
            "numbers": lambda x: x.__setitem__(slice(None), np.ones(1)),
            "an operator's": lambda x: nd.exp(x, out=x),
        }
        with RunningServer() as server:
            mx.connect(server.address)
            for name, write in writes.items():
                with self.subTest(name):
                    x = nd.zeros((1,))
                    self.assertEqual(x.asscalar(), 0)  # The client keeps this value.
                    write(x.copy())  # Calls are known to the server from here on.
                    real, waits = pipeline.leaves_at_once, [name != "an array", True]

                    def interrupted(command, tail, real=real, waits=waits):
                        if waits.pop():
                            raise KeyboardInterrupt
                        return real(command, tail)

                    if name == "an array":
                        waits.reverse()  # The first command makes the other array.
                    with mock.patch.object(pipeline, "leaves_at_once", interrupted), self.assertRaises(KeyboardInterrupt):
                        write(x)
                    self.assertEqual(x.asscalar(), 1)
            connect.current().close()

    def test_ctrl_c_anywhere_loses_nothing_and_does_nothing_twice(self):
        def interrupt(*unused):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        with RunningServer() as server:
            mx.connect(server.address)
            x = nd.zeros((1,))
            done = begun = 0
            for round_ in range(40):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0002 * (1 + round_ % 20))
                    while True:
                        begun += 1
                        x += 1
                        done += 1
                        if round_ % 2:
                            x.asnumpy()
                except KeyboardInterrupt:
                    pass
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                value = x.asscalar()
                self.assertTrue(done <= value <= begun, (done, value, begun))
                done = begun = int(value)
            connect.current().close()


class LimitTest(unittest.TestCase):
    def connect(self, *flags):
        server = RunningServer(*flags)
        self.addCleanup(server.__exit__)
        mx.connect(server.address)
        self.addCleanup(lambda: connect.current().close())

    def test_temporaries_do_not_pile_up(self):
        self.connect("--max_tensor_bytes=67108864")
        x = nd.ones((1 << 20,))  # 4 MiB of 64.
        for _ in range(100):
            x = x + 1
        self.assertEqual(x[0].asscalar(), 101)


class NamesTest(unittest.TestCase):
    def test_a_name_is_its_number_for_as_many_as_there_are(self):
        for first in (1, (1 << 14) - 2, (1 << 35) - 2, (1 << 49) - 3):
            names = encoding.names_from(first)
            for number in range(first, first + 3):
                name = next(names)
                self.assertEqual(len(name), encoding.NAME_SIZE)
                self.assertEqual(encoding.number_of(name), number)
                self.assertEqual(encoding.name_of(number), name)
                request = session_pb2.SessionRequest.FromString(encoding.fetch([name]))
                self.assertEqual(request.commands[0].fetch.arrays, [number])

    def test_after_the_last_name_there_is_an_error_and_the_session_goes_on(self):
        with RunningServer() as server:
            mx.connect(server.address)
            x = nd.array([1, 2])
            with mock.patch("gluond._array.calls.names", encoding.names_from((1 << 49) - 3)):
                last = [x + n for n in range(3)]
                for _ in range(2):
                    with self.assertRaisesRegex(mx.MXNetError, "no name for another one"):
                        x + 3
                self.assertEqual([y.asnumpy().tolist() for y in last], [[1, 2], [2, 3], [3, 4]])
                self.assertEqual(last[2].handle, (1 << 49) - 1)
            self.assertEqual((x * 2).asnumpy().tolist(), [2, 4])
            connect.current().close()

    def test_names_of_more_than_five_bytes_are_names(self):
        with RunningServer() as server:
            mx.connect(server.address)
            names = encoding.names_from((1 << 35) - 20)
            with mock.patch("gluond._array.calls.names", names), mock.patch("gluond._array.part.names", names):
                x = nd.ones((2, 2))
                for _ in range(50):
                    x = x + 1
                    x[0] += 1
                self.assertEqual(x.asnumpy().tolist(), [[101, 101], [51, 51]])
            connect.current().close()


if __name__ == "__main__":
    case_runner.main()
