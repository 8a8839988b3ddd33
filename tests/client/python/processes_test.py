"""The private local server and its process; forks."""

import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import gluond as mx
from gluond import nd
from gluond._wire import connect
from tests import case_runner
from tests.client.python.beside import in_child

START = """
import sys, gluond as mx
from gluond._wire import connect
x = mx.nd.ones(2)
x.asnumpy()
server = connect.current().local
def ready(): print(server._server.pid, server.address[5:], flush=True)
"""


def gone(pid, path, seconds=10):
    """Whether the process and its socket end within this time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            state = "Z"
        if state == "Z" and not os.path.exists(path):
            return True
        time.sleep(0.02)
    return False


def nobody_works_in(folder, seconds=10):
    """Whether, within this time, no process has `folder` in its command line."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(folder.encode() in read(path) for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")):
            return True
        time.sleep(0.05)
    return False


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


class LocalServerTest(unittest.TestCase):
    def start(self, code, begin=START, check=True):
        program = subprocess.Popen(
            [sys.executable, "-c", begin + code],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        )
        self.addCleanup(program.stdout.close)
        pid, path = program.stdout.readline().split()
        self.assertTrue(os.path.exists(path) or not check)
        return program, int(pid), path

    def test_it_needs_no_folder_to_write(self):
        with mock.patch.object(tempfile, "gettempdir", side_effect=FileNotFoundError("No usable temporary directory found")):
            mx.connect()
        self.addCleanup(mx.disconnect)
        self.assertTrue(connect.current().local.address.startswith("unix-abstract:"))
        self.assertEqual((nd.ones(2) + 1).asnumpy().sum(), 4)

    def test_it_ends_with_the_program(self):
        program, pid, path = self.start("ready()", check=False)
        self.assertEqual(program.wait(30), 0)
        self.assertTrue(gone(pid, path))

    def test_it_ends_when_the_program_is_killed(self):
        program, pid, path = self.start("ready(); import time; time.sleep(60)")
        program.kill()
        program.wait()
        self.assertTrue(gone(pid, path))

    def test_it_ends_when_the_program_is_killed_and_a_forked_child_lives_on(self):
        program, pid, path = self.start(
            """
import os, time
child = os.fork()
if child == 0: time.sleep(60); os._exit(0)
ready(); print(child, flush=True)
time.sleep(60)"""
        )
        child = int(program.stdout.readline())
        program.kill()
        program.wait()
        self.assertTrue(gone(pid, path))
        os.kill(child, signal.SIGKILL)  # It was there all the time.

    def test_it_outlives_the_thread_that_started_it(self):
        program, pid, path = self.start(
            "",
            """
import threading, time, gluond as mx
from gluond._wire import connect
thread = threading.Thread(target=lambda: mx.nd.ones(1).asnumpy())
thread.start(); thread.join()
server = connect.current().local
time.sleep(0.5)
print(server._server.pid, server.address[5:], flush=True)
print((mx.nd.ones(2) + 1).asnumpy().sum(), flush=True)
time.sleep(60)""",
        )
        self.assertEqual(program.stdout.readline().strip(), "4.0")
        program.kill()
        program.wait()
        self.assertTrue(gone(pid, path))

    def test_nothing_is_left_when_the_program_is_killed_while_it_starts(self):
        with tempfile.TemporaryDirectory() as folder:
            for delay in (0.0, 0.002, 0.004, 0.008, 0.016, 0.032):
                program = subprocess.Popen(
                    [sys.executable, "-c", "import gluond as mx; print(flush=True); mx.nd.ones(1)"],
                    stdout=subprocess.PIPE,
                    env={**os.environ, "PYTHONPATH": ":".join(sys.path), "TMPDIR": folder},
                )
                program.stdout.readline()
                time.sleep(delay)
                program.kill()
                program.communicate()
            self.assertTrue(nobody_works_in(folder))

    def test_when_it_ends_by_itself_the_error_says_so(self):
        program, pid, path = self.start(
            """
import os, signal
(x + 1).asnumpy()  # The list of operators is there then, also on a machine where no earlier program has left it.
os.kill(server._server.pid, signal.SIGKILL); server._server.wait(); ready()
try: (x + 1).asnumpy()
except mx.MXNetError as error: print("ended with code -9" in str(error), flush=True)""",
            check=False,
        )
        self.assertEqual(program.stdout.readline().strip(), "True")
        self.assertEqual(program.wait(30), 0)
        self.assertTrue(gone(pid, path))

    def test_it_outlives_the_interrupt_of_a_computation(self):
        program, pid, path = self.start(
            "import time\ntry: ready(); time.sleep(60)\n" "except KeyboardInterrupt: print((x + 1).asnumpy().sum(), flush=True)"
        )
        os.killpg(program.pid, signal.SIGINT)  # As Ctrl-C does.
        self.assertEqual(program.stdout.readline().strip(), "4.0")
        self.assertEqual(program.wait(30), 0)

    def test_only_its_user_reaches_it(self):
        nd.ones(1)
        folder = os.path.dirname(connect.current().local.address[5:])
        self.assertEqual(os.stat(folder).st_mode & 0o077, 0)

    def test_a_server_that_cannot_start_shows_its_words(self):
        environment = {**os.environ, "PYTHONPATH": ":".join(sys.path), "GLUOND_SERVER": "/bin/false"}
        result = subprocess.run(
            [sys.executable, "-c", "import gluond as mx; mx.nd.ones(1)"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertIn("/bin/false did not start", result.stderr)


def server_of_child():
    (nd.ones(3) + 1).asnumpy()
    return connect.current().address, connect.current().local is None


class ParentsServerTest(unittest.TestCase):
    """Processes that this one starts compute on its server, each in a session of its own."""

    def setUp(self):
        nd.ones(2).asnumpy()
        self.expected = connect.current().address, True

    def test_forked_children(self):
        self.assertTrue(in_child(lambda: server_of_child() == self.expected))
        self.assertTrue(in_child(lambda: in_child(lambda: server_of_child() == self.expected)))

    def test_processes_of_multiprocessing(self):
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method), multiprocessing.get_context(method).Pool(1) as pool:
                self.assertEqual(pool.apply(server_of_child), self.expected)

    def test_another_program_has_one_of_its_own(self):
        code = "import gluond as mx; from gluond._wire import connect; mx.nd.ones(1); print(connect.current().address)"
        variables = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
        address = subprocess.run(
            [sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=60, check=True
        )
        self.assertNotEqual(address.stdout.strip(), self.expected[0])

    def test_where_it_has_gone_a_child_starts_one(self):
        with mock.patch.dict(connect._inherited, {"GLUOND_ADDRESS": "unix:/not/there"}), mock.patch.object(
            connect, "_current", None
        ):
            self.assertIsNot(connect.current().local, None)
            connect.disconnect()


class ForkTest(unittest.TestCase):
    def test_a_child_has_a_session_of_its_own(self):
        x = nd.ones(2)
        x.asnumpy()
        self.assertTrue(in_child(lambda: (nd.ones(3) + 1).asnumpy().sum() == 6))
        self.assertEqual((x + 1).asnumpy().sum(), 4)

    def test_again_and_again(self):
        nd.ones(2).asnumpy()
        interval = sys.getswitchinterval()
        for _ in range(8):
            self.assertTrue(in_child(lambda: (nd.ones(3) + 1).asnumpy().sum() == 6))
        self.assertEqual(sys.getswitchinterval(), interval)
        self.assertEqual((nd.ones(3) + 1).asnumpy().sum(), 6)

    def test_a_parent_s_array_says_whose_it_is(self):
        x = nd.ones(2)
        x.asnumpy()

        def use():
            try:
                x + 1
            except mx.MXNetError as error:
                return "before a fork" in str(error)
            return False

        self.assertTrue(in_child(use))
        self.assertEqual(x.asnumpy().sum(), 2)


if __name__ == "__main__":
    case_runner.main()
