"""Images as arrays (H, W, C): read from files, resized, cut, and changed at random, as MXNet's mx.image."""

from . import detection, image
from . import detection as det
from .detection import *  # noqa: F401, F403
from .image import *  # noqa: F401, F403

__all__ = ["det", "detection", "image", *detection.__all__, *image.__all__]
