"""The places where the values of an array can be. `x._where` is one of them, and the only thing in which arrays differ:

    place     the values are                                     it keeps
    OnServer  on the server                                      what this process knows of them, of one version
    Part      among those of another array, its root: a view     the root, the range of elements, the name of their copy
    Here      in this process, and perhaps on the server, too    the values, the array's name on the server
    Lent      those of another array, only to be read            that array, and the values once they were fetched
    Later     those of another array that was assigned           a copy of that array, the array's name on the server
    Result    a result of a recorded function of this process    the recording, and the values if they are here
    Absent    nowhere                                            the reason

Part is in part.py, Result in _custom/recorded.py, and the others, which custom operators have, are in here.py. Any other array
begins OnServer or as a Part, and stays so; Here, Later and Result become OnServer when the server writes the array.

`x._name` is the name under which the server has the present values, or None where only the place knows it: `x._sent()` sends
what the server lacks, and returns the name.
"""

from __future__ import annotations

import itertools
from typing import Any, Optional

import numpy as np

# The versions of arrays: two threads that write at once never give an array a version that it had before.
_writes = itertools.count(1)
# The version of arrays that the server may write at any time, unseen by this process. It equals no version, itself neither.
UNSEEN = float("nan")
# Fetched values of up to so many bytes stay here. Larger arrays are fetched whole, up to a limit, once so many elements were
# read one by one that the round trips have cost as much time.
_SMALL_BYTES = 4 << 10
_BYTES_PER_READ = 16 << 10
MOST_BYTES = 1 << 20


class Place:
    """What all places can tell of their array x. most_kept: values of up to so many bytes stay here when they are fetched."""

    __slots__ = ()
    most_kept = 0
    writable = True
    here: Optional[np.ndarray] = None  # Values that this process has made or been given: nothing has to be waited for.

    def send(self, x: Any) -> Any:
        """x._sent(), where x._name is None."""
        raise NotImplementedError

    def known(self, x: Any) -> Optional[np.ndarray]:
        """The values, if they are here. The caller must not write them."""
        return self.here

    def ready(self, x: Any) -> Optional[np.ndarray]:
        """The values, if they are here, or would soon be, and the server could neither return others nor report an error."""
        return self.here

    def wants_all(self, x: Any) -> bool:
        """Whether a read of one element should fetch all values, which then stay here, as ready() has none."""
        return False

    def keep(self, x: Any, values: np.ndarray, version: float) -> None:
        """Values that came from the server, of this version, stay known. Nobody else writes to them."""

    def version(self, x: Any) -> Any:
        """Tells values before a write from those after it."""
        return x._version

    def has_history(self, x: Any) -> Optional[bool]:
        """Whether the values depend on marked arrays. None: only the server knows."""
        return None

    def computed_here(self, x: Any, gradient: Any) -> Any:
        """The recorded function of this process, unknown to the server, that computed x and through which a backward pass with
        this gradient goes on (see Recording.starts); else None."""

    def set(self, x: Any, key: Any, value: Any) -> bool:
        """x[key] = value, if this process does it."""
        return False

    def forget(self, x: Any) -> None:
        """The server is about to give x._name new values, or has done it."""

    def written(self, x: Any) -> None:
        """The server has given x._name new values."""
        self.forget(x)

    def free(self, x: Any) -> None:
        """x is gone; x._name was None."""


class OnServer(Place):
    """On the server, under x._name. What this process knows of them is true while x has this `version`.

    values: None if they are not here. is_constant: x was made of them. is_fetched: they came from the server, so no call that
    they depend on has failed. reads: how often elements were asked for. Nothing of it changes: arrays share ON_SERVER.
    """

    most_kept = _SMALL_BYTES
    __slots__ = ("_version", "_values", "_is_constant", "_is_fetched", "_reads")

    def __init__(
        self,
        version: float = UNSEEN,
        values: Optional[np.ndarray] = None,
        is_constant: bool = False,
        is_fetched: bool = False,
        reads: int = 0,
    ) -> None:
        self._version = version
        self._values = values
        self._is_constant = is_constant
        self._is_fetched = is_fetched
        self._reads = reads

    def known(self, x: Any) -> Optional[np.ndarray]:
        return self._values if self._version == x._version else None

    def ready(self, x: Any) -> Optional[np.ndarray]:
        return self._values if self._is_fetched and self._version == x._version and x._session.is_open else None

    def wants_all(self, x: Any) -> bool:
        version = x._version
        if version is UNSEEN or x._dtype is None or not x._session.is_open:
            return False
        reads = self._reads + 1 if self._version == version else 1
        if x.size * x._dtype.itemsize <= min(MOST_BYTES, reads * _BYTES_PER_READ):
            return True
        x._where = OnServer(version, self.known(x), self._is_constant and self._version == version, reads=reads)
        return False

    def keep(self, x: Any, values: np.ndarray, version: float) -> None:
        if version == x._version:
            x._where = OnServer(version, values, self.has_history(x) is False, is_fetched=True)

    def has_history(self, x: Any) -> Optional[bool]:
        return False if self._is_constant and self._version == x._version else None

    def forget(self, x: Any) -> None:
        if x._version is not UNSEEN:
            x._version = next(_writes)


ON_SERVER = OnServer()
