"""Exceptions for what the server says."""

from __future__ import annotations

from typing import Any, Callable

import grpc

from ..base import MXNetError

_NOT_FOUND = grpc.StatusCode.NOT_FOUND.value[0]
_UNAVAILABLE = grpc.StatusCode.UNAVAILABLE.value[0]
_UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED.value[0]
_ABORTED = grpc.StatusCode.ABORTED.value[0]

# Makes the error from the traceback of a custom operator, and a text; _custom/errors.py knows the exceptions of its own.
of_traceback: Callable[[str, str], MXNetError] = lambda traceback, text: MXNetError(text)


def of_failure(failure: Any, line: str) -> MXNetError:
    """Of a Failure in a Reply; `line`: where its command was given, as a traceback prints it."""
    text = failure.message
    if failure.traceback:
        text += "\n\nThe custom operator's own traceback:\n" + failure.traceback.rstrip()
    if line:
        text += "\n\nThe call that failed, made earlier:\n" + line.rstrip()
    return of_traceback(failure.traceback, text) if failure.traceback else MXNetError(text)


def of_lost_session(address: str, existed: bool, code: int, details: str) -> MXNetError:
    """Of a stream that ended for good. `existed`: whether there was a session."""
    if code == _UNIMPLEMENTED:
        return MXNetError(f"The server at {address} has no SessionService: it is older than this client, or no "
                          f"gluond-server. ({details})")
    if not existed:
        if code == _UNAVAILABLE:
            return MXNetError(f"No gluond-server can be reached at {address}: {details}. Is it running, and is the "
                              "address right? Unset GLUOND_ADDRESS to use a private local server.")
        return MXNetError(f"The server at {address} opens no session: {details}")
    if code == _NOT_FOUND:
        why = f"The server at {address} no longer has this session: {details}."
    elif code == _UNAVAILABLE:
        why = f"The server at {address} has gone, or cannot be reached any more: {details}."
    elif code == _ABORTED:
        why = f"Another client has taken this session of the server at {address} over: {details}."
    else:
        why = f"The server at {address} has ended the session: {details}"
    return MXNetError(f"{why}\nEvery NDArray of this session, with its gradients and recorded history, is lost. "
                      "mx.connect() opens a new session, for which arrays have to be made (or loaded) anew.")
