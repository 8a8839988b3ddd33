"""The commit that a program was built from: what Bazel is told of it, with git and without."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from tests import case_runner

STATUS = pathlib.Path("bazel/workspace_status.sh")


class CommitTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "bazel").mkdir()
        shutil.copy(STATUS, self.root / STATUS)

    def told(self, **environment):
        result = subprocess.run(
            ["/bin/sh", self.root / STATUS],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(self.root.parent), **environment},
        )
        self.assertEqual(result.stderr, "")
        return result.stdout

    def git(self, *arguments):
        return subprocess.run(
            ["git", "-C", self.root, "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout.strip()

    def test_a_folder_that_is_no_clone_has_none(self):
        self.assertEqual(self.told(), "GLUOND_COMMIT unknown\n")

    def test_so_has_a_machine_without_git(self):
        bare = self.root / "bin"
        bare.mkdir()
        os.symlink(shutil.which("dirname"), bare / "dirname")
        self.assertEqual(self.told(PATH=str(bare)), "GLUOND_COMMIT unknown\n")

    @unittest.skipUnless(shutil.which("git"), "needs git")
    def test_a_clone_has_its_own_and_says_where_it_differs(self):
        self.git("init")
        self.git("add", ".")
        self.git("commit", "-m", "one")
        commit = self.git("rev-parse", "--short=12", "HEAD")
        self.assertEqual(self.told(), f"GLUOND_COMMIT {commit}\n")
        (self.root / STATUS).write_text((self.root / STATUS).read_text() + "\n")
        self.assertEqual(self.told(), f"GLUOND_COMMIT {commit}-dirty\n")


if __name__ == "__main__":
    case_runner.main()
