"""`import mxnet` gives gluond, and files of MXNet's tests are read though they import what is not there.

    redirect.install()
    module = redirect.load("tests/python/unittest/test_gluon.py")
"""

import ast
import importlib
import importlib.abc
import importlib.machinery
import pathlib
import sys
import types
import unittest

import numpy as np


class _Mxnet(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `mxnet.gluon.nn`, and gives the module gluond.gluon.nn."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.split(".")[0] == "mxnet":
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        module = importlib.import_module("gluond" + spec.name[len("mxnet") :])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = module.__spec__.loader_state  # Python has put the one for mxnet there.


class Absent:
    """Stands for a name that could not be imported: a test that uses it fails with what the import said."""

    def __init__(self, error):
        self.__dict__["error"] = f"{type(error).__name__}: {error}"

    def __call__(self, *args, **kwargs):
        raise ImportError(self.error)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self


def _nose():
    """nose.tools of these tests; nose itself runs on no Python of today."""
    tools = types.ModuleType("nose.tools")
    case = unittest.TestCase()

    def raises(*errors):
        def decorate(function):
            def test(*args, **kwargs):
                with case.assertRaises(errors):
                    function(*args, **kwargs)

            return make_decorator(function)(test)

        return decorate

    def make_decorator(function):
        def decorate(made):
            made.__name__, made.__dict__, made.__doc__ = function.__name__, {**function.__dict__, **made.__dict__}, function.__doc__
            return made

        return decorate

    def nottest(function):
        function.__test__ = False
        return function

    tools.raises, tools.make_decorator, tools.nottest, tools.istest = raises, make_decorator, nottest, lambda function: function
    tools.assert_raises, tools.ok_, tools.eq_ = case.assertRaises, case.assertTrue, case.assertEqual
    tools.assert_equal, tools.assert_almost_equal = case.assertEqual, case.assertAlmostEqual
    nose = types.ModuleType("nose")
    nose.tools, nose.SkipTest = tools, unittest.SkipTest
    attrib, plugins = types.ModuleType("nose.plugins.attrib"), types.ModuleType("nose.plugins")
    attrib.attr = lambda *args, **kwargs: lambda function: function
    return {"nose": nose, "nose.tools": tools, "nose.plugins": plugins, "nose.plugins.attrib": attrib}


def install(is_mxnet_itself=False):
    """What the files import, in place of what there was when they were written. is_mxnet_itself: mxnet is MXNet."""
    for name, kind in (("bool", bool), ("int", int), ("float", float), ("object", object)):
        if name not in vars(np):  # NumPy 1.24 has dropped them.
            setattr(np, name, kind)
    sys.modules.update(_nose())
    if not is_mxnet_itself:
        sys.meta_path.insert(0, _Mxnet())


def load(path):
    """The module of a file. What fails at its top leaves Absent in place of the names."""
    path = pathlib.Path(path)
    tree = ast.parse(path.read_text())
    module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module  # So that pickle finds its classes.
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            _import_from(node, vars(module), path.parents[3] / "python")
            continue
        try:
            exec(compile(ast.Module([node], []), str(path), "exec"), vars(module))
        except Exception as error:
            for name in _bound(node):
                vars(module)[name] = Absent(error)
    return module


def _bound(node):
    """The names that a statement would have bound. `import mxnet.numpy` has bound mxnet nevertheless."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Import):
        return [each.asname for each in node.names if each.asname]
    return [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]


def _import_from(node, names, packages):
    """`from module import a, b`, name by name. packages: the folder with MXNet's own package.

    Modules of MXNet say seldom what `*` gives. These files rely on what they get by it, other modules too: from MXNet's module of the
    name, the imports that stand there are followed as well.
    """
    for each in node.names:
        try:
            exec(
                compile(ast.Module([ast.ImportFrom(node.module, [each], 0, lineno=1, col_offset=0)], []), node.module, "exec"),
                names,
            )
        except Exception as error:
            names.setdefault(each.asname or each.name, Absent(error))
    file = packages / (node.module.replace(".", "/") + ".py")
    if node.names[0].name == "*" and node.module.startswith("mxnet.") and file.exists():
        for inner in ast.parse(file.read_text()).body:
            if isinstance(inner, ast.ImportFrom) and inner.level:
                parts = [*node.module.split(".")[: -inner.level], *filter(None, [inner.module])]
                inner.module, inner.level = ".".join(parts), 0
            wanted = {}
            if isinstance(inner, ast.ImportFrom) and inner.module != "__future__" and inner.names[0].name != "*":
                _import_from(inner, wanted, packages)
            elif isinstance(inner, ast.Import):
                exec(compile(ast.Module([inner], []), str(file), "exec"), wanted)
            for name, value in wanted.items():
                if not name.startswith("__") and not isinstance(value, Absent):
                    names.setdefault(name, value)
