"""EvalMetric: a sum over samples, and their number."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Type, Union

import numpy as np

from ._array.array import NDArray
from ._registry import Registry


def as_list(value: Any) -> List[Any]:
    """The argument as a list, which may be one thing."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def values(array: Any) -> np.ndarray:
    """An array's numbers, here."""
    return array.asnumpy() if isinstance(array, NDArray) else np.asarray(array)


def check_label_shapes(labels: Any, preds: Any, wrap: bool = False, shape: bool = False) -> Tuple[Any, Any]:
    """ValueError unless there are as many labels as predictions (or, with `shape`, they have one shape).

    With `wrap`, single arrays become lists.
    """
    own, others = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if own != others:
        raise ValueError(f"Shape of labels {own} does not match shape of predictions {others}")
    return (as_list(labels), as_list(preds)) if wrap else (labels, preds)


class EvalMetric:
    """Base class. A subclass adds to `sum_metric` and `num_inst` in `update(labels, preds)`; they may be numbers or arrays.

    `output_names` and `label_names` choose from the dicts of `update_dict`. has_global_stats: the subclass adds to
    `global_sum_metric` and `global_num_inst`, too; otherwise `get_global` tells what `get` does.
    """

    _has_global_stats = False

    def __init__(
        self, name: str, output_names: Optional[Sequence[str]] = None, label_names: Optional[Sequence[str]] = None, **kwargs: Any
    ) -> None:
        self.name = str(name)
        self.output_names = output_names
        self.label_names = label_names
        self._has_global_stats = kwargs.pop("has_global_stats", self._has_global_stats)
        self._kwargs = kwargs
        self.reset()

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self) -> Dict[str, Any]:
        """The configuration that makes this metric again."""
        return {
            **self._kwargs,
            "metric": type(self).__name__,
            "name": self.name,
            "output_names": self.output_names,
            "label_names": self.label_names,
        }

    def update_dict(self, label: Dict[str, NDArray], pred: Dict[str, NDArray]) -> None:
        """`update` with the arrays of these names, or all of them."""
        preds = list(pred.values()) if self.output_names is None else [pred[name] for name in self.output_names]
        labels = list(label.values()) if self.label_names is None else [label[name] for name in self.label_names]
        self.update(labels, preds)

    def update(self, labels: Any, preds: Any) -> None:
        """Takes one batch: lists of arrays, or single ones."""
        raise NotImplementedError

    def add(self, total: float, count: int) -> None:
        """Adds a batch's sum and number of samples."""
        self.sum_metric += total
        self.num_inst += count
        self.global_sum_metric += total
        self.global_num_inst += count
        self._has_global_stats = True

    def reset(self) -> None:
        """Begins anew."""
        self.num_inst = 0
        self.sum_metric = 0.0
        self.global_num_inst = 0
        self.global_sum_metric = 0.0

    def reset_local(self) -> None:
        """Begins anew, but for the values of `get_global`."""
        self.num_inst = 0
        self.sum_metric = 0.0

    def _result(self, total: float, count: int) -> float:
        """The metric, of a sum over `count` samples."""
        return total / count

    def get(self) -> Tuple[Any, Any]:
        """(name, value); nan before the first update."""
        return self.name, self._result(self.sum_metric, self.num_inst) if self.num_inst else float("nan")

    def get_global(self) -> Tuple[Any, Any]:
        """(name, value) since `reset`, whatever `reset_local` forgot."""
        if not self._has_global_stats:
            return self.get()
        return self.name, (self._result(self.global_sum_metric, self.global_num_inst) if self.global_num_inst else float("nan"))

    def get_name_value(self) -> List[Tuple[str, Any]]:
        """[(name, value)]."""
        return _pairs(*self.get())

    def get_global_name_value(self) -> List[Tuple[str, Any]]:
        """[(name, value)] since `reset`."""
        return _pairs(*self.get_global())


