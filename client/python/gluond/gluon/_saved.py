"""Files of a Block's parameters: written by structural name; read in each of the forms that MXNet has written."""
from __future__ import annotations

import itertools
import json
from typing import Any, Dict, Iterator, List

from .. import ndarray
from .._array.array import NDArray
from .._array.save import load_named
from .._files import write_whole
from ..base import WrongValue
from ._kinds import AnyBlock
from ._structure import count_change
from .utils import _brief_print_list


def save_parameters(block: AnyBlock, filename: str, deduplicate: bool) -> None:
    """See Block.save_parameters."""
    params = block._collect_params_with_prefix()
    if deduplicate:
        first = {id(param): name for name, param in reversed(list(params.items()))}
        params = {name: param for name, param in params.items() if first[id(param)] == name}
    ndarray.save(filename, {name: param._reduce() for name, param in params.items()})


def load_parameters(
    block: AnyBlock, filename: str, ctx: Any, allow_missing: bool, ignore_extra: bool, cast_dtype: bool, dtype_source: str
) -> None:
    """See Block.load_parameters."""
    loaded = load_named(filename)
    params = block._collect_params_with_prefix()
    if loaded and _by_prefixed_name(block, loaded, params):
        known = set(block.collect_params().keys())
        restore = block.prefix if any(block.prefix + _plain(name) in known for name in loaded) else ""
        block.collect_params().load_dict(
            loaded, ctx, allow_missing, ignore_extra, restore, f"file: {filename}", cast_dtype, dtype_source
        )
        return
    if not allow_missing:
        saved = {id(params[name]) for name in loaded if name in params}
        for name, param in params.items():
            if id(param) not in saved:
                raise AssertionError(
                    f"Parameter '{name}' is missing in file '{filename}', which contains parameters: "
                    f"{_brief_print_list(list(loaded))}. Set allow_missing=True to ignore missing parameters."
                )
    for name, array in loaded.items():
        if name in params:
            params[name]._load_init(array, ctx, cast_dtype, dtype_source)
        elif not ignore_extra:
            raise WrongValue(
                f"Parameter '{name}' loaded from file '{filename}' is not present in ParameterDict, "
                f"which contains parameters {_brief_print_list(list(params))}. Set ignore_extra=True to ignore. "
            )


def _plain(name: str) -> str:
    return name[4:] if name.startswith(("arg:", "aux:")) else name


def _by_prefixed_name(block: AnyBlock, loaded: Dict[str, NDArray], params: Dict[str, Any]) -> bool:
    """Whether the file's names are global ones, of `export` or of an old `save_params`, and not structural ones."""
    return not any("." in name or name in params for name in loaded)


def save_tree(block: AnyBlock, prefix: str) -> None:
    """See Block.save."""
    tree: Dict[str, Any] = {}
    _add(block, tree, itertools.count())
    write_whole(prefix + "-model.json", [json.dumps(tree).encode()])
    block.save_parameters(prefix + "-model.params")


def load_tree(block: AnyBlock, prefix: str) -> None:
    """See Block.load."""
    with open(prefix + "-model.json", encoding="utf-8") as file:
        _restore(block, json.load(file), itertools.count(), block.name)
    count_change()
    block.load_parameters(prefix + "-model.params")


def _add(block: AnyBlock, tree: Dict[str, Any], numbers: Iterator[int]) -> None:
    """Puts a Block and those inside it into `tree`, as MXNet does: by class and number, with the children's structural names."""
    own = tree[f"{type(block).__name__.lower()}{next(numbers)}"] = {"orig_name": block.name}
    if hasattr(block, "_saved_graph"):
        own.update(block._saved_graph())
    own["children"] = {child.name: name for name, child in block._children.items()}
    for child in block._children.values():
        _add(child, own, numbers)


def _restore(block: AnyBlock, tree: Dict[str, Any], numbers: Iterator[int], path: str) -> None:
    """Gives a Block, and those inside it, the names that they had when they were saved."""
    key, parts, children = f"{type(block).__name__.lower()}{next(numbers)}", _parts(tree), list(block._children.values())
    if key not in parts:
        raise ValueError(
            f"The saved model has at '{path}' {' and '.join(parts) or 'nothing'}, this one {key}: the names of "
            "classes, in lower case, with a number. load_parameters reads -model.params alone."
        )
    own = tree[key]
    if len(_parts(own)) != len(children):
        raise ValueError(f"The saved model has {len(_parts(own))} parts at '{path}', this one {len(children)}")
    block._name = own["orig_name"]
    if own.get("hybridized"):
        block.hybridize()
    for child in children:
        _restore(child, own, numbers, f"{path}.{child.name}")
    names = [own["children"][child.name] for child in children]
    if len(set(names)) == len(names):  # Children of equal names hide each other in the file; they keep their structural names.
        block._children.clear()
        block._children.update(zip(names, children))


def _parts(tree: Dict[str, Any]) -> List[str]:
    return [name for name, inner in tree.items() if isinstance(inner, dict) and "orig_name" in inner]
