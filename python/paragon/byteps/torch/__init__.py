"""The names of ``byteps.torch``: see :mod:`paragon.byteps`."""

from __future__ import annotations

from typing import Any

from ...torch._compat.compression import Compression
from .. import _missing
from .._basics import (
    init,
    is_initialized,
    local_rank,
    local_size,
    rank,
    resume,
    shutdown,
    size,
    suspend,
)
from .._operations import (
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
    byteps_push_pull,
    declare,
    poll,
    push_pull,
    push_pull_async,
    push_pull_async_inplace,
    push_pull_inplace,
    synchronize,
)
from .._optimizer import DistributedOptimizer
from . import parallel

__all__ = [
    "Compression",
    "DistributedOptimizer",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "byteps_push_pull",
    "declare",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "parallel",
    "poll",
    "push_pull",
    "push_pull_async",
    "push_pull_async_inplace",
    "push_pull_inplace",
    "rank",
    "resume",
    "shutdown",
    "size",
    "suspend",
    "synchronize",
]


def __getattr__(name: str) -> Any:
    return _missing.attribute("paragon.byteps.torch", name)
