"""Memory that is freed and soon wanted again.

Arrays and messages of some hundred kilobytes come and go with every call. glibc gives their pages back to the kernel each
time, and getting them again costs more than computing with them: half the time of a custom operator on 64 x 1000
numbers. So up to 64 MiB stay with the process.
"""

from __future__ import annotations

import ctypes
import os
import platform

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # Numbers of mallopt(3).


def keep() -> None:
    """Keeps freed memory in this process from now on, unless its environment sets how glibc allocates, or it has
    another allocator."""
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return
    if platform.libc_ver()[0] != "glibc":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, 32 << 20)
    mallopt(_TRIM_THRESHOLD, 64 << 20)
