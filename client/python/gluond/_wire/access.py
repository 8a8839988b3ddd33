"""How a server is reached that wants encryption, or to know who calls: files, by argument or by the environment."""

from __future__ import annotations

import functools
import ipaddress
import os
import pathlib
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import grpc

from ..base import MXNetError

Metadata = Optional[Tuple[Tuple[str, str], ...]]

_TOKEN = re.compile(rb"[!-~]+")


class Channel:
    """A channel whose calls carry metadata; what this module's users need of a grpc.Channel."""

    def __init__(self, plain: grpc.Channel, metadata: Metadata) -> None:
        self.plain = plain
        self.metadata = metadata
        self.subscribe, self.unsubscribe, self.close = plain.subscribe, plain.unsubscribe, plain.close

    def unary_unary(self, *method: Any) -> Callable[..., Any]:
        """As grpc.Channel's."""
        return functools.partial(self.plain.unary_unary(*method), metadata=self.metadata)

    def unary_stream(self, *method: Any) -> Callable[..., Any]:
        """As grpc.Channel's."""
        return functools.partial(self.plain.unary_stream(*method), metadata=self.metadata)

    def stream_stream(self, *method: Any) -> Callable[..., Any]:
        """As grpc.Channel's."""
        return functools.partial(self.plain.stream_stream(*method), metadata=self.metadata)


class Access(NamedTuple):
    """Paths; of certificates and keys in PEM. See `mx.connect`."""

    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    token_file: str = ""

    @staticmethod
    def of(**given: Optional[str]) -> Access:
        """What is given, else GLUOND_TLS_CA, GLUOND_TLS_CERT, GLUOND_TLS_KEY and GLUOND_TOKEN_FILE."""
        return Access(*[os.environ.get(f"GLUOND_{name.upper()}", "") if given.get(name) is None else str(given[name])
                        for name in Access._fields])

    @property
    def environment(self) -> Dict[str, str]:
        """The variables that say the same."""
        return {f"GLUOND_{name.upper()}": path for name, path in self._asdict().items() if path}

    def channel(self, address: str, options: List[Tuple[str, Any]]) -> Channel:
        """A channel to the server. MXNetError: a file cannot be read, or a token would travel in clear."""
        token = (_read("token_file", self.token_file) or b"").strip()
        if self.token_file and not _TOKEN.fullmatch(token):
            raise MXNetError(f"token_file={self.token_file} has no token: want one line of printable ASCII without blanks")
        metadata = (("authorization", f"Bearer {token.decode()}"),) if token else None
        return Channel(self._plain(address, options), metadata)

    def _plain(self, address: str, options: List[Tuple[str, Any]]) -> grpc.Channel:
        authorities, certificate, key = (_read(name, getattr(self, name)) for name in ("tls_ca", "tls_cert", "tls_key"))
        if bool(certificate) != bool(key) or (certificate and not authorities):
            raise MXNetError("tls_cert, tls_key and tls_ca go together: give all three, or tls_ca alone")
        if authorities:
            return grpc.secure_channel(address, grpc.ssl_channel_credentials(authorities, key, certificate), options)
        if self.token_file and not _is_local(address):
            raise MXNetError(f"the token of token_file would travel to {address} in clear; give tls_ca, the authority of "
                             "the server's certificate")
        return grpc.insecure_channel(address, options=options)


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
