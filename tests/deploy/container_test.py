"""The image that build_oci.sh writes, made here from two small programs of the system."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

from tests import case_runner

CONTAINER = pathlib.Path("deploy/container")


class ContainerTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        self.addCleanup(shutil.rmtree, self.folder)

    def rootfs(self, name="rootfs"):
        root = self.folder / name
        subprocess.run([CONTAINER / "rootfs.sh", root, "/usr/bin/true", "/usr/bin/ls"], check=True)
        return root

    def image(self, root, containerfile=CONTAINER / "Containerfile", name="image.tar"):
        out = self.folder / name
        subprocess.run(
            [sys.executable, CONTAINER / "oci_image.py", root, containerfile, out], check=True, stdout=subprocess.DEVNULL
        )
        return out

    def test_the_same_files_give_the_same_bytes(self):
        first, second = self.image(self.rootfs()), self.image(self.rootfs("again"), name="again.tar")
        self.assertEqual(first.read_bytes(), second.read_bytes())

    def test_the_archive_is_an_oci_layout_of_what_the_containerfile_says(self):
        with tarfile.open(self.image(self.rootfs())) as archive:
            read = lambda name: archive.extractfile(name).read()
            blob = lambda descriptor: read("blobs/" + descriptor["digest"].replace(":", "/"))
            self.assertEqual(json.loads(read("oci-layout")), {"imageLayoutVersion": "1.0.0"})
            manifest = json.loads(blob(json.loads(read("index.json"))["manifests"][0]))
            for descriptor in manifest["layers"] + [manifest["config"]]:
                self.assertEqual(descriptor["digest"], "sha256:" + hashlib.sha256(blob(descriptor)).hexdigest())
                self.assertEqual(descriptor["size"], len(blob(descriptor)))
            config = json.loads(blob(manifest["config"]))["config"]
            with tarfile.open(
                fileobj=archive.extractfile("blobs/" + manifest["layers"][0]["digest"].replace(":", "/")), mode="r:gz"
            ) as layer:
                files = {entry.name: entry for entry in layer}

        self.assertEqual(config["User"], "65532:65532")
        self.assertEqual(config["Entrypoint"], ["/usr/bin/gluond-server"])
        self.assertIn("--store_dir=/var/lib/gluond", config["Cmd"])
        self.assertNotIn("--insecure_public", config["Cmd"])
        self.assertEqual(config["Volumes"], {"/var/lib/gluond": {}})
        self.assertEqual(config["Healthcheck"]["Test"][:3], ["CMD", "/usr/bin/gluond", "health"])
        self.assertIn("--quiet", config["Healthcheck"]["Test"])  # It asks whether the server serves, and no more.
        self.assertEqual(config["Healthcheck"]["Timeout"], 5_000_000_000)

        store = files["var/lib/gluond"]
        self.assertEqual((store.uid, store.gid, store.mode), (65532, 65532, 0o700))
        others = [entry for entry in files.values() if entry is not store]
        self.assertEqual({(entry.uid, entry.gid) for entry in others}, {(0, 0)})
        self.assertEqual([entry.name for entry in others if entry.mode & 0o6000], [])
        self.assertEqual([entry.name for entry in others if entry.isreg() and entry.mode & 0o022], [])

    def test_the_root_file_system_has_each_library_and_its_owner(self):
        root = self.rootfs()
        loaded = subprocess.run(["ldd", "/usr/bin/ls"], check=True, stdout=subprocess.PIPE, text=True).stdout
        for name in ("libselinux.so.1", "libc.so.6"):
            self.assertIn(name, loaded)
            self.assertTrue((root / "usr/lib/x86_64-linux-gnu" / name).is_file(), name)
        self.assertTrue((root / "lib64/ld-linux-x86-64.so.2").is_file())
        for package in ("libc6", "libselinux1"):
            self.assertIn(f"Package: {package}\n", (root / "var/lib/dpkg/status.d" / package).read_text())
            self.assertTrue((root / "usr/share/doc" / package / "copyright").is_file(), package)

    def test_a_folder_that_exists_is_refused(self):
        answer = subprocess.run([CONTAINER / "rootfs.sh", self.folder, "/usr/bin/true"], stderr=subprocess.PIPE, text=True)
        self.assertEqual(answer.returncode, 2)
        self.assertIn("must not exist", answer.stderr)

    def test_an_instruction_that_would_be_lost_is_refused(self):
        strange = self.folder / "Containerfile"
        strange.write_text("FROM scratch\nONBUILD USER 0\n")
        answer = subprocess.run(
            [sys.executable, CONTAINER / "oci_image.py", self.folder, strange, self.folder / "out.tar"],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.assertNotEqual(answer.returncode, 0)
        self.assertIn("ONBUILD in the last stage is not understood", answer.stderr)


if __name__ == "__main__":
    case_runner.main()
