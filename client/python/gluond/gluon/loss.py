"""Losses: HybridBlocks of (prediction, label, sample_weight) that give one number for each sample.

With `weight`, a number, the loss is multiplied by it; with `sample_weight`, an array that broadcasts to it, as well. The
mean is over all axes but `batch_axis`, unless a loss says otherwise.
"""
from __future__ import annotations

import warnings
from typing import Any, Optional

import numpy as np

from .._array.array import NDArray
from ._hybrid_block import HybridBlock

__all__ = [
    "Loss",
    "L2Loss",
    "L1Loss",
    "SigmoidBinaryCrossEntropyLoss",
    "SigmoidBCELoss",
    "SoftmaxCrossEntropyLoss",
    "SoftmaxCELoss",
    "KLDivLoss",
    "CTCLoss",
    "HuberLoss",
    "HingeLoss",
    "SquaredHingeLoss",
    "LogisticLoss",
    "TripletLoss",
    "PoissonNLLLoss",
    "CosineEmbeddingLoss",
    "SDMLLoss",
]


def _apply_weighting(F: Any, loss: Any, weight: Optional[float] = None, sample_weight: Any = None) -> Any:  # noqa: N803
    """The loss times both weights. Other libraries' losses import this name."""
    if sample_weight is not None:
        loss = F.broadcast_mul(loss, sample_weight)
    if weight is None:
        return loss
    if not isinstance(weight, (int, float, np.number)):
        raise AssertionError(f"weight must be a number, not {type(weight).__name__}")
    return loss * weight


def _reshape_like(F: Any, x: Any, y: Any) -> Any:  # noqa: N803
    """`x` in the shape of `y`. Other libraries' losses import this name."""
    return F.reshape_like(x, y)


