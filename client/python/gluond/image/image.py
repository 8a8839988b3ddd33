"""Images and their augmenters, as `mx.image.image` names them."""

from ._augmenter_lists import CreateAugmenter
from ._augmenters import (Augmenter, BrightnessJitterAug, CastAug, CenterCropAug, ColorJitterAug, ColorNormalizeAug,
                          ContrastJitterAug, ForceResizeAug, HorizontalFlipAug, HueJitterAug, LightingAug,
                          RandomCropAug, RandomGrayAug, RandomOrderAug, RandomSizedCropAug, ResizeAug,
                          SaturationJitterAug, SequentialAug)
from ._functions import (center_crop, color_normalize, fixed_crop, imdecode, imread, imresize, random_crop, random_size_crop,
                         resize_short, scale_down)
from ._geometry import copyMakeBorder, imrotate, random_rotate
from ._iterator import ImageIter

__all__ = ["Augmenter", "BrightnessJitterAug", "CastAug", "CenterCropAug", "ColorJitterAug", "ColorNormalizeAug",
           "ContrastJitterAug", "CreateAugmenter", "ForceResizeAug", "HorizontalFlipAug", "HueJitterAug", "ImageIter",
           "LightingAug", "RandomCropAug", "RandomGrayAug", "RandomOrderAug", "RandomSizedCropAug", "ResizeAug",
           "SaturationJitterAug", "SequentialAug", "center_crop", "color_normalize", "copyMakeBorder", "fixed_crop",
           "imdecode", "imread", "imresize", "imrotate", "random_crop", "random_rotate", "random_size_crop",
           "resize_short", "scale_down"]
