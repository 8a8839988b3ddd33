"""The answers of a CustomOpProp, checked, and remembered for each way of using it.

A prop is made for each signature (parameters, shapes and dtypes of the inputs), asked once, and then makes the operators of
all calls like it: what it notes in infer_shape() is right in its create_operator().
"""

from __future__ import annotations

import collections
import threading
from typing import Any, Dict, Hashable, List, NamedTuple, Optional, OrderedDict, Sequence, Set, Tuple

import numpy as np

from .._attributes import dtype_name
from .. import _side_effects
from .._wire import operator_errors as errors
from .._wire.tensors import BFLOAT16_BITS, FLAG_OF, flag_of
from ..base import MXNetError
from .registry import Registered
from .values import Kind

Texts = Tuple[Tuple[str, str], ...]
Shape = Optional[Tuple[int, ...]]  # None: nothing is known; -1: an unknown size.
Dtype = Optional[np.dtype]

_MOST = 512


class Spec(NamedTuple):
    """The inputs and outputs of an operator with certain parameters."""

    arguments: Tuple[str, ...]
    outputs: Tuple[str, ...]
    auxiliary: Tuple[str, ...]
    dependencies: Tuple[int, ...]  # Out gradients, then arguments, then outputs, as backward() reads them.
    needs_head_gradient: bool
    rules: Tuple[str, ...]  # The facts that the server may infer itself: "shape", "type".

    def reads_out_grad(self, place: int) -> bool:
        return place in self.dependencies

    def reads_argument(self, place: int) -> bool:
        return len(self.outputs) + place in self.dependencies

    def reads_output(self, place: int) -> bool:
        return len(self.outputs) + len(self.arguments) + place in self.dependencies

    def reads_all(self) -> bool:
        return set(self.dependencies) == set(range(2 * len(self.outputs) + len(self.arguments)))


class Plan(NamedTuple):
    """An operator for inputs of certain shapes and dtypes."""

    prop: Any
    inputs: Sequence[Kind]  # Arguments, then auxiliary states.
    outputs: List[Kind]
    shapes: List[List[int]]  # Shapes of arguments and auxiliary states.
    flags: List[int]
    # Arguments whose values calls before have asked for, in the forward and in the backward pass: the next call fetches
    # them together.
    fetched: Tuple[Set[int], Set[int]]

    def create(self, registered: Registered, context: Any) -> Any:
        """A new operator object."""
        with errors.calling(registered.op_type, "create_operator"):
            operator = self.prop.create_operator(context, [list(shape) for shape in self.shapes], list(self.flags))
        if not callable(getattr(operator, "forward", None)):
            raise MXNetError(
                f"create_operator() of custom operator '{registered.op_type}' must return a CustomOp, not " f"{operator!r}"
            )
        return operator


class InShape(list):
    """The sizes of an argument as infer_shape() gets them: -1 is an unknown one, and `[]` with `rank_known` false says that
    nothing is known."""

    rank_known = True

    @property
    def is_known(self) -> bool:
        """Whether all of it is."""
        return self.rank_known and -1 not in self


def _in_shape(shape: Shape) -> InShape:
    result = InShape(shape or ())
    result.rank_known = shape is not None
    return result


class _Memory:
    """The latest results, by key, up to a number."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[Hashable, Any] = collections.OrderedDict()

    def get(self, key: Hashable) -> Any:
        found = self._found.get(key)
        return found

    def put(self, key: Hashable, value: Any) -> Any:
        with self._lock:
            if len(self._found) >= _MOST:
                self._found.popitem(last=False)
            self._found[key] = value
        return value

    def forget_lock(self) -> None:
        self._lock = threading.Lock()


_specs = _Memory()
_plans = _Memory()


@_side_effects.in_child
def _after_fork() -> None:
    """In a forked child: locks may be held by threads that are not here."""
    _specs.forget_lock()
    _plans.forget_lock()


def make(registered: Registered, texts: Texts) -> Any:
    """A new prop. An error of its constructor is the user's own, and is raised as it is."""
    return registered.prop_class(**dict(texts))


def spec(registered: Registered, texts: Texts) -> Spec:
    """The operator's inputs and outputs."""
    key = (registered.version, texts)
    return _specs.get(key) or _specs.put(key, _ask(make(registered, texts), registered.op_type))


def _ask(prop: Any, op_type: str) -> Spec:
    arguments = _names(prop, op_type, "list_arguments")
    outputs = _names(prop, op_type, "list_outputs")
    auxiliary = _names(prop, op_type, "list_auxiliary_states")
    if not outputs:
        raise MXNetError(f"list_outputs() of custom operator '{op_type}' is empty; it needs an output")
    if len(set(arguments + auxiliary)) < len(arguments + auxiliary):
        raise MXNetError(f"custom operator '{op_type}' has several inputs of one name: {', '.join(arguments + auxiliary)}")
    n, m = len(outputs), len(arguments)
    numbers = list(range(2 * n + m))
    with errors.calling(op_type, "declare_backward_dependency"):
        declared = prop.declare_backward_dependency(numbers[:n], numbers[n : n + m], numbers[n + m :])
    if any(number not in numbers for number in declared):
        raise MXNetError(
            f"declare_backward_dependency() of custom operator '{op_type}' returned {list(declared)}; expected "
            f"some of the numbers that it was given, {numbers}"
        )
    rules = tuple(
        name
        for name in ("shape", "type")
        if arguments
        and getattr(getattr(type(prop), f"infer_{name}", None), "by_rule", False)
        and not (name == "shape" and auxiliary)
    )
    dependencies = tuple(sorted({int(number) for number in declared}))
    return Spec(arguments, outputs, auxiliary, dependencies, bool(getattr(prop, "need_top_grad_", True)), rules)


