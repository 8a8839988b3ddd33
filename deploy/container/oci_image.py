"""Writes an OCI image archive from a root file system and a Containerfile's last stage.

    oci_image.py ROOTFS CONTAINERFILE OUT.tar

Everything but the files comes from the Containerfile, so that both ways give one image. The same files give the
same bytes: names are sorted, times are SOURCE_DATE_EPOCH (or 1970), owners are root, but for the volumes, which
are the user's. Load it with `podman load -i OUT.tar`, `docker load -i OUT.tar` or
`skopeo copy oci-archive:OUT.tar ...`.
"""

import datetime
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shlex
import sys
import tarfile

EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
SECOND = 1_000_000_000  # In nanoseconds, as the configuration counts.


def read_config(containerfile):
    """The image configuration that the instructions of the last stage describe."""
    stage = re.split(r"^FROM .*$", pathlib.Path(containerfile).read_text(), flags=re.MULTILINE)[-1]
    config = {"Env": ["PATH=/usr/bin"]}
    for line in re.sub(r"\\\n", " ", stage).splitlines():
        word, _, rest = line.partition(" ")
        if word in ("ENTRYPOINT", "CMD"):
            config[word.capitalize()] = json.loads(rest)
        elif word == "USER":
            config["User"] = rest
        elif word == "WORKDIR":
            config["WorkingDir"] = rest
        elif word == "STOPSIGNAL":
            config["StopSignal"] = rest
        elif word == "VOLUME":
            config["Volumes"] = {path: {} for path in json.loads(rest)}
        elif word == "EXPOSE":
            config["ExposedPorts"] = {port: {} for port in rest.split()}
        elif word == "ENV":
            config["Env"] += shlex.split(rest)
        elif word == "LABEL":
            config.setdefault("Labels", {}).update(pair.split("=", 1) for pair in shlex.split(rest))
        elif word == "HEALTHCHECK":
            options, command = rest.split(" CMD ")
            seconds = {name: int(value) for name, value in re.findall(r"--([a-z-]+)=(\d+)", options)}
            config["Healthcheck"] = {
                "Test": ["CMD"] + json.loads(command),
                "Interval": seconds["interval"] * SECOND,
                "Timeout": seconds["timeout"] * SECOND,
                "StartPeriod": seconds["start-period"] * SECOND,
                "Retries": seconds["retries"],
            }
        elif word not in ("", "COPY") and not word.startswith("#"):
            raise ValueError(f"{containerfile}: {word} in the last stage is not understood here")
    return config


def layer(rootfs, config):
    """The root file system as an uncompressed tar, and the names in it."""
    user, group = map(int, config["User"].split(":"))
    volumes = [path.lstrip("/") for path in config.get("Volumes", {})]
    names = sorted(path.relative_to(rootfs).as_posix() for path in pathlib.Path(rootfs).rglob("*"))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in names:
            entry = tar.gettarinfo(os.path.join(rootfs, name), name)
            if entry.islnk():
                raise ValueError(f"{name} is a hard link")
            entry.uname = entry.gname = ""
            owned = any(name == volume or name.startswith(volume + "/") for volume in volumes)
            entry.uid, entry.gid = (user, group) if owned else (0, 0)
            entry.mtime = EPOCH
            if entry.isreg():
                with open(os.path.join(rootfs, name), "rb") as file:
                    tar.addfile(entry, file)
            else:
                tar.addfile(entry)
    return buffer.getvalue(), names


class Archive:
    """An OCI layout in a tar file."""

    def __init__(self, path):
        self._tar = tarfile.open(path, "w", format=tarfile.PAX_FORMAT)

    def file(self, name, content):
        entry = tarfile.TarInfo(name)
        entry.size, entry.mtime, entry.mode = len(content), EPOCH, 0o644
        self._tar.addfile(entry, io.BytesIO(content))

    def blob(self, media_type, content):
        """Adds a blob and returns its descriptor."""
        digest = hashlib.sha256(content).hexdigest()
        self.file("blobs/sha256/" + digest, content)
        return {"mediaType": media_type, "digest": "sha256:" + digest, "size": len(content)}

    def document(self, kind, content):
        return self.blob(f"application/vnd.oci.image.{kind}.v1+json", json.dumps(content, sort_keys=True).encode())

    def close(self):
        self._tar.close()


def main():
    rootfs, containerfile, out = sys.argv[1:]
    config = read_config(containerfile)
    content, names = layer(rootfs, config)
    created = datetime.datetime.fromtimestamp(EPOCH, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    archive = Archive(out)
    packed = archive.blob("application/vnd.oci.image.layer.v1.tar+gzip", gzip.compress(content, mtime=0))
    described = archive.document(
        "config",
        {
            "architecture": "amd64",
            "os": "linux",
            "created": created,
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(content).hexdigest()]},
            "history": [{"created": created, "created_by": "deploy/container/build_oci.sh"}],
        },
    )
    manifest = archive.document(
        "manifest",
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": described,
            "layers": [packed],
        },
    )
    manifest["annotations"] = {"org.opencontainers.image.ref.name": "gluond:latest"}
    archive.file("index.json", json.dumps({"schemaVersion": 2, "manifests": [manifest]}, sort_keys=True).encode())
    archive.file("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
    archive.close()
    print(f"{out}: {len(names)} files, {len(content) / 2**20:.1f} MiB, {packed['size'] / 2**20:.1f} MiB compressed")
    print(manifest["digest"])


if __name__ == "__main__":
    main()
