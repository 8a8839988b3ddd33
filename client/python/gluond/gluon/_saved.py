"""Files of a Block's parameters: written by structural name; read in each of the forms that MXNet has written."""
from __future__ import annotations

import json
from typing import Any, Dict

from .. import ndarray
from .._array.array import NDArray
from .._array.save import load_named
from .._files import write_whole
from ..base import WrongValue
from ._kinds import AnyBlock
from .utils import _brief_print_list


def save_parameters(block: AnyBlock, filename: str, deduplicate: bool) -> None:
    """See Block.save_parameters."""
    params = block._collect_params_with_prefix()
    if deduplicate:
        first = {id(param): name for name, param in reversed(list(params.items()))}
        params = {name: param for name, param in params.items() if first[id(param)] == name}
    ndarray.save(filename, {name: param._reduce() for name, param in params.items()})


def load_parameters(block: AnyBlock, filename: str, ctx: Any, allow_missing: bool, ignore_extra: bool,
                    cast_dtype: bool, dtype_source: str) -> None:
    """See Block.load_parameters."""
    loaded = load_named(filename)
    params = block._collect_params_with_prefix()
    if loaded and _by_prefixed_name(block, loaded, params):
        known = set(block.collect_params().keys())
        restore = block.prefix if any(block.prefix + _plain(name) in known for name in loaded) else ""
        block.collect_params().load_dict(loaded, ctx, allow_missing, ignore_extra, restore, f"file: {filename}",
                                         cast_dtype, dtype_source)
        return
    if not allow_missing:
        saved = {id(params[name]) for name in loaded if name in params}
        for name, param in params.items():
            if id(param) not in saved:
                raise AssertionError(f"Parameter '{name}' is missing in file '{filename}', which contains parameters: "
                                     f"{_brief_print_list(list(loaded))}. Set allow_missing=True to ignore missing parameters.")
    for name, array in loaded.items():
        if name in params:
            params[name]._load_init(array, ctx, cast_dtype, dtype_source)
        elif not ignore_extra:
            raise WrongValue(f"Parameter '{name}' loaded from file '{filename}' is not present in ParameterDict, "
                             f"which contains parameters {_brief_print_list(list(params))}. Set ignore_extra=True to ignore. ")


def _plain(name: str) -> str:
    return name[4:] if name.startswith(("arg:", "aux:")) else name


def _by_prefixed_name(block: AnyBlock, loaded: Dict[str, NDArray], params: Dict[str, Any]) -> bool:
    """Whether the file's names are global ones, of `export` or of an old `save_params`, and not structural ones."""
    return not any("." in name or name in params for name in loaded)


def save_tree(block: AnyBlock, prefix: str) -> None:
    """See Block.save."""
    write_whole(prefix + "-model.json", [json.dumps(_tree(block), indent=1).encode()])
    block.save_parameters(prefix + "-model.params")


def load_tree(block: AnyBlock, prefix: str) -> None:
    """See Block.load."""
    with open(prefix + "-model.json", encoding="utf-8") as file:
        _check_tree(block, json.load(file), block.name)
    block.load_parameters(prefix + "-model.params")


def _tree(block: AnyBlock) -> Dict[str, Any]:
    return {"class": type(block).__name__, "name": block.name, "hybridized": bool(getattr(block, "_active", False)),
            "children": {name: _tree(child) for name, child in block._children.items()}}


def _check_tree(block: AnyBlock, tree: Dict[str, Any], path: str) -> None:
    if "class" not in tree:
        raise ValueError("This -model.json was not written by gluond. Its parameters are read by load_parameters.")
    if type(block).__name__ != tree["class"] or list(block._children) != list(tree["children"]):
        raise ValueError(f"The saved model has at '{path}' a {tree['class']} of {list(tree['children'])}, this one a "
                         f"{type(block).__name__} of {list(block._children)}.")
    for name, child in block._children.items():
        _check_tree(child, tree["children"][name], f"{path}.{name}")
