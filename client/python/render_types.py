"""Renders the types of the functions that the package makes of the server's operators, for editors and type checkers.

    /usr/bin/python3 client/python/render_types.py    # Writes the .pyi files.

Needs a gluond-server, which it finds as the client does.
"""

import ast
import inspect
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent / "gluond"
HEADER = '"""Rendered by client/python/render_types.py."""\n\n'
# The Python types of parameters, by the beginning of the server's names for them.
TYPES = (
    ("boolean", "bool"),
    ("int", "int"),
    ("long", "int"),
    ("float", "float"),
    ("tuple of float", "Union[float, Sequence[float]]"),
    ("tuple", "Union[int, Sequence[Optional[int]]]"),
    ("string", "str"),
    ("{", "str"),
)


def python_type(parameter):
    """The type that a parameter takes. dtypes have many forms."""
    kind = next((python for name, python in TYPES if parameter.type.startswith(name)), "Any")
    return f"Optional[{kind}]" if parameter.type.endswith("or None") else kind


def result_type(info, tensor):
    """NDArray where every call has one result; what depends on the call's arguments is Any."""
    deciding = any(each.decides and not each.type.startswith("dtype") for each in info.parameters.values())
    return tensor if len(info.outputs) == 1 and not deciding and not info.several else "Any"


def function(info, name, signature, tensor, method=False):
    """The `def` of an operator's function."""
    shown, starred = ["self"] if method else [], False
    for place, parameter in enumerate(signature.parameters.values()):
        if method and place == 0 and parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
            continue
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            shown.append(f"*{parameter.name}: Any")  # Arrays, or one list of them.
            starred = True
            continue
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        known = info.parameters.get(parameter.name)
        kind = (
            f"Optional[{tensor}]"
            if parameter.name in {each.name for each in info.inputs}
            else "Any"
            if known is None
            else (python_type(known))
        )
        shown.append(f"{parameter.name}: {kind} = ...")
    return f"def {name}({', '.join(shown)}) -> {result_type(info, tensor)}: ..."


def exports(path):
    """The names that a module takes from others, as a stub passes them on."""
    lines = []
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.ImportFrom) and statement.module != "__future__":
            source = "." * statement.level + (statement.module or "")
            lines += [
                f"from {source} import {each.name} as {each.asname or each.name}"
                for each in statement.names
                if each.name not in ("fill_module", "make_function")
            ]
    return lines


def module(face, path, tensor, signature, where):
    """The stub of `nd` or `sym`: what it imports, then the operators that it has."""
    from gluond import _operators

    lines = ["from typing import Any, Optional, Sequence, Union", "", f"from {where} import {tensor} as {tensor}"]
    lines += [each for each in exports(path) if not each.endswith(f" as {tensor}")]
    static = {line.split()[-1] for line in lines if line}
    lines.append("")
    for name in dir(face):
        info = _operators.operators().get(name)
        if name in static or not name.isidentifier():
            continue
        if info is not None:
            lines.append(function(info, name, signature(info), tensor))
        elif inspect.isfunction(getattr(face, name)):  # Made of several operators.
            lines.append(f"def {name}(*args: Any, **kwargs: Any) -> Any: ...")
    return "\n".join([HEADER + lines[0], *lines[1:]]) + "\n"


def methods(names):
    """The stub of NDArray's methods that are operators."""
    from gluond import _documentation, _operators

    lines = [HEADER + "from typing import Any, Optional, Sequence, Union", "", "from .array import NDArray", "", "class Fluent:"]
    for name in sorted(names):
        info = _operators.find(name)
        lines.append("    " + function(info, name, _documentation.signature(info), "NDArray", method=True))
    return "\n".join(lines) + "\n"


def rendered():
    """(path, text) of each file."""
    import gluond as mx
    from gluond import _documentation
    from gluond._methods import OPERATORS

    yield ROOT / "_array" / "fluent.pyi", methods(OPERATORS)
    yield (
        ROOT / "ndarray" / "__init__.pyi",
        module(mx.nd, ROOT / "ndarray" / "__init__.py", "NDArray", _documentation.signature, ".._array.array"),
    )
    yield (
        ROOT / "symbol" / "__init__.pyi",
        module(
            mx.sym, ROOT / "symbol" / "__init__.py", "Symbol", lambda info: _documentation.signature(info, out=False), ".symbol"
        ),
    )


def main():
    sys.path.insert(0, str(ROOT.parent))
    for path, text in rendered():
        path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT.parent)}: {len(text.splitlines())} lines")


if __name__ == "__main__":
    main()
