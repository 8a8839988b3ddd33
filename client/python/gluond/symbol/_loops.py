"""The operators of loops and branches: custom operators of this process, whose parts are graphs of the server.

The server asks for shapes and calls for values, as for any custom operator. A loop's parts are its attributes, as text, so that
files have them. See _control_flow.py, which makes the nodes.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .._array import control_flow, tape
from .._array.array import NDArray
from .._array.calls import intern, invoke
from .._attributes import dtype_name
from .._custom.operators import CustomOp, CustomOpProp, register
from . import _json, _subgraphs
from ._cached_op import CachedOp
from ._definition import KnownType
from ._outputs import Outputs

Arrays = List[NDArray]
Shape = Optional[Sequence[int]]


class LoopPart:
    """A graph that a loop runs, on some of the loop's inputs."""

    def __init__(self, text: str) -> None:
        self._graph = Outputs(_json.loads(text))
        self._places = _subgraphs.places_of(self._graph)
        self._run = CachedOp(self._graph)

    def __call__(self, arrays: Sequence[NDArray]) -> Arrays:
        """The outputs, from the loop's inputs."""
        found = self._run(*[arrays[place] for place in self._places])
        return found if isinstance(found, list) else [found]

    def infer(self, shapes: List[Shape], types: List[Optional[str]]) -> List[KnownType]:
        """The types of the outputs, with those of the inputs as far as they are known; what follows for these is filled in."""
        names = [f"in{place}" for place in self._places]
        known = self._graph._define().infer(
            {name: shapes[place] or () for name, place in zip(names, self._places)},
            {name: types[place] or "" for name, place in zip(names, self._places) if types[place] is not None},
        )
        by_name = {node.name: kind for node, kind in zip(self._graph._define().variables, known.inputs)}
        for name, place in zip(names, self._places):
            shapes[place], types[place] = by_name[name].shape, by_name[name].dtype
        return known.outputs


def _stacked(outputs: Sequence[KnownType], length: int) -> List[KnownType]:
    """The types of the outputs of so many steps, from those of one."""
    return [each._replace(shape=None if each.shape is None else (length, *each.shape)) for each in outputs]


_part = functools.lru_cache(maxsize=256)(LoopPart)


class LoopOp(CustomOp):
    """One run of a loop. A training run is recorded, for the gradients; a further way back computes the loop again."""

    def __init__(self, run: Callable[[Arrays], Arrays]) -> None:
        super().__init__()
        self._run = run
        self._training = False
        self._recorded: Optional[Tuple[Arrays, Arrays]] = None

    def forward(
        self, is_train: bool, req: Sequence[str], in_data: Sequence[Any], out_data: Sequence[Any], aux: Sequence[Any]
    ) -> None:
        """See CustomOp. An output of a loop without a step is zeros."""
        self._training = is_train
        if is_train:
            self._recorded = self._record(in_data, aux)
        outputs = self._recorded[1] if self._recorded else self._run([*in_data, *aux])
        for target, request, value in zip(reversed(out_data), reversed(req), reversed(outputs)):
            self.assign(target, request, value)

    def _record(self, in_data: Sequence[NDArray], aux: Sequence[NDArray]) -> Tuple[Arrays, Arrays]:
        copy = intern("_copy", {}, 1, 1)
        inputs = [invoke(copy, [array]) for array in in_data]
        for variable in inputs:
            variable.attach_grad()
        with tape.record(self._training):
            return inputs, [invoke(copy, [each]) for each in self._run([*inputs, *aux])]

    def backward(
        self,
        req: Sequence[str],
        out_grad: Sequence[Any],
        in_data: Sequence[Any],
        out_data: Sequence[Any],
        in_grad: Sequence[Any],
        aux: Sequence[Any],
    ) -> None:
        """See CustomOp."""
        inputs, outputs = self._recorded or self._record(in_data, [state.copy() for state in aux])
        self._recorded = None
        tape.backward(outputs, out_grad[len(out_grad) - len(outputs) :], train_mode=self._training)
        for target, request, array in zip(in_grad, req, inputs):
            self.assign(target, request, array.grad)


