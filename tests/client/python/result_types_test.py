"""The shape and dtype that an NDArray tells without asking are those that the server gives it, for every operator."""

import itertools

import numpy as np
from gluond import _operators, nd
from gluond._wire.tensors import DTYPE_OF
from gluond.base import MXNetError
from tests import case_runner
from tests.client.python.array_case import ArrayCase

SHAPES = ((2, 3), (2, 3, 4, 4), (4,))
DTYPES = ("float32", "float16", "float64", "int32", "bool")
# Values of parameters that decide, or are required; an operator takes those that it has.
VALUES = {
    "dtype": ("float32", "float64", "int32"),
    "axis": (0,),
    "output_mean_var": (True,),
    "ret_typ": ("both", "value", "mask"),
    "num_outputs": (1, 2),
    "use_sequence_length": (False,),
    "scalar": (2.5,),
    "shape": ((2, 3),),
    "depth": (4,),
    "act_type": ("relu", "tanh"),
    "num_hidden": (3,),
    "no_bias": (True,),
    "is_int": (True, False),
    "a_min": (0,),
    "a_max": (1,),
}


def forms(info):
    """Keywords of calls: the required ones, and then each value of what decides."""
    required = {name: VALUES[name][0] for name, each in info.parameters.items() if each.required and name in VALUES}
    yield required
    for name, values in VALUES.items():
        if name in info.parameters and (info.parameters[name].decides or name == "dtype"):
            for value in values:
                yield {**required, name: value}


class ResultTypesTest(ArrayCase):
    def told(self, out):
        """What the array says by itself; None for what it would ask."""
        return out._shape, out._dtype

    def given(self, out):
        """What the server says; None where the call was refused."""
        try:
            kind = out._session.describe(out._name)
        except MXNetError:
            return None
        return tuple(kind.shape), DTYPE_OF[kind.dtype]

    def test_every_operator(self):
        seen, wrong = set(), []
        for name in sorted(set(info.name for info in _operators.operators().values())):
            info = _operators.find(name)
            if name.startswith("_backward") or info.several or not info.inputs or name in ("Custom", "_CustomFunction"):
                continue
            if any(each.required and each.name not in VALUES for each in info.parameters.values()):
                continue
            function = getattr(nd._internal, name, None) or getattr(nd, name)
            for keywords, shape, dtype in itertools.product(forms(info), SHAPES, DTYPES):
                try:
                    count = len(info.call_type({key: str(value) for key, value in keywords.items()}, len(info.inputs)).inputs)
                except MXNetError:  # It has no such value.
                    continue
                outs = function(*[nd.ones(shape, dtype=dtype) for _ in range(count)], **keywords)
                for out in outs if isinstance(outs, list) else [outs]:
                    told, given = self.told(out), self.given(out)
                    if given is None:
                        continue
                    seen.update([name] if None not in told else [])
                    if any(says not in (None, has) for says, has in zip(told, given)):
                        wrong.append(f"{name}({keywords}) of {shape} {dtype}: told {told}, is {given}")
        self.assertEqual(wrong, [])
        wanted = {"softmax", "log_softmax", "Cast", "Dropout", "relu", "broadcast_add", "_plus_scalar", "reverse", "clip"}
        self.assertEqual(wanted - seen, set())

    def test_of_python_s_operators(self):
        for dtype in DTYPES:
            x = nd.ones((2, 3), dtype=dtype)
            y = nd.ones((4, 1, 3), dtype=dtype)
            for out in (x + y, x * 2, 2.5 - x, x == y, x > 1, -x, abs(x), x.copy(), x.astype("float16"), x**2, x % y):
                told, given = self.told(out), self.given(out)
                if given is not None:
                    self.assertEqual(told, given, dtype)

    def test_softmax_of_a_dtype_is_of_that_dtype(self):
        x = nd.ones((200, 300))
        for function in (nd.softmax, nd.log_softmax, nd.softmin):
            y = function(x, dtype="float64")
            self.assertIs(y.dtype, np.float64)
            self.assertEqual(y.asnumpy().dtype, np.float64)
            y[0, 0] = nd.array([5.0])
            self.assertEqual(y[0, 0].asscalar(), 5)
            y[:] = x
            self.assertIs(y.dtype, np.float64)


if __name__ == "__main__":
    case_runner.main()
