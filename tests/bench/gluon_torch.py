"""Cases of gluon_bench.py in PyTorch, which sums them up in the same way: prints microseconds, one line for each case
named on a line of standard input. Threads are OMP_NUM_THREADS.
"""

import os
import statistics
import sys
import time

import needs

needs.require("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


def recurrent():
    net, x = nn.LSTM(256, 256, 2), torch.rand(35, 1, 256)
    return lambda: net(x)[0].numpy(), 20


def encoder():
    layer = nn.TransformerEncoderLayer(256, 8, 1024, dropout=0, batch_first=True)
    net, x = nn.TransformerEncoder(layer, 4).eval(), torch.rand(1, 128, 256)
    return lambda: net(x).numpy(), 15


class Bottleneck(nn.Module):
    def __init__(self, before, channels, stride, match):
        super().__init__()
        middle = channels // 4
        self.body = nn.Sequential(
            nn.Conv2d(before, middle, 1, stride),
            nn.BatchNorm2d(middle),
            nn.ReLU(),
            nn.Conv2d(middle, middle, 3, 1, 1, bias=False),
            nn.BatchNorm2d(middle),
            nn.ReLU(),
            nn.Conv2d(middle, channels, 1),
            nn.BatchNorm2d(channels),
        )
        self.shortcut = (
            nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)) if match else nn.Identity()
        )

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def resnet50(batch):
    layers, before = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for i in range(blocks):
            layers.append(Bottleneck(before, 256 << stage, 2 if stage > 0 and i == 0 else 1, i == 0))
            before = 256 << stage
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000))
    images = torch.rand(batch, 3, 224, 224)
    if batch == 1:
        net.eval()
        return lambda: net(images).numpy(), 5
    labels = torch.arange(batch)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step():
        with torch.enable_grad():
            optimizer.zero_grad()
            loss = F.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
        return loss.item()

    return step, 1


CASES = {"recurrent": recurrent, "encoder": encoder, "resnet50": lambda: resnet50(1), "resnet50_training": lambda: resnet50(8)}


def main():
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.set_grad_enabled(False)
    prepared = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in prepared:
            prepared[name] = CASES[name]()
            for _ in range(10):
                prepared[name][0]()
        run, times = prepared[name]
        parts = []
        for _ in range(5):
            begin = time.perf_counter()
            for _ in range(max(1, times // 5)):
                run()
            parts.append((time.perf_counter() - begin) / max(1, times // 5) * 1e6)
        print(f"{statistics.median(parts):.2f}", flush=True)


if __name__ == "__main__":
    main()
