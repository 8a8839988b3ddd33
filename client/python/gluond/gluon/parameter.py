"""Parameters of Blocks, as `gluon.parameter` names them."""
from .._array.array import NDArray
from ..symbol.symbol import Symbol
from ._constant import Constant
from ._parameter import DeferredInitializationError, Parameter
from ._parameter_dict import ParameterDict

__all__ = ["DeferredInitializationError", "Parameter", "Constant", "ParameterDict", "tensor_types"]

tensor_types = (Symbol, NDArray)
