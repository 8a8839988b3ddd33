"""PyTorch's side of compare.py: `torch_side.py {full,tiny} {none,all}`, as gluond_side.py. The second is where float32 is
multiplied as TF32. With no GPU and `tiny` it computes on the CPU."""

import sys

import torch
from torch.nn import functional as F

import sizes
import torch_networks
import turns

SIZES = {"full": sizes.FULL, "tiny": sizes.TINY}[sys.argv[1]]
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = sys.argv[2] == "all"
GPU = torch.device("cuda" if sys.argv[1] == "full" or torch.cuda.is_available() else "cpu")


def finish():
    if GPU.type == "cuda":
        torch.cuda.synchronize()


def random(shape):
    return torch.rand(shape, device=GPU) * 2 - 1


def gemm(dtype):
    n = SIZES.matrix
    a, b = (random((n, n)).to(getattr(torch, dtype)) for _ in range(2))
    product = a @ b
    return lambda: torch.matmul(a, b, out=product), SIZES.times, finish


def absolute():
    x, y = random((SIZES.vector,)), random((SIZES.vector,))
    return lambda: torch.abs(x, out=y), SIZES.times, finish


def chain():
    x = random((SIZES.vector,))
    kept = [None]

    @torch.no_grad()
    def run():
        kept[0] = torch.tanh(x * 1.5 + 0.5) * F.relu(x) - x

    return run, SIZES.times, finish


class Step:
    """A network on the GPU, with a batch that lies there, and with one that lies with the host."""

    def __init__(self, name):
        size = SIZES.networks[name]
        torch.manual_seed(0)
        self.net = torch_networks.make(name, size.classes, SIZES.encoder).to(GPU)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.9)
        self.x = random(size.batch)
        self.y = torch.arange(size.batch[0], device=GPU) % size.classes
        self.host_batch = self.x.cpu(), self.y.cpu()

    def train(self):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.net(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss

    def train_from_the_host(self):
        self.x, self.y = (part.to(GPU) for part in self.host_batch)
        return self.train().item()

    @torch.inference_mode()
    def infer(self):
        return self.net(self.x)


def training(name):
    return Step(name).train, SIZES.networks[name].steps, finish


def inference(name):
    step = Step(name)
    step.net.eval()
    return step.infer, SIZES.networks[name].steps, finish


def request(name):
    return Step(name).train_from_the_host, max(2, SIZES.networks[name].steps // 2), finish


def memory():
    """The most bytes that tensors had."""
    return torch.cuda.max_memory_allocated() if GPU.type == "cuda" else "-"


if __name__ == "__main__":
    turns.Turns(
        {"gemm": gemm, "abs": absolute, "chain": chain, "training": training, "inference": inference, "request": request}
    ).answer({"memory": memory})
