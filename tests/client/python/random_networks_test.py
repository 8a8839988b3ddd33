"""Networks that nobody has thought of: in float32 as in float64, published as its model, and a row alone as in company.

float32 and float64 go through other kernels, and a published network through passes and layouts that training has not.
"""

import contextlib
import os
import unittest

import gluond as mx
import numpy as np
from tests import case_runner
from tests.client.python import random_networks
from tests.server import running_server

_ROWS = (1, 3, 8, 16)


def computed(network, values, heads, dtype):
    """The outputs in inference and in training, all gradients and the auxiliary states, by name."""
    executor = network.symbol.simple_bind(mx.cpu(), data=values["data"].shape, type_dict={name: dtype for name in values})
    for name, value in values.items():
        where = executor.arg_dict if name in executor.arg_dict else executor.aux_dict
        where[name][:] = mx.nd.array(value, dtype=dtype)
    found = {"inference": executor.forward(is_train=False)[0].asnumpy(), "training": executor.forward(is_train=True)[0].asnumpy()}
    executor.backward([mx.nd.array(heads, dtype=dtype)])
    found.update({f"gradient of {name}": value.asnumpy() for name, value in executor.grad_dict.items()})
    found.update({name: value.asnumpy() for name, value in executor.aux_dict.items()})
    return found


class RandomNetworksTest(unittest.TestCase):
    def check(self, network, seed):
        rows = (1, 2, 3, 5, 8, 16)[seed % 6]
        values = network.values(rows)
        heads = np.random.RandomState(seed).randn(*network.shape_of(rows=rows)).astype("float32")
        single, double = (computed(network, values, heads, dtype) for dtype in ("float32", "float64"))
        largest = max(np.abs(value).max() for name, value in double.items() if name.startswith("gradient"))
        for name, value in double.items():
            # Gradients may be zero but for rounding, as of a bias before a BatchNorm, and grow with it from layer to layer.
            of_value, of_largest = (1e-2, 1e-5) if name.startswith("gradient") else (2e-3, 0)
            most = of_value * np.abs(value).max() + of_largest * largest + 1e-6
            np.testing.assert_allclose(single[name], value, rtol=0, atol=most, err_msg=name)
        model = random_networks.model(network, "random", values)
        version = model.publish(served="random", max_batch_size=max(_ROWS)).version
        data = np.concatenate([values["data"]] * max(_ROWS))
        alone = model.predict(data[:1])
        for count in _ROWS:
            expected = model.predict(data[:count])
            near = 1e-4 * np.abs(expected).max() + 1e-7
            np.testing.assert_allclose(model.infer(data[:count], version), expected, rtol=0, atol=near)
            np.testing.assert_allclose(expected[:1], alone, rtol=0, atol=near)
        mx.remote.route("random", labels={"stable": None})
        mx.remote.retire("random", version)

    def test_images(self):
        for seed in range(48):
            with self.subTest(seed=seed):
                self.check(random_networks.images(seed), seed)

    def test_sequences(self):
        for seed in range(36):
            with self.subTest(seed=seed):
                self.check(random_networks.sequences(seed), seed)

    def test_images_on_lesser_processors(self):
        """oneDNN's kernels and layouts for processors without this one's instructions."""
        for first, instructions in ((1000, "SSE41"), (2000, "AVX2"), (3000, "AVX512_CORE")):
            with contextlib.ExitStack() as ends:
                server = ends.enter_context(running_server.RunningServer(env={**os.environ, "DNNL_MAX_CPU_ISA": instructions}))
                mx.connect(server.address)
                ends.callback(mx.connect, None)
                for seed in range(first, first + 8):
                    with self.subTest(instructions=instructions, seed=seed):
                        self.check(random_networks.images(seed), seed)


if __name__ == "__main__":
    case_runner.main()
