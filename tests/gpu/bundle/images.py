"""Fashion-MNIST as the bundle has it: `images.py SOURCE FOLDER` packs the first of the training images and of the test images, in
files of the same form, which the archive compresses better than their own zip does."""

import gzip
import pathlib
import sys

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "data"
PACKED = {"train": 12000, "t10k": 3000}
# Bytes before the values, and the values' form.
_KINDS = {"images-idx3": (16, (28, 28)), "labels-idx1": (8, ())}


def read(part, kind, number):
    """The first `number` images or labels of `train` or `t10k`."""
    header, form = _KINDS[kind]
    content = np.fromfile(FOLDER / f"{part}-{kind}-ubyte", np.uint8, offset=header, count=number * int(np.prod(form, dtype=int)))
    return content.reshape(number, *form)


def write_few(source, folder, numbers):
    """So many of the train and t10k files in `source`, zipped or not, as files of the same form."""
    for part, number in numbers.items():
        for kind, (header, form) in _KINDS.items():
            name = f"{part}-{kind}-ubyte"
            zipped = source / f"{name}.gz"
            with gzip.open(zipped) if zipped.exists() else open(source / name, "rb") as file:
                begin, values = file.read(header), file.read(number * int(np.prod(form, dtype=int)))
            (folder / name).write_bytes(begin[:4] + number.to_bytes(4, "big") + begin[8:] + values)


if __name__ == "__main__":
    write_few(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), PACKED)
