"""Constant: a parameter that no training changes."""
from __future__ import annotations

import warnings
from typing import Any

from .. import initializer, ndarray
from .._array.array import NDArray
from ._parameter import Parameter
from .utils import dtype_name


class _ConstantValue(initializer.Initializer):
    """Writes the constant's value, whatever the parameter's name is."""

    def __init__(self, value: NDArray) -> None:
        super().__init__()
        self._value = value

    def dumps(self) -> str:
        """As `Constant` of the value in numbers: a graph that is saved must be readable without this object."""
        return initializer.Constant(self._value).dumps()

    def _init_weight(self, name: str, array: NDArray) -> None:
        self._value.copyto(array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ConstantValue) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)


class Constant(Parameter):
    """A named array that the network uses and training leaves alone: its `grad_req` is 'null' always.

    `value`: an NDArray, or what `nd.array` takes.

        self.const = self.params.get_constant('const', mx.nd.array([[1, 2], [3, 4]]))
    """

    def __init__(self, name: str, value: Any) -> None:
        if not isinstance(value, NDArray):
            value = ndarray.array(value)
        self.value = value
        super().__init__(name, grad_req="null", shape=value.shape, dtype=value.dtype, init=_ConstantValue(value))

    def __repr__(self) -> str:
        return f"Constant {self.name} (shape={self.shape}, dtype={self.dtype})"

    @property
    def grad_req(self) -> str:
        """'null'."""
        return "null"

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        self._grad_req = "null"
        if req != "null":
            warnings.warn(
                f'Constant parameter "{self.name}" does not support grad_req other than "null", and new value '
                f'"{req}" is ignored.',
                stacklevel=2,
            )

    def same_value(self, other: Any) -> bool:
        """Whether `other` has the same shape and numbers."""
        if not isinstance(other, NDArray):
            other = ndarray.array(other, dtype=dtype_name(self.dtype))
        return self.value.shape == other.shape and bool((self.value.asnumpy() == other.asnumpy()).all())
