"""Functions and constructors take what those of MXNet 1.9.1 take: by the same names, in the same order, with the same defaults."""

import importlib
import inspect
import os
import re
import unittest

import gluond as mx
from tests import case_runner
from tests.client.python.mxnet_signatures import SIGNATURES

# Names of functions, or how they begin, and why theirs differ.
DIFFERENT = {
    "executor.Executor": "MXNet's takes the number of an executor in its engine; Symbol.bind makes both",
    "gluon.contrib.rnn.Conv": "one number stands for all dimensions, and None for the layout with channels first",
    "gluon.nn.AvgPool": "as of the Conv cells",
    "gluon.nn.GlobalAvgPool": "as of the Conv cells",
    "gluon.nn.GlobalMaxPool": "as of the Conv cells",
    "gluon.nn.MaxPool": "as of the Conv cells",
    "metric.PCC": "it has global figures always",
    "visualization.": "a default that could be changed in place is none",
}


def facts():
    """{name: {parameter: its default's text, or None}}"""
    found = {}
    for line in re.sub(r"\n    ", " ", SIGNATURES).strip().splitlines():
        name, _, parameters = line.partition(": ")
        pairs = [parameter.partition("=") for parameter in parameters.split(" | ") if not parameter.startswith("*")]
        found[name] = {parameter: default if equals else None for parameter, equals, default in pairs}
    return found


def named(path):
    """What the package has of that name, or None."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(f"gluond.{module}") if module else mx, name)
    except (AttributeError, ImportError) as error:
        if "not part of gluond" not in str(error):
            raise
        return None


def problems(path, wanted):
    """What a function does not take as MXNet's does."""
    function = named(path)
    if function is None:
        return
    own = inspect.signature(function.__init__ if inspect.isclass(function) else function).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in own.values())
    by_place = [each.name for each in own.values() if each.kind is each.POSITIONAL_OR_KEYWORD and each.name != "self"]
    for place, (name, default) in enumerate(wanted.items()):
        if name not in own:
            if not takes_any:
                yield f"{name} is not there"
        elif name not in by_place[: place + 1]:
            yield f"{name} is not the parameter number {place + 1}"
        elif default is None and own[name].default is not inspect.Parameter.empty:
            continue  # Lenient.
        elif default is not None and repr(own[name].default) != default:
            yield f"{name} is {own[name].default!r} by default, not {default}"


class SignaturesTest(unittest.TestCase):
    def test_parameters_are_mxnet_s(self):
        os.environ.setdefault("GLUOND_ADDRESS", "nowhere.invalid:1")  # No server is needed.
        self.assertGreater(len(facts()), 300)
        for path, wanted in facts().items():
            if not path.startswith(tuple(DIFFERENT)):
                with self.subTest(path):
                    self.assertEqual(list(problems(path, wanted)), [])

    def test_those_that_differ_do(self):
        for start, why in DIFFERENT.items():
            with self.subTest(start):
                self.assertTrue(
                    any(list(problems(path, wanted)) for path, wanted in facts().items() if path.startswith(start)), why
                )


if __name__ == "__main__":
    case_runner.main()
