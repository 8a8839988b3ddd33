"""Iterators over batches of data, as MXNet's mx.io: `for batch in mx.io.NDArrayIter(x, y, 64): batch.data[0]`."""

from . import io
from ._arrays import NDArrayIter
from ._batches import DataBatch, DataDesc, DataIter
from ._files import CSVIter, MNISTIter
from ._image_records import ImageRecordInt8Iter, ImageRecordIter, ImageRecordUInt8Iter
from ._svm import LibSVMIter
from ._wrapped import PrefetchingIter, ResizeIter

ImageRecordIter_v1 = ImageRecordIter
ImageRecordUInt8Iter_v1 = ImageRecordUInt8Iter

__all__ = ["CSVIter", "DataBatch", "DataDesc", "DataIter", "ImageRecordInt8Iter", "ImageRecordIter",
           "ImageRecordIter_v1", "ImageRecordUInt8Iter", "ImageRecordUInt8Iter_v1", "LibSVMIter", "MNISTIter",
           "NDArrayIter", "PrefetchingIter", "ResizeIter", "io"]
