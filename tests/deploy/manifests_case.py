"""Servers that are started as the pods of deploy/kubernetes are, for tests."""

import shutil
import subprocess
import time
import types

from tests.deploy import manifests
from tests.server.identity_fixture import IdentityCase
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


class ManifestsCase(IdentityCase):
    def setUp(self):
        super().setUp()
        self.alice = self.token("alice", "train")
        self.tls = self.certificates("tls", "--hosts=localhost")

    def secret(self, pod, name, files):
        renew(self.folder / pod / "etc" / name, files)

    def pod(self, name, overlay, *more, **values):
        """A server with an overlay's file and command line, in which `values` stand for what a cluster has."""
        files = self.folder / name / "etc"
        fixed = {"/etc/gluond": str(files), "/var/lib/gluond": f"{self.folder}/{name}/store", "0.0.0.0:9100": "0.0.0.0:0"}
        read = lambda file: (self.tls / file).read_text()

        def in_this_place(text):
            for old, new in {**values, **fixed}.items():
                text = text.replace(old, new)
            return text

        text = (manifests.config_folder(overlay) / "server.yaml").read_text()
        for old in fixed:
            self.assertIn(old, text)
        self.secret(name, "config", {"server.yaml": in_this_place(text)})
        self.secret(name, "tls", {"tls.crt": read("server.pem"), "tls.key": read("server.key")})
        self.secret(name, "identities", {"identities": self.identities.read_text()})
        self.secret(name, "metrics", {"token": "a-secret\n"})
        arguments = manifests.container(manifests.workload(overlay))["args"]
        process = subprocess.Popen(
            [BINARY, *(in_this_place(argument) for argument in arguments), *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self.end, process)
        said = {}
        while "metrics on port" not in said and process.poll() is None:
            what, _, port = process.stdout.readline().strip().rpartition(" ")
            said[what] = port
        self.assertIn("metrics on port", said, "" if process.poll() is None else process.stderr.read())
        address = f"localhost:{said['listening on'].rpartition(':')[2]}"
        return types.SimpleNamespace(process=process, port=int(said["metrics on port"]), address=address)

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def probes(self, pod):
        """The status of each probe's page."""
        container = manifests.container(manifests.workload(manifests.CPU))
        return {
            kind: get(pod.port, container[f"{kind}Probe"]["httpGet"]["path"])[0] for kind in ("startup", "liveness", "readiness")
        }

    def is_ready(self, pod):
        return set(self.probes(pod).values()) == {200}
