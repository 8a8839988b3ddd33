"""Recording, gradients, and gradients of gradients."""

import threading
import unittest
from unittest import mock

import gluond as mx
import numpy as np
from gluond import autograd, nd
from gluond._array import tape
from tests import case_runner
from tests.client.python.array_case import ArrayCase


def variable(values, grad_req="write"):
    x = nd.array(values)
    x.attach_grad(grad_req)
    return x


class BackwardTest(ArrayCase):
    def test_the_gradient_of_a_sum_of_squares(self):
        x = variable([1, 2, 3])
        with autograd.record():
            y = x * x
        y.backward()
        self.assert_equal(x.grad, [2, 4, 6])

    def test_gradients_begin_as_zeros(self):
        self.assert_equal(variable([1, 2]).grad, [0, 0])
        self.assertIsNone(nd.ones(1).grad)

    def test_a_head_gradient_weights_the_elements(self):
        x = variable([1, 2, 3])
        with autograd.record():
            y = x * x
        y.backward(nd.array([1, 10, 100]))
        self.assert_equal(x.grad, [2, 40, 600])

    def test_several_heads(self):
        x = variable([1, 2])
        with autograd.record():
            heads = [x * 2, x * 3]
        autograd.backward(heads, [nd.array([1, 1]), nd.array([10, 10])])
        self.assert_equal(x.grad, [32, 32])

    def test_write_overwrites_and_add_adds(self):
        for request, expected in (("write", 3), ("add", 6), ("null", None)):
            x = variable([1], request)
            z = variable([1])
            for _ in range(2):
                with autograd.record():
                    y = 3 * x + z
                y.backward()
            if expected is None:
                self.assertIsNone(x.grad)
            else:
                self.assert_equal(x.grad, [expected])

    def test_history_is_kept_on_demand(self):
        x = variable([2])
        with autograd.record():
            y = x * x
        y.backward(retain_graph=True)
        y.backward()
        self.assert_equal(x.grad, [4])

    def test_backward_twice_is_an_error_that_names_retain_graph(self):
        x = variable([2])
        with autograd.record():
            y = x * x
        for _ in range(2):
            y.backward(retain_graph=True)
        y.backward()
        for _ in range(2):
            with self.assertRaisesRegex(mx.MXNetError, "retain_graph"):
                y.backward()

    def test_backward_of_what_was_not_recorded_is_an_error(self):
        x = variable([2])
        with self.assertRaisesRegex(mx.MXNetError, "record"):
            (x * 2).backward()
        with autograd.record():
            y = nd.ones(2) * 2
        with self.assertRaisesRegex(mx.MXNetError, "record"):
            autograd.backward([y])

    def test_an_ordinary_backward_waits_where_its_line_runs_for_the_first_time_only(self):
        x = variable([2])
        waits = []
        for _ in range(4):
            with autograd.record():
                y = x * x
            with mock.patch.object(type(x._session), "request", autospec=True, side_effect=type(x._session).request) as request:
                y.backward()
            waits.append(request.call_count)
        self.assertEqual(waits, [1, 0, 0, 0])
        self.assert_equal(x.grad, [4])

    def test_detach_and_pause_cut_the_history(self):
        x = variable([3])
        with autograd.record():
            y = x.detach() * x
            with autograd.pause():
                z = x * x
            y = y + z
        y.backward()
        self.assert_equal(x.grad, [3])

    def test_attach_grad_cuts_an_array_off_its_history(self):
        x = variable([3])
        with autograd.record():
            y = x * 2
            y.attach_grad()
            z = y * y
        z.backward()
        self.assert_equal(y.grad, [12])
        self.assert_equal(x.grad, [0])

    def test_marked_variables_get_the_gradients_that_were_given(self):
        x, gradient = nd.array([1, 2]), nd.zeros(2)
        autograd.mark_variables([x], [gradient])
        with autograd.record():
            y = x * 5
        y.backward()
        self.assert_equal(gradient, [5, 5])
        self.assertIs(x.grad, gradient)


