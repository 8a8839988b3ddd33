"""The rooms of the Python client: each file's room, each room's imports, and things that no file may do.

    for line in python_rooms.breaches({"client/python/gluond/base.py": "from .ndarray import NDArray\n"}):
      print(line)

Imports count wherever they stand: at the top of a file, within a function, or for type checkers only.
"""

import ast
from collections import defaultdict

PACKAGE = "client/python/gluond/"

# Faces import and define nothing: they are MXNet's names for the contents of the rooms.
_FACES = (
    "__init__ autograd executor operator metric remote optimizer/__init__ optimizer/optimizer gluon/__init__ gluon/block "
    "gluon/parameter gluon/contrib/__init__ gluon/contrib/cnn/__init__ gluon/contrib/data/__init__ gluon/contrib/nn/__init__ gluon/contrib/rnn/__init__ "
    "gluon/data/__init__ gluon/data/vision/__init__ gluon/model_zoo/__init__ "
    "gluon/model_zoo/vision/__init__ gluon/nn/__init__ gluon/rnn/__init__ gluon/rnn/rnn_cell gluon/rnn/rnn_layer "
    "kvstore/__init__ contrib/__init__ contrib/ndarray contrib/symbol contrib/amp/__init__ contrib/text/__init__ image/__init__ image/detection "
    "image/image io/__init__ io/io module/__init__ rnn/__init__ rnn/io "
    "rnn/rnn rnn/rnn_cell "
    "_array/__init__ _composed/__init__ _custom/__init__ _remote/__init__ _wire/__init__"
)
_FACES_OF_ND = "ndarray/__init__ ndarray/ndarray ndarray/cached_op ndarray/op ndarray/_internal ndarray/_transfer ndarray/utils"
_FACES_OF_SYM = "symbol/__init__ symbol/op symbol/_internal symbol/contrib symbol/image"

# The rooms from the bottom to the top. A room owns folders, and files without their suffix; the longest name that fits
# a file decides. A room may import the rooms named behind it, and itself. No room imports a face, but for those of nd
# and sym: a network, an optimizer and a metric are written with these, as a user's program is.
ROOMS = {
    "base": (
        "base _side_effects engine log lr_scheduler recordio _elsewhere _replacements _registry registry _curve _files _image_files",
        "",
    ),
    "_proto": ("_proto", ""),
    "_wire": ("_wire", "base _proto"),
    "operators": (
        "_operators _operators_cache _attributes _methods _documentation _composed _servers attribute context name runtime util",
        "base _proto _wire",
    ),
    "_array": ("_array", "base _proto _wire operators"),
    "_custom": ("_custom", "base _proto _wire operators _array"),
    "symbol": ("symbol", "base _proto _wire operators _array _custom"),
    "nd": (f"ndarray random {_FACES_OF_ND}", "base _proto _wire operators _array _custom symbol"),
    "sym": (_FACES_OF_SYM, "operators symbol"),
    "gluon": (
        "gluon kvstore optimizer _packed_rnn initializer _initializer _initializer_sets",
        "base _wire operators _array symbol nd sym",
    ),
    "programs": (
        "_test_matrices callback contrib image io minpy model module monitor progress rnn visualization test_utils _symbol_checks "
        "_distribution_checks _tolerances _metric _metric_classes _metric_values",
        "base _wire operators _array _custom symbol nd sym gluon",
    ),
    "_remote": ("_remote", "base _proto _wire operators _array _custom symbol nd sym gluon programs"),
    "faces": (_FACES, "base _wire operators _array _custom symbol nd sym gluon programs _remote"),
}
FACES = {f"{PACKAGE}{face}.py" for face in f"{_FACES} {_FACES_OF_ND} {_FACES_OF_SYM}".split()}
# The functions that a face may call: they give it its __getattr__.
_FILLERS = {"fill_module", "getter"}
# The methods that change lists, dicts and sets.
_CHANGES = {
    "add",
    "append",
    "appendleft",
    "clear",
    "discard",
    "extend",
    "insert",
    "pop",
    "popleft",
    "remove",
    "setdefault",
    "update",
}

_OWNED = {owned: room for room, (everything, _) in ROOMS.items() for owned in everything.split()}
_MAY_IMPORT = {room: {room, *names.split()} for room, (_, names) in ROOMS.items()}


def room_of(path):
    """The room that owns a file of the package, or None: "client/python/gluond/symbol/_json.py" -> "symbol"."""
    stem = path[len(PACKAGE) :].rsplit(".", 1)[0]
    fitting = [owned for owned in _OWNED if stem == owned or stem.startswith(owned + "/")]
    return _OWNED[max(fitting, key=len)] if fitting else None


def may_import(room):
    """The rooms that a room may import, itself among them."""
    return _MAY_IMPORT[room]