class Loss(HybridBlock):
    """Base class of losses."""

    def __init__(self, weight: Optional[float], batch_axis: Optional[int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._weight = weight
        self._batch_axis = batch_axis

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def _mean(self, F: Any, loss: Any) -> Any:  # noqa: N803
        """The mean loss of each sample."""
        return F.mean(loss, axis=self._batch_axis, exclude=True)


class L2Loss(Loss):
    """1/2 weight (label - pred)^2."""

    def __init__(self, weight: Optional[float] = 1.0, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        """pred and label of one size; -> (N,)."""
        half = None if self._weight is None else self._weight / 2
        return self._mean(F, _apply_weighting(F, F.square(F.reshape_like(label, pred) - pred), half, sample_weight))


class L1Loss(Loss):
    """|label - pred|."""

    def __init__(self, weight: Optional[float] = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        """pred and label of one size; -> (N,)."""
        loss = F.abs(F.reshape_like(label, pred) - pred)
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


class SigmoidBinaryCrossEntropyLoss(Loss):
    """-(label log p + (1 - label) log(1 - p)), with p = sigmoid(pred), or pred itself if `from_sigmoid`.

    `pos_weight` multiplies the first term. Without `from_sigmoid` it is computed as relu(x) - x z + softplus(-|x|).
    """

    def __init__(self, from_sigmoid: bool = False, weight: Optional[float] = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None, pos_weight: Any = None) -> Any:  # noqa: N803
        """pred and label of one size; pos_weight broadcasts to them; -> (N,)."""
        label = F.reshape_like(label, pred)
        if self._from_sigmoid:
            eps = 1e-12
            positive = F.log(pred + eps) * label
            if pos_weight is not None:
                positive = F.broadcast_mul(positive, pos_weight)
            loss = -(positive + F.log(1.0 - pred + eps) * (1.0 - label))
        else:
            softplus = F.Activation(-F.abs(pred), act_type="softrelu")
            if pos_weight is None:
                loss = F.relu(pred) - pred * label + softplus
            else:
                factor = 1 + F.broadcast_mul(pos_weight - 1, label)
                loss = pred - pred * label + factor * (softplus + F.relu(-pred))
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


class SoftmaxCrossEntropyLoss(Loss):
    """-sum_i label_i log softmax(pred)_i over `axis`.

    `sparse_label`: labels are class indices, of pred's shape without `axis`; otherwise probabilities of pred's shape.
    `from_logits`: pred is log(softmax) already.
    """

    def __init__(
        self,
        axis: int = -1,
        sparse_label: bool = True,
        from_logits: bool = False,
        weight: Optional[float] = None,
        batch_axis: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._axis = axis
        self._sparse_label = sparse_label
        self._classes: Optional[int] = None  # The first prediction's.
        self._has_told = False
        self._from_logits = from_logits

    def forward(self, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # type: ignore[override]
        """-> (N,). A label that is no class counts as the nearest; a warning tells of it once, if the label's values are here."""
        if self._sparse_label and sample_weight is None and isinstance(label, NDArray) and isinstance(pred, NDArray):
            self._tell_of_labels(pred, label)
        return super().forward(pred, label, *(() if sample_weight is None else (sample_weight,)))

    def _tell_of_labels(self, pred: Any, label: Any) -> None:
        values = None if self._has_told else label._known()
        if values is None or not values.size:
            return
        if self._classes is None:
            self._classes = pred.shape[self._axis]
        wrong = values.max() if values.max() >= self._classes else values.min()
        if not 0 <= wrong < self._classes:
            self._has_told = True
            warnings.warn(
                f"{type(self).__name__}: the label {wrong:g} is no class: there are {self._classes}, 0 to "
                f"{self._classes - 1}. It counts as the nearest",
                stacklevel=4,
            )

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        """-> (N,)."""
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        if self._sparse_label:
            loss = -F.pick(pred, label, axis=self._axis, keepdims=True)
        else:
            loss = -F.sum(pred * F.reshape_like(label, pred), axis=self._axis, keepdims=True)
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


SoftmaxCELoss = SoftmaxCrossEntropyLoss


class KLDivLoss(Loss):
    """label (log label - pred), with pred log-probabilities, or scores over `axis` unless `from_logits`.

    The sum of each sample, not the mean.
    """

    def __init__(
        self, from_logits: bool = True, axis: int = -1, weight: Optional[float] = None, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._axis = axis

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        """-> (N,)."""
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        loss = _apply_weighting(F, label * (F.log(label + 1e-12) - pred), self._weight, sample_weight)
        return F.sum(loss, axis=self._batch_axis, exclude=True)


class CTCLoss(Loss):
    """Connectionist temporal classification (Graves et al., 2006): -log of the probability of the label sequence.

    `layout` 'NTC' or 'TNC' of pred, before the softmax; the last class is the blank. `label_layout` 'NT' or 'TN'; labels
    that are shorter than the array are padded with -1, or have `label_lengths`.
    """

    def __init__(self, layout: str = "NTC", label_layout: str = "NT", weight: Optional[float] = None, **kwargs: Any) -> None:
        if layout not in ("NTC", "TNC"):
            raise AssertionError(f"Only 'NTC' and 'TNC' layouts for pred are supported. Got: {layout}")
        if label_layout not in ("NT", "TN"):
            raise AssertionError(f"Only 'NT' and 'TN' layouts for label are supported. Got: {label_layout}")
        super().__init__(weight, label_layout.find("N"), **kwargs)
        self._layout = layout

    def hybrid_forward(
        self,
        F: Any,
        pred: Any,
        label: Any,
        pred_lengths: Any = None,  # noqa: N803
        label_lengths: Any = None,
        sample_weight: Any = None,
    ) -> Any:
        """-> (N,)."""
        if self._layout == "NTC":
            pred = F.swapaxes(pred, 0, 1)
        if self._batch_axis == 1:
            label = F.swapaxes(label, 0, 1)
        lengths = {
            name: value for name, value in (("data_lengths", pred_lengths), ("label_lengths", label_lengths)) if value is not None
        }
        loss = F.CTCLoss(
            pred,
            label,
            **lengths,
            use_data_lengths=pred_lengths is not None,
            use_label_lengths=label_lengths is not None,
            blank_label="last",
        )
        return _apply_weighting(F, loss, self._weight, sample_weight)


class HuberLoss(Loss):
    """d = |label - pred|: d - rho/2 where d > rho, else d^2 / (2 rho)."""

    def __init__(self, rho: float = 1, weight: Optional[float] = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        """pred and label of one size; -> (N,)."""
        d = F.abs(F.reshape_like(label, pred) - pred)
        loss = F.where(d > self._rho, d - 0.5 * self._rho, (0.5 / self._rho) * F.square(d))
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


class HingeLoss(Loss):
    """max(0, margin - pred label), with labels -1 and 1."""

    def __init__(self, margin: float = 1, weight: Optional[float] = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        """pred and label of one size; -> (N,)."""
        loss = self._shape(F, F.relu(self._margin - pred * F.reshape_like(label, pred)))
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))

    def _shape(self, F: Any, hinge: Any) -> Any:  # noqa: N803
        return hinge


class SquaredHingeLoss(HingeLoss):
    """max(0, margin - pred label)^2, with labels -1 and 1."""

    def _shape(self, F: Any, hinge: Any) -> Any:  # noqa: N803
        return F.square(hinge)


class LogisticLoss(Loss):
    """log(1 + exp(-pred label)), with labels -1 and 1 ('signed'), or 0 and 1 ('binary')."""

    def __init__(self, weight: Optional[float] = None, batch_axis: int = 0, label_format: str = "signed", **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._label_format = label_format
        if label_format not in ("signed", "binary"):
            raise ValueError(f"label_format can only be signed or binary, recieved {label_format}.")

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        """pred and label of one size; -> (N,)."""
        label = F.reshape_like(label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        loss = F.relu(pred) - pred * label + F.Activation(-F.abs(pred), act_type="softrelu")
        return self._mean(F, _apply_weighting(F, loss, self._weight, sample_weight))


class TripletLoss(Loss):
    """max(0, sum (positive - anchor)^2 - sum (negative - anchor)^2 + margin)."""

    def __init__(self, margin: float = 1, weight: Optional[float] = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Any, positive: Any, negative: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        """Anchor, positive and negative samples, of one shape; -> (N,)."""
        positive, negative = F.reshape_like(positive, pred), F.reshape_like(negative, pred)
        distance = F.sum(F.square(positive - pred) - F.square(negative - pred), axis=self._batch_axis, exclude=True)
        return _apply_weighting(F, F.relu(distance + self._margin), self._weight, sample_weight)


class PoissonNLLLoss(Loss):
    """The negative log likelihood of counts: exp(pred) - target pred, or pred - target log(pred) unless `from_logits`.

    `compute_full` adds Stirling's approximation of log(target!) where target > 1. The mean is over everything: one number.
    """

    def __init__(
        self,
        weight: Optional[float] = None,
        from_logits: bool = True,
        batch_axis: int = 0,
        compute_full: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._compute_full = compute_full

    def hybrid_forward(
        self, F: Any, pred: Any, target: Any, sample_weight: Any = None, epsilon: float = 1e-08  # noqa: N803
    ) -> Any:
        """pred and target of one size; -> (1,)."""
        target = F.reshape_like(target, pred)
        loss = F.exp(pred) - target * pred if self._from_logits else pred - target * F.log(pred + epsilon)
        if self._compute_full:
            stirling = target * F.log(target + 1e-12) - target + 0.5 * F.log(2 * np.pi * (target + 1e-12))
            loss = loss + stirling * (target > 1)
        return F.mean(_apply_weighting(F, loss, self._weight, sample_weight))


class CosineEmbeddingLoss(Loss):
    """1 - cos(input1, input2) where the label is 1, max(0, cos - margin) where it is -1."""

    def __init__(self, weight: Optional[float] = None, batch_axis: int = 0, margin: float = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, input1: Any, input2: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        """Vectors of one shape (N, K), labels of N numbers; -> (N, 1)."""
        input1 = F.reshape_like(input1, input2)
        product = F.sum(input1 * input2, axis=-1).reshape((-1, 1))
        norms = F.norm(input1, axis=-1).reshape((-1, 1)) * F.norm(input2, axis=-1).reshape((-1, 1))
        cosine = product / F.maximum(norms, 1e-12)
        label = F.reshape(label, (-1, 1))
        loss = F.where(label == 1, 1.0 - cosine, F.relu(cosine - self._margin))
        return _apply_weighting(F, loss, self._weight, sample_weight)


class SDMLLoss(Loss):
    """Smoothed deep metric learning (Bonadiman et al., 2019), of two batches in which equal rows belong together."""

    def __init__(self, smoothing_parameter: float = 0.3, weight: Optional[float] = 1.0, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self.kl_loss = KLDivLoss(from_logits=True)
        self.smoothing_parameter = smoothing_parameter

    def hybrid_forward(self, F: Any, x1: Any, x2: Any) -> Any:  # noqa: N803
        """Two batches of vectors (N, K); -> (N,)."""
        similarities = F.log_softmax(-self._distances(F, x1, x2), axis=1)
        # N, also in a graph, where no shape is known yet.
        count = F.sum(F.ones_like(F.slice_axis(similarities, axis=1, begin=0, end=1)))
        same = _equal_rows(F, similarities)
        others = F.broadcast_div(self.smoothing_parameter * (1 - same), count - 1)
        labels = same * (1 - self.smoothing_parameter) + others
        return self.kl_loss(similarities, labels)

    @staticmethod
    def _distances(F: Any, x1: Any, x2: Any) -> Any:  # noqa: N803
        """Squares of the distances between all rows, (N, N)."""
        return F.sum(F.square(F.broadcast_sub(F.expand_dims(x1, 1), F.expand_dims(x2, 0))), axis=2)


def _equal_rows(F: Any, square: Any) -> Any:  # noqa: N803
    """The identity matrix of the size of `square`, (N, N)."""
    rows = F.cumsum(F.ones_like(square), axis=0)
    return rows == F.cumsum(F.ones_like(square), axis=1)
