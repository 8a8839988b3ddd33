"""Large arrays come in pieces, which are put together to the same bits."""

import unittest.mock

import numpy as np
from gluond import nd
from gluond._wire import connect, encoding
from gluond._wire.pipeline import Pipeline
from gluond.base import MXNetError
from tests import case_runner
from tests.client.python.array_case import ArrayCase

SIZE = 1_100_003  # Elements of 4 bytes: 4 pieces of 1 MiB and some.


class LargeArraysTest(ArrayCase):
    def test_they_are_the_bits_of_one_answer(self):
        numbers = np.random.default_rng(0).integers(0, 100, SIZE * 4)
        for dtype, size in (
            ("float32", SIZE),
            ("float64", SIZE),
            ("float16", SIZE * 2 + 1),
            ("uint8", SIZE * 4),
            ("int64", SIZE),
            ("bfloat16", SIZE * 2 + 1),
        ):
            with self.subTest(dtype=dtype):
                x = nd.array(numbers[:size], dtype="float32").astype(dtype).reshape((1, -1))
                self.assertGreater(x.size * np.dtype(x.dtype).itemsize, 4 << 20)
                whole = connect.current().fetch_one(x._sent())
                with unittest.mock.patch.object(
                    Pipeline, "request_each", autospec=True, side_effect=Pipeline.request_each
                ) as asked:
                    values = x.asnumpy()
                self.assertEqual(asked.call_count, 1)
                self.assertEqual((values.shape, values.dtype, values.tobytes()), (whole.shape, whole.dtype, whole.tobytes()))
                values[:] = 0  # The caller's own.

    def test_a_piece_is_that_part_of_the_array(self):
        x = nd.arange(10).reshape((2, 5)).copy()
        reply = connect.current().request(encoding.fetch_elements(x._sent(), 3, 7))
        self.assertEqual(np.frombuffer(reply.tensors[0].raw, np.float32).tolist(), [3, 4, 5, 6])
        with self.assertRaisesRegex(MXNetError, r"elements \[3, 11\) of an array of shape \[2,5\], which has 10"):
            connect.current().request(encoding.fetch_elements(x._sent(), 3, 11))

    def test_a_failure_is_raised_and_the_session_goes_on(self):
        bad = nd.dot(nd.ones((2, 3)), nd.ones((2, 3)))
        bad._shape, bad._dtype = (SIZE,), np.dtype(np.float32)
        for _ in range(2):
            with self.assertRaisesRegex(MXNetError, "dot"):
                bad.asnumpy()
        x = nd.ones((SIZE,))
        self.assertEqual(x.asnumpy().sum(), SIZE)

    def test_a_write_that_follows_is_not_in_what_was_asked_for_before(self):
        x = nd.zeros((SIZE,))
        submit, later = Pipeline.submit, []

        def write_in_between(self, command, tail=None, waiter=None, **more):
            submit(self, command, tail, waiter, **more)
            if waiter is not None and not later:  # The first piece has been asked for.
                later.append(True)
                x[:] = 1

        with unittest.mock.patch.object(Pipeline, "submit", write_in_between):
            values = x.asnumpy()
        self.assertEqual(values.sum(), 0)
        self.assertEqual(x.asnumpy().sum(), SIZE)


if __name__ == "__main__":
    case_runner.main()
