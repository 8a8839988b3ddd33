"""A room imports only the rooms on its line: the table of docs/architecture.md, held over every source file.

The Python client has rooms of its own, whose table is in python_rooms.py.
"""

import os
import pathlib
import re
import tempfile
import unittest

from tests import case_runner, python_rooms

ENGINE = {
    "engine/core",
    "engine/passes",
    "engine/compile",
    "engine/runtime",
    "engine/imperative",
    "engine/nn",
    "engine/train",
    "engine/store",
}

# The public headers of the C++ library; commands that speak other protocols than its own take its channels, too.
PUBLIC = "client/cpp/gluond/"
MAY_TAKE_CHANNELS = {f"client/cli/{name}.cc" for name in ("health", "load", "load_shot")}
CHANNELS = {"client/cpp/channel.h", "client/cpp/connect.h"}

# A room owns its folder and all below it, but for the rooms there that have a line of their own.
MAY_IMPORT = {
    "bazel": set(),
    "proto": set(),
    "engine/core": set(),
    "engine/passes": {"engine/core"},
    "engine/compile": {"engine/core", "engine/passes"},
    "engine/runtime": {"engine/core", "engine/passes", "engine/compile"},
    "engine/imperative": {"engine/core", "engine/passes", "engine/runtime"},
    "engine/nn": {"engine/core", "engine/passes", "engine/compile", "engine/runtime"},
    "engine/train": {"engine/core", "engine/passes", "engine/runtime", "engine/nn"},
    "engine/store": {"engine/core", "engine/runtime", "engine/nn", "engine/train"},
    "ops": {"engine/core", "ops/kernel"},
    "ops/kernel": {"engine/core"},
    "ops/library": {"engine/core"},
    "client/cpp": {"proto"},
    "client/python": {"client/cpp", "proto"},
    "client/cli": {"bazel", "proto", "client/cpp"},
    "deploy": {"client/cpp"},
    "docs": set(),
}
# The rooms of the server, from the lowest on, with the other rooms of the server that they may import.
SERVER = {
    "start": set(),
    "config": set(),
    "identity": {"config"},
    "net": {"start"},
    "wire": set(),
    "codec": {"wire"},
    "rpc": {"start", "config", "identity", "net", "wire", "codec"},
    "hosted": {"start", "identity", "wire", "codec"},
    "custom": {"identity", "wire", "codec", "rpc"},
    "durable": {"start", "identity", "codec", "rpc", "hosted"},
    "session": {"start", "identity", "wire", "codec", "rpc", "hosted", "custom", "durable"},
    "serving": {"start", "config", "identity", "net", "codec", "rpc", "hosted", "custom", "durable"},
    "group": {"start", "identity", "wire", "codec", "rpc", "hosted", "custom"},
    "services": {"start", "net", "wire", "codec", "rpc", "hosted", "custom", "durable", "session", "serving", "group"},
    "follow": {"start", "codec", "rpc", "hosted", "serving"},
    "sight": {"start", "config", "identity", "net", "codec", "rpc", "hosted", "custom", "serving", "group", "follow"},
}
for _room, _below in SERVER.items():
    MAY_IMPORT[f"server/{_room}"] = {"proto"} | ENGINE | {f"server/{name}" for name in _below}
for _room in ("start", "sight"):
    MAY_IMPORT[f"server/{_room}"] |= {"bazel"}  # The commit.
MAY_IMPORT["server/start"] |= {"ops/library"}  # Operators of others' libraries.
MAY_IMPORT["server/start"] |= {"ops/kernel"}  # The names that the GPU's plugin exports, and what the processor is good for.
MAY_IMPORT["server"] = {"ops"} | ENGINE | {f"server/{name}" for name in SERVER}
EVERYTHING = "tests"  # This room may import all others, and name any library.
SUFFIXES = (".h", ".cc", ".cu", ".py")
AT_LEAST = 100  # Source files in the repository: fewer were not found where they are.

CPP_IMPORT = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)
PY_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import\s+\(?([\w, ]*)|import\s+([\w., ]+))", re.MULTILINE)
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
# cudnn_off and cudnn_tune are attributes of MXNet's operators.
LIBRARY = re.compile(r"\b(?!cudnn_(?:off|tune)\b)(?:dnnl|cublas|cudnn|cblas_)\w*|<<<", re.IGNORECASE)
LIBRARY_HEADER = re.compile(r"dnnl|cublas|cudnn|cblas", re.IGNORECASE)
# The kernels of one device. Operators and code that devices share reach them through the primitives' headers.
BACKEND = re.compile(r"ops/kernel/(?:cpu|cuda)/")
DEVICE_MACRO = re.compile(r"\b(?:GLUOND_GPU|__CUDA)\w*")
MAY_ASK_FOR_THE_DEVICE = {f"engine/core/{name}.h" for name in ("host_device", "op")} | {
    f"ops/kernel/{name}.h" for name in ("backend", "convert", "math")
}


