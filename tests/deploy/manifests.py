"""The files of deploy/kubernetes, as they stand: what kustomize makes of them, tests/peers holds."""

import pathlib

import yaml

FOLDER = pathlib.Path("deploy/kubernetes")
BASE, MONITORING = FOLDER / "base", FOLDER / "monitoring"
OVERLAYS = (FOLDER / "overlays/cpu", FOLDER / "overlays/gpu")


def documents(path):
    """The documents of a file of YAML."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def kustomization(folder):
    (document,) = documents(folder / "kustomization.yaml")
    return document


def objects(folder):
    """(kind, name): object, for each that the folder's own files have."""
    found = {}
    for name in kustomization(folder)["resources"]:
        if (folder / name).is_file():
            for document in documents(folder / name):
                key = document["kind"], document["metadata"]["name"]
                assert key not in found, f"{folder} has two of {key}"
                found[key] = document
    return found


def patch(overlay):
    """The one patch of an overlay."""
    (named,) = kustomization(overlay)["patches"]
    (document,) = documents(overlay / named["path"])
    return document


def container(workload):
    """The one container of a StatefulSet, or of its patch."""
    (only,) = workload["spec"]["template"]["spec"]["containers"]
    return only


def config():
    """The flags of server.yaml, each with its value."""
    (document,) = documents(BASE / "server.yaml")
    return document
