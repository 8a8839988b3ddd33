"""Metrics of classes: how often the right one is predicted, and how surely."""
from __future__ import annotations

import math
from typing import Any, Optional, Sequence

import numpy as np

from ._metric import EvalMetric, alias, as_list, check_label_shapes, register, values

Names = Optional[Sequence[str]]


@alias("acc")
class Accuracy(EvalMetric):
    """The share of right predictions; predictions are classes of the labels' shape, or scores over `axis`."""

    def __init__(self, axis: int = 1, name: str = "accuracy", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names, axis=axis)
        self.axis = axis

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(as_list(labels), as_list(preds))
        for label, pred in zip(map(values, labels), map(values, preds)):
            if pred.shape != label.shape:
                pred = pred.argmax(axis=self.axis)
            pred, label = pred.astype(np.int64).ravel(), label.astype(np.int64).ravel()
            check_label_shapes(label, pred)
            self.add(int((pred == label).sum()), label.size)


@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(EvalMetric):
    """The share of samples whose label is among the `top_k` highest scores of (N, classes)."""

    def __init__(self, top_k: int = 1, name: str = "top_k_accuracy", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names, top_k=top_k)
        if top_k <= 1:
            raise AssertionError("Please use Accuracy if top_k is no more than 1")
        self.top_k = top_k
        self.name += f"_{top_k}"

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(as_list(labels), as_list(preds))
        for label, pred in zip(map(values, labels), map(values, preds)):
            if pred.ndim > 2:
                raise AssertionError("Predictions should be no more than 2 dims")
            label = label.astype(np.int64).ravel()
            check_label_shapes(label, pred)
            best = pred[:, None] if pred.ndim == 1 else np.argsort(pred.astype(np.float32), axis=1)[:, -self.top_k :]
            self.add(int((best.astype(np.int64) == label[:, None]).any(axis=1).sum()), label.size)


class _Counts(EvalMetric):
    """Counts of true and false positives and negatives. `average`: 'macro' over batches, 'micro' over samples."""

    _has_global_stats = True

    def __init__(self, name: str, output_names: Names, label_names: Names, average: str) -> None:
        self.average = average
        super().__init__(name, output_names, label_names, average=average)

    def reset(self) -> None:
        self._counts = np.zeros((2, 2), np.int64)  # By label and prediction.
        self._global_counts = np.zeros((2, 2), np.int64)
        super().reset()

    def reset_local(self) -> None:
        self._counts = np.zeros((2, 2), np.int64)
        super().reset_local()

    def _score(self, counts: np.ndarray) -> float:
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(as_list(labels), as_list(preds))
        for label, pred in zip(map(values, labels), map(values, preds)):
            label = label.astype(np.int32).ravel()
            check_label_shapes(label, pred)
            if len(np.unique(label)) > 2:
                raise ValueError(f"{type(self).__name__} currently only supports binary classification.")
            counts = np.zeros((2, 2), np.int64)
            np.add.at(counts, ((label == 1).astype(int), (pred.argmax(axis=1) == 1).astype(int)), 1)
            self._counts += counts
            self._global_counts += counts
        size = int(self._counts.sum())
        if self.average == "macro":
            self.add(self._score(self._counts), 1)
            self._counts = np.zeros((2, 2), np.int64)
            self._global_counts = np.zeros((2, 2), np.int64)
        else:
            self.sum_metric, self.num_inst = self._score(self._counts) * size, size
            size = int(self._global_counts.sum())
            self.global_sum_metric, self.global_num_inst = self._score(self._global_counts) * size, size


@alias("f1")
class F1(_Counts):
    """2 precision recall / (precision + recall), of labels 0 and 1 and scores (N, 2)."""

    def __init__(self, name: str = "f1", output_names: Names = None, label_names: Names = None, average: str = "macro") -> None:
        super().__init__(name, output_names, label_names, average)

    def _score(self, counts: np.ndarray) -> float:
        both = 2 * counts[1, 1] + counts[0, 1] + counts[1, 0]
        return float(2 * counts[1, 1] / both) if both else 0.0


@alias("mcc")
class MCC(_Counts):
    """Matthews' correlation coefficient, of labels 0 and 1 and scores (N, 2)."""

    def __init__(self, name: str = "mcc", output_names: Names = None, label_names: Names = None, average: str = "macro") -> None:
        super().__init__(name, output_names, label_names, average)

    def _score(self, counts: np.ndarray) -> float:
        (tn, fp), (fn, tp) = counts.astype(float)
        if not counts.sum():
            return 0.0
        terms = [tp + fp, tp + fn, tn + fp, tn + fn]
        return (tp * tn - fp * fn) / math.sqrt(math.prod(term for term in terms if term))


@alias("pcc")
class PCC(EvalMetric):
    """The correlation of labels and predictions for any number of classes; for two it is the MCC."""

    def __init__(self, name: str = "pcc", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)

    def reset(self) -> None:
        self._counts = np.zeros((2, 2))
        self._global_counts = np.zeros((2, 2))
        super().reset()

    def reset_local(self) -> None:
        self._counts = np.zeros((2, 2))
        super().reset_local()

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(as_list(labels), as_list(preds))
        for label, pred in zip(map(values, labels), map(values, preds)):
            label = label.astype(np.int64).ravel()
            pred = pred.astype(np.int64).ravel() if pred.shape == label.shape else pred.argmax(axis=1)
            size = int(max(pred.max(), label.max())) + 1
            self._counts = _grown(self._counts, size)
            self._global_counts = _grown(self._global_counts, size)
            np.add.at(self._counts, (pred, label), 1)
            np.add.at(self._global_counts, (pred, label), 1)
            self.num_inst += 1
            self.global_num_inst += 1

    def get(self) -> Any:
        return self.name, _correlation(self._counts)

    def get_global(self) -> Any:
        return self.name, _correlation(self._global_counts)


def _grown(counts: np.ndarray, size: int) -> np.ndarray:
    more = max(0, size - len(counts))
    return np.pad(counts, ((0, more), (0, more)))


def _correlation(counts: np.ndarray) -> float:
    total = counts.sum()
    x, y = counts.sum(axis=1), counts.sum(axis=0)
    xx, yy = (x * (total - x)).sum(), (y * (total - y)).sum()
    xy = (counts.diagonal() * total - x * y).sum()
    return float(xy / math.sqrt(xx * yy)) if xx and yy else float("nan")


@register
class Perplexity(EvalMetric):
    """exp of the mean of -log of the probability of the labels, over the last axis; `ignore_label` is not counted."""

    def __init__(
        self,
        ignore_label: Optional[int] = None,
        axis: int = -1,
        name: str = "perplexity",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        super().__init__(name, output_names, label_names, ignore_label=ignore_label, axis=axis)
        self.ignore_label = ignore_label
        self.axis = axis

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(as_list(labels), as_list(preds))
        for label, pred in zip(map(values, labels), map(values, preds)):
            if label.size != pred.size // pred.shape[-1]:
                raise AssertionError(f"shape mismatch: {label.shape} vs. {pred.shape}")
            label = label.astype(np.int64).ravel()
            pred = np.moveaxis(pred, self.axis, -1).reshape(label.size, -1)
            chosen = pred[np.arange(label.size), np.clip(label, 0, pred.shape[1] - 1)]
            count = label.size
            if self.ignore_label is not None:
                ignored = label == self.ignore_label
                chosen = np.where(ignored, 1, chosen)
                count -= int(ignored.sum())
            self.add(float(-np.log(np.maximum(1e-10, chosen)).sum()), count)

    def _result(self, total: float, count: int) -> float:
        return math.exp(total / count)
