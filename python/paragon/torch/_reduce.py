"""Sums and means of a tensor over all workers, for what a loop counts."""

from __future__ import annotations

from typing import Optional

import torch

import paragon
from paragon.errors import UsageError

from . import _collectives

_OPS = ("average", "sum", "min", "max", "product")


def all_reduce(
    tensor: torch.Tensor, op: str = "average", name: Optional[str] = None
) -> torch.Tensor:
    """Returns the tensors of all workers combined, element by element, as a new tensor.

    Every worker calls it, such as at the end of an epoch, for counts and measures; ``attach``
    takes care of gradients.

    Args:
        tensor: of the same shape and type on all workers.
        op: "average", "sum", "min", "max" or "product". Sums of floats are float32 on the servers;
            whole numbers are exact.
        name: the same on all workers; calls without a name are matched in their order.
    """
    if not isinstance(tensor, torch.Tensor):
        raise UsageError(
            f"all_reduce: got a {type(tensor).__name__}, want a tensor: torch.tensor(value) makes "
            "one of a number"
        )
    if op not in _OPS:
        raise UsageError(f"all_reduce: op is {op!r}, want one of {', '.join(_OPS)}")
    store = paragon.current() or paragon.init()
    return _collectives.of(store).reduce(tensor, op, name).wait()
