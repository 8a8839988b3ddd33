"""Too old servers, commands that a server does not know, and the list of operators in a file."""

import os
import pathlib
import shutil
import tempfile
import unittest
from unittest import mock

import gluond as mx
from gluond import _operators, _operators_cache
from gluond._proto import operator_pb2, server_pb2
from gluond._wire import connect, encoding, fields, pipeline, protocol
from tests import case_runner

HASH = "0123456789abcdef"


class FakeChannel:
    """Answers GetServerInfo."""

    def unary_unary(self, *_):
        return lambda request, timeout: server_pb2.GetServerInfoResponse(version="0.0.7")


class ProtocolTest(unittest.TestCase):
    def test_a_server_that_is_new_enough_is_no_problem(self):
        self.assertEqual(protocol.why_too_old(None, protocol.LOWEST_OF_SERVER), "")
        self.assertEqual(protocol.why_too_old(None, protocol.PROTOCOL + 1), "")

    def test_an_older_server_is_named(self):
        self.assertEqual(
            protocol.why_too_old(FakeChannel(), 0),
            "the server is too old: gluond 0.0.7 speaks protocol 1, and this client, gluond "
            f"{mx.__version__.rpartition('gluond')[2]}, needs 3 or newer; start a newer server, or install the client of the server's release",
        )

    def test_a_session_with_it_is_refused(self):
        session = connect.current()
        told = []
        with mock.patch.object(protocol, "LOWEST_OF_SERVER", 1000), mock.patch.object(pipeline, "LOWEST_OF_SERVER", 1000):
            with self.assertRaises(mx.MXNetError):
                pipeline.Pipeline(
                    session.new_stream, session.channel, "test", lambda *why: told.append(why) or mx.MXNetError(), lambda: False
                )
        ((code, details),) = told
        self.assertEqual(code, 9)
        self.assertRegex(details, r"^the server is too old: gluond \d\S+ speaks protocol \d+, .* needs 1000 or newer")

    def test_the_server_tells_its_features(self):
        self.assertLessEqual({"pages", "registry-hash", "unknown-commands"}, set(connect.current().features))


class UnknownCommandTest(unittest.TestCase):
    COMMAND = encoding.command(fields.varint(4711 << 3 | 2), b"news")

    def test_who_waits_for_the_answer_gets_the_error(self):
        with self.assertRaisesRegex(mx.MXNetError, "field 4711 of Command.*newer server"):
            connect.current().request(self.COMMAND)
        self.assertEqual(mx.nd.ones(1).asscalar(), 1)

    def test_the_error_of_one_that_nobody_waits_for_comes_with_the_next_answer(self):
        connect.current().submit(self.COMMAND)
        with self.assertRaisesRegex(mx.MXNetError, "field 4711 of Command"):
            mx.nd.ones(1).asnumpy()
        self.assertEqual(mx.nd.ones(1).asscalar(), 1)


class OperatorsCacheTest(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.home)
        patch = mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(self.home)})
        patch.start()
        self.addCleanup(patch.stop)
        self.answer = operator_pb2.ListOperatorsResponse(registry_hash=HASH, operators=[{"name": "relu"}])
        self.file = self.home / "gluond" / f"operators-{HASH}.pb"

    def test_what_was_kept_is_found(self):
        self.assertIsNone(_operators_cache.load(HASH))
        _operators_cache.store(self.answer)
        self.assertEqual(_operators_cache.load(HASH), self.answer)
        self.assertEqual([path.name for path in self.file.parent.iterdir()], [self.file.name])

    def test_damaged_files_are_as_good_as_none(self):
        _operators_cache.store(self.answer)
        whole = self.file.read_bytes()
        for text in (b"", whole[:-3], whole.replace(HASH.encode(), b"f" * 16), b"\xff" * 100):
            self.file.write_bytes(text)
            self.assertIsNone(_operators_cache.load(HASH), text)
        self.file.unlink()
        self.file.mkdir()
        self.assertIsNone(_operators_cache.load(HASH))
        _operators_cache.store(self.answer)

    def test_a_server_names_no_other_files(self):
        for name in ("", "../" + HASH, "/etc/passwd", HASH + "\n", HASH.upper()):
            self.assertIsNone(_operators_cache.load(name))
            self.answer.registry_hash = name
            _operators_cache.store(self.answer)
        self.assertEqual(list(self.home.iterdir()), [])

    def test_old_ones_go(self):
        for number in range(12):
            self.answer.registry_hash = f"{number:016x}"
            _operators_cache.store(self.answer)
            os.utime(self.file.parent / f"operators-{number:016x}.pb", (number, number))
        kept = sorted(path.name for path in self.file.parent.iterdir())
        self.assertEqual(len(kept), 8)
        self.assertIn(f"operators-{11:016x}.pb", kept)

    def test_a_folder_that_cannot_be_written_does_not_matter(self):
        (self.home / "gluond").write_text("a file")
        _operators_cache.store(self.answer)
        self.assertIsNone(_operators_cache.load(HASH))

    def test_the_second_start_downloads_nothing(self):
        first = _operators._ask()
        with mock.patch.object(_operators, "_download", side_effect=AssertionError):
            second = _operators._ask()
        self.assertEqual(set(first), set(second))
        self.assertEqual(first["relu"].inputs, second["relu"].inputs)


if __name__ == "__main__":
    case_runner.main()
