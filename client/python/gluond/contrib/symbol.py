"""Another name: MXNet keeps the contributed operators on Symbols here, too."""
from ..symbol.contrib import *  # noqa: F401, F403
from ..symbol.contrib import __dir__, __getattr__  # noqa: F401
