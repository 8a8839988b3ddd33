"""The cases `chain` and `custom` of cpp_bench.cc with Python's client, at GLUOND_ADDRESS. usage: cpp_peer.py STEPS"""

import sys
import time

import gluond as mx
from gluond import autograd, nd


class Same(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0])


@mx.operator.register("bench_same_python")
class SameProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Same()


def chain(calls):
    """Processor time of the client, of one operator in a chain."""
    begin = time.process_time()
    x = nd.ones((2, 2))
    for _ in range(calls):
        x = x + 1
    x.wait_to_read()
    return (time.process_time() - begin) / calls


def custom(steps):
    """A custom operator of one number, forward and backward."""
    x = nd.ones((1,))
    x.attach_grad()
    begin = time.perf_counter()
    for _ in range(steps):
        with autograd.record():
            y = nd.Custom(x, op_type="bench_same_python")
        y.backward()
        x.grad.wait_to_read()
    return (time.perf_counter() - begin) / steps


def main(steps):
    for line in sys.stdin:
        measured = chain(100 * steps) if line.strip() == "chain" else custom(steps)
        print("%.4f" % (1e6 * measured), flush=True)


if __name__ == "__main__":
    main(max(1, int(sys.argv[1])))
