"""The file of keys: its place and permissions, several processes at once, and keys that are wrong or missing."""

import json
import os
import pathlib
import stat
import types
import unittest
import warnings
from unittest import mock

import gluond as mx
from gluond import nd
from gluond._remote import keys
from gluond._wire import connect
from tests import case_runner
from tests.client.python.saved_case import SavedCase, program, started

MANY = """
import types
from gluond._remote import keys
print(flush=True)
input()
for number in range(20):
    keys.store(types.SimpleNamespace(address="a:1", local=None), f"name{%d}-{number}", "key")
"""


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


class FileTest(SavedCase):
    def setUp(self):
        super().setUp()
        self.session = types.SimpleNamespace(address="a:1", local=None)

    def test_its_place_is_this_users(self):
        self.assertEqual(keys.path(), pathlib.Path(self.folder) / "gluond" / "sessions")
        with mock.patch.dict(os.environ, {"HOME": "/home/anna"}):
            del os.environ["XDG_CONFIG_HOME"]
            self.assertEqual(keys.path(), pathlib.Path("/home/anna/.config/gluond/sessions"))

    def test_only_its_user_reads_it(self):
        keys.store(self.session, "run", "k")
        self.assertEqual((mode(keys.path()), mode(keys.path().parent)), (0o600, 0o700))
        keys.path().chmod(0o644)
        keys.path().parent.chmod(0o755)
        self.assertEqual(keys.find(self.session, "run"), "k")
        self.assertEqual(mode(keys.path()), 0o600)
        keys.path().chmod(0o644)
        keys.store(self.session, "run", "k2")
        self.assertEqual((mode(keys.path()), mode(keys.path().parent)), (0o600, 0o700))

    def test_a_key_is_of_a_server_and_a_name(self):
        keys.store(self.session, "run", "k")
        other = types.SimpleNamespace(address="b:1", local=None)
        self.assertIsNone(keys.find(other, "run"))
        self.assertIsNone(keys.find(self.session, "run2"))
        keys.forget(self.session, "run")
        self.assertIsNone(keys.find(self.session, "run"))
        self.assertEqual(json.loads(keys.path().read_text()), {"format": 1, "keys": {}})

    def test_the_file_counts_more_than_this_processs_memory(self):
        keys.store(self.session, "run", "k")
        keys.path().write_text('{"format": 1, "keys": {"a:1": {"run": "newer"}}}')
        self.assertEqual(keys.find(self.session, "run"), "newer")

    def test_several_processes_at_once_lose_nothing(self):
        programs = [program(MANY % number) for number in range(6)]
        for each in programs:
            each.stdout.readline()
        for each in programs:
            each.stdin.write("\n")
            each.stdin.flush()
        for each in programs:
            each.communicate(timeout=60)
            self.assertEqual(each.returncode, 0)
        self.assertEqual(len(json.loads(keys.path().read_text())["keys"]["a:1"]), 6 * 20)
        self.assertEqual(sorted(os.listdir(keys.path().parent)), ["sessions", "sessions.lock"])

    def test_a_damaged_file_says_so(self):
        keys.store(self.session, "run", "k")
        for text in (
            "",
            "{",
            "[]",
            '{"format": 2, "keys": {}}',
            '{"format": 1, "keys": {"a": 1}}',
            "[" * 100000,
            '{"format": 1, "keys": {"a": {"b": 1}}}',
        ):
            keys.path().write_text(text)
            for call in (lambda: keys.find(self.session, "run"), lambda: keys.store(self.session, "other", "k")):
                with self.subTest(text[:20]), self.assertRaisesRegex(mx.MXNetError, f"{keys.path()}, .*as key="):
                    call()
            self.assertEqual(keys.path().read_text(), text)
        keys.path().write_bytes(b"\xff")
        with self.assertRaisesRegex(mx.MXNetError, "cannot be read"):
            keys.find(self.session, "run")

    def test_a_write_that_fails_leaves_the_file(self):
        keys.store(self.session, "run", "k")
        with mock.patch("os.replace", side_effect=OSError("the disk is full")), self.assertRaises(OSError):
            keys.store(self.session, "other", "k")
        self.assertEqual(sorted(os.listdir(keys.path().parent)), ["sessions", "sessions.lock"])
        self.assertEqual(keys.find(self.session, "run"), "k")


