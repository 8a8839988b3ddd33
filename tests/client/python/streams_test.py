"""The two kinds of streams: the native module's, and grpcio's, which stands in for it."""

import os
import subprocess
import sys
import unittest

from tests import case_runner

PROGRAM = """
import os, sys
import numpy as np
import gluond as mx
from gluond import autograd, nd
from gluond._custom import hosts
from gluond._wire import connect

class Twice(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * 2)

@mx.operator.register("twice")
class TwiceProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Twice()

def computes():
    x = nd.ones((2,))
    for _ in range(1000):
        x = x + 1
    large = np.arange(3 << 20, dtype=np.float32)
    executor = mx.sym.Custom(mx.sym.Variable("x"), op_type="twice").bind(mx.cpu(), [x])
    return (x.asnumpy().tolist() == [1001, 1001] and np.array_equal(nd.array(large).asnumpy(), large)
            and executor.forward()[0].asnumpy().tolist() == [2002, 2002])

def kinds():
    session = connect.current()
    return {type(wire._stream).__name__ for wire in (session._pipeline._wire, hosts.of(session)._wire)}

assert computes()
print(*kinds(), flush=True)
child = os.fork()
if not child:
    right = computes()
    print(*kinds(), flush=True)
    os._exit(not right)
assert os.waitpid(child, 0)[1] == 0
assert computes()
print(*kinds())
"""


def run(**variables):
    environment = {name: value for name, value in os.environ.items() if name != "GLUOND_STREAM"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**environment, "PYTHONPATH": ":".join(sys.path), **variables},
    )


class StreamsTest(unittest.TestCase):
    def test_the_native_module_serves_and_a_forked_child_does_without(self):
        result = run()
        self.assertEqual(
            (result.returncode, result.stdout.split()), (0, ["NativeStream", "PublicStream", "NativeStream"]), result.stderr
        )

    def test_without_it_grpcio_serves(self):
        result = run(GLUOND_STREAM="grpcio")
        self.assertEqual((result.returncode, result.stdout.split()), (0, ["PublicStream"] * 3), result.stderr)

    def test_a_module_that_is_named_must_be_there(self):
        result = run(GLUOND_STREAM="/no/such/module.so")
        self.assertEqual(result.returncode, 1)
        self.assertIn("GLUOND_STREAM=/no/such/module.so cannot be loaded", result.stderr)


if __name__ == "__main__":
    case_runner.main()
