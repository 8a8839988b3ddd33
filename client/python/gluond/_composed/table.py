"""The names of the operators that are made of others, as MXNet has them."""

from __future__ import annotations

from typing import Any, Callable, Dict

from . import attention, boxes, candidates, deformable, densities, elementwise, fourier, images, linear_algebra, patches, sampling
from .shapes import on_arrays_only

# Other names of the server's operators.
ALIASES = {
    "BatchNorm_v1": "BatchNorm",
    "Convolution_v1": "Convolution",
    "Pooling_v1": "Pooling",
    "_contrib_SparseEmbedding": "Embedding",
}

_CHANGES_ARRAYS, _DRAWS = "it writes its inputs", "this process draws how to change the image"
_SHAPE, _NEEDS_SHAPE = "the shape of its result depends on values", "it needs the shape of its input"
# Functions that `nd` has, on arrays, and `sym` has not.
_ON_ARRAYS = {
    "_contrib_boolean_mask": _SHAPE,
    "_contrib_bipartite_matching": "it goes through the scores one by one",
    "_contrib_index_array": _NEEDS_SHAPE,
    "_contrib_index_copy": _NEEDS_SHAPE,
    "_linalg_extracttrian": _NEEDS_SHAPE,
    "_linalg_maketrian": _NEEDS_SHAPE,
    **{
        f"_contrib_{name}": _CHANGES_ARRAYS
        for name in ("adamw_update", "mp_adamw_update", "multi_lamb_update", "multi_mp_lamb_update")
    },
    **{
        name: _CHANGES_ARRAYS
        for name in (
            "preloaded_multi_mp_sgd_mom_update",
            "preloaded_multi_mp_sgd_update",
            "preloaded_multi_sgd_mom_update",
            "preloaded_multi_sgd_update",
            "reset_arrays",
        )
    },
    **{f"_image_{name}": _DRAWS for name in ("random_color_jitter", "random_flip_left_right", "random_flip_top_bottom")},
}


def _written(operator: str) -> str:
    """`_contrib_boolean_mask` -> `contrib.boolean_mask`"""
    room, _, name = operator[1:].partition("_")
    return f"{room}.{name}" if operator.startswith("_") else operator


COMPOSED: Dict[str, Callable[..., Any]] = {
    **{name: on_arrays_only(_written(name), why) for name, why in _ON_ARRAYS.items()},
    "_sample_unique_zipfian": on_arrays_only("_internal._sample_unique_zipfian", "it draws until a row's classes are different"),
    **{
        f"_image_{name}": getattr(images, name)
        for name in (
            "adjust_lighting",
            "crop",
            "flip_left_right",
            "flip_top_bottom",
            "normalize",
            "random_brightness",
            "random_contrast",
            "random_hue",
            "random_lighting",
            "random_saturation",
            "resize",
            "to_tensor",
        )
    },
    "cast_storage": elementwise.cast_storage,
    "_contrib_rand_zipfian": candidates.rand_zipfian,
    "_contrib_allclose": elementwise.allclose,
    "_contrib_SyncBatchNorm": elementwise.sync_batch_norm,
    "_contrib_BatchNormWithReLU": elementwise.batch_norm_with_relu,
    "_contrib_quadratic": elementwise.quadratic,
    "_contrib_gradientmultiplier": elementwise.gradientmultiplier,
    "_contrib_round_ste": elementwise.round_ste,
    "_contrib_sign_ste": elementwise.sign_ste,
    "_contrib_interleaved_matmul_encdec_qk": attention.interleaved_matmul_encdec_qk,
    "_contrib_interleaved_matmul_encdec_valatt": attention.interleaved_matmul_encdec_valatt,
    "_contrib_DeformableConvolution": deformable.deformable_convolution,
    "_contrib_ModulatedDeformableConvolution": deformable.modulated_deformable_convolution,
    "_contrib_fft": fourier.fft,
    "_contrib_ifft": fourier.ifft,
    "_contrib_box_encode": boxes.box_encode,
    "_contrib_box_decode": boxes.box_decode,
    "GridGenerator": sampling.grid_generator,
    "BilinearSampler": sampling.bilinear_sampler,
    "SpatialTransformer": sampling.spatial_transformer,
    "im2col": patches.im2col,
    "col2im": patches.col2im,
    "Correlation": patches.correlation,
    "Crop": patches.crop,
    "khatri_rao": linear_algebra.khatri_rao,
    "_contrib_count_sketch": linear_algebra.count_sketch,
    **{f"linalg_{name}": on_arrays_only(f"linalg_{name}", _NEEDS_SHAPE) for name in ("extracttrian", "maketrian")},
    **{f"{prefix}linalg_{name}": getattr(linear_algebra, name) for prefix in ("", "_") for name in ("gelqf", "gemm", "syrk")},
    **{
        f"random_pdf_{name}": getattr(densities, name)
        for name in (
            "uniform",
            "normal",
            "gamma",
            "exponential",
            "poisson",
            "negative_binomial",
            "generalized_negative_binomial",
            "dirichlet",
        )
    },
}
