"""LeNet through server and command line, then networks on the GPU against the CPU: `trainings.py {full,tiny}`."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import count
import images
import processes

EPOCHS, ACCURACY = 10, 0.85
# On a GPU that a processor emulates: enough to learn that no kind is as good as a guess, which is right for one in ten.
FEW_IMAGES, FEW_EPOCHS, FEW_ACCURACY = {"train": 128, "t10k": 128}, 6, 0.4


def train(address, data, epochs):
    """What `gluond train` says of the test images; None where it fails."""
    process = subprocess.run(
        [
            processes.INSIDE,
            "gluond",
            "train",
            f"--address={address}",
            f"--data={data}",
            "--device=gpu:0",
            f"--epochs={epochs}",
            "--checkpoint=-",
            "--curve=-",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    accuracy = re.search(r"test accuracy: ([0-9.]+)", process.stdout)
    print("\n".join(re.split(r"[\r\n]+", process.stdout.strip())[-3:]), flush=True)
    return float(accuracy.group(1)) if process.returncode == 0 and accuracy else None


def main():
    tiny, cases = sys.argv[1] == "tiny", count.Count()
    with processes.server() as address, tempfile.TemporaryDirectory() as folder:
        data, epochs, wanted = images.FOLDER, EPOCHS, ACCURACY
        if tiny:
            data, epochs, wanted = pathlib.Path(folder), FEW_EPOCHS, FEW_ACCURACY
            images.write_few(images.FOLDER, data, FEW_IMAGES)
        accuracy = train(address, data, epochs)
        cases.check("LeNet's training on gpu:0", accuracy is not None)
        cases.check(f"test accuracy {accuracy}, expected {wanted} or more", (accuracy or 0) >= wanted)
        curves = processes.Side(
            "curves", [*processes.PYTHON, processes.HERE / "curves.py", sys.argv[1]], {**os.environ, "GLUOND_ADDRESS": address}
        )
        for name in curves.ask("names").split():
            answer = curves.ask(name)
            print(answer, flush=True)
            cases.check(answer, answer.startswith("equal"))
        curves.stop()
    cases.end()


if __name__ == "__main__":
    main()