def _names(prop: Any, op_type: str, method: str) -> Tuple[str, ...]:
    with errors.calling(op_type, method):
        names = tuple(getattr(prop, method)())
    for name in names:
        if not isinstance(name, str) or not name or "," in name:
            raise MXNetError(f"{method}() of custom operator '{op_type}' must list names without commas, not {name!r}")
    return names


def plan(registered: Registered, texts: Texts, inputs: Sequence[Kind]) -> Plan:
    """The operator for these inputs, auxiliary states last. MXNetError where they do not fit."""
    key = (registered.version, texts, tuple(inputs))
    return _plans.get(key) or _plans.put(key, _plan(registered, texts, inputs))


def _plan(registered: Registered, texts: Texts, inputs: Sequence[Kind]) -> Plan:
    op_type = registered.op_type
    known = spec(registered, texts)
    prop = make(registered, texts)
    m = len(known.arguments)
    shapes = infer_shapes(prop, known, op_type, [kind.shape for kind in inputs[:m]])
    dtypes = infer_types(prop, known, op_type, [kind.dtype for kind in inputs[:m]])
    rules: Sequence[Tuple[Any, str]] = ((shapes, "shape"), (dtypes, "type"))
    for found, what in rules:
        for name, kind, said in zip(known.arguments + known.auxiliary, inputs, found[0] + found[2]):
            _check_same(op_type, name, kind, said, what)
    outputs = []
    for name, shape, dtype in zip(known.outputs, shapes[1], dtypes[1]):
        if shape is None or -1 in shape or dtype is None:
            raise MXNetError(
                f"Error in operator Custom '{op_type}': its infer_shape() and infer_type() leave output '{name}' "
                f"unknown: shape {_text(shape)}, type {dtype and dtype_name(dtype)}"
            )
        outputs.append(Kind(shape, dtype))
    return Plan(
        prop, inputs, outputs, [list(kind.shape) for kind in inputs], [FLAG_OF[kind.dtype] for kind in inputs], (set(), set())
    )


def _check_same(op_type: str, name: str, kind: Kind, said: Any, what: str) -> None:
    """MXNetError where a rule contradicts an input that is there."""
    if said is None:
        return
    if what == "type":
        if said != kind.dtype:
            raise MXNetError(
                f"Error in operator Custom '{op_type}': input '{name}': Type inconsistent, Provided = "
                f"{dtype_name(kind.dtype)}, inferred type = {dtype_name(said)}"
            )
    elif len(said) != len(kind.shape) or any(a not in (-1, b) for a, b in zip(said, kind.shape)):
        raise MXNetError(
            f"Error in operator Custom '{op_type}': input '{name}': Shape inconsistent, Provided = "
            f"{_text(kind.shape)}, inferred shape={_text(said)}"
        )


def _text(shape: Shape) -> str:
    return "unknown" if shape is None else "[" + ",".join(map(str, shape)) + "]"


def infer_shapes(prop: Any, known: Spec, op_type: str, given: Sequence[Shape]) -> Tuple[List[Shape], ...]:
    """Shapes of arguments, outputs and auxiliary states, as the prop's rule says them."""
    with errors.calling(op_type, "infer_shape"):
        found = prop.infer_shape([_in_shape(shape) for shape in given])
        lists = _counted(found, known, "shape", "Shape")
        arguments = [_shape(said, shape) for said, shape in zip(lists[0], given)]
        unknown_rank = None if any(shape is None for shape in given) else ()
        return arguments, [_shape(said, unknown_rank) for said in lists[1]], [_shape(said, ()) for said in lists[2]]


def infer_types(prop: Any, known: Spec, op_type: str, given: Sequence[Dtype]) -> Tuple[List[Dtype], ...]:
    """Dtypes of arguments, outputs and auxiliary states, as the prop's rule says them."""
    with errors.calling(op_type, "infer_type"):
        found = prop.infer_type([_class(dtype) for dtype in given])
        return tuple([_dtype(said) for said in each] for each in _counted(found, known, "type", "Type"))


def _counted(found: Any, known: Spec, what: str, title: str) -> List[Sequence[Any]]:
    lists = list(found)
    if len(lists) not in (2, 3):
        raise AssertionError(f"infer_{what} must return 2 or 3 lists")
    if len(lists) == 2:
        lists.append([])
    for expected, each, kind in (
        (known.outputs, lists[1], "output"),
        (known.arguments, lists[0], "input"),
        (known.auxiliary, lists[2], "aux state"),
    ):
        if len(each) != len(expected):
            raise AssertionError(
                f"Infer{title} Error: expecting {len(expected)} entries in returned {kind} {what}s, " f"got {len(each)}."
            )
    return lists


def _shape(said: Any, empty: Shape) -> Shape:
    """A shape from a rule. `empty`: what one without sizes means: a scalar's, unknown, or what an argument's was."""
    if said is None:
        return None
    if isinstance(said, (int, np.integer)):
        raise TypeError(f"a shape is a tuple or a list of sizes, not {said!r}; of one dimension: ({said},)")
    sizes = tuple(int(size) for size in said)
    return sizes if sizes else empty


def _class(dtype: Dtype) -> Any:
    """As infer_type() gets it: numpy's class."""
    return dtype.type if dtype is not None and dtype.names is None else dtype


_NAMED: Dict[str, np.dtype] = {"bfloat16": BFLOAT16_BITS}


def _dtype(said: Any) -> Dtype:
    """A dtype from a rule: a class, a dtype or a name."""
    if said is None:
        return None
    dtype = _NAMED.get(said) if isinstance(said, str) else None
    if dtype is None:
        dtype = np.dtype(said)
    flag_of(dtype)
    return dtype
