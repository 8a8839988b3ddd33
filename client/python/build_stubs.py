"""Writes gluond/_proto/descriptors.binpb: the messages of proto/, for gluond/_proto to make classes of.

    python3 build_stubs.py [OUTPUT]

Descriptors instead of protoc's Python files: those refuse to be imported by a protobuf that is older than the protoc
that made them, and users bring any. Takes `protoc` where it is installed, else grpcio-tools.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MESSAGES = pathlib.Path("gluond", "_proto", "descriptors.binpb")
OUTPUT = HERE / MESSAGES
# The files of the client's protocol, and those that they import.
SOURCES = [
    "gluond/v1/session.proto",
    "gluond/v1/group.proto",
    "gluond/v1/operator.proto",
    "gluond/v1/server.proto",
    "gluond/v1/model.proto",
    "gluond/v1/training.proto",
    "gluond/v1/serving.proto",
    "google/rpc/error_details.proto",
    "inference/grpc_service.proto",
]


def compiler() -> list[str]:
    """The command that compiles .proto files."""
    protoc = shutil.which("protoc")
    if protoc:
        return [protoc]
    try:
        import grpc_tools  # noqa: F401
    except ImportError:
        raise SystemExit(
            "build_stubs.py: neither protoc nor grpcio-tools is installed; "
            "try `pip install grpcio-tools` or `apt-get install protobuf-compiler`"
        ) from None
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    return [sys.executable, "-m", "grpc_tools.protoc", f"-I{well_known}"]


def build(output: pathlib.Path = OUTPUT) -> None:
    """Writes the descriptors, where the sources are at hand; a source distribution has them already."""
    if not (ROOT / "proto" / SOURCES[0]).exists():
        if output.exists():
            return
        raise SystemExit(
            f"gluond is installed from its checkout, whose proto/ has the messages of the wire, and {HERE} lies in "
            "none: `pip install CHECKOUT/client/python`, or the wheel of `bazel build //client/python:wheel`"
        )
    output.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            *compiler(),
            f"-I{ROOT / 'proto'}",
            f"-I{ROOT / 'third_party/googleapis'}",
            f"-I{ROOT}",
            "--include_imports",
            f"--descriptor_set_out={output}",
            *SOURCES,
        ],
        cwd=ROOT,
        check=True,
    )


if __name__ == "__main__":
    build(*(pathlib.Path(path).absolute() for path in sys.argv[1:2]))
