"""How a server is reached that wants encryption, or to know who calls: files, by argument or by the environment."""

from __future__ import annotations

import functools
import ipaddress
import os
import pathlib
import re
import threading
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

import grpc

from ..base import MXNetError

Metadata = Optional[Tuple[Tuple[str, str], ...]]

_TOKEN = re.compile(rb"[!-~]+")


_JOIN_SECONDS = 5.0


class Channel:
    """A channel whose calls carry metadata; what this module's users need of a grpc.Channel."""

    def __init__(self, plain: grpc.Channel, metadata: Metadata) -> None:
        self._plain = plain
        self._metadata = metadata
        self._threads: Set[threading.Thread] = set()

    def unary_unary(self, *method: Any) -> Callable[..., Any]:
        """As grpc.Channel's."""
        return functools.partial(self._plain.unary_unary(*method), metadata=self._metadata)

    def unary_stream(self, *method: Any) -> Callable[..., Any]:
        """As grpc.Channel's."""
        return self._noted(self._plain.unary_stream(*method))

    def stream_stream(self, *method: Any) -> Callable[..., Any]:
        """As grpc.Channel's, of one stream at a time. Its iterator calls note_thread()."""
        return self._noted(self._plain.stream_stream(*method))

    def _noted(self, method: Any) -> Callable[..., Any]:
        def call(request: Any) -> Any:
            started = method(request, metadata=self._metadata)
            started.add_done_callback(lambda _: self.note_thread())  # Called in the thread that has the channel's events.
            return started

        return call

    def note_thread(self) -> None:
        """This thread is one of gRPC's that serve this channel's calls."""
        self._threads = {thread for thread in self._threads if thread.is_alive()} | {threading.current_thread()}

    def close(self) -> None:
        """Ends all calls, and with them the threads that serve them."""
        self._plain.close()
        for thread in self._threads - {threading.current_thread()}:
            thread.join(_JOIN_SECONDS)


class Access(NamedTuple):
    """Paths; of certificates and keys in PEM. See `mx.connect`."""

    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    token_file: str = ""

    @staticmethod
    def of(variables: Mapping[str, str] = os.environ, **given: Optional[str]) -> Access:
        """The arguments that are given, else GLUOND_TLS_CA, GLUOND_TLS_CERT, GLUOND_TLS_KEY and GLUOND_TOKEN_FILE."""
        return Access(
            *[
                variables.get(f"GLUOND_{name.upper()}", "") if given.get(name) is None else str(given[name])
                for name in Access._fields
            ]
        )

    @property
    def environment(self) -> Dict[str, str]:
        """The variables that say the same."""
        return {f"GLUOND_{name.upper()}": path for name, path in self._asdict().items() if path}

    def channel(self, address: str, options: List[Tuple[str, Any]]) -> Channel:
        """A channel to the server. MXNetError: as check()."""
        authorities, certificate, key, metadata = self.check(address)
        if authorities:
            return Channel(
                grpc.secure_channel(address, grpc.ssl_channel_credentials(authorities, key, certificate), options), metadata
            )
        return Channel(grpc.insecure_channel(address, options=options), metadata)

    def check(self, address: str) -> Tuple[Optional[bytes], Optional[bytes], Optional[bytes], Metadata]:
        """The authorities, the certificate and its key, and the metadata of calls to this address. MXNetError: a file cannot be
        read, or a token would travel in clear."""
        token = (_read("token_file", self.token_file) or b"").strip()
        if self.token_file and not _TOKEN.fullmatch(token):
            raise MXNetError(f"token_file={self.token_file} has no token: want one line of printable ASCII without blanks")
        metadata = (("authorization", f"Bearer {token.decode()}"),) if token else None
        authorities, certificate, key = (_read(name, getattr(self, name)) for name in ("tls_ca", "tls_cert", "tls_key"))
        if bool(certificate) != bool(key) or (certificate and not authorities):
            raise MXNetError("tls_cert, tls_key and tls_ca go together: give all three, or tls_ca alone")
        if self.token_file and not authorities and not _is_local(address):
            raise MXNetError(
                f"the token of token_file would travel to {address} in clear; give tls_ca, the authority of "
                "the server's certificate"
            )
        return authorities, certificate, key, metadata


def _is_local(address: str) -> bool:
    """Whether nobody but this machine can have the address: a name may be anybody's, be it 127.example.org."""
    if address.startswith(("unix:", "unix-abstract:", "localhost:", "[::1]:")):
        return True
    try:
        return ipaddress.IPv4Address(address.rsplit(":", 1)[0]).is_loopback
    except ValueError:
        return False


def _read(name: str, path: str) -> Optional[bytes]:
    if not path:
        return None
    try:
        return pathlib.Path(path).expanduser().read_bytes()
    except OSError as error:
        raise MXNetError(f"{name}={path} cannot be read: {error.strerror}") from None
