"""`gluond health` as a probe: its exit status is the health service's answer, whatever else the server says."""

from concurrent import futures
import pathlib
import subprocess
import unittest

import grpc

from tests import case_runner

_BIN = pathlib.Path("client/cli/gluond")
_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"  # HealthCheckResponse.status.


class BusyServer(grpc.GenericRpcHandler):
  """Answers health, and refuses all other calls as a server does that has too many of them."""

  def __init__(self, status):
    self._status = status

  def service(self, details):
    def answer(_, context):
      if details.method == "/grpc.health.v1.Health/Check":
        return self._status
      context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "256 requests in flight")
    return grpc.unary_unary_rpc_method_handler(answer)


class HealthTest(unittest.TestCase):

  def health(self, status, *flags):
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[BusyServer(status)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    self.addCleanup(server.stop, 0)
    return subprocess.run([_BIN, "health", f"--address=127.0.0.1:{port}", *flags], capture_output=True, text=True,
                          timeout=120, check=False)

  def test_a_server_that_serves_is_healthy_though_it_is_too_busy_to_describe_itself(self):
    result = self.health(_SERVING)
    self.assertEqual(result.returncode, 0, result.stderr)
    self.assertIn("SERVING", result.stdout)
    self.assertIn("256 requests in flight", result.stdout)

  def test_quiet_asks_for_no_more(self):
    result = self.health(_SERVING, "--quiet")
    self.assertEqual((result.returncode, result.stdout), (0, "SERVING\n"))

  def test_without_a_wait_it_is_asked_once(self):
    result = self.health(_SERVING, "--quiet", "--wait=0s")
    self.assertEqual((result.returncode, result.stdout), (0, "SERVING\n"), result.stderr)

  def test_one_that_does_not_serve_is_not(self):
    for flags in ((), ("--quiet",)):
      self.assertEqual(self.health(_NOT_SERVING, *flags).returncode, 1)


if __name__ == "__main__":
  case_runner.main()
