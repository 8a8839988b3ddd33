"""Loops and branches of functions on symbols: `sym.contrib.foreach` and the like.

A graph of the server has no loops. `foreach` over data of a known length is unrolled; other loops and branches are operators that
this process computes (_loops.py). A Block that is hybridized goes on operator by operator instead, which is faster: NoGraph
is raised.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from .._array.control_flow import flat
from .._composed.shapes import NoGraph
from .._wire.frame import frame
from . import _compose, _graph, _loops
from ._functions import call
from ._subgraphs import Parts, scope, unique_name
from .symbol import Group, Symbol, Variable


def foreach(body: Callable[[Any, Any], Tuple[Any, Any]], data: Any, init_states: Any, name: str = "foreach") -> Any:
    """(outputs, states) of `body(slice, states) -> (outputs, states)`, for the slices of `data` along its first axis.

    data: a symbol or a list of them. outputs: a symbol or nested lists of them; those of all slices are stacked. The body is
    called once. Data of a known length, Variables that have a shape, make the graph of all steps.

        step = lambda x, states: (x + states[0], [states[0] * 2])
        outputs, states = sym.contrib.foreach(step, sym.Variable('data', shape=(3, 2)), [sym.Variable('state')])
    """
    for what, value in (("data", data), ("init_states", init_states)):
        _check(f"foreach: {what}", value)
    if not flat(data):
        raise AssertionError("foreach: data should be a Symbol or a nested list of Symbols, but there are none")
    name = unique_name(name)
    length = _length(flat(data))
    if length is None:
        _refuse_in_blocks("foreach")
        return _repeated(body, data, init_states, name)
    inputs = [Variable(f"{name}_input{place}") for place in range(len(flat(data) + flat(init_states)))]
    outputs, after = _called(body, data, init_states, inputs)
    steps = zip(
        *[list(call("SliceChannel", [each], {}, {"num_outputs": length, "axis": 0, "squeeze_axis": True})) for each in flat(data)]
    )
    results = [each._entry("output") for each in flat(outputs) + flat(after)]
    states, made = flat(init_states), []
    for step in steps:
        given = {str(one.name): other._entry(name) for one, other in zip(inputs, [*step, *states])}
        entries = [Symbol([entry]) for entry in _compose.substitute(results, given, None)]
        made.append(entries[: len(flat(outputs))])
        states = entries[len(flat(outputs)) :]
    stacked = [call("stack", list(each), {}, {"num_args": length, "axis": 0}) for each in zip(*made)]
    return _like(outputs, iter(stacked)), _like(init_states, iter(states))


def _called(body: Callable[[Any, Any], Tuple[Any, Any]], data: Any, init_states: Any, inputs: Sequence[Symbol]) -> Tuple[Any, Any]:
    """The body's outputs and states for these inputs."""
    parts = iter(inputs)
    outputs, after = body(_like(data, parts), _like(init_states, parts))
    for what, value in (("output", outputs), ("loop_vars", after)):
        _check(f"foreach: {what}", value)
    if len(flat(after)) != len(flat(init_states)):
        raise AssertionError("The input and output loop_vars have different format")
    read = set(_graph.walk([each._entry("output") for each in flat(outputs) + flat(after)]))
    for what, some in (("data", inputs[: len(flat(data))]), ("state", inputs[len(flat(data)) :])):
        if not all(each._entries[0].node in read for each in some):
            raise AssertionError(f"the {what} arrays have to be used in the loop body")
    return outputs, after


def _repeated(body: Callable[[Any, Any], Tuple[Any, Any]], data: Any, init_states: Any, name: str) -> Tuple[Any, Any]:
    own = flat(data) + flat(init_states)
    parts = Parts([each._entry("data") for each in own])
    with scope(name):
        outputs, after = _called(body, data, init_states, parts.stand_ins)
    parts.add(flat(outputs) + flat(after), name)
    made = _node(
        "_foreach", parts, ("body",), len(flat(outputs) + flat(after)), {"data": len(flat(data)), "states": len(flat(init_states))}
    )
    return _like(outputs, made), _like(init_states, made)


