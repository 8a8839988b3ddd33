"""Signs of life, so often that a server does not take its client for gone."""

from __future__ import annotations

import threading
import time
from typing import Callable, Optional


def start(name: str, beat: Callable[[], Optional[float]]) -> None:
    """Starts a background thread that calls `beat` again and again. `beat` returns the seconds until its next call;
    None ends the thread."""
    def run() -> None:
        while (pause := beat()) is not None:
            time.sleep(pause)

    threading.Thread(target=run, name=name, daemon=True).start()
