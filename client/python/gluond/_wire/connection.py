"""The way of a session's commands and answers: a link, which is opened again when it breaks, and given up when its
state is in doubt. Commands in doubt are then sent once more; the server takes each command once, by its number.

Messages are kept until the server says that it has received them, and are sent again over a new stream when the old one
breaks.

A KeyboardInterrupt may come anywhere in the program's main thread, also while grpcio holds a lock, which it then never
releases. So an interrupted channel is given up, and the session goes on over a new one, with all commands in doubt. The
same happens if a signal's handler, or a finalizer, gives commands while its own thread waits here for an event, which
that thread may have taken already.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..base import MXNetError
from . import encoding, errors
from .access import Channel
from .batches import BATCH_BYTES, Batches
from .link import ABORTED, RETRY, UNAVAILABLE, Link, Waiter, greet

# Bytes of a message that are kept for the fields around the values; half of a very short message is.
MARGIN = 4096
# Bytes for the fields around a command that is alone in its message.
AROUND = 64
# For so long after a link was given up, its stream may still take the session over.
GIVEN_UP_SECONDS = 5.0
# After so long without a server, somebody who waits is told.
WARN_SECONDS = 3.0


class Connection:
    """See above. new_channel: makes one, for this stream alone. lost: makes the error for a stream that ended for good,
    (gRPC code, details) -> exception. is_gone: whether the server is known to be there no more.

    All that changes is guarded by `_lock`, which is never held while waiting or in gRPC; finalizers take no lock, they append
    to `dead_arrays` and `dead_calls`.
    """

    def __init__(self, new_channel: Callable[[], Channel], client_id: str,
                 lost: Callable[[int, str], Exception], is_gone: Callable[[], bool]) -> None:
        self.opened: Any = None
        self.patience = 0.0  # A broken stream is taken up again for so many seconds, or for the lease if that is longer.
        self._batches = Batches()
        # Names of arrays that nobody has any more; append() is all that a finalizer may do.
        self.dead_arrays, self.dead_calls = self._batches.dead_arrays, self._batches.dead_calls
        self._new_channel = new_channel
        self._link = Link(new_channel())
        self._client_id = client_id
        self._lost = lost
        self._is_gone = is_gone
        self._lock = threading.RLock()  # Never taken twice; an RLock knows its owner.
        self._stopped: Optional[Exception] = None
        self._finishing = False  # The stream's end is the session's.
        self._writing = True  # Until the stream stands.
        self._few = 0  # Commands that wait for others.
        self._waiters: Dict[int, Waiter] = {}
        # Failures of commands that have no answer in this client, and none that it can wait for.
        self.unasked: List[Any] = []
        self._replies = 0
        self._unacknowledged_bytes = 0
        self._gave_up = -math.inf
        self._ended = ""  # gRPC's words on the end of the last stream that stood.
        self._last_write = time.monotonic()

    @property
    def is_open(self) -> bool:
        """Whether the connection has not stopped."""
        return self._stopped is None

    @property
    def most_bytes(self) -> int:
        """The most bytes of commands, or of values, in a message."""
        most = self.opened.max_message_bytes
        return most - min(MARGIN, most // 2)

    def _watch(self, link: Link) -> None:
        """The life of the background thread of a link."""
        raise NotImplementedError

    # Messages.

    def _take(self, acknowledge: bool = False) -> bytes:
        """The next message, if there is one. Requires: none is being written; and _write() next.

        acknowledge: a message without commands, if there are none.
        """
        self._few = 0
        self._batches.append_free()
        message = b""
        if self._batches.something_to_send():
            message = self._batches.take(self._replies)
        elif acknowledge:
            message = encoding.received(self._replies)
        if message:
            self._writing = True
            self._link.writer = threading.get_ident()
            self._unacknowledged_bytes = 0
            self._last_write = time.monotonic()
        return message

    def _write(self, link: Link, message: bytes) -> None:
        """Starts to write the message of _take(). Not holding `_lock`."""
        if not message:
            return
        try:
            if link.stream is not None:
                link.stream.write(message)
            link.writer = None
        except BaseException as error:
            if not self._is_of_old(link, error):
                self._give_up(link)
                raise

    def _is_of_old(self, link: Link, error: BaseException) -> bool:
        """Whether an error came because another thread gave the link up: the new link sends everything again."""
        return link is not self._link and isinstance(error, Exception)

    def _receive(self, link: Link, response: Any, size: int) -> None:
        with self._lock:
            self._batches.drop_received(response.received)
            for reply in response.replies:
                if reply.index > self._replies:  # Else the reply came before, over another stream.
                    waiter = self._waiters.get(reply.number)
                    if waiter is not None:
                        waiter.finish(reply)
                        del self._waiters[reply.number]  # Not before: an interrupt may come in between.
                    elif reply.failures:
                        self.unasked += [failure for failure in reply.failures if errors.is_unknown_command(failure)]
                    self._replies = reply.index
            self._unacknowledged_bytes += size
            message = b""
            if self._unacknowledged_bytes > BATCH_BYTES and not self._writing and link is self._link:
                message = self._take(acknowledge=True)
        self._write(link, message)

    def _say_something(self) -> None:
        """Writes a message, be it an empty one, unless one is being written."""
        with self._lock:
            if self._stopped is not None or self._writing:
                return
            link, message = self._link, self._take(acknowledge=True)
        self._write(link, message)

    # Links.

    def _connect(self, link: Link, seconds: float) -> None:
        """Opens a stream and resumes the session, trying for so long; then stops with the last error."""
        begin = time.monotonic()
        deadline = begin + seconds
        pause, warned = 0.05, False
        while self._stopped is None and link is self._link:
            code, details = self._open(link)
            if code == 0:
                return
            if code not in RETRY or time.monotonic() + pause > deadline or self._is_gone():
                ended = f" (The stream before had ended with: {self._ended})" if self._ended and self._ended != details else ""
                self.stop(self._lost(code, details + ended))
                break
            if not warned and self.opened is not None and time.monotonic() - begin > WARN_SECONDS:
                warned = True
                sys.stderr.write(f"gluond: no answer from the server: {self._ended or details}. Calls wait for it for up to "
                                 f"{deadline - time.monotonic():.0f} s more; Ctrl-C ends a wait.\n")
            time.sleep(pause)
            pause = min(2 * pause, 2.0)
        if self.opened is None:
            raise self._stopped or MXNetError("the session has ended")

    def _open(self, link: Link) -> Tuple[int, str]:
        """Says hello; returns (0, "") when the session stands, else gRPC's code and details."""
        stream, response, code, details = greet(link.channel, self.opened.session if self.opened else "", self._client_id)
        if code != 0:
            return code, details
        with self._lock:
            if link is not self._link:
                stream.cancel()
                return UNAVAILABLE, "given up"
            self.opened = response.opened
            self._batches.most_bytes = self.most_bytes
            self._batches.longest = self.opened.max_message_bytes - AROUND
            self._batches.drop_received(response.received)
            self._batches.send_again()
            link.stream = stream
            self._writing = False
            message = self._take()
        self._write(link, message)
        self._receive(link, response, 0)
        return 0, ""

    def _broken(self, link: Link, code: int, details: str) -> None:
        with self._lock:
            if link is not self._link:
                return
            self._writing = True
            self._ended = details
            link.stream = None
        # A link that was given up while it said hello may have come after this one.
        came_late = code == ABORTED and time.monotonic() - self._gave_up < GIVEN_UP_SECONDS
        if self._finishing:
            self.stop(MXNetError("the session has ended"))
        elif code not in RETRY and not came_late:
            self.stop(self._lost(code, details))

    def _give_up(self, link: Link) -> None:
        """Goes on over a new link, if this is the current one."""
        if link is not self._link or self._stopped is not None:
            return
        new = Link(self._new_channel())
        with self._lock:
            if link is not self._link or self._stopped is not None:
                return
            self._link = new
            self._writing = True
            self._gave_up = time.monotonic()
        threading.Thread(target=self._watch, args=(new,), name="gluond-events", daemon=True).start()
        close = link.stream.close if link.stream is not None else link.channel.close
        threading.Thread(target=close, name="gluond-close", daemon=True).start()

    def stop(self, error: Exception) -> None:
        """Ends the session for this client: everybody who waits, and every later command, gets the error."""
        with self._lock:
            if self._stopped is None:
                self._stopped = error
            waiters = list(self._waiters.values())
            self._waiters.clear()
            stream = self._link.stream
        for waiter in waiters:
            waiter.finish(None)
        if stream is not None:
            stream.cancel()

    def finish(self, seconds: float) -> None:
        """Lets the server end the session now rather than with its lease, if that takes at most so many seconds."""
        link = self._link
        if self._stopped is not None or link.stream is None:
            return
        self._finishing = True
        link.stream.finish()
        end = time.monotonic() + seconds
        while link.stream is not None and time.monotonic() < end:
            time.sleep(0.001)
        self.stop(MXNetError("the session has ended"))

    def abandon(self, error: Exception) -> None:
        """After a fork, in the child: the stream and its locks belong to threads that are not here."""
        self._lock = threading.RLock()
        self._stopped = error
