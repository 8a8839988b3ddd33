"""The protocol that this client speaks (OpenSession.protocol), and what it says to a server that is too old for it."""

from __future__ import annotations

import sys

import grpc

from .._proto import server_pb2
from .access import Channel

PROTOCOL = 3
# The oldest that a server may speak: from 3 on it has the operators that update many weights, `_multi_*`.
LOWEST_OF_SERVER = 3
# The optional parts that this client knows.
FEATURES = ("models-of-sessions", "optimizers", "pages", "registry-hash", "saved-sessions", "stored-datasets", "unknown-commands")
_INFO = "/gluond.v1.ServerService/GetServerInfo"
_INFO_SECONDS = 5.0


def release() -> str:
    """This client's release, as `0.1.0`."""
    version = str(getattr(sys.modules.get(__name__.partition(".")[0]), "__version__", "of an unknown release"))
    return version.rpartition("+gluond")[2]  # Before it stands MXNet's version.


def why_too_old(channel: Channel, protocol: int) -> str:
    """The reason why this client does not speak with a server of this protocol (0: it tells none), and the remedy; empty
    where it does."""
    if protocol >= LOWEST_OF_SERVER:
        return ""
    ask = channel.unary_unary(_INFO, server_pb2.GetServerInfoRequest.SerializeToString, server_pb2.GetServerInfoResponse.FromString)
    try:
        server = ask(server_pb2.GetServerInfoRequest(), timeout=_INFO_SECONDS).version
    except grpc.RpcError:
        server = "of an unknown release"
    return (
        f"the server is too old: gluond {server} speaks protocol {max(protocol, 1)}, and this client, gluond "
        f"{release()}, needs {LOWEST_OF_SERVER} or newer; start a newer server, or install the client of the server's "
        "release"
    )
