"""Checks of symbols: their values, and their gradients against central differences. See test_utils."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

from . import ndarray as nd, symbol
from ._tolerances import as_numpy, assert_almost_equal, default_numeric_eps
from .context import Context, current_context

# Values by name, or in the order of the names.
Values = Union[Sequence[Any], Mapping[str, Any], None]


def simple_forward(sym: Any, ctx: Optional[Context] = None, is_train: bool = False, **inputs: np.ndarray) -> Any:
    """The outputs as numpy arrays, a lone one not in a list."""
    arrays = {name: nd.array(value, ctx=ctx) for name, value in inputs.items()}
    executor = sym.bind(ctx or current_context(), args=arrays)
    outputs = [output.asnumpy() for output in executor.forward(is_train=is_train)]
    return outputs[0] if len(outputs) == 1 else outputs


def _named(names: Sequence[str], values: Values, ctx: Context, dtype: Any) -> Dict[str, "nd.NDArray"]:
    """Arrays by name. ValueError: names and values do not fit."""
    if isinstance(values, Mapping):
        if set(values) != set(names):
            raise ValueError(
                "Symbol arguments and keys of the given location do not match. "
                f"symbol args:{list(names)}, location.keys():{list(values)}"
            )
        by_name = {name: values[name] for name in names}
    else:
        by_name = dict(zip(names, values or []))
    return {name: _array(value, ctx, dtype) for name, value in by_name.items()}


def _array(value: Any, ctx: Context, dtype: Any) -> "nd.NDArray":
    """The value as an array: numpy's as `dtype`, or as what they are where that is "asnumpy"."""
    if isinstance(value, nd.NDArray):
        return value.as_in_context(ctx)
    value = np.asarray(value)
    return nd.array(value, ctx=ctx, dtype=value.dtype if isinstance(dtype, str) and dtype == "asnumpy" else dtype)


def _auxiliaries(sym: Any, values: Values, ctx: Context, dtype: Any) -> Dict[str, "nd.NDArray"]:
    names = sym.list_auxiliary_states()
    return _named(names, values, ctx, dtype) if values is not None else {}


