"""The members of a Block that the helpers of Blocks use."""
from __future__ import annotations

from typing import Any, Callable, ContextManager, Dict, Optional, Protocol

from ._parameter import Parameter
from ._parameter_dict import ParameterDict
from .utils import HookHandle


class AnyBlock(Protocol):
    """Block is one."""

    _children: Any
    _reg_params: Dict[str, Parameter]
    _is_container: bool
    _empty_prefix: bool
    _name: str

    @property
    def name(self) -> str:
        ...

    @property
    def prefix(self) -> str:
        ...

    @property
    def params(self) -> ParameterDict:
        ...

    def __call__(self, *args: Any) -> Any:
        ...

    def name_scope(self) -> ContextManager:
        ...

    def collect_params(self, select: Optional[str] = None) -> ParameterDict:
        ...

    def _collect_params_with_prefix(self, prefix: str = "") -> Dict[str, Parameter]:
        ...

    def save_parameters(self, filename: str, deduplicate: bool = False) -> None:
        ...

    def load_parameters(self, filename: str) -> None:
        ...

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        ...

    def apply(self, fn: Callable[[Any], Any]) -> Any:
        ...

    def register_forward_hook(self, hook: Callable[[Any, Any, Any], Any]) -> HookHandle:
        ...


class AnyHybridBlock(AnyBlock, Protocol):
    """HybridBlock is one."""

    _flags: Dict[str, Any]
    _monitor_all: bool
    _op_hook: Optional[Callable[[str, str, Any], Any]]

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        ...  # noqa: N803
