"""MXNet 1.x's Gluon, computed by a gluond server: `import gluond as mx`.

The first array connects this process to a server: the one of `mx.connect("host:port")`, else the one at GLUOND_ADDRESS,
else a private one that this process starts and that ends with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._servers import connect, disconnect
from . import _elsewhere, attribute, autograd, base, context, engine, name, ndarray, random, util
from . import ndarray as nd
from . import random as rnd
from .attribute import AttrScope
from .base import MXNetError
from .context import Context, cpu, cpu_pinned, current_context, gpu, num_gpus
from . import symbol
from . import symbol as sym
from . import executor, initializer, lr_scheduler, metric, optimizer, visualization
from . import image as img
from . import initializer as init
from . import visualization as viz
from . import (
    callback,
    contrib,
    gluon,
    image,
    io,
    kvstore,
    log,
    minpy,
    model,
    module,
    monitor,
    operator,
    recordio,
    registry,
    remote,
    rnn,
    runtime,
    test_utils,
)
from . import kvstore as kv
from . import module as mod
from . import monitor as mon
from ._remote.sessions import attach, delete_session, save_session, sessions
from .minpy import customop
from .util import is_np_array, is_np_shape, np_array, np_shape, set_np_shape, use_np, use_np_array, use_np_shape

__version__ = "1.9.1+gluond0.1.0"  # MXNet's, which libraries ask for; the package's own is the local part.


if not TYPE_CHECKING:  # A type checker finds by itself what is not here.
    __getattr__ = _elsewhere.getter(__name__)
