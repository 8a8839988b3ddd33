"""Workers of a DataLoader: processes that were forked from this one, each with a pipe.

They inherit the dataset, so that only indices and batches have to be pickled. A worker reports that it runs before it
is used; a worker without a report was stuck in its fork, as other libraries' threads may cause, and another is started.
"""
from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import pickle
import queue
import signal
import traceback
from typing import Any, Callable, List, Sequence

Work = Callable[[Sequence[int]], Any]

_HELLO_SECONDS = 2.0
_ATTEMPTS = 10


class ForkedWorkers:
    """`run(indices)` is the result of `work(indices)` in a worker that is free; it is called by as many threads as there
    are workers.
    """

    def __init__(self, count: int, work: Work) -> None:
        self._all: List[_Worker] = []
        self._free: "queue.SimpleQueue[_Worker]" = queue.SimpleQueue()
        for _ in range(count):
            self._all.append(_started(work, [worker.pipe for worker in self._all]))
            self._free.put(self._all[-1])

    def run(self, indices: Sequence[int]) -> Any:
        """Raises the exception of `work`, with the worker's traceback; RuntimeError if the worker has ended."""
        worker = self._free.get()
        try:
            return worker.call(indices)
        finally:
            self._free.put(worker)

    def stop(self) -> None:
        """Ends the workers."""
        for worker in self._all:
            worker.process.kill()
            worker.pipe.close()


class _Worker:
    def __init__(self, process: Any, pipe: Any) -> None:
        self.process = process
        self.pipe = pipe

    def call(self, indices: Sequence[int]) -> Any:
        try:
            self.pipe.send(indices)
            batch, error, trace = pickle.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            self.process.join(1.0)
            raise RuntimeError(
                f"A worker of the DataLoader has ended with code {self.process.exitcode} (negative: the "
                "number of a signal). Look for the cause with num_workers=0."
            ) from None
        if error is not None:
            raise error from RuntimeError("in a worker of the DataLoader:\n" + trace)
        return batch


def _started(work: Work, pipes_of_others: Sequence[Any]) -> _Worker:
    """A worker that has reported that it runs."""
    context = multiprocessing.get_context("fork")
    for _ in range(_ATTEMPTS):
        own, its = context.Pipe()
        process = context.Process(target=_serve, args=(work, its, [own, *pipes_of_others]), daemon=True)
        process.start()
        its.close()
        with contextlib.suppress(EOFError):
            if own.poll(_HELLO_SECONDS):
                own.recv()
                return _Worker(process, own)
        process.kill()
        own.close()
    raise RuntimeError("DataLoader: no worker process could be started. Use thread_pool=True.")


def _serve(work: Work, pipe: Any, others: Sequence[Any]) -> None:
    """Runs in the worker: answers until the parent closes the pipe's other end, or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that trains.
    for other in others:
        other.close()
    pipe.send("ready")
    while True:
        try:
            indices = pipe.recv()
        except EOFError:
            return
        pipe.send_bytes(_answer(work, indices))


def _answer(work: Work, indices: Sequence[int]) -> bytes:
    """(batch, None, "") or (None, exception, traceback), pickled."""
    try:
        return pickle.dumps((work(indices), None, ""), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # pylint: disable=broad-except  # For the process that trains.
        trace = traceback.format_exc()
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # pylint: disable=broad-except
            error = RuntimeError(f"{type(error).__name__}: {error}")
        return pickle.dumps((None, error, trace), pickle.HIGHEST_PROTOCOL)