def room_of(path):
    """The room that owns a path, or None: "engine/core/shape.h" -> "engine/core"."""
    parts = path.split("/")
    for name in ("/".join(parts[:2]), parts[0]):
        if name in MAY_IMPORT or name == EVERYTHING:
            return name
    return None


def imports(path, text):
    """The imports of a source file, as paths from the root."""
    if path.endswith(".py"):
        for module, names, modules in PY_IMPORT.findall(text):
            for name in modules.split(",") if modules else [f"{module}.{n.strip()}" for n in names.split(",")]:
                yield name.split(" as ")[0].strip().replace(".", "/")
    else:
        for name in CPP_IMPORT.findall(text):
            if name.startswith("gluond/"):
                name = ("proto/" if name.startswith("gluond/v1/") else "client/cpp/") + name
            yield name


def sources(root):
    """Paths of all source files below root. Bazel's links, hidden folders and others' files are left out."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "bazel-")) and f not in ("__pycache__", "third_party"))
        for file in sorted(files):
            if file.endswith(SUFFIXES):
                yield (pathlib.Path(folder, file)).relative_to(root).as_posix()


def breaches(root):
    """One line for each import or name that the table does not allow."""
    tops = {name.split("/")[0] for name in MAY_IMPORT} | {EVERYTHING}
    of_python = {}
    for path in sources(root):
        text = pathlib.Path(root, path).read_text(encoding="utf-8")
        room = room_of(path)
        if room == EVERYTHING:
            continue
        if room is None:
            yield f"{path}: this folder is no room; the rooms are {', '.join(sorted(MAY_IMPORT))}"
            continue
        if path.startswith(python_rooms.PACKAGE):
            of_python[path] = text
        for imported in imports(path, text):
            if ".." in imported.split("/"):
                yield f"{path}: imports {imported}; name it from the root"
            elif imported.split("/")[0] in tops and room_of(imported) not in MAY_IMPORT[room] | {room}:
                yield f"{path}: {room} may not import {imported}"
            elif (
                room in ("client/cli", "deploy")
                and imported.startswith("client/cpp/")
                and not imported.startswith(PUBLIC)
                and not (path in MAY_TAKE_CHANNELS and imported in CHANNELS)
            ):
                yield f"{path}: {room} may import the library's {PUBLIC}, not {imported}"
            elif imported.startswith("gloo/") and not path.startswith("server/group/gloo/"):
                yield f"{path}: only the plugin server/group/gloo may import {imported}"
            elif LIBRARY_HEADER.search(imported) and room != "ops/kernel":
                yield f"{path}: only ops/kernel may import {imported}"
            elif room.startswith("ops") and (folder := BACKEND.match(imported)) and not path.startswith(folder.group()):
                yield f"{path}: only {folder.group()} may import {imported}"
        if not path.endswith(".py") and path not in MAY_ASK_FOR_THE_DEVICE:
            for name in sorted(set(DEVICE_MACRO.findall(COMMENT_OR_STRING.sub("", text)))):
                yield f"{path}: only {', '.join(sorted(MAY_ASK_FOR_THE_DEVICE))} may ask for {name}"
        if room != "ops/kernel" and not path.endswith(".py"):
            for name in sorted(set(LIBRARY.findall(COMMENT_OR_STRING.sub("", text)))):
                yield f"{path}: only ops/kernel may name {name}"
    yield from python_rooms.breaches(of_python)


class LayersTest(unittest.TestCase):
    def test_every_room_keeps_to_its_line(self):
        # The real path leads out of Bazel's runfiles to the checkout; the tags `local` and `external` in BUILD
        # let it read there and keep the result from being cached.
        root = pathlib.Path(os.path.realpath(__file__)).parent.parent
        self.assertTrue((root / "WORKSPACE").exists(), f"{root} is not the checkout")
        self.assertGreaterEqual(len(list(sources(root))), AT_LEAST)
        self.assertEqual(list(breaches(root)), [])

    def test_a_call_and_its_way_name_nothing_of_gRPC(self):
        root = pathlib.Path(os.path.realpath(__file__)).parent.parent
        for name in "unary_call.h", "unary_call.cc", "call.h", "stream.h", "stream.cc":
            text = (root / "server/rpc" / name).read_text()
            with self.subTest(name=name):
                self.assertEqual(re.findall(r"\bgrpc(?:_core)?::\w*|\bgrpc_\w+", COMMENT_OR_STRING.sub("", text)), [])
                self.assertEqual([each for each in imports(name, text) if each.startswith("grpc")], [])

    def test_the_tables_have_no_cycle(self):
        below = {room: set(names) for room, names in MAY_IMPORT.items()}
        below.update(
            (f"python {room}", {f"python {name}" for name in python_rooms.may_import(room) - {room}}) for room in python_rooms.ROOMS
        )
        while below:
            free = {room for room, names in below.items() if not names}
            self.assertTrue(free, f"a cycle among {sorted(below)}")
            below = {room: names - free for room, names in below.items() if room not in free}


class PlantedBreachTest(unittest.TestCase):
    def found(self, *files):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files:
                file = pathlib.Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            return list(breaches(folder))

    def test_each_is_found(self):
        for path, text in (
            ("engine/core/a.h", '#include "engine/passes/infer.h"\n'),
            ("engine/core/a.cc", '#include "gluond/v1/model.pb.h"\n'),
            ("engine/nn/deeper/a.cc", "#  include <engine/store/manifest.h>\n"),
            ("ops/abs.cc", '#include "engine/runtime/executor.h"\n'),
            ("ops/kernel/map.h", '#include "ops/abs.h"\n'),
            ("ops/abs.cu", '#include "server/server.h"\n'),
            ("client/cpp/a.h", '#include "engine/core/shape.h"\n'),
            ("client/python/gluond/base.py", "import engine.core\n"),
            ("client/python/gluond/base.py", "from tests import case_runner\n"),
            ("server/a.cc", '#include "client/cpp/client.h"\n'),
            ("server/codec/a.cc", '#include "server/rpc/call.h"\n'),
            ("server/wire/a.h", '#include "server/server.h"\n'),
            ("server/group/a.cc", "#include <gloo/context.h>\n"),
            ("deploy/a.py", "import os, server.main as main\n"),
            ("bazel/a.cc", '#include "engine/core/shape.h"\n'),
            ("engine/core/a.h", '#include "bazel/commit.h"\n'),
            ("server/a.cc", '#include "gluond/tensor.h"\n'),
            ("client/cli/a.cc", '#include "client/cpp/connection.h"\n'),
            ("client/cli/a.cc", '#include "client/cpp/channel.h"\n'),
            ("client/cli/health.cc", '#include "client/cpp/connection.h"\n'),
            ("engine/core/a.h", '#include "../runtime/executor.h"\n'),
            ("engine/extra/a.h", "\n"),
            ("tools/a.py", "\n"),
            ("ops/dense.cc", '#include "oneapi/dnnl/dnnl.hpp"\n'),
            ("ops/dense.cc", "cublasHandle_t handle;\n"),
            ("engine/runtime/a.cc", "cudnnCreate(&handle);\n"),
            ("ops/abs.cc", "Abs<<<1, 32>>>(x);\n"),
            ("ops/abs.cc", '#include "ops/kernel/cpu/launch.h"\n'),
            ("ops/kernel/map.h", '#include "ops/kernel/cuda/map.h"\n'),
            ("ops/kernel/cuda/gemm.cu", '#include "ops/kernel/cpu/onednn.h"\n'),
            ("ops/abs.cc", "#ifdef GLUOND_GPU\n#endif\n"),
            ("ops/kernel/map.h", "#if defined(__CUDA_ARCH__)\n#endif\n"),
        ):
            with self.subTest(path=path, text=text):
                self.assertEqual(len(self.found((path, text))), 1)

    def test_each_is_found_within_the_python_client(self):
        others = {
            "base.py": "class A: pass\n",
            "_wire/session.py": "",
            "_array/array.py": "",
            "_array/calls.py": "value = 1\n",
            "symbol/__init__.py": "from .symbol import Symbol\n",
            "symbol/symbol.py": "class Symbol: pass\n",
            "autograd.py": "from ._array.array import NDArray\n",
        }
        for path, text, problem in (
            ("_wire/a.py", "from .._array import calls\n", "_wire may not import .*/_array/calls.py"),
            ("_wire/a.py", "from .._array.calls import value\n", "_wire may not import .*/_array/calls.py"),
            ("_wire/a.py", "import gluond._array.calls as calls\n", "_wire may not import .*/_array/calls.py"),
            ("_wire/a.py", "def f():\n    from .._array import calls\n", "_wire may not import .*/_array/calls.py"),
            ("_wire/a.py", "if TYPE_CHECKING:\n    from .._array.array import NDArray\n", "_wire may not import .*/array.py"),
            ("_array/a.py", "from ..symbol import symbol\n", "_array may not import .*/symbol/symbol.py"),
            ("symbol/a.py", "from . import Symbol\n", "symbol may not import .*/symbol/__init__.py"),
            ("gluon/a.py", "from .. import autograd\n", "gluon may not import .*/autograd.py"),
            ("gluon/__init__.py", "def f(): pass\n", "a face defines nothing, but there is `def f"),
            ("operator.py", "from .base import A\nB = A()\n", "a face defines nothing, but there is `B = A"),
            ("gluon/deeper/__init__.py", "", "a package's own file is a face"),
            ("a.py", "", "it belongs to no room"),
            ("_custom/a.py", "from .._array import calls\ncalls.value = 2\n", "changes calls.value"),
            ("_custom/a.py", "from .._array.calls import known\nknown.value = 2\n", "changes known.value"),
            ("_custom/a.py", "from .._array.calls import known\nknown[1] += 2\n", r"changes known\[1\]"),
            ("_custom/a.py", "from .._array import calls\ncalls.hooks.append(len)\n", "changes calls.hooks.append"),
            ("_custom/a.py", "from .._array.calls import known\ndel known.value\n", "changes known.value"),
            ("_custom/a.py", "from ..base import A\na, A.value = 1, 2\n", "changes A.value"),
            ("_custom/a.py", "from .. import base\nsetattr(base, 'a', 1)\n", "changes base"),
            (
                "_array/calls.py",
                "def f():\n    from . import a\n",
                "a circle: .*/_array/a.py -> .*/_array/calls.py -> .*/_array/a.py",
            ),
        ):
            files = {**others, "_array/a.py": "from . import calls\n", path: text}
            with self.subTest(path=path, text=text):
                problems = self.found(*((python_rooms.PACKAGE + name, content) for name, content in files.items()))
                self.assertEqual(len(problems), 1, problems)
                self.assertRegex(problems[0], problem)

    def test_what_is_allowed_is_not(self):
        for path, text in (
            ("client/python/gluond/gluon/nn/a.py", "from ... import ndarray\nfrom ...ndarray import NDArray\n"),
            ("client/python/gluond/gluon/block.py", "from ._block import Block\n__all__ = ['Block']\n"),
            (
                "client/python/gluond/remote.py",
                "from .gluon._block import Block\nfrom ._remote.saving import save\nBlock.save = save\n",
            ),
            (
                "client/python/gluond/_array/a.py",
                "import os\nfrom .._wire import frame\nfrom . import calls\nframe.change(on_host=True)\ncalls.add(os.name)\n",
            ),
            ("ops/abs.cc", '#include <cmath>\n#include "engine/core/op.h"\n#include "ops/kernel/map.h"\n'),
            ("ops/kernel/cpu/gemm.cc", '#include "ops/kernel/cpu/onednn.h"\n'),
            ("ops/kernel/backend.h", "#ifdef GLUOND_GPU  // The GPU's.\n#endif\n"),
            ("ops/kernel/map.h", "// GLUOND_GPU\n#include BACKEND(map.h)\n"),
            ("server/start/a.cc", '#include "ops/kernel/cuda/plugin.h"\n'),
            ("client/cli/a.cc", '#include "gluond/client.h"\n'),
            ("client/cli/health.cc", '#include "client/cpp/channel.h"\n'),
            ("server/group/gloo/a.cc", "#include <gloo/context.h>\n"),
            ("ops/kernel/gemm.cc", '#include "oneapi/dnnl/dnnl.hpp"\nF<<<1, 2>>>(cublasHandle_t());\n'),
            ("server/a.cc", '// cuDNN is found by dlopen.\nauto text = "libcudnn.so.9 is missing";\n'),
            ("server/hosted/a.cc", '#include "engine/store/manifest.h"\n#include "gluond/v1/model.pb.h"\n'),
            ("client/python/gluond/base.py", "from gluond.v1 import gluond_pb2\nfrom . import block\nimport numpy\n"),
            ("tests/ops/abs_test.cc", '#include "server/server.h"\n#include "oneapi/dnnl/dnnl.hpp"\n'),
            (".hidden/a.py", "import server\n"),
        ):
            with self.subTest(path=path, text=text):
                self.assertEqual(self.found((path, text)), [])


if __name__ == "__main__":
    case_runner.main()