def check_symbolic_forward(
    sym: Any,
    location: Values,
    expected: Values,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    aux_states: Values = None,
    ctx: Optional[Context] = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> List["nd.NDArray"]:
    """AssertionError unless the outputs at `location` are the expected ones. Returns them."""
    ctx = ctx or current_context()
    arguments = _named(sym.list_arguments(), location, ctx, dtype)
    executor = sym.bind(ctx, args=arguments, args_grad=None, aux_states=_auxiliaries(sym, aux_states, ctx, dtype))
    outputs = executor.forward(is_train=False)
    for name, output, wanted in zip(sym.list_outputs(), outputs, _in_order(sym.list_outputs(), expected)):
        assert_almost_equal(wanted, output, rtol, atol, (f"EXPECTED_{name}", f"FORWARD_{name}"), equal_nan)
    return outputs


def _in_order(names: Sequence[str], values: Values) -> List[Any]:
    if isinstance(values, Mapping):
        return [values[name] for name in names]
    return list(values or [])


def check_symbolic_backward(
    sym: Any,
    location: Values,
    out_grads: Values,
    expected: Values,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    aux_states: Values = None,
    grad_req: Any = "write",
    ctx: Optional[Context] = None,
    grad_stypes: Any = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> Dict[str, "nd.NDArray"]:
    """AssertionError unless the gradients at `location` are the expected ones. Returns them.

    out_grads: dL/d(output); None: of a loss. With grad_req "add" the gradients begin at random values, which
    `expected` does not contain; with "null" they must stay as they were.
    """
    ctx = ctx or current_context()
    names = sym.list_arguments()
    arguments = _named(names, location, ctx, dtype)
    wanted = expected if isinstance(expected, Mapping) else dict(zip(names, expected or []))
    before = {name: np.random.normal(size=arguments[name].shape) for name in wanted}
    gradients = {name: nd.array(value, ctx=ctx, dtype=arguments[name].dtype) for name, value in before.items()}
    requests = _requests(names, grad_req)
    executor = sym.bind(
        ctx,
        args=arguments,
        args_grad=gradients,
        grad_req={name: requests[name] if name in gradients else "null" for name in names},
        aux_states=_auxiliaries(sym, aux_states, ctx, dtype),
    )
    executor.forward(is_train=True)
    executor.backward(
        None if out_grads is None else [_array(gradient, ctx, dtype) for gradient in _in_order(sym.list_outputs(), out_grads)]
    )
    for name, gradient in wanted.items():
        names_of_both = (f"EXPECTED_{name}", f"BACKWARD_{name}")
        target = {"write": 0, "add": before[name], "null": before[name]}[requests[name]]
        if requests[name] != "null":
            target = target + as_numpy(gradient)
        assert_almost_equal(target, executor.grad_dict[name], rtol, atol, names_of_both, equal_nan)
    return executor.grad_dict


def _requests(names: Sequence[str], grad_req: Any) -> Dict[str, str]:
    if isinstance(grad_req, str):
        return {name: grad_req for name in names}
    if isinstance(grad_req, Mapping):
        return {name: grad_req.get(name, "null") for name in names}
    return dict(zip(names, grad_req))


def numeric_grad(
    executor: Any,
    location: Mapping[str, np.ndarray],
    aux_states: Optional[Mapping[str, Any]] = None,
    eps: float = 1e-4,
    use_forward_train: bool = True,
    dtype: Any = np.float32,
) -> Dict[str, np.ndarray]:
    """d(sum of the first output) / d(each element of each argument), by central differences of width `eps`."""

    def loss(**changed: np.ndarray) -> float:
        for name, value in (aux_states or {}).items():
            executor.aux_dict[name][:] = value
        outputs = executor.forward(is_train=use_forward_train, **changed)
        return float(np.sum(outputs[0].asnumpy().astype(np.float64)))

    for name, value in location.items():
        executor.arg_dict[name][:] = value
    gradients = {}
    for name, value in location.items():
        if np.dtype(value.dtype).kind != "f":
            continue
        gradient = np.zeros(value.shape, np.float64)
        for index in np.ndindex(*value.shape):
            moved = np.array(value)
            moved[index] = value[index] + eps / 2
            above = loss(**{name: moved})
            moved[index] = value[index] - eps / 2
            gradient[index] = (above - loss(**{name: moved})) / eps
        executor.arg_dict[name][:] = value
        gradients[name] = gradient.astype(dtype)
    return gradients


def check_numeric_gradient(
    sym: Any,
    location: Values,
    aux_states: Values = None,
    numeric_eps: Optional[float] = None,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    grad_nodes: Any = None,
    use_forward_train: bool = True,
    ctx: Optional[Context] = None,
    grad_stype_dict: Any = None,
    dtype: Any = np.float32,
) -> None:
    """AssertionError unless the gradient of a random weighting of the outputs is that of central differences.

    location: where, arrays or numpy arrays. grad_nodes: names of the arguments to check, or {name: grad_req};
    by default all. numeric_eps: the step, by default the dtype's.
    """
    ctx = ctx or current_context()
    names = sym.list_arguments()
    arguments = _named(names, location, ctx, dtype)
    points = {name: value.asnumpy() for name, value in arguments.items()}
    auxiliaries = _auxiliaries(sym, aux_states, ctx, dtype)
    fixed_auxiliaries = {name: value.asnumpy() for name, value in auxiliaries.items()}
    if grad_nodes is None:
        grad_nodes = [name for name in names if points[name].dtype.kind == "f"]
    requests = dict(grad_nodes) if isinstance(grad_nodes, Mapping) else {name: "write" for name in grad_nodes}
    eps = default_numeric_eps()[np.dtype(dtype)] if numeric_eps is None else numeric_eps

    # Unequal weights: a plain sum does not see the errors of softmax's gradient.
    shapes = {name: value.shape for name, value in points.items()}
    output_shape = sym.infer_shape(**shapes)[1][0]
    weights = symbol.Variable("__random_proj")
    loss = symbol.make_loss(symbol.sum(sym * weights))
    projection = np.random.normal(0, 0.01, output_shape).astype(dtype)
    projection += np.sign(projection) * 0.1 + (projection == 0) * 0.1
    gradients = {name: nd.zeros(shapes[name], ctx=ctx, dtype=points[name].dtype) for name in requests}
    executor = loss.bind(
        ctx,
        args={**arguments, "__random_proj": nd.array(projection, ctx=ctx, dtype=dtype)},
        args_grad=gradients,
        grad_req=requests,
        aux_states=auxiliaries,
    )
    executor.forward(is_train=True)
    executor.backward()
    symbolic = {name: executor.grad_dict[name].asnumpy() for name in requests}
    varied = {name: points[name] for name, request in requests.items() if request != "null"}
    numeric = numeric_grad(executor, varied, fixed_auxiliaries, eps, use_forward_train, dtype)
    for name, request in requests.items():
        wanted = np.zeros_like(symbolic[name]) if request == "null" else numeric[name]
        assert_almost_equal(wanted, symbolic[name], rtol, atol, (f"NUMERICAL_{name}", f"BACKWARD_{name}"))


def check_consistency(
    sym: Any,
    ctx_list: Sequence[Dict[str, Any]],
    scale: float = 1.0,
    grad_req: str = "write",
    arg_params: Optional[Dict[str, Any]] = None,
    aux_params: Optional[Dict[str, Any]] = None,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    raise_on_err: bool = True,
    ground_truth: Any = None,
    equal_nan: bool = False,
    use_uniform: bool = False,
) -> Any:
    """AssertionError unless a symbol computes the same in several contexts and dtypes.

    ctx_list: for each run the context, the shapes of inputs, and dtypes:
    `{"ctx": mx.gpu(0), "data": (2, 3), "type_dict": {"data": np.float32}}`. The last one with the widest dtype is the
    truth. sym: one symbol, or one for each run. Returns the truth's arrays by name.
    """
    symbols = sym if isinstance(sym, (list, tuple)) else [sym] * len(ctx_list)
    executors = [each.simple_bind(grad_req=grad_req, **keywords) for each, keywords in zip(symbols, ctx_list)]
    truth = max(executors, key=lambda executor: np.dtype(executor.outputs[0].dtype).itemsize)
    draw: Any = np.random.uniform if use_uniform else np.random.normal
    values = {name: (arg_params or {}).get(name, draw(size=array.shape) * scale) for name, array in truth.arg_dict.items()}
    auxiliaries = {name: (aux_params or {}).get(name, np.zeros(array.shape)) for name, array in truth.aux_dict.items()}
    for executor in executors:
        for name, value in values.items():
            executor.arg_dict[name][:] = np.asarray(as_numpy(value), dtype=executor.arg_dict[name].dtype)
        for name, value in auxiliaries.items():
            executor.aux_dict[name][:] = as_numpy(value)
        executor.forward(is_train=grad_req != "null")
        if grad_req != "null":
            executor.backward(executor.outputs)
    wanted = ground_truth or {**truth.output_dict, **(truth.grad_dict if grad_req != "null" else {})}
    for number, executor in enumerate(executors):
        found = {**executor.output_dict, **(executor.grad_dict if grad_req != "null" else {})}
        for name, value in found.items():
            if value is None or wanted.get(name) is None:
                continue
            try:
                assert_almost_equal(value, wanted[name], rtol, atol, (f"ctx {number} {name}", "truth"), equal_nan)
            except AssertionError:
                if raise_on_err:
                    raise
    return wanted


def check_speed(
    sym: Any,
    location: Optional[Mapping[str, np.ndarray]] = None,
    ctx: Optional[Context] = None,
    N: int = 20,
    grad_req: str = "write",
    typ: str = "whole",
    **kwargs: Any,
) -> float:  # noqa: N803
    """Seconds per run, of `N`: forward and backward ("whole") or forward alone ("forward")."""
    if typ not in ("whole", "forward"):
        raise ValueError('typ can only be "whole" or "forward".')
    if location is not None:
        kwargs = {name: value.shape for name, value in location.items()}
    executor = sym.simple_bind(ctx or current_context(), grad_req=grad_req if typ == "whole" else "null", **kwargs)
    for name, array in executor.arg_dict.items():
        array[:] = np.random.normal(size=array.shape) if location is None else location[name]

    def run() -> None:
        executor.forward(is_train=typ == "whole")
        if typ == "whole":
            executor.backward(executor.outputs)

    run()
    nd.waitall()
    begin = time.perf_counter()
    for _ in range(N):
        run()
    nd.waitall()
    return (time.perf_counter() - begin) / N
