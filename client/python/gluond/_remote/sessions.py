"""Sessions that are left and come back to: what was computed stays on the server, under a name.

    mx.save_session("run-7", net=net, trainer=trainer, epoch=3)

    work = mx.attach("run-7")           # In any process, on any machine that has the key.
    work.trainer.step(64)

Each name has a key, which is kept in a file (keys.py). No value is downloaded.
"""

from __future__ import annotations

import datetime
import reprlib
import secrets
import sys
import warnings
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional

from .._array.array import NDArray
from .._proto import command_pb2, saved_session_pb2
from .._wire import connect, encoding
from .._wire.session import Session
from ..base import MXNetError
from ..gluon._block import Block
from ..gluon.trainer import Trainer
from . import arrays, calls, keys, manifest, methods
from .restoring import Restoration

__all__ = ["SavedSession", "Work", "attach", "delete_session", "save_session", "sessions"]

FEATURE = "saved-sessions"
# While a save is opened, others may save it again, so often.
_TRIES = 5


class SavedSession(NamedTuple):
    """A session's save under a name. bytes: of its arrays, of which there are so many. used: when it was last saved or
    opened. client: the program that saved it. stored: whether a restart of the server leaves it. version: counts the saves
    of the name."""

    name: str
    bytes: int
    arrays: int
    created: datetime.datetime
    used: datetime.datetime
    client: str
    stored: bool
    version: int

    @property
    def age(self) -> datetime.timedelta:
        """The time since it was saved."""
        return datetime.datetime.now(datetime.timezone.utc) - self.created

    @property
    def idle(self) -> datetime.timedelta:
        """The time since it was last saved or opened."""
        return datetime.datetime.now(datetime.timezone.utc) - self.used


class Work(Mapping[str, Any]):
    """The saved things, by name: `work.net`, `work["net"]`."""

    def __init__(self, saved: SavedSession, things: Dict[str, Any]) -> None:
        self._saved, self._things = saved, things

    def __getitem__(self, name: str) -> Any:
        return self._things[name]

    def __getattr__(self, name: str) -> Any:
        things = self.__dict__.get("_things", {})
        if name not in things:
            raise AttributeError(f"there is no '{name}' in what was saved; there are {', '.join(things) or 'none'}")
        return things[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self._things]

    def __repr__(self) -> str:
        width = max(map(len, self._things), default=0)
        return "\n".join(
            [
                f"<Work '{self._saved.name}', saved {self._saved.created.astimezone():%Y-%m-%d %H:%M}>",
                *[f"  {name:{width}}  {_short(value)}" for name, value in self._things.items()],
            ]
        )


def _short(value: Any) -> str:
    if isinstance(value, NDArray):
        return f"NDArray {'x'.join(map(str, value.shape)) or 'scalar'} of {getattr(value.dtype, '__name__', value.dtype)}"
    if isinstance(value, Block):
        return f"{type(value).__name__} of {len(value.collect_params().keys())} parameters"
    if isinstance(value, Trainer):
        return f"Trainer, {type(value.optimizer).__name__} after {value.optimizer.num_update} updates"
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, (list, tuple, dict)) else reprlib.repr(value)


def save_session(name: str, /, *, key: Optional[str] = None, **things: Any) -> str:
    """Saves things on the server under a name, as they are now, with the session's random state; returns the key, which
    attach() needs. An earlier save of the name is replaced.

        key = mx.save_session("run-7", net=net, trainer=trainer, epoch=3)

    things: arrays with their gradients, Blocks, Parameters and ParameterDicts, Trainers, numpy arrays, numbers, texts, None,
    and lists, tuples and dicts of these. Nothing: the calling module's variables that are, or hold, arrays, Blocks,
    parameters or Trainers. key: of the name, where this user's file of keys does not have it.

    From then on the server keeps the session itself for --session_grace_seconds while this process is cut off.
    MXNetError: something cannot be saved; the key is another one's.
    """
    session = _current()
    if not things:
        things = manifest.found_in(sys._getframe(1).f_globals)
        if not things:
            raise MXNetError(
                "there is nothing to save: no variable of the calling module is an NDArray, a Block, a Trainer "
                "or a ParameterDict, or holds some; name what is to be saved, as mx.save_session(name, net=net)"
            )
    made = manifest.Manifest(session)
    text = made.text(things)
    kept = key or keys.find(session, name)
    known = kept or secrets.token_hex(16)
    named = arrays.numbers({str(place): each for place, each in enumerate(made.arrays)})
    command = command_pb2.Command.SaveSession(name=name, key=known, arrays=named, manifest=text)
    if kept is None:
        _store_key(session, name, known)  # Before the server has it: whatever ends this program, the key is there.
    try:
        saved = session.request(encoding.message(encoding.SAVE_SESSION, command)).saved
    except MXNetError as error:
        if kept is None and session.is_open:
            keys.forget(session, name)
        raise _explained(error, session, name) from None
    _named(session, saved)
    if key is not None:
        _store_key(session, name, key)
    return known


