"""The common base of the networks for images."""
from __future__ import annotations

from typing import Any

from ..._hybrid_block import HybridBlock


class Network(HybridBlock):
    """`features` of images (N, 3, height, width), then `output`, the scores of classes (N, classes)."""

    features: Any
    output: Any

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """(N, 3, height, width) -> (N, classes)."""
        return self.output(self.features(x))
