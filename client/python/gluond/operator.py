"""Operators written in Python: subclass CustomOp and CustomOpProp, and register the latter.

    @mx.operator.register("sigmoid")
    class SigmoidProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Sigmoid()

    y = mx.nd.Custom(x, op_type="sigmoid")                  # at once, recorded by autograd
    y = mx.sym.Custom(data=x, op_type="sigmoid")            # in a graph: hybridized Blocks, Executors

They run in this process. An imperative call runs where it stands; for its gradient, and for graphs, the server calls back
on threads of the client's own. Values stay numpy arrays where the operator computes with numpy: `in_data[0].asnumpy()` and
`self.assign(out_data[0], req[0], mx.nd.array(y))` cost no round trip.
"""

from __future__ import annotations

from ._custom.operators import (
    CustomOp,
    CustomOpProp,
    OperatorArguments,
    get_all_registered_operators,
    get_operator_arguments,
    register,
    share,
)
from .symbol._legacy import NDArrayOp, NumpyOp, PythonOp

__all__ = [
    "CustomOp",
    "CustomOpProp",
    "NDArrayOp",
    "NumpyOp",
    "OperatorArguments",
    "PythonOp",
    "get_all_registered_operators",
    "get_operator_arguments",
    "register",
    "share",
]
