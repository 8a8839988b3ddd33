"""deploy/kubernetes: the fields that matter, and what its files, the image and the server must agree upon."""

import pathlib
import re
import unittest

from tests import case_runner
from tests.deploy import manifests

WORKLOAD = "StatefulSet", "gluond"
LABELS = {"app.kubernetes.io/name": "gluond"}
LAST_WORDS = 3  # Seconds that a server may take beyond both of its times (server/process.cc).

# object, path, value.
FIELDS = [
    (WORKLOAD, "apiVersion", "apps/v1"),
    (WORKLOAD, "spec.replicas", 1),
    (WORKLOAD, "spec.serviceName", "gluond-pods"),
    (WORKLOAD, "spec.podManagementPolicy", "Parallel"),
    (WORKLOAD, "spec.updateStrategy.type", "RollingUpdate"),
    (WORKLOAD, "spec.persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"}),
    (WORKLOAD, "spec.selector", {"matchLabels": LABELS}),
    (WORKLOAD, "spec.template.metadata.labels", LABELS),
    (WORKLOAD, "spec.template.spec.automountServiceAccountToken", False),
    (WORKLOAD, "spec.template.spec.enableServiceLinks", False),
    (WORKLOAD, "spec.template.spec.securityContext.runAsNonRoot", True),
    (WORKLOAD, "spec.template.spec.securityContext.seccompProfile", {"type": "RuntimeDefault"}),
    (WORKLOAD, "spec.template.spec.securityContext.fsGroupChangePolicy", "OnRootMismatch"),
    (
        WORKLOAD,
        "spec.template.spec.containers.0.securityContext",
        {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
    ),
    (WORKLOAD, "spec.template.spec.containers.0.startupProbe.httpGet", {"path": "/healthz", "port": "metrics"}),
    (WORKLOAD, "spec.template.spec.containers.0.livenessProbe.httpGet", {"path": "/healthz", "port": "metrics"}),
    (WORKLOAD, "spec.template.spec.containers.0.readinessProbe.httpGet", {"path": "/readyz", "port": "metrics"}),
    (WORKLOAD, "spec.volumeClaimTemplates.0.metadata.name", "store"),
    (WORKLOAD, "spec.volumeClaimTemplates.0.spec.accessModes", ["ReadWriteOnce"]),
    (("Service", "gluond"), "apiVersion", "v1"),
    (("Service", "gluond"), "metadata.labels", LABELS),
    (("Service", "gluond"), "spec.selector", LABELS),
    (("Service", "gluond"), "spec.ports", [{"name": "grpc", "port": 50051, "targetPort": "grpc"}]),
    (("Service", "gluond-pods"), "apiVersion", "v1"),
    (("Service", "gluond-pods"), "metadata.labels", LABELS),
    (("Service", "gluond-pods"), "spec.selector", LABELS),
    (("Service", "gluond-pods"), "spec.clusterIP", "None"),
    (("Service", "gluond-pods"), "spec.publishNotReadyAddresses", True),
    (
        ("Service", "gluond-pods"),
        "spec.ports",
        [
            {"name": "grpc", "port": 50051, "targetPort": "grpc"},
            {"name": "metrics", "port": 9100, "targetPort": "metrics"},
        ],
    ),
    (("NetworkPolicy", "gluond"), "apiVersion", "networking.k8s.io/v1"),
    (("NetworkPolicy", "gluond"), "spec.podSelector", {"matchLabels": LABELS}),
    (("NetworkPolicy", "gluond"), "spec.policyTypes", ["Ingress", "Egress"]),
    (("NetworkPolicy", "gluond"), "spec.egress", []),
    (("NetworkPolicy", "gluond"), "spec.ingress.0.ports", [{"port": 50051, "protocol": "TCP"}]),
    (
        ("NetworkPolicy", "gluond"),
        "spec.ingress.0.from",
        [{"podSelector": {}}, {"namespaceSelector": {"matchLabels": {"gluond-clients": "true"}}}],
    ),
    (("NetworkPolicy", "gluond-metrics"), "apiVersion", "networking.k8s.io/v1"),
    (("NetworkPolicy", "gluond-metrics"), "spec.podSelector", {"matchLabels": LABELS}),
    (("NetworkPolicy", "gluond-metrics"), "spec.policyTypes", ["Ingress"]),
    (("NetworkPolicy", "gluond-metrics"), "spec.ingress.0.ports", [{"port": 9100, "protocol": "TCP"}]),
    (
        ("NetworkPolicy", "gluond-metrics"),
        "spec.ingress.0.from",
        [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
    ),
    (("ServiceMonitor", "gluond"), "apiVersion", "monitoring.coreos.com/v1"),
    (("ServiceMonitor", "gluond"), "spec.jobLabel", "app.kubernetes.io/name"),
    (("ServiceMonitor", "gluond"), "spec.selector", {"matchLabels": LABELS}),
    (
        ("ServiceMonitor", "gluond"),
        "spec.endpoints",
        [
            {
                "port": "metrics",
                "path": "/metrics",
                "interval": "15s",
                "authorization": {"type": "Bearer", "credentials": {"name": "gluond-metrics", "key": "token"}},
            }
        ],
    ),
]
# The keys of kustomize 5, which has no `bases`, `patchesStrategicMerge`, `commonLabels` or `vars`.
KEYS = {"apiVersion", "kind", "resources", "components", "configMapGenerator", "patches", "images"}


def at(document, path):
    for step in path.split("."):
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


def by_name(named):
    return {each["name"]: each for each in named}


class ManifestsTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.objects = {**manifests.objects(manifests.BASE), **manifests.objects(manifests.MONITORING)}
        self.workload = self.objects[WORKLOAD]
        self.pod = self.workload["spec"]["template"]["spec"]
        self.container = manifests.container(self.workload)
        self.patches = {overlay.name: manifests.patch(overlay) for overlay in manifests.OVERLAYS}
        self.flags = manifests.config()

    def test_the_fields_that_matter(self):
        self.assertEqual({key for key, _, _ in FIELDS}, set(self.objects), "each object has its rows")
        for key, path, expected in FIELDS:
            with self.subTest(object=key, path=path):
                self.assertEqual(at(self.objects[key], path), expected)

    def test_kustomizations_are_of_kustomize_5_and_name_all_files(self):
        named = set()
        for folder in (manifests.BASE, manifests.MONITORING, *manifests.OVERLAYS):
            with self.subTest(folder=str(folder)):
                made = manifests.kustomization(folder)
                version, kind = ("v1alpha1", "Component") if folder == manifests.MONITORING else ("v1beta1", "Kustomization")
                self.assertEqual((made["apiVersion"], made["kind"]), (f"kustomize.config.k8s.io/{version}", kind))
                self.assertLessEqual(set(made), KEYS)
                files = made["resources"] + [each["path"] for each in made.get("patches", [])]
                files += [name for each in made.get("configMapGenerator", []) for name in each["files"]]
                for name in files:
                    self.assertTrue((folder / name).is_file() or (folder / name / "kustomization.yaml").is_file(), name)
                named |= {folder / "kustomization.yaml", *(folder / name for name in files if (folder / name).is_file())}
        self.assertEqual(named, set(manifests.FOLDER.rglob("*.yaml")))

    def test_patches_meet_what_they_change(self):
        for name, patch in self.patches.items():
            with self.subTest(overlay=name):
                self.assertIn("../../base", manifests.kustomization(manifests.FOLDER / "overlays" / name)["resources"])
                self.assertEqual((patch["kind"], patch["metadata"]["name"]), WORKLOAD)
                self.assertEqual(patch["apiVersion"], self.workload["apiVersion"])
                self.assertEqual(set(patch["spec"]), {"template"})
                # A container of another name would be a second one.
                self.assertEqual(manifests.container(patch)["name"], self.container["name"])
                # A list of arguments takes the place of the base's.
                self.assertEqual(manifests.container(patch)["args"][: len(self.container["args"])], self.container["args"])
                self.assertLessEqual(set(manifests.container(patch)), {"name", "args", "env", "resources"})

    def test_resources_are_whole_and_memory_has_a_limit(self):
        for name, patch in self.patches.items():
            with self.subTest(overlay=name):
                resources = manifests.container(patch)["resources"]
                limits = dict(resources["limits"])
                self.assertEqual(limits.pop("nvidia.com/gpu", 0), int(name == "gpu"))
                self.assertEqual(resources["requests"], limits)
                self.assertIsInstance(limits["cpu"], int)
                self.assertRegex(limits["memory"], r"^\d+Gi$")

    def test_each_flag_is_one_of_the_servers(self):
        known = set(re.findall(r"^\| `--(\w+)` \|", pathlib.Path("docs/flags.md").read_text(), re.MULTILINE))
        self.assertGreater(len(known), 60)
        self.assertEqual(set(self.flags) - known, set())
        self.assertNotIn("config", self.flags)
        for workload in (self.workload, *self.patches.values()):
            for argument in manifests.container(workload)["args"]:
                flag = re.fullmatch(r"--(\w+)(=\S+)?", argument)
                self.assertTrue(flag and flag[1] in known, argument)

    def test_the_overlays_name_their_devices(self):
        last = {name: manifests.container(patch)["args"][1:] for name, patch in self.patches.items()}
        self.assertEqual(last, {"cpu": ["--devices=cpu"], "gpu": ["--devices=gpu:0", "--exit_on_device_error"]})

    def test_nobody_is_let_in_unasked(self):
        for flag in ("tls_cert", "tls_key", "identities", "metrics_token_file"):
            self.assertTrue(self.flags.get(flag), flag)
        self.assertNotIn("insecure_public", self.flags)
        for workload in (self.workload, *self.patches.values()):
            self.assertNotIn("insecure", " ".join(manifests.container(workload)["args"]))

    def test_ports_are_those_that_the_server_listens_on(self):
        ports = {name: each["containerPort"] for name, each in by_name(self.container["ports"]).items()}
        for name, flag in (("grpc", "address"), ("metrics", "metrics_address")):
            self.assertEqual(self.flags[flag], f"0.0.0.0:{ports[name]}")
        for service in ("gluond", "gluond-pods"):
            for port in self.objects["Service", service]["spec"]["ports"]:
                self.assertEqual((port["targetPort"], port["port"]), (port["name"], ports[port["name"]]))
        self.assertEqual(at(self.objects["NetworkPolicy", "gluond"], "spec.ingress.0.ports.0.port"), ports["grpc"])
        self.assertEqual(at(self.objects["NetworkPolicy", "gluond-metrics"], "spec.ingress.0.ports.0.port"), ports["metrics"])

    def test_probes_ask_for_pages_and_have_patience(self):
        pages = set(re.findall(r"^\| `(/\w+)` \|", pathlib.Path("docs/reference.md").read_text(), re.MULTILINE))
        self.assertEqual(pages, {"/metrics", "/healthz", "/readyz"})
        patience = {}
        for kind in ("startup", "liveness", "readiness"):
            probe = self.container[f"{kind}Probe"]
            self.assertIn(probe["httpGet"]["path"], pages)
            self.assertIn(probe["httpGet"]["port"], by_name(self.container["ports"]))
            patience[kind] = probe["periodSeconds"] * probe["failureThreshold"]
        self.assertGreaterEqual(patience["startup"], 60)
        self.assertGreaterEqual(patience["liveness"], 60)
        self.assertLessEqual(patience["readiness"], 30)

    def test_the_server_has_ended_before_it_is_killed(self):
        last = self.flags["lame_duck_seconds"] + self.flags["drain_seconds"] + LAST_WORDS
        self.assertGreater(self.pod["terminationGracePeriodSeconds"], last)
        self.assertGreater(self.flags["lame_duck_seconds"], 0)

    def test_each_file_of_a_flag_is_mounted(self):
        mounts = {mount["mountPath"]: mount for mount in self.container["volumeMounts"]}
        volumes = by_name(self.pod["volumes"])
        (argument,) = self.container["args"]
        files = {"config": ("gluond-config", argument.partition("=")[2])}
        for flag, secret in (
            ("tls_cert", "gluond-tls"),
            ("tls_key", "gluond-tls"),
            ("identities", "gluond-identities"),
            ("metrics_token_file", "gluond-metrics"),
        ):
            files[flag] = secret, self.flags[flag]
        read = {path for name, path in self.flags.items() if str(path).startswith("/") and name != "store_dir"}
        self.assertEqual({path for _, path in files.values()} - {argument.partition("=")[2]}, read)
        for flag, (source, path) in files.items():
            with self.subTest(flag=flag):
                folder, _, file = path.rpartition("/")
                mount = mounts[folder]
                self.assertTrue(mount["readOnly"])
                self.assertNotIn("subPath", mount, "a changed file would not arrive")
                volume = volumes[mount["name"]]
                if flag == "config":
                    (generated,) = manifests.kustomization(manifests.BASE)["configMapGenerator"]
                    self.assertEqual(volume["configMap"]["name"], source)
                    self.assertEqual((generated["name"], generated["files"]), (source, [file]))
                else:
                    self.assertEqual(volume["secret"]["secretName"], source)
                    self.assertEqual(volume["secret"]["defaultMode"], 0o440, "root's files, for the group of fsGroup")
                    self.assertIn({"key": file, "path": file}, volume["secret"]["items"])
        self.assertEqual(len(mounts), len(volumes) + 1)

    def test_the_scraper_has_the_token_of_the_server(self):
        credentials = at(self.objects["ServiceMonitor", "gluond"], "spec.endpoints.0.authorization.credentials")
        volume = by_name(self.pod["volumes"])["metrics"]["secret"]
        self.assertEqual(credentials["name"], volume["secretName"])
        self.assertIn(credentials["key"], [item["key"] for item in volume["items"]])
        self.assertIn(f'job="{LABELS["app.kubernetes.io/name"]}"', pathlib.Path("deploy/prometheus/rules.yml").read_text())

    def test_the_reference_makes_the_secrets_that_the_pod_waits_for(self):
        reference = pathlib.Path("docs/reference.md").read_text()
        section = reference.partition("\n## Kubernetes\n")[2].partition("\n## ")[0]
        secrets = {volume["secret"]["secretName"] for volume in self.pod["volumes"] if "secret" in volume}
        self.assertEqual(set(re.findall(r"create secret \w+ (gluond-\w+)", section)), secrets)
        (claim,) = self.workload["spec"]["volumeClaimTemplates"]
        self.assertIn(f"`{claim['metadata']['name']}-gluond-0`", section)
        for flag in ("lame_duck_seconds", "drain_seconds"):
            self.assertRegex(section, rf"\b{self.flags[flag]} s[^|]*\(`{flag}`\)")

    def test_the_image_is_the_containerfiles(self):
        stage = re.split(r"^FROM .*$", pathlib.Path("deploy/container/Containerfile").read_text(), flags=re.MULTILINE)[-1]
        said = dict(re.findall(r"^([A-Z]+) (.*)$", stage, re.MULTILINE))
        context = self.pod["securityContext"]
        self.assertEqual(said["USER"], f"{context['runAsUser']}:{context['runAsGroup']}")
        self.assertEqual(context["fsGroup"], context["runAsGroup"])
        store = next(mount for mount in self.container["volumeMounts"] if mount["name"] == "store")
        self.assertEqual(said["VOLUME"], f'["{store["mountPath"]}"]')
        self.assertFalse(store.get("readOnly"))
        self.assertEqual(self.flags["store_dir"], store["mountPath"])
        self.assertEqual(said["EXPOSE"], f"{self.container['ports'][0]['containerPort']}/tcp")
        # Arguments take the place of CMD, and ENTRYPOINT stays the server.
        self.assertEqual(said["ENTRYPOINT"], '["/usr/bin/gluond-server"]')
        self.assertNotIn("command", self.container)
        for flag in re.findall(r'"--(\w+)=', said["CMD"]):
            self.assertIn(flag, self.flags)
        archive = pathlib.Path("deploy/container/oci_image.py").read_text()
        self.assertIn(f'"org.opencontainers.image.ref.name": "{self.container["image"]}:latest"', archive)
        for overlay in manifests.OVERLAYS:
            (image,) = manifests.kustomization(overlay)["images"]
            self.assertEqual(image["name"], self.container["image"])
            self.assertNotIn(image["newTag"], ("", "latest"))


if __name__ == "__main__":
    case_runner.main()
