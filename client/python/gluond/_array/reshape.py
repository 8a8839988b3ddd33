"""x.reshape(...): MXNet's codes, worked out here, so that the result can be a view."""

from __future__ import annotations

from math import prod
from typing import Any, List, Sequence, Tuple

from ..base import MXNetError, WrongShape


def reshape(x: Any, *shape: Any, **kwargs: Any) -> Any:
    """See NDArray.reshape."""
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    elif not shape:
        shape = kwargs.pop("shape", None)
        if shape is None:
            raise TypeError("reshape() needs a shape")
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
    reverse = kwargs.pop("reverse", False)
    if kwargs:
        unknown = next(iter(kwargs))
        raise TypeError(f"Got unknown keywords in reshape: {unknown}. Accepted keyword arguments are 'shape' and 'reverse'.")
    old = x.shape
    target = resolve(old, shape) if not reverse else resolve(old[::-1], shape[::-1])[::-1]
    return x._view(0, target)


def resolve(old: Tuple[int, ...], codes: Sequence[Any]) -> Tuple[int, ...]:
    """The new shape; MXNetError where the codes do not fit the old one."""
    new: List[int] = []
    place = 0
    unknown = -1
    codes = [int(code) for code in codes]
    at = 0
    while at < len(codes):
        code = codes[at]
        at += 1
        if code in (0, -3, -4) and place + (code == -3) >= len(old):
            raise MXNetError(f"reshape: the code {code} in {tuple(codes)} needs more dimensions than the shape {old} has")
        if code == 0:
            new.append(old[place])
            place += 1
        elif code == -1:
            if unknown >= 0:
                raise MXNetError(f"reshape: only one -1 is allowed in {tuple(codes)}")
            unknown = len(new)
            new.append(1)
            place += 1
        elif code == -2:
            new.extend(old[place:])
            place = len(old)
        elif code == -3:
            new.append(old[place] * old[place + 1])
            place += 2
        elif code == -4:
            new.extend(_split(old[place], codes[at : at + 2], codes))
            place += 1
            at += 2
        elif code > 0:
            new.append(code)
            place += 1
        else:
            raise MXNetError(f"reshape: {code} in {tuple(codes)} is no size and no code")
    total, known = prod(old), prod(new)
    if unknown >= 0 and known and total % known == 0:
        new[unknown] = total // known
    if prod(new) != total:
        raise WrongShape(f"reshape: an array of shape {old} has {total} elements and cannot get the shape {tuple(codes)}")
    return tuple(new)


def _split(size: int, parts: Sequence[int], codes: Sequence[int]) -> List[int]:
    if len(parts) < 2 or parts[0] == parts[1] == -1:
        raise MXNetError(f"reshape: -4 in {tuple(codes)} needs two sizes behind it, at most one of them -1")
    first, second = parts
    if first == -1:
        first = size // second
    elif second == -1:
        second = size // first
    if first * second != size:
        raise MXNetError(f"reshape: {size} cannot be split in {first} x {second}")
    return [first, second]
