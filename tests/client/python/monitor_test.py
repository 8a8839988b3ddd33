"""Monitors: what operators compute, by name. The figures are those of MXNet 1.9.1 for the same data."""

import gluond as mx
import numpy as np
from gluond import nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase


def network():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc1")
    net = mx.sym.BatchNorm(net, name="bn", fix_gamma=False)
    pieces = mx.sym.SliceChannel(mx.sym.Concat(net, net, dim=1, name="cc"), num_outputs=2, name="sl")
    net = mx.sym.elemwise_add(pieces[0], pieces[1], name="sum")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=2, name="fc2"), name="softmax")


def bound():
    executor = network().simple_bind(mx.cpu(), data=(2, 4), softmax_label=(2,))
    for place, array in enumerate(executor.arg_arrays):
        array[:] = nd.array(np.sin(np.arange(array.size) + place).reshape(array.shape))
    executor.arg_dict["softmax_label"][:] = 0
    return executor


# MXNet tells these of one run of `bound`.
EXPECTED = {
    "fc1_output": 1.435683,
    "bn_output": 1.013014,
    "sl_output1": 1.013014,
    "sum_output": 2.026028,
    "fc2_output": 1.396224,
    "softmax_output": 0.655671,
    "softmax_backward_output0": 0.090363,
    "fc2_backward_output0": 0.124736,
    "cc_backward_output1": 0.124736,
    "bn_backward_output0": 0.000275,
    "fc2_backward_output1": 0.330365,
    "fc2_backward_output2": 0.156522,
    "bn_backward_output1": 0.249291,
    "bn_backward_output2": 0.432123,
    "fc1_backward_output0": 0.000444,
    "fc1_backward_output1": 0.000322,
}


class MonitorTest(ArrayCase):
    def watched(self, training=True, **kwargs):
        """What a Monitor tells of one run forward and backward."""
        monitor, executor = mx.mon.Monitor(1, **kwargs), bound()
        monitor.install(executor)
        monitor.tic()
        executor.forward(is_train=training)
        if training:
            executor.backward()
        return monitor.toc()

    def test_operators_then_gradients_then_arrays_are_told(self):
        told = self.watched()
        self.assertEqual(
            [name for _, name, _ in told],
            [
                "fc1_output",
                "bn_output",
                "cc_output",
                "sl_output0",
                "sl_output1",
                "sum_output",
                "fc2_output",
                "softmax_output",
                "softmax_backward_output0",
                "softmax_backward_output1",
                "fc2_backward_output0",
                "fc2_backward_output1",
                "fc2_backward_output2",
                "sum_backward_output0",
                "sum_backward_output1",
                "sl_backward_output",
                "cc_backward_output0",
                "cc_backward_output1",
                "bn_backward_output0",
                "bn_backward_output1",
                "bn_backward_output2",
                "fc1_backward_output0",
                "fc1_backward_output1",
                "fc1_backward_output2",
                "data",
                "fc1_weight",
                "fc1_bias",
                "bn_gamma",
                "bn_beta",
                "fc2_weight",
                "fc2_bias",
                "softmax_label",
                "bn_moving_mean",
                "bn_moving_var",
            ],
        )
        values = {name: float(text) for _, name, text in told}
        for name, expected in EXPECTED.items():
            self.assertAlmostEqual(values[name], expected, 5, name)

    def test_values_are_those_of_the_run_itself(self):
        executor, seen = bound(), {}
        executor.set_monitor_callback(seen.__setitem__)
        outputs = executor.forward(is_train=True)
        self.assertEqual(len(outputs), 1)
        self.assert_equal(seen["softmax_output"], outputs[0].asnumpy())
        executor.backward()
        self.assert_equal(seen["fc2_backward_output2"], executor.grad_dict["fc2_bias"].asnumpy())
        expected = bound()
        expected.forward(is_train=True)
        expected.backward()
        for name, gradient in expected.grad_dict.items():
            self.assert_equal(executor.grad_dict[name], gradient.asnumpy())
        self.assert_equal(executor.aux_dict["bn_moving_mean"], expected.aux_dict["bn_moving_mean"].asnumpy())

    def test_inputs_are_told_with_monitor_all(self):
        a = mx.sym.Variable("a")
        net = mx.sym.Flatten(mx.sym.FullyConnected(a, num_hidden=3, name="fc"), name="flat")
        executor = net.simple_bind(mx.cpu(), grad_req="null", a=(2, 3))
        names = []
        executor.set_monitor_callback(lambda name, array: names.append(name), monitor_all=True)
        executor.forward()
        self.assertEqual(
            names, ["a", "fc_data", "fc_weight", "fc_weight", "fc_bias", "fc_bias", "fc_output", "flat_input0", "flat_output"]
        )
        for net, told in (
            (mx.sym.relu(a, name="n"), ["a", "n_input0", "n_output"]),
            (mx.sym.tile(a, (2,), name="n"), ["a", "n_data", "n_output"]),
            (mx.sym.concat(a, a, name="n"), ["a", "n_arg0", "a", "n_arg1", "n_output"]),
        ):
            executor = net.simple_bind(mx.cpu(), grad_req="null", a=(2, 3))
            names.clear()
            executor.set_monitor_callback(lambda name, array: names.append(name), monitor_all=True)
            executor.forward()
            self.assertEqual(names, told)

    def test_a_pattern_chooses_and_names_are_sorted(self):
        told = self.watched(False, pattern=".*weight|fc.*output", sort=True)
        self.assertEqual([name for _, name, _ in told], ["fc1_output", "fc1_weight", "fc2_output", "fc2_weight"])

    def test_a_function_may_tell_several_arrays(self):
        told = self.watched(False, pattern="fc2_output", stat_func=lambda x: [x.max(), x.min(), x])
        low, high = np.array(told[0][2].split("\t")[:2], np.float32)
        self.assertGreater(low, high)
        self.assertIn("\n", told[0][2])
        with self.assertRaisesRegex(AssertionError, "stat_func gives an NDArray"):
            self.watched(stat_func=lambda x: 3)

    def test_every_so_many_batches_are_watched(self):
        monitor = mx.mon.Monitor(2, pattern="fc1_weight")
        monitor.install(bound())
        steps = []
        for _ in range(4):
            monitor.tic()
            steps += [step for step, _, _ in monitor.toc()]
        self.assertEqual((steps, monitor.step), ([1, 3], 4))


