"""Iterators over batches: what they give is what MXNet 1.9.1 gives."""

import os
import struct
import tempfile
import unittest
import unittest.mock

import gluond as mx
import numpy as np
from gluond import nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase

X, Y = np.arange(14).reshape(7, 2), np.arange(7)


def epochs(iterator, count=1):
    """For each epoch, (labels, pad) of each batch."""
    found = []
    for _ in range(count):
        found.append([(batch.label[0].asnumpy().astype(int).tolist(), batch.pad) for batch in iterator])
        iterator.reset()
    return found


class BatchTest(ArrayCase):
    def test_a_description_is_a_pair_with_more_fields(self):
        desc = mx.io.DataDesc("x", (1, 2))
        self.assertEqual(desc, ("x", (1, 2)))
        self.assertEqual((desc.dtype, desc.layout), (np.float32, "NCHW"))
        self.assertEqual(repr(desc), "DataDesc[x,(1, 2),<class 'numpy.float32'>,NCHW]")
        self.assertEqual([mx.io.DataDesc.get_batch_axis(layout) for layout in ("TNC", "NCHW", "C", None)], [1, 0, -1, 0])
        self.assertEqual(mx.io.DataDesc.get_list([("a", (1,))], [("a", "int32")])[0].dtype, "int32")
        self.assertEqual(mx.io.DataDesc.get_list([("a", (1,))], None), [("a", (1,))])

    def test_a_batch_tells_its_shapes(self):
        batch = mx.io.DataBatch([nd.ones((2, 3))], [nd.ones(2)], pad=1)
        self.assertEqual(str(batch), "DataBatch: data shapes: [(2, 3)] label shapes: [(2,)]")
        with self.assertRaisesRegex(AssertionError, "Data must be list"):
            mx.io.DataBatch(nd.ones(2))

    def test_an_own_iterator(self):
        class Countdown(mx.io.DataIter):
            def reset(self):
                self.left = 3

            def iter_next(self):
                self.left -= 1
                return self.left >= 0

            def getdata(self):
                return [nd.array([self.left])]

        iterator = Countdown(1)
        iterator.reset()
        self.assertEqual([batch.data[0].asscalar() for batch in iterator], [2, 1, 0])


