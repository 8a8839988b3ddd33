"""`gluond predict` sends images in the layout that the model takes."""

import pathlib
import struct
import subprocess
import tempfile
import unittest

from tests import case_runner
from tests.server.published import PublishingServer

_BIN = pathlib.Path("client/cli/gluond")
# Two rows and three columns. The models' scores are the pixels, so an image's class is the place of its brightest one.
IMAGES = ((9, 0, 0, 0, 0, 0), (0, 0, 0, 200, 1, 0), (1, 2, 3, 4, 5, 6))
LABELS = (0, 3, 5)


class PredictTest(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(PublishingServer())
        self.data = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        count = len(LABELS)
        (self.data / "t10k-images-idx3-ubyte").write_bytes(
            struct.pack(">BBBBIII", 0, 0, 8, 3, count, 2, 3) + b"".join(map(bytes, IMAGES))
        )
        (self.data / "t10k-labels-idx1-ubyte").write_bytes(struct.pack(">BBBBI", 0, 0, 8, 1, count) + bytes(LABELS))

    def publish(self, model, *shape):
        self.server.define(model, [["scores", "Flatten", ["data"]]], ["scores"], data=(list(shape), "FLOAT32"))
        self.server.publish(model)

    def predict(self, model, *flags):
        return subprocess.run(
            [_BIN, "predict", f"--model={model}", f"--data={self.data}", "--count=3", f"--address={self.server.address}", *flags],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def test_the_channel_stands_where_the_model_takes_it(self):
        for name, *shape in (("last", -1, 2, 3, 1), ("first", -1, 1, 2, 3), ("open", -1, -1, -1, 1)):
            self.publish(name, *shape)
            for flags in (("--published",), ("--version=1",), ()):
                with self.subTest(name=name, flags=flags):
                    predicted = self.predict(name, *flags)
                    self.assertEqual((predicted.returncode, predicted.stderr), (0, ""))
                    self.assertTrue(predicted.stdout.endswith("\n3 of 3 right\n"), predicted.stdout)

    def test_a_model_of_other_images_is_refused_in_words(self):
        self.publish("flat", -1, 6)
        for flags in (("--published",), ()):
            refused = self.predict("flat", *flags)
            self.assertEqual((refused.returncode, refused.stdout), (1, ""))
            self.assertEqual(
                refused.stderr, "gluond predict: the model takes (-1, 6), and the images are (3, 1, 2, 3) or (3, 2, 3, 1).\n"
            )


if __name__ == "__main__":
    case_runner.main()
