"""Images as arrays (H, W, C): read from files, resized, cut, and changed at random, as MXNet's mx.image."""

from . import detection
from . import detection as det
from . import image
from ._augmenter_lists import CreateAugmenter
from ._augmenters import (Augmenter, BrightnessJitterAug, CastAug, CenterCropAug, ColorJitterAug, ColorNormalizeAug,
                          ContrastJitterAug, ForceResizeAug, HorizontalFlipAug, HueJitterAug, LightingAug,
                          RandomCropAug, RandomGrayAug, RandomOrderAug, RandomSizedCropAug, ResizeAug,
                          SaturationJitterAug, SequentialAug)
from ._functions import (center_crop, color_normalize, fixed_crop, imdecode, imread, imresize, random_crop, random_size_crop,
                         resize_short, scale_down)
from ._geometry import copyMakeBorder, imrotate, random_rotate
from ._iterator import ImageIter
from .detection import (CreateDetAugmenter, CreateMultiRandCropAugmenter, DetAugmenter, DetBorrowAug,
                        DetHorizontalFlipAug, DetRandomCropAug, DetRandomPadAug, DetRandomSelectAug, ImageDetIter)

__all__ = ["Augmenter", "BrightnessJitterAug", "CastAug", "CenterCropAug", "ColorJitterAug", "ColorNormalizeAug",
           "ContrastJitterAug", "CreateAugmenter", "CreateDetAugmenter", "CreateMultiRandCropAugmenter",
           "DetAugmenter", "DetBorrowAug", "DetHorizontalFlipAug", "DetRandomCropAug", "DetRandomPadAug",
           "DetRandomSelectAug", "ForceResizeAug", "HorizontalFlipAug", "HueJitterAug", "ImageDetIter", "ImageIter",
           "LightingAug", "RandomCropAug", "RandomGrayAug", "RandomOrderAug", "RandomSizedCropAug", "ResizeAug",
           "SaturationJitterAug", "SequentialAug", "center_crop", "color_normalize", "copyMakeBorder", "det",
           "detection", "fixed_crop", "image", "imdecode", "imread", "imresize", "imrotate", "random_crop", "random_rotate",
           "random_size_crop", "resize_short", "scale_down"]
