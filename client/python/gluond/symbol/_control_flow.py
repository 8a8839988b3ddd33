"""Loops and branches of functions on symbols: `sym.contrib.foreach` and the like.

A graph of the server has no loops. `foreach` over data of a known length is unrolled; where it is not known, and for
`while_loop` and `cond`, NoGraph is raised, and a hybridized Block goes on operator by operator.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, NoReturn, Tuple

from .._array.control_flow import flat
from .._composed.shapes import NoGraph
from . import _compose
from ._functions import call
from .symbol import Group, Symbol, Variable


def foreach(body: Callable[[Any, Any], Tuple[Any, Any]], data: Any, init_states: Any, name: str = "foreach") -> Any:
    """(outputs, states) of `body(slice, states) -> (outputs, states)`, for the slices of `data` along its first axis.

    data: a symbol or a list of them, of a known length: Variables that have a shape. outputs: a symbol or nested lists
    of them; those of all slices are stacked. The body is called once. NoGraph: the length is not known.

        step = lambda x, states: (x + states[0], [states[0] * 2])
        outputs, states = sym.contrib.foreach(step, sym.Variable('data', shape=(3, 2)), [sym.Variable('state')])
    """
    for what, value in (("data", data), ("init_states", init_states)):
        _check(what, value)
    length = _length(flat(data))
    inputs = [Variable(f"{name}_input{place}") for place in range(len(flat(data) + flat(init_states)))]
    parts = iter(inputs)
    outputs, after = body(_like(data, parts), _like(init_states, parts))
    for what, value in (("output", outputs), ("loop_vars", after)):
        _check(what, value)
    if len(flat(after)) != len(flat(init_states)):
        raise AssertionError("The input and output loop_vars have different format")
    steps = zip(*[list(call("SliceChannel", [each], {}, {"num_outputs": length, "axis": 0, "squeeze_axis": True}))
                  for each in flat(data)])
    results = [each._entry("output") for each in flat(outputs) + flat(after)]
    states, made = flat(init_states), []
    for step in steps:
        given = {str(one.name): other._entry(name) for one, other in zip(inputs, [*step, *states])}
        entries = [Symbol([entry]) for entry in _compose.substitute(results, given, None)]
        made.append(entries[:len(flat(outputs))])
        states = entries[len(flat(outputs)):]
    stacked = [call("stack", list(each), {}, {"num_args": length, "axis": 0}) for each in zip(*made)]
    return _like(outputs, iter(stacked)), _like(init_states, iter(states))


def while_loop(cond: Callable[..., Any], func: Callable[..., Tuple[Any, Any]], loop_vars: Any,
               max_iterations: Any = None, name: str = "while_loop") -> NoReturn:
    """NoGraph: the number of steps is known only once values are; `nd.contrib.while_loop` runs on arrays."""
    _refuse("while_loop")


def cond(pred: Any, then_func: Callable[[], Any], else_func: Callable[[], Any], name: str = "cond") -> NoReturn:
    """NoGraph: the branch is known only once values are; `nd.contrib.cond` runs on arrays, and `sym.where` chooses."""
    _refuse("cond")


def _refuse(function: str) -> NoReturn:
    raise NoGraph(f"sym.contrib.{function}: a graph of the server has no loops and no branches. nd.contrib.{function} "
                  "runs on arrays, and so does a HybridBlock that uses F.contrib; sym.where chooses between two results.")


def _check(what: str, value: Any) -> None:
    if not all(isinstance(each, Symbol) for each in flat(value)):
        raise AssertionError(f"foreach: {what} should be a Symbol or a nested list of Symbols, but got {value!r}")


def _length(data: List[Symbol]) -> int:
    """How many slices the data have. NoGraph: that is not known."""
    _, shapes, _ = Group(data).infer_shape_partial() if data else (None, [], None)
    lengths = {shape[0] if shape else 0 for shape in shapes or [()]}
    if len(lengths) != 1 or 0 in lengths:
        raise NoGraph(f"sym.contrib.foreach: the length of data of shape {', '.join(map(str, shapes or ()))} is not known. Give "
                      "the Variables a shape, or use cell.unroll(length, ...); nd.contrib.foreach runs on arrays of any "
                      "length.")
    return lengths.pop()


def _like(form: Any, parts: Iterator[Any]) -> Any:
    """The parts, nested as the form is."""
    return [_like(each, parts) for each in form] if isinstance(form, (list, tuple)) else next(parts)
