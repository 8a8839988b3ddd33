"""CustomOp and CustomOpProp, and their registration: `mx.operator`, which says how they are used."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence, Tuple, Type, TypeVar

from .. import _operators
from .._attributes import Attribute
from . import hosts, registry

PropClass = TypeVar("PropClass", bound=Type)


class CustomOp:
    """An operator's computation. One object is made for each forward pass, and serves its backward pass as well."""

    def __init__(self) -> None:
        pass

    def forward(
        self, is_train: bool, req: Sequence[str], in_data: Sequence[Any], out_data: Sequence[Any], aux: Sequence[Any]
    ) -> None:
        """Computes out_data from in_data. An output that is not assigned is zeros.

        is_train: whether it is a training run. req: for each output, what `assign` does with it: `null`, `write`,
        `inplace` or `add`. in_data: NDArrays, only to be read. out_data: NDArrays to assign to. aux: auxiliary states,
        which may be changed.
        """

    def backward(
        self,
        req: Sequence[str],
        out_grad: Sequence[Any],
        in_data: Sequence[Any],
        out_data: Sequence[Any],
        in_grad: Sequence[Any],
        aux: Sequence[Any],
    ) -> None:
        """Computes in_grad, the gradients of in_data, from those of out_data. One that is not assigned is zeros.

        req: for each input, what to do with its gradient. grad_req='add' is seen to by the server: `req` is then `write`.
        """

    def assign(self, dst: Any, req: str, src: Any) -> None:
        """dst[:] = src, or dst[:] += src for `add`, or nothing for `null`. src: an NDArray, a numpy array or a number."""
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] += src


def _by_rule(method: Callable) -> Callable:
    """Marks a default that the server knows how to follow by itself."""
    method.by_rule = True  # type: ignore[attr-defined]
    return method


class CustomOpProp:
    """The description of an operator's inputs and outputs.

    Keyword arguments of `Custom` come to the constructor as text: `Custom(x, op_type="dense", bias=0.1)` calls
    `DenseProp(bias="0.1")`.

    need_top_grad: whether backward() reads out_grad. False for losses, which begin a gradient.
    """

    need_top_grad_ = True

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad

    @_by_rule
    def infer_shape(self, in_shape: List[Any]) -> Tuple[Any, ...]:
        """Shapes of the arguments, the outputs and (if there are any) the auxiliary states.

        in_shape: a list of sizes for each argument. Before all shapes are known, an unknown size is -1, and an argument of
        which nothing is known is `[]`; both have `is_known = False`. What is returned may leave the same unknown (`None` or
        `[]`: all of an argument). Default: arguments as they are, outputs like the first.
        """
        return in_shape, (in_shape[0],) * len(self.list_outputs()), ()

    @_by_rule
    def infer_type(self, in_type: List[Any]) -> Tuple[Any, ...]:
        """Dtypes of the arguments, the outputs and the auxiliary states: numpy's classes, dtypes, or names.

        in_type: numpy's classes; None where unknown. Default: all as the first.
        """
        return (in_type, [in_type[0]] * len(self.list_outputs()), [in_type[0]] * len(self.list_auxiliary_states()))

    def infer_storage_type(self, in_stype: List[str]) -> Tuple[List[str], List[str], List[str]]:
        """All storage is `default`, dense: gluond asks no operator for another."""
        _check_dense(in_stype, "in_stype")
        return in_stype, ["default"] * len(self.list_outputs()), ["default"] * len(self.list_auxiliary_states())

    def infer_storage_type_backward(
        self, ograd_stype: List[str], in_stype: List[str], out_stype: List[str], igrad_stype: List[str], aux_stype: List[str]
    ) -> Tuple[List[str], ...]:
        """All storage is `default`, dense: gluond asks no operator for another."""
        _check_dense(ograd_stype, "ograd_stype")
        _check_dense(igrad_stype, "igrad_stype")
        return tuple(["default"] * len(each) for each in (ograd_stype, in_stype, out_stype, igrad_stype, aux_stype))

    def list_arguments(self) -> List[str]:
        """Names of the inputs, parameters included."""
        return ["data"]

    def list_outputs(self) -> List[str]:
        """Names of the outputs."""
        return ["output"]

    def list_auxiliary_states(self) -> List[str]:
        """Names of the auxiliary states, inputs after the arguments that the operator changes."""
        return []

    def declare_backward_dependency(self, out_grad: List[int], in_data: List[int], out_data: List[int]) -> List[int]:
        """The numbers of the arrays that backward() reads: others are neither kept nor sent."""
        return ([*out_grad] if self.need_top_grad_ else []) + [*in_data, *out_data]

    def create_operator(self, ctx: Any, in_shapes: List[List[int]], in_dtypes: List[int]) -> CustomOp:
        """The object that computes.

        ctx: where the arrays live. in_shapes: of arguments and auxiliary states. in_dtypes: MXNet's type flags,
        0 for float32.
        """
        return CustomOp()


def _check_dense(stypes: Sequence[str], what: str) -> None:
    for place, stype in enumerate(stypes):
        if stype not in ("default", "undefined"):
            raise AssertionError(f"found non default stype '{stype}' for {what}[{place}]: gluond's arrays are dense")


def register(reg_name: str, shared: bool = False) -> Callable[[PropClass], PropClass]:
    """A decorator that registers a CustomOpProp under a name. A second one of a name replaces the first, with a warning.

    shared: the graphs of other clients (models that they train or serve) may use it too, while this process runs.
    """

    def decorate(prop_class: PropClass) -> PropClass:
        if not (isinstance(prop_class, type) and issubclass(prop_class, CustomOpProp)):
            raise TypeError(
                f"Can only register subclass of CustomOpProp, not {prop_class!r}; a CustomOp is what its "
                "create_operator() returns"
            )
        hosts.registered(*registry.add(reg_name, prop_class, shared))
        return prop_class  # type: ignore[return-value]

    return decorate


def share(reg_name: str) -> None:
    """Lets the graphs of other clients use a registered operator, while this process runs. MXNetError where the name is
    another client's on the server.

    Connects to the server, and returns when it knows.
    """
    before = registry.find(reg_name)
    hosts.registered(registry.share(reg_name), before)


def get_all_registered_operators() -> List[str]:
    """Names of all operators, the server's and this process's own."""
    return sorted({*_operators.operators(), *registry.names()})


class OperatorArguments:
    """The parameters of one operator: their number, names and types."""

    def __init__(self, names: List[str], types: List[str]) -> None:
        self.narg = len(names)
        self.names = names
        self.types = types

    def __repr__(self) -> str:
        return f"OperatorArguments(narg={self.narg}, names={self.names}, types={self.types})"


def get_operator_arguments(op_name: str) -> OperatorArguments:
    """Inputs and parameters of an operator of the server's, their types as MXNet writes them: "int, optional, default='1'"."""
    info = _operators.find(op_name)
    inputs = ["NDArray-or-Symbol[]" if each.several else "NDArray-or-Symbol" for each in info.inputs]
    return OperatorArguments(
        [each.name for each in info.inputs] + list(info.parameters),
        inputs + [_type_text(each) for each in info.parameters.values()],
    )


def _type_text(parameter: Attribute) -> str:
    kind = "{" + ", ".join(map(repr, sorted(parameter.values))) + "}" if parameter.values else parameter.type
    return f"{kind}, required" if parameter.required else f"{kind}, optional, default={parameter.default!r}"
