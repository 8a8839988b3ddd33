"""Functions for tests of networks and operators: comparisons with a dtype's tolerances, random arrays, gradient checks.

    assert_almost_equal(y, expected)                       # arrays or numpy arrays
    check_numeric_gradient(mx.sym.sigmoid(x), [location])  # against central differences
    check_symbolic_forward(symbol, inputs, expected_outputs)
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import zipfile
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Type

import numpy as np

from . import context as _context, ndarray as nd
from ._attributes import dense_only
from ._distribution_checks import chi_square_check, gen_buckets_probs_with_ppf, mean_check, var_check, verify_generator
from ._symbol_checks import (
    check_consistency,
    check_numeric_gradient,
    check_speed,
    check_symbolic_backward,
    check_symbolic_forward,
    numeric_grad,
    simple_forward,
)
from ._test_matrices import (
    new_matrix_with_real_eigvals_2d,
    new_matrix_with_real_eigvals_nd,
    new_orthonormal_matrix_2d,
    new_sym_matrix_with_real_eigvals_2d,
    new_sym_matrix_with_real_eigvals_nd,
    rand_coord_2d,
    random_sample,
    random_uniform_arrays,
)
from ._tolerances import (
    almost_equal,
    assert_allclose,
    assert_almost_equal,
    assert_almost_equal_ignore_nan,
    assert_almost_equal_with_err,
    default_atols,
    default_numeric_eps,
    default_rtols,
    effective_dtype,
    get_atol,
    get_etol,
    get_rtol,
    get_tolerance,
    get_tols,
    same,
)
from ._wire.frame import change
from .gluon import utils
from .gluon.data.vision.datasets import MNIST, find_idx
from .io._batches import DataIter
from .io._files import MNISTIter
from .symbol._graph import walk

__all__ = [
    "DummyIter",
    "almost_equal",
    "assert_allclose",
    "assert_almost_equal",
    "assert_almost_equal_ignore_nan",
    "assert_almost_equal_with_err",
    "assert_exception",
    "assign_each",
    "assign_each2",
    "check_consistency",
    "check_numeric_gradient",
    "check_speed",
    "check_symbolic_backward",
    "check_symbolic_forward",
    "chi_square_check",
    "discard_stderr",
    "effective_dtype",
    "get_tolerance",
    "get_tols",
    "is_aarch64_run",
    "is_cd_run",
    "is_op_runnable",
    "new_matrix_with_real_eigvals_2d",
    "new_matrix_with_real_eigvals_nd",
    "new_orthonormal_matrix_2d",
    "new_sym_matrix_with_real_eigvals_2d",
    "new_sym_matrix_with_real_eigvals_nd",
    "rand_coord_2d",
    "random_sample",
    "random_uniform_arrays",
    "setenv",
    "getenv",
    "collapse_sum_like",
    "compare_ndarray_tuple",
    "compare_optimizer",
    "create_2d_tensor",
    "create_vector",
    "default_atols",
    "default_context",
    "default_dtype",
    "default_numeric_eps",
    "default_rtols",
    "download",
    "environment",
    "gen_buckets_probs_with_ppf",
    "get_atol",
    "get_etol",
    "get_mnist",
    "get_mnist_iterator",
    "get_mnist_ubyte",
    "get_rtol",
    "list_gpus",
    "mean_check",
    "np_reduce",
    "numeric_grad",
    "rand_ndarray",
    "rand_shape_2d",
    "rand_shape_3d",
    "rand_shape_nd",
    "random_arrays",
    "retry",
    "same",
    "same_array",
    "same_symbol_structure",
    "set_default_context",
    "simple_forward",
    "var_check",
    "verify_generator",
]


def default_context() -> _context.Context:
    """Where tests compute: the current context."""
    return _context.current_context()


def set_default_context(ctx: _context.Context) -> None:
    """Makes `ctx` the default context of this thread, or coroutine."""
    change(context=ctx)


def default_dtype() -> type:
    """The default dtype of arrays: float32."""
    return np.float32


def list_gpus() -> range:
    """The numbers of the server's GPUs."""
    return range(_context.num_gpus())


def download(
    url: str, fname: Optional[str] = None, dirname: Optional[str] = None, overwrite: bool = False, retries: int = 5
) -> str:
    """The local file for `url`; see gluon.utils.download, which fetches nothing."""
    path = fname or url.split("/")[-1]
    return utils.download(url, path if dirname is None else os.path.join(dirname, path), overwrite)


def get_mnist(path: str = "data") -> Dict[str, np.ndarray]:
    """MNIST of the four files in a folder: train_data and test_data (N, 1, 28, 28), 0 to 1; train_label, test_label (N,)."""
    found: Dict[str, np.ndarray] = {}
    for part, train in (("train", True), ("test", False)):
        digits = MNIST(path, train)
        found[f"{part}_data"] = digits._data.reshape(-1, 1, 28, 28).astype(np.float32) / 255
        found[f"{part}_label"] = digits._label
    return found


_MNIST_FILES = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))


