"""deploy/kubernetes: the fields that matter, and what its files, the image and the server must agree upon."""

import pathlib
import re
import unittest

from tests import case_runner
from tests.deploy import manifests

WORKLOAD = "StatefulSet", "gluond"
LABELS = {"app.kubernetes.io/name": "gluond"}
TRAINING = {**LABELS, "app.kubernetes.io/component": "training"}
SERVING = {**LABELS, "app.kubernetes.io/component": "serving"}
LEADER = {**TRAINING, "statefulset.kubernetes.io/pod-name": "gluond-0"}
CALLERS = [{"podSelector": {}}, {"namespaceSelector": {"matchLabels": {"gluond-clients": "true"}}}]
GRPC = {"port": 50051, "protocol": "TCP"}
RING = {"port": 40000, "endPort": 49999, "protocol": "TCP"}
DNS = {
    "to": [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        }
    ],
    "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}],
}
LAST_WORDS = 3  # Seconds that a server may take beyond both of its times (server/process.cc).

# object, path, value.
BASE_FIELDS = [
    (WORKLOAD, "apiVersion", "apps/v1"),
    (WORKLOAD, "spec.replicas", 1),
    (WORKLOAD, "spec.serviceName", "gluond-pods"),
    (WORKLOAD, "spec.podManagementPolicy", "Parallel"),
    (WORKLOAD, "spec.updateStrategy.type", "RollingUpdate"),
    (WORKLOAD, "spec.persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"}),
    (WORKLOAD, "spec.selector", {"matchLabels": TRAINING}),
    (WORKLOAD, "spec.template.metadata.labels", TRAINING),
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
    (("Service", "gluond"), "spec.selector", TRAINING),
    (("Service", "gluond"), "spec.ports", [{"name": "grpc", "port": 50051, "targetPort": "grpc"}]),
    (("Service", "gluond-pods"), "apiVersion", "v1"),
    (("Service", "gluond-pods"), "spec.selector", TRAINING),
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
    (("NetworkPolicy", "gluond"), "spec.podSelector", {"matchLabels": TRAINING}),
    (("NetworkPolicy", "gluond"), "spec.policyTypes", ["Ingress", "Egress"]),
    (("NetworkPolicy", "gluond"), "spec.egress", []),
    (("NetworkPolicy", "gluond"), "spec.ingress.0.ports", [GRPC]),
    (("NetworkPolicy", "gluond"), "spec.ingress.0.from", CALLERS),
]
MONITORING_FIELDS = [
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
# In place of the base's, or besides.
GPU_FIELDS = [
    (
        WORKLOAD,
        "spec.template.spec.tolerations",
        [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    ),
    (
        WORKLOAD,
        "spec.template.spec.containers.0.env",
        [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}],
    ),
]
GROUP_FIELDS = [
    (WORKLOAD, "spec.replicas", 4),
    (WORKLOAD, "spec.updateStrategy", {"type": "OnDelete"}),
    (
        WORKLOAD,
        "spec.template.spec.topologySpreadConstraints",
        [
            {
                "topologyKey": "kubernetes.io/hostname",
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "nodeTaintsPolicy": "Honor",
                "labelSelector": {"matchLabels": TRAINING},
            }
        ],
    ),
    (
        WORKLOAD,
        "spec.template.spec.securityContext.sysctls",
        [{"name": "net.ipv4.ip_local_port_range", "value": "40000 49999"}],
    ),
    (
        WORKLOAD,
        "spec.template.spec.containers.0.env",
        [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ],
    ),
    (("Service", "gluond"), "spec.selector", LEADER),
    (("NetworkPolicy", "gluond"), "spec.podSelector", {"matchLabels": LEADER}),
    (("NetworkPolicy", "gluond-group"), "apiVersion", "networking.k8s.io/v1"),
    (("NetworkPolicy", "gluond-group"), "spec.podSelector", {"matchLabels": TRAINING}),
    (("NetworkPolicy", "gluond-group"), "spec.policyTypes", ["Ingress", "Egress"]),
    (
        ("NetworkPolicy", "gluond-group"),
        "spec.ingress",
        [{"from": [{"podSelector": {"matchLabels": TRAINING}}], "ports": [GRPC, RING]}],
    ),
    (
        ("NetworkPolicy", "gluond-group"),
        "spec.egress",
        [{"to": [{"podSelector": {"matchLabels": TRAINING}}], "ports": [GRPC, RING]}, DNS],
    ),
    (("PodDisruptionBudget", "gluond"), "apiVersion", "policy/v1"),
    (("PodDisruptionBudget", "gluond"), "spec.maxUnavailable", 1),
    (("PodDisruptionBudget", "gluond"), "spec.unhealthyPodEvictionPolicy", "AlwaysAllow"),
    (("PodDisruptionBudget", "gluond"), "spec.selector", {"matchLabels": TRAINING}),
]
REPLICAS = "Deployment", "gluond-serving"
SCALER = "HorizontalPodAutoscaler", "gluond-serving"
SERVING_FIELDS = [
    (REPLICAS, "apiVersion", "apps/v1"),
    (REPLICAS, "spec.strategy", {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}),
    (REPLICAS, "spec.minReadySeconds", 10),
    (REPLICAS, "spec.selector", {"matchLabels": SERVING}),
    (REPLICAS, "spec.template.metadata.labels", SERVING),
    (
        REPLICAS,
        "spec.template.spec.topologySpreadConstraints",
        [
            {
                "topologyKey": "kubernetes.io/hostname",
                "maxSkew": 1,
                "whenUnsatisfiable": "ScheduleAnyway",
                "nodeTaintsPolicy": "Honor",
                "matchLabelKeys": ["pod-template-hash"],
                "labelSelector": {"matchLabels": SERVING},
            }
        ],
    ),
    (REPLICAS, "spec.template.spec.volumes.0", {"name": "store", "emptyDir": {"sizeLimit": "20Gi"}}),
    (("Service", "gluond-serving"), "apiVersion", "v1"),
    (("Service", "gluond-serving"), "spec.selector", SERVING),
    (("Service", "gluond-serving"), "spec.ports", [{"name": "grpc", "port": 50051, "targetPort": "grpc"}]),
    (("Service", "gluond-serving-pods"), "apiVersion", "v1"),
    (("Service", "gluond-serving-pods"), "spec.selector", SERVING),
    (("Service", "gluond-serving-pods"), "spec.clusterIP", "None"),
    (("Service", "gluond-serving-pods"), "spec.publishNotReadyAddresses", True),
    (("Service", "gluond-serving-pods"), "spec.ports", [{"name": "metrics", "port": 9100, "targetPort": "metrics"}]),
    (("NetworkPolicy", "gluond-serving"), "apiVersion", "networking.k8s.io/v1"),
    (("NetworkPolicy", "gluond-serving"), "spec.podSelector", {"matchLabels": SERVING}),
    (("NetworkPolicy", "gluond-serving"), "spec.policyTypes", ["Ingress", "Egress"]),
    (("NetworkPolicy", "gluond-serving"), "spec.ingress", [{"from": CALLERS, "ports": [GRPC]}]),
    (
        ("NetworkPolicy", "gluond-serving"),
        "spec.egress",
        [{"to": [{"podSelector": {"matchLabels": TRAINING}}], "ports": [GRPC]}, DNS],
    ),
    (("PodDisruptionBudget", "gluond-serving"), "apiVersion", "policy/v1"),
    (("PodDisruptionBudget", "gluond-serving"), "spec.maxUnavailable", 1),
    (("PodDisruptionBudget", "gluond-serving"), "spec.unhealthyPodEvictionPolicy", "AlwaysAllow"),
    (("PodDisruptionBudget", "gluond-serving"), "spec.selector", {"matchLabels": SERVING}),
    (SCALER, "apiVersion", "autoscaling/v2"),
    (SCALER, "spec.scaleTargetRef", {"apiVersion": "apps/v1", "kind": "Deployment", "name": "gluond-serving"}),
    (SCALER, "spec.minReplicas", 2),
    (SCALER, "spec.maxReplicas", 8),
    (
        SCALER,
        "spec.metrics",
        [
            {
                "type": "Pods",
                "pods": {
                    "metric": {"name": "gluond_inference_queue_seconds"},
                    "target": {"type": "AverageValue", "averageValue": "20m"},
                },
            }
        ],
    ),
    (SCALER, "spec.behavior.scaleUp.stabilizationWindowSeconds", 0),
    (SCALER, "spec.behavior.scaleUp.policies", [{"type": "Pods", "value": 2, "periodSeconds": 120}]),
    (SCALER, "spec.behavior.scaleDown.stabilizationWindowSeconds", 600),
    (SCALER, "spec.behavior.scaleDown.policies", [{"type": "Pods", "value": 1, "periodSeconds": 120}]),
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

    @classmethod
    def setUpClass(cls):
        cls.base, cls.monitoring = manifests.objects(manifests.BASE), manifests.objects(manifests.MONITORING)
        cls.group, cls.serving = manifests.complete(manifests.GROUP), manifests.complete(manifests.SERVING)
        cls.workloads = {overlay.name: manifests.workload(overlay) for overlay in manifests.OVERLAYS}
        cls.containers = {name: manifests.container(workload) for name, workload in cls.workloads.items()}
        cls.pods = {name: manifests.pod(workload) for name, workload in cls.workloads.items()}
        cls.arguments = {overlay.name: manifests.arguments(overlay) for overlay in manifests.OVERLAYS}
        # All flags of an overlay, those of its file and of its command line.
        cls.flags = {
            overlay.name: {**manifests.config(manifests.config_folder(overlay)), **cls.arguments[overlay.name]}
            for overlay in manifests.OVERLAYS
        }

    def hold(self, objects, fields):
        rows = {(key, path): expected for key, path, expected in fields}
        self.assertEqual({key for key, _ in rows}, set(objects), "each object has its rows")
        # The ServiceMonitor finds Services by it, and people find all.
        self.assertEqual([key for key, each in objects.items() if each["metadata"].get("labels") != LABELS], [])
        for (key, path), expected in rows.items():
            with self.subTest(object=key, path=path):
                self.assertEqual(at(objects[key], path), expected)

    def test_the_fields_that_matter(self):
        self.hold(self.base, BASE_FIELDS)
        self.hold(self.monitoring, MONITORING_FIELDS)
        self.hold(manifests.complete(manifests.GPU), BASE_FIELDS + GPU_FIELDS)
        # A part of an update would count on, beside the whole.
        replaced = {(key, path) for key, path, _ in GROUP_FIELDS} | {(WORKLOAD, "spec.updateStrategy.type")}
        self.hold(self.group, [row for row in BASE_FIELDS if row[:2] not in replaced] + GROUP_FIELDS)
        self.hold(self.serving, SERVING_FIELDS)
        self.assertNotIn("replicas", self.workloads["serving"]["spec"], "the autoscaler's number")

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
        base = manifests.container(self.base[WORKLOAD])
        for overlay in (manifests.CPU, manifests.GPU, manifests.GROUP):
            patches = manifests.patches(overlay)
            with self.subTest(overlay=overlay.name):
                self.assertIn("../../base", manifests.kustomization(overlay)["resources"])
                for key, patch in patches.items():
                    self.assertEqual(patch["apiVersion"], self.base[key]["apiVersion"])
                # A container of another name would be a second one.
                container = manifests.container(patches[WORKLOAD])
                self.assertEqual(container["name"], base["name"])
                # A list of arguments takes the place of the base's.
                self.assertEqual(container["args"][: len(base["args"])], base["args"])
                self.assertLessEqual(set(container), {"name", "args", "env", "resources", "volumeMounts"})
                if overlay != manifests.GROUP:
                    self.assertEqual((set(patches), set(patches[WORKLOAD]["spec"])), ({WORKLOAD}, {"template"}))

    def test_resources_are_whole_and_memory_has_a_limit(self):
        for name, container in self.containers.items():
            with self.subTest(overlay=name):
                limits = dict(container["resources"]["limits"])
                self.assertEqual(limits.pop("nvidia.com/gpu", 0), int(name == "gpu"))
                self.assertEqual(container["resources"]["requests"], limits)
                self.assertIsInstance(limits["cpu"], int)
                self.assertRegex(limits["memory"], r"^\d+Gi$")

    def test_each_flag_is_one_of_the_servers(self):
        known = set(re.findall(r"^\| `--(\w+)` \|", pathlib.Path("docs/flags.md").read_text(), re.MULTILINE))
        self.assertGreater(len(known), 60)
        for name, flags in self.flags.items():
            with self.subTest(overlay=name):
                self.assertEqual(set(flags) - known, set())
                for argument in self.containers[name]["args"]:
                    self.assertRegex(argument, r"^--\w+(=\S+)?$")
        for folder in (manifests.BASE, manifests.SERVING):
            self.assertNotIn("config", manifests.config(folder))

    def test_the_overlays_name_their_devices(self):
        devices = {name: flags["devices"] for name, flags in self.arguments.items()}
        self.assertEqual(devices, {"cpu": "cpu", "gpu": "gpu:0", "group": "cpu", "serving": "cpu"})
        self.assertEqual({name for name, flags in self.arguments.items() if "exit_on_device_error" in flags}, {"gpu"})

    def test_nobody_is_let_in_unasked(self):
        for name, flags in self.flags.items():
            with self.subTest(overlay=name):
                for flag in ("tls_cert", "tls_key", "identities", "metrics_token_file"):
                    self.assertTrue(flags.get(flag), flag)
                self.assertEqual([flag for flag in flags if "insecure" in flag], [])

    def test_ports_are_those_that_the_server_listens_on(self):
        for overlay, objects, policy in (("group", self.group, "gluond"), ("serving", self.serving, "gluond-serving")):
            flags = self.flags[overlay]
            ports = {each["name"]: each["containerPort"] for each in self.containers[overlay]["ports"]}
            for name, flag in (("grpc", "address"), ("metrics", "metrics_address")):
                self.assertEqual(flags[flag], f"0.0.0.0:{ports[name]}")
            for key, service in objects.items():
                for port in service["spec"]["ports"] if key[0] == "Service" else []:
                    self.assertEqual((port["targetPort"], port["port"]), (port["name"], ports[port["name"]]))
            self.assertEqual(at(objects["NetworkPolicy", policy], "spec.ingress.0.ports"), [{**GRPC, "port": ports["grpc"]}])
            scraped = at(self.monitoring["NetworkPolicy", "gluond-metrics"], "spec.ingress.0.ports.0.port")
            self.assertEqual(scraped, ports["metrics"])

    def test_probes_ask_for_pages_and_have_patience(self):
        pages = set(re.findall(r"^\| `(/\w+)` \|", pathlib.Path("docs/reference.md").read_text(), re.MULTILINE))
        self.assertEqual(pages, {"/metrics", "/healthz", "/readyz"})
        container = self.containers["cpu"]
        patience = {}
        for kind in ("startup", "liveness", "readiness"):
            probe = container[f"{kind}Probe"]
            self.assertIn(probe["httpGet"]["path"], pages)
            self.assertIn(probe["httpGet"]["port"], by_name(container["ports"]))
            patience[kind] = probe["periodSeconds"] * probe["failureThreshold"]
        self.assertGreaterEqual(patience["startup"], 60)
        self.assertGreaterEqual(patience["liveness"], 60)
        self.assertLessEqual(patience["readiness"], 30)

    def test_a_replica_is_run_as_a_server_is(self):
        server, replica = self.pods["cpu"], self.pods["serving"]
        for key in ("automountServiceAccountToken", "enableServiceLinks", "securityContext", "terminationGracePeriodSeconds"):
            self.assertEqual(replica[key], server[key])
        server, replica = self.containers["cpu"], self.containers["serving"]
        for key in ("name", "image", "ports", "securityContext", "startupProbe", "livenessProbe", "readinessProbe"):
            self.assertEqual(replica[key], server[key])
        self.assertEqual(replica["args"], server["args"])
        for flag in ("lame_duck_seconds", "drain_seconds"):
            self.assertEqual(self.flags["serving"][flag], self.flags["cpu"][flag])

    def test_the_server_has_ended_before_it_is_killed(self):
        for name, flags in self.flags.items():
            last = flags["lame_duck_seconds"] + flags["drain_seconds"] + LAST_WORDS
            self.assertGreater(self.pods[name]["terminationGracePeriodSeconds"], last)
            self.assertGreater(flags["lame_duck_seconds"], 0)

    def test_each_file_of_a_flag_is_mounted(self):
        secrets = {
            "tls_cert": "gluond-tls",
            "tls_key": "gluond-tls",
            "identities": "gluond-identities",
            "metrics_token_file": "gluond-metrics",
        }
        joins = {"group_token_file": "gluond-group", "group_ca": "gluond-group"}
        follows = {"follow_token_file": "gluond-follow", "follow_ca": "gluond-follow"}
        replicas = {**secrets, "tls_cert": "gluond-serving-tls", "tls_key": "gluond-serving-tls", **follows}
        expected = {"cpu": secrets, "gpu": secrets, "group": {**secrets, **joins}, "serving": replicas}
        for overlay in manifests.OVERLAYS:
            name = overlay.name
            volumes = by_name(self.pods[name]["volumes"])
            mounts = {mount["mountPath"]: mount for mount in self.containers[name]["volumeMounts"]}
            files = {flag: path for flag, path in self.flags[name].items() if str(path).startswith("/") and flag != "store_dir"}
            self.assertEqual(set(files), {*expected[name], "config"})
            for flag, path in files.items():
                with self.subTest(overlay=name, flag=flag):
                    folder, _, file = path.rpartition("/")
                    mount = mounts[folder]
                    self.assertTrue(mount["readOnly"])
                    self.assertNotIn("subPath", mount, "a changed file would not arrive")
                    volume = volumes[mount["name"]]
                    if flag == "config":
                        (generated,) = manifests.kustomization(manifests.config_folder(overlay))["configMapGenerator"]
                        self.assertEqual((generated["name"], generated["files"]), (volume["configMap"]["name"], [file]))
                    else:
                        self.assertEqual(volume["secret"]["secretName"], expected[name][flag])
                        self.assertEqual(volume["secret"]["defaultMode"], 0o440, "root's files, for the group of fsGroup")
                        self.assertIn({"key": file, "path": file}, volume["secret"]["items"])
            # Beside these there is the store, whose volume is a claim's in a StatefulSet.
            self.assertEqual(len(mounts), len({path.rpartition("/")[0] for path in files.values()}) + 1)
            self.assertEqual(set(volumes) | {"store"}, {mount["name"] for mount in mounts.values()})

    def test_a_group_has_the_servers_that_it_needs(self):
        group, workload = self.arguments["group"], self.workloads["group"]
        least, most = map(int, group["group_size"].split(":"))
        self.assertEqual(workload["spec"]["replicas"], most)
        self.assertGreaterEqual(most - self.group["PodDisruptionBudget", "gluond"]["spec"]["maxUnavailable"], least)
        # A leader that is cut off from the others stops.
        self.assertGreater(2 * least, most)
        self.assertNotIn("group_allow_solo", group)
        # The leader has the name that its Service gives the first pod, whole as it stands in that pod's /etc/hosts, and the
        # clients' port.
        name, service = workload["metadata"]["name"], workload["spec"]["serviceName"]
        self.assertEqual(group["group"], f"{name}-0.{service}.$(POD_NAMESPACE).svc.cluster.local:{GRPC['port']}")
        self.assertIn(("Service", service), self.base)
        # One command line for all: each pod has its own address by a variable.
        self.assertEqual(group["group_interface"], "$(POD_IP)")
        self.assertNotIn("group_role", group)

    def test_a_rings_ports_are_apart_from_the_servers_own(self):
        (setting,) = self.pods["group"]["securityContext"]["sysctls"]
        first, last = map(int, setting["value"].split())
        self.assertEqual((first, last), (RING["port"], RING["endPort"]))
        for port in self.containers["group"]["ports"]:
            self.assertFalse(first <= port["containerPort"] <= last, port)

    def test_replicas_follow_the_service_of_the_server_that_publishes(self):
        name, _, port = self.flags["serving"]["follow"].partition(":")
        self.assertIn({"name": "grpc", "port": int(port), "targetPort": "grpc"}, self.base["Service", name]["spec"]["ports"])
        limit = at(self.pods["serving"], "volumes.0.emptyDir.sizeLimit")
        self.assertLess(self.flags["serving"]["max_store_bytes"], int(limit.removesuffix("Gi")) << 30)
        # Connections end more often than the autoscaler looks for what a new replica has changed.
        scaler = self.serving[SCALER]["spec"]
        age = self.flags["serving"]["max_connection_age_seconds"]
        for way in ("scaleUp", "scaleDown"):
            self.assertLessEqual(age, at(scaler, f"behavior.{way}.policies.0.periodSeconds"))
        budget = self.serving["PodDisruptionBudget", "gluond-serving"]["spec"]
        self.assertGreater(scaler["minReplicas"], budget["maxUnavailable"])

    def test_the_autoscalers_metric_is_made_of_the_servers(self):
        (document,) = manifests.documents(pathlib.Path("deploy/prometheus/adapter.yml"))
        (rule,) = document["rules"]
        (metric,) = self.serving[SCALER]["spec"]["metrics"]
        self.assertEqual(rule["name"], {"as": metric["pods"]["metric"]["name"]})
        self.assertEqual(set(rule["resources"]["overrides"]), {"namespace", "pod"})
        self.assertTrue(rule["seriesQuery"].endswith(',namespace!="",pod!=""}'))
        reference = pathlib.Path("docs/reference.md").read_text()
        for text in (rule["seriesQuery"], rule["metricsQuery"]):
            for name, phase in re.findall(r'(gluond_\w+)_(?:sum|count){phase="(\w+)"', text):
                self.assertRegex(
                    reference, rf"(?m)^\| `{name}` \|[^|]* phase \| histogram: .*`{phase}` \(the wait for an instance\)"
                )
        self.assertEqual(rule["metricsQuery"].count("gluond_"), 2)
        self.assertEqual(rule["metricsQuery"].count("<<.GroupBy>>"), 2)
        self.assertEqual(rule["metricsQuery"].count("<<.LabelMatchers>>"), 2)

    def test_the_scraper_has_the_token_of_the_server(self):
        credentials = at(self.monitoring["ServiceMonitor", "gluond"], "spec.endpoints.0.authorization.credentials")
        for pod in self.pods.values():
            volume = by_name(pod["volumes"])["metrics"]["secret"]
            self.assertEqual(credentials["name"], volume["secretName"])
            self.assertIn(credentials["key"], [item["key"] for item in volume["items"]])
        self.assertIn(f'job="{LABELS["app.kubernetes.io/name"]}"', pathlib.Path("deploy/prometheus/rules.yml").read_text())

    def test_the_reference_makes_the_secrets_that_the_pods_wait_for(self):
        reference = pathlib.Path("docs/reference.md").read_text()
        section = reference.partition("\n## Kubernetes\n")[2].partition("\n## ")[0]
        volumes = [volume for pod in self.pods.values() for volume in pod["volumes"]]
        secrets = {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}
        self.assertEqual(set(re.findall(r"create secret \w+ (gluond-[\w-]+)", section)), secrets)
        (claim,) = self.base[WORKLOAD]["spec"]["volumeClaimTemplates"]
        self.assertIn(f"`{claim['metadata']['name']}-gluond-0`", section)
        for flag in ("lame_duck_seconds", "drain_seconds"):
            self.assertRegex(section, rf"\b{self.flags['cpu'][flag]} s[^|]*\(`{flag}`\)")
        # The certificate has the name by which members call their leader, and those by which replicas and clients call.
        hosts = {host for hosts in re.findall(r"--hosts=(\S+)", section) for host in hosts.split(",")}
        called = [self.flags["group"]["group"].replace("$(POD_NAMESPACE)", "ml"), self.flags["serving"]["follow"], "gluond-serving"]
        self.assertEqual({address.partition(":")[0] for address in called} - hosts, set())

    def test_the_image_is_the_containerfiles(self):
        stage = re.split(r"^FROM .*$", pathlib.Path("deploy/container/Containerfile").read_text(), flags=re.MULTILINE)[-1]
        said = dict(re.findall(r"^([A-Z]+) (.*)$", stage, re.MULTILINE))
        archive = pathlib.Path("deploy/container/oci_image.py").read_text()
        for overlay in manifests.OVERLAYS:
            with self.subTest(overlay=overlay.name):
                container, flags = self.containers[overlay.name], self.flags[overlay.name]
                context = self.pods[overlay.name]["securityContext"]
                self.assertEqual(said["USER"], f"{context['runAsUser']}:{context['runAsGroup']}")
                self.assertEqual(context["fsGroup"], context["runAsGroup"])
                store = next(mount for mount in container["volumeMounts"] if mount["name"] == "store")
                self.assertEqual(said["VOLUME"], f'["{store["mountPath"]}"]')
                self.assertFalse(store.get("readOnly"))
                self.assertEqual(flags["store_dir"], store["mountPath"])
                self.assertEqual(said["EXPOSE"], f"{container['ports'][0]['containerPort']}/tcp")
                # Arguments take the place of CMD, and ENTRYPOINT stays the server.
                self.assertEqual(said["ENTRYPOINT"], '["/usr/bin/gluond-server"]')
                self.assertNotIn("command", container)
                for flag in re.findall(r'"--(\w+)=', said["CMD"]):
                    self.assertIn(flag, flags)
                self.assertIn(f'"org.opencontainers.image.ref.name": "{container["image"]}:latest"', archive)
                (image,) = manifests.kustomization(overlay)["images"]
                self.assertEqual(image["name"], container["image"])
                self.assertNotIn(image["newTag"], ("", "latest"))
                # Those with plugins are other images.
                self.assertEqual(
                    image["newName"].rpartition("/")[2], {"gpu": "gluond-cuda", "group": "gluond-group"}.get(overlay.name, "gluond")
                )


if __name__ == "__main__":
    case_runner.main()