class NDArrayIterTest(ArrayCase):
    def test_what_is_left_of_the_last_batch(self):
        for handle, expected in (
            ("pad", [[([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 0, 1], 2)]] * 2),
            ("discard", [[([0, 1, 2], 0), ([3, 4, 5], 0)]] * 2),
            (
                "roll_over",
                [
                    [([0, 1, 2], 0), ([3, 4, 5], 0)],
                    [([6, 0, 1], 1), ([2, 3, 4], 0)],
                    [([5, 6, 0], 2), ([1, 2, 3], 0), ([4, 5, 6], 0)],
                ],
            ),
        ):
            with self.subTest(handle):
                self.assertEqual(epochs(mx.io.NDArrayIter(X, Y, 3, last_batch_handle=handle), len(expected)), expected)
        self.assertEqual(epochs(mx.io.NDArrayIter(X[:2], Y[:2], 7)), [[([0, 1, 0, 1, 0, 1, 0], 5)]])

    def test_whole_batches_ask_the_server_for_nothing(self):
        x = nd.array(np.arange(12).reshape(6, 2))
        iterator = mx.io.NDArrayIter(x, np.arange(6), 2)
        with unittest.mock.patch.object(type(x._session), "request", side_effect=AssertionError):
            shapes = [(batch.data[0].shape, batch.label[0].shape) for batch in iterator]
        self.assertEqual(shapes, [((2, 2), (2,))] * 3)

    def test_the_order_is_mxnet_s(self):
        np.random.seed(3)
        iterator = mx.io.NDArrayIter(X, Y, 3, shuffle=True, last_batch_handle="roll_over")
        self.assertEqual(
            epochs(iterator, 3),
            [[([4, 6, 5], 0), ([3, 1, 0], 0)], [([2, 5, 6], 1), ([2, 0, 3], 0)], [([4, 1, 3], 2), ([6, 4, 0], 0), ([2, 5, 1], 0)]],
        )

    def test_a_hard_reset_forgets_the_rest(self):
        iterator = mx.io.NDArrayIter(X, Y, 3, last_batch_handle="roll_over")
        list(iterator)
        iterator.hard_reset()
        self.assertEqual(next(iterator).label[0].asnumpy().tolist(), [0, 1, 2])

    def test_names_shapes_and_dtypes(self):
        iterator = mx.io.NDArrayIter({"b": nd.array(X, dtype="int32"), "a": X.astype("float64")}, [Y, Y * 2], 4, label_name="l")
        self.assertEqual(iterator.provide_data, [("a", (4, 2)), ("b", (4, 2))])
        self.assertEqual([desc.dtype for desc in iterator.provide_data], [np.float32, np.int32])
        self.assertEqual(iterator.provide_label, [("_0_l", (4,)), ("_1_l", (4,))])
        batch = iterator.next()
        self.assert_equal(batch.data[1], X[:4], np.int32)
        self.assert_equal(batch.label[1], Y[:4] * 2, np.float32)
        iterator = mx.io.NDArrayIter(X, batch_size=4)
        self.assertEqual((iterator.provide_data, iterator.provide_label), ([("data", (4, 2))], []))
        self.assertEqual(next(iterator).label, [])
        self.assertEqual(mx.io.NDArrayIter(X, Y, 4).provide_label, [("softmax_label", (4,))])

    def test_the_batch_s_axis_is_the_layout_s(self):
        iterator = mx.io.NDArrayIter(np.arange(9).reshape(3, 3), batch_size=2, layout="TN")
        self.assertEqual(iterator.provide_data, [("data", (3, 2))])
        self.assert_equal(next(iterator).data[0], [[0, 1], [3, 4], [6, 7]])
        self.assert_equal(next(iterator).data[0], [[2, 0], [5, 3], [8, 6]])
        iterator = mx.io.NDArrayIter(np.arange(9).reshape(3, 3), batch_size=2, layout="C")  # It says no N; the axis is the last.
        self.assert_equal(next(iterator).data[0], [[0, 1], [3, 4], [6, 7]])

    def test_wrong_data(self):
        for data, error, text in (
            (None, AssertionError, "no arrays"),
            ([], AssertionError, "no arrays"),
            ("ab", TypeError, "Input must be"),
            ({"a": object()}, TypeError, "Invalid type .* for a"),
        ):
            with self.assertRaisesRegex(error, text):
                mx.io.NDArrayIter(data)
        iterator = mx.io.NDArrayIter(X, Y, 3)
        list(iterator)
        with self.assertRaisesRegex(AssertionError, "needs reset"):
            iterator.getdata()


class WrappedTest(unittest.TestCase):
    def test_another_number_of_batches(self):
        iterator = mx.io.ResizeIter(mx.io.NDArrayIter(X, Y, 3), 4)
        self.assertEqual(iterator.provide_data, [("data", (3, 2))])
        expected = [([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 0, 1], 2), ([0, 1, 2], 0)]
        self.assertEqual(epochs(iterator, 2), [expected] * 2)
        iterator = mx.io.ResizeIter(mx.io.NDArrayIter(X, Y, 3), 2, reset_internal=False)
        self.assertEqual(epochs(iterator, 2), [expected[:2], expected[2:]])

    def test_ahead_of_their_use(self):
        both = mx.io.PrefetchingIter(
            [mx.io.NDArrayIter(X, Y, 3), mx.io.NDArrayIter(X * 2, Y * 2, 3)], rename_data=[{"data": "one"}, {"data": "two"}]
        )
        self.assertEqual([desc.name for desc in both.provide_data], ["one", "two"])
        self.assertEqual(both.batch_size, 3)
        self.assertEqual(epochs(both, 2), [[([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 0, 1], 2)]] * 2)
        batch = next(both)
        self.assertEqual(batch.data[1].asnumpy().tolist(), (X[:3] * 2).tolist())
        uneven = mx.io.PrefetchingIter([mx.io.NDArrayIter(X, Y, 7), mx.io.NDArrayIter(X, Y, 5)])
        with self.assertRaisesRegex(AssertionError, "mismatches between iterators"):
            list(uneven)