def _pairs(name: Any, value: Any) -> List[Tuple[str, Any]]:
    return list(zip(name if isinstance(name, list) else [name], value if isinstance(value, list) else [value]))


_registry: Registry[EvalMetric] = Registry(EvalMetric, "metric")


def register(klass: Type[EvalMetric], name: Optional[str] = None) -> Type[EvalMetric]:
    """Class decorator: `create` finds the class by its lower-case name, or by another."""
    return _registry.register(klass) if name is None else _registry.add(klass, name, stacklevel=3)


def alias(*names: str) -> Callable[[Type[EvalMetric]], Type[EvalMetric]]:
    """Class decorator: the class is found by these names, too."""
    return _registry.alias(*names)


def create(metric: Any, *args: Any, **kwargs: Any) -> EvalMetric:
    """The metric of a name; of a function of (label, prediction); of a list of these; or itself."""
    if callable(metric) and not isinstance(metric, EvalMetric):
        return _registry.create("custommetric", metric, *args, **kwargs)
    if isinstance(metric, list):
        composite = CompositeEvalMetric()
        for part in metric:
            composite.add(create(part, *args, **kwargs))
        return composite
    return _registry.create(metric, *args, **kwargs)


@alias("composite")
class CompositeEvalMetric(EvalMetric):
    """Several metrics as one."""

    def __init__(
        self,
        metrics: Optional[Sequence[Union[str, EvalMetric]]] = None,
        name: str = "composite",
        output_names: Optional[Sequence[str]] = None,
        label_names: Optional[Sequence[str]] = None,
    ) -> None:
        self.metrics = [create(metric) for metric in metrics or []]
        super().__init__(name, output_names, label_names)

    def add(self, metric: Union[str, EvalMetric], *args: Any) -> None:  # type: ignore[override]
        """One more metric."""
        self.metrics.append(create(metric, *args))

    def get_metric(self, index: int) -> EvalMetric:
        """One of the metrics; a ValueError if there is none."""
        if not 0 <= index < len(self.metrics):
            raise ValueError(f"Metric index {index} is out of range 0 and {len(self.metrics)}")
        return self.metrics[index]

    def update_dict(self, labels: Dict[str, NDArray], preds: Dict[str, NDArray]) -> None:
        """Updates all of them."""
        if self.label_names is not None:
            labels = {name: labels[name] for name in labels if name in self.label_names}
        if self.output_names is not None:
            preds = {name: preds[name] for name in preds if name in self.output_names}
        for metric in self.metrics:
            metric.update_dict(labels, preds)

    def update(self, labels: Any, preds: Any) -> None:
        """Updates all of them. Values are fetched once for those of this package; others get the arrays."""
        fetched: Optional[Tuple[List[np.ndarray], List[np.ndarray]]] = None
        for metric in self.metrics:
            if not type(metric).update.__module__.startswith(__package__):
                metric.update(labels, preds)
                continue
            if fetched is None:
                fetched = [values(label) for label in as_list(labels)], [values(pred) for pred in as_list(preds)]
            metric.update(*fetched)

    def reset(self) -> None:
        """Begins anew."""
        for metric in self.metrics:
            metric.reset()

    def reset_local(self) -> None:
        """Begins anew, but for the values of `get_global`."""
        for metric in self.metrics:
            metric.reset_local()

    def get(self) -> Tuple[Any, Any]:
        """(names, values)."""
        return self._joined([metric.get() for metric in self.metrics])

    def get_global(self) -> Tuple[Any, Any]:
        """(names, values) since `reset`."""
        return self._joined([metric.get_global() for metric in self.metrics])

    @staticmethod
    def _joined(results: Sequence[Tuple[Any, Any]]) -> Tuple[List[str], List[Any]]:
        return (
            [name for names, _ in results for name in as_list(names)],
            [value for _, found in results for value in as_list(found)],
        )

    def get_config(self) -> Dict[str, Any]:
        """The configuration that makes this metric again."""
        return {**super().get_config(), "metrics": [metric.get_config() for metric in self.metrics]}
