"""NDArray: an array on the server, under a name that this client has given it."""

from __future__ import annotations

import copy
import itertools
from math import prod
from typing import Any, NamedTuple, Optional, Tuple, Union

import numpy as np

from .._attributes import dense_only, dtype_name, text
from .._wire import encoding
from .._wire.encoding import number_of
from .._wire.frame import frame
from ..base import MXNetError, WrongType
from ..context import Context
from . import calls, tape, transfer
from .arithmetic import Arithmetic, OfOne
from .calls import Array
from .fluent import Fluent
from .indexing import Indexing
from .numpy_protocols import NumpyProtocols
from .printing import printed
from .view import Viewing


class Kept(NamedTuple):
    """This client's knowledge of an array's values. version: the array's. values: read-only; None if they are not here.
    is_constant: the array was made of them. is_fetched: they came from the server, so no call that they depend on has
    failed. reads: how often elements were asked for."""

    version: int
    values: Optional[np.ndarray] = None
    is_constant: bool = False
    is_fetched: bool = False
    reads: int = 0


# The versions of arrays: two threads that write at once never give an array a version that it had before.
_writes = itertools.count(1)
_NOT_KEPT = Kept(-1)
_NEVER_KEPT = Kept(-2)
# Fetched values of up to so many bytes stay here. Larger arrays are fetched whole, up to a limit, once so many elements
# were read one by one that the round trips have cost as much time.
_SMALL_BYTES = 4 << 10
_BYTES_PER_READ = 16 << 10
_MOST_BYTES = 1 << 20
_COPY = OfOne("_copy")
_CASTS: dict[str, OfOne] = {}  # By the dtype's name.


