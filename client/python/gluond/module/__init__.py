"""Modules: symbols trained and run batch by batch, as MXNet's mx.mod: `mx.mod.Module(symbol).fit(batches, num_epoch=3)`."""
from . import executor_group
from .base_module import BaseModule
from .bucketing_module import BucketingModule
from .module import Module
from .python_module import PythonLossModule, PythonModule
from .sequential_module import SequentialModule

__all__ = ["BaseModule", "BucketingModule", "Module", "PythonLossModule", "PythonModule", "SequentialModule", "executor_group"]
