"""The same training steps in PyTorch, in process: prints milliseconds a step, one line for
each line of standard input.

usage: peer_torch.py {mlp,lenet,resnet20} STEPS [BATCH] [THREADS]
"""

import sys
import time

import needs

needs.require("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)), (
        1,
        28,
        28,
    )


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(800, 500),
        nn.ReLU(),
        nn.Linear(500, 10),
    ), (1, 28, 28)


class Residual(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def resnet20():
    blocks, channels_in = [], 16
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        for i in range(3):
            blocks.append(Residual(channels_in, channels, stride if i == 0 else 1))
            channels_in = channels
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    ), (3, 32, 32)


def main():
    name, steps = sys.argv[1], int(sys.argv[2])
    batch = int(sys.argv[3]) if len(sys.argv) > 3 else 64
    torch.set_num_threads(int(sys.argv[4]) if len(sys.argv) > 4 else 2)
    torch.manual_seed(0)
    net, shape = {"mlp": mlp, "lenet": lenet, "resnet20": resnet20}[name]()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.rand(batch, *shape), torch.randint(0, 10, (batch,))

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(min(steps, 20)):
        step()
    for _ in sys.stdin:
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        print(f"{(time.perf_counter() - begin) / steps * 1e3:.3f}", flush=True)


if __name__ == "__main__":
    main()