def attach(name: str, /, *, key: Optional[str] = None, **things: Any) -> Work:
    """Opens in this session what was saved, with the random state of then.

        work = mx.attach("run-7")
        mx.attach("run-7", net=net, trainer=trainer)    # Into objects that the program has made as before.

    things: networks, ParameterDicts and trainers that are filled, in place of new ones: a network by the structural names of
    its parameters, as load_parameters does it. Others come as they were, and a HybridBlock as a SymbolBlock. key: what
    save_session returned, where this user's file of keys does not have it. MXNetError: there is no such save or key, or the
    things do not fit it.
    """
    session = _current()
    known = key or keys.find(session, name)
    if not known:
        raise MXNetError(
            f"there is no key of '{name}' in {keys.where(session)}; save_session has returned it: " f"mx.attach('{name}', key=key)"
        )
    for left in reversed(range(_TRIES)):
        try:
            work = _open(session, name, known, things)
            break
        except MXNetError as error:
            if error.reason != "VERSION_CHANGED" or left == 0:
                raise _explained(error, session, name) from None
    _store_key(session, name, known)
    return work


def _open(session: Session, name: str, key: str, given: Mapping[str, Any]) -> Work:
    command = command_pb2.Command.OpenSaved(name=name, key=key)
    saved = session.request(encoding.message(encoding.OPEN_SAVED, command)).saved
    restoration = Restoration(session, name, saved.manifest, saved.arrays)
    restoration.check(given)
    command.expected_version = saved.version
    command.arrays.update(arrays.numbers({str(place): each for place, each in enumerate(restoration.arrays)}))
    opened = session.request(encoding.message(encoding.OPEN_SAVED, command)).saved
    _named(session, opened)
    return Work(_described(opened), restoration.things(given))


def _named(session: Session, saved: Any) -> None:
    """The server keeps the session from now on while this process is cut off."""
    restart = "" if saved.stored else ", unless the server was restarted, as it has no --store_dir"
    created = _described(saved).created.astimezone()
    remedy = (
        f"mx.attach('{saved.name}') after mx.connect() gives what was saved at {created:%H:%M} on {created:%Y-%m-%d}" f"{restart}."
    )
    session.set_patience("" if session.local is not None else remedy, saved.grace.ToTimedelta().total_seconds())


def _store_key(session: Session, name: str, key: str) -> None:
    try:
        keys.store(session, name, key)
    except (MXNetError, OSError) as error:
        warnings.warn(f"the key of '{name}' could not be written to {keys.path()}: {error}. Keep it yourself: {key}", stacklevel=3)


def sessions() -> List[SavedSession]:
    """The saves on the server, by name: anybody's."""
    _current()
    pages = calls.current().pages(methods.LIST_SAVED_SESSIONS, saved_session_pb2.ListSavedSessionsRequest())
    return [_described(saved) for page in pages for saved in page.sessions]


def delete_session(name: str, key: Optional[str] = None) -> None:
    """Deletes what was saved under a name, and forgets its key. Sessions that have opened it keep their arrays."""
    session = _current()
    known = key or keys.find(session, name) or ""
    try:
        calls.current().delete(methods.DELETE_SAVED_SESSION, saved_session_pb2.DeleteSavedSessionRequest(name=name, key=known))
    except MXNetError as error:
        if error.reason == "NOT_FOUND":
            keys.forget(session, name)
        raise _explained(error, session, name) from None
    keys.forget(session, name)


def _current() -> Session:
    """The current session. MXNetError: its server cannot save."""
    session = connect.current()
    if FEATURE not in session.features:
        raise MXNetError(
            f"the server at {session.address} cannot save sessions, as it is older than this client; start a "
            "newer one, or write files: net.save_parameters, trainer.save_states"
        )
    return session


def _explained(error: MXNetError, session: Session, name: str) -> MXNetError:
    """The error, with the place of the key where that is what is wrong."""
    if error.reason in ("WRONG_KEY", "ALREADY_EXISTS"):
        error.args = (
            f"{error}. The keys of this user are in {keys.where(session)}; another one's key is given as key=, and "
            f"save_session('{name}') has returned it",
        )
    return error


def _described(saved: Any) -> SavedSession:
    def time(of: Any) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(of.seconds + of.nanos * 1e-9, datetime.timezone.utc)

    return SavedSession(
        saved.name,
        saved.bytes,
        saved.num_arrays,
        time(saved.created),
        time(saved.used),
        saved.client_id,
        saved.stored,
        saved.version,
    )
