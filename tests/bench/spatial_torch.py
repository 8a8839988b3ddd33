"""spatial_cases.py's calls in PyTorch. usage: spatial_torch.py [THREADS]"""

import ast
import sys

import needs
import spatial_cases

needs.require("torch")

import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402


def make(op, attrs, shape):
    """The operator's function of x (and parameters), and its parameters' shapes."""
    axes = len(shape) - 2
    get = lambda name, otherwise: ast.literal_eval(attrs[name]) if name in attrs else (otherwise,) * axes
    if op == "Pooling":
        maximum = attrs.get("pool_type", "max") == "max"
        if "global_pool" in attrs:
            function = getattr(F, f"adaptive_{'max' if maximum else 'avg'}_pool{axes}d")
            return (lambda x: function(x, 1)), []
        args = get("kernel", 1), get("stride", 1), get("pad", 0)
        ceil = attrs.get("pooling_convention") == "full"
        if maximum:
            function = getattr(F, f"max_pool{axes}d")
            return (lambda x: function(x, *args, ceil_mode=ceil)), []
        function, count = getattr(F, f"avg_pool{axes}d"), attrs.get("count_include_pad") != "False"
        return (lambda x: function(x, *args, ceil_mode=ceil, count_include_pad=count)), []
    filters, groups = int(attrs["num_filter"]), int(attrs.get("num_group", 1))
    kernel, stride, pad, dilate = get("kernel", 1), get("stride", 1), get("pad", 0), get("dilate", 1)
    if op == "Convolution":
        function = getattr(F, f"conv{axes}d")
        return (
            (lambda x, w, b: function(x, w, b, stride, pad, dilate, groups)),
            [(filters, shape[1] // groups, *kernel), (filters,)],
        )
    function = getattr(F, f"conv_transpose{axes}d")
    return (
        (lambda x, w, b: function(x, w, b, stride, pad, get("adj", 0), groups, dilate)),
        [(shape[1], filters // groups, *kernel), (filters,)],
    )


def prepare(op, attrs, shape, training):
    function, parameters = make(op, attrs, shape)
    inputs = [torch.rand(s, requires_grad=training) for s in (shape, *parameters)]
    dy = torch.rand_like(function(*inputs))

    def infer():
        with torch.no_grad():
            function(*inputs)

    return (lambda: torch.autograd.grad(function(*inputs), inputs, dy)) if training else infer


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
    spatial_cases.serve(prepare)
