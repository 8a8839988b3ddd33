"""Epochs of LeNet over 60,000 rows by mx.remote.Model.fit, timed. Prints the seconds of one for each line of standard input.

usage: fit.py MODEL TRAINING_ROWS TEST_ROWS

MODEL and the datasets are on the server at GLUOND_ADDRESS: `gluond train` has made them.
"""

import sys
import time

import needs

if len(sys.argv) != 4:
    sys.exit(__doc__)
needs.require("numpy", "grpc", "google.protobuf", "crc32c", "gluond")

import gluond as mx  # noqa: E402


def main():
    name, rows, tests = sys.argv[1:]
    model = mx.remote.Model(name)
    for epoch, _ in enumerate(sys.stdin):
        begin = time.perf_counter()
        model.fit(rows, epochs=1, first_epoch=epoch, batch_size=64, validation=tests, progress=False)
        print(f"{time.perf_counter() - begin:.3f}", flush=True)


if __name__ == "__main__":
    main()
