"""Attacks on the store: disks that are full or read-only. A setting gives flags and more to start the server with."""

import contextlib
import os
import pathlib
import resource
import subprocess
import tempfile
import time
import unittest

from gluond.v1 import checkpoint_pb2, serving_pb2
from tests.fault.attack_work import define, step
from tests.fault.peer import crowd


@contextlib.contextmanager
def small_disk(size="2m"):
    """A file system in memory; only root can make one."""
    with tempfile.TemporaryDirectory() as folder:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
        if mounted.returncode != 0:
            raise unittest.SkipTest("a small disk cannot be made: mounting one needs root")
        try:
            yield pathlib.Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


@contextlib.contextmanager
def full_disk():
    with small_disk() as folder:
        yield {"flags": [f"--store_dir={folder}/store"]}


@contextlib.contextmanager
def read_only_disk():
    with small_disk() as folder:
        (folder / "store").mkdir()

        def remount():
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)

        yield {"flags": [f"--store_dir={folder}/store"], "once_started": remount}


@contextlib.contextmanager
def short_files():
    """As a full disk, without root: no file may be longer than 256 KB."""
    yield {
        "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 10, 256 << 10)),
        "restore_signals": False,
    }  # Python ignores SIGXFSZ, and so does then the server.


@contextlib.contextmanager
def few_descriptors():
    yield {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))}


@contextlib.contextmanager
def unread_log():
    """A pipe that nobody reads for standard error."""
    read, write = os.pipe()
    try:
        yield {"stderr": write}
    finally:
        os.close(read)
        os.close(write)


def saves(target):
    """Saves of 4 MB; a save that succeeds is deleted."""

    def save(peer, told, i):
        define(peer, f"saves{i}", 1024, 1024)
        peer.call("TrainingService/TrainStep", step(f"saves{i}", 8, 1024, 1024))
        end = time.monotonic() + target.seconds
        while time.monotonic() < end:
            request = checkpoint_pb2.SaveCheckpointRequest(model=f"saves{i}", checkpoint=f"save{i}", overwrite=True)
            told.note(peer.start("ModelService/SaveCheckpoint", request).exception() or "OK")

    return crowd(target, save)


def publishes(target):
    """Versions of 4 MB; one that is published is retired. One that is refused leaves nothing to retire."""

    def publish(peer, told, i):
        name = f"publishes{i}"
        define(peer, name, 1024, 1024)
        end = time.monotonic() + target.seconds
        while time.monotonic() < end:
            published = peer.start("ServingService/PublishModel", serving_pb2.PublishModelRequest(model=name))
            told.note(published.exception() or "OK")
            answer = peer.call("ServingService/ListVersions", serving_pb2.ListVersionsRequest(served=name))
            listed = serving_pb2.ListVersionsResponse.FromString(answer).versions
            if published.exception() and listed:
                told.note("a version that was refused is listed")
            for version in listed:
                peer.call("ServingService/RetireVersion", serving_pb2.RetireVersionRequest(served=name, version=version.version))

    return crowd(target, publish)