class ModuleTest(ArrayCase):
    def logged(self, module, **kwargs):
        batches = mx.io.NDArrayIter(np.sin(np.arange(40)).reshape(10, 4).astype("f"), np.arange(10) % 2, 5)
        with self.assertLogs(level="INFO") as logs:
            module.fit(
                batches,
                num_epoch=1,
                initializer=mx.init.One(),
                optimizer_params={"learning_rate": 0.1},
                monitor=mx.mon.Monitor(1, **kwargs),
            )
        return [record.getMessage() for record in logs.records if record.getMessage().startswith("Batch")]

    def test_fit_logs_as_mxnet(self):
        lines = self.logged(mx.mod.Module(network()), pattern="softmax_output|fc2_weight")
        self.assertEqual(
            [line[:46] for line in lines],
            [
                "Batch:       1 softmax_output                 ",
                "Batch:       1 fc2_weight                     ",
                "Batch:       2 softmax_output                 ",
                "Batch:       2 fc2_weight                     ",
            ],
        )
        np.testing.assert_allclose([float(line[46:]) for line in lines], [0.5, 1.0000082, 0.50017434, 1.0019426], rtol=1e-5)

    def test_all_modules_of_a_row_are_watched(self):
        chain = mx.mod.SequentialModule()
        first = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="first")
        chain.add(mx.mod.Module(first, label_names=[]))
        chain.add(mx.mod.Module(network()), take_labels=True, auto_wiring=True)
        names = [line.split()[2] for line in self.logged(chain, pattern="f[a-z0-9]*_output")]
        self.assertEqual(names, ["first_output", "fc1_output", "fc2_output"] * 2)

    def test_batches_of_other_shapes_are_watched(self):
        module, names = mx.mod.Module(network()), []
        module.bind([("data", (2, 4))], [("softmax_label", (2,))])
        module.init_params(mx.init.One())
        module._exec_group.execs[0].set_monitor_callback(lambda name, array: names.append((name, array.shape[0])))
        module.forward_backward(mx.io.DataBatch([nd.ones((3, 4))], [nd.zeros(3)]))
        self.assertLess({("fc1_output", 3), ("fc2_backward_output0", 3)}, set(names))

    def test_buckets_to_come_are_watched(self):
        module = mx.mod.BucketingModule(lambda key: (network(), ["data"], ["softmax_label"]), default_bucket_key=2)
        shapes = [mx.io.DataDesc("data", (2, 4))], [mx.io.DataDesc("softmax_label", (2,))]
        module.bind(*shapes)
        module.init_params(mx.init.One())
        monitor = mx.mon.Monitor(1, pattern="fc1_output")
        module.install_monitor(monitor)
        monitor.tic()
        for key in (2, 1):
            module.forward(
                mx.io.DataBatch([nd.ones((2, 4))], [nd.zeros(2)], bucket_key=key, provide_data=shapes[0], provide_label=shapes[1])
            )
        self.assertEqual(len(monitor.toc()), 2)
        with self.assertRaisesRegex(AssertionError, "bind"):
            mx.mod.Module(network()).install_monitor(monitor)


if __name__ == "__main__":
    case_runner.main()
