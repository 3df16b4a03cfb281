"""DistributedOptimizer."""

from __future__ import annotations

import warnings
from typing import Any, Iterable, Optional, Tuple

import torch

from ..torch._compat.compression import Compression, kind_of
from ..torch._compat.optimizer import Combined, Parameters, distribute, named_parameters_of
from ._basics import check_process_set, current, global_process_set, job_errors
from ._operations import Average, ReduceOp, Sum, check_op


def DistributedOptimizer(  # noqa: N802, Horovod's name.
    optimizer: torch.optim.Optimizer,
    named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]] = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    sparse_as_dense: bool = False,
    process_set: Any = global_process_set,
) -> torch.optim.Optimizer:
    """Combines the gradients of all workers during each backward, and returns the optimizer.

    It is the same object, with its state. It gets the methods ``synchronize()``,
    ``skip_synchronize()`` and ``set_backward_passes_per_step(n)``. Parameters become those of
    worker 0.

    Args:
        optimizer: any of torch's.
        named_parameters: ``model.named_parameters()``; None: names are made from the order.
        compression: Compression.none, or Compression.fp16, which sends gradients in 16 bits.
        backward_passes_per_step: how many backward passes are added up before gradients are
            combined. As in Horovod they are summed: divide the loss for a mean.
        op: Average or Sum.
        gradient_predivide_factor: changes nothing: servers sum in float32 and divide once.
        num_groups, groups: change nothing: small gradients are sent together anyway.
        sparse_as_dense: sparse gradients are sent dense. Without it they are an error, since names
            do not say which they are: paragon.torch.attach(model, ...) sends them as rows.
        process_set: global_process_set.
    """
    check_process_set(process_set)
    if check_op(op) not in (Average, Sum):
        raise NotImplementedError(f"op={op.name} for gradients; use op=Average or op=Sum")
    if gradient_predivide_factor != 1.0 and op is not Average:
        raise ValueError(
            f"gradient_predivide_factor={gradient_predivide_factor} with op={op.name}; it is for "
            f"op=Average"
        )
    if backward_passes_per_step < 1:
        raise ValueError(f"backward_passes_per_step={backward_passes_per_step}; want at least 1")
    if num_groups:
        warnings.warn("num_groups changes nothing here", DeprecationWarning, stacklevel=2)
    kind = kind_of(compression)
    named = named_parameters_of(optimizer, named_parameters, "allreduce.noname")
    with job_errors():
        combined = Combined(
            Parameters(named),
            current().store,
            kind,
            backward_passes_per_step,
            total=op is Sum,
            dense=sparse_as_dense,
        )
    return distribute(optimizer, combined)
