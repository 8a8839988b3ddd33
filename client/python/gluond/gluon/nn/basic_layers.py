"""Dense, Dropout, Embedding, Flatten, and functions as layers."""
from __future__ import annotations

from typing import Any, Callable, Optional, Sequence, Union

from ... import ndarray, symbol
from .._block import Block
from .._hybrid_block import HybridBlock
from .activations import Activation


class Dense(HybridBlock):
    """output = activation(dot(data, weight.T) + bias).

    Data (N, ...) is seen as (N, in_units) and gives (N, units); with `flatten=False` only the last axis is transformed.
    `in_units` 0: told by the first batch. `activation` is a name that `nn.Activation` takes.
    """

    def __init__(
        self,
        units: int,
        activation: Optional[str] = None,
        use_bias: bool = True,
        flatten: bool = True,
        dtype: str = "float32",
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_units: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._flatten = flatten
        with self.name_scope():
            self._units = units
            self._in_units = in_units
            self.weight = self.params.get(
                "weight", shape=(units, in_units), init=weight_initializer, dtype=dtype, allow_deferred_init=True
            )
            self.bias: Any = (
                self.params.get("bias", shape=(units,), init=bias_initializer, dtype=dtype, allow_deferred_init=True)
                if use_bias
                else None
            )
            self.act = Activation(activation, prefix=activation + "_") if activation is not None else None

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:  # noqa: N803
        """(N, ...) -> (N, units), or (..., in_units) -> (..., units)."""
        inputs = (x, weight) if bias is None else (x, weight, bias)
        out = F.FullyConnected(*inputs, no_bias=bias is None, num_hidden=self._units, flatten=self._flatten, name="fwd")
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        units, in_units = self.weight.shape
        return f"{type(self).__name__}({in_units or None} -> {units}, {self.act if self.act else 'linear'})"


class Dropout(HybridBlock):
    """In training sets a share `rate` of the values to 0, and multiplies the others by 1 / (1 - rate).

    Along `axes` the same values are dropped.
    """

    def __init__(self, rate: float, axes: Sequence[int] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._rate = rate
        self._axes = axes

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Any shape."""
        if self._rate > 0:
            return F.Dropout(x, p=self._rate, axes=tuple(self._axes), name="fwd")
        return F.identity(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p = {self._rate}, axes={self._axes})"


class Embedding(HybridBlock):
    """The row of `weight`, (input_dim, output_dim), that each index names.

    Indices beyond the end give the first or last row. With `sparse_grad`, SGD, Adam and LARS leave rows alone that no index of a
    batch has named, unless they are made with `lazy_update=False`: neither weight decay nor momentum moves these.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: str = "float32",
        weight_initializer: Any = None,
        sparse_grad: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._input_dim = input_dim
        self._output_dim = output_dim
        self._dtype = dtype
        with self.name_scope():
            self.weight = self.params.get(
                "weight",
                shape=(input_dim, output_dim),
                init=weight_initializer,
                dtype=dtype,
                allow_deferred_init=True,
                grad_stype="row_sparse" if sparse_grad else "default",
            )

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:  # noqa: N803
        """(...) -> (..., output_dim)."""
        return F.Embedding(x, weight, input_dim=self._input_dim, output_dim=self._output_dim, dtype=self._dtype, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._input_dim} -> {self._output_dim}, {self._dtype})"


class Flatten(HybridBlock):
    """(N, ...) -> (N, the rest)."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """(N, ...) -> (N, the rest)."""
        return F.flatten(x)

    def __repr__(self) -> str:
        return type(self).__name__


class Lambda(Block):
    """A function of arrays, or the name of one in `nd`, as a Block."""

    def __init__(self, function: Union[str, Callable[..., Any]], prefix: Optional[str] = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            if not hasattr(ndarray, function):
                raise AssertionError(f"Function name {function} is not found in ndarray.")
            self._func_impl = getattr(ndarray, function)
        elif callable(function):
            self._func_impl = function
        else:
            raise ValueError(f"Unrecognized function in lambda: {function} of type {type(function)}")

    def forward(self, *args: Any) -> Any:
        """The function's result."""
        return self._func_impl(*args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self._func_impl, '__name__', self._func_impl)})"


class HybridLambda(HybridBlock):
    """A function `f(F, x, ...)`, or the name of one in both `nd` and `sym`, as a HybridBlock."""

    def __init__(self, function: Union[str, Callable[..., Any]], prefix: Optional[str] = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            if not hasattr(ndarray, function) or not hasattr(symbol, function):
                raise AssertionError(f"Function name {function} is not found in symbol/ndarray.")
            name = function
            self._func: Callable[..., Any] = lambda F, *args: getattr(F, name)(*args)
            self._func_name = name
        elif callable(function):
            self._func = function
            self._func_name = getattr(function, "__name__", str(function))
        else:
            raise ValueError(f"Unrecognized function in lambda: {function} of type {type(function)}")

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> Any:  # noqa: N803
        """The function's result."""
        return self._func(F, x, *args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"
