"""Lists of images: a number, labels and a path in each line, with tabs between them, as MXNet's im2rec writes them."""
from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np

from ....base import MXNetError, cannot_open, numeric_types


def read_list(path: str, dtype: Any = np.float32) -> Dict[int, Tuple[np.ndarray, str]]:
    """{number: (labels, path of the image)} of a file.

    FileError: it cannot be opened. MXNetError: a line is no such one.
    """
    found = {}
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise cannot_open(error) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            key, *labels, image = line.strip().split("\t")
            found[int(key)] = (np.array([float(label) for label in labels]).astype(dtype), image)
        except ValueError as error:
            raise MXNetError(
                f"{path}, line {number}: a number, labels and a path are expected, with tabs between "
                f"them; it is {line.strip()[:80]!r}."
            ) from error
    return found


def listed(images: List[Any], dtype: Any = np.float32) -> List[Tuple[np.ndarray, str]]:
    """Pairs (labels, path) of [label, ..., path], or of [list of labels, path]."""
    return [
        (np.asarray(labels if len(labels) > 1 or isinstance(labels[0], numeric_types) else labels[0], dtype), path)
        for *labels, path in images
    ]
