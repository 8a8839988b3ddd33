"""Copies of arrays, Parameters, Blocks and Trainers train, and leave their originals alone."""

import copy
import pickle
import unittest

import gluond as mx
from gluond import autograd, gluon, nd
from gluond.gluon import nn
from tests import case_runner
from tests.client.python.array_case import ArrayCase

COPIES = (("deepcopy", copy.deepcopy), ("pickle", lambda thing: pickle.loads(pickle.dumps(thing))))


def dense():
    net = nn.Dense(1, in_units=2)
    net.initialize(mx.init.One())
    return net


def step(net, trainer=None):
    """One step on the sum of the outputs, whose gradient is one for each weight."""
    trainer = trainer or gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    with autograd.record():
        loss = net(nd.ones((1, 2))).sum()
    loss.backward()
    trainer.step(1)


class CopiesTest(ArrayCase):
    def test_a_copied_block_trains_and_its_original_stays(self):
        for name, copied in COPIES:
            for hybrid in (False, True):
                with self.subTest(name, hybrid=hybrid):
                    net = dense()
                    net.hybridize(hybrid)
                    net(nd.ones((1, 2)))
                    other = copied(net)
                    step(other)
                    self.assert_equal(other.weight.data(), [[0.5, 0.5]])
                    self.assert_equal(net.weight.data(), [[1, 1]])
                    step(net)
                    self.assert_equal(net.weight.data(), [[0.5, 0.5]])

    def test_a_shallow_copy_shares_parameters_but_not_the_list_of_children(self):
        net = nn.HybridSequential()
        net.add(dense())
        other = copy.copy(net)
        other.add(dense())
        self.assertEqual((len(net), len(other)), (1, 2))
        step(net)
        self.assert_equal(other[0].weight.data(), [[0.5, 0.5]])

    def test_a_copied_parameter_has_a_gradient_of_its_own(self):
        for name, copied in COPIES:
            with self.subTest(name):
                parameter = gluon.Parameter("w", grad_req="add", shape=(2,))
                parameter.initialize(mx.init.One())
                other = copied(parameter)
                for _ in range(2):
                    with autograd.record():
                        y = (other.data() * 3).sum()
                    y.backward()
                self.assert_equal(other.grad(), [6, 6])
                self.assert_equal(parameter.grad(), [0, 0])

    def test_a_copied_array_has_a_gradient_of_its_own(self):
        for name, copied in (*COPIES, ("copy", copy.copy)):
            with self.subTest(name):
                x = nd.array([1, 2])
                x.attach_grad()
                plain, other = copied(nd.ones(2)), copied(x)
                self.assertIsNone(plain.grad)
                with autograd.record():
                    y = (other * other).sum()
                y.backward()
                self.assert_equal(other.grad, [2, 4])
                self.assert_equal(x.grad, [0, 0])

    def test_a_copy_while_recording_is_a_computation(self):
        x = nd.array([1, 2])
        x.attach_grad()
        with autograd.record():
            y = (copy.deepcopy(x) * 3).sum()
        y.backward()
        self.assert_equal(x.grad, [3, 3])

    def test_a_network_and_its_trainer_are_copied_together(self):
        for name, copied in COPIES:
            with self.subTest(name):
                net = dense()
                trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5, "momentum": 1.0})
                step(net, trainer)
                other = copied((net, trainer))
                step(*other)
                self.assert_equal(other[0].weight.data(), [[-0.5, -0.5]])
                step(net, trainer)
                self.assert_equal(net.weight.data(), [[-0.5, -0.5]])


if __name__ == "__main__":
    case_runner.main()
