"""Models, optimizers and objects from one worker to all."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Tuple, Union

import torch

from .._collectives import Collectives

Parameters = Union[Mapping[str, torch.Tensor], Iterable[Any]]


def named_tensors(parameters: Parameters) -> List[Tuple[str, torch.Tensor]]:
    """Returns names and tensors of a dict (by name), or of a list or iterator of tensors or pairs.

    Raises ValueError for what is neither, and TypeError for a value that is no tensor."""
    if isinstance(parameters, Mapping):
        pairs = sorted(parameters.items())
    elif isinstance(parameters, (str, bytes, torch.Tensor)) or not hasattr(parameters, "__iter__"):
        raise ValueError(
            f"parameters of type {type(parameters).__name__}; want a dict such as "
            f"model.state_dict(), model.named_parameters(), or model.parameters()"
        )
    else:
        pairs = []
        for i, p in enumerate(parameters):
            pairs.append(p if isinstance(p, tuple) else (f"parameter {i}", p))
    for name, p in pairs:
        if not isinstance(p, torch.Tensor):
            raise TypeError(
                f"parameter {name!r} is of type {type(p).__name__}, not a tensor; give it to "
                f"broadcast_object"
            )
    return [(str(name), p) for name, p in pairs]


def broadcast_parameters(c: Collectives, parameters: Parameters, root: int) -> None:
    """Gives all workers root's values, in place, in one go."""
    c.broadcast(named_tensors(parameters), root)


def broadcast_optimizer_state(c: Collectives, optimizer: torch.optim.Optimizer, root: int) -> None:
    """Gives all workers the state and options, such as the learning rate, of root's optimizer.

    No step is made. State that root's optimizer does not have is removed, and state that only it
    has is made. Tensors keep their bits; what else there is is pickled."""
    c.check_root(root)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    tensors: List[Tuple[str, torch.Tensor]] = []
    outline = None
    if c.store.rank == root:
        outline, tensors = _outline(optimizer, parameters)
    outline = c.broadcast_object(outline, root, "optimizer state")
    if c.store.rank != root:
        tensors = _follow(optimizer, parameters, outline, root)
    c.broadcast(tensors, root)


def _outline(
    optimizer: torch.optim.Optimizer, parameters: List[torch.Tensor]
) -> Tuple[Dict[str, Any], List[Tuple[str, torch.Tensor]]]:
    """What an optimizer has, without its tensors, and the tensors."""
    tensors: List[Tuple[str, torch.Tensor]] = []
    states: Dict[int, Dict[str, Any]] = {}
    for i, p in enumerate(parameters):
        for key, value in optimizer.state.get(p, {}).items():
            entry: Any = ("value", value)
            if isinstance(value, torch.Tensor) and value.layout == torch.strided:
                # Adam's step is on the CPU wherever the parameter is.
                beside = value.device.type == p.device.type
                entry = ("tensor", tuple(value.shape), value.dtype, beside)
                tensors.append((f"{key} of parameter {i}", value))
            states.setdefault(i, {})[key] = entry
    groups = [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
    sizes = [len(g["params"]) for g in optimizer.param_groups]
    return {"groups": groups, "sizes": sizes, "states": states}, tensors


def _follow(
    optimizer: torch.optim.Optimizer,
    parameters: List[torch.Tensor],
    outline: Dict[str, Any],
    root: int,
) -> List[Tuple[str, torch.Tensor]]:
    """Gives an optimizer the outline of root's. Returns the tensors, without root's values yet."""
    sizes = [len(g["params"]) for g in optimizer.param_groups]
    if sizes != outline["sizes"]:
        raise ValueError(
            f"the optimizer of worker {root} has groups of {outline['sizes']} parameters, that of "
            f"this worker groups of {sizes}; make the same optimizer on every worker"
        )
    for group, options in zip(optimizer.param_groups, outline["groups"]):
        group.update(options)
    tensors = []
    for i, p in enumerate(parameters):
        state: Dict[str, Any] = {}
        for key, entry in outline["states"].get(i, {}).items():
            if entry[0] == "value":
                state[key] = entry[1]
                continue
            _, shape, dtype, beside = entry
            device = p.device if beside else "cpu"
            old = optimizer.state.get(p, {}).get(key)
            if not _fits(old, shape, dtype):
                old = torch.zeros_like(p, dtype=dtype, requires_grad=False).detach()
                if tuple(p.shape) != tuple(shape) or not beside:
                    old = torch.zeros(shape, dtype=dtype, device=device)
            state[key] = old
            tensors.append((f"{key} of parameter {i}", old))
        if state:
            optimizer.state[p] = state
        else:
            optimizer.state.pop(p, None)
    return tensors


def _fits(old: Any, shape: Tuple[int, ...], dtype: torch.dtype) -> bool:
    return isinstance(old, torch.Tensor) and tuple(old.shape) == shape and old.dtype == dtype
