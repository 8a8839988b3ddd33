"""`mx.runtime`: the features that MXNet's library may be built with, and which of them the server has.

    mx.runtime.Features().is_enabled("CUDA")
"""

from __future__ import annotations

import collections
from typing import List, NamedTuple, Optional

from .context import num_gpus

__all__ = ["Feature", "Features", "feature_list"]

_OF_GPUS = ("CUDA", "CUDNN")
_OF_THE_SERVER = ("OPENMP", "LAPACK", "MKLDNN", "OPENCV", "CXX14", "INT64_TENSOR_SIZE", "SIGNAL_HANDLER")
_NAMES = """CUDA CUDNN NCCL CUDA_RTC TENSORRT CPU_SSE CPU_SSE2 CPU_SSE3 CPU_SSE4_1 CPU_SSE4_2 CPU_SSE4A CPU_AVX CPU_AVX2 OPENMP SSE
    F16C JEMALLOC BLAS_OPEN BLAS_ATLAS BLAS_MKL BLAS_APPLE LAPACK MKLDNN OPENCV CAFFE PROFILER DIST_KVSTORE CXX14 INT64_TENSOR_SIZE
    SIGNAL_HANDLER DEBUG TVM_OP""".split()


class Feature(NamedTuple):
    """One feature, by MXNet's name."""

    name: str
    enabled: bool

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


def feature_list() -> List[Feature]:
    """All features. Asks the server for its GPUs."""
    enabled = {*_OF_THE_SERVER, *(_OF_GPUS if num_gpus() else ())}
    return [Feature(name, name in enabled) for name in _NAMES]


class Features(collections.OrderedDict):
    """All features by name; one object, as it was made first."""

    instance: Optional["Features"] = None

    def __new__(cls) -> "Features":
        if cls.instance is None:
            cls.instance = super().__new__(cls)
            cls.instance.update((feature.name, feature) for feature in feature_list())
        return cls.instance

    def __init__(self) -> None:
        """`__new__` has given the one object its items."""

    def __repr__(self) -> str:
        return str(list(self.values()))

    def is_enabled(self, feature_name: str) -> bool:
        """Whether a feature is there. RuntimeError: there is none of that name."""
        if feature_name.upper() not in self:
            raise RuntimeError(f"Feature '{feature_name}' is unknown, known features are: {list(self)}")
        enabled: bool = self[feature_name.upper()].enabled
        return enabled
