"""The older autograd of mx.contrib. The figures are those of MXNet 1.9.1."""

import gluond as mx
from gluond import nd
from gluond.contrib import autograd
from tests import case_runner
from tests.client.python.array_case import ArrayCase


class ContribAutogradTest(ArrayCase):
    def test_a_function_gets_its_gradients(self):
        x, y = nd.array([1, 2]), nd.array([3, 5])
        (of_x, of_y), loss = autograd.grad_and_loss(lambda a, b: (a * a * b).sum())(x, y)
        self.assert_equal(of_x, [6, 20])
        self.assert_equal(of_y, [1, 4])
        self.assert_equal(loss, [23])
        self.assert_equal(autograd.grad(lambda a, b: a * b, argnum=1)(x, y)[0], [1, 2])
        self.assertEqual(
            [each.asnumpy().tolist() for each in autograd.grad(lambda a, b: [a, a * b], [1, 0])(x, y)], [[1, 2], [4, 6]]
        )
        with self.assertRaisesRegex(AssertionError, "should NDArray"):
            autograd.grad(lambda a: a)(3)

    def test_sections_record_and_train(self):
        def modes():
            return mx.autograd.is_recording(), mx.autograd.is_training()

        with autograd.train_section():
            self.assertEqual(modes(), (True, True))
            with autograd.test_section():
                self.assertEqual(modes(), (False, False))
            self.assertEqual(modes(), (True, True))
        self.assertEqual(modes(), (False, False))
        self.assertFalse(autograd.set_is_training(True))
        self.assertTrue(autograd.set_is_training(False))

    def test_marked_arrays_get_gradients(self):
        x, gradient = nd.array([1, 2]), nd.zeros(2)
        autograd.mark_variables([x], [gradient])
        with autograd.train_section():
            y = x * 3
            z = x * x
        with self.assertRaisesRegex(AssertionError, "must be a list or tuple"):
            autograd.backward(y)
        with self.assertRaisesRegex(AssertionError, "the same length"):
            autograd.backward([y, z], [None])
        autograd.backward([y, z], [nd.array([1, 2]), None])
        self.assert_equal(gradient, [5, 10])


if __name__ == "__main__":
    case_runner.main()
