"""The quickstart says first what it will do, tells how its build goes on, and does nothing twice.

The scripts run as they are, in a folder of their own. The programs that they call are scripts, which note each call in `calls`.
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest
import zipfile

from tests import case_runner

GLUOND = """
[[ $1 == train ]] && echo "test accuracy: 0.9123"
exit 0"""
SERVER = """
for each in "$@"; do [[ $each != --port_file=* ]] || echo 50051 >"${each#--port_file=}"; done
trap 'exit 0' TERM
while true; do sleep 0.05; done"""
BAZEL = """
cd "$(dirname "$0")/.."
echo "INFO: Analyzed 3 targets" >&2
for done in 100 120 140 160; do echo "[$done / 1,160] Compiling server/a.cc; 3s" >&2; sleep "${FAKE_PACE:-0}"; done
[[ -z ${FAKE_ERROR:-} ]] || { echo "server/a.cc:1:1: error: $FAKE_ERROR" >&2; exit 1; }
mkdir -p bazel-bin/server bazel-bin/client/cli
cp bin/a-server bazel-bin/server/gluond-server
cp bin/a-gluond bazel-bin/client/cli/gluond"""
DPKG_QUERY = """
cat "$(dirname "$0")/../installed" """
APT_GET = """
for each in "$@"; do echo "$each installed"; done >>"$(dirname "$0")/../installed" """


class QuickstartPlanTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        (self.folder / "deploy").mkdir()
        for script in ("quickstart.sh", "quickstart_server.sh", "setup.sh"):
            shutil.copy(pathlib.Path("deploy", script), self.folder / "deploy" / script)
        (self.folder / "server").mkdir()
        for name in "abcd":
            (self.folder / "server" / f"{name}.cc").write_text("")
        (self.folder / "installed").write_text("")
        (self.folder / "images").mkdir()
        for name, script in (
            ("a-gluond", GLUOND),
            ("a-server", SERVER),
            ("bazel", BAZEL),
            ("dpkg-query", DPKG_QUERY),
            ("apt-get", APT_GET),
            ("sudo", '\nexec "$@"'),
            ("nproc", "\necho ${FAKE_PROCESSORS:-2}"),
        ):
            self.write(f"bin/{name}", script)

    def write(self, path, script):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/bash\necho "$(basename "$0")" >>"{self.folder}/calls"{script}\n')
        path.chmod(0o755)

    def run_it(self, *arguments, status=0, path="bin", **environment):
        """(output, the programs that were called) of a run that is to end with this status."""
        (self.folder / "calls").write_text("")
        ran = subprocess.run(
            [self.folder / "deploy/quickstart.sh", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
            cwd=self.folder,
            env={**os.environ, "PATH": f"{self.folder / path}:{self.folder / 'bin'}:/usr/bin:/bin", **environment},
        )
        self.assertEqual(ran.returncode, status, ran.stdout)
        if status == 0:
            self.assertEqual(ran.stdout.splitlines()[-1], "test accuracy: 0.9123")
        return ran.stdout, (self.folder / "calls").read_text().split()

    def built(self, name, *sources):
        """What the build leaves of an object: the compiler's notes, and the file that several sources were joined to."""
        room = self.folder / "bazel-bin/server"
        notes = room / "_objs/server" / f"{name}.d"
        notes.parent.mkdir(parents=True, exist_ok=True)
        notes.write_text(f"bazel-out/bin/server/{name}.o: server/{name}.cc\n")
        if sources:
            lines = [f'#line 1 "server/{source}.cc"\n#include "server/{source}.h"\n' for source in sources]
            (room / f"{name}.cc").write_text("".join(lines))

    def test_it_says_first_what_it_installs_and_how_long_it_takes(self):
        output, calls = self.run_it()
        plan, _, rest = output.partition("== 1/5 packages")
        self.assertRegex(plan, r"installs  \d+ Debian packages, by apt-get as root")
        self.assertRegex(plan, r"\bbazel-bootstrap\b")
        self.assertRegex(plan, r"builds    the server and its clients: about 8 minutes on 2 processor")
        self.assertIn("writes    quickstart/", plan)
        self.assertLess(calls.index("nproc"), calls.index("apt-get"))
        self.assertLess(calls.index("apt-get"), calls.index("bazel"))
        self.assertIn("setup: done", rest)

    def test_the_time_follows_from_the_processors_and_from_what_is_built(self):
        self.assertIn("about 2 minutes on 8 processor", self.run_it(FAKE_ERROR="x", FAKE_PROCESSORS="8", status=1)[0])
        self.built("joined_0", "a", "b")
        self.built("c.pic")
        self.assertIn("about 4 minutes on 2 processor", self.run_it(FAKE_ERROR="x", status=1)[0])
        self.built("joined_1", "c", "d")
        self.assertIn("builds    what has changed since the last build", self.run_it(FAKE_ERROR="x", status=1)[0])

    def test_without_a_terminal_it_tells_how_the_build_goes_on(self):
        output, _ = self.run_it(FAKE_PACE="1.1", QUICKSTART_SECONDS="1")
        self.assertRegex(output, r"\n  built 1[246]0 of 1160 parts, (about|less than) .*minute.* to go\n")
        self.assertNotIn("Compiling", output)
        self.assertNotIn("INFO", output)

    def test_an_error_of_the_build_ends_it_and_is_shown(self):
        output, _ = self.run_it(FAKE_ERROR="no such thing", status=1)
        self.assertIn("server/a.cc:1:1: error: no such thing\n", output)
        self.assertNotIn("3/5", output)
        self.assertIn("bazel", self.run_it()[1])  # Nothing is taken for built.

    def test_a_second_run_installs_and_builds_nothing_until_a_source_changes(self):
        self.run_it()
        output, calls = self.run_it()
        self.assertFalse({"bazel", "apt-get", "sudo"} & set(calls), calls)
        self.assertIn("installs  nothing", output)
        self.assertIn("builds    nothing: the last build is up to date", output)
        for change in (
            lambda: (self.folder / "server/a.cc").write_text("int a;"),
            lambda: (self.folder / "server/b.cc").unlink(),
            lambda: (self.folder / "bazel-bin/server/gluond-server").touch(),
        ):
            time.sleep(0.01)
            change()
            self.assertIn("bazel", self.run_it()[1])

    def test_with_the_programs_on_path_nothing_is_installed_or_built(self):
        self.write("elsewhere/gluond", GLUOND)
        self.write("elsewhere/gluond-server", SERVER)
        output, calls = self.run_it("--data=images", path="elsewhere")
        self.assertEqual(set(calls), {"nproc", "gluond", "gluond-server"})
        self.assertIn(f"runs {self.folder}/elsewhere/gluond-server", output)
        self.assertIn("bazel", self.run_it("--build", "--data=images", path="elsewhere")[1])

    def test_the_programs_of_this_checkouts_build_are_built(self):
        self.run_it()
        shutil.copytree(self.folder / "bazel-bin", self.folder / "kept")
        (self.folder / "here").mkdir()
        for name in ("server/gluond-server", "client/cli/gluond"):
            (self.folder / "here" / pathlib.Path(name).name).symlink_to(self.folder / "bazel-bin" / name)
        (self.folder / "server/a.cc").write_text("int a;")
        self.assertIn("bazel", self.run_it(path="here")[1])

    @unittest.skipUnless(importlib.util.find_spec("ensurepip"), "needs python3-venv")
    def test_with_a_wheel_nothing_is_installed_as_root_or_built(self):
        wheel = self.folder / "gluond-0.1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, script in ("gluond", GLUOND), ("gluond-server", SERVER):
                entry = zipfile.ZipInfo(f"gluond-0.1.0.data/scripts/{name}")
                entry.external_attr = 0o100755 << 16
                archive.writestr(entry, f'#!/bin/bash\necho "$(basename "$0")" >>"{self.folder}/calls"{script}\n')
            archive.writestr(
                "gluond-0.1.0.dist-info/METADATA",
                "Metadata-Version: 2.1\nName: gluond\nVersion: 0.1.0\n" "Requires-Dist: no-such-thing-that-pip-would-want\n",
            )
            archive.writestr(
                "gluond-0.1.0.dist-info/WHEEL",
                "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\n" "Tag: py3-none-any\n",
            )
            archive.writestr("gluond-0.1.0.dist-info/RECORD", "")
        output, calls = self.run_it(f"--wheel={wheel.name}", "--data=images")
        self.assertEqual(set(calls), {"nproc", "gluond", "gluond-server"})
        self.assertIn(f"installs  {wheel.name} into quickstart/.venv; nothing as root", output)
        installed = self.folder / "quickstart/.venv/installed"
        first = installed.stat().st_mtime_ns
        self.run_it(f"--wheel={wheel.name}", "--data=images")
        self.assertEqual(installed.stat().st_mtime_ns, first)
        self.assertIn("there is no ", self.run_it("--wheel=other.whl", "--data=images", status=1)[0])

    def test_an_option_that_there_is_not_is_refused(self):
        output, calls = self.run_it("--whel=x", status=1)
        self.assertIn("there is no option --whel=x", output)
        self.assertEqual(calls, [])


if __name__ == "__main__":
    case_runner.main()
