"""NDArray: an array on the server, under a name that this client has given it."""

from __future__ import annotations

import copy
from math import prod
from typing import Any, Optional, Tuple, Union

import numpy as np

from .._attributes import dense_only, dtype_name, text
from .._wire import encoding
from .._wire.encoding import number_of
from .._wire.frame import frame
from ..base import WrongType
from ..context import Context
from . import calls, tape, transfer
from .arithmetic import Arithmetic, OfOne
from .calls import Array
from .fluent import Fluent
from .indexing import Indexing
from .numpy_protocols import NumpyProtocols
from .printing import printed
from .here import Absent
from .part import view
from .where import MOST_BYTES, UNSEEN


_COPY = OfOne("_copy")
_CASTS: dict[str, OfOne] = {}  # By the dtype's name.


class NDArray(Arithmetic, NumpyProtocols, Indexing, Fluent, Array):
    """A dense array on one device, whose values the server computes in its own time: only code that needs them waits. `_where`
    is the place where they are.

    Made by `nd.array`, `nd.zeros` and the like, and by operators; not by calling the class.
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> "NDArray":
        raise WrongType("NDArrays are made by mx.nd.array(...), zeros, ones and the like")

    # Properties.

    @property
    def shape(self) -> Tuple[int, ...]:
        """Dimensions. Where only the server knows them, this waits for it, once."""
        if self._shape is None:
            self._describe()
        shape: Any = self._shape
        return shape

    @property
    def dtype(self) -> Any:
        """The type of the elements, as numpy's class: `numpy.float32`."""
        if self._dtype is None:
            self._describe()
        dtype: Any = self._dtype
        return dtype.type if dtype.names is None else dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def context(self) -> Context:
        """The device that it lives on."""
        return self._context

    ctx = context

    @property
    def stype(self) -> str:
        """Storage type: always `default`, dense."""
        return "default"

    @property
    def handle(self) -> int:
        """The number under which the server knows it. Values that are here only are sent to it."""
        return number_of(self._sent())

    @property
    def writable(self) -> bool:
        """False for arrays that a custom operator reads."""
        writable: bool = self._where.writable
        return writable

    @property
    def T(self) -> "NDArray":
        """The transpose; of one dimension, the array itself."""
        return self if self.ndim < 2 else self.transpose()

    # Values.

    def asnumpy(self) -> np.ndarray:
        """The values, as a numpy array of its own. Waits for them; an error of an earlier call that they depend on is
        raised here."""
        values = self._where.ready(self)
        return self._fetch(self._where.most_kept) if values is None else values.copy()

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        if copy is False:
            raise ValueError(
                "the values of an NDArray are on the server, so numpy always gets a copy: np.asarray(x), or " "x.asnumpy()"
            )
        values = self.asnumpy()
        return values if dtype is None else values.astype(dtype, copy=False)

    def asscalar(self) -> Any:
        """The only element, as a numpy scalar. ValueError: there are several, or none."""
        value = self._only_element()
        if value is None:
            raise ValueError(
                f"The current array is not a scalar (its shape is {self.shape}). Take one element, x[0], reduce "
                "it, x.mean(), or get all values with x.asnumpy()"
            )
        return value

    item = asscalar

    def _only_element(self) -> Any:
        """None: there are several, or none. Asks for a shape that only the server knows together with the value."""
        if self._shape is not None and prod(self._shape) != 1:
            return None
        values = self.asnumpy()
        return values.reshape(())[()] if values.size == 1 else None

    def wait_to_read(self) -> None:
        """Waits until the values are there; raises the error of a call that they depend on."""
        if self._where.here is None:
            self._session.describe(self._sent())

    wait_to_write = wait_to_read

    def __bool__(self) -> bool:
        value = self._only_element()
        if value is not None:
            return bool(value)
        if self.size == 0:
            return False
        raise ValueError(
            "The truth value of an NDArray with multiple elements is ambiguous. Use x.asnumpy().any() or "
            ".all(), or mx.nd.where(x, ...) to choose for each element"
        )

    __nonzero__ = __bool__

    def __float__(self) -> float:
        return float(self._only("float"))

    def __int__(self) -> int:
        return int(self._only("int"))

    def _only(self, kind: str) -> Any:
        value = self._only_element()
        if value is None:
            raise TypeError(f"{kind}() takes an NDArray of one element, not one of shape {self.shape}")
        return value

    def __index__(self) -> int:
        value = self.asscalar()
        if not isinstance(value, np.integer):
            raise TypeError(f"only NDArrays of an integer type can be an index, not of {self.dtype.__name__}")
        return int(value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __repr__(self) -> str:
        if isinstance(self._where, Absent):
            return f"<NDArray that is not here: {self._where.why}>"
        shape = "x".join(str(size) for size in self.shape)
        return f"\n{printed(self)}\n<NDArray {shape} @{self.context}>"

    __str__ = __repr__

    def __reduce__(self) -> tuple:
        return restore, (self.asnumpy(), self.context), None if self._grad is None else (self._grad, self._grad_req)

    def __setstate__(self, state: Tuple["NDArray", str]) -> None:
        tape.mark_variables(self, *state)

    def __copy__(self) -> "NDArray":
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: Any) -> "NDArray":
        """A copy trains as this array does: it has a gradient of its own. While recording it is a computation, like copy()."""
        copied = self.copy()
        if self._grad is not None and not frame().recording:
            copied.__setstate__((copy.deepcopy(self._grad, memo), self._grad_req))
        return copied

    # Copies and forms.

    def copy(self) -> "NDArray":
        """The same values on the same device, in an array of its own."""
        return _COPY(self)

    def copyto(self, other: Union["NDArray", Context]) -> "NDArray":
        """Copies the values into another array of this shape (their dtype becomes its), or to a new one on a device."""
        if isinstance(other, Context):
            out = calls.blank(NDArray, self._session, other, self._shape, self._dtype)
            self._session.submit(encoding.assign(out._name, self._sent(), other._device, frame().recording))
            return out
        if other is self:
            return other
        transfer.overwrite(other, self)
        return other

    def as_in_context(self, context: Context) -> "NDArray":
        """The array itself if it lives there, else a copy there."""
        return self if context == self._context else self.copyto(context)

    as_in_ctx = as_in_context

    def astype(self, dtype: Any, copy: bool = True) -> "NDArray":
        """The values in another dtype. copy=False: the array itself where that is its dtype already."""
        name = dtype_name(dtype)
        if not copy and name == dtype_name(self.dtype):
            return self
        cast = _CASTS.get(name)
        if cast is None:
            cast = _CASTS[name] = OfOne("Cast", dtype=name)
        return cast(self)

    def reshape(self, *shape: Any, **kwargs: Any) -> "NDArray":
        """The same elements in another shape; a view: a write to it is a write to this array.

        shape: sizes; -1 is what remains, 0 keeps this array's size there, -2 all further ones, -3 the product of two, -4
            splits one in two that follow. reverse: match the sizes from the right.
        """
        return self._reshape(*shape, **kwargs)

    def expand_dims(self, axis: int, inplace: bool = False) -> "NDArray":
        """With a dimension of size 1 before `axis`. inplace: a view."""
        if inplace:
            place = axis if axis >= 0 else axis + self.ndim + 1
            return self._view(0, self.shape[:place] + (1,) + self.shape[place:])
        return calls.invoke(calls.intern("expand_dims", {"axis": str(axis)}, 1, 1), (self,))

    def flatten(self, inplace: bool = False) -> "NDArray":
        """In two dimensions: the first, and all others together. inplace: a view."""
        if inplace:
            return self._view(0, (self.shape[0], prod(self.shape[1:])))
        return calls.invoke(calls.intern("Flatten", {}, 1, 1), (self,))

    def squeeze(self, axis: Any = None, inplace: bool = False) -> "NDArray":
        """Without dimensions of size 1: all, or those of `axis`. inplace: a view."""
        if inplace:
            axes = range(self.ndim) if axis is None else np.atleast_1d(axis) % self.ndim
            return self._view(0, tuple(n for place, n in enumerate(self.shape) if n != 1 or place not in axes) or (1,))
        return calls.invoke(calls.intern("squeeze", {"axis": text(axis)}, 1, 1), (self,))

    def broadcast_to(self, shape: Any) -> "NDArray":
        """Repeated along dimensions of size 1 (or new ones in front) until it has this shape."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        own = (1,) * (len(shape) - self.ndim) + self.shape
        if len(own) != len(shape) or any(a not in (1, b) for a, b in zip(own, shape)):
            raise ValueError(
                f"operands could not be broadcast together with remapped shapes[original->remapped]: "
                f"{self.shape} and requested shape {shape}"
            )
        source = self if own == self.shape else self.reshape(own)
        out = calls.invoke(calls.intern("broadcast_to", {"shape": text(shape)}, 1, 1), (source,))
        out._shape = shape
        return out

    def tostype(self, stype: str) -> "NDArray":
        """A copy: gluond stores dense arrays only."""
        dense_only("tostype", stype)
        return self.copy()

    def as_nd_ndarray(self) -> "NDArray":
        """The array itself."""
        return self

    # Gradients.

    def attach_grad(self, grad_req: str = "write", stype: Optional[str] = None) -> None:
        """Asks that backward() computes this array's gradient, into `grad`, which begins as zeros. Cuts the array off
        the computation that it comes from.

        grad_req: `write`, `add` (to what is there), or `null` (nothing).
        """
        dense_only("attach_grad", stype)
        tape.attach(self, grad_req)

    @property
    def grad(self) -> Union["NDArray", Any]:
        """The gradient; None without attach_grad()."""
        return self._grad

    @property
    def _fresh_grad(self) -> bool:
        """Whether backward() has written the gradient since the last Trainer step. Waits."""
        return tape.are_fresh([self])[0]

    @_fresh_grad.setter
    def _fresh_grad(self, state: bool) -> None:
        if state:
            raise ValueError("_fresh_grad: only backward() makes a gradient fresh; False marks it as used")
        tape.clear_fresh([self])

    def detach(self) -> "NDArray":
        """The same values as a constant: gradients stop here."""
        out = calls.blank(NDArray, self._session, self._context, self._shape, self._dtype)
        self._session.submit(encoding.assign(out._name, self._sent()))
        return out

    def backward(self, out_grad: Optional["NDArray"] = None, retain_graph: bool = False, train_mode: bool = True) -> None:
        """Computes the gradients of this array's sum, or of sum(out_grad * x), with respect to all marked arrays."""
        tape.backward([self], [out_grad], retain_graph, train_mode)

    _view = view

    def _fetch(self, most: int) -> np.ndarray:
        """The values from the server. They stay known here if they have at most `most` bytes."""
        version = self._where.version(self)  # A write while they are on their way counts as later.
        values = transfer.fetch(self)
        if values.nbytes <= most:
            self._where.keep(self, values.copy(), version)
        return values

    def _values_for_elements(self) -> Optional[np.ndarray]:
        """All values for a read of one element; None if that element alone should be fetched."""
        values: Optional[np.ndarray] = self._where.ready(self)
        if values is None and self._where.wants_all(self):
            self._fetch(MOST_BYTES)
            values = self._where.ready(self)
        return values

    def _known(self) -> Any:
        """The values, if they are here. The caller must not write them."""
        return self._where.known(self)

    def _has_history(self) -> Optional[bool]:
        """Whether a gradient goes on from here: the array is marked, or depends on such arrays. None: only the server
        knows."""
        return True if self._grad is not None else self._where.has_history(self)

    def _written_by_server(self) -> None:
        """From now on the server may write the array, unseen by this client."""
        self._where.forget(self)
        self._version = UNSEEN


def restore(values: np.ndarray, context: Context) -> NDArray:
    """The NDArray that was pickled: an array of these values."""
    return transfer.put(NDArray, values, context, values.dtype)
