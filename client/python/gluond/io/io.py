"""Iterators, as `mx.io.io` names them."""

from ._arrays import NDArrayIter
from ._batches import DataBatch, DataDesc, DataIter
from ._files import CSVIter, MNISTIter
from ._image_records import ImageRecordInt8Iter, ImageRecordIter, ImageRecordUInt8Iter
from ._svm import LibSVMIter
from ._wrapped import PrefetchingIter, ResizeIter

__all__ = ["CSVIter", "DataBatch", "DataDesc", "DataIter", "ImageRecordInt8Iter", "ImageRecordIter", "ImageRecordUInt8Iter",
           "LibSVMIter", "MNISTIter", "NDArrayIter", "PrefetchingIter", "ResizeIter"]
