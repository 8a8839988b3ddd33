"""Adds to setuptools' build that the messages are made from proto/ first. The rest stands in pyproject.toml."""

import pathlib
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import build_stubs  # noqa: E402


class BuildWithMessages(build_py):
    """build_py that makes gluond/_proto/descriptors.binpb."""

    def run(self) -> None:
        build_stubs.build()
        super().run()


setup(cmdclass={"build_py": BuildWithMessages})
