"""The server without a GPU: it has no CUDA among its dependencies, says in one line why it computes on the CPU, and
refuses to start where a GPU was demanded."""

import os
import signal
import subprocess
import tempfile
import time
import unittest

from tests import case_runner

SERVER = "server/gluond-server"


def start(folder, *flags):
    return subprocess.Popen(
        [SERVER, "--address=127.0.0.1:0", f"--port_file={folder}/port", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class ServerDevicesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.broken = os.path.join(self.folder, "broken.so")
        with open(self.broken, "w") as file:
            file.write("no plugin")

    def run_until_it_listens(self, *flags):
        """Its output, after a start and a stop that both went well."""
        server = start(self.folder, *flags)
        self.addCleanup(server.kill)
        for _ in range(300):
            if os.path.exists(f"{self.folder}/port") or server.poll() is not None:
                break
            time.sleep(0.1)
        server.send_signal(signal.SIGTERM)
        out, err = server.communicate(timeout=60)
        self.assertEqual(server.returncode, 0, err)
        return out, err

    def test_auto_goes_on_with_the_cpu_and_says_why(self):
        out, err = self.run_until_it_listens("--devices=auto", f"--cuda_plugin={self.broken}")
        self.assertIn("device cpu", out)
        lines = [line for line in err.splitlines() if "GPU" in line]
        self.assertEqual(len(lines), 1, err)
        self.assertIn("is no CUDA plugin of gluond", lines[0])
        self.assertIn("computing on the CPU", lines[0])

    def test_cpu_does_not_ask_for_a_plugin(self):
        out, err = self.run_until_it_listens("--devices=cpu", f"--cuda_plugin={self.broken}")
        self.assertIn("device cpu", out)
        self.assertNotIn("GPU", err)

    def test_a_demanded_gpu_that_is_not_there_is_a_refusal(self):
        server = start(self.folder, "--devices=gpu:0", f"--cuda_plugin={self.broken}")
        out, err = server.communicate(timeout=60)
        self.assertEqual(server.returncode, 1)
        self.assertIn("no GPU", err)
        self.assertEqual(len(err.strip().splitlines()), 1, err)

    def test_the_server_needs_no_cuda(self):
        libraries = subprocess.run(["ldd", SERVER], check=True, stdout=subprocess.PIPE, text=True).stdout
        self.assertIn("libc.so", libraries)
        for name in ("libcuda", "libcudart", "libcublas", "libcudnn", "libnvrtc"):
            self.assertNotIn(name, libraries)


if __name__ == "__main__":
    case_runner.main()
