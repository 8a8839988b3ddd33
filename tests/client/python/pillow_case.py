"""PillowCase: tests of image files where Pillow may be missing; a stand-in has a format of its own."""

import os
import sys
import tempfile
from unittest import mock

import numpy as np
from tests.client.python.array_case import ArrayCase


def file_of(pixels):
    """The content of a file of (H, W, 3) bytes, each size at most 255."""
    pixels = np.asarray(pixels, np.uint8)
    return bytes(pixels.shape[:2]) + pixels.tobytes()


class _Image:
    """Stands for Pillow's image. `mode` is "L", "RGB" or "RGBA"."""

    info = {}

    def __init__(self, pixels):
        self.pixels = pixels
        self.mode = "L" if pixels.ndim == 2 else "RGB" if pixels.shape[2] == 3 else "RGBA"
        self.size = pixels.shape[1::-1]

    @staticmethod
    def open(file):
        content = file.read()
        if len(content) == 3:  # Height, width and red; green is 0, blue 1.
            return _Image(np.full((content[0], content[1], 3), [content[2], 0, 1], np.uint8))
        if len(content) < 3 or len(content) != 2 + content[0] * content[1] * 3:
            raise OSError("cannot identify image file")
        return _Image(np.frombuffer(content, np.uint8, offset=2).reshape(content[0], content[1], 3))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def draft(self, mode, size):
        pass

    def convert(self, mode):
        return self.pixels[..., 0] if mode == "L" else self.pixels

    def save(self, file, kind, **options):
        if self.mode != "RGB":
            raise OSError(f"cannot write mode {self.mode} as {kind}")
        file.write(file_of(self.pixels))


class PillowCase(ArrayCase):
    """Has an empty `folder`, and the stand-in for Pillow."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        pillow = mock.MagicMock()
        pillow.Image.open, pillow.Image.fromarray = _Image.open, _Image
        pillow.Image.registered_extensions = lambda: {".png": "PNG", ".jpg": "JPEG"}
        pillow.ImageOps.exif_transpose = lambda image: image
        modules = {"PIL": pillow, "PIL.Image": pillow.Image, "PIL.ImageOps": pillow.ImageOps}
        patch = mock.patch.dict(sys.modules, modules)
        patch.start()
        self.addCleanup(patch.stop)

    def path(self, name):
        """A path in the folder."""
        return os.path.join(self.folder, name)

    def write(self, name, content):
        """Writes bytes to a file in the folder; its path."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(bytes(content))
        return path