class NDArray(Arithmetic, NumpyProtocols, Indexing, Fluent, Array):
    """A dense array on one device, whose values the server computes in its own time: only code that needs them waits.

    Made by `nd.array`, `nd.zeros` and the like, and by operators; not by calling the class.
    """

    __slots__ = ()
    _kept: Kept

    def __new__(cls, *args: Any, **kwargs: Any) -> "NDArray":
        if cls is NDArray:
            raise WrongType("NDArrays are made by mx.nd.array(...), zeros, ones and the like")
        return object.__new__(cls)

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
        """The number under which the server knows it."""
        return number_of(self._name)

    @property
    def writable(self) -> bool:
        """Always true."""
        return True

    @property
    def T(self) -> "NDArray":
        """The transpose; of one dimension, the array itself."""
        return self if self.ndim < 2 else self.transpose()

    # Values.

    def asnumpy(self) -> np.ndarray:
        """The values, as a numpy array of its own. Waits for them; an error of an earlier call that they depend on is
        raised here."""
        values = self._fetched()
        return self._fetch() if values is None else values.copy()

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        if copy is False:
            raise ValueError("the values of an NDArray are on the server, so numpy always gets a copy: np.asarray(x), or "
                             "x.asnumpy()")
        values = self.asnumpy()
        return values if dtype is None else values.astype(dtype, copy=False)

    def asscalar(self) -> Any:
        """The only element, as a numpy scalar. ValueError: there are several, or none."""
        value = self._only_element()
        if value is None:
            raise ValueError(f"The current array is not a scalar (its shape is {self.shape}). Take one element, x[0], reduce "
                             "it, x.mean(), or get all values with x.asnumpy()")
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
        self._session.describe(self._name)

    wait_to_write = wait_to_read

    def __bool__(self) -> bool:
        value = self._only_element()
        if value is not None:
            return bool(value)
        if self.size == 0:
            return False
        raise ValueError("The truth value of an NDArray with multiple elements is ambiguous. Use x.asnumpy().any() or "
                         ".all(), or mx.nd.where(x, ...) to choose for each element")

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
            self._session.submit(encoding.assign(out._name, self._name, other._device, frame().recording))
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
            raise ValueError(f"operands could not be broadcast together with remapped shapes[original->remapped]: "
                             f"{self.shape} and requested shape {shape}")
        source = self if own == self.shape else self.reshape(own)
        out = calls.invoke(calls.intern("broadcast_to", {"shape": text(shape)}, 1, 1), (source,))
        out._shape = shape
        return out

    def tostype(self, stype: str) -> "NDArray":
        """The array itself: gluond stores dense arrays only."""
        dense_only("tostype", stype)
        return self

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
        tape.attach(self, grad_req, Gradient)

    @property
    def grad(self) -> Union["NDArray", Any]:
        """The gradient; None without attach_grad()."""
        return self._grad

    @property
    def _fresh_grad(self) -> bool:
        """Whether backward() has written the gradient since the last Trainer step. Waits."""
        return tape.is_fresh(self)

    @_fresh_grad.setter
    def _fresh_grad(self, state: bool) -> None:
        if state:
            raise ValueError("_fresh_grad: only backward() makes a gradient fresh; False marks it as used")
        tape.clear_fresh([self])

    def detach(self) -> "NDArray":
        """The same values as a constant: gradients stop here."""
        out = calls.blank(NDArray, self._session, self._context, self._shape, self._dtype)
        self._session.submit(encoding.assign(out._name, self._name))
        return out

    def backward(self, out_grad: Optional["NDArray"] = None, retain_graph: bool = False, train_mode: bool = True) -> None:
        """Computes the gradients of this array's sum, or of sum(out_grad * x), with respect to all marked arrays."""
        tape.backward([self], [out_grad], retain_graph, train_mode)

    def _computed_here(self, gradient: Optional["NDArray"]) -> Any:
        """The recorded function of this process, unknown to the server, that computed the array and through which a
        backward pass with this gradient goes on (see Recording.starts); else None."""

    def _view(self, begin: int, shape: Tuple[int, ...]) -> "View":
        """Elements [begin, ...) in row-major order, in the given shape."""
        return View(self, begin, shape)

    def _known(self) -> Optional[np.ndarray]:
        """The values, if they are here. The caller must not write them."""
        kept = getattr(self, "_kept", _NOT_KEPT)
        return kept.values if kept.version == self._version else None

    def _fetched(self) -> Optional[np.ndarray]:
        """The values, if they are here and the server could neither return others nor report an error."""
        kept = getattr(self, "_kept", _NOT_KEPT)
        return kept.values if kept.is_fetched and kept.version == self._version and self._session.is_open else None

    def _fetch(self, most: int = _SMALL_BYTES) -> np.ndarray:
        """The values from the server. They stay known here if they have at most `most` bytes."""
        version = self._version  # A write while they are on their way counts as later.
        values = transfer.fetch(self)
        if values.nbytes <= most and type(self) is NDArray:
            kept = getattr(self, "_kept", _NOT_KEPT)
            is_constant = kept.is_constant and kept.version == version
            self._kept = Kept(version, values.copy(), is_constant, is_fetched=True)
        return values

    def _fetched_for_elements(self) -> Optional[np.ndarray]:
        """All values for a read of one element; None if that element alone should be fetched."""
        values = self._fetched()
        if values is not None or type(self) is not NDArray or self._dtype is None or not self._session.is_open:
            return values
        kept = getattr(self, "_kept", _NOT_KEPT)
        if kept.version != self._version:
            kept = Kept(self._version)
        nbytes = prod(self.shape) * self._dtype.itemsize
        if nbytes <= min(_MOST_BYTES, (kept.reads + 1) * _BYTES_PER_READ):
            self._fetch(_MOST_BYTES)
            return self._fetched()
        self._kept = kept._replace(reads=kept.reads + 1)  # type: ignore[misc]
        return None

    def _has_history(self) -> Optional[bool]:
        """Whether a gradient goes on from here: the array is marked, or depends on such arrays. None: only the server
        knows."""
        if self._grad is not None:
            return True
        kept = getattr(self, "_kept", _NOT_KEPT)
        return False if kept.is_constant and kept.version == self._version else None

    def _keep_values(self, values: np.ndarray, version: int, is_constant: bool) -> None:
        """Keeps the values of this version; nobody else writes to them. is_constant: the array was made of them."""
        if getattr(self, "_kept", _NOT_KEPT) is not _NEVER_KEPT:
            self._kept = Kept(version, values, is_constant)

    def _written_by_server(self) -> None:
        """From now on the server may write the array, unseen by this client."""
        self._kept = _NEVER_KEPT
        if type(self) is NDArray:
            self.__class__ = Gradient

    # Writes.

    def _written(self) -> None:
        """The values under this name are new."""
        self._version = next(_writes)


NDArray._results = NDArray
_own_version: Any = vars(Array)["_version"]


class Gradient(NDArray):
    """An array that backward() may write, unseen by this client: views forget its values at each backward()."""

    __slots__ = ()  # Any NDArray can become one.

    @property
    def _version(self) -> int:
        return _own_version.__get__(self) + tape.backward_count()

    @_version.setter
    def _version(self, value: int) -> None:
        _own_version.__set__(self, value - tape.backward_count())


class View(Viewing, NDArray):
    """Elements of another array, in a shape of their own."""

    __slots__ = ("_root", "_begin", "_own", "_exists", "_seen")


def restore(values: np.ndarray, context: Context) -> NDArray:
    """The NDArray that was pickled: an array of these values."""
    return transfer.put(NDArray, values, context, values.dtype)
