"""deploy/grpcurl/run.sh with the real grpcurl: every document is answered, in clear, and by TLS with a token."""

from tests.peers import installed  # The first import: it goes on in another Python.
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from tests import case_runner
from tests.server.running_server import RunningServer

PLAY = pathlib.Path("deploy/grpcurl/run.sh")
GLUOND = pathlib.Path("client/cli/gluond").absolute()
DOCUMENTS = sorted(PLAY.parent.glob("*.json"))


def play(*arguments):
    return subprocess.run(
        [PLAY, *arguments],
        env={**os.environ, "GRPCURL": str(installed.FOLDER / "venv/bin/grpcurl")},
        text=True,
        capture_output=True,
        timeout=200,
        check=False,
    )


class GrpcurlTest(unittest.TestCase):
    def assert_all_answered(self, played):
        self.assertEqual(played.returncode, 0, played.stdout + played.stderr)
        names = re.findall(r"^== (\S+) \(1 of \d+\)$", played.stdout, re.M)
        self.assertEqual(names, [path.name for path in DOCUMENTS])
        self.assertTrue(played.stdout.endswith("all documents were answered\n"))

    def test_in_clear(self):
        with RunningServer() as server:
            self.assert_all_answered(play(server.address))

    def test_by_tls_with_a_token(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            subprocess.run([GLUOND, "certificates", "tls", "--hosts=127.0.0.1"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            made = subprocess.run(
                [GLUOND, "token", "ann", "--roles=infer,train,publish"], cwd=folder, check=True, stdout=subprocess.PIPE
            )
            (folder / "identities").write_bytes(made.stdout)
            with RunningServer(
                f"--tls_cert={folder}/tls/server.pem", f"--tls_key={folder}/tls/server.key", f"--identities={folder}/identities"
            ) as server:
                self.assert_all_answered(play(f"--tls_ca={folder}/tls/ca.pem", f"--token_file={folder}/ann.token", server.address))
                nobody = play(f"--tls_ca={folder}/tls/ca.pem", server.address)
                self.assertEqual(nobody.returncode, 1)
                self.assertIn("the server wants to know who calls", nobody.stderr)
                self.assertIn(f"run.sh: {DOCUMENTS[0].name} failed", nobody.stderr)

    def test_mistakes_are_told(self):
        for arguments, status, told in (
            (["--tls_cap=x", "127.0.0.1:1"], 2, "unknown option '--tls_cap=x'; --help lists them"),
            (["--token_file=none", "127.0.0.1:1"], 1, "cannot read 'none'"),
            ([], 2, "run.sh [OPTION...]"),
        ):
            played = play(*arguments)
            self.assertEqual(played.returncode, status)
            self.assertIn(told, played.stderr)


if __name__ == "__main__":
    case_runner.main()
