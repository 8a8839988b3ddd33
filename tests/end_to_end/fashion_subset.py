"""The first images of Debian's Fashion-MNIST."""

import gzip
import pathlib
import struct

_FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")


def _read_idx(path):
    opener, name = (open, path) if path.exists() else (gzip.open, path.with_name(path.name + ".gz"))
    with opener(name, "rb") as file:
        return file.read()


def write(folder, images_per_part):
    """Writes so many images of each part ("train", "t10k") and their labels as idx files of the same form."""
    for part, count in images_per_part.items():
        images = _read_idx(_FASHION / f"{part}-images-idx3-ubyte")
        labels = _read_idx(_FASHION / f"{part}-labels-idx1-ubyte")
        (folder / f"{part}-images-idx3-ubyte").write_bytes(images[:4] + struct.pack(">I", count) + images[8 : 16 + count * 784])
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(labels[:4] + struct.pack(">I", count) + labels[8 : 8 + count])
