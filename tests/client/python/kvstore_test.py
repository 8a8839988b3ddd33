"""Stores of arrays by key. The figures are those of MXNet 1.9.1."""

import os
import tempfile
import unittest.mock

import gluond as mx
import numpy as np
from gluond import gluon, nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase

SHAPE = (2, 3)


def full(value):
    return nd.ones(SHAPE) * value


class StoreTest(ArrayCase):
    def stored(self, store, key):
        out = nd.zeros(SHAPE)
        store.pull(key, out=out)
        return out

    def test_a_store_is_of_one_machine(self):
        for name in ("local", "device", "Device", "local_allreduce_cpu"):
            store = mx.kv.create(name)
            self.assertEqual((store.type, store.rank, store.num_workers), (name.lower(), 0, 1))
        self.assertIs(mx.kvstore.KVStore, type(mx.kv.create()))
        with self.assertRaisesRegex(ValueError, "There is no kvstore 'dist_sync'"):
            mx.kv.create("dist_sync")
        with self.assertRaisesRegex(TypeError, "name must be a string"):
            mx.kv.create(3)

    def test_the_sum_of_pushed_arrays_is_the_new_value(self):
        store = mx.kv.create()
        first = full(2)
        store.init(3, first)
        first[:] = 5
        self.assert_equal(self.stored(store, 3), np.full(SHAPE, 2))
        store.push(3, [full(i) for i in range(4)], priority=-3)
        self.assert_equal(self.stored(store, 3), np.full(SHAPE, 6))
        pushed = full(8)
        store.push(3, pushed)
        pushed[:] = 0
        self.assert_equal(self.stored(store, 3), np.full(SHAPE, 8))

    def test_lists_of_keys_have_lists_of_arrays_or_of_devices(self):
        store = mx.kv.create("device")
        store.init(["a", "b"], [full(0), full(0)])
        store.push(["a", "b", "a"], [[full(1), full(2)], full(3), full(4)])
        out = [[full(0), full(0)], full(0)]
        store.pull(["a", "b"], out=out)
        self.assertEqual([array.asnumpy()[0, 0] for array in (*out[0], out[1])], [7, 7, 3])

    def test_an_optimizer_updates_many_keys_by_one_call(self):
        store = mx.kv.create()
        keys = ["a", "b", "c"]
        store.init(keys, [full(1), full(2), full(3)])
        store.set_optimizer(mx.optimizer.SGD(learning_rate=1))
        with unittest.mock.patch.object(store._updater, "_on_server", wraps=store._updater._on_server) as on_server:
            store.push(keys, [[full(1), full(1)], full(0), full(5)])
        self.assertEqual(len(on_server.run.call_args.args[1]), 3)
        self.assertEqual([self.stored(store, key).asnumpy()[0, 0] for key in keys], [-1, 2, -2])

    def test_pushpull_and_broadcast_are_two_calls_in_one(self):
        store = mx.kv.create()
        arrays = [full(0), full(0)]
        store.broadcast("z", full(5), out=arrays)
        self.assertEqual([array.asnumpy()[0, 0] for array in arrays], [5, 5])
        gradients = [full(1), full(2)]
        store.pushpull("z", gradients)
        self.assertEqual([array.asnumpy()[0, 0] for array in gradients], [3, 3])
        store.pushpull("z", gradients, out=arrays[0])
        self.assert_equal(arrays[0], np.full(SHAPE, 6))

    def test_an_updater_gets_the_sum_and_changes_the_value(self):
        seen = []

        def update(key, pushed, stored):
            seen.append((key, pushed.asnumpy().sum(), stored.asnumpy().sum()))
            stored += pushed * 2

        store = mx.kv.create()
        store._set_updater(update)
        store.init(3, full(1))
        store.push(3, full(1))
        store.push(3, [full(1)] * 3)
        self.assertEqual(seen, [(3, 6, 6), (3, 18, 18)])
        self.assert_equal(self.stored(store, 3), np.full(SHAPE, 9))

    def test_an_optimizer_updates_and_its_states_are_saved(self):
        store = mx.kv.create()
        store.init(0, full(1))
        with self.assertRaisesRegex(AssertionError, "Cannot save states"):
            store.save_optimizer_states(os.devnull)
        store.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.5, momentum=0.9))
        store.push(0, full(1))
        store.push(0, [full(1)] * 2)
        self.assert_close(self.stored(store, 0), np.full(SHAPE, -0.95))
        with tempfile.TemporaryDirectory() as folder:
            store.save_optimizer_states(folder + "/states", dump_optimizer=True)
            store.push(0, full(4))
            store.load_optimizer_states(folder + "/states")
        store._values[0][:] = -0.95
        store.push(0, full(1))
        self.assert_close(self.stored(store, 0), np.full(SHAPE, -2.755))

    def test_rows_are_pulled_alone_and_others_become_zeros(self):
        store = mx.kv.create()
        store.init(["a", "b"], [nd.array([[1, 2], [3, 4], [5, 6]])] * 2)
        first, second = nd.ones((3, 2)), nd.ones((3, 2), dtype="float64")
        store.row_sparse_pull("a", out=[first, second], row_ids=nd.array([[2, 0], [0, 2]]))
        self.assert_equal(first, [[1, 2], [0, 0], [5, 6]])
        self.assert_equal(second, [[1, 2], [0, 0], [5, 6]], np.float64)
        store.row_sparse_pull(["a", "b"], out=[[first], [second]], row_ids=[[nd.array([1])], [nd.array([0], dtype="int64")]])
        self.assert_equal(first, [[0, 0], [3, 4], [0, 0]])
        self.assert_equal(second, [[1, 2], [0, 0], [0, 0]])

    def test_mistakes_are_errors(self):
        store = mx.kv.create()
        store.init("a", full(0))
        for error, message, call in (
            (mx.MXNetError, "duplicate init of key a", lambda: store.init("a", full(1))),
            (mx.MXNetError, "Mixed key types are not allowed", lambda: store.init(1, full(1))),
            (mx.MXNetError, "key b has not been inited", lambda: store.push("b", full(1))),
            (mx.MXNetError, "key b has not been inited", lambda: store.pull("b", out=full(1))),
            (AssertionError, "give `out` and `row_ids`", lambda: store.row_sparse_pull("a", full(1))),
            (
                AssertionError,
                "2 arrays of row_ids for 1 of `out`",
                lambda: store.row_sparse_pull("a", full(1), row_ids=[nd.array([0])] * 2),
            ),
            (AssertionError, "2 keys for 1 arrays", lambda: store.push(["a", "a"], [full(1)])),
            (AssertionError, "unexpected type for keys: <class 'float'>", lambda: store.push(1.5, full(1))),
            (AssertionError, "inconsistent types of keys", lambda: store.push(["a", 1], [full(1), full(1)])),
            (AssertionError, "are NDArrays, not ndarray", lambda: store.push("a", np.ones(SHAPE))),
            (AssertionError, "give `out`", lambda: store.pull("a")),
            (TypeError, "is an Optimizer, not 'sgd'", lambda: store.set_optimizer("sgd")),
            (ValueError, "Unknown capability: x", lambda: store.is_capable("x")),
            (ValueError, "not compressed", lambda: store.set_gradient_compression({"type": "2bit"})),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                call()


class TrainingTest(ArrayCase):
    def test_a_trainer_takes_a_store(self):
        weight = gluon.Parameter("weight", shape=SHAPE)
        weight.initialize(mx.init.One())
        trainer = gluon.Trainer([weight], "sgd", {"learning_rate": 0.5}, kvstore=mx.kv.create("local"))
        with mx.autograd.record():
            loss = (weight.data() * 2).sum()
        loss.backward()
        trainer.step(1)
        self.assert_equal(weight.data(), np.zeros(SHAPE))

    def test_a_trainer_sums_gradients_in_a_store_of_the_program_s(self):
        asked = []

        @mx.kvstore.KVStoreBase.register
        class Rings(type(mx.kv.create("teststore"))):
            def pushpull(self, key, value, out=None, priority=0):
                asked.append((key, len(value)))
                super().pushpull(key, value, out, priority)

        weight = gluon.Parameter("weight", shape=(2,))
        weight.initialize(mx.init.One(), ctx=[mx.cpu(0), mx.cpu(1)])
        trainer = gluon.Trainer([weight], "sgd", {"learning_rate": 0.25}, kvstore=mx.kv.create("rings"))
        with mx.autograd.record():
            losses = [(each * 2).sum() for each in weight.list_data()]
        for loss in losses:
            loss.backward()
        trainer.step(1)
        self.assertEqual(asked, [(0, 2)])
        for each in weight.list_data():
            self.assert_equal(each, [0, 0])
        with self.assertRaisesRegex(ValueError, "update_on_kvstore to False"):
            gluon.Trainer([weight], "sgd", kvstore=mx.kv.create("rings"), update_on_kvstore=True)._init_kvstore()

    def test_a_module_takes_a_store(self):
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, no_bias=True, name="fc")
        module = mx.mod.Module(net, label_names=[])
        module.bind([("data", (2, 3))])
        module.init_params(mx.init.One())
        module.init_optimizer(mx.kv.create("device"), optimizer_params={"learning_rate": 0.5})
        module.forward(mx.io.DataBatch([full(2)]))
        module.backward(nd.ones((2, 1)) * 0.5)
        module.update()
        self.assert_equal(module.get_params()[0]["fc_weight"], [[0.5, 0.5, 0.5]])


if __name__ == "__main__":
    case_runner.main()
