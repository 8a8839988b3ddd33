"""A command that waits for a server finds one that starts later, by a name with several addresses, too."""

from concurrent import futures
import pathlib
import subprocess
import time
import unittest

import grpc

from tests import case_runner

_BIN = pathlib.Path("client/cli/gluond")


class Reached(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda _, context: context.abort(grpc.StatusCode.UNIMPLEMENTED, "reached"))


def server(port=0):
    """A server that listens, and its port."""
    made = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Reached()])
    bound = made.add_insecure_port(f"127.0.0.1:{port}")
    made.start()
    return made, bound


class WaitTest(unittest.TestCase):
    def test_a_server_that_starts_later_is_found(self):
        # gRPC on its own looks again after 10 seconds or more where a sleeping client does not wait for the connection.
        first, port = server()
        first.stop(0).wait()
        with subprocess.Popen(
            [_BIN, "models", f"--address=localhost:{port}", "--wait=8s"], stderr=subprocess.PIPE, text=True
        ) as command:
            time.sleep(1)
            later, _ = server(port)
            self.addCleanup(later.stop, 0)
            self.assertIn("reached", command.communicate(timeout=60)[1])


if __name__ == "__main__":
    case_runner.main()