def while_loop(
    cond: Callable[..., Any],
    func: Callable[..., Tuple[Any, Any]],
    loop_vars: Any,
    max_iterations: Any = None,
    name: str = "while_loop",
) -> Any:
    """(outputs, loop_vars) of `func(*loop_vars) -> (outputs, loop_vars)`, repeated while `cond(*loop_vars)`.

    The outputs of all steps are stacked, and filled up with zeros to `max_iterations` of them. Both functions are called once.
    """
    if max_iterations is None:
        raise ValueError("max_iterations should be specified")
    _check("while_loop: loop_vars", loop_vars)
    lone = isinstance(loop_vars, Symbol)
    given = [loop_vars] if lone else list(loop_vars)
    if not given:
        raise ValueError("loop_vars should contain at least one element")
    names = [unique_name(f"{name}_{part}") for part in ("cond", "func")]
    _refuse_in_blocks("while_loop")
    parts = Parts([each._entry("loop_vars") for each in flat(given)])
    with scope(names[0]):
        condition = cond(*_like(given, iter(parts.stand_ins)))
    if not isinstance(condition, Symbol):
        raise ValueError("Return of cond must be a Symbol")
    with scope(names[1]):
        outputs, after = func(*_like(given, iter(parts.stand_ins)))
    outputs = [] if outputs is None else outputs
    after = [] if after is None else after
    for what, value in (("output", outputs), ("loop_vars", after)):
        _check(f"while_loop: {what}", value)
    if len(flat(after)) != len(flat(given)):
        raise ValueError("The number of loop_vars should be consistent during the loop")
    parts.add([condition], names[0])
    parts.add(flat(outputs) + flat(after), names[1])
    made = _node(
        "_while_loop",
        parts,
        ("condition", "body"),
        len(flat(outputs) + flat(after)),
        {"states": len(flat(given)), "most": int(max_iterations)},
    )
    return _like(outputs, made), _like(loop_vars, made)


def cond(pred: Any, then_func: Callable[[], Any], else_func: Callable[[], Any], name: str = "cond") -> Any:
    """`then_func()` if the only element of `pred` is not 0, else `else_func()`. Both are called; one of them is computed."""
    names = [unique_name(f"{name}_{part}") for part in ("pred", "then", "else")]
    _refuse_in_blocks("cond")
    if not isinstance(pred, Symbol) or len(pred) != 1:
        raise ValueError("pred should always be a single output")
    parts, results = Parts(), [pred]
    parts.add([pred], names[0])
    for part, function in zip(names[1:], (then_func, else_func)):
        with scope(part):
            results.append(function())
        _check("cond: outputs", results[-1])
        parts.add(flat(results[-1]), part)
    if len(flat(results[1])) != len(flat(results[2])):
        raise ValueError("Number of outputs differs between then-branch and else-branch")
    return _like(results[1], _node("_cond", parts, ("condition", "then", "otherwise"), len(flat(results[1])), {}))


def _node(kind: str, parts: Parts, names: Sequence[str], outputs: int, attributes: Dict[str, Any]) -> Iterator[Symbol]:
    """The outputs of a loop's node."""
    inputs, texts, written = parts.ordered()
    counts = {"inputs": len(inputs) - written, "written": written, "outputs": outputs}
    return iter(call("Custom", inputs, {}, _loops.attributes(kind, {**dict(zip(names, texts)), **attributes, **counts}), hint=kind))


def _refuse_in_blocks(function: str) -> None:
    """NoGraph, within the hybrid_forward of a Block that may run on arrays instead."""
    if frame().traced:
        raise NoGraph(f"sym.contrib.{function}: a graph of the server has no loops and no branches. A Block runs them on arrays.")


def _check(what: str, value: Any) -> None:
    if not all(isinstance(each, Symbol) for each in flat(value)):
        raise AssertionError(f"{what} should be a Symbol or a nested list of Symbols, but got {value!r}")


def _length(data: List[Symbol]) -> Optional[int]:
    """How many slices the data have; None: that is not known."""
    _, shapes, _ = Group(data).infer_shape_partial()
    lengths = {shape[0] if shape else 0 for shape in shapes or [()]}
    return lengths.pop() if len(lengths) == 1 and 0 not in lengths else None


def _like(form: Any, parts: Iterator[Any]) -> Any:
    """The parts, nested as the form is."""
    return [_like(each, parts) for each in form] if isinstance(form, (list, tuple)) else next(parts)
