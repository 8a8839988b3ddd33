"""NumpyOp and NDArrayOp, the operators of MXNet before CustomOp: one object that declares and computes."""

from __future__ import annotations

import itertools
import warnings
from typing import Any, List, Sequence, Tuple

from .._custom import registry
from .._custom.operators import CustomOp, CustomOpProp
from ._creation import Custom

_names = itertools.count()


class PythonOp:
    """Base of both. need_top_grad: whether backward() reads out_grad."""

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad
        warnings.warn(f"{type(self).__name__} has been deprecated. Please use CustomOp", DeprecationWarning, stacklevel=2)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """The operator applied to symbols."""
        op_type = self.__dict__.get("_op_type")
        if op_type is None:
            op_type = self._op_type = f"_{type(self).__name__}_{next(_names)}"
            registry.add(op_type, lambda: _Prop(self), shared=False)
        return Custom(*args, op_type=op_type, **kwargs)

    def forward(self, in_data: Sequence[Any], out_data: Sequence[Any]) -> None:
        """Computes out_data. Default: the first input."""
        out_data[0][:] = in_data[0]

    def backward(self, out_grad: Sequence[Any], in_data: Sequence[Any], out_data: Sequence[Any], in_grad: Sequence[Any]) -> None:
        """Computes in_grad. Default: ones."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: List[Any]) -> Tuple[Any, Any]:
        """Shapes of the inputs and the outputs. Default: one output, like the first input."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> List[str]:
        """Names of the outputs."""
        return ["output"]

    def list_arguments(self) -> List[str]:
        """Names of the inputs."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Whether backward() reads out_grad."""
        return self.need_top_grad_


class NumpyOp(PythonOp):
    """Gets numpy arrays."""


class NDArrayOp(PythonOp):
    """Gets NDArrays."""

    def declare_backward_dependency(self, out_grad: List[int], in_data: List[int], out_data: List[int]) -> List[int]:
        """Which of these numbers backward() reads."""
        return (list(out_grad) if self.need_top_grad() else []) + [*in_data, *out_data]


class _Lists:
    """The arrays of a call as the object wants them; numpy's are written back."""

    def __init__(self, as_numpy: bool) -> None:
        self._as_numpy = as_numpy
        self._written: List[Tuple[Any, Any]] = []

    def read(self, arrays: Sequence[Any]) -> List[Any]:
        return [array.asnumpy() for array in arrays] if self._as_numpy else list(arrays)

    def write(self, arrays: Sequence[Any]) -> List[Any]:
        found = self.read(arrays)
        if self._as_numpy:
            self._written += zip(arrays, found)
        return found

    def done(self) -> None:
        for array, values in self._written:
            array[:] = values


class _Operator(CustomOp):
    """Computes as a PythonOp does."""

    def __init__(self, op: PythonOp) -> None:
        super().__init__()
        self._op = op

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        lists = _Lists(isinstance(self._op, NumpyOp))
        self._op.forward(in_data=lists.read(in_data), out_data=lists.write(out_data))
        lists.done()

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        lists = _Lists(isinstance(self._op, NumpyOp))
        heads = lists.read(out_grad) if self._op.need_top_grad() else list(out_grad)
        self._op.backward(out_grad=heads, in_data=lists.read(in_data), out_data=lists.read(out_data), in_grad=lists.write(in_grad))
        lists.done()


class _Prop(CustomOpProp):
    """Stands for a PythonOp."""

    def __init__(self, op: PythonOp) -> None:
        super().__init__(op.need_top_grad())
        self._op = op
        self.list_arguments, self.list_outputs = op.list_arguments, op.list_outputs  # type: ignore
        if isinstance(op, NDArrayOp):
            self.declare_backward_dependency = op.declare_backward_dependency  # type: ignore

    def infer_shape(self, in_shape: Any) -> Any:
        return (*self._op.infer_shape(in_shape), [])

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Any:
        return _Operator(self._op)
