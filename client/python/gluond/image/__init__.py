"""Images as arrays (H, W, C): read from files, resized, cut, and changed at random, as MXNet's mx.image."""
from typing import TYPE_CHECKING

from .. import _elsewhere
from ._augmenters import (Augmenter, BrightnessJitterAug, CastAug, CenterCropAug, ColorJitterAug, ColorNormalizeAug,
                          ContrastJitterAug, CreateAugmenter, ForceResizeAug, HorizontalFlipAug, HueJitterAug, LightingAug,
                          RandomCropAug, RandomGrayAug, RandomOrderAug, RandomSizedCropAug, ResizeAug, SaturationJitterAug,
                          SequentialAug)
from ._functions import (center_crop, color_normalize, fixed_crop, imdecode, imread, imresize, random_crop, random_size_crop,
                         resize_short, scale_down)

__all__ = ["Augmenter", "BrightnessJitterAug", "CastAug", "CenterCropAug", "ColorJitterAug", "ColorNormalizeAug",
           "ContrastJitterAug", "CreateAugmenter", "ForceResizeAug", "HorizontalFlipAug", "HueJitterAug", "LightingAug",
           "RandomCropAug", "RandomGrayAug", "RandomOrderAug", "RandomSizedCropAug", "ResizeAug", "SaturationJitterAug",
           "SequentialAug", "center_crop", "color_normalize", "fixed_crop", "imdecode", "imread", "imresize", "random_crop",
           "random_size_crop", "resize_short", "scale_down"]


if not TYPE_CHECKING:  # A type checker finds by itself what is not here.
    __getattr__ = _elsewhere.getter(__name__)
