"""Exceptions for the server's errors."""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Dict, List, Mapping

import grpc

from .._proto import error_details_pb2, status_pb2
from ..base import MXNetError
from .operator_errors import of_traceback

RESOURCE_EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
PERMISSION_DENIED = grpc.StatusCode.PERMISSION_DENIED.value[0]
_NOT_FOUND = grpc.StatusCode.NOT_FOUND.value[0]
_UNAVAILABLE = grpc.StatusCode.UNAVAILABLE.value[0]
_UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED.value[0]
_UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED.value[0]
_OUT_OF_RANGE = grpc.StatusCode.OUT_OF_RANGE.value[0]
_ABORTED = grpc.StatusCode.ABORTED.value[0]


class TooLarge(MXNetError):
    """An answer that no message holds."""


class IndexOutOfRange(MXNetError, IndexError):
    """An index that an operator has read from an array, and that is out of range."""


class StaleGradientError(MXNetError, UserWarning):
    """A Trainer's step without a new gradient. MXNet raises a UserWarning."""


def details_of(status: Any) -> Dict[str, Any]:
    """The details of a google.rpc.Status, by the names of their messages."""
    details: Dict[str, Any] = {}
    for packed in status.details:
        kind = getattr(error_details_pb2, packed.type_url.rpartition(".")[2], None)
        if kind is not None:
            details[kind.DESCRIPTOR.name] = kind.FromString(packed.value)
    return details


def details_of_call(error: grpc.RpcError) -> Dict[str, Any]:
    """As details_of(), for the error of a call. Empty: it is not the server's own."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            return details_of(status_pb2.Status.FromString(value))
    return {}


def is_unknown_command(failure: Any) -> bool:
    """Whether a Failure says that the server does not know the command."""
    if failure.status.code != _UNIMPLEMENTED:
        return False
    info = details_of(failure.status).get("ErrorInfo")
    return info is not None and info.reason == "UNKNOWN_COMMAND"


def _of_stale(names: List[str]) -> str:
    first, *others = names
    return (
        f"Gradient of {first} has not been updated by backward since last `step`. This could mean a bug in your model "
        "that made it only use a subset of the Parameters (Blocks) for this iteration. If you are intentionally only "
        "using a subset, call step with ignore_stale_grad=True to suppress this warning and skip updating of Parameters "
        "with stale gradient" + (f". The same holds for: {', '.join(others)}" if others else "")
    )


def _translated(text: str, renamed: Mapping[str, str]) -> str:
    """A message with the user's names in the place of those that nodes have on the wire (`fc~1`)."""

    def original(match: "re.Match[str]") -> str:
        bare = match.group().strip("'\"`(,.;")
        return match.group().replace(bare, renamed[bare]) if bare in renamed else match.group()

    return re.sub(r"[!-9;-~]+~\d+", original, text) if renamed else text


def of_failure(failure: Any, line: str, renamed: Mapping[str, str], name_of: Callable[[int], str]) -> MXNetError:
    """The error for a Failure in a Reply.

    line: where its command was given, as a traceback prints it; empty if the program is still there. renamed: nodes'
    names by those on the wire. name_of: an array's description, by its number.
    """
    text = _translated(failure.status.message, renamed)
    kind = IndexOutOfRange if failure.status.code == _OUT_OF_RANGE else MXNetError
    details = details_of(failure.status)
    info = details.get("ErrorInfo")
    if info is not None and info.reason == "STALE_GRADIENT":
        kind, text = StaleGradientError, _of_stale([name_of(int(number)) for number in info.metadata["arrays"].split(",")])
    traceback = details["DebugInfo"].detail if "DebugInfo" in details else ""
    if traceback:
        text += "\n\nThe custom operator's own traceback:\n" + traceback.rstrip()
    if line:
        text += "\n\nThe call that failed, made earlier:\n" + line.rstrip()
    error = of_traceback(traceback, text) if traceback else kind(text)
    error.reason = "" if info is None else info.reason
    return error


def way_out(code: int, details: str) -> str:
    """A sentence on what a program does about a server that does not let it in, in the words of this package; empty where the
    server's own say it."""
    if code == _UNAUTHENTICATED:
        return "Name the file of a token: mx.connect(..., token_file=...), or GLUOND_TOKEN_FILE."
    if code != _UNAVAILABLE:
        return ""
    details = details.lower()
    if "http1" in details:
        return "A server of HTTP/1 is there, and none of gRPC."
    if "wrong_version_number" in details or "wrong version number" in details:
        return "What is there speaks no TLS: leave tls_ca out, of mx.connect(...) and of GLUOND_TLS_CA."
    if "closed" in details or "connection reset" in details:
        return (
            "What is there takes connections and closes them: does it want TLS? Name its authority: mx.connect(..., tls_ca=...), "
            "or GLUOND_TLS_CA."
        )
    return "Is the server running there, and is the address right? `gluond serve` starts one."


def of_lost_session(address: str, existed: bool, code: int, details: str, remedy: str = "") -> MXNetError:
    """The error for a stream that ended for good. `existed`: whether there was a session. remedy: a sentence on what the
    session has saved."""
    if code == _UNIMPLEMENTED:
        return MXNetError(
            f"The server at {address} has no SessionService: it is older than this client, or no " f"gluond-server. ({details})"
        )
    if not existed:
        if code == _UNAVAILABLE:
            private = " Unset GLUOND_ADDRESS to use a private local server." if os.environ.get("GLUOND_ADDRESS") == address else ""
            return MXNetError(f"No gluond-server can be reached at {address}: {details}. {way_out(code, details)}{private}")
        return MXNetError(f"The server at {address} opens no session: {details} {way_out(code, details)}".rstrip())
    if code == _NOT_FOUND:
        why = f"The server at {address} no longer has this session: {details}."
    elif code == _UNAVAILABLE:
        why = f"The server at {address} has gone, or cannot be reached any more: {details}."
    elif code == _ABORTED:
        why = f"Another client has taken this session of the server at {address} over: {details}."
    else:
        why = f"The server at {address} has ended the session: {details}"
    return MXNetError(
        f"{why}\nEvery NDArray of this session, with its gradients and recorded history, is lost. "
        "mx.connect() opens a new session, for which arrays have to be made (or loaded) anew." + (f"\n{remedy}" if remedy else "")
    )
