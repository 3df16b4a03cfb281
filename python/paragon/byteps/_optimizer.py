"""DistributedOptimizer."""

from __future__ import annotations

import os
from typing import Any, Iterable, Optional, Tuple

import torch

from ..torch._compat.compression import Compression, kind_of
from ..torch._compat.optimizer import Combined, Parameters, distribute, named_parameters_of
from ._basics import current


def DistributedOptimizer(  # noqa: N802, BytePS's name.
    optimizer: torch.optim.Optimizer,
    named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]] = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
) -> torch.optim.Optimizer:
    """Averages the gradients of all workers during each backward, and returns the optimizer.

    It is the same object, with its state. It gets the methods ``synchronize()``,
    ``skip_synchronize()`` and ``set_backward_passes_per_step(n)``. Parameters become those of
    worker 0.

    Args:
        optimizer: any of torch's.
        named_parameters: ``model.named_parameters()``; None: names are made from the order.
        compression: Compression.none, or Compression.fp16, which sends gradients in 16 bits.
        backward_passes_per_step: how many backward passes are added up before gradients are
            averaged. As in BytePS they are summed: divide the loss for a mean.
    """
    if os.environ.get("BYTEPS_ENABLE_ASYNC", "0") not in ("", "0"):
        raise NotImplementedError(
            "BYTEPS_ENABLE_ASYNC: workers that do not wait for each other are not there for "
            "DistributedOptimizer; unset it, or use paragon.kv with a store of type dist_async"
        )
    kind = kind_of(compression)
    named = named_parameters_of(optimizer, named_parameters, "push_pull.noname")
    store = current().store
    combined = Combined(Parameters(named), store, kind, backward_passes_per_step)
    return distribute(optimizer, combined)
