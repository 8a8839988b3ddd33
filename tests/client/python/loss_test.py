"""Losses against their formulas, operator by operator and as graphs, with gradients by finite differences."""


import warnings
from unittest import mock

import numpy as np
from gluond import autograd, gluon, nd
from gluond.gluon import loss
from tests import case_runner
from tests.client.python.array_case import ArrayCase

RANDOM = np.random.RandomState(0)
PRED = RANDOM.uniform(-1, 1, (4, 3))
LABEL = RANDOM.uniform(-1, 1, (4, 3))
SHARE = RANDOM.uniform(0.1, 0.9, (4, 3))
COUNT = RANDOM.uniform(0.5, 4, (4, 3))
SIGN = np.sign(RANDOM.uniform(-1, 1, (4, 3)))
ZERO_ONE = (SIGN + 1) / 2
CLASS = np.array([0, 2, 1, 1.0])
WEIGHT = RANDOM.uniform(0.5, 2, (4, 1))
POSITIVE = RANDOM.uniform(0.5, 3, (1, 3))


def mean(x):
    return x.mean(1)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def log_softmax(x):
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def cosine(x, y):
    return (x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1))


def huber(x, y, rho):
    d = np.abs(x - y)
    return np.where(d > rho, d - rho / 2, d * d / (2 * rho))


def stirling(k):
    return np.where(k > 1, k * np.log(k) - k + 0.5 * np.log(2 * np.pi * k), 0)


def sdml(x, y):
    similar = log_softmax(-((x[:, None] - y[None]) ** 2).sum(2))
    labels = np.eye(4) * 0.7 + (1 - np.eye(4)) * 0.3 / 3
    return (labels * (np.log(labels) - similar)).sum(1)


# Loss, its inputs, its output.
CASES = {
    "L2": (loss.L2Loss(), (PRED, LABEL), mean((PRED - LABEL) ** 2) / 2),
    "L2 weighted": (loss.L2Loss(weight=3.0), (PRED, LABEL, WEIGHT), mean(1.5 * WEIGHT * (PRED - LABEL) ** 2)),
    "L1": (loss.L1Loss(), (PRED, LABEL), mean(abs(PRED - LABEL))),
    "L1 over the other axis": (loss.L1Loss(batch_axis=1, weight=2), (PRED, LABEL), 2 * abs(PRED - LABEL).mean(0)),
    "binary": (loss.SigmoidBCELoss(), (PRED, ZERO_ONE), mean(np.log1p(np.exp(PRED)) - PRED * ZERO_ONE)),
    "binary of probabilities": (
        loss.SigmoidBCELoss(from_sigmoid=True),
        (SHARE, ZERO_ONE, WEIGHT),
        mean(-WEIGHT * (ZERO_ONE * np.log(SHARE) + (1 - ZERO_ONE) * np.log(1 - SHARE))),
    ),
    "binary with weighted positives": (
        loss.SigmoidBCELoss(),
        (PRED, ZERO_ONE, WEIGHT, POSITIVE),
        mean(-WEIGHT * (POSITIVE * ZERO_ONE * np.log(sigmoid(PRED)) + (1 - ZERO_ONE) * np.log(1 - sigmoid(PRED)))),
    ),
    "softmax": (loss.SoftmaxCELoss(), (PRED, CLASS), -log_softmax(PRED)[np.arange(4), CLASS.astype(int)]),
    "softmax of probabilities": (
        loss.SoftmaxCELoss(sparse_label=False),
        (PRED, SHARE, WEIGHT),
        -(SHARE * log_softmax(PRED)).sum(1) * WEIGHT[:, 0],
    ),
    "softmax of logarithms": (
        loss.SoftmaxCELoss(from_logits=True),
        (log_softmax(PRED), CLASS),
        -log_softmax(PRED)[np.arange(4), CLASS.astype(int)],
    ),
    "KL": (loss.KLDivLoss(), (log_softmax(PRED), SHARE), (SHARE * (np.log(SHARE) - log_softmax(PRED))).sum(1)),
    "KL of scores": (
        loss.KLDivLoss(from_logits=False, weight=2),
        (PRED, SHARE),
        2 * (SHARE * (np.log(SHARE) - log_softmax(PRED))).sum(1),
    ),
    "Huber": (loss.HuberLoss(rho=0.3), (PRED, LABEL), mean(huber(PRED, LABEL, 0.3))),
    "hinge": (loss.HingeLoss(margin=0.7), (PRED, SIGN), mean(np.maximum(0, 0.7 - PRED * SIGN))),
    "squared hinge": (loss.SquaredHingeLoss(), (PRED, SIGN), mean(np.maximum(0, 1 - PRED * SIGN) ** 2)),
    "logistic": (loss.LogisticLoss(), (PRED, SIGN), mean(np.log1p(np.exp(-PRED * SIGN)))),
    "logistic of 0 and 1": (loss.LogisticLoss(label_format="binary"), (PRED, ZERO_ONE), mean(np.log1p(np.exp(-PRED * SIGN)))),
    "triplet": (
        loss.TripletLoss(margin=2),
        (PRED, LABEL, SHARE),
        np.maximum(0, ((LABEL - PRED) ** 2 - (SHARE - PRED) ** 2).sum(1) + 2),
    ),
    "Poisson": (loss.PoissonNLLLoss(), (PRED, COUNT), [(np.exp(PRED) - COUNT * PRED).mean()]),
    "Poisson in full": (
        loss.PoissonNLLLoss(from_logits=False, compute_full=True),
        (SHARE, COUNT),
        [(SHARE - COUNT * np.log(SHARE) + stirling(COUNT)).mean()],
    ),
    "cosine": (
        loss.CosineEmbeddingLoss(margin=0.1),
        (PRED, LABEL, SIGN[:, 0]),
        np.where(SIGN[:, 0] == 1, 1 - cosine(PRED, LABEL), np.maximum(0, cosine(PRED, LABEL) - 0.1))[:, None],
    ),
    "SDML": (loss.SDMLLoss(), (PRED, LABEL), sdml(PRED, LABEL)),
}


