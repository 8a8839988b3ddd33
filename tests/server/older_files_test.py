"""Files of identities and tenants, a store and flags of an earlier release are good as they are: older_files.tar.gz has such.

Its models `m`, alice's and ann's of acme, have been initialized and given a trainer by numbered calls of the client `laptop-7`.
"""

import pathlib
import tarfile

import grpc

from tests import case_runner
from tests.server.reflection_client import Reflection
from tests.server.running_server import RunningServer
from tests.server.tenants_fixture import MODELS, SERVER, STATUS, TRAINING, TenantsCase

FILES = pathlib.Path("tests/server/older_files.tar.gz").absolute()
LONGEST = "n" * 64


class OlderFilesTest(TenantsCase):
    def setUp(self):
        super().setUp()
        with tarfile.open(FILES) as files:
            files.extractall(self.folder)
        self.server = self._exits.enter_context(
            RunningServer(f"--identities={self.identities}", f"--tenants={self.tenants}", f"--store_dir={self.folder}/store")
        )

    @staticmethod
    def token(name):
        return f"token-of-{name[0] if name == LONGEST else name}".encode()

    def test_callers_are_who_they_were(self):
        for name, creates in (("alice", True), ("acme/ann", True), ("root", True), ("carol", False), (LONGEST, False)):
            client = Reflection(self.channel(name))
            self.assertIn("version", client.call(SERVER, "GetServerInfo", {}), name)
            if creates:
                self.define(client, "acme/new" if name == "root" else f"of-{name.replace('/', '-')}")
                continue
            with self.assertRaises(grpc.RpcError) as caught:
                client.call(MODELS, "DeleteModel", {"model": "m"})
            self.assertEqual(caught.exception.code(), STATUS.PERMISSION_DENIED, name)

    def test_clients_go_on_by_their_numbers(self):
        for name in ("alice", "acme/ann"):
            client = Reflection(self.channel(name))
            sequence = client.call(TRAINING, "GetSequence", {"model": "m", "clientId": "laptop-7"})
            self.assertEqual((sequence["last"], sequence["durable"]), ("2", "2"), name)
            client.call(
                TRAINING, "SetLearningRate", {"model": "m", "learningRate": 0.1, "call": {"clientId": "laptop-7", "sequence": "3"}}
            )


if __name__ == "__main__":
    case_runner.main()
