"""A server that starts as deploy/kubernetes says: probes, Secrets that change, and its end."""

import os
import signal
import subprocess
import time

from tests import case_runner
from tests.deploy import manifests
from tests.deploy.manifests_case import ManifestsCase
from tests.server.identity_fixture import STATUS
from tests.server.running_server import BINARY
from tests.server.watched_server import get


class OneServerTest(ManifestsCase):
    def setUp(self):
        super().setUp()
        self.server = self.pod("gluond-0", manifests.CPU, **{"0.0.0.0:50051": "0.0.0.0:0"})
        self.port = self.server.port

    def code(self, token=None):
        return self.ask(self.channel(self.server, self.tls), self.INFO, token)[0]

    def test_probes_are_answered_and_strangers_are_not(self):
        self.assertTrue(self.is_ready(self.server))
        self.assertEqual(get(self.port)[0], 401)
        self.assertEqual(get(self.port, Authorization="Bearer a-secret")[0], 200)
        self.assertEqual(self.code(), STATUS.UNAUTHENTICATED)
        self.assertEqual(self.code(self.alice), STATUS.OK)

    def test_the_tag_is_the_servers_release(self):
        release = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
        for overlay in manifests.OVERLAYS:
            (image,) = manifests.kustomization(overlay)["images"]
            self.assertEqual(image["newTag"], release)

    def test_a_changed_secret_is_taken_up(self):
        self.assertEqual(self.code(self.alice), STATUS.OK)
        self.identities.write_text("")
        bob = self.token("bob", "infer")
        self.secret("gluond-0", "identities", {"identities": self.identities.read_text()})
        self.secret("gluond-0", "metrics", {"token": "another\n"})
        self.until(lambda: self.code(bob) == STATUS.OK)
        self.assertEqual(self.code(self.alice), STATUS.UNAUTHENTICATED)
        self.assertEqual(get(self.port, Authorization="Bearer a-secret")[0], 401)
        self.assertEqual(get(self.port, Authorization="Bearer another")[0], 200)

    def test_an_end_lets_calls_in_until_the_service_has_heard_of_it(self):
        begin = time.monotonic()
        os.kill(self.server.process.pid, signal.SIGTERM)
        self.until(lambda: self.probes(self.server)["readiness"] == 503)
        self.assertEqual(self.probes(self.server), {"startup": 200, "liveness": 200, "readiness": 503})
        self.assertEqual(self.code(self.alice), STATUS.OK)
        pod = manifests.pod(manifests.workload(manifests.CPU))
        self.server.process.communicate(timeout=pod["terminationGracePeriodSeconds"])
        self.assertEqual(self.server.process.returncode, 0)
        self.assertGreaterEqual(time.monotonic() - begin, manifests.config(manifests.BASE)["lame_duck_seconds"])
        self.assertTrue((self.folder / "gluond-0/store").is_dir())


if __name__ == "__main__":
    case_runner.main()