class LabelTest(ArrayCase):
    def test_a_label_that_is_no_class_is_told_once(self):
        scores = nd.ones((3, 4))
        for wrong, hybrid in ((4, False), (-1, False), (9, True)):
            with self.subTest(wrong, hybrid=hybrid):
                block = loss.SoftmaxCrossEntropyLoss()
                block.hybridize(hybrid)
                block(scores, nd.array([0, 3, 1]))
                with self.assertWarnsRegex(UserWarning, f"the label {wrong} is no class: there are 4, 0 to 3") as caught:
                    block(scores, nd.array([0, wrong, 1]))
                self.assertEqual(caught.filename, __file__)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    block(scores, nd.array([0, wrong, 1]))

    def test_labels_that_do_not_count_may_be_any(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            loss.SoftmaxCrossEntropyLoss()(nd.ones((2, 4)), nd.array([0, -1]), nd.array([[1], [0]]))
            loss.SoftmaxCrossEntropyLoss(sparse_label=False)(nd.ones((2, 4)), nd.ones((2, 4)) * 9)

    def test_the_check_waits_for_the_server_once_at_most(self):
        block, net = loss.SoftmaxCrossEntropyLoss(), gluon.nn.Dense(4, in_units=2)
        net.initialize()
        x, y = nd.ones((3, 2)), nd.array([0, 1, 2])
        loss.SoftmaxCrossEntropyLoss()(net(x), y)  # The operators are known from now on.
        with mock.patch.object(type(x._session), "request", autospec=True, side_effect=type(x._session).request) as request:
            for _ in range(5):
                with autograd.record():
                    block(net(x), y)
        self.assertEqual(request.call_count, 1)


class LossTest(ArrayCase):
    def check(self, block, inputs, expected):
        arrays = [nd.array(x) for x in inputs]
        self.assert_close(block(*arrays), expected)
        return arrays

    def test_values(self):
        for name, (block, inputs, expected) in CASES.items():
            for hybrid in (False, True):
                with self.subTest(name, hybrid=hybrid):
                    block.hybridize(hybrid)
                    self.check(block, inputs, expected)
            block.hybridize(False)

    def test_gradients(self):
        step = 1e-3
        for name, (block, inputs, _) in CASES.items():
            with self.subTest(name):
                x, *others = [nd.array(x, dtype="float64") for x in inputs]
                direction = nd.array(RANDOM.uniform(-1, 1, inputs[0].shape), dtype="float64")
                x.attach_grad()
                with autograd.record():
                    total = block(x, *others).sum()
                total.backward()
                numeric = (block(x + step * direction, *others).sum() - block(x - step * direction, *others).sum()) / (2 * step)
                self.assert_close((x.grad * direction).sum(), numeric.asnumpy(), 1e-4)

    def test_softmax_over_an_inner_axis(self):
        x = RANDOM.uniform(-1, 1, (2, 3, 4))
        labels = np.array([[0, 1, 2, 0], [1, 1, 0, 2]])
        scores = x - np.log(np.exp(x).sum(1, keepdims=True))
        expected = -np.take_along_axis(scores, labels[:, None], 1).mean((1, 2))
        self.check(loss.SoftmaxCrossEntropyLoss(axis=1), (x, labels), expected)

    def test_ctc_sums_over_the_alignments_of_a_short_sequence(self):
        x = RANDOM.uniform(-1, 1, (1, 2, 3))  # Two steps, two letters and the blank.
        p = np.exp(x) / np.exp(x).sum(2, keepdims=True)
        a, b = p[0]
        expected = -np.log(a[1] * b[1] + a[1] * b[2] + a[2] * b[1])  # "1" is 11, 1_ or _1.
        self.check(loss.CTCLoss(), (x, np.array([[1, -1]])), [expected])
        self.check(loss.CTCLoss(layout="TNC", label_layout="TN"), (x.swapaxes(0, 1), np.array([[1], [-1]])), [expected])

    def test_losses_print_and_are_checked(self):
        self.assertEqual(repr(loss.HuberLoss()), "HuberLoss(batch_axis=0, w=None)")
        with self.assertRaisesRegex(ValueError, "label_format can only be signed or binary"):
            loss.LogisticLoss(label_format="other")
        with self.assertRaisesRegex(AssertionError, "Only 'NTC' and 'TNC' layouts"):
            loss.CTCLoss(layout="NCT")
        with self.assertRaisesRegex(AssertionError, "weight must be a number"):
            loss.L1Loss(weight="a")(nd.ones((1, 1)), nd.ones((1, 1)))

    def test_an_own_loss(self):
        class Cube(gluon.loss.Loss):
            def hybrid_forward(self, F, pred, label):
                return F.mean(F.abs(pred - label) ** 3, axis=self._batch_axis, exclude=True)

        self.check(Cube(None, 0), (PRED, LABEL), mean(abs(PRED - LABEL) ** 3))

    def test_an_own_loss_with_mxnet_s_private_functions(self):
        class Absolute(loss.Loss):
            def hybrid_forward(self, F, pred, label, sample_weight=None):
                error = F.abs(loss._reshape_like(F, label, pred) - pred)
                return F.mean(loss._apply_weighting(F, error, self._weight, sample_weight), axis=0, exclude=True)

        self.check(Absolute(2, 0), (PRED, LABEL.reshape(-1), WEIGHT), mean(2 * WEIGHT * abs(PRED - LABEL)))


if __name__ == "__main__":
    case_runner.main()
