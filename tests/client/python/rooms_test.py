"""Each file of the package can be imported alone: it imports all that it needs, and no other has to be imported before.

The parents of a module, which Python imports before it, stand here as empty packages, but for the faces that its room may
import. Each import has a process of its own, forked from this one, which has imported nothing of the package.
"""

import compileall
import importlib
import importlib.util
import multiprocessing
import os
import pathlib
import sys
import tempfile
import traceback
import types
import unittest

import grpc  # noqa: F401  # Once for all.
import numpy  # noqa: F401
from google.protobuf import message_factory  # noqa: F401

from tests import case_runner, python_rooms

ROOT = pathlib.Path(importlib.util.find_spec("gluond").origin).parent
# Bazel makes a package of the folder of the streams' library.
FILES = sorted(path.relative_to(ROOT.parent) for path in ROOT.rglob("*.py") if path.parent.name != "_bin")
WHERE = python_rooms.PACKAGE[: -len("gluond/")]


def module_of(path):
    """gluond/ndarray/__init__.py -> gluond.ndarray"""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PACKAGES = [path for path in FILES if path.name == "__init__.py"]


def import_alone(path):
    """The traceback of its exception, or nothing."""
    room = python_rooms.room_of(f"{WHERE}{path}")
    for package in PACKAGES:
        owner = python_rooms.room_of(f"{WHERE}{package}")
        is_wanted = package == path or owner == "_proto" or owner in python_rooms.may_import(room) and len(package.parts) > 2
        if not is_wanted:
            stub = sys.modules[module_of(package)] = types.ModuleType(module_of(package))
            stub.__path__ = [str(ROOT.parent / package.parent)]
    try:
        importlib.import_module(module_of(path))
        return ""
    except BaseException:
        return traceback.format_exc()


class RoomsTest(unittest.TestCase):
    def test_each_file_is_imported_alone(self):
        self.assertGreater(len(FILES), 100)
        with tempfile.TemporaryDirectory() as folder:
            sys.pycache_prefix = folder  # So that each file is compiled once.
            compileall.compile_dir(ROOT, quiet=2)
            with multiprocessing.get_context("fork").Pool(os.cpu_count(), maxtasksperchild=1) as pool:
                for path, problem in zip(FILES, pool.imap(import_alone, FILES, chunksize=1)):
                    with self.subTest(path=path):
                        if problem:
                            self.fail(problem)


if __name__ == "__main__":
    case_runner.main()
