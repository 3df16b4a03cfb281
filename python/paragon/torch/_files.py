"""save and load: a model with its optimizer's state in one safetensors file."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import torch

from paragon.errors import ConflictError, UsageError

from . import _attach, _layout, _safetensors
from ._safetensors import Path

# In a file's metadata: the numbers of the optimizers, as JSON.
_OPTIMIZERS = "paragon.optimizers"

# What to do where a file's optimizer is another one.
_ALONE = (
    "make the optimizer as it was when the file was saved, or load the model alone: before attach, "
    "without optimizer="
)


def save(
    path: Path,
    model: Union[torch.nn.Module, "_attach.Attached"],
    optimizer: Any = None,
    *,
    metadata: Optional[Mapping[str, str]] = None,
) -> None:
    """Writes a model, and the state of its optimizer, into a safetensors file.

    Tensors have the names of the model's state_dict, and the optimizer's those of their parameters
    and of torch: "optimizer/fc.weight/exp_avg". ``optimizer`` may be a list; of an attached model
    it need not be given. ``metadata`` are strings of the caller's.

    If the model is attached every worker calls save, because buffers are averaged first; rank 0
    writes. A crash leaves the old file or the new one."""
    attached = _attached(model)
    module = model.model if isinstance(model, _attach.Attached) else _layout.unwrapped(model)
    optimizers = _layout.optimizers_of(optimizer)
    if attached is not None:
        optimizers = optimizers or attached.optimizers
        attached.average_buffers()
        if attached.store.rank != 0:
            return
    tensors = dict(module.state_dict())
    names = {id(p): n for n, p in module.named_parameters()}
    told = []
    for i, o in enumerate(optimizers):
        told.append(_split(o, names, _prefix(i), tensors))
    strings = {str(k): str(v) for k, v in (metadata or {}).items()}
    if told:
        strings[_OPTIMIZERS] = json.dumps(told)
    _safetensors.write(path, tensors, strings)


def load(
    path: Path,
    model: Optional[Union[torch.nn.Module, "_attach.Attached"]] = None,
    optimizer: Any = None,
    *,
    strict: bool = True,
) -> Dict[str, torch.Tensor]:
    """Reads a safetensors file, of save or of any other program, into a model and its optimizer.

    Every worker calls it, with the same file, before attach or after it. Without a model it returns
    the file's tensors by name; with one, those that the model does not have. A tensor of another
    shape is ConflictError, which names it; with ``strict`` so is one that is missing. Nothing is
    changed before all have been compared."""
    tensors, strings = _safetensors.read(path)
    if model is None:
        return tensors
    attached = _attached(model)
    module = model.model if isinstance(model, _attach.Attached) else _layout.unwrapped(model)
    optimizers = _layout.optimizers_of(optimizer)
    if attached is not None:
        optimizers = optimizers or attached.optimizers
    own = module.state_dict()
    rest = _compare(path, own, tensors, strict)
    states = []
    if optimizers:
        names = {id(p): n for n, p in module.named_parameters()}
        states = _states(path, optimizers, names, rest, strings)
    with torch.no_grad():
        for name, t in own.items():
            if name in tensors:
                t.copy_(tensors[name])
    # Servers that have the optimizer get the parameters first: with its state they are fetched.
    if attached is not None:
        attached.loaded()
    for o, state in zip(optimizers, states):
        o.load_state_dict(state)
    return rest


def _attached(model: Any) -> Optional["_attach.Attached"]:
    if isinstance(model, _attach.Attached):
        return model
    inner = _layout.unwrapped(model)
    found = [a for a in _attach.registry() if a.model is inner]
    return found[0] if found else None


def _prefix(number: int) -> str:
    return f"optimizer{number + 1 if number else ''}/"


def _split(
    optimizer: Any, names: Mapping[int, str], prefix: str, tensors: Dict[str, torch.Tensor]
) -> Dict[str, Any]:
    """Adds an optimizer's tensors to a file's. Returns the rest of its state_dict as plain data.
    What is neither a tensor nor a number is UsageError."""
    state = optimizer.state_dict()
    _layout.check_groups([optimizer], dict(names))
    order = [names[id(p)] for _, _, _, p in _layout.places_in_groups([optimizer])]
    told: Dict[str, Any] = {"type": type(optimizer).__name__, "groups": [], "state": {}}
    for group in state["param_groups"]:
        told["groups"].append(
            {k: v for k, v in group.items() if k != "params"}
            | {"params": [order[i] for i in group["params"]]}
        )
    for i, values in state["state"].items():
        plain = told["state"].setdefault(order[i], {})
        for key, value in values.items():
            if isinstance(value, torch.Tensor):
                tensors[f"{prefix}{order[i]}/{key}"] = value
            else:
                plain[key] = value
    try:
        json.dumps(told)
    except TypeError as e:
        raise UsageError(
            f"save: the state of {told['type']} has what is no number, text or tensor: {e}. Save "
            "the model alone, and this state with torch.save"
        ) from None
    return told


def _compare(
    path: Path, own: Mapping[str, torch.Tensor], tensors: Mapping[str, torch.Tensor], strict: bool
) -> Dict[str, torch.Tensor]:
    missing = [n for n in own if n not in tensors]
    if missing and strict:
        raise ConflictError(
            f"load {path}: it lacks {len(missing)} of the model's {len(own)} tensors, the first is "
            f"{missing[0]!r}; build the model that was saved, or leave these as they are by "
            "strict=False"
        )
    for name, t in own.items():
        if name in tensors and tensors[name].shape != t.shape:
            raise ConflictError(
                f"load {path}: tensor {name} has shape {tuple(tensors[name].shape)}, the model's "
                f"{tuple(t.shape)}; build the model that was saved"
            )
    return {n: t for n, t in tensors.items() if n not in own}


def _states(
    path: Path,
    optimizers: Sequence[Any],
    names: Mapping[int, str],
    rest: Dict[str, torch.Tensor],
    strings: Mapping[str, str],
) -> List[Dict[str, Any]]:
    """The state_dicts of optimizers from a file; their tensors are taken out of rest."""
    told = json.loads(strings.get(_OPTIMIZERS, "[]"))
    if len(told) != len(optimizers):
        raise ConflictError(
            f"load {path}: it has the state of {len(told)} optimizers, want that of "
            f"{len(optimizers)}; {_ALONE}"
        )
    return [_state(path, o, told[i], names, _prefix(i), rest) for i, o in enumerate(optimizers)]


def _state(
    path: Path,
    optimizer: Any,
    told: Mapping[str, Any],
    names: Mapping[int, str],
    prefix: str,
    rest: Dict[str, torch.Tensor],
) -> Dict[str, Any]:
    kind = type(optimizer).__name__
    if told["type"] != kind:
        raise ConflictError(
            f"load {path}: its optimizer is {told['type']}, want {kind}; {_ALONE}"
        )
    ours = [[names[id(p)] for p in g["params"]] for g in optimizer.param_groups]
    theirs = [g["params"] for g in told["groups"]]
    found = _layout.first_difference(_lines(theirs), _lines(ours))
    if found is not None:
        raise ConflictError(
            f"load {path}: the groups of {kind} have other parameters: the file has {found[0]}, "
            f"and the optimizer {found[1]}; {_ALONE}"
        )
    numbers: Dict[str, int] = {}
    groups = []
    for g in told["groups"]:
        params = []
        for name in g["params"]:
            params.append(numbers.setdefault(name, len(numbers)))
        groups.append({**g, "params": params})
    state: Dict[int, Dict[str, Any]] = {}
    for name, values in told["state"].items():
        state[numbers[name]] = dict(values)
    for name, i in numbers.items():
        begin = f"{prefix}{name}/"
        for key in [k for k in rest if k.startswith(begin) and "/" not in k[len(begin) :]]:
            # An optimizer changes its state in place, and the file's memory is read page by page.
            state.setdefault(i, {})[key[len(begin) :]] = rest.pop(key).clone()
    return {"state": state, "param_groups": _tuples(groups, optimizer)}


def _tuples(groups: List[Dict[str, Any]], optimizer: Any) -> List[Dict[str, Any]]:
    """JSON has no tuples: what is one in the optimizer's own groups becomes one again."""
    for group, own in zip(groups, optimizer.param_groups):
        for key, value in own.items():
            if isinstance(value, tuple) and isinstance(group.get(key), list):
                group[key] = tuple(group[key])
    return groups


def _lines(groups: List[List[str]]) -> List[str]:
    """A line for each group and each parameter in it, to be compared with other groups."""
    lines = []
    for g, names in enumerate(groups):
        lines += [f"group {g}"] + [f"{name} in group {g}" for name in names]
    return lines
