"""allreduce, allgather, broadcast and their forms."""

from __future__ import annotations

import enum
import warnings
from typing import Any, List, Optional, Sequence, Union

import torch

from ..torch import _collectives
from ..torch._collectives import Handle
from ..torch._compat.compression import Compression
from ._basics import check_process_set, current, global_process_set, job_errors


class ReduceOp(enum.Enum):
    """How values of different workers are combined."""

    Average = _collectives.AVERAGE
    Sum = _collectives.SUM
    Min = _collectives.MIN
    Max = _collectives.MAX
    Product = _collectives.PRODUCT
    Adasum = "adasum"


Average = ReduceOp.Average
Sum = ReduceOp.Sum
Min = ReduceOp.Min
Max = ReduceOp.Max
Product = ReduceOp.Product
Adasum = ReduceOp.Adasum


def check_op(op: Any) -> ReduceOp:
    """Returns op; raises for Adasum and for what is none of Average, Sum, Min, Max, Product."""
    if op is Adasum:
        raise NotImplementedError("op=Adasum is not there; use op=Average")
    if not isinstance(op, ReduceOp):
        raise ValueError(f"op={op!r}; want Average, Sum, Min, Max or Product")
    return op


def _op(op: Optional[ReduceOp], average: Optional[bool]) -> ReduceOp:
    if op is not None and average is not None:
        raise ValueError("both op and average are given; give op alone")
    if average is not None:
        warnings.warn(
            "the argument average of allreduce is old; use op=Average or op=Sum",
            DeprecationWarning,
            stacklevel=4,
        )
        op = Average if average else Sum
    return check_op(Average if op is None else op)


def _start(
    tensor: torch.Tensor,
    op: ReduceOp,
    name: Optional[str],
    before: float,
    after: float,
    process_set: Any,
    into: Optional[torch.Tensor] = None,
) -> Handle:
    check_process_set(process_set)
    with job_errors():
        return current().collectives.reduce(tensor, op.value, name, before, after, into)


class _Reduce(torch.autograd.Function):
    """allreduce as a part of a graph: its gradient is the allreduce of the gradient."""

    @staticmethod
    def forward(ctx, tensor, op, name, before, after):  # type: ignore[no-untyped-def]
        ctx.arguments = op, before, after
        return synchronize(_start(tensor, op, name, before, after, global_process_set))

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        op, before, after = ctx.arguments
        if op not in (Average, Sum):
            raise NotImplementedError(
                f"the gradient of allreduce with op={op.name}; use op=Average or op=Sum"
            )
        result = synchronize(_start(gradient, op, None, before, after, global_process_set))
        return result, None, None, None, None


