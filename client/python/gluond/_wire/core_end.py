"""In a forked child, gRPC's core gets the time to end.

grpcio closes the parent's channels within fork(), in the child, and its older versions (1.51) end the child at once, with
exit code 64, if the core has not ended by then. A timer of a channel (of the flow control, say) that is due at that moment
runs in a thread of the core, which may let go of the channel some milliseconds later. Import this module after
GRPC_ENABLE_FORK_SUPPORT is set.
"""

from __future__ import annotations

import os
import time

try:
    from grpc._cython import cygrpc
except ImportError:
    cygrpc = None

# A child waits so long for the core.
END_SECONDS = 5.0
_THREADS = "/proc/self/task"


class _LastChannel:
    """grpcio takes this for one more channel. It closes all others, in whatever order they come, and waits until the core's
    threads have ended: a child has no other threads yet."""

    def _close_on_fork(self) -> None:
        for channel in cygrpc._fork_state.channels:
            if channel is not self:
                channel._close_on_fork()  # A second call does nothing.
        end = time.monotonic() + END_SECONDS
        while len(os.listdir(_THREADS)) > 1 and time.monotonic() < end:
            time.sleep(0.001)


if hasattr(cygrpc, "fork_register_channel") and hasattr(cygrpc, "_fork_state") and os.path.isdir(_THREADS):
    cygrpc.fork_register_channel(_LastChannel())
