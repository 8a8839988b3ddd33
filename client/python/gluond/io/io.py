"""Iterators, as `mx.io.io` names them."""

from ._arrays import NDArrayIter
from ._batches import DataBatch, DataDesc, DataIter
from ._files import CSVIter, MNISTIter
from ._image_records import ImageRecordInt8Iter, ImageRecordIter, ImageRecordUInt8Iter
from ._svm import LibSVMIter
from ._wrapped import PrefetchingIter, ResizeIter
from .utils import _getdata_by_idx, _has_instance, _init_data  # noqa: F401  # Libraries' own iterators take these from here.

ImageRecordIter_v1 = ImageRecordIter
ImageRecordUInt8Iter_v1 = ImageRecordUInt8Iter

__all__ = [
    "CSVIter",
    "DataBatch",
    "DataDesc",
    "DataIter",
    "ImageRecordInt8Iter",
    "ImageRecordIter",
    "ImageRecordIter_v1",
    "ImageRecordUInt8Iter",
    "ImageRecordUInt8Iter_v1",
    "LibSVMIter",
    "MNISTIter",
    "NDArrayIter",
    "PrefetchingIter",
    "ResizeIter",
]
