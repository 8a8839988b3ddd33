"""Operators from libraries: a server that has them, and one that does not start, in one line, for each library that is bad."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import grpc

from tests import case_runner
from tests.server import operator_libraries
from tests.server.group_servers import GLOO, GroupServers
from tests.server.operator_libraries import VERSION_1
from tests.server.reflection_client import Reflection
from tests.server.running_server import BINARY, RunningServer, Waits

BAD = pathlib.Path("tests/server/bad_library.c")
LYING = pathlib.Path("tests/server/lying_library.c")
OPERATORS, MODELS, TRAINING = (f"gluond.v1.{name}Service" for name in ("Operator", "Model", "Training"))
X = {"shape": [2, 2], "floatData": [1, -2, 3, -4]}


def start(*libraries, check=True):
    """A server's attempt to start: its status, and the lines that it writes."""
    flags = ["--devices=cpu", "--address=127.0.0.1:0", f"--operator_library={','.join(map(str, libraries))}"]
    done = subprocess.run(
        [BINARY, *flags, *(["--check"] if check else [])], capture_output=True, encoding="utf-8", timeout=120, check=False
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


class BadLibraryTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assert_refused(self, path, why, check=True):
        status, lines = start(path, check=check)
        self.assertEqual((status, len(lines)), (1, 1), lines)
        line = json.loads(lines[0])
        self.assertEqual(line["event"], "start_refused")
        self.assertRegex(line["message"], f"^--operator_library={re.escape(str(path))}: {why}")

    def test_files_that_are_no_libraries(self):
        whole = operator_libraries.example(self.folder).read_bytes()
        for name, content, why in (
            ("empty.so", b"", "it cannot be loaded: .*file too short"),
            ("text.so", b"no library\n" * 100, "it cannot be loaded: .*invalid ELF header"),
            ("header.so", whole[:64], "it cannot be loaded|it crashes"),
            ("half.so", whole[: len(whole) // 2], "it cannot be loaded|it crashes"),
            ("quarter.so", whole[: len(whole) // 4], "it cannot be loaded|it crashes"),
            ("machine.so", whole[:18] + b"\xb7\x00" + whole[20:], "it cannot be loaded"),
            ("nothing_but.so", whole[:16] + b"\x00" * (len(whole) - 16), "it cannot be loaded"),
        ):
            path = self.folder / name
            path.write_bytes(content)
            with self.subTest(name=name):
                self.assert_refused(path, why)
        self.assert_refused(self.folder / "nowhere.so", "there is no such file")
        self.assert_refused(self.folder, "there is no such file")

    def test_libraries_that_are_bad(self):
        for name, why in (
            ("CRASHES_IN_CONSTRUCTOR", r"it crashes while it is loaded \(signal 11, .*\); it said: no licence$"),
            ("ABORTS_IN_CONSTRUCTOR", r"it crashes while it is loaded \(signal 6, .*\); it said: no licence$"),
            ("EXITS_IN_CONSTRUCTOR", "it ends the process, with status 7, while it is loaded; it said: no licence$"),
            ("CRASHES_IN_REGISTRATION", r"it crashes while it is loaded \(signal 11"),
            ("OTHER_VERSION", "it is of version 2 of gluond_op.h, and this server takes version 1; build it"),
            ("NO_SYMBOL", "it has no symbol gluond_operator_library"),
            ("UNDEFINED_SYMBOL", "it cannot be loaded: .*undefined symbol: nobody_has_this"),
            ("DUPLICATE", "operator 'abs': the server has an operator of this name already"),
            ("TWICE", "operator 'bad_one': the server has an operator of this name already"),
            ("BAD_NAME", r"an operator's name is 'a b\\n'"),
            ("NOTHING", "it registers no operators"),
            ("FAILS", "its register_operators returned the status 13"),
            ("DUPLICATE_ATTRIBUTE", "operator 'bad_one': two arguments have the name 'a'"),
            ("WILD_POINTER", r"it crashes while it is loaded \(signal 11"),
            ("SHORT_SYMBOL", "its gluond_operator_library has 8 bytes"),
            ("CRASHES_IN_CHECK", r"it crashes while it is loaded \(signal 11"),
        ):
            with self.subTest(name=name):
                self.assert_refused(operator_libraries.build(self.folder, BAD, f"-DBAD={name}", name=f"{name}.so"), why)

    def test_the_server_that_would_serve_does_not_start_either(self):
        path = operator_libraries.build(self.folder, BAD, "-DBAD=CRASHES_IN_CONSTRUCTOR")
        self.assert_refused(path, "it crashes", check=False)

    def test_a_library_after_one_that_is_good(self):
        good = operator_libraries.cube(self.folder)
        status, lines = start(good, good)
        self.assertEqual((status, len(lines)), (1, 1))
        self.assertIn("operator 'cube': the server has an operator of this name already", lines[0])


class LibraryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls._folder.cleanup)
        cls.libraries = [operator_libraries.example(cls._folder.name), operator_libraries.cube(cls._folder.name)]
        cls.libraries.append(operator_libraries.build(cls._folder.name, LYING, name="lying.so"))
        cls.server = RunningServer("--operator_library=" + ",".join(map(str, cls.libraries)))
        cls.addClassCleanup(cls.server.__exit__)
        cls.channel = grpc.insecure_channel(cls.server.address)
        cls.addClassCleanup(cls.channel.close)
        cls.client = Reflection(cls.channel)

    def invoke(self, op, x=X, **attributes):
        answer = self.client.call(OPERATORS, "Invoke", {"op": op, "inputs": [x], "attributes": attributes})
        return answer["outputs"][0]

    def assert_fails(self, code, text, op, **attributes):
        with self.assertRaises(grpc.RpcError) as caught:
            self.invoke(op, **attributes)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        self.assertIn(text, caught.exception.details())

    def test_it_says_what_it_has_loaded(self):
        with RunningServer(f"--operator_library={self.libraries[1]}") as server:
            self.assertIn(f"  operators of {self.libraries[1]}: cube\n", server.stop()[1])

    def test_they_are_listed_and_described(self):
        described = self.client.call(OPERATORS, "DescribeOperator", {"op": "row_sums"})["operator"]
        self.assertEqual(described["inputs"], [{"name": "data", "type": "NDArray", "description": "A matrix."}])
        self.assertEqual(
            described["parameters"],
            [
                {
                    "name": "scale",
                    "type": "float",
                    "defaultValue": "1",
                    "description": "Multiplies each sum.",
                    "decides": True,
                }
            ],
        )
        self.assertTrue(described["differentiable"])
        self.assertEqual(described["devices"], ["cpu"])
        names = {each["name"] for each in self.client.call(OPERATORS, "ListOperators", {"pageSize": 1000})["operators"]}
        self.assertLessEqual({"absolute", "row_sums", "cube"}, names)
        self.assertNotIn("_backward_absolute", names)

    def test_the_fingerprint_of_the_operators_has_them(self):
        def fingerprint(client):
            return client.call("gluond.v1.ServerService", "GetServerInfo", {})["registryHash"]

        with RunningServer() as other, grpc.insecure_channel(other.address) as channel:
            self.assertNotEqual(fingerprint(Reflection(channel)), fingerprint(self.client))

    def test_they_compute(self):
        self.assertEqual(self.invoke("absolute")["floatData"], [1, 2, 3, 4])
        self.assertEqual(self.invoke("row_sums", scale=2)["floatData"], [-2, -2])
        self.assertEqual(self.invoke("cube", scale=0.5)["floatData"], [0.5, -4, 13.5, -32])

    def test_their_gradients_are_those_of_finite_differences(self):
        for op, attributes in ("absolute", {}), ("row_sums", {"scale": 3}):
            answer = self.client.call(OPERATORS, "CheckGradient", {"op": op, "inputs": [X], "attributes": attributes})
            with self.subTest(op=op):
                self.assertTrue(answer["passed"], answer)

    def test_lies_are_errors_of_their_calls_alone(self):
        code = grpc.StatusCode
        self.assertEqual(self.invoke("honest")["floatData"], [1, -2, 3, -4])
        with grpc.insecure_channel(self.server.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            second = Reflection(channel)
            unharmed = {"op": "honest", "inputs": [X]}
            before = second.call(OPERATORS, "Invoke", unharmed)
            for op, status, text in (
                ("negative_dims", code.INTERNAL, "the library's output 0 has a wrong shape: shape [-7,-7] has dimension -7"),
                ("huge_dims", code.INTERNAL, "the library's output 0 has a wrong shape"),
                ("large_dims", code.RESOURCE_EXHAUSTED, "562949953421312 bytes wanted"),
                ("high_rank", code.INTERNAL, "the library's output 0 has the rank 1000000, expected 0 to 8"),
                ("negative_rank", code.INTERNAL, "the library's output 0 has the rank -5"),
                ("never_known", code.FAILED_PRECONDITION, "its inputs do not tell the shape and type of its output"),
                ("changes_input", code.INVALID_ARGUMENT, "Provided = [2,2], inferred shape=[1000000]"),
                ("unknown_type", code.INTERNAL, "the library's output 0 has the type 77, which there is not"),
                ("fails", code.FAILED_PRECONDITION, r"the\nlicence has \xff ended"),
                ("fails_strangely", code.INTERNAL, "the library does not say why (status -12345"),
                ("no_scratch", code.RESOURCE_EXHAUSTED, "1152921504606846976 bytes wanted"),
            ):
                with self.subTest(op=op):
                    self.assert_fails(status, text, op)
                    self.assertEqual(second.call(OPERATORS, "Invoke", unharmed), before)
            for op, text in (
                ("wide_gradient", "input 1 'rhs' has shape [2,2], expected [4,2]"),
                ("gradient_of_nothing", "the gradient asks for entry 99 of 0"),
                ("gradient_of_unknown", "operator 'no_such_operator' is not registered"),
            ):
                with self.subTest(op=op), self.assertRaises(grpc.RpcError) as caught:
                    self.client.call(OPERATORS, "CheckGradient", {"op": op, "inputs": [X]})
                self.assertIn(text, caught.exception.details())
                self.assertEqual(second.call(OPERATORS, "Invoke", unharmed), before)
        self.assertIsNone(self.server.process.poll())

    def test_a_kernel_and_attributes_refuse_in_their_own_words(self):
        self.assert_fails(grpc.StatusCode.INVALID_ARGUMENT, "attribute 'scale' is '0'; want more than 0", "row_sums", scale=0)
        self.assert_fails(grpc.StatusCode.INVALID_ARGUMENT, "unknown attribute 'colour'", "row_sums", colour="red")
        self.assert_fails(
            grpc.StatusCode.INVALID_ARGUMENT, "data has 1 axes, expected 2", "row_sums", x={"shape": [2], "floatData": [1, 2]}
        )

    def test_a_model_that_needs_a_library_is_refused_without_it(self):
        graph = {"nodes": [{"name": "y", "op": "absolute", "inputs": ["data"]}]}
        model = {"model": "m", "graph": graph, "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 2]}]}
        self.client.call(MODELS, "DefineModel", {**model, "replace": True})
        with RunningServer() as other, grpc.insecure_channel(other.address) as channel:
            with self.assertRaises(grpc.RpcError) as caught:
                Reflection(channel).call(MODELS, "DefineModel", model)
            self.assertIn("operator 'absolute' is not registered", caught.exception.details())


class GroupTest(Waits, unittest.TestCase):
    def test_a_member_has_the_leaders_libraries_to_the_byte(self):
        with tempfile.TemporaryDirectory() as folder:
            cube = VERSION_1 / "cube.c"
            one, other = (
                operator_libraries.build(folder, cube, flag, name=f"cube{flag}.so", headers=VERSION_1) for flag in ("-O2", "-O0")
            )
            log = pathlib.Path(folder, "log")
            with GroupServers(3, leader_flags=[f"--operator_library={one}"]) as servers, open(log, "w") as errors:
                member = [
                    f"--group={servers.leader.address}",
                    "--group_role=member",
                    "--group_size=1:3",
                    "--group_allow_solo",
                    GLOO,
                ]
                with RunningServer(*member, f"--operator_library={other}", stdout=errors, stderr=errors):
                    self.until(lambda: "would compute other bits than the leader" in log.read_text())
                servers.add_member(f"--operator_library={one}")
                with grpc.insecure_channel(servers.leader.address) as channel:
                    client = Reflection(channel)
                    self.until(lambda: len(client.call("gluond.v1.GroupService", "GetGroup", {}).get("members", [])) == 2)


class FrozenHeaderTest(unittest.TestCase):
    """The header of version 1, as libraries that there are were built with, begins each structure of today's."""

    def structures(self, folder):
        text = re.sub(r"//.*", "", (folder / "gluond_op.h").read_text())
        found = re.findall(r"(?:struct|enum) (\w*)\s*\{(.*?)\n\}", text, re.DOTALL)
        found += [("", body) for body in re.findall(r"enum \{(.*?)\}", text, re.DOTALL)]
        fields = {}
        for name, body in found:
            separator = ";" if name else ","
            fields[name or body.split("=")[0].strip()] = [" ".join(each.split()) for each in body.split(separator) if each.strip()]
        return fields

    def test_structures_have_grown_at_their_ends_alone(self):
        frozen, now = self.structures(operator_libraries.VERSION_1), self.structures(operator_libraries.HEADERS)
        self.assertGreaterEqual(len(frozen), 15)
        for name, fields in frozen.items():
            with self.subTest(name=name):
                self.assertEqual(now[name][: len(fields)], fields)
        for name in "gluond_tensor", "gluond_shape", "gluond_value", "gluond_inplace":
            self.assertEqual(now[name], frozen[name], "elements of arrays do not grow")

    def test_the_version_is_one_that_a_library_is_kept_of(self):
        text = (operator_libraries.HEADERS / "gluond_op.h").read_text()
        self.assertIn("#define GLUOND_OP_VERSION 1u\n", text, "keep a library of the new version's header here, too")


class CompilersTest(unittest.TestCase):
    def test_the_headers_are_plain(self):
        for command in (
            ("gcc", "-std=c99", "-pedantic", "-x", "c", "gluond_op.h"),
            ("g++", "-std=c++17", "-pedantic", "-x", "c++", "gluond_op.h"),
            ("g++", "-std=c++17", "-pedantic", "-x", "c++", "gluond_op.hpp"),
            ("g++", "-std=c++20", "-pedantic", "-x", "c++", "gluond_op.hpp"),
        ):
            *flags, header = command
            with self.subTest(command=command):
                operator_libraries.run(
                    *flags, "-Wall", "-Wextra", "-Werror", "-Wno-pragma-once-outside-header", "-fsyntax-only",
                    operator_libraries.HEADERS / header,
                )  # fmt: skip

    def test_the_absolute_value_and_its_gradient_take_forty_lines(self):
        text = (operator_libraries.EXAMPLE / "absolute.cc").read_text()
        self.assertLessEqual(len(text.splitlines()), 40)
        document = pathlib.Path("docs/operator_library.md").read_text()
        self.assertIn("```cpp\n" + text.partition("library.\n\n")[2] + "```\n", document)


if __name__ == "__main__":
    case_runner.main()
