"""Whoever has not said who he is gets nothing of the server for free, by whatever method he asks, with a message of any size."""

import contextlib
import pathlib
import tempfile
import unittest

import grpc

from tests import case_runner
from tests.fault import http2
from tests.server.every_method import OPEN, UNKNOWN, paths
from tests.server.running_server import Waits
from tests.server.watched_server import WatchedServer

STATUS = grpc.StatusCode
LIMIT = 64 << 20
# Bytes that have come and were given to nobody are estimated, and charged in steps (server/net/grpc_1_51/unread.h).
ESTIMATE = 200 << 10
SHORT = 16 << 10
SIZES = (0, SHORT, SHORT + 1, 1 << 20, LIMIT)


def message(size):
    """A message of so many bytes, in a field that no request has."""
    for length in range(max(0, size - 6), size):
        text = b"\xfa\x7f" + http2.varint(length)
        if len(text) + length == size:
            return text + bytes(length)
    return b""


class StrangersTest(Waits, unittest.TestCase):
    def setUp(self):
        exits = contextlib.ExitStack()
        self.addCleanup(exits.close)
        identities = pathlib.Path(exits.enter_context(tempfile.TemporaryDirectory())) / "identities"
        identities.write_text(f"somebody train sha256:{'0' * 64}\n")
        self.server = exits.enter_context(
            WatchedServer(f"--identities={identities}", "--max_memory_bytes=1073741824", f"--max_message_bytes={LIMIT}")
        )
        self.channel = exits.enter_context(grpc.insecure_channel(self.server.address, [("grpc.max_send_message_length", -1)]))

    def ask(self, path, request, compression=None):
        """The code and the text of the answer to one message."""
        call = self.channel.unary_stream(path)(request, timeout=60, compression=compression)
        try:
            next(call, None)
            call.cancel()
            return STATUS.OK, ""
        except grpc.RpcError as error:
            return error.code(), error.details()

    def charged(self):
        return self.server.value("gluond_memory_bytes", owner="process")

    def test_every_method_is_refused_by_its_headers_or_takes_a_name_and_no_more(self):
        before = self.charged()
        for size in SIZES:
            request = message(size)
            self.assertEqual(len(request), size)
            for path in [*paths(), UNKNOWN]:
                with self.subTest(path=path, size=size):
                    code, text = self.ask(path, request)
                    if path not in OPEN:
                        self.assertEqual(code, STATUS.UNAUTHENTICATED, text)
                    elif size <= SHORT:
                        self.assertEqual(code, STATUS.OK, text)
                    else:
                        self.assertEqual(code, STATUS.RESOURCE_EXHAUSTED, text)
                        self.assertIn(f"{SHORT} are enough", text)
        self.until(lambda: self.charged() <= before + ESTIMATE)
        self.assertLess(self.server.value("gluond_memory_peak_bytes", owner="process"), 4 * LIMIT)

    def test_a_message_that_becomes_long_once_it_is_inflated_is_refused_as_well(self):
        for path in OPEN:
            with self.subTest(path=path):
                code, text = self.ask(path, message(1 << 20), grpc.Compression.Gzip)
                self.assertEqual(code, STATUS.RESOURCE_EXHAUSTED, text)
                self.assertIn("inflated", text)
                self.assertEqual(self.ask(path, message(SHORT), grpc.Compression.Gzip)[0], STATUS.OK)

    def test_an_open_call_is_charged_from_its_headers_on_and_another_one_is_gone_at_once(self):
        before = self.charged()
        with http2.Connection(self.server.address) as connection:
            for path in paths():
                if path not in OPEN:
                    connection.open(path, ("x-padding", "x" * 4000))
            self.until(lambda: self.charged() <= before + ESTIMATE)
            for path in OPEN * 6:
                connection.open(path, ("x-padding", "x" * 4000))
            self.until(lambda: self.charged() >= before + 6 * len(OPEN) * (SHORT + 4000))
        self.until(lambda: self.charged() <= before + ESTIMATE)


if __name__ == "__main__":
    case_runner.main()
