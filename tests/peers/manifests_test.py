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


def sorted_by_name(value):
    """The value with each list of named things in the order of names, which means nothing to Kubernetes."""
    if isinstance(value, dict):
        return {key: sorted_by_name(each) for key, each in value.items()}
    if isinstance(value, list):
        named = all(isinstance(each, dict) and "name" in each for each in value)
        found = [sorted_by_name(each) for each in value]
        return sorted(found, key=lambda each: each["name"]) if named else found
    return value


class ObjectsTest(unittest.TestCase):
    def test_kubernetes_takes_each_object(self):
        for folder, count in {"base": 4, "monitoring": 2, "cpu": 4, "gpu": 4, "group": 6, "serving": 6}.items():
            overlay = next((each for each in manifests.OVERLAYS if each.name == folder), None)
            found = manifests.complete(overlay) if overlay else manifests.objects(manifests.FOLDER / folder)
            self.assertEqual(len(found), count, folder)
            for key, document in found.items():
                with self.subTest(folder=folder, object=key):
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

    def test_kustomize_makes_what_the_tests_take_an_overlay_for(self):
        for overlay in manifests.OVERLAYS:
            with self.subTest(overlay=overlay.name):
                rendered = self.render(overlay)
                for document in rendered.values():
                    validate(document)
                folder = manifests.config_folder(overlay)
                (generated,) = manifests.kustomization(folder)["configMapGenerator"]
                (config,) = (name for kind, name in rendered if kind == "ConfigMap")
                self.assertRegex(config, rf"^{generated['name']}-\w{{10}}$")
                text = (folder / "server.yaml").read_text()
                self.assertEqual(rendered.pop(("ConfigMap", config))["data"], {"server.yaml": text})

                expected = manifests.complete(overlay)
                (workload,) = (document for (kind, _), document in expected.items() if kind in manifests.WORKLOADS)
                (image,) = manifests.kustomization(overlay)["images"]
                manifests.container(workload)["image"] = f"{image['newName']}:{image['newTag']}"
                (volume,) = (each for each in manifests.pod(workload)["volumes"] if each["name"] == "config")
                volume["configMap"]["name"] = config
                self.assertEqual(sorted_by_name(rendered), sorted_by_name(expected))

    def test_the_component_adds_what_prometheus_needs(self):
        for overlay in manifests.OVERLAYS:
            more = set(self.render(overlay, monitored=True)) - set(self.render(overlay))
            self.assertEqual(more, {("ServiceMonitor", "gluond"), ("NetworkPolicy", "gluond-metrics")})


if __name__ == "__main__":
    case_runner.main()
