"""A caller that waits for an answer, and the name of this process in a server's log."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any


class Waiter:
    """A caller that waits for the answer to a command. number: the command's; 0 before the command has been given."""

    __slots__ = ("number", "reply", "done", "signal")

    def __init__(self) -> None:
        self.number = 0
        self.reply: Any = None
        self.done = False
        self.signal = threading.Lock()
        self.signal.acquire()

    def finish(self, reply: Any) -> None:
        """Hands over the answer; None if there will be none. May be called again after an interrupt cut it short."""
        self.reply = reply
        self.done = True
        if self.signal.locked():
            self.signal.release()


def client_id() -> str:
    """The name of this process in a server's log: program and process id."""
    return f"{os.path.basename(sys.argv[0] if sys.argv else '') or 'python'}:{os.getpid()}"[:128]
