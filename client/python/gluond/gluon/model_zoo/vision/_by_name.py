"""get_model: the networks by their names."""
from __future__ import annotations

from typing import Any, Callable, Dict

from . import alexnet, densenet, inception, mobilenet, resnet, squeezenet, vgg

_NETWORKS: Dict[str, Callable[..., Any]] = {
    "squeezenet1.0": squeezenet.squeezenet1_0,
    "squeezenet1.1": squeezenet.squeezenet1_1,
    "inceptionv3": inception.inception_v3,
}
for _multiplier in ("1.0", "0.75", "0.5", "0.25"):
    _function = _multiplier.replace(".", "_")
    _NETWORKS[f"mobilenet{_multiplier}"] = getattr(mobilenet, f"mobilenet{_function}")
    _NETWORKS[f"mobilenetv2_{_multiplier}"] = getattr(mobilenet, f"mobilenet_v2_{_function}")
for _module in (alexnet, densenet, resnet, vgg):
    _NETWORKS.update({name: getattr(_module, name) for name in _module.__all__ if name.islower() and not name.startswith("get_")})


def get_model(name: str, **kwargs: Any) -> Any:
    """The network of a name, as 'resnet18_v1', 'mobilenet1.0' or 'inceptionv3'; `kwargs` are those of its function.

    ValueError: there is no such network; it tells the names.
    """
    name = name.lower()
    if name not in _NETWORKS:
        raise ValueError(f"Model {name} is not supported. Available options are\n\t" + "\n\t".join(sorted(_NETWORKS)))
    return _NETWORKS[name](**kwargs)
