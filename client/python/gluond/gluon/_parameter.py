"""Parameter: one trainable array of a Block, on one or several devices, perhaps of a shape not known yet."""
from __future__ import annotations

import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from .. import initializer, ndarray, symbol
from .._array import tape
from .._array.array import NDArray
from .._attributes import dense_only
from ..base import MXNetError
from ..context import Context, current_context
from ._structure import count_change
from .utils import dtype_name, shape_is_known


class DeferredInitializationError(MXNetError):
    """A parameter was used before its shape was known."""


class _Deferred(NamedTuple):
    """An initialization that waits for the shape."""

    init: Any
    contexts: List[Context]
    default_init: Any
    data: Optional[NDArray]


class Parameter:
    """A named array that a Block owns.

    `shape` may hold 0 (or -1) where a dimension is not known yet: with `allow_deferred_init`, `initialize` then waits for
    the first forward pass, which tells it. `grad_req` says what Backward does with the gradient: 'write' it, 'add' it,
    or 'null'; `differentiable=False` makes it 'null' for good. With `grad_stype` 'row_sparse', optimizers with `lazy_update` leave
    rows alone whose gradient is 0. `lr_mult` and `wd_mult` multiply the Trainer's
    learning rate and weight decay. `init` is an initializer, its name, or None for the one of `initialize`.
    """

    # Fields of MXNet's that libraries copy from one Parameter to another. Here `_data` has the contexts.
    _ctx_list: Any = None
    _ctx_map: Any = None
    _trainer: Any = None

    def __init__(
        self,
        name: str,
        grad_req: str = "write",
        shape: Union[int, Sequence[int], None] = None,
        dtype: Any = np.float32,
        lr_mult: float = 1.0,
        wd_mult: float = 1.0,
        init: Any = None,
        allow_deferred_init: bool = False,
        differentiable: bool = True,
        stype: str = "default",
        grad_stype: str = "default",
    ) -> None:
        self._var: Optional[symbol.Symbol] = None
        self._data: Optional[Dict[Context, NDArray]] = None
        self._grad: Optional[Dict[Context, NDArray]] = None
        self._deferred: Optional[_Deferred] = None
        self._differentiable = differentiable
        self._allow_deferred_init = allow_deferred_init
        self._grad_req = ""
        self._shape: Any = (shape,) if isinstance(shape, int) else None if shape is None else tuple(shape)
        self._dtype = np.float32 if dtype is None else dtype
        self.name = name
        self.lr_mult = lr_mult
        self.wd_mult = wd_mult
        self.init = init
        self.grad_req = grad_req
        for what, kind in (("stype", stype), ("grad_stype", grad_stype)):
            if kind not in ("default", "row_sparse", "csr"):
                raise AssertionError(
                    f"{what} for Parameter '{name}' must be one of 'default', 'row_sparse', or 'csr', " f"but got '{kind}'"
                )
        dense_only(f"Parameter '{name}'", stype)
        self.grad_stype = grad_stype
        self._stype = stype

    def __repr__(self) -> str:
        return f"Parameter {self.name} (shape={self.shape}, dtype={self.dtype})"

    # Properties.

    @property
    def grad_req(self) -> str:
        """'write', 'add' or 'null'."""
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req not in ("write", "add", "null"):
            raise AssertionError(f"grad_req must be one of 'write', 'add', or 'null', but got '{req}'")
        if not self._differentiable:
            req = "null"
        if req == self._grad_req:
            return
        self._grad_req = req
        if req == "null":
            self._grad = None
            if self._data is not None:
                self._data = {ctx: array.detach() for ctx, array in self._data.items()}
        elif self._data is not None:
            self._make_gradients()

    @property
    def dtype(self) -> Any:
        """As it was given. Setting it casts."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self.cast(dtype)

    @property
    def shape(self) -> Any:
        """A tuple, with 0 for a dimension that is not known yet; None if nothing is. Setting it fills what is unknown."""
        return self._shape

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        shape = tuple(shape)
        if self._shape is not None and (
            len(shape) != len(self._shape) or any(old not in (0, -1, new) for old, new in zip(self._shape, shape))
        ):
            raise AssertionError(
                f"Parameter '{self.name}': Expected shape {shape} is incompatible with given shape " f"{self._shape}."
            )
        self._shape = shape

    # Initial values.

    def initialize(
        self,
        init: Any = None,
        ctx: Union[Context, Sequence[Context], None] = None,
        default_init: Any = None,
        force_reinit: bool = False,
    ) -> None:
        """Draws the initial value on `ctx` (one context or several; default: the current one) and makes the gradient.

        The initializer is `init`, else the parameter's own, else `default_init` (Uniform(0.07)).
        """
        if self._data is not None and not force_reinit:
            warnings.warn(
                f"Parameter '{self.name}' is already initialized, ignoring. Set force_reinit=True to " "re-initialize.",
                stacklevel=2,
            )
            return
        self._data = self._grad = None
        default_init = default_init if default_init is not None else initializer.Uniform()
        if init is None:
            init = self.init if self.init is not None else default_init
        known = shape_is_known(self._shape)
        if not known and not self._allow_deferred_init:
            raise ValueError(
                f"Cannot initialize Parameter '{self.name}' because it has invalid shape: {self._shape}. "
                "Give it its shape, or allow_deferred_init=True and run data through the network."
            )
        self._deferred = _Deferred(init, _contexts(ctx), default_init, None)
        if known:
            self._finish_deferred_init()

    @property
    def _deferred_init(self) -> Tuple[Any, ...]:
        return () if self._deferred is None else tuple(self._deferred)

    @_deferred_init.setter
    def _deferred_init(self, deferred: Tuple[Any, ...]) -> None:
        self._deferred = _Deferred(*deferred) if deferred else None

    def _finish_deferred_init(self) -> None:
        """Draws the value that `initialize` asked for, now that the shape is known."""
        if self._deferred is None:
            return
        if not shape_is_known(self._shape):
            raise AssertionError(
                f"Cannot initialize Parameter '{self.name}' because it has invalid shape: "
                f"{self._shape}. Please specify in_units, in_channels, etc for `Block`s."
            )
        init, contexts, default_init, data = self._deferred
        self._deferred = None
        with tape.pause():
            if data is None:
                data = ndarray.zeros(self._shape, dtype=dtype_name(self._dtype), ctx=contexts[0])
                described = initializer.InitDesc(self.name, {"__init__": init})
                initializer.create(default_init)(described, data)
            self._copy_to(data, contexts)

    def _copy_to(self, data: NDArray, contexts: Sequence[Context]) -> None:
        """Has its own copy of `data` on each context from now on."""
        self._data = {ctx: data.copyto(ctx) for ctx in contexts}
        self._grad = None
        if self._grad_req != "null":
            self._make_gradients()

    def _make_gradients(self) -> None:
        assert self._data is not None
        self._grad = {ctx: ndarray.zeros(array.shape, dtype=dtype_name(self._dtype), ctx=ctx) for ctx, array in self._data.items()}
        tape.mark_variables(list(self._data.values()), list(self._grad.values()), self._grad_req)

    # Values and gradients.

    def _find(self, arrays: Optional[Dict[Context, NDArray]], ctx: Optional[Context]) -> NDArray:
        if arrays is None:
            raise self._missing()
        if ctx is None:
            if len(arrays) == 1:
                return next(iter(arrays.values()))
            ctx = current_context()
        array = arrays.get(ctx)
        if array is None:
            raise RuntimeError(
                f"Parameter '{self.name}' was not initialized on context {ctx}. It was only initialized " f"on {list(arrays)}."
            )
        return array

    def _missing(self) -> Exception:
        if self._deferred is not None:
            return DeferredInitializationError(
                f"Parameter '{self.name}' has not been initialized yet because initialization was deferred. Actual "
                "initialization happens during the first forward pass. Please pass one batch of data through the "
                "network before accessing Parameters. You can also avoid deferred initialization by specifying "
                "in_units, num_features, etc., for network layers."
            )
        return RuntimeError(
            f"Parameter '{self.name}' has not been initialized. Note that you should initialize parameters and create "
            "Trainer with Block.collect_params() instead of Block.params because the later does not include Parameters "
            "of nested child Blocks"
        )

    def data(self, ctx: Optional[Context] = None) -> NDArray:
        """The value on `ctx` (default: on the only context, or the current one)."""
        return self._find(self._data, ctx)

    def list_data(self) -> List[NDArray]:
        """The values on all contexts."""
        if self._data is None:
            raise self._missing()
        return list(self._data.values())

    def grad(self, ctx: Optional[Context] = None) -> NDArray:
        """The gradient's buffer on `ctx`."""
        return self._find(self._gradients(), ctx)

    def list_grad(self) -> List[NDArray]:
        """The gradients' buffers on all contexts."""
        return list(self._gradients().values())

    def _gradients(self) -> Dict[Context, NDArray]:
        if self._data is None:
            raise self._missing()
        if self._grad is None:
            raise RuntimeError(f"Cannot get gradient array for Parameter '{self.name}' because grad_req='null'")
        return self._grad

    def list_ctx(self) -> List[Context]:
        """The contexts that it is, or will be, initialized on."""
        if self._data is not None:
            return list(self._data)
        if self._deferred is not None:
            return self._deferred.contexts
        raise RuntimeError(f"Parameter '{self.name}' has not been initialized")

    def row_sparse_data(self, row_id: NDArray) -> NDArray:
        """The value, all rows of it: for parameters with another `stype` than 'default', which are dense here."""
        if self._stype != "default":
            return self.data(row_id.context)
        raise RuntimeError(
            f"Cannot return a copy of Parameter {self.name} via row_sparse_data() because its storage "
            "type is default. Please use data() instead."
        )

    def list_row_sparse_data(self, row_id: NDArray) -> List[NDArray]:
        """The value on each context; see row_sparse_data."""
        if self._stype != "default":
            return self.list_data()
        raise RuntimeError(
            f"Cannot return copies of Parameter '{self.name}' on all contexts via "
            "list_row_sparse_data() because its storage type is default. Please use list_data() instead."
        )

    def set_data(self, data: NDArray) -> None:
        """Sets the value on every context; the shape, too, where that was not known."""
        self.shape = data.shape
        if self._data is None:
            if self._deferred is None:
                raise AssertionError(f"Parameter '{self.name}' has not been initialized")
            self._deferred = self._deferred._replace(data=data)
            self._finish_deferred_init()
            return
        for array in self._data.values():
            array[:] = data

    def zero_grad(self) -> None:
        """Sets the gradients to zero, as `grad_req='add'` needs between steps."""
        if self._grad is not None:
            for array in self._grad.values():
                array[:] = 0

    def reset_ctx(self, ctx: Union[Context, Sequence[Context]]) -> None:
        """Moves it to other contexts."""
        contexts = _contexts(ctx)
        if self._data is not None:
            with tape.pause():
                self._copy_to(self._reduce(), contexts)
        elif self._deferred is not None:
            self._deferred = self._deferred._replace(contexts=contexts)
        else:
            raise ValueError(f"Cannot reset context for Parameter '{self.name}' because it has not been initialized.")

    def cast(self, dtype: Any) -> None:
        """Changes value and gradient to another dtype."""
        self._dtype = dtype
        self._var = None
        count_change()
        if self._data is None:
            return
        with tape.pause():
            self._data = {ctx: array.astype(dtype_name(dtype)) for ctx, array in self._data.items()}
            if self._grad is not None:
                self._grad = {ctx: array.astype(dtype_name(dtype)) for ctx, array in self._grad.items()}
                tape.mark_variables(list(self._data.values()), list(self._grad.values()), self._grad_req)

    def var(self) -> symbol.Symbol:
        """The variable that stands for it in a graph."""
        if self._var is None:
            self._var = symbol.var(
                self.name,
                shape=self.shape,
                dtype=dtype_name(self._dtype),
                lr_mult=self.lr_mult,
                wd_mult=self.wd_mult,
                init=self.init,
            )
        return self._var

    def _reduce(self) -> NDArray:
        """The mean over the contexts, as files hold it."""
        arrays = self.list_data()
        if len(arrays) == 1:
            return arrays[0]
        home = arrays[0].context
        return ndarray.add_n(*[array.as_in_context(home) for array in arrays]) / len(arrays)

    # Loading.

    def _load_init(
        self, data: NDArray, ctx: Union[Context, Sequence[Context], None], cast_dtype: bool = False, dtype_source: str = "current"
    ) -> None:
        """Takes a saved value: checks shape and dtype, and initializes the parameter with it if it has no value."""
        if self._shape is not None:
            if len(self._shape) != len(data.shape) or any(own not in (0, -1, saved) for own, saved in zip(self._shape, data.shape)):
                raise AssertionError(
                    f"Failed loading Parameter '{self.name}' from saved params: shape incompatible "
                    f"expected {self._shape} vs saved {data.shape}"
                )
            self.shape = data.shape
        else:
            self._shape = tuple(data.shape)
        data = self._load_dtype(data, cast_dtype, dtype_source)
        contexts = None if ctx is None else _contexts(ctx)
        if self._data is None:
            if self._deferred is not None:
                if contexts is not None and set(contexts) != set(self._deferred.contexts):
                    raise AssertionError(
                        f"Failed to load Parameter '{self.name}' on {contexts} because it was previous "
                        f"initialized on {self.list_ctx()}."
                    )
                contexts = self._deferred.contexts
            self._deferred = None
            with tape.pause():
                self._copy_to(data, contexts or [current_context()])
            return
        if contexts is not None and set(contexts) != set(self.list_ctx()):
            raise AssertionError(
                f"Failed to load Parameter '{self.name}' on {contexts} because it was previous "
                f"initialized on {self.list_ctx()}."
            )
        self.set_data(data)
        self._deferred = None

    def _load_dtype(self, data: NDArray, cast_dtype: bool, dtype_source: str) -> NDArray:
        saved = np.dtype(data.dtype)
        if saved == np.dtype(self._dtype):
            return data
        if not cast_dtype:
            raise AssertionError(
                f"Failed loading Parameter '{self.name}' from saved params: dtype incompatible expected "
                f"{self._dtype} vs saved {saved.type}. Set cast_dtype=True to cast the dtype of saved "
                "params."
            )
        if dtype_source not in ("current", "saved"):
            raise AssertionError(f"dtype_source must be 'current' or 'saved', got '{dtype_source}'")
        if dtype_source == "current":
            return data.astype(dtype_name(self._dtype))
        self.cast(saved.type)
        return data


def _contexts(ctx: Union[Context, Sequence[Context], None]) -> List[Context]:
    if ctx is None:
        return [current_context()]
    return [ctx] if isinstance(ctx, Context) else list(ctx)
