"""Loggers with MXNet's format: `mx.log.get_logger("train", level=mx.log.INFO).info("begins")`."""

from __future__ import annotations

import logging
import warnings
from logging import CRITICAL, DEBUG, ERROR, INFO, NOTSET, WARNING
from typing import Optional

__all__ = ["CRITICAL", "DEBUG", "ERROR", "INFO", "NOTSET", "WARNING", "getLogger", "get_logger"]

_RED, _GREEN, _BLUE, _PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[34m", "\x1b[0m"
_named = set()  # Loggers that have a handler of get_logger's.


class _Formatter(logging.Formatter):
    """`W0505 00:29:47 3525 train.py:main:1] text`, coloured by level up to the bracket."""

    def __init__(self) -> None:
        super().__init__(
            f"%(letter)s%(asctime)s %(process)d %(pathname)s:%(funcName)s:%(lineno)d]{_PLAIN} %(message)s", "%m%d %H:%M:%S"
        )

    def format(self, record: logging.LogRecord) -> str:
        color = _RED if record.levelno >= WARNING else _GREEN if record.levelno >= INFO else _BLUE
        record.letter = color + (record.levelname[0] if record.levelno in (CRITICAL, ERROR, WARNING, INFO, DEBUG) else "U")
        return super().format(record)


def get_logger(
    name: Optional[str] = None, filename: Optional[str] = None, filemode: Optional[str] = None, level: int = WARNING
) -> logging.Logger:
    """The logger of that name, which writes to `filename` (appended to unless `filemode` says otherwise) or to stderr.

    A second call for a name changes nothing. Without a name: the root's logger as it is.
    """
    logger = logging.getLogger(name)
    if name is not None and name not in _named:
        _named.add(name)
        handler: logging.Handler
        if filename:
            handler = logging.FileHandler(filename, filemode or "a")
        else:
            handler = logging.StreamHandler()
            handler.setFormatter(_Formatter())
        logger.addHandler(handler)
        logger.setLevel(level)
    return logger


def getLogger(
    name: Optional[str] = None, filename: Optional[str] = None, filemode: Optional[str] = None, level: int = WARNING  # noqa: N802
) -> logging.Logger:
    """The older name of get_logger."""
    warnings.warn("getLogger is deprecated, Use get_logger instead.", DeprecationWarning, stacklevel=2)
    return get_logger(name, filename, filemode, level)
