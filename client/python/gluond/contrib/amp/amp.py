"""Automatic mixed precision: what libraries import of it. Each function raises when it is called, and says what to do."""

from __future__ import annotations

from typing import Any, Callable, NoReturn

from ...base import MXNetError


def _refusing(name: str) -> Callable[..., NoReturn]:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise MXNetError(
            f"mx.contrib.amp.{name}(): automatic mixed precision is not part of gluond. A network trains in half "
            "precision after net.cast('float16'), with gluon.Trainer(..., {'multi_precision': True})"
        )

    function.__name__ = function.__qualname__ = name
    return function


init = _refusing("init")
init_trainer = _refusing("init_trainer")
scale_loss = _refusing("scale_loss")
unscale = _refusing("unscale")
convert_model = _refusing("convert_model")
convert_hybrid_block = _refusing("convert_hybrid_block")
convert_symbol = _refusing("convert_symbol")
