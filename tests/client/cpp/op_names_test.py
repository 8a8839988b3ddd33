"""The functions of gluond/op.h are the operators that Python's mx.nd has."""

import json
import os
import pathlib
import re
import unittest
from unittest import mock

from google.protobuf import json_format

from client.cpp import generate_ops
from gluond import _operators
from gluond._composed.table import ALIASES, COMPOSED
from gluond._proto import operator_pb2
from gluond.ndarray import contrib, image, linalg, op, random
from tests import case_runner

OPERATORS = pathlib.Path("client/cpp/operators.json")
HEADER = pathlib.Path("client/cpp/gluond/op.h")
# The modules with the beginnings of their operators' names.
ROOMS = {
    "": (op, ("",)),
    "contrib": (contrib, ("_contrib_",)),
    "image": (image, ("_image_",)),
    "linalg": (linalg, ("_linalg_", "linalg_")),
    "random": (random, ("_random_", "_sample_")),
}


def described():
    """The registry's descriptions by name and alias, as the client in Python has them."""
    found = {}
    for entry in json.loads(OPERATORS.read_text())["operators"]:
        info = _operators.OperatorInfo(json_format.ParseDict(entry["operator"], operator_pb2.Operator()))
        for alias in info.aliases:
            found.setdefault(alias, info)
        found[info.name] = info
    return found


def declared():
    """(namespace, function) of each function of the header."""
    found, room = set(), ""
    for line in HEADER.read_text().splitlines():
        opened, closed = re.match(r"namespace (\w+) \{", line), re.match(r"\}  // namespace (\w+)", line)
        if opened and opened[1] != "op":
            room = opened[1]
        elif closed:
            room = ""
        function = re.match(r"GLUOND_EXPORT (?!Attributes)[\w:<>]+ (\w+)\(", line)
        if function:
            found.add((room, function[1]))
    return found


class OpNamesTest(unittest.TestCase):
    def test_each_operator_of_nd_has_a_function(self):
        operators = described()
        wanted = set()
        with mock.patch.object(_operators, "operators", lambda: operators):
            for room, (module, prefixes) in ROOMS.items():
                for name in dir(module):
                    if any(prefix + name in operators for prefix in prefixes):
                        wanted.add((room, generate_ops.camel(generate_ops.SAME.get(name, name))))
        self.assertGreater(len(wanted), 280)
        self.assertEqual(wanted - declared(), set())

    def test_other_names_of_nd_are_made_of_operators_in_python(self):
        operators = described()
        with mock.patch.object(_operators, "operators", lambda: operators):
            for name in dir(op):
                if name not in operators:
                    self.assertTrue(name in ALIASES or name in COMPOSED, name)

    def test_an_alias_that_another_operator_is_called_by_is_that_operator(self):
        self.assertRegex(HEADER.read_text(), r"NDArray Softmax\(const NDArray& data, const SoftmaxOptions& options = \{\}")

    def test_the_header_says_of_each_function_what_the_registry_says(self):
        text = re.sub(r"\s*\n\s*// ", " ", HEADER.read_text())
        for info in described().values():
            if not info.name.startswith("_"):
                with self.subTest(name=info.name):
                    self.assertTrue(info.name in generate_ops.SAME or info.description in text)


class GenerateTest(unittest.TestCase):
    def operator(self, name, **fields):
        call = {"given": {}, "call": {"inputs": ["data"], "outputs": ["output"]}}
        operator = {"name": name, "inputs": [{"name": "data", "type": "NDArray"}], **fields}
        return generate_ops.Operator({"operator": operator, "calls": [call]})

    def test_a_name_of_cpp_gets_an_underscore(self):
        parameters = [
            {"name": "default", "type": "int", "default_value": "1"},
            {"name": "options", "type": "int", "default_value": "1"},
        ]
        operator = self.operator("relu", parameters=parameters)
        self.assertEqual([each.name for each in operator.attributes], ["default_", "options_"])
        self.assertEqual([each.key for each in operator.attributes], ["default", "options"])

    def test_two_operators_of_one_name_are_refused(self):
        with self.assertRaisesRegex(generate_ops.Clash, "log_Softmax and log_softmax are both LogSoftmax in C\\+\\+"):
            generate_ops.named([self.operator("log_softmax"), self.operator("log_Softmax")])

    def test_a_first_name_goes_before_an_alias(self):
        output, softmax = generate_ops.named([self.operator("SoftmaxOutput", aliases=["Softmax"]), self.operator("softmax")])
        self.assertEqual((output.names, softmax.names), ([("", "SoftmaxOutput")], [("", "Softmax")]))

    def test_a_function_has_no_name_of_the_headers_own_types(self):
        with self.assertRaisesRegex(generate_ops.Clash, "outputs: Outputs has another meaning in C\\+\\+"):
            generate_ops.named([self.operator("outputs")])


if __name__ == "__main__":
    os.environ.setdefault("GLUOND_ADDRESS", "127.0.0.1:1")  # Nobody is asked.
    case_runner.main()
