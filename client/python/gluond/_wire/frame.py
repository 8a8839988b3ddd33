"""The modes of the code that runs: one frozen Frame, which each thread and each coroutine has for itself.

    with Within(recording=True):
        frame().recording

A thread begins with the defaults, and a coroutine with the Frame of the code that has made it, as contextvars have it.
"""

from __future__ import annotations

import contextlib
import contextvars
from typing import Any, Callable, ContextManager, Dict, NamedTuple, Optional, Tuple

from .encoding import mode_flags

_FLAGS = {(recording, training): mode_flags(recording, training) for recording in (False, True) for training in (False, True)}
NOT_RECORDING = _FLAGS[False, False]


class Frame(NamedTuple):
    """The fields without a type belong to higher rooms, which give them their values."""

    recording: bool = False  # Whether commands are recorded,
    training: bool = False  # and whether they train.
    flags: bytes = NOT_RECORDING  # A command's fields for both.
    when_fresh: bytes = b""  # A field of every call that writes to an existing array: see only_if_fresh in _array/tape.py.
    called_back: bool = False  # The server waits for this code, so it must not wait for all commands.
    around_wait: Callable[[], ContextManager] = contextlib.nullcontext  # Around each wait for the server.
    make_local: Optional[Callable[..., Any]] = None  # Makes mx.nd.array()'s results in the code of a custom operator.
    context: Any = None  # The device of new arrays; None: cpu(0).
    on_host: bool = False  # Whether the samples of datasets are numpy arrays.
    names: Any = None  # The NameManager in charge; None: the thread's own.
    attributes: Any = None  # The AttrScope of symbols that are made.
    block_scope: Any = None  # The Block in whose name_scope() Blocks are made.
    np_shape: bool = False  # Whether 0 is a size in a shape and () that of one number: see util.np_shape.
    traced: bool = False  # Whether symbols stand for the arrays of a hybridized Block, which could run on arrays instead.
    # The `with` blocks around this code from the outermost on, each with the Frame before it and the names of the fields that it
    # has changed.
    entered: Tuple[Tuple[object, Any, Tuple[str, ...]], ...] = ()
    is_of_block: bool = False  # Whether nothing has changed since the last of them.


_frame: "contextvars.ContextVar[Frame]" = contextvars.ContextVar("gluond", default=Frame())
frame = _frame.get


def change(**fields: Any) -> None:
    """Gives the rest of this thread or coroutine other fields."""
    _set(frame(), fields, False)


def _set(before: Frame, fields: Dict[str, Any], is_of_block: bool) -> None:
    if "recording" in fields or "training" in fields:
        fields["flags"] = _FLAGS[fields.get("recording", before.recording), fields.get("training", before.training)]
    _frame.set(before._replace(is_of_block=is_of_block, **fields))


def enter(block: object, **fields: Any) -> None:
    """Changes fields until leave(block), which need not come in the order of `with` blocks: a generator may be left amid one."""
    before = frame()
    fields["entered"] = *before.entered, (block, before, tuple(fields))
    _set(before, fields, True)


def leave(block: object) -> None:
    """Gives the fields of the last enter(block) their values from before. Without one in this thread or coroutine, nothing."""
    current = frame()
    entered = current.entered
    for place in reversed(range(len(entered))):
        entered_block, before, names = entered[place]
        if entered_block is block:
            if current.is_of_block and place == len(entered) - 1:
                _frame.set(before)
            else:
                change(**{name: getattr(before, name) for name in names}, entered=entered[:place] + entered[place + 1 :])
            return


class Within:
    """A `with` block with other fields of the Frame. Any number of threads and coroutines may be in one, each any number of
    times."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def __enter__(self) -> "Within":
        enter(self, **self._fields)
        return self

    def __exit__(self, *exc: object) -> None:
        leave(self)
