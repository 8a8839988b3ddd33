"""Arrays that are larger than a message may be travel in pieces, whatever brings them here or there."""

import os
import tempfile
import threading

import gluond as mx
import numpy as np
from gluond import autograd, gluon, nd
from gluond._wire import connect
from gluond.gluon import nn
from gluond._array import transfer
from tests import case_runner
from tests.client.python.array_case import ArrayCase
from tests.client.python.beside import in_threads
from tests.client.python.custom_case import gradient, registered
from tests.server.running_server import RunningServer

# A message of the server that the cases share has 1 MiB.
LARGE = np.arange(3 << 19, dtype=np.float32).reshape(3, -1)  # 6 MiB


class Large(gluon.data.Dataset):
    """Computes with arrays of the server in the worker's own session."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return (nd.array(LARGE) + index).asnumpy()


class LargeTest(ArrayCase):
    @classmethod
    def setUpClass(cls):
        cls.server = RunningServer("--max_message_bytes=1048576")
        mx.connect(cls.server.address)

    @classmethod
    def tearDownClass(cls):
        connect.current().close()
        cls.server.__exit__()

    def test_values_that_only_the_server_knows_the_shape_of(self):
        for computed in (nd.array(LARGE).tile((1, 2)), nd.take(nd.array(LARGE), nd.array([2, 0, 1, 1]))):
            self.assertIsNone(computed._shape)
            values = computed.asnumpy()
            self.assertEqual(values.shape, computed.shape)
            self.assertTrue(values.flags.writeable)
        np.testing.assert_array_equal(values, LARGE[[2, 0, 1, 1]])

    def test_every_dtype_and_sizes_about_a_message(self):
        for dtype in ("float64", "float16", "uint8", "int8", "int32", "int64", "bool"):
            values = (np.arange(1 << 20) % 100).astype(dtype)
            self.assert_equal(nd.from_numpy(values), values)
        for size in range((1 << 18) - 1030, (1 << 18) + 10, 64):
            computed = nd.array(LARGE.ravel()[:size]).repeat(repeats=1)
            np.testing.assert_array_equal(computed.asnumpy(), LARGE.ravel()[:size])
        bfloat16 = nd.ones((1 << 20,)).astype("bfloat16").repeat(repeats=1)
        self.assertEqual(bfloat16.asnumpy().dtype, np.float32)
        np.testing.assert_array_equal(bfloat16.asnumpy(), np.ones(1 << 20))

    def test_several_at_once(self):
        session = connect.current()
        arrays = [nd.array(LARGE[:, : 1 << n]) + n for n in range(6, 20)]
        found = transfer.fetch_all(session, [array._sent() for array in arrays])
        for n, values in zip(range(6, 20), found):
            np.testing.assert_array_equal(values, LARGE[:, : 1 << n] + n)

    def test_what_is_written_between_two_pieces_is_not_seen(self):
        x = nd.zeros((1 << 20,))
        ended = threading.Event()

        def write():
            while not ended.is_set():
                x[:] = x + 1
                x.wait_to_read()

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for _ in range(10):
                values = x.repeat(repeats=1).asnumpy() if _ % 2 else x.asnumpy()
                self.assertEqual(values.min(), values.max())
        finally:
            ended.set()
            thread.join()

    def test_an_error_is_told_as_that_of_a_small_one(self):
        bad = nd.Reshape(nd.array(LARGE), shape=(7, 7))
        with self.assertRaisesRegex(mx.MXNetError, "(?s)eshape.*nd.Reshape"):
            bad.tile((2, 2)).asnumpy()

    def test_the_server_keeps_no_piece(self):
        nd.array(LARGE).asnumpy()
        before = len(connect.current().dead_arrays)
        nd.array(LARGE).asnumpy()
        self.assertLess(len(connect.current().dead_arrays), before + 20)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.params")
            nd.save(path, {"a": nd.array(LARGE).tile((1, 1)), "b": nd.array([1])})
            loaded = nd.load(path)
            self.assert_equal(loaded["a"], LARGE)
            self.assert_equal(loaded["b"], [1])
            with open(path, "rb") as file:
                self.assert_equal(nd.load_frombuffer(file.read())["a"], LARGE)

    def test_parameters_and_checkpoints(self):
        def net():
            made = nn.HybridSequential()
            made.add(nn.Dense(600, in_units=1000), nn.Dense(2))
            return made

        first, second = net(), net()
        first.initialize(mx.init.Normal(1))
        first.hybridize()
        x = nd.ones((4, 1000))
        expected = first(x).asnumpy()
        trainer = gluon.Trainer(first.collect_params(), "adam")
        with autograd.record():
            loss = first(x).sum()
        loss.backward()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net")
            first.save_parameters(path + ".params")
            second.load_parameters(path + ".params")
            self.assert_equal(second(x), expected)
            first.export(path)
            symbol, arguments, auxiliary = mx.model.load_checkpoint(path, 0)
            mx.model.save_checkpoint(path, 1, symbol, arguments, auxiliary)
            imported = gluon.SymbolBlock.imports(path + "-symbol.json", ["data"], path + "-0001.params")
            self.assert_close(imported(x), expected)
            trainer.step(4)
            trainer.save_states(path + ".states")
            trainer.load_states(path + ".states")

    def test_workers_of_a_data_loader(self):
        for batch in gluon.data.DataLoader(Large(), 1, num_workers=2):
            np.testing.assert_array_equal(batch[0].asnumpy()[:, :5] % 1, np.zeros((3, 5)))
        self.assert_equal(batch[0], LARGE + 1)
        rows = gluon.data.ArrayDataset(nd.array(LARGE), np.arange(3))
        for x, y in gluon.data.DataLoader(rows, 2, num_workers=1):
            self.assert_equal(x, LARGE[y.asnumpy().astype(int)])

    def test_custom_operators_read_and_write_them(self):
        registered(
            "doubles",
            lambda self, in_data, out_data, req, **_: self.assign(out_data[0], req[0], nd.array(in_data[0].asnumpy() * 2)),
            lambda self, out_grad, in_grad, req, **_: self.assign(in_grad[0], req[0], nd.array(out_grad[0].asnumpy() * 2)),
        )
        x = nd.array(LARGE)
        self.assert_equal(gradient(x, op_type="doubles"), LARGE * 2)
        self.assert_equal(x.grad, np.full(LARGE.shape, 2))
        self.assert_equal(gradient(x.tile((1, 1)), op_type="doubles"), LARGE * 2)

    def test_a_graph_s_custom_operator_says_that_its_inputs_are_too_large(self):
        registered(
            "halves", lambda self, in_data, out_data, req, **_: self.assign(out_data[0], req[0], nd.array(in_data[0].asnumpy() / 2))
        )
        symbol = mx.sym.Custom(mx.sym.Variable("x"), op_type="halves")
        with self.assertRaisesRegex(mx.MXNetError, "halves.*bytes of --max_message_bytes|halves.*--max_message_bytes"):
            symbol.bind(mx.cpu(), [nd.array(LARGE)]).forward()[0].asnumpy()
        small = symbol.bind(mx.cpu(), [nd.ones((2, 2))]).forward()[0]
        self.assert_equal(small, np.full((2, 2), 0.5))

    def test_views_and_pickles(self):
        x = nd.array(LARGE)
        self.assert_equal(x[1:], LARGE[1:])
        self.assert_equal(x.T, LARGE.T)
        x[0] = LARGE[1]
        self.assert_equal(x, LARGE[[1, 1, 2]])
        self.assertIn("3x524288", repr(x))

    def test_progress_of_several_threads(self):
        arrays = [nd.array(LARGE) + n for n in range(4)]
        found = [None] * 4

        def fetch(n):
            found[n] = arrays[n].tile((1, 1)).asnumpy()

        in_threads(fetch, 4)
        for n in range(4):
            np.testing.assert_array_equal(found[n], LARGE + n)


class SmallMessageTest(ArrayCase):
    def connect(self, *flags):
        server = RunningServer(*flags)
        self.addCleanup(server.__exit__)
        mx.connect(server.address)
        self.addCleanup(lambda: connect.current().close())

    def test_messages_of_a_few_kilobytes(self):
        self.connect("--max_message_bytes=6000", "--max_session_queue_bytes=100000")
        x = nd.array(LARGE[:, :5000])
        self.assert_equal(x + 1, LARGE[:, :5000] + 1)
        for _ in range(3000):  # More than one message's commands.
            x = x + 1
        self.assert_equal(x, LARGE[:, :5000] + 3000)
        kept = [x + 1 for _ in range(2000)]
        del kept  # More than one message's names.
        self.assert_equal(x, LARGE[:, :5000] + 3000)

    def test_a_call_that_no_message_holds_says_so_and_the_session_goes_on(self):
        self.connect("--max_message_bytes=1048576")
        x = nd.ones((2,))
        y = mx.sym.Variable("x")
        for _ in range(20000):
            y = y + 1
        with self.assertRaisesRegex(mx.MXNetError, "--max_message_bytes.*graph in parts"):
            y.bind(mx.cpu(), [x]).forward()[0].asnumpy()
        self.assert_equal(x + 1, [2, 2])


if __name__ == "__main__":
    case_runner.main()
