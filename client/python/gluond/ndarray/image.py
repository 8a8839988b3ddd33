"""Operators on images: `nd.image.to_tensor(x)`. These draw in this process how to change the image."""

from __future__ import annotations

import numpy as _np

from .._array.array import NDArray
from .._array.functions_of_operators import make_function
from .._composed import images as _images
from .._documentation import fill_module
from . import _internal as _F


def random_flip_left_right(data: NDArray, p: float = 0.5) -> NDArray:
    """flip_left_right with probability `p`."""
    return _images.flip_left_right(_F, data) if _np.random.uniform() < p else data


def random_flip_top_bottom(data: NDArray, p: float = 0.5) -> NDArray:
    """flip_top_bottom with probability `p`."""
    return _images.flip_top_bottom(_F, data) if _np.random.uniform() < p else data


def random_color_jitter(data: NDArray, brightness: float, contrast: float, saturation: float, hue: float) -> NDArray:
    """The changes of these most strengths, those of 0 left out, in a random order. Factors are 1, more or less a strength."""
    changes = [
        (_images.brighter, brightness, 1),
        (_images.contrasted, contrast, 1),
        (_images.saturated, saturation, 1),
        (_images.turned, hue, 0),
    ]
    with data.context:
        for number in _np.random.permutation(len(changes)):
            change, strength, middle = changes[number]
            if strength > 0:
                data = change(_F, data, _F._random_uniform(shape=(1, 1, 1)) * (2 * strength) + (middle - strength))
    return data


__getattr__, __dir__ = fill_module(globals(), make_function, ("_image_",))