class LoopProp(CustomOpProp):
    """The inputs of a loop are `inputs` arguments and, after them, `written` auxiliary states."""

    def __init__(self, parts: Sequence[str], inputs: str, written: str, outputs: str) -> None:
        super().__init__()
        self.parts = [_part(text) for text in parts]
        self._inputs, self._written, self._outputs = int(inputs), int(written), int(outputs)

    def list_arguments(self) -> List[str]:
        """See CustomOpProp."""
        return [f"in{place}" for place in range(self._inputs)]

    def list_auxiliary_states(self) -> List[str]:
        """See CustomOpProp."""
        return [f"in{self._inputs + place}" for place in range(self._written)]

    def list_outputs(self) -> List[str]:
        """See CustomOpProp."""
        return ["output"] if self._outputs == 1 else [f"output{place}" for place in range(self._outputs)]

    def infer_shape(self, in_shape: List[Any]) -> Tuple[Any, ...]:
        """See CustomOpProp."""
        shapes: List[Shape] = [shape if shape.rank_known else None for shape in in_shape]
        shapes += [None] * self._written
        outputs = self.infer(shapes, [None] * len(shapes))
        return shapes[: self._inputs], [each.shape for each in outputs], shapes[self._inputs :]

    def infer_type(self, in_type: List[Any]) -> Tuple[Any, ...]:
        """See CustomOpProp."""
        types = [None if each is None else dtype_name(each) for each in in_type] + [None] * self._written
        outputs = self.infer([None] * len(types), types)
        return types[: self._inputs], [each.dtype for each in outputs], types[self._inputs :]

    def create_operator(self, ctx: Any, in_shapes: List[List[int]], in_dtypes: List[int]) -> CustomOp:
        """See CustomOpProp."""
        return LoopOp(self.run)

    def infer(self, shapes: List[Shape], types: List[Optional[str]]) -> List[KnownType]:
        """The types of the outputs, and in the lists those of the inputs, as far as they follow."""
        raise NotImplementedError

    def run(self, arrays: Arrays) -> Arrays:
        """The outputs, or the last ones: those that no step has made are left out."""
        raise NotImplementedError

    def _states_stay(self, first: int, after: Sequence[KnownType], shapes: List[Shape], types: List[Optional[str]]) -> bool:
        """Gives states, inputs from `first` on, the types that they have after a step; whether that has told anything."""
        told = False
        for place, state in enumerate(after, first):
            known = shapes[place]
            if state.shape is not None and (known is None or len(known) == len(state.shape) and min(known, default=0) < 0):
                shapes[place], told = [b if a < 0 else a for a, b in zip(known or state.shape, state.shape)], True
            if types[place] is None and state.dtype is not None:
                types[place], told = state.dtype, True
        return told


@register("_foreach")
class ForeachProp(LoopProp):
    """`data` inputs are cut into slices; the next `states` ones are a step's states."""

    def __init__(self, body: str, data: str, states: str, **counts: str) -> None:
        super().__init__([body], **counts)
        self._data, self._states = int(data), int(states)

    def run(self, arrays: Arrays) -> Arrays:
        """See LoopProp."""
        rest = arrays[self._data + self._states :]
        made = self._outputs - self._states

        def step(slices: Arrays, states: Arrays) -> Tuple[Arrays, Arrays]:
            found = self.parts[0]([*slices, *states, *rest])
            return found[:made], found[made:]

        outputs, states = control_flow.foreach(step, arrays[: self._data], arrays[self._data : self._data + self._states])
        return [*outputs, *states]

    def infer(self, shapes: List[Shape], types: List[Optional[str]]) -> List[KnownType]:
        """See LoopProp."""
        data = shapes[: self._data]
        length = max([shape[0] for shape in data if shape], default=-1)
        slices: List[Shape] = [None if shape is None else list(shape[1:]) or [1] for shape in data]
        inner = slices + shapes[self._data :]
        outputs = self.parts[0].infer(inner, types)
        made = self._outputs - self._states
        if self._states_stay(self._data, outputs[made:], inner, types):
            outputs = self.parts[0].infer(inner, types)
        for place, shape in enumerate(data):
            known = inner[place]
            if shape is None or len(shape) == 1:  # A slice of one number does not tell how many dimensions the data have.
                continue
            shapes[place] = [length, *(known or shape[1:])]
        shapes[self._data :] = inner[self._data :]
        return _stacked(outputs[:made], length) + outputs[made:]


@register("_while_loop")
class WhileLoopProp(LoopProp):
    """The first `states` inputs are a step's states."""

    def __init__(self, condition: str, body: str, states: str, most: str, **counts: str) -> None:
        super().__init__([condition, body], **counts)
        self._states, self._most = int(states), int(most)

    def run(self, arrays: Arrays) -> Arrays:
        """See LoopProp."""
        rest = arrays[self._states :]
        made = self._outputs - self._states

        def step(*states: NDArray) -> Tuple[Arrays, Arrays]:
            found = self.parts[1]([*states, *rest])
            return found[:made], found[made:]

        outputs, states = control_flow.while_loop(
            lambda *states: self.parts[0]([*states, *rest])[0], step, arrays[: self._states], self._most
        )
        return [*outputs, *states]

    def infer(self, shapes: List[Shape], types: List[Optional[str]]) -> List[KnownType]:
        """See LoopProp."""
        outputs = self.parts[1].infer(shapes, types)
        made = self._outputs - self._states
        if self._states_stay(0, outputs[made:], shapes, types):
            outputs = self.parts[1].infer(shapes, types)
        self.parts[0].infer(shapes, types)
        return _stacked(outputs[:made], self._most) + outputs[made:]


@register("_cond")
class CondProp(LoopProp):
    """One of two parts, as the condition says."""

    def __init__(self, condition: str, then: str, otherwise: str, **counts: str) -> None:
        super().__init__([condition, then, otherwise], **counts)

    def run(self, arrays: Arrays) -> Arrays:
        """See LoopProp."""
        condition, then, otherwise = self.parts
        chosen: Arrays = control_flow.cond(condition(arrays)[0], lambda: then(arrays), lambda: otherwise(arrays))
        return chosen

    def infer(self, shapes: List[Shape], types: List[Optional[str]]) -> List[KnownType]:
        """See LoopProp."""
        condition, then, otherwise = self.parts
        condition.infer(shapes, types)
        outputs = then.infer(shapes, types)
        others = otherwise.infer(shapes, types)
        return [KnownType(one.shape or other.shape, one.dtype or other.dtype) for one, other in zip(outputs, others)]


def attributes(kind: str, values: Dict[str, Any]) -> Dict[str, str]:
    """The attributes of a node of a loop."""
    return {"op_type": kind, **{key: str(value) for key, value in values.items()}}
