"""Models, optimizers and objects from one worker to all."""

from __future__ import annotations

from typing import Any, List, Optional

import torch

from ..torch._compat import functions
from ..torch._compat.functions import Parameters
from ._basics import check_process_set, current, global_process_set, job_errors


def broadcast_parameters(params: Parameters, root_rank: int = 0) -> None:
    """Gives all workers the values of root's tensors, in place.

    Args:
        params: ``model.state_dict()``, ``model.named_parameters()``, ``model.parameters()``, or a
            list of tensors or of pairs of name and tensor. Tensors may be of any type.
        root_rank: the worker whose values count.
    """
    with job_errors():
        functions.broadcast_parameters(current().collectives, params, root_rank)


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int = 0, model: Optional[torch.nn.Module] = None
) -> None:
    """Gives all workers the state and the options of root's optimizer.

    Unlike Horovod's it makes no step to create state: an optimizer that has none keeps none.

    Args:
        optimizer: with the same groups of parameters on all workers.
        root_rank: the worker whose state counts.
        model: is not needed.
    """
    with job_errors():
        functions.broadcast_optimizer_state(current().collectives, optimizer, root_rank)


def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    name: Optional[str] = None,
    process_set: Any = global_process_set,
) -> Any:
    """Returns root's object on all workers, by pickle."""
    check_process_set(process_set)
    with job_errors():
        return current().collectives.broadcast_object(obj, root_rank, name)


def allgather_object(
    obj: Any, name: Optional[str] = None, process_set: Any = global_process_set
) -> List[Any]:
    """Returns the objects of all workers, by rank, by pickle."""
    check_process_set(process_set)
    with job_errors():
        return current().collectives.allgather_object(obj, name)