def get_mnist_ubyte() -> None:
    """Has MNIST's four files in the folder data, packed or not, or unpacks them from its mnist.zip; see `download`."""
    if not all(find_idx(["data"], name) for name in _MNIST_FILES):
        with zipfile.ZipFile(download("http://data.mxnet.io/mxnet/data/mnist.zip", dirname="data")) as packed:
            packed.extractall("data")


def get_mnist_iterator(
    batch_size: int, input_shape: Tuple[int, ...], num_parts: int = 1, part_index: int = 0
) -> Tuple[MNISTIter, MNISTIter]:
    """Iterators to train and to validate over MNIST in the folder data, shuffled; flat unless the shape has 3 dimensions."""
    get_mnist_ubyte()
    files = [find_idx(["data"], name) or "" for name in _MNIST_FILES]
    train, validation = (
        MNISTIter(
            image=files[i],
            label=files[i + 1],
            batch_size=batch_size,
            flat=len(input_shape) != 3,
            num_parts=num_parts,
            part_index=part_index,
        )
        for i in (0, 2)
    )
    return train, validation


class DummyIter(DataIter):
    """Gives the first batch of another iterator again and again, to measure how fast it is used."""

    def __init__(self, real_iter: Any) -> None:
        super().__init__(real_iter.batch_size)
        self.real_iter = real_iter
        self.provide_data, self.provide_label = real_iter.provide_data, real_iter.provide_label
        self.the_batch = next(real_iter)

    def next(self) -> Any:
        """That batch."""
        return self.the_batch


