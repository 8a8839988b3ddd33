"""How many calls of custom operators this process takes on, from its server or from one that asks for too much."""

import queue
import threading
import time
import unittest
from concurrent import futures
from unittest import mock

import grpc

import gluond as mx
from gluond import nd
from gluond._custom import callbacks, functions, host, outgoing, pool
from gluond._proto import custom_operator_pb2 as pb
from gluond._wire import session
from gluond._wire.access import Access
from tests import case_runner
from tests.client.python.array_case import ArrayCase
from tests.client.python.custom_case import registered


class Call:
    """As much of a Callback as a pool looks at."""

    def __init__(self, number, size=10):
        self.number = number
        self.ByteSize = lambda: size


def until(condition):
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


class OutgoingTest(unittest.TestCase):
    def setUp(self):
        self.events = []
        self.outgoing = outgoing.Outgoing(lambda: self.events.append("cut"))
        self.outgoing.begin()
        self.written, self.room = [], 100

    def send(self):
        def write(message):
            self.written.append(message)
            return len(self.written) < self.room

        return self.outgoing.send(write), self.written

    def test_messages_leave_in_their_order(self):
        for message in (b"a", b"bc", b"d"):
            self.outgoing.write(message)
        self.assertEqual(self.outgoing.waiting_bytes, 4)
        self.room = 2
        self.assertEqual((self.send(), self.outgoing.waiting_bytes), ((True, [b"a", b"bc"]), 1))
        self.room = 100
        self.assertEqual((self.send(), self.outgoing.waiting_bytes), ((True, [b"a", b"bc", b"d"]), 0))
        self.assertEqual((self.send(), self.events), ((False, [b"a", b"bc", b"d"]), []))

    def test_too_many_end_the_stream_and_the_next_one_begins_with_none(self):
        with mock.patch.object(outgoing, "MOST_WAITING", 2):
            for _ in range(3):
                self.outgoing.write(b"a")
        self.assertEqual(self.events, ["cut"])
        self.outgoing.end()
        self.outgoing.write(b"of no use")
        self.outgoing.begin()
        self.outgoing.write(b"b")
        self.assertEqual(self.send(), (True, [b"b"]))


class PoolTest(unittest.TestCase):
    def setUp(self):
        self.ran, self.refused, self.most, self.now = [], {}, 0, 0
        self.go_on = threading.Event()
        self.lock = threading.Lock()
        self.received = queue.SimpleQueue()  # The calls that a leading thread receives; None: another thread leads from now on.
        self.received.put(None)
        self.threads = []
        self.pool = pool.Pool(self.run_one, lambda call, why: self.refused.update({call.number: why}), self.lead)

    def lead(self):
        calls = self.received.get()
        if calls is None:
            self.received.put(None)
            return False
        self.take(calls)
        return True

    def run_one(self, call):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.go_on.wait(30)
        with self.lock:
            self.threads.append(threading.get_ident())
            self.now -= 1
            self.ran.append(call.number)

    def take(self, calls):
        self.pool.take(calls)

    def test_so_many_run_at_a_time_and_the_others_in_their_turn(self):
        with mock.patch.object(pool, "MOST_THREADS", 3):
            self.take([Call(n) for n in range(5)])
            for n in range(5, 20):
                self.take([Call(n)])
            self.go_on.set()
            self.assertTrue(until(lambda: len(self.ran) == 20))
            self.assertTrue(until(lambda: self.pool._threads == 0))
            self.take([Call(20)])
            self.assertTrue(until(lambda: len(self.ran) == 21))
        self.assertEqual(self.most, 3)
        self.assertEqual((sorted(self.ran), self.refused), (list(range(21)), {}))

    def test_a_thread_without_a_call_runs_the_first_of_those_that_it_receives(self):
        self.received.get()  # It may lead.
        self.go_on.set()
        self.take([Call(0)])
        self.received.put([])  # Words about offers, say.
        self.received.put([Call(1)])
        self.assertTrue(until(lambda: self.ran == [0, 1]))
        self.received.put([Call(2), Call(3)])
        self.assertTrue(until(lambda: len(self.ran) == 4))
        self.received.put(None)
        self.assertEqual(len(set(self.threads[:2])), 1)
        self.assertEqual(self.threads[self.ran.index(2)], self.threads[0])
        self.assertNotEqual(self.threads[self.ran.index(3)], self.threads[0])
        self.take([Call(4)])  # All threads wait in the pool.
        self.assertTrue(until(lambda: len(self.ran) == 5))

    def test_beyond_what_may_wait_calls_are_refused(self):
        with mock.patch.multiple(pool, MOST_THREADS=1, MOST_WAITING=3, MOST_WAITING_BYTES=100):
            self.take([Call(0), Call(1, 60), Call(2, 60), Call(3), Call(4), Call(5)])
            self.assertEqual(set(self.refused), {2, 5})
            self.assertIn("as many as may wait for a thread do", self.refused[5])
            self.go_on.set()
            self.assertTrue(until(lambda: sorted(self.ran) == [0, 1, 3, 4]))

    def test_where_no_other_thread_is_to_be_had_calls_are_refused(self):
        with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
            self.take([Call(0)])
        self.assertIn("can't start new thread", self.refused[0])
        self.go_on.set()
        self.take([Call(2)])
        self.assertTrue(until(lambda: self.ran == [2]))


