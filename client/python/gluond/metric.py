"""`mx.metric`: measures of predictions. `metric.update(labels, preds)` for each batch, then `metric.get()`.

Values are fetched and computed here, with numpy, so an update waits for the predictions.
"""
from __future__ import annotations

from . import ndarray  # noqa: F401  # Libraries take it from here.
from ._metric import CompositeEvalMetric, EvalMetric, alias, check_label_shapes, create, register
from ._metric_classes import F1, MCC, PCC, Accuracy, Perplexity, TopKAccuracy
from ._metric_values import (
    MAE,
    MSE,
    RMSE,
    Caffe,
    CrossEntropy,
    CustomMetric,
    Loss,
    NegativeLogLikelihood,
    PearsonCorrelation,
    Torch,
)
from ._metric_values import from_numpy as np

__all__ = [
    "EvalMetric",
    "CompositeEvalMetric",
    "Accuracy",
    "TopKAccuracy",
    "F1",
    "MCC",
    "PCC",
    "Perplexity",
    "MAE",
    "MSE",
    "RMSE",
    "CrossEntropy",
    "NegativeLogLikelihood",
    "PearsonCorrelation",
    "Loss",
    "Torch",
    "Caffe",
    "CustomMetric",
    "np",
    "create",
    "register",
    "alias",
    "check_label_shapes",
]