def random_arrays(*shapes: Tuple[int, ...]) -> Any:
    """One float32 numpy array of standard normal numbers for each shape; a lone one not in a list."""
    arrays = [np.random.randn(*shape).astype(np.float32) if shape else np.array(np.random.randn(), np.float32) for shape in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def rand_ndarray(
    shape: Tuple[int, ...],
    stype: str = "default",
    density: Optional[float] = None,
    dtype: Any = None,
    modifier_func: Any = None,
    shuffle_csr_indices: bool = False,
    distribution: Optional[str] = None,
    ctx: Optional[_context.Context] = None,
) -> "nd.NDArray":
    """An array of that shape with numbers from -1 to 1.

    For "csr", the dense array of a sparse one: numbers from 0 to 1, changed by `modifier_func`, in a share of `density` of the
    elements, by default a random one. A "row_sparse" array has all rows: it stands for a gradient, and a dense one leaves none out.
    """
    dense_only("rand_ndarray", stype)
    if stype != "csr":
        return nd.array(np.random.uniform(-1, 1, shape), dtype=dtype or np.float32, ctx=ctx)
    values = np.random.rand(*shape)
    if modifier_func is not None:
        values = np.vectorize(modifier_func)(values)
    values *= np.random.rand(*shape) < (np.random.rand() if density is None else density)
    return nd.array(values, dtype=dtype or np.float32, ctx=ctx)


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> Tuple[int, int]:
    """A shape of two random dimensions, up to the given ones."""
    return _rand_shape((dim0, dim1), allow_zero_size)  # type: ignore[return-value]


def rand_shape_3d(dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False) -> Tuple[int, ...]:
    """A shape of three random dimensions, up to the given ones."""
    return _rand_shape((dim0, dim1, dim2), allow_zero_size)


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> Tuple[int, ...]:
    """A shape of `num_dim` random dimensions, up to `dim`."""
    return _rand_shape((dim,) * num_dim, allow_zero_size)


def _rand_shape(largest: Sequence[int], allow_zero_size: bool) -> Tuple[int, ...]:
    return tuple(int(np.random.randint(0 if allow_zero_size else 1, size + 1)) for size in largest)


def np_reduce(dat: np.ndarray, axis: Any, keepdims: bool, numpy_reduce_func: Callable[..., Any]) -> np.ndarray:
    """A numpy reduction over several axes, with MXNet's meaning of `axis` and `keepdims`."""
    axes = range(dat.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    result = dat
    for dimension in sorted((a % dat.ndim for a in axes), reverse=True):
        result = numpy_reduce_func(result, axis=dimension)
        if keepdims:
            result = np.expand_dims(result, dimension)
    return np.asarray(result)


def assert_exception(f: Callable[..., Any], exception_type: Type[BaseException], *args: Any, **kwargs: Any) -> None:
    """AssertionError unless f(*args, **kwargs), or a call to the server that it makes, raises that exception."""
    try:
        f(*args, **kwargs)
        nd.waitall()
    except exception_type:
        return
    raise AssertionError(f"did not raise {exception_type.__name__}")


def retry(n: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that tries a test of random values up to n times before its AssertionError counts."""
    assert n > 0

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def tried(*args: Any, **kwargs: Any) -> None:
            for attempt in range(n):
                try:
                    return test(*args, **kwargs)
                except AssertionError:
                    if attempt == n - 1:
                        raise

        return tried

    return decorate


@contextlib.contextmanager
def environment(*args: Any) -> Iterator[None]:
    """Sets environment variables inside: `environment("NAME", "value")` or `environment({...})`; None unsets one."""
    wanted: Dict[str, Optional[str]] = {args[0]: args[1]} if len(args) == 2 else args[0]
    before = {key: os.environ.get(key) for key in wanted}
    try:
        _set_environment(wanted)
        yield
    finally:
        _set_environment(before)


def _set_environment(values: Dict[str, Optional[str]]) -> None:
    for key, value in values.items():
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value


def setenv(name: str, value: Optional[str]) -> None:
    """Sets an environment variable, or unsets it (None)."""
    _set_environment({name: value})


def getenv(name: str) -> Optional[str]:
    """An environment variable's value, or None."""
    return os.environ.get(name)


def is_cd_run() -> bool:
    """Whether MXNet's continuous delivery runs the test."""
    return os.environ.get("CD_JOB") == "1"


def is_aarch64_run() -> bool:
    """Whether this machine has an ARM processor."""
    return platform.machine() == "aarch64"


def is_op_runnable() -> bool:
    """True: MXNet asks whether its TVM operators suit the GPU."""
    return True


@contextlib.contextmanager
def discard_stderr() -> Iterator[None]:
    """Lines that are written to the standard error inside are lost, other libraries' lines too."""
    before = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def same_array(array1: "nd.NDArray", array2: "nd.NDArray") -> bool:
    """Whether a change of one array is seen in the other. Both keep their values."""
    array1[:] += 1
    shared = same(array1.asnumpy(), array2.asnumpy())
    array1[:] -= 1
    return shared and same(array1.asnumpy(), array2.asnumpy())


def same_symbol_structure(sym1: Any, sym2: Any) -> bool:
    """Whether two symbols are the same operators in the same order, whatever their names."""

    def structure(symbol: Any) -> List[Any]:
        order = walk(symbol._entries)
        places = {node: number for number, node in enumerate(order)}
        return [(node.op, [(places[entry.node], entry.output) for entry in node.inputs]) for node in order]

    return structure(sym1) == structure(sym2)


def collapse_sum_like(a: np.ndarray, shape: Tuple[int, ...]) -> np.ndarray:
    """The sum of `a` over the axes along which an array of that shape would be broadcast to it."""
    lacking = a.ndim - len(shape)
    axes = [*range(lacking), *(i + lacking for i, size in enumerate(shape) if size != a.shape[i + lacking])]
    assert all(shape[axis - lacking] == 1 for axis in axes[lacking:]), f"{shape} does not broadcast to {a.shape}"
    return np.sum(a, axis=tuple(axes)).reshape(shape)


def assign_each(the_input: np.ndarray, function: Optional[Callable[[Any], Any]]) -> np.ndarray:
    """function(x) of each element, as float64; a copy without a function."""
    if function is None:
        return np.array(the_input)
    return np.array([function(x) for x in the_input.reshape(-1)], np.float64).reshape(the_input.shape)


def assign_each2(input1: np.ndarray, input2: np.ndarray, function: Optional[Callable[[Any, Any], Any]]) -> np.ndarray:
    """function(x, y) of each pair of elements, as float64; a copy of the first without a function."""
    if function is None:
        return np.array(input1)
    assert input1.shape == input2.shape
    pairs = zip(input1.reshape(-1), input2.reshape(-1))
    return np.array([function(x, y) for x, y in pairs], np.float64).reshape(input1.shape)


def create_vector(size: int, dtype: Any = np.int64) -> "nd.NDArray":
    """0, 1, ..., size - 1."""
    return nd.arange(0, size, dtype=dtype)


def create_2d_tensor(rows: int, columns: int, dtype: Any = np.int64) -> "nd.NDArray":
    """Each row holds its number."""
    return nd.broadcast_to(create_vector(rows, dtype).reshape((rows, 1)), shape=(rows, columns))


def compare_ndarray_tuple(t1: Any, t2: Any, rtol: Optional[float] = None, atol: Optional[float] = None) -> None:
    """assert_almost_equal for arrays in nested tuples, such as optimizers' states; None equals everything."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, (list, tuple)):
        for one, other in zip(t1, t2):
            compare_ndarray_tuple(one, other, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


def compare_optimizer(
    opt1: Any,
    opt2: Any,
    shape: Any,
    dtype: Any,
    w_stype: str = "default",
    g_stype: str = "default",
    rtol: float = 1e-4,
    atol: float = 1e-5,
    compare_states: bool = True,
    ntensors: int = 1,
) -> None:
    """AssertionError unless two optimizers make the same step of random weights. shape: one, or a list of them."""
    for index, each in enumerate(shape if isinstance(shape, list) else [shape]):
        weight, grad = (rand_ndarray(each, stype, dtype=dtype) for stype in (w_stype, g_stype))
        weights, states = [weight, weight.copy()], []
        for optimizer, own in zip((opt1, opt2), weights):
            states.append(optimizer.create_state_multi_precision(index, own))
            optimizer.update_multi_precision(index, own, grad.copy(), states[-1])
        if compare_states:
            compare_ndarray_tuple(states[0], states[1], rtol, atol)
        assert_almost_equal(weights[0], weights[1], rtol=rtol, atol=atol)
