"""The server that this process computes on: `mx.connect`."""

from __future__ import annotations

from typing import Optional

from ._wire import connect as _connect  # First: gRPC must not have been loaded.
from . import _operators
from ._wire.access import Access

__all__ = ["connect", "disconnect"]


def connect(
    address: Optional[str] = None,
    *,
    tls_ca: Optional[str] = None,
    tls_cert: Optional[str] = None,
    tls_key: Optional[str] = None,
    token_file: Optional[str] = None,
) -> None:
    """Opens a session for all arrays from now on; those of an earlier session stay with that.

    address: `host:port`, or `unix:/path/of/socket`. None: GLUOND_ADDRESS, else a private server on this machine, which
        ends with this process.
    tls_ca: file of the authorities (PEM) whose server is trusted: connections are encrypted. None, as for the others:
        the environment's GLUOND_TLS_CA, GLUOND_TLS_CERT, GLUOND_TLS_KEY, GLUOND_TOKEN_FILE.
    tls_cert, tls_key: files of this client's certificate and its key (PEM), where the server asks for one.
    token_file: file of a bearer token, which each call carries.
    """
    _connect.replace(address, Access.of(tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key, token_file=token_file))
    _operators.forget()


def disconnect() -> None:
    """Ends the session: its arrays are gone, and so is the private server, if it had one. Models, datasets and saved sessions of
    another server stay. The next use of an array opens a session as `connect()` does."""
    _connect.disconnect()
    _operators.forget()
