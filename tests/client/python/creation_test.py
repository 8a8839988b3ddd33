"""Making NDArrays, looking at them, copying them."""

import copy
import pickle

import gluond as mx
import numpy as np
from gluond import nd
from tests import case_runner
from tests.client.python.array_case import ArrayCase


class CreationTest(ArrayCase):
    def test_values_become_float32_whatever_they_were(self):
        for values in ([1, 2], np.array([1, 2]), np.array([1.0, 2.0]), (1, 2)):
            self.assert_equal(nd.array(values), [1, 2], np.float32)

    def test_unless_a_dtype_is_given(self):
        for dtype in ("float64", np.float16, "int32", np.int8, "uint8", "int64"):
            self.assert_equal(nd.array([1, 2], dtype=dtype), [1, 2], np.dtype(dtype).type)

    def test_an_ndarray_keeps_its_dtype(self):
        self.assert_equal(nd.array(nd.ones(2, dtype="int32")), [1, 1], np.int32)

    def test_from_numpy_keeps_the_dtype(self):
        self.assert_equal(nd.from_numpy(np.array([True, False])), [True, False], np.bool_)

    def test_filled(self):
        self.assert_equal(nd.zeros((2, 3)), np.zeros((2, 3)), np.float32)
        self.assert_equal(nd.ones(3, dtype="int32"), [1, 1, 1], np.int32)
        self.assert_equal(nd.full((2,), 1.5), [1.5, 1.5])
        self.assertEqual(nd.empty((2, 2)).shape, (2, 2))
        self.assert_equal(nd.zeros_like(nd.ones((1, 2))), [[0, 0]])
        self.assert_equal(nd.ones_like(nd.zeros((1, 2))), [[1, 1]])

    def test_a_shape_that_is_not_known_makes_no_array(self):
        for shape in (), (0, 3):
            for make in nd.zeros, nd.ones, lambda shape: nd.full(shape, 3):
                with self.assertRaisesRegex(mx.MXNetError, "is not known"):
                    make(shape)
                with mx.np_shape():
                    self.assertEqual(make(shape).asnumpy().shape, shape)

    def test_counted(self):
        self.assert_equal(nd.arange(3), [0, 1, 2])
        self.assert_equal(nd.arange(1, 2, 0.25), [1, 1.25, 1.5, 1.75])
        self.assert_equal(nd.arange(2, repeat=2), [0, 0, 1, 1])
        self.assert_equal(nd.linspace(0, 1, 3), [0, 0.5, 1])
        self.assert_equal(nd.eye(2, 3, 1), np.eye(2, 3, 1))

    def test_what_is_no_array_is_refused(self):
        with self.assertRaisesRegex(TypeError, "array like"):
            nd.array({"a": 1})
        with self.assertRaisesRegex(TypeError, "mx.nd.array"):
            nd.NDArray([1, 2])

    def test_facts_are_known_without_the_server(self):
        x = nd.zeros((2, 3), dtype="int32")
        self.assertEqual((x.shape, x.size, x.ndim, len(x), x.dtype), ((2, 3), 6, 2, 2, np.int32))
        self.assertEqual((x.context, x.ctx, x.stype), (mx.cpu(0), mx.cpu(0), "default"))

    def test_an_unknown_shape_is_asked_for(self):
        self.assertEqual(nd.sum(nd.ones((2, 3)), axis=1).shape, (2,))

    def test_prints_as_mxnet_prints(self):
        self.assertEqual(repr(nd.array([[1, 2], [3, 4]])), "\n[[1. 2.]\n [3. 4.]]\n<NDArray 2x2 @cpu(0)>")
        self.assertEqual(str(nd.array([1], dtype="int32")), "\n[1]\n<NDArray 1 @cpu(0)>")

    def test_a_scalar_is_the_only_element(self):
        self.assertEqual(nd.array([3]).asscalar(), 3)
        with self.assertRaisesRegex(ValueError, "not a scalar"):
            nd.ones(2).asscalar()

    def test_values_that_come_are_the_callers_own(self):
        x = nd.ones(2)
        x.asnumpy()[:] = 7
        self.assert_equal(x, [1, 1])

    def test_values_that_go_are_copied_at_once(self):
        for size in (4, 1 << 18):
            values = np.ones(size, np.float32)
            x = nd.array(values)
            values[:] = 7
            self.assertEqual(x.sum().asscalar(), size)

    def test_values_that_custom_operators_find_here_are_nobody_else_s(self):
        class Holder:
            def __init__(self, values):
                self.values = values

            def __array__(self, dtype=None, copy=None):
                return self.values

        values = np.ones(3, np.float32)
        for source in (values, Holder(values), values[:2]):
            x = nd.array(source)
            values[0] = 5
            np.testing.assert_array_equal(x._known(), np.ones(len(x._known())))
            values[0] = 1

    def test_conversion_and_copies(self):
        x = nd.array([1.7, 2.2])
        self.assert_equal(x.astype("int32"), [1, 2], np.int32)
        self.assertIs(x.astype("float32", copy=False), x)
        for other in (x.copy(), copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            other += 1
            self.assert_close(other, [2.7, 3.2])
        self.assert_close(x, [1.7, 2.2])

    def test_copyto_converts_to_the_targets_type(self):
        y = nd.zeros(2, dtype="int32")
        self.assertIs(nd.array([1.7, 2.2]).copyto(y), y)
        self.assert_equal(y, [1, 2], np.int32)

    def test_contexts(self):
        x = nd.ones(2, ctx=mx.cpu(1))
        self.assertEqual(str(x.context), "cpu(1)")
        self.assertEqual(x.as_in_context(mx.cpu(0)).context, mx.cpu(0))
        self.assertIs(x.as_in_context(mx.cpu(1)), x)
        with mx.cpu(2):
            self.assertEqual(nd.zeros(1).context, mx.cpu(2))
            self.assertEqual(mx.current_context(), mx.Context("cpu", 2))
        self.assertEqual(nd.zeros(1).context, mx.cpu())

    def test_a_device_that_is_not_there_is_named_with_those_that_are(self):
        with self.assertRaisesRegex(mx.MXNetError, r"gpu\(7\).*cpu"):
            nd.zeros(1, ctx=mx.gpu(7))


if __name__ == "__main__":
    case_runner.main()
