"""A server that starts as deploy/kubernetes says: probes, Secrets that change, and its end."""

import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

from tests import case_runner
from tests.deploy import manifests
from tests.server.identity_fixture import STATUS, IdentityCase
from tests.server.running_server import BINARY
from tests.server.watched_server import get


def renew(volume, files):
    """Writes a volume of a ConfigMap or a Secret as a node does: into a new folder, to which one link then leads."""
    volume.mkdir(parents=True, exist_ok=True)
    version = volume / f"..{time.monotonic_ns()}"
    version.mkdir()
    for name, text in files.items():
        (version / name).write_text(text)
        if not (volume / name).is_symlink():
            (volume / name).symlink_to(f"..data/{name}")
    (volume / "..new").symlink_to(version.name)
    (volume / "..new").rename(volume / "..data")
    for old in volume.glob("..[0-9]*"):
        if old != version:
            shutil.rmtree(old)


class ManifestsServerTest(IdentityCase):
    def setUp(self):
        super().setUp()
        self.alice = self.token("alice", "train")
        self.tls = self.certificates("tls", "--hosts=localhost")
        files = self.folder / "etc"
        text = (manifests.BASE / "server.yaml").read_text()
        for name, value in (
            ("/etc/gluond", str(files)),
            ("/var/lib/gluond", f"{self.folder}/store"),
            (":50051", ":0"),
            (":9100", ":0"),
        ):
            self.assertIn(name, text)
            text = text.replace(name, value)
        renew(files / "config", {"server.yaml": text})
        renew(
            files / "tls", {f"tls.{new}": (self.tls / f"server.{old}").read_text() for new, old in (("crt", "pem"), ("key", "key"))}
        )
        renew(files / "identities", {"identities": self.identities.read_text()})
        renew(files / "metrics", {"token": "a-secret\n"})
        self.overlay = manifests.OVERLAYS[0]
        arguments = manifests.container(manifests.patch(self.overlay))["args"]
        self.process = subprocess.Popen(
            [BINARY, *(argument.replace("/etc/gluond", str(files)) for argument in arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self.end)
        said = {}
        while "metrics on port" not in said and self.process.poll() is None:
            what, _, port = self.process.stdout.readline().strip().rpartition(" ")
            said[what] = port
        self.assertIn("metrics on port", said, "" if self.process.poll() is None else self.process.stderr.read())
        self.port, self.address = int(said["metrics on port"]), f"localhost:{said['listening on'].rpartition(':')[2]}"

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def probes(self):
        """The status of each probe's page."""
        container = manifests.container(manifests.objects(manifests.BASE)["StatefulSet", "gluond"])
        return {
            kind: get(self.port, container[f"{kind}Probe"]["httpGet"]["path"])[0] for kind in ("startup", "liveness", "readiness")
        }

    def code(self, token=None):
        return self.ask(self.channel(self, self.tls), self.INFO, token)[0]

    def test_probes_are_answered_and_strangers_are_not(self):
        self.assertEqual(self.probes(), {"startup": 200, "liveness": 200, "readiness": 200})
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
        renew(self.folder / "etc/identities", {"identities": self.identities.read_text()})
        renew(self.folder / "etc/metrics", {"token": "another\n"})
        self.until(lambda: self.code(bob) == STATUS.OK)
        self.assertEqual(self.code(self.alice), STATUS.UNAUTHENTICATED)
        self.assertEqual(get(self.port, Authorization="Bearer a-secret")[0], 401)
        self.assertEqual(get(self.port, Authorization="Bearer another")[0], 200)

    def test_an_end_lets_calls_in_until_the_service_has_heard_of_it(self):
        begin = time.monotonic()
        os.kill(self.process.pid, signal.SIGTERM)
        self.until(lambda: self.probes()["readiness"] == 503)
        self.assertEqual(self.probes(), {"startup": 200, "liveness": 200, "readiness": 503})
        self.assertEqual(self.code(self.alice), STATUS.OK)
        pod = manifests.objects(manifests.BASE)["StatefulSet", "gluond"]["spec"]["template"]["spec"]
        self.process.communicate(timeout=pod["terminationGracePeriodSeconds"])
        self.assertEqual(self.process.returncode, 0)
        self.assertGreaterEqual(time.monotonic() - begin, manifests.config()["lame_duck_seconds"])
        self.assertTrue(pathlib.Path(self.folder, "store").is_dir())


if __name__ == "__main__":
    case_runner.main()
