"""Where a private server's program is looked for, and in which order."""

import json
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import gluond as mx
from gluond._wire import server_binary
from tests import case_runner


def program(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


class ServerBinaryTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.checkout = self.root / "checkout"
        self.checkout.mkdir()
        (self.checkout / "WORKSPACE").touch()
        self.noted = None  # pip's notes about the installation.
        self.package = self.root / "site-packages" / "gluond"
        self.path = self.root / "bin"
        self.environment = {"PATH": str(self.path)}

    def find(self):
        distribution = mock.Mock(read_text=lambda name: self.noted)
        with mock.patch.object(server_binary, "_PACKAGE", self.package), mock.patch.object(
            server_binary.metadata, "distribution", lambda name: distribution
        ), mock.patch.dict(os.environ, self.environment, clear=True):
            return server_binary.find()

    def test_the_first_of_these(self):
        built = program(self.checkout / "bazel-bin" / "server" / "gluond-server")
        self.package = self.checkout / "client" / "python" / "gluond"
        self.assertEqual(self.find(), built)
        on_path = program(self.path / "gluond-server")
        self.assertEqual(self.find(), on_path)
        packed = program(self.package / "_bin" / "gluond-server")
        self.assertEqual(self.find(), packed)
        named = self.environment["GLUOND_SERVER"] = program(self.root / "mine")
        self.assertEqual(self.find(), named)

    def test_a_name_that_is_no_program_is_an_error_though_others_are_there(self):
        program(self.path / "gluond-server")
        (self.root / "text").touch()
        for wrong in (self.root / "nothing", self.root / "text", self.root):
            self.environment["GLUOND_SERVER"] = str(wrong)
            with self.assertRaisesRegex(mx.MXNetError, f"GLUOND_SERVER={wrong} is no program"):
                self.find()

    def test_the_build_of_the_checkout_that_pip_installed_from(self):
        built = program(self.checkout / "bazel-bin" / "server" / "gluond-server")
        self.noted = json.dumps({"url": (self.checkout / "client" / "python").as_uri(), "dir_info": {}})
        self.assertEqual(self.find(), built)

    def test_another_project_s_checkout_around_the_environment_has_no_server(self):
        (self.root / "WORKSPACE").touch()
        with self.assertRaises(mx.MXNetError):
            self.find()

    def test_the_error_names_the_build_command(self):
        for noted in (None, "{}", "no json", '{"url": "https://somewhere/gluond.whl"}'):
            self.noted = noted
            with self.assertRaisesRegex(mx.MXNetError, "`bazel build //server:gluond-server` in a checkout.*GLUOND_SERVER="):
                self.find()

    def test_and_the_folder_where_the_checkout_is_known(self):
        self.package = self.checkout / "client" / "python" / "gluond"
        with self.assertRaisesRegex(mx.MXNetError, f"`cd {self.checkout} && bazel build //server:gluond-server`"):
            self.find()


if __name__ == "__main__":
    case_runner.main()
