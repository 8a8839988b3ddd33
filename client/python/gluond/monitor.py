"""`mx.mon`: what operators compute and what parameters are, every so many batches.

    monitor = mx.mon.Monitor(100, pattern='.*weight|.*output')
    module.fit(batches, num_epoch=3, monitor=monitor)
"""
from __future__ import annotations

import logging
import math
import re
from typing import Any, Callable, List, Optional, Tuple

from . import ndarray
from ._array.array import NDArray

__all__ = ["Monitor"]


class Monitor:
    """Logs `stat_func(array)`, by default |x| / sqrt(size), of all arrays whose names match `pattern`.

    It does so every `interval` batches. Arrays are the operators' results, as `fc1_output`, with `monitor_all` their
    inputs as well; then the gradients of operators' inputs, as `fc1_backward_output1`; then the arguments and auxiliary
    states. `sort`: by name.

        monitor.install(executor)
        monitor.tic()
        executor.forward(is_train=True)
        monitor.toc_print()
    """

    def __init__(
        self,
        interval: int,
        stat_func: Optional[Callable[[NDArray], Any]] = None,
        pattern: str = ".*",
        sort: bool = False,
        monitor_all: bool = False,
    ) -> None:
        self.interval = interval
        self.stat_func = stat_func or _size_of_elements
        self.re_prog = re.compile(pattern)
        self.sort = sort
        self.monitor_all = monitor_all
        self.activated = False
        self.queue: List[Tuple[int, str, Any]] = []
        self.step = 0
        self.exes: List[Any] = []

    def stat_helper(self, name: str, array: NDArray) -> None:
        """Keeps what is to be told of an array, between `tic` and `toc`."""
        if self.activated and self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def install(self, exe: Any) -> None:
        """Watches an Executor, too."""
        exe.set_monitor_callback(self.stat_helper, self.monitor_all)
        self.exes.append(exe)

    def tic(self) -> None:
        """Before a batch."""
        if self.step % self.interval == 0:
            self.queue = []
            self.activated = True
        self.step += 1

    def toc(self) -> List[Tuple[int, str, str]]:
        """After a batch: (number of the batch, name, text) of each array; none where this batch is not watched."""
        if not self.activated:
            return []
        for exe in self.exes:
            for name, array in [*exe.arg_dict.items(), *exe.aux_dict.items()]:
                self.stat_helper(name, array)
        self.activated = False
        queue, self.queue = self.queue, []
        if self.sort:
            queue.sort(key=lambda each: each[1])
        return [(step, name, _text(values)) for step, name, values in queue]

    def toc_print(self) -> None:
        """`toc`, logged."""
        for step, name, text in self.toc():
            logging.info("Batch: %7d %-30s %s", step, name, text)


def _size_of_elements(array: NDArray) -> NDArray:
    return ndarray.norm(array) / math.sqrt(array.size)


def _text(values: Any) -> str:
    values = [values] if isinstance(values, NDArray) else values
    if not isinstance(values, list) or not all(isinstance(value, NDArray) for value in values):
        raise AssertionError("Monitor: stat_func gives an NDArray, or a list of them.")
    arrays = [value.asnumpy() for value in values]
    return "".join(f"{array[0] if array.shape == (1,) else array}\t" for array in arrays)
