"""deploy/kubernetes by Kubernetes' own words: its schemas, and what `kubectl kustomize` makes of the overlays."""

from tests.peers import installed  # noqa: F401  The first import: it goes on in another Python.
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import kubernetes_validate
import yaml

from tests import case_runner
from tests.deploy import manifests

KUSTOMIZE = 5


def has_kustomize():
    """Whether there is a kubectl whose kustomize is new enough."""
    if shutil.which("kubectl") is None:
        return False
    said = subprocess.run(["kubectl", "version", "--client", "-o", "yaml"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"^kustomizeVersion: v(\d+)", said, re.MULTILINE)
    return version is not None and int(version[1]) >= KUSTOMIZE


def validate(document):
    """Strictly: a field that Kubernetes does not know is an error. Other makers' kinds have no schema here."""
    if not document["apiVersion"].startswith("monitoring.coreos.com/"):
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


class ObjectsTest(unittest.TestCase):
    def test_kubernetes_takes_each_object(self):
        found = {**manifests.objects(manifests.BASE), **manifests.objects(manifests.MONITORING)}
        self.assertEqual(len(found), 6)
        for key, document in found.items():
            with self.subTest(object=key):
                validate(document)

    def test_a_mistake_is_found(self):
        workload = manifests.objects(manifests.BASE)["StatefulSet", "gluond"]
        manifests.container(workload)["readynessProbe"] = manifests.container(workload).pop("readinessProbe")
        with self.assertRaises(kubernetes_validate.ValidationError):
            validate(workload)


@unittest.skipUnless(has_kustomize(), f"there is no kubectl with kustomize {KUSTOMIZE}")
class RenderedTest(unittest.TestCase):
    def render(self, overlay, monitored=False):
        """(kind, name): object, for each that an overlay gives. Kustomize reads no file by a link: the files are copied."""
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder, "kubernetes")
            shutil.copytree(manifests.FOLDER, copy)
            there = copy / overlay.relative_to(manifests.FOLDER)
            if monitored:
                file = there / "kustomization.yaml"
                text = file.read_text()
                self.assertIn("\n# components:", text)
                file.write_text(text.replace("\n# components:", "\ncomponents:"))
            ran = subprocess.run(["kubectl", "kustomize", there], capture_output=True, text=True, check=False)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(ran.stdout)}

    def test_an_overlay_is_the_base_with_its_patch(self):
        base = manifests.objects(manifests.BASE)
        for overlay in manifests.OVERLAYS:
            with self.subTest(overlay=overlay.name):
                rendered = self.render(overlay)
                for document in rendered.values():
                    validate(document)
                (config,) = (name for kind, name in rendered if kind == "ConfigMap")
                self.assertRegex(config, r"^gluond-config-\w{10}$")
                self.assertEqual(set(rendered), set(base) | {("ConfigMap", config)})
                text = (manifests.BASE / "server.yaml").read_text()
                self.assertEqual(rendered["ConfigMap", config]["data"], {"server.yaml": text})

                workload = rendered["StatefulSet", "gluond"]
                expected = base["StatefulSet", "gluond"]
                patch, (image,) = manifests.patch(overlay), manifests.kustomization(overlay)["images"]
                manifests.container(expected).update(manifests.container(patch))
                manifests.container(expected)["image"] = f"{image['newName']}:{image['newTag']}"
                pod = expected["spec"]["template"]["spec"]
                pod.update({key: value for key, value in patch["spec"]["template"]["spec"].items() if key != "containers"})
                next(each for each in pod["volumes"] if each["name"] == "config")["configMap"]["name"] = config
                self.assertEqual(workload, expected)

    def test_the_component_adds_what_prometheus_needs(self):
        for overlay in manifests.OVERLAYS:
            more = set(self.render(overlay, monitored=True)) - set(self.render(overlay))
            self.assertEqual(more, {("ServiceMonitor", "gluond"), ("NetworkPolicy", "gluond-metrics")})


if __name__ == "__main__":
    case_runner.main()
