"""Libraries of operators, built for tests by the machine's compiler, as somebody outside of the tree does it."""

import pathlib
import shutil
import subprocess

HEADERS = pathlib.Path("ops/library")
VERSION_1 = pathlib.Path("tests/ops/library/v1")
EXAMPLE = pathlib.Path("deploy/examples/operator_library")


def run(*command):
    """Runs a compiler, which says nothing: not even a warning."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0 and "warning" not in done.stdout, f"{command}:\n{done.stdout}"


def build(folder, source, *options, name="library.so", headers=HEADERS):
    """Builds one file of C to folder/name, and returns that path."""
    path = pathlib.Path(folder, name)
    run("gcc", "-std=c11", "-Wall", "-Wextra", "-fPIC", "-shared", f"-I{headers}", *options, source, "-o", path)
    return path


def cube(folder):
    """A library by the frozen header of version 1."""
    return build(folder, VERSION_1 / "cube.c", name="cube.so", headers=VERSION_1)


def example(folder):
    """The example as its own Makefile builds it, in a folder of its own."""
    folder = pathlib.Path(folder, "example")
    shutil.copytree(EXAMPLE, folder)
    run("make", "-s", "-C", folder, f"GLUOND_HEADERS={HEADERS.resolve()}")
    return folder / "liboperators.so"