class NestedTest(ArrayCase):
    def run_nested(self, threads, calls):
        """Results, or errors, of so many runs of an operator whose code runs another one in a graph and waits for it."""
        registered("inner", lambda self, in_data, out_data, req, **_: self.assign(out_data[0], req[0], in_data[0] * 2))
        meeting = threading.Barrier(calls, timeout=30) if calls <= threads else None

        def outer(self, in_data, out_data, req, **_):
            if meeting is not None:
                meeting.wait()
            else:
                time.sleep(0.2)  # All threads are taken.
            inner = mx.sym.Custom(mx.sym.Variable("x"), op_type="inner")
            self.assign(out_data[0], req[0], inner.bind(mx.cpu(), [nd.array(in_data[0].asnumpy())]).forward()[0].asnumpy() + 1)

        registered("outer", outer)
        symbol = mx.sym.Custom(mx.sym.Variable("x"), op_type="outer")
        with mock.patch.multiple(pool, MOST_THREADS=threads, STALL_SECONDS=0.5):
            outputs = [symbol.bind(mx.cpu(), [nd.full((1,), n)]).forward()[0] for n in range(calls)]
            found = []
            for output in outputs:
                try:
                    found.append(output.asscalar())
                except mx.MXNetError as error:
                    found.append(str(error))
        return found

    def test_calls_that_wait_for_calls_run(self):
        self.assertEqual(self.run_nested(8, 6), [2 * n + 1 for n in range(6)])

    def test_where_all_threads_wait_for_calls_that_have_none_these_are_refused(self):
        found = self.run_nested(2, 6)
        self.assertTrue(any("there is no thread" in str(each) for each in found), found)
        self.assertEqual(self.run_nested(8, 6), [2 * n + 1 for n in range(6)])


class Hostile:
    """A server that asks for `count` calls at once, and collects the answers, or does not read them."""

    def __init__(self, count, reads=True):
        self.answers = {}
        self.go_on = threading.Event()
        self._count = count
        self._reads = reads
        self._server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", -1)])
        handler = grpc.stream_stream_rpc_method_handler(self._run, pb.HostRequest.FromString, pb.HostResponse.SerializeToString)
        service, method = host.METHOD[1:].split("/")
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _run(self, requests, context):
        yield pb.HostResponse(opened=pb.HostOpened(lease={"seconds": 60}, callback={"seconds": 60}))
        output = {"type": {"has_shape": True, "shape": [1 << 10], "dtype": 0}, "wanted": True}
        forward = {"device": "cpu", "outputs": [output], "arguments": [{"shape": [1 << 10], "raw": bytes(4 << 10)}]}
        for begin in range(0, self._count, 100):
            yield pb.HostResponse(
                callbacks=[
                    pb.Callback(call=n + 1, op_type="hosted", forward=forward) for n in range(begin, min(begin + 100, self._count))
                ]
            )
        if self._reads:
            for request in requests:
                if request.HasField("result"):
                    self.answers[request.result.call] = request.result.WhichOneof("result")
        else:
            self.go_on.wait(60)

    def close(self):
        self.go_on.set()
        self._server.stop(0)


class Session:
    """As much of one as a Host needs."""

    max_tensor_bytes = 1 << 20
    is_open = True
    _access = Access()

    def __init__(self, address):
        self.address = address

    def go_on(self):
        pass

    def new_stream(self, method, hello):
        return session.Session.new_stream(self, method, hello)

    def new_channel(self):
        return self._access.channel(self.address, session._CHANNEL_OPTIONS)


def threads():
    return sum(thread.name == "gluond-custom" for thread in threading.enumerate())


class HostileServerTest(unittest.TestCase):
    def connect(self, server):
        self.addCleanup(server.close)
        self.session = Session(server.address)
        self.host = host.Host(self.session, "0" * 32, callbacks.answer, functions.release)
        self.addCleanup(self.host.end)

    def test_it_gets_no_more_threads_than_there_are(self):
        go_on = threading.Event()
        registered("hosted", lambda self, out_data, req, **_: (go_on.wait(30), self.assign(out_data[0], req[0], 1)))
        self.addCleanup(go_on.set)
        before = threads()
        server = Hostile(3000)
        with mock.patch.object(pool, "MOST_WAITING", 1000):
            self.connect(server)
            refused = 3000 - 1000 - pool.MOST_THREADS
            self.assertTrue(until(lambda: len(server.answers) == refused), len(server.answers))
            self.assertLessEqual(threads() - before, pool.MOST_THREADS + pool.MOST_IDLE)
            self.assertEqual(set(server.answers.values()), {"failure"})
            go_on.set()
            self.assertTrue(until(lambda: len(server.answers) == 3000), len(server.answers))
        self.assertEqual(sum(kind == "computed" for kind in server.answers.values()), 3000 - refused)

    def test_answers_that_it_does_not_read_do_not_pile_up(self):
        registered("hosted", lambda self, out_data, req, **_: self.assign(out_data[0], req[0], 1))
        with mock.patch.object(host, "MOST_OUTGOING_BYTES", 1 << 20):
            self.connect(Hostile(8000, reads=False))
            self.assertTrue(until(lambda: self.host._outgoing.waiting_bytes > 1 << 20 and len(self.host._pool._waiting) > 100))
            time.sleep(0.5)
            self.assertLessEqual(self.host._outgoing.waiting_bytes, (1 << 20) + 5000)
            self.assertEqual(self.host._pool._threads, pool.MOST_THREADS)


if __name__ == "__main__":
    case_runner.main()