def allreduce_async(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> Handle:
    """Starts to combine the tensors of all workers; poll and synchronize take the handle.

    Args:
        tensor: of any dense type, with the same shape and type on all workers.
        average: old form of op: True is Average, False is Sum.
        name: the same on all workers; None: by the order of calls.
        op: Average (None), Sum, Min, Max or Product.
        prescale_factor, postscale_factor: factors before and after.
    """
    return _start(tensor, _op(op, average), name, prescale_factor, postscale_factor, process_set)


def allreduce_async_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> Handle:
    """allreduce_async into the tensor itself, which has the result after synchronize."""
    return _start(
        tensor, _op(op, average), name, prescale_factor, postscale_factor, process_set, tensor
    )


def allreduce(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> torch.Tensor:
    """Returns the tensors of all workers combined. Gradients flow through it.

    compression rounds the tensor before; the other arguments are those of allreduce_async."""
    check_process_set(process_set)
    op = _op(op, average)
    small, context = compression.compress(tensor)
    if small.requires_grad and torch.is_grad_enabled():
        result = _Reduce.apply(small, op, name, prescale_factor, postscale_factor)
    else:
        result = synchronize(
            _start(small, op, name, prescale_factor, postscale_factor, process_set)
        )
    return compression.decompress(result, context)


def allreduce_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> torch.Tensor:
    """allreduce into the tensor itself, which it returns."""
    op = _op(op, average)
    return synchronize(
        _start(tensor, op, name, prescale_factor, postscale_factor, process_set, tensor)
    )


def _together(handles: List[Handle]) -> Handle:
    return Handle(
        lambda: all(h.done() for h in handles), lambda: [h.wait() for h in handles]
    )


def _start_group(
    tensors: Sequence[torch.Tensor],
    op: ReduceOp,
    name: Optional[str],
    before: float,
    after: float,
    process_set: Any,
    in_place: bool,
) -> Handle:
    handles = []
    for i, t in enumerate(tensors):
        one = None if name is None else f"{name}.{i}"
        into = t if in_place else None
        handles.append(_start(t, op, one, before, after, process_set, into))
    return _together(handles)


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> Handle:
    """allreduce_async of several tensors; synchronize returns a list."""
    op = _op(op, average)
    return _start_group(
        tensors, op, name, prescale_factor, postscale_factor, process_set, False
    )


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> Handle:
    """allreduce_async_ of several tensors."""
    op = _op(op, average)
    return _start_group(tensors, op, name, prescale_factor, postscale_factor, process_set, True)


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> List[torch.Tensor]:
    """allreduce of several tensors."""
    check_process_set(process_set)
    op = _op(op, average)
    if any(t.requires_grad for t in tensors) and torch.is_grad_enabled():
        return [
            allreduce(
                t,
                name=None if name is None else f"{name}.{i}",
                compression=compression,
                op=op,
                prescale_factor=prescale_factor,
                postscale_factor=postscale_factor,
            )
            for i, t in enumerate(tensors)
        ]
    small = [compression.compress(t) for t in tensors]
    group = [t for t, _ in small]
    handle = _start_group(
        group, op, name, prescale_factor, postscale_factor, process_set, False
    )
    return [compression.decompress(t, c) for t, (_, c) in zip(synchronize(handle), small)]


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> List[torch.Tensor]:
    """allreduce_ of several tensors."""
    op = _op(op, average)
    handle = _start_group(
        tensors, op, name, prescale_factor, postscale_factor, process_set, True
    )
    return synchronize(handle)


class _Gather(torch.autograd.Function):
    """allgather as a part of a graph: its gradient is this worker's part of the mean gradient."""

    @staticmethod
    def forward(ctx, tensor, name):  # type: ignore[no-untyped-def]
        parts = current().collectives.allgather(tensor, name)
        ctx.shape = tensor.shape
        ctx.begin = sum(len(p) for p in parts[: current().store.rank])
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        mean = allreduce(gradient, op=Average)
        count = ctx.shape[0] if ctx.shape else 1
        return mean[ctx.begin : ctx.begin + count].reshape(ctx.shape), None


def allgather(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: Any = global_process_set
) -> torch.Tensor:
    """Returns the tensors of all workers, concatenated in their first dimension, by rank.

    The workers' tensors may differ in the size of that dimension. All types keep their bits.
    Gradients flow through it."""
    check_process_set(process_set)
    with job_errors():
        if tensor.requires_grad and torch.is_grad_enabled():
            return _Gather.apply(tensor, name)
        return torch.cat(current().collectives.allgather(tensor, name))


def allgather_async(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: Any = global_process_set
) -> Handle:
    """allgather, which is done when this returns."""
    return Handle.of(allgather(tensor.detach(), name, process_set))


def grouped_allgather(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    process_set: Any = global_process_set,
) -> List[torch.Tensor]:
    """allgather of several tensors."""
    return [
        allgather(t, None if name is None else f"{name}.{i}", process_set)
        for i, t in enumerate(tensors)
    ]


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    process_set: Any = global_process_set,
) -> Handle:
    """grouped_allgather, which is done when this returns."""
    return Handle.of(grouped_allgather([t.detach() for t in tensors], name, process_set))


class _Broadcast(torch.autograd.Function):
    """broadcast as a part of a graph: root has the mean gradient, the others zeros."""

    @staticmethod
    def forward(ctx, tensor, root, name):  # type: ignore[no-untyped-def]
        ctx.root = root
        return broadcast_(tensor.detach().clone(), root, name)

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        mean = allreduce(gradient, op=Average)
        if current().store.rank != ctx.root:
            mean.zero_()
        return mean, None, None


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Any = global_process_set,
) -> torch.Tensor:
    """Gives the tensor root's values on all workers, and returns it."""
    check_process_set(process_set)
    with job_errors():
        current().collectives.broadcast([(name or "a tensor", tensor)], root_rank)
    return tensor


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Any = global_process_set,
) -> torch.Tensor:
    """Returns root's tensor on all workers. All types keep their bits. Gradients flow through."""
    check_process_set(process_set)
    if tensor.requires_grad and torch.is_grad_enabled():
        return _Broadcast.apply(tensor, root_rank, name)
    return broadcast_(tensor.detach().clone(), root_rank, name)


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Any = global_process_set,
) -> Handle:
    """broadcast, which is done when this returns."""
    return Handle.of(broadcast(tensor.detach(), root_rank, name, process_set))


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Any = global_process_set,
) -> Handle:
    """broadcast_, which is done when this returns."""
    return Handle.of(broadcast_(tensor, root_rank, name, process_set))


def poll(handle: Handle) -> bool:
    """Whether synchronize would return at once."""
    return handle.done()


def synchronize(handle: Handle) -> Union[torch.Tensor, Any]:
    """Waits for an operation and returns its result."""
    with job_errors():
        return handle.wait()


def barrier(process_set: Any = global_process_set) -> None:
    """Returns when every worker has called it."""
    check_process_set(process_set)
    with job_errors():
        current().store.barrier()


def join(device: int = -1) -> int:
    """Raises NotImplementedError: a worker without data cannot take part in calls by itself."""
    raise NotImplementedError(
        "join is not there; use paragon.torch.ElasticSampler, which gives all workers as many "
        "steps and workers without examples the weight 0, or a sampler that pads, such as "
        "torch.utils.data.DistributedSampler"
    )