def _file(module, files):
    """The file of a module, given as a path without its suffix, or None."""
    return next((path for path in (f"{module}.py", f"{module}/__init__.py") if path in files), None)


def _imported(node, path, files):
    """The names of one import statement: (the bound name, the file it is in, whether that name is the module)."""
    if isinstance(node, ast.Import):
        for each in node.names:
            where = "client/python/" + each.name.replace(".", "/")
            bound = _file(where, files)
            yield each.asname or each.name.split(".")[0], bound, True
    else:
        if node.level:
            base = "/".join(path.split("/")[: -node.level])
        else:
            base = "client/python"
        module = "/".join([base, *(node.module or "").split(".")]).rstrip("/")
        for each in node.names:
            submodule = _file(f"{module}/{each.name}", files)
            yield each.asname or each.name, submodule or _file(module, files), submodule is not None


def _imports(tree, path, files):
    """All of them that are files of the package: (bound name, file, whether the name is the module)."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (each for each in _imported(node, path, files) if each[1])


def _is_of(node, bound, modules=frozenset()):
    """Whether an expression is one of the bound names, or an attribute or an item of one. modules: not these names alone."""
    is_alone = True
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node, is_alone = node.value, False
    return isinstance(node, ast.Name) and node.id in bound and not (is_alone and node.id in modules)


def _hooks(tree, bound, modules):
    """The places that change another file's things: `module.name = ...`, `thing.name[1] = ...`, `del thing.name`,
    `module.things.append(...)`, setattr(module, ...)."""
    for node in ast.walk(tree):
        targets = list(getattr(node, "targets", None) or [getattr(node, "target", None)])
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("setattr", "delattr") and node.args:
            targets = [ast.Attribute(node.args[0], "...")]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _CHANGES and _is_of(node.func.value, bound, modules):
            yield ast.unparse(node.func)
        for target in targets:
            targets += getattr(target, "elts", ())  # It grows: a, (b.x, c.y) = ...
            if isinstance(target, (ast.Attribute, ast.Subscript)) and _is_of(target, bound):
                yield ast.unparse(target)


def _definitions(tree):
    """The contents of a face beyond imports and other names for imported things."""
    for node in tree.body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _definitions(node)
        elif isinstance(node, ast.Assign):
            for call in (each for each in ast.walk(node.value) if isinstance(each, (ast.Call, ast.Lambda))):
                name = getattr(call, "func", call)
                if getattr(name, "attr", getattr(name, "id", "")) not in _FILLERS | {"globals"}:
                    yield ast.unparse(node)
        elif not isinstance(node, (ast.Import, ast.ImportFrom)) and not (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            yield ast.unparse(node).split("\n")[0]


def circles(arrows):
    """Each circle of {file: files that it imports}, as a list of files."""
    rest = {file: set(named) for file, named in arrows.items()}
    shrunk = True
    while shrunk:  # A file is in no circle if it imports none of the rest, or none of the rest imports it.
        used = {file for named in rest.values() for file in named}
        kept = {file: named & set(rest) for file, named in rest.items() if named & set(rest) and file in used}
        shrunk, rest = len(kept) < len(rest), kept
    while rest:
        file = min(rest)
        way = [file]
        while way[-1] in rest and way.count(way[-1]) == 1:
            way.append(min(rest[way[-1]] & set(rest)))
        circle = way[way.index(way[-1]) : -1]
        yield circle
        rest = {file: named - {circle[0]} for file, named in rest.items() if file != circle[0]}
        rest = {file: named for file, named in rest.items() if named}


def breaches(files):
    """One line for each thing in {path: text} of the package that is not allowed."""
    arrows = defaultdict(set)
    for path, text in sorted(files.items()):
        room = room_of(path)
        if room is None:
            yield f"{path}: it belongs to no room of tests/python_rooms.py"
            continue
        tree = ast.parse(text)
        others, modules = set(), set()
        for bound, imported, is_module in _imports(tree, path, files):
            if imported == path:
                continue
            arrows[path].add(imported)
            others.add(bound)
            if is_module:
                modules.add(bound)
            if room_of(imported) not in may_import(room):
                yield f"{path}: {room} may not import {imported}"
        if path in FACES:
            for line in _definitions(tree):
                yield f"{path}: a face defines nothing, but there is `{line}`"
        elif path.endswith("/__init__.py") and room != "_proto":
            yield f"{path}: a package's own file is a face"
        if path not in FACES:  # A face may give a class of one room a method of a higher one.
            for hook in _hooks(tree, others, modules):
                yield f"{path}: changes {hook}, which is another file's"
    for circle in circles(arrows):
        yield f"a circle: {' -> '.join([*circle, circle[0]])}"
