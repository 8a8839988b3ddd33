"""Values that were fetched are not asked for again, until the array changes: then the values are new."""

import unittest.mock

import numpy as np
from gluond import autograd, gluon, nd
from gluond._wire import connect
from gluond._wire.pipeline import Pipeline
from tests import case_runner
from tests.client.python.array_case import ArrayCase
from tests.client.python.beside import in_threads

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def questions(work):
    """How often the server is asked for something."""
    with unittest.mock.patch.object(Pipeline, "request", autospec=True, side_effect=Pipeline.request) as request:
        work()
    return request.call_count


def by_elements(x):
    """The values, read one by one."""
    return np.array([[x[i, j].asscalar() for j in range(x.shape[1])] for i in range(x.shape[0])])


def of_server(x):
    """The values, without those known here."""
    return connect.current().fetch_one(x._sent())


class KnownValuesTest(ArrayCase):
    def test_elements_are_the_server_s_bits_in_every_dtype(self):
        values = np.array([[1.1, -2.7, 3e4], [0, 1, 100]])
        for dtype in ("float32", "float64", "float16", "uint8", "int32", "int8", "int64"):
            with self.subTest(dtype=dtype):
                x = nd.array(values, dtype=dtype) * 1
                self.assert_equal(x[1], of_server(x[1]), np.dtype(dtype).type)
                self.assertEqual(by_elements(x).tobytes(), of_server(x).tobytes())
                for key in (1, slice(0, 1), (1, slice(1, 3)), -1):
                    self.assertEqual(x[key].asnumpy().tobytes(), of_server(x[key]).tobytes())
                    self.assertEqual(x[key].asnumpy().dtype, x.dtype)
                self.assertEqual(x.reshape((3, 2))[2].asnumpy().tobytes(), of_server(x.reshape((3, 2))[2]).tobytes())
        x = nd.array(values).astype("bfloat16")
        self.assertEqual(by_elements(x).tobytes(), of_server(x).tobytes())

    def test_a_loop_over_elements_asks_once(self):
        x = nd.array(X) * 2
        self.assertEqual(questions(lambda: self.assertEqual(by_elements(x).tolist(), (X * 2).tolist())), 1)
        self.assertEqual(questions(lambda: [float(row[0]) for row in x]), 0)
        self.assertEqual(questions(x.asnumpy), 0)

    def test_a_loop_over_elements_of_a_large_array_asks_for_all_of_it_in_the_end(self):
        x = nd.arange(100_000)
        asked = questions(lambda: self.assertEqual([x[i].asscalar() for i in range(1000)], list(range(1000))))
        self.assertLess(asked, 50)
        y = nd.arange(1_000_000)
        self.assertEqual(questions(lambda: [y[i].asscalar() for i in range(100)]), 100)

    def test_one_value_is_one_question_though_its_shape_is_not_known(self):
        for read, expected in ((nd.NDArray.asscalar, 66), (float, 66), (int, 66), (bool, True)):
            x = nd.array(X).sum()
            self.assertEqual(questions(lambda: self.assertEqual(read(x), expected)), 1)
        with self.assertRaisesRegex(ValueError, "not a scalar"):
            (nd.array(X).sum(axis=0)).asscalar()
        with self.assertRaisesRegex(TypeError, "of one element"):
            float(nd.array(X).sum(axis=0))
        with self.assertRaisesRegex(ValueError, "ambiguous"):
            bool(nd.array(X).sum(axis=0))

    def test_what_is_given_is_the_caller_s_own(self):
        x = nd.array(X)
        x.asnumpy()[:] = 7
        x[1].asnumpy()[:] = 8
        x.asnumpy()[:] = 9
        self.assert_equal(x, X)
        self.assert_equal(x[1], X[1])

    def test_every_write_is_seen(self):
        one = nd.ones((3, 4))
        writes = {
            "all": lambda x: x.__setitem__(slice(None), 5),
            "all, of numpy": lambda x: x.__setitem__(slice(None), X * 3),
            "all, of an array": lambda x: x.__setitem__(slice(None), one),
            "a part": lambda x: x.__setitem__((1, slice(0, 2)), 5),
            "a part, of an array": lambda x: x.__setitem__(2, one[0]),
            "chosen elements": lambda x: x.__setitem__(([0, 2], [1, 3]), 5),
            "in place": lambda x: x.__iadd__(one),
            "by out=": lambda x: nd.square(one * 3, out=x),
            "by a random one": lambda x: nd.random.uniform(2, 3, shape=(3, 4), out=x),
            "through a row": lambda x: x[1].__iadd__(1),
            "through a reshaped view": lambda x: x.reshape(-1)[5:7].__setitem__(slice(None), 50),
            "by copyto": lambda x: one.copyto(x),
            "by an optimizer": lambda x: nd.sgd_update(x, one, lr=0.5, out=x),
            "as an optimizer's state": lambda x: nd.sgd_mom_update(nd.ones((3, 4)), one, x, lr=0.5, momentum=0.9),
            "as the state of adam": lambda x: nd.adam_update(nd.ones((3, 4)), one, nd.ones((3, 4)), x, lr=0.5),
        }
        for how, write in writes.items():
            with self.subTest(how=how):
                x, row = nd.array(X), None
                row = x[1]
                before = by_elements(x), x.asnumpy(), row.asnumpy()
                write(x)
                now = of_server(x)
                self.assertFalse(np.array_equal(before[1], now))
                self.assertEqual(by_elements(x).tolist(), now.tolist())
                self.assertEqual(x.asnumpy().tolist(), now.tolist())
                self.assertEqual(row.asnumpy().tolist(), now[1].tolist())

    def test_states_that_a_layer_updates_are_seen(self):
        for hybridize in (False, True):
            with self.subTest(hybridize=hybridize):
                net = gluon.nn.BatchNorm()
                net.initialize()
                if hybridize:
                    net.hybridize()
                net(nd.array(X))
                mean = net.running_mean.data()
                self.assertEqual(mean[1].asscalar(), 0)
                with autograd.record():
                    net(nd.array(X))
                self.assertGreater(mean[1].asscalar(), 0)
                self.assertEqual(mean.asnumpy().tolist(), of_server(mean).tolist())

    def test_gradients_and_parameters_of_each_step_are_seen(self):
        weight = gluon.Parameter("w", shape=(3,))
        weight.initialize(init="ones")
        trainer = gluon.Trainer([weight], "sgd", {"learning_rate": 0.5})
        for step in range(3):
            with autograd.record():
                loss = (weight.data() * (step + 1)).sum()
            loss.backward()
            self.assertEqual([weight.grad()[i].asscalar() for i in range(3)], [step + 1] * 3)
            before = [weight.data()[i].asscalar() for i in range(3)]
            trainer.step(1)
            self.assertEqual([weight.data()[i].asscalar() for i in range(3)], [w - 0.5 * (step + 1) for w in before])

    def test_reading_while_recording_changes_no_gradient(self):
        x = nd.array(X)
        x.attach_grad()
        x.asnumpy()
        with autograd.record():
            row = x[1]
            factor = row[2].asscalar()
            y = (row * factor).sum()
        y.backward()
        self.assert_equal(x.grad, np.where(np.arange(3)[:, None] == 1, np.full((3, 4), 6), 0))

    def test_a_failure_is_raised_at_each_read(self):
        bad = nd.dot(nd.array(X), nd.array(X))
        bad._shape, bad._dtype = (3, 4), np.dtype(np.float32)
        for _ in range(3):
            with self.assertRaises(Exception):
                bad[1].asnumpy()
            with self.assertRaises(Exception):
                bad.asnumpy()

    def test_views_that_the_server_has_not_heard_of_leave_nothing_to_free(self):
        x = nd.array(X)
        x.asnumpy()
        nd.waitall()
        dead = x._session.dead_arrays
        before = len(dead)
        for _ in range(100):
            x[2][1].asscalar()
        self.assertLessEqual(len(dead), before)

    def test_threads_never_read_what_was_before_their_own_write(self):
        x = nd.zeros((4, 8))
        wrong = []

        def count(row):
            for i in range(1, 60):
                x[row] = i
                if x[row, 3].asscalar() != i:
                    wrong.append((row, i))

        in_threads(count, 4)
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    case_runner.main()