class ServerTest(SavedCase):
    def setUp(self):
        super().setUp()
        self.server = started(self)

    def test_another_user_needs_the_key(self):
        key = mx.save_session("run", x=nd.ones(1))
        keys.forget(connect.current(), "run")
        with self.assertRaisesRegex(
            mx.MXNetError,
            rf"no key of 'run' in {keys.path()} under '{self.server.address}'; "
            r"save_session has returned it: mx.attach\('run', key=key\)",
        ):
            mx.attach("run")
        with self.assertRaisesRegex(mx.MXNetError, f"'run' was saved with another key.*{keys.path()}"):
            mx.save_session("run", x=nd.zeros(1))
        self.assertIsNone(keys.find(connect.current(), "run"))  # The key that the save proposed opens nothing.
        self.assert_equal(mx.attach("run", key=key).x, [1])
        self.assertEqual(mx.save_session("run", x=nd.zeros(1)), key)  # attach() has kept it.

    def test_a_wrong_key_names_the_file(self):
        mx.save_session("run", x=nd.ones(1))
        for call in (
            lambda key: mx.attach("run", key=key),
            lambda key: mx.save_session("run", key=key, x=nd.zeros(1)),
            lambda key: mx.delete_session("run", key=key),
        ):
            with self.assertRaisesRegex(mx.MXNetError, f"'run' was saved with another key.*{keys.path()}"):
                call("0" * 32)
        self.assert_equal(mx.attach("run").x, [1])

    def test_a_damaged_file_stops_a_save_before_it_is_made(self):
        keys.store(connect.current(), "other", "k")
        keys.path().write_text("{")
        with self.assertRaisesRegex(mx.MXNetError, "cannot be read"):
            mx.save_session("run", x=nd.ones(1))
        self.assertEqual(mx.sessions(), [])

    def test_a_key_that_cannot_be_written_is_told(self):
        pathlib.Path(self.folder, "gluond").write_text("A file is in the folder's place.")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with mock.patch.object(keys, "_read", return_value={}):
                key = mx.save_session("run", x=nd.ones(1))
                self.assertRegex(str(told[0].message), f"'run' could not be written to .*Keep it yourself: {key}")
                self.assert_equal(mx.attach("run").x, [1])  # This process knows it.

    def test_a_kept_key_of_a_save_that_is_gone_is_no_obstacle(self):
        mx.save_session("run", x=nd.ones(1))
        key = keys.find(connect.current(), "run")
        mx.delete_session("run")
        keys.store(connect.current(), "run", key)
        self.assertEqual(mx.save_session("run", x=nd.zeros(1)), key)
        self.assert_equal(mx.attach("run").x, [0])

    def test_a_save_whose_answer_is_lost_leaves_its_key(self):
        with mock.patch.object(connect.current(), "request", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                mx.save_session("run", x=nd.ones(1))
        key = keys.find(connect.current(), "run")
        self.assertEqual(mx.save_session("run", x=nd.zeros(1)), key)

    def test_a_deleted_save_is_forgotten(self):
        mx.save_session("run", x=nd.ones(1))
        mx.delete_session("run")
        self.assertIsNone(keys.find(connect.current(), "run"))
        with self.assertRaisesRegex(mx.MXNetError, "run"):
            mx.delete_session("run")


class PrivateServerTest(SavedCase):
    def test_its_keys_are_in_this_process_alone(self):
        mx.connect()
        session = connect.current()
        if session.local is None:
            raise unittest.SkipTest("GLUOND_ADDRESS names a server")
        mx.save_session("run", x=nd.ones(1))
        self.assert_equal(mx.attach("run").x, [1])
        self.assertFalse(keys.path().exists())
        self.assertFalse(mx.sessions()[0].stored)
        with self.assertRaisesRegex(mx.MXNetError, "no key of 'other' in this process"):
            mx.attach("other")


if __name__ == "__main__":
    case_runner.main()
