"""Another name: MXNet keeps the contributed operators on NDArrays here, too."""
from ..ndarray.contrib import *  # noqa: F401, F403
from ..ndarray.contrib import __dir__, __getattr__  # noqa: F401
