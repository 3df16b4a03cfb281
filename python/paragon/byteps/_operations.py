"""push_pull and its forms, and broadcasts."""

from __future__ import annotations

from typing import Any, Optional

import torch

from ..torch._collectives import AVERAGE, SUM, Handle
from ..torch._compat import functions
from ..torch._compat.compression import Compression
from ..torch._compat.functions import Parameters
from ._basics import current


def _start(
    tensor: torch.Tensor, average: bool, name: Optional[str], into: Optional[torch.Tensor] = None
) -> Handle:
    return current().collectives.reduce(tensor, AVERAGE if average else SUM, name, into=into)


class _PushPull(torch.autograd.Function):
    """push_pull as a part of a graph: its gradient is the push_pull of the gradient."""

    @staticmethod
    def forward(ctx, tensor, average, name):  # type: ignore[no-untyped-def]
        ctx.arguments = average, name
        return _start(tensor, average, name).wait()

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        average, name = ctx.arguments
        return _start(gradient, average, f"{name}/gradient").wait(), None, None


def push_pull(
    tensor: torch.Tensor,
    average: bool = True,
    name: Optional[str] = None,
    version: int = 0,
    priority: int = 0,
    compression: Any = Compression.none,
) -> torch.Tensor:
    """Returns the mean, or the sum, of the tensors of all workers. Gradients flow through it.

    Args:
        tensor: of any dense type, with the same shape and type on all workers.
        average: the mean; False: the sum.
        name: the same on all workers. It must be given.
        version, priority: change nothing.
        compression: rounds the tensor before.
    """
    if name is None:
        raise AssertionError("push_pull without a name; give it name=..., the same on all workers")
    small, context = compression.compress(tensor)
    if small.requires_grad and torch.is_grad_enabled():
        result = _PushPull.apply(small, average, name)
    else:
        result = _start(small, average, name).wait()
    return compression.decompress(result, context)


def push_pull_async(
    tensor: torch.Tensor,
    average: bool = True,
    name: Optional[str] = None,
    version: int = 0,
    priority: int = 0,
) -> Handle:
    """Starts push_pull; poll and synchronize take the handle. Without a name calls are matched in
    their order."""
    return _start(tensor, average, name)


def push_pull_async_inplace(
    tensor: torch.Tensor,
    average: bool = True,
    name: Optional[str] = None,
    version: int = 0,
    priority: int = 0,
) -> Handle:
    """push_pull_async into the tensor itself, which has the result after synchronize."""
    return _start(tensor, average, name, tensor)


byteps_push_pull = push_pull_async_inplace


def push_pull_inplace(
    tensor: torch.Tensor,
    average: bool = True,
    name: Optional[str] = None,
    version: int = 0,
    priority: int = 0,
) -> torch.Tensor:
    """push_pull into the tensor itself, which it returns."""
    return _start(tensor, average, name, tensor).wait()


def poll(handle: Handle) -> bool:
    """Whether synchronize would return at once."""
    return handle.done()


def synchronize(handle: Handle) -> torch.Tensor:
    """Waits for an operation and returns its result."""
    return handle.wait()


def declare(name: str) -> int:
    """Does nothing, and returns 0: keys are by name, and made by their first use."""
    current()
    return 0


def broadcast_parameters(
    params: Parameters, root_rank: int = 0, prefix: str = "Parameter."
) -> None:
    """Gives all workers the values of root's tensors, in place.

    Args:
        params: ``model.state_dict()``, ``model.named_parameters()``, ``model.parameters()``, or a
            list of tensors or of pairs of name and tensor. Tensors may be of any type.
        root_rank: the worker whose values count.
        prefix: changes nothing.
    """
    functions.broadcast_parameters(current().collectives, params, root_rank)


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int = 0, prefix: str = "Parameter."
) -> None:
    """Gives all workers the state and the options of root's optimizer.

    Unlike BytePS's it makes no step to create state: an optimizer that has none keeps none.

    Args:
        optimizer: with the same groups of parameters on all workers.
        root_rank: the worker whose state counts.
        prefix: changes nothing.
    """
    functions.broadcast_optimizer_state(current().collectives, optimizer, root_rank)


def broadcast_object(obj: Any = None, root_rank: int = 0, name: Optional[str] = None) -> Any:
    """Returns root's object on all workers, by pickle."""
    return current().collectives.broadcast_object(obj, root_rank, name)
