"""The real server as a process of its own, for tests."""

import os
import pathlib
import signal
import subprocess
import tempfile
import time

BINARY = pathlib.Path("server/gluond-server")


def resident(pid):
    """The bytes of memory that a process has."""
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class RunningServer:
    """Starts gluond-server on a free port; stops it when the `with` block ends."""

    def __init__(self, *flags, binary=BINARY, **options):
        """`options` are Popen's, instead of pipes for the server's output."""
        self._folder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._folder.name)
        self._binary = binary
        self._flags = [f"--port_file={self.folder}/port", "--devices=cpu", f"--store_dir={self.folder}/store", *flags]
        self._options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        self.address = "127.0.0.1:0"
        self.start()

    def start(self):
        """Starts it; after an end, on the port and the store that it had."""
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        self.process = subprocess.Popen([self._binary, f"--address={self.address}", *self._flags], text=True, **self._options)
        deadline = time.monotonic() + 60
        while not port_file.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                said = "".join(text for text in self.process.communicate(timeout=10) if text)
                raise AssertionError(f"the server did not start:\n{said}")
            time.sleep(0.02)
        self.address = f"127.0.0.1:{int(port_file.read_text())}"

    def stop(self, signal_number=signal.SIGTERM, timeout=60):
        """Sends the signal; returns the exit code, standard output and standard error."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal_number)
        out, err = self.process.communicate(timeout=timeout)
        return self.process.returncode, out, err

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        self._folder.cleanup()


class Waits:
    """For a TestCase that waits for something of a server's."""

    def until(self, holds):
        end = time.monotonic() + 30
        while not holds():
            self.assertLess(time.monotonic(), end, "not within 30 s")
            time.sleep(0.1)
