"""Comparisons of arrays: how far apart values of a dtype may be, and a report of those that are further."""

from __future__ import annotations

import numbers
from typing import Any, Dict, Optional, Tuple

import numpy as np

_EXACT = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def default_rtols() -> Dict[np.dtype, float]:
    """The relative tolerance of each dtype."""
    return _by_dtype(1e-2, 1e-4, 1e-5)


def default_atols() -> Dict[np.dtype, float]:
    """The absolute tolerance of each dtype."""
    return _by_dtype(1e-1, 1e-3, 1e-20)


def default_numeric_eps() -> Dict[np.dtype, float]:
    """The step of a central difference in each floating dtype."""
    return {np.dtype("float16"): 2.0**-6, np.dtype("float32"): 2.0**-9, np.dtype("float64"): 2.0**-14}


def _by_dtype(half: float, single: float, double: float) -> Dict[np.dtype, float]:
    return {
        np.dtype("float16"): half,
        np.dtype("float32"): single,
        np.dtype("float64"): double,
        **{np.dtype(name): 0 for name in _EXACT},
    }


def get_rtol(rtol: Optional[float] = None, dtype: Any = np.dtype("float64")) -> float:
    """`rtol`, or the default of the dtype."""
    return default_rtols()[np.dtype(dtype)] if rtol is None else rtol


def get_atol(atol: Optional[float] = None, dtype: Any = np.dtype("float64")) -> float:
    """`atol`, or the default of the dtype."""
    return default_atols()[np.dtype(dtype)] if atol is None else atol


def get_etol(etol: Optional[float] = None) -> float:
    """`etol`, or 0: the fraction of elements that may differ."""
    return 0 if etol is None else etol


def as_numpy(value: Any) -> np.ndarray:
    """The values of an NDArray, or of anything that numpy takes."""
    return value.asnumpy() if hasattr(value, "asnumpy") else np.asarray(value)


def effective_dtype(dat: Any) -> np.dtype:
    """The dtype whose tolerances hold for an array: its own."""
    return np.dtype(dat.dtype)


def get_tolerance(dat: Any, tol: Any, default_tol: Dict[np.dtype, float]) -> float:
    """A tolerance: `tol` itself, its number for the array's dtype where it is a dict, or the default one."""
    if isinstance(tol, numbers.Number):
        return tol  # type: ignore[return-value]
    dtype = effective_dtype(dat)
    return (tol or {}).get(dtype, default_tol.get(dtype, 0))


def get_tols(x: Any, y: Any, rtol: Any, atol: Any) -> Tuple[float, float]:
    """The relative and absolute tolerance of the coarser of both dtypes."""
    arrays = [np.array(each) if isinstance(each, numbers.Number) else each for each in (x, y)]
    return (
        max(get_tolerance(each, rtol, default_rtols()) for each in arrays),
        max(get_tolerance(each, atol, default_atols()) for each in arrays),
    )


def same(a: Any, b: Any) -> bool:
    """Whether both have one shape and equal elements."""
    return bool(np.array_equal(as_numpy(a), as_numpy(b)))


def almost_equal(
    a: Any, b: Any, rtol: Optional[float] = None, atol: Optional[float] = None, equal_nan: bool = False, use_broadcast: bool = True
) -> bool:
    """Whether |a - b| <= atol + rtol |b| everywhere."""
    a, b = as_numpy(a), as_numpy(b)
    if not use_broadcast and a.shape != b.shape:
        return False
    rtol, atol = get_tols(a, b, rtol, atol)
    return bool(np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan))


def assert_almost_equal(
    a: Any,
    b: Any,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    names: Tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
    use_broadcast: bool = True,
    mismatches: Tuple[int, int] = (10, 10),
) -> None:
    """AssertionError with the worst elements unless |a - b| <= atol + rtol |b| everywhere.

    rtol, atol: by default those of the coarser dtype. mismatches: the first number says how many elements to list.
    """
    a, b = as_numpy(a), as_numpy(b)
    if not use_broadcast and a.shape != b.shape:
        raise AssertionError(f"Shapes differ: {names[0]} has {a.shape}, {names[1]} has {b.shape}")
    rtol, atol = get_tols(a, b, rtol, atol)
    if np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan):
        return
    raise AssertionError(_report(a, b, rtol, atol, names, equal_nan, mismatches[0]))


def _report(a: np.ndarray, b: np.ndarray, rtol: float, atol: float, names: Tuple[str, str], equal_nan: bool, most: int) -> str:
    """The worst elements, the worst first."""
    a, b = np.broadcast_arrays(a.astype(np.float64), b.astype(np.float64))
    wrong = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    with np.errstate(all="ignore"):
        error = np.where(wrong, np.abs(a - b) / (atol + rtol * np.abs(b) + 1e-300), 0)
    error = np.where(np.isnan(error), np.inf, error)
    places = np.argsort(error, axis=None)[::-1][: min(most, int(wrong.sum()))]
    lines = []
    for place in places:
        index = tuple(int(i) for i in np.unravel_index(place, a.shape))
        lines.append(f"\n  {index}: error {error[index]:f}, {names[0]}={a[index]:.8f}, {names[1]}={b[index]:.8f}")
    worst = tuple(int(i) for i in np.unravel_index(int(np.argmax(error)), a.shape))
    return (
        f"\nItems are not equal:\nError {error[worst]:f} exceeds tolerance rtol={rtol:e}, atol={atol:e} "
        f"(mismatch {100 * wrong.mean():f}%).\nLocation of maximum error: {worst}, "
        f"{names[0]}={a[worst]:.8f}, {names[1]}={b[worst]:.8f}{''.join(lines)}\n"
        f" {names[0]}: {np.array2string(a, threshold=100)}\n {names[1]}: {np.array2string(b, threshold=100)}"
    )


def assert_allclose(a: Any, b: Any, rtol: float = 1e-7, atol: float = 0, equal_nan: bool = True) -> None:
    """numpy's assert_allclose, for arrays too."""
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal_ignore_nan(
    a: Any, b: Any, rtol: Optional[float] = None, atol: Optional[float] = None, names: Tuple[str, str] = ("a", "b")
) -> None:
    """As assert_almost_equal, but elements that are NaN in either array do not count."""
    a, b = np.copy(as_numpy(a)), np.copy(as_numpy(b))
    ignored = np.isnan(a) | np.isnan(b)
    a[ignored] = b[ignored] = 0
    assert_almost_equal(a, b, rtol, atol, names)


def assert_almost_equal_with_err(
    a: Any,
    b: Any,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    etol: Optional[float] = None,
    names: Tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
    mismatches: Tuple[int, int] = (10, 10),
) -> None:
    """As assert_almost_equal, but a fraction `etol` of the elements may differ."""
    a, b = as_numpy(a), as_numpy(b)
    rtol, atol = get_tols(a, b, rtol, atol)
    wrong = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if wrong.mean() > get_etol(etol):
        raise AssertionError(_report(a, b, rtol, atol, names, equal_nan, mismatches[0]))
