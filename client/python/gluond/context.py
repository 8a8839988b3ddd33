"""Devices: `mx.cpu()`, `mx.gpu(1)`, and the one that new arrays live on, `with mx.gpu(0): ...`.

Devices are the server's. `cpu(1)`, `cpu(2)` and `cpu_pinned()` are further names for its processor: programs use them
to try out code for several devices.
"""

from __future__ import annotations

from typing import ClassVar, Optional, Union

from ._wire import connect
from ._wire.frame import change, enter, frame, leave
from .base import MXNetError, WithProperties, classproperty

__all__ = ["Context", "cpu", "cpu_pinned", "current_context", "gpu", "gpu_memory_info", "num_gpus"]


class NoSuchDevice(MXNetError, KeyError):
    """An unknown kind of device."""

    __str__ = MXNetError.__str__  # Not KeyError's, which quotes the text.


class Context(metaclass=WithProperties):
    """A device: its kind and its number.

    device_type: `cpu`, `gpu`, `cpu_pinned` or `cpu_shared`, or another Context.
    """

    devtype2str: ClassVar[dict[int, str]] = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"}
    devstr2type: ClassVar[dict[str, int]] = {"cpu": 1, "gpu": 2, "cpu_pinned": 3, "cpu_shared": 5}

    __slots__ = ("device_type", "device_id", "device_typeid", "_name")

    def __init__(self, device_type: Union[str, "Context"], device_id: int = 0) -> None:
        if isinstance(device_type, Context):
            device_id, device_type = device_type.device_id, device_type.device_type
        if device_type not in Context.devstr2type:
            raise NoSuchDevice(f"'{device_type}' is no kind of device; there are {', '.join(Context.devstr2type)}")
        self.device_type: str = device_type
        self.device_id: int = int(device_id)
        self.device_typeid: int = Context.devstr2type[device_type]
        self._name: Optional[str] = None

    def __hash__(self) -> int:
        return hash((self.device_typeid, self.device_id))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Context) and self.device_typeid == other.device_typeid and self.device_id == other.device_id
        )

    def __str__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    __repr__ = __str__

    def __reduce__(self) -> tuple:
        return Context, (self.device_type, self.device_id)

    def __enter__(self) -> "Context":
        enter(self, context=self)
        return self

    def __exit__(self, *exc: object) -> None:
        leave(self)

    def empty_cache(self) -> None:
        """Does nothing: the server keeps its memory itself."""

    @property
    def _device(self) -> str:
        """The server's name of it: `cpu`, `gpu:0`. MXNetError where the server has none."""
        if self._name is None:
            name = f"gpu:{self.device_id}" if self.device_type == "gpu" else "cpu"
            devices = connect.current().devices
            if name not in devices:
                raise MXNetError(f"The server has no device {self}; it has {', '.join(devices)}")
            self._name = name
        return self._name


_CPU = Context("cpu", 0)
_GPU = Context("gpu", 0)


def cpu(device_id: int = 0) -> Context:
    """The server's processor."""
    return Context("cpu", device_id) if device_id else _CPU


def cpu_pinned(device_id: int = 0) -> Context:
    """The server's processor; the client decides nothing about memory there."""
    return Context("cpu_pinned", device_id)


def gpu(device_id: int = 0) -> Context:
    """A GPU of the server's."""
    return Context("gpu", device_id) if device_id else _GPU


def _of_device(name: str) -> Context:
    """The context of a server's device: `cpu`, `gpu:0`."""
    kind, _, number = name.partition(":")
    return gpu(int(number or 0)) if kind == "gpu" else cpu()


def current_context() -> Context:
    """Where new arrays live: the innermost `with` block's device, else cpu(0)."""
    return frame().context or _CPU


Context.default_ctx = classproperty(lambda _: current_context(), lambda context: change(context=context))  # type: ignore[attr-defined]


def num_gpus() -> int:
    """How many GPUs the server offers."""
    return sum(device.startswith("gpu") for device in connect.current().devices)


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """Not known to the client; see the server's metrics."""
    raise MXNetError("gluond does not tell a client how much memory its GPUs have left")
