"""The files of deploy/kubernetes, and what an overlay makes of them: that kustomize makes the same, tests/peers holds."""

import pathlib

import yaml

FOLDER = pathlib.Path("deploy/kubernetes")
BASE, MONITORING = FOLDER / "base", FOLDER / "monitoring"
CPU, GPU, GROUP, SERVING = OVERLAYS = tuple(FOLDER / "overlays" / name for name in ("cpu", "gpu", "group", "serving"))
WORKLOADS = ("StatefulSet", "Deployment")


def documents(path):
    """The documents of a file of YAML."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def kustomization(folder):
    (document,) = documents(folder / "kustomization.yaml")
    return document


def key(document):
    return document["kind"], document["metadata"]["name"]


def objects(folder):
    """(kind, name): object, for each that the folder's own files have."""
    found = {}
    for name in kustomization(folder)["resources"]:
        if (folder / name).is_file():
            for document in documents(folder / name):
                assert key(document) not in found, f"{folder} has two of {key(document)}"
                found[key(document)] = document
    return found


def patches(overlay):
    """(kind, name): patch, for each of an overlay."""
    found = [document for named in kustomization(overlay).get("patches", []) for document in documents(overlay / named["path"])]
    assert len({key(patch) for patch in found}) == len(found), f"{overlay} patches an object twice"
    return {key(patch): patch for patch in found}


def merged(old, new):
    """A value with a patch: maps are joined, lists of named things too, and any other value takes the place of the old one."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{name: merged(old.get(name), value) for name, value in new.items()}}
    if all(isinstance(each, list) and each and all("name" in thing for thing in each) for each in (old, new)):
        named = [{thing["name"]: thing for thing in each} for each in (old, new)]
        return list(merged(*named).values())
    return new


def complete(overlay):
    """(kind, name): object, for each that an overlay gives. Images and generated names stay as the files have them."""
    own, changes = objects(overlay), patches(overlay)
    found = objects(BASE) if "../../base" in kustomization(overlay)["resources"] else {}
    assert set(changes) <= set(found), f"a patch of {overlay} meets nothing"
    found = {each: merged(document, changes.get(each, {})) for each, document in found.items()}
    assert not set(own) & set(found), f"{overlay} and the base have the same object"
    return {**found, **own}


def workload(overlay):
    """The StatefulSet or the Deployment of an overlay."""
    (only,) = (document for (kind, _), document in complete(overlay).items() if kind in WORKLOADS)
    return only


def pod(a_workload):
    return a_workload["spec"]["template"]["spec"]


def container(a_workload):
    """The one container of a workload, or of its patch."""
    (only,) = pod(a_workload)["containers"]
    return only


def config_folder(overlay):
    """The folder of the server.yaml that an overlay's pods read."""
    return overlay if "configMapGenerator" in kustomization(overlay) else BASE


def config(folder):
    """The flags of a folder's server.yaml, each with its value."""
    (document,) = documents(folder / "server.yaml")
    return document


def arguments(overlay):
    """The flags of an overlay's command line, each with its value; of one without a value: True."""
    split = [argument.removeprefix("--").partition("=") for argument in container(workload(overlay))["args"]]
    return {flag: value if equals else True for flag, equals, value in split}
