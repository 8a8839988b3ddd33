"""What is computed: the same numbers for gluond's side and for PyTorch's. Imports nothing but Python's own."""

import collections

# title; one batch of input; kinds of labels; steps between two looks at the clock, which are a second or so on a large GPU.
Network = collections.namedtuple("Network", "title batch classes steps")
# width, heads, width between, layers.
Encoder = collections.namedtuple("Encoder", "width heads inner layers")
# matrix: rows and columns of a product's factors; vector: floats that an elementwise chain reads; rounds: how often each side
# has its turn; times: how often a kernel runs in a turn.
Sizes = collections.namedtuple("Sizes", "networks encoder matrix vector rounds times")

FULL = Sizes(
    networks={
        "lenet": Network("LeNet, batch 64", (64, 1, 28, 28), 10, 200),
        "resnet20": Network("ResNet-20, batch 64", (64, 3, 32, 32), 10, 50),
        "resnet50": Network("ResNet-50, batch 64", (64, 3, 224, 224), 1000, 10),
        "encoder": Network("transformer encoder, batch 32 of 128 tokens", (32, 128, 768), 1000, 10),
    },
    encoder=Encoder(768, 12, 3072, 12),
    matrix=8192,
    vector=1 << 26,
    rounds=5,
    times=20,
)

# One row for each table, as small as can be: for a GPU that a processor emulates.
TINY = Sizes(
    networks={"lenet": Network("LeNet, batch 2", (2, 1, 28, 28), 10, 2)},
    encoder=Encoder(16, 2, 32, 2),
    matrix=32,
    vector=1 << 10,
    rounds=1,
    times=2,
)

# For what is compared with the CPU: networks of the full depth on small batches, and encoders of this size.
SMALL_BATCHES = {"lenet": (64, 1, 28, 28), "resnet20": (32, 3, 32, 32), "resnet50": (8, 3, 64, 64), "encoder": (2, 16, 96)}
SMALL_ENCODER = Encoder(96, 4, 192, 12)
