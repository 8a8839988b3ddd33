"""Another name: MXNet keeps the optimizers here."""
from . import *  # noqa: F401, F403
from . import __all__  # noqa: F401
