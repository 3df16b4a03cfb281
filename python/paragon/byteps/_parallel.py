"""DistributedDataParallel."""

from __future__ import annotations

from typing import Any, ContextManager

import torch

from ..torch._compat.compression import Compression, kind_of
from ..torch._compat.optimizer import Combined, Parameters
from ._basics import current


class DistributedDataParallel(torch.nn.Module):
    """A module whose gradients are the mean over all workers when ``backward()`` returns.

    Parameters and buffers become those of worker 0.

    Args:
        module: the model, on the CPU or a GPU.
        device_ids: changes nothing: the module stays where it is.
        broadcast_buffers: whether buffers, such as the statistics of BatchNorm, are kept alike.
            They are averaged over all workers now and then, not sent before each forward.
        compression: Compression.none, or Compression.fp16, which sends gradients in 16 bits.

    Attributes:
        module: the model.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        device_ids: Any = None,
        broadcast_buffers: bool = True,
        compression: Any = Compression.none,
    ) -> None:
        super().__init__()
        self.module = module
        self.broadcast_buffers = broadcast_buffers
        kind, store = kind_of(compression), current().store
        exchanged = module if broadcast_buffers else Parameters(list(module.named_parameters()))
        self._combined = Combined(exchanged, store, kind)
        if not broadcast_buffers:
            current().collectives.broadcast(list(module.named_buffers()), 0)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Calls the module."""
        return self.module(*inputs, **kwargs)

    def no_sync(self) -> ContextManager[None]:
        """A block whose backwards only add to ``.grad``; the next one after it averages the sum."""
        return self._combined.no_sync()

    def synchronize(self) -> None:
        """Averages gradients that were only added up. It need not be called after backward."""
        self._combined.synchronize()
