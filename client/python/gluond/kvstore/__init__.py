"""Arrays by key: `kv = mx.kv.create('device')`."""

from . import base, kvstore
from .base import KVStoreBase
from .kvstore import KVStore, create

__all__ = ["KVStore", "KVStoreBase", "base", "create", "kvstore"]