class FilesTest(ArrayCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)

    def test_tables_of_numbers(self):
        np.savetxt("data.csv", np.arange(20).reshape(5, 4), delimiter=",", fmt="%g")
        np.savetxt("label.csv", np.arange(5), fmt="%g")
        iterator = mx.io.CSVIter(data_csv="data.csv", data_shape=(2, 2), label_csv="label.csv", batch_size=2)
        self.assertEqual(iterator.provide_data, [("data", (2, 2, 2))])
        self.assertEqual(
            epochs(iterator, 3),
            [[([0, 1], 0), ([2, 3], 0), ([4, 0], 1)], [([1, 2], 0), ([3, 4], 0)], [([0, 1], 0), ([2, 3], 0), ([4, 0], 1)]],
        )
        iterator.reset()
        self.assertTrue(iterator.iter_next())
        self.assertEqual(iterator.getlabel().shape, (2,))  # An array, as of all iterators over files.
        iterator = mx.io.CSVIter(data_csv="data.csv", data_shape=(4,), batch_size=2, round_batch=False, dtype="int32")
        self.assertEqual([batch.pad for _ in range(2) for batch in (iterator.reset(), *iterator)[1:]], [0, 0, 1] * 2)
        iterator.reset()
        batch = next(iterator)
        self.assert_equal(batch.data[0], [[0, 1, 2, 3], [4, 5, 6, 7]], np.int32)
        self.assert_equal(batch.label[0], [0, 0])
        self.assertEqual(batch.index.tolist(), [0, 1])
        with self.assertRaisesRegex(mx.MXNetError, r"data.csv have 4 numbers, .* shape \(3,\)"):
            mx.io.CSVIter(data_csv="data.csv", data_shape=(3,), batch_size=1)

    def svm(self, **settings):
        return mx.io.LibSVMIter(**{"data_libsvm": "x.svm", "data_shape": (3,), "batch_size": 3, **settings})

    def test_sparse_rows(self):
        with open("x.svm", "w") as file:
            file.write("1.0 0:0.5 2:1.5\n-2.0\n\n-3:0.1 0:0.5 qid:7 1:2.5 2:1.5 # a comment\n4 2\n5 1:3\n")
        with open("y.svm", "w") as file:
            file.write("1\n2 0:0.125\n3 1:1.5\n4 0:1 1:-1.5\n5 0:7\n")
        iterator = self.svm()
        self.assertEqual(iterator.provide_data + iterator.provide_label, [("data", (3, 3)), ("softmax_label", (3,))])
        batch = next(iterator)
        self.assert_equal(batch.data[0], [[0.5, 0, 1.5], [0, 0, 0], [0.5, 2.5, 1.5]], np.float32)
        self.assertEqual(batch.index.tolist(), [0, 1, 2])
        self.assert_equal(next(iterator).data[0], [[0, 0, 1], [0, 3, 0], [0.5, 0, 1.5]])
        self.assertEqual(epochs(self.svm(), 2), [[([1, -2, -3], 0), ([4, 5, 1], 1)], [([-2, -3, 4], 0), ([5, 1, -2], 2)]])
        iterator = self.svm(label_libsvm="y.svm", label_shape=(2,), data_shape=(3, 1))
        self.assertEqual(iterator.provide_label, [("softmax_label", (3, 2))])
        batch = next(iterator)
        self.assert_equal(batch.label[0], [[0, 0], [0.125, 0], [0, 1.5]])
        self.assertEqual(batch.data[0].shape, (3, 3, 1))

    def test_parts_of_sparse_rows(self):
        with open("x.svm", "w") as file:
            file.write("".join(f"{i} 0:1\n" for i in range(6)))
        parts = [epochs(self.svm(batch_size=1, num_parts=3, part_index=i)) for i in range(3)]
        self.assertEqual([[batch[0][0] for batch in part[0]] for part in parts], [[0, 1, 2], [3, 4], [5]])

    def test_sparse_rows_that_do_not_fit(self):
        for content, settings, text in (
            ("1 0:1\nx 0:1\n", {}, "x.svm, line 2: a label and pairs .*'x 0:1'"),
            ("1 -1:1\n", {}, "line 1"),
            ("1 3:1\n", {}, r"a number at place 3, and its shape is \(3,\)"),
            ("", {}, "no rows"),
            ("1\n", {"label_shape": (2,)}, "label_shape is expected"),
            ("1\n", {"round_batch": False}, "round_batch"),
            ("1\n", {"data_libsvm": "z.svm"}, "No such file.*z.svm"),
            ("1\n", {"label_libsvm": os.devnull}, "has 1 rows, .* has 0"),
        ):
            with open("x.svm", "w") as file:
                file.write(content)
            with self.subTest(text), self.assertRaisesRegex(mx.MXNetError, text):
                next(self.svm(**settings))

    def mnist(self, folder=""):
        pixels = (np.arange(7 * 784) % 251).astype("uint8")
        for part in ("train", "t10k"):
            with open(f"{folder}{part}-images-idx3-ubyte", "wb") as file:
                file.write(struct.pack(">IIII", 2051, 7, 28, 28) + pixels.tobytes())
            with open(f"{folder}{part}-labels-idx1-ubyte", "wb") as file:
                file.write(struct.pack(">II", 2049, 7) + bytes(range(7)))
        return pixels.reshape(7, 784).astype(np.float32) / 256

    def test_digits(self):
        pixels = self.mnist()
        plain = {"batch_size": 3, "shuffle": False, "silent": True}
        iterator = mx.io.MNISTIter(**plain)
        self.assertEqual(iterator.provide_data, [("data", (3, 1, 28, 28))])
        self.assertEqual(epochs(iterator, 2), [[([0, 1, 2], 0), ([3, 4, 5], 0)]] * 2)
        self.assert_equal(next(mx.io.MNISTIter(flat=True, **plain)).data[0], pixels[:3], np.float32)
        self.assertEqual(epochs(mx.io.MNISTIter(num_parts=2, part_index=1, **plain)), [[([3, 4, 5], 0)]])
        batch = next(mx.io.MNISTIter(batch_size=7, seed=4))
        order = batch.label[0].asnumpy().astype(int)
        self.assertEqual(sorted(order), list(range(7)))
        self.assertNotEqual(order.tolist(), list(range(7)))
        self.assertEqual(batch.index.tolist(), order.tolist())
        self.assert_equal(batch.data[0].reshape((7, -1)), pixels[order])

    def test_digits_of_the_tools_for_tests(self):
        with self.assertRaisesRegex(FileNotFoundError, "data/mnist.zip is not there"):
            mx.test_utils.get_mnist_iterator(2, (784,))
        os.mkdir("data")
        self.mnist("data/")
        train, validation = mx.test_utils.get_mnist_iterator(7, (1, 28, 28))
        self.assertEqual(sorted(train.next().label[0].asnumpy().tolist()), list(range(7)))
        self.assertEqual(validation.provide_data, [("data", (7, 1, 28, 28))])
        self.assertEqual(mx.test_utils.get_mnist_iterator(7, (784,))[0].provide_data, [("data", (7, 784))])


if __name__ == "__main__":
    case_runner.main()
