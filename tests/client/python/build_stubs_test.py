"""What `pip install` runs to make the messages of the wire."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from tests import case_runner

_SCRIPT = pathlib.Path("client/python/build_stubs.py").absolute()


class BuildStubsTest(unittest.TestCase):
    def test_a_folder_outside_of_a_checkout_is_told(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "elsewhere", "client", "python")
        folder.mkdir(parents=True)
        shutil.copy(_SCRIPT, folder)
        made = subprocess.run([sys.executable, folder / _SCRIPT.name], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(made.returncode, 1)
        self.assertRegex(
            made.stderr, "^gluond is installed from its checkout, whose proto/ .* `pip install CHECKOUT/client/python`"
        )
        self.assertNotIn("Traceback", made.stderr)


if __name__ == "__main__":
    case_runner.main()
