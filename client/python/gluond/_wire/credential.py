"""The credential of the operators that this process computes: its sessions and its host streams give the same one."""

from __future__ import annotations

import hashlib
import secrets

from .. import _side_effects


def scope_of(key: str) -> str:
    """The credential of a key, as OpenHost.scope says."""
    return "key:" + hashlib.sha256(key.encode()).hexdigest()[:32]


key = secrets.token_hex(16)
scope = scope_of(key)


@_side_effects.in_child
def _after_fork() -> None:
    global key, scope
    key = secrets.token_hex(16)
    scope = scope_of(key)