class GradTest(ArrayCase):
    def test_returns_gradients_and_leaves_grad_alone(self):
        x = variable([1, 2])
        with autograd.record():
            y = x * x
        (gradient,) = autograd.grad(y, [x])
        self.assert_equal(gradient, [2, 4])
        self.assert_equal(x.grad, [0, 0])

    def test_of_a_gradient(self):
        x = variable([2, 3])
        with autograd.record():
            y = x * x * x
            (first,) = autograd.grad(y, [x], create_graph=True, retain_graph=True)
        first.backward()
        self.assert_equal(x.grad, [12, 18])


class ModeTest(unittest.TestCase):
    def modes(self):
        return autograd.is_recording(), autograd.is_training()

    def test_scopes_set_both_and_restore_them(self):
        self.assertEqual(self.modes(), (False, False))
        with autograd.record():
            self.assertEqual(self.modes(), (True, True))
            with autograd.predict_mode():
                self.assertEqual(self.modes(), (True, False))
            with autograd.pause(train_mode=True):
                self.assertEqual(self.modes(), (False, True))
        with autograd.record(train_mode=False):
            self.assertEqual(self.modes(), (True, False))
        with autograd.train_mode():
            self.assertEqual(self.modes(), (False, True))
        self.assertEqual(self.modes(), (False, False))

    def test_setters_return_what_was(self):
        self.assertFalse(autograd.set_recording(True))
        self.assertTrue(autograd.set_recording(False))
        self.assertFalse(autograd.set_training(True))
        self.assertTrue(autograd.set_training(False))

    def test_each_thread_has_its_own(self):
        seen = []
        with autograd.record():
            thread = threading.Thread(target=lambda: seen.append(self.modes()))
            thread.start()
            thread.join()
        self.assertEqual(seen, [(False, False)])

    def test_dropout_works_in_training_mode_only(self):
        x = nd.ones(1000)
        self.assertEqual(nd.Dropout(x, p=0.5).sum().asscalar(), 1000)
        with autograd.train_mode():
            self.assertLess(np.count_nonzero(nd.Dropout(x, p=0.5).asnumpy()), 600)


class InPlaceTest(ArrayCase):
    def test_writing_to_a_marked_array_while_recording_is_refused(self):
        for write in (lambda x: x.__iadd__(1), lambda x: x.__setitem__(0, 1), lambda x: nd.relu(x, out=x)):
            with autograd.record(), self.assertRaisesRegex(mx.MXNetError, "already in a computational graph"):
                write(variable([1, 2]))

    def test_writing_what_depends_on_one_is_refused(self):
        x, y = variable([1, 2]), nd.zeros(2)
        with autograd.record(), self.assertRaisesRegex(mx.MXNetError, "Inplace operations"):
            y += x

    def test_other_arrays_may_be_written(self):
        x = nd.zeros(2)
        with autograd.record():
            x += 1
        self.assert_equal(x, [1, 1])

    def test_writing_after_the_record_scope_is_allowed(self):
        x = variable([1, 2])
        x[:] = 5
        x += 1
        self.assert_equal(x, [6, 6])
        with autograd.record():
            y = x * x
        y.backward()
        self.assert_equal(x.grad, [12, 12])

    def test_heads_may_be_the_values_of_a_dict(self):
        x = variable([1])
        with autograd.record():
            results = {"a": x * 2, "b": x * 3}
        autograd.backward(results.values())
        self.assert_equal(x.grad, [5])


class FreshTest(ArrayCase):
    def test_a_gradient_is_fresh_from_backward_to_its_use(self):
        x = variable([1])
        self.assertFalse(x._fresh_grad)
        with autograd.record():
            y = x * 2
        y.backward()
        self.assertTrue(x._fresh_grad)
        tape.clear_fresh([x])
        self.assertFalse(x._fresh_grad)

    def test_asking_hides_no_other_error(self):
        x = variable([1])
        with autograd.record():
            y = x * 2
        y.backward()
        lost = nd.dot(nd.ones((2, 3)), nd.ones((2, 3)))
        self.assertTrue(x._fresh_grad)
        with self.assertRaisesRegex(mx.MXNetError, "do not fit"):
            nd.waitall()
        del lost

    def test_writes_happen_only_if_it_is(self):
        x, y = variable([1]), nd.zeros(1)
        for expected in (0, 2):
            with tape.only_if_fresh(x):
                y += 1
                y[:] = y + 1
            self.assert_equal(y, [expected])
            with autograd.record():
                z = x * 2
            z.backward()


if __name__ == "__main__":
    case_runner.main()
