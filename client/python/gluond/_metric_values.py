"""Metrics of numbers: distances, likelihoods, correlation, and those that a program brings."""
from __future__ import annotations

import math
from typing import Any, Callable, Optional, Sequence

import numpy as np

from ._metric import EvalMetric, alias, as_list, check_label_shapes, register, values

Names = Optional[Sequence[str]]


class _Distance(EvalMetric):
    """The mean over batches of a distance of labels and predictions of one shape."""

    def __init__(self, name: str, output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)

    def _distance(self, difference: np.ndarray) -> float:
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(as_list(labels), as_list(preds))
        for label, pred in zip(map(values, labels), map(values, preds)):
            label = label[:, None] if label.ndim == 1 else label
            pred = pred[:, None] if pred.ndim == 1 else pred
            self.add(float(self._distance(label - pred)), 1)


@register
class MAE(_Distance):
    """Mean absolute error."""

    def __init__(self, name: str = "mae", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)

    def _distance(self, difference: np.ndarray) -> float:
        return np.abs(difference).mean()


@register
class MSE(_Distance):
    """Mean squared error."""

    def __init__(self, name: str = "mse", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)

    def _distance(self, difference: np.ndarray) -> float:
        return (difference**2.0).mean()


@register
class RMSE(_Distance):
    """Root of the mean squared error, of each batch."""

    def __init__(self, name: str = "rmse", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)

    def _distance(self, difference: np.ndarray) -> float:
        return np.sqrt((difference**2.0).mean())


@alias("ce")
class CrossEntropy(EvalMetric):
    """The mean of -log(p + eps), with p the predicted probability of the label; predictions (N, classes)."""

    def __init__(
        self, eps: float = 1e-12, name: str = "cross-entropy", output_names: Names = None, label_names: Names = None
    ) -> None:
        super().__init__(name, output_names, label_names, eps=eps)
        self.eps = eps

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(as_list(labels), as_list(preds))
        for label, pred in zip(map(values, labels), map(values, preds)):
            label = label.ravel()
            if label.shape[0] != pred.shape[0]:
                raise AssertionError(f"there are {label.shape[0]} labels, but {pred.shape[0]} predictions")
            chosen = pred[np.arange(label.size), label.astype(np.int64)]
            self.add(float(-np.log(chosen + self.eps).sum()), label.size)


@alias("nll_loss")
class NegativeLogLikelihood(CrossEntropy):
    """CrossEntropy, by another name."""

    def __init__(self, eps: float = 1e-12, name: str = "nll-loss", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(eps, name, output_names, label_names)


@alias("pearsonr")
class PearsonCorrelation(EvalMetric):
    """Pearson's correlation: the mean over batches ('macro'), or of all samples together ('micro')."""

    def __init__(
        self, name: str = "pearsonr", output_names: Names = None, label_names: Names = None, average: str = "macro"
    ) -> None:
        self.average = average
        super().__init__(name, output_names, label_names)

    def reset(self) -> None:
        self._sums = np.zeros(6)  # Number, x, y, x^2, y^2, x y.
        super().reset()

    def reset_local(self) -> None:
        self._sums = np.zeros(6)
        super().reset_local()

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(as_list(labels), as_list(preds))
        for label, pred in zip(map(values, labels), map(values, preds)):
            check_label_shapes(label, pred, False, True)
            x, y = pred.ravel().astype(np.float64), label.ravel().astype(np.float64)
            if self.average == "macro":
                self.add(float(np.corrcoef(x, y)[0, 1]), 1)
            else:
                self._sums += [x.size, x.sum(), y.sum(), (x * x).sum(), (y * y).sum(), (x * y).sum()]
                self.num_inst += 1
                self.global_num_inst += 1

    def get(self) -> Any:
        if self.average == "macro" or not self.num_inst:
            return super().get()
        n, x, y, xx, yy, xy = self._sums
        return self.name, float((n * xy - x * y) / math.sqrt((n * xx - x * x) * (n * yy - y * y)))


@register
class Loss(EvalMetric):
    """The mean of the network's outputs, for networks that output a loss. Labels are not looked at."""

    def __init__(self, name: str = "loss", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)

    def update(self, _: Any, preds: Any) -> None:
        for pred in map(values, as_list(preds)):
            self.add(float(pred.sum()), pred.size)


@register
class Torch(Loss):
    """Loss, by an old name."""

    def __init__(self, name: str = "torch", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)


@register
class Caffe(Loss):
    """Loss, by an old name."""

    def __init__(self, name: str = "caffe", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)


@register
class CustomMetric(EvalMetric):
    """`feval(label, prediction)` of numpy arrays: a number for the batch, or (sum, number of samples)."""

    def __init__(
        self,
        feval: Callable[[np.ndarray, np.ndarray], Any],
        name: Optional[str] = None,
        allow_extra_outputs: bool = False,
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        if name is None:
            name = getattr(feval, "__name__", "custom")
            name = f"custom({name})" if "<" in name else name
        self._feval = feval
        self._allow_extra_outputs = allow_extra_outputs
        super().__init__(name, output_names, label_names, feval=feval, allow_extra_outputs=allow_extra_outputs)

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = as_list(labels), as_list(preds)
        if not self._allow_extra_outputs:
            check_label_shapes(labels, preds)
        for pred, label in zip(map(values, preds), map(values, labels)):
            result = self._feval(label, pred)
            total, count = result if isinstance(result, tuple) else (result, 1)
            self.add(total, count)

    def get_config(self) -> dict:
        raise NotImplementedError("CustomMetric cannot be serialized")


def from_numpy(
    numpy_feval: Callable[[np.ndarray, np.ndarray], Any], name: Optional[str] = None, allow_extra_outputs: bool = False
) -> CustomMetric:
    """`mx.metric.np`: a CustomMetric of a function of numpy arrays (label, prediction)."""

    def feval(label: np.ndarray, pred: np.ndarray) -> Any:
        return numpy_feval(label, pred)

    feval.__name__ = getattr(numpy_feval, "__name__", "custom")
    return CustomMetric(feval, name, allow_extra_outputs)
