"""The wheel, installed as pip does it but offline: the package that starts the server from within."""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

from tests import case_runner

WHEEL = next(pathlib.Path("client/python").glob("gluond-*.whl"))
PROGRAM = """
import gluond as mx
from gluond._wire import connect
print(mx.__file__)
print(mx.nd.ones((2, 3)).asnumpy().tolist())
pid = connect.current().local._server.pid
print(open(f"/proc/{pid}/maps").read())
"""
# They belong together, and to the machine.
C_LIBRARY = ("ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2")


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name).resolve()
        with zipfile.ZipFile(WHEEL) as wheel:
            for entry in wheel.infolist():
                path = wheel.extract(entry, cls.folder)
                os.chmod(path, entry.external_attr >> 16 & 0o777 or 0o644)

    def test_it_computes_with_the_server_in_it_and_the_libraries_in_it(self):
        environment = {"PATH": "/nowhere", "PYTHONPATH": str(self.folder), "HOME": str(self.folder)}
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
            timeout=120,
            check=True,
        )
        module, values, maps = result.stdout.split("\n", 2)
        self.assertEqual(module, str(self.folder / "gluond" / "__init__.py"))
        self.assertEqual(values, "[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]")
        loaded = {pathlib.Path(path) for path in re.findall(r" (/\S+)$", maps, re.MULTILINE)}
        self.assertIn(self.folder / "gluond" / "_bin" / "gluond-server", loaded)
        others = {path.name for path in loaded if self.folder not in path.parents and ".so" in path.name}
        self.assertEqual(others - set(C_LIBRARY), set())

    def test_its_commands_are_the_programs_in_it(self):
        scripts = next(self.folder.glob("gluond-*.data")) / "scripts"
        self.assertEqual({path.name for path in scripts.iterdir()}, {"gluond", "gluond-server"})
        environment = {"PATH": "/nowhere", "PYTHONPATH": str(self.folder)}
        for command, argument, answer in (
            ("gluond", "serve", "gluond-server 0"),
            ("gluond-server", "--version", "gluond-server 0"),
            ("gluond", "--version", "gluond 0"),
        ):
            self.assertEqual((scripts / command).read_text().splitlines()[0], "#!python")  # pip's sign to name its own.
            told = subprocess.run(
                [sys.executable, scripts / command, argument, "--version"],
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.assertEqual(told.returncode, 0, told.stderr)
            self.assertTrue(told.stdout.startswith(answer), told.stdout)

    def test_its_record_is_true_and_whole(self):
        with zipfile.ZipFile(WHEEL) as wheel:
            folder = next(name for name in wheel.namelist() if name.endswith("/RECORD"))
            rows = [line.split(",") for line in wheel.read(folder).decode().splitlines()]
            self.assertEqual([name for name, _, _ in rows], wheel.namelist())
            for name, digest, size in rows[:-1]:
                content = wheel.read(name)
                self.assertEqual(int(size), len(content))
                self.assertEqual(
                    digest, "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode(), name
                )

    def test_it_says_what_it_is(self):
        metadata = next(self.folder.glob("*.dist-info/METADATA")).read_text()
        tag = next(self.folder.glob("*.dist-info/WHEEL")).read_text()
        name, version, tags = WHEEL.stem.split("-", 2)
        self.assertIn(f"Name: {name}\nVersion: {version}\n", metadata)
        self.assertIn("Requires-Python: >=3.9\n", metadata)
        self.assertIn("Requires-Dist: numpy>=", metadata)
        self.assertIn("Root-Is-Purelib: false\n", tag)
        self.assertIn(f"Tag: {tags}\n", tag)
        self.assertIn("linux_x86_64", tags)


if __name__ == "__main__":
    case_runner.main()
