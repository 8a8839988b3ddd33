"""Adds to setuptools' build that the messages are made from proto/. The rest stands in pyproject.toml."""

import pathlib
import sys
import tempfile

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import build_stubs  # noqa: E402


class BuildWithMessages(build_py):
    """build_py that makes gluond/_proto/descriptors.binpb: in the source folder for an editable installation only."""

    def run(self) -> None:
        super().run()
        if getattr(self, "editable_mode", False):
            build_stubs.build()
        else:
            build_stubs.build(pathlib.Path(self.build_lib).absolute() / build_stubs.MESSAGES)


class SourceWithMessages(sdist):
    """sdist that has them, as proto/ lies outside."""

    def run(self) -> None:
        build_stubs.build()
        super().run()


# Elsewhere, as the files of an earlier build would be packed as well.
with tempfile.TemporaryDirectory() as folder:
    setup(
        cmdclass={"build_py": BuildWithMessages, "sdist": SourceWithMessages},
        options={"build": {"build_base": folder}, "egg_info": {"egg_base": folder}},
    )
