"""Clients share a connection, behind a proxy: what one of them does with its calls ends these calls, and no other's.

What ends a connection is counted by its reason.
"""

import contextlib
import time
import unittest

import grpc

from tests import case_runner
from tests.fault import http2
from tests.server.running_server import Waits
from tests.server.watched_server import WatchedServer

STATUS = grpc.StatusCode
CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
RUN, INVOKE = "/gluond.v1.SessionService/Run", "/gluond.v1.OperatorService/Invoke"
REASONS = ("resets", "answers", "messages", "headers", "transport")
SERVING = b"\x08\x01"


class SharedConnectionTest(Waits, unittest.TestCase):
    def setUp(self):
        exits = contextlib.ExitStack()
        self.addCleanup(exits.close)
        self.server = exits.enter_context(WatchedServer("--max_memory_bytes=4294967296"))
        self.channel = exits.enter_context(grpc.insecure_channel(self.server.address))
        self.check = self.channel.unary_unary(CHECK)
        self.watch = self.channel.unary_stream(WATCH)(b"")
        self.assertEqual(next(self.watch), SERVING)
        self.accepted = self.server.value("gluond_connections_accepted_total")

    def ended(self):
        return {reason: self.server.value("gluond_connections_ended_total", reason=reason) for reason in REASONS}

    def assert_all_goes_on(self):
        self.assertEqual(self.check(b"", timeout=60), SERVING)
        self.assertTrue(self.watch.is_active(), "another's stream has ended")
        self.assertEqual(self.ended(), dict.fromkeys(REASONS, 0))
        self.assertEqual(self.server.value("gluond_connections_accepted_total"), self.accepted, "the connection is another one")

    def test_headers_of_up_to_64_kib_end_their_own_call_and_the_text_names_the_limit(self):
        for size in (15_000, 16_000, 20_000, 40_000, 60_000, 64_000):
            with self.subTest(size=size):
                try:
                    self.assertEqual(self.check(b"", timeout=60, metadata=(("x-large", "a" * size),)), SERVING)
                    self.assertLess(size, 16384)
                except grpc.RpcError as error:
                    self.assertEqual(error.code(), STATUS.RESOURCE_EXHAUSTED)
                    self.assertIn("16384", error.details())
        self.assert_all_goes_on()

    def test_five_hundred_calls_that_are_cancelled_end_by_themselves(self):
        run = self.channel.stream_stream(RUN)
        for _ in range(5):
            calls = [run(iter(())) for _ in range(50)] + [self.check.future(b"") for _ in range(50)]
            for call in calls:
                call.cancel()
        time.sleep(1)
        calls = [self.channel.unary_unary(INVOKE).future(bytes(100_000)) for _ in range(500)]
        for call in calls:
            call.cancel()
        self.assert_all_goes_on()

    def test_three_thousand_calls_that_are_late_end_by_themselves(self):
        run = self.channel.stream_stream(RUN)
        calls = [run(iter(lambda: time.sleep(2), 0), timeout=0.05) for _ in range(30)]
        calls += [self.check.future(b"", timeout=0.0005 * (i % 100)) for i in range(3000)]
        for call in calls:
            self.assertIn(call.code(), (STATUS.OK, STATUS.DEADLINE_EXCEEDED))
        self.assert_all_goes_on()

    def test_broken_frames_and_headers_beyond_all_limits_end_the_connection_and_are_counted(self):
        headers, large = http2.grpc_headers(CHECK), http2.literal("x-large", "a" * 16_000)
        expected = dict.fromkeys(REASONS, 0)
        for reason, sent in (
            ("transport", http2.frame(http2.HEADERS, http2.END_HEADERS, 1, b"\xff" * 100)),
            (
                "headers",
                http2.frame(http2.HEADERS, 0, 1, headers)
                + http2.frame(http2.CONTINUATION, 0, 1, large) * 6
                + http2.frame(http2.CONTINUATION, http2.END_HEADERS, 1),
            ),
            ("transport", http2.frame(http2.HEADERS, http2.END_HEADERS, 1, headers + large * 6)),
        ):
            expected[reason] += 1
            with self.subTest(reason, bytes=len(sent)), http2.Connection(self.server.address) as connection:
                connection.send(sent)
                self.until(lambda: self.ended() == expected)
        self.assertTrue(self.watch.is_active())

    def test_resets_without_an_end_end_the_connection_and_are_counted(self):
        with http2.Connection(self.server.address) as connection:
            with contextlib.suppress(OSError):
                for _ in range(200):
                    streams = [connection.stream() for _ in range(100)]
                    connection.send(
                        b"".join(
                            http2.frame(http2.HEADERS, http2.END_HEADERS, stream, http2.grpc_headers(INVOKE))
                            + http2.frame(http2.RST_STREAM, 0, stream, (8).to_bytes(4, "big"))
                            for stream in streams
                        )
                    )
            self.until(lambda: self.ended()["resets"] == 1)
        self.assertTrue(self.watch.is_active())


if __name__ == "__main__":
    case_runner.main()
