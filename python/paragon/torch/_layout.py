"""What a model's tensors look like: which types travel, in which order their values lie in memory,
and the check that all workers have the same model."""

from __future__ import annotations

import logging
import weakref
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy
import torch

from paragon._store import Declaration, Entry, Store
from paragon.errors import ConflictError, UsageError

log = logging.getLogger("paragon.torch")

# The types whose values become float32 on the way to the servers, without loss.
FLOATS = (torch.float32, torch.float16, torch.bfloat16)

_logged: set = set()


def log_once(key: object, text: str, *args: object) -> None:
    """Logs a line the first time that key comes in this process."""
    if key not in _logged:
        _logged.add(key)
        log.info(text, *args)


def check_parameter(name: str, tensor: torch.Tensor) -> None:
    """Raises UsageError, which names the parameter, if its values cannot travel as float32."""
    if isinstance(tensor, torch.nn.parameter.UninitializedParameter):
        raise UsageError(
            f"attach: parameter {name} has no shape yet: run the model on one batch, then attach it"
        )
    if tensor.is_quantized or tensor.dtype not in FLOATS:
        raise UsageError(
            f"attach: parameter {name} is {tensor.dtype}, want float32, bfloat16 or float16: "
            "convert the model (model.float()), or set requires_grad=False for this parameter"
        )
    if tensor.layout != torch.strided:
        raise UsageError(f"attach: parameter {name} has layout {tensor.layout}, want torch.strided")
    if tensor.device.type == "meta":
        raise UsageError(f"attach: parameter {name} is on the meta device: move the model first")


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the tensor's elements fill a run of memory, each once, in any order of dimensions."""
    wanted = 1
    for size, stride in sorted(zip(tensor.size(), tensor.stride()), key=lambda d: (d[1], d[0])):
        if size == 1:
            continue
        if stride != wanted:
            return False
        wanted *= size
    return True


def view_like(flat: torch.Tensor, name: str, tensor: torch.Tensor) -> torch.Tensor:
    """The values of flat (1-D) seen as tensor is: in the order in which tensor lies in memory, so
    that a copy between them goes straight through (channels_last included). A tensor with gaps or
    overlaps in its memory is seen row by row, and the log says so once."""
    if tensor.is_contiguous():
        return flat.view(tensor.size())
    if is_dense(tensor):
        return flat.as_strided(tensor.size(), tensor.stride())
    log_once(
        ("contiguous", name),
        "parameter %s has strides %s for shape %s: its gradient is copied to row-major order",
        name,
        tuple(tensor.stride()),
        tuple(tensor.size()),
    )
    return flat.view(tensor.size())


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The module that torch.compile has wrapped, or the model itself. A model in
    DistributedDataParallel is refused: its gradients would be exchanged twice."""
    inner = getattr(model, "_orig_mod", model)
    if isinstance(inner, torch.nn.parallel.DistributedDataParallel):
        raise UsageError(
            "attach: the model is wrapped in DistributedDataParallel, which would exchange its "
            "gradients a second time: attach the module inside it (model.module)"
        )
    return inner


def sparse_parameters(model: torch.nn.Module) -> Dict[int, str]:
    """The parameters whose gradients are sparse, by id: those of Embedding and EmbeddingBag with
    sparse=True. The value says which module."""
    found = {}
    for name, module in model.named_modules():
        if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse:
            found[id(module.weight)] = name
    return found


def optimizers_of(optimizer: Any) -> List[torch.optim.Optimizer]:
    """The optimizers of an argument that is one, or several in a list, or none."""
    if optimizer is None:
        return []
    found = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
    for o in found:
        if not isinstance(getattr(o, "param_groups", None), list):
            raise UsageError(
                f"attach: optimizer is a {type(o).__name__}, want a torch.optim.Optimizer, or a "
                "list of them"
            )
    return found


def places_in_groups(optimizers: Sequence[Any]) -> Iterable[Tuple[Any, int, int, torch.Tensor]]:
    """Each parameter of the optimizers: optimizer, group, place in the group, and the parameter."""
    for optimizer in optimizers:
        for g, group in enumerate(optimizer.param_groups):
            for i, p in enumerate(group["params"]):
                yield optimizer, g, i, p


def check_groups(optimizers: Sequence[Any], names: Dict[int, str]) -> None:
    """Raises UsageError for a parameter of the optimizers that the model does not have."""
    for optimizer, g, i, p in places_in_groups(optimizers):
        if id(p) not in names:
            raise UsageError(
                f"{type(optimizer).__name__}.param_groups[{g}]['params'][{i}], shape "
                f"{tuple(p.shape)}, is no parameter of the model: make the optimizer from "
                "model.parameters(), after the last change to the model"
            )


def title_of(number: int, optimizer: Any) -> str:
    """What an optimizer is called among those of a model."""
    return f"optimizer {number}: {type(optimizer).__name__}"


def describe(
    model: torch.nn.Module, optimizers: Sequence[Any], sparse: Dict[int, str], mode: str
) -> List[str]:
    """One line for each thing that all workers must have alike: parameters and buffers with shape,
    strides and type, and the numbers of the optimizers' groups."""
    lines = [f"optimizer mode {mode}"]
    names = {}
    for name, p in model.named_parameters():
        names[id(p)] = name
        kind = "sparse gradient" if id(p) in sparse else "gradient" if p.requires_grad else "frozen"
        lines.append(f"parameter {name}: {_form(p)}, {kind}")
    lines += [f"buffer {name}: {_form(b)}" for name, b in model.named_buffers()]
    for o, optimizer in enumerate(optimizers):
        title = title_of(o, optimizer)
        lines.append(title)
        for g, group in enumerate(optimizer.param_groups):
            for key in sorted(group):
                value = group[key]
                if (
                    isinstance(value, (bool, int, float, str, type(None), tuple, list))
                    and key != "params"
                ):
                    lines.append(f"{title}.param_groups[{g}]['{key}']: {value!r}")
        entries = sorted(
            {f"{names.get(id(p), '?')}: {sorted(s)}" for p, s in optimizer.state.items() if s}
        )
        lines += [f"{title}{_STATE}{entry}" for entry in entries]
    return lines


# In a line of describe, what is between an optimizer and a parameter of which it has state.
_STATE = ".state of "


def with_state(lines: Sequence[str]) -> List[str]:
    """The optimizers that have state, by these lines: "optimizer 0: Adam"."""
    told = [n for n in lines if n.startswith("optimizer ") and _STATE in n]
    return sorted({n.partition(_STATE)[0] for n in told})


def _comparable(lines: Sequence[str], left: Sequence[str], given: Sequence[str]) -> List[str]:
    """The lines without the state of some optimizers, and without the options of others."""
    starts = [o + _STATE for o in left] + [o + ".param_groups[" for o in given]
    return [n for n in lines if not n.startswith(tuple(starts))]


def _form(t: torch.Tensor) -> str:
    return f"shape {tuple(t.size())}, strides {tuple(t.stride())}, {t.dtype}"


def first_difference(ours: Sequence[str], theirs: Sequence[str]) -> Optional[Tuple[str, str]]:
    """The first line of each that the other does not have in the same place."""
    for i in range(max(len(ours), len(theirs))):
        a = ours[i] if i < len(ours) else "nothing further"
        b = theirs[i] if i < len(theirs) else "nothing further"
        if a != b:
            return a, b
    return None


# How many calls of all workers each store has met in.
_met: "weakref.WeakKeyDictionary[Store, int]" = weakref.WeakKeyDictionary()


def meet(store: Store, what: str) -> None:
    """Raises ConflictError if worker 0 does something else here: while the job begins, calls that
    all workers make in the same order meet by their number. ``what`` follows the worker's name."""
    if store.alone or store.joining or store.shares_examples:
        return
    number = _met[store] = _met.get(store, 0) + 1
    theirs = first_text(store, f"call{number}/", what)
    if theirs != what:
        raise ConflictError(
            f"worker {store.rank} {what}, where worker 0 {theirs}: every worker attaches the same "
            "models in the same order, and then begins its loop"
        )


def agree(store: Store, prefix: str, lines: Sequence[str], shares: bool = False) -> List[str]:
    """Raises ConflictError unless this worker's lines are rank 0's. The text names the first
    difference and both workers, and all workers raise the same; a worker that joins a running job
    compares with what the job has, and raises alone.

    Returns the optimizers that have state on rank 0. If it ``shares`` them they may have none
    here, and then other options."""
    # A job that begins with one worker tells those who join later.
    if store.alone:
        return []
    theirs = first_text(store, prefix, "\n".join(lines)).split("\n")
    left = with_state(theirs)
    given = [o for o in left if o not in with_state(lines)]
    found = first_difference(lines, theirs)
    if shares:
        found = first_difference(*(_comparable(n, left, given) for n in (lines, theirs)))
    text = ""
    if found is not None:
        text = (
            f"attach: worker {store.rank} has another model than worker 0. Worker {store.rank}: "
            f"{found[0]}. Worker 0: {found[1]}. Build the same model and optimizer on every worker"
        )
    if not store.joining:
        text = _lowest_text(store, prefix, text)
    if text:
        raise ConflictError(text)
    return left


def first_text(store: Store, prefix: str, text: str) -> str:
    """Rank 0's text, or in a running job the text that it began with."""
    data = text.encode()
    length = first_values(store, f"paragon/layout/{prefix}bytes", [len(data)])
    n = int(length[0])
    padded = numpy.zeros(n, numpy.float32)
    kept = numpy.frombuffer(data[:n], numpy.uint8)
    padded[: len(kept)] = kept
    values = first_values(store, f"paragon/layout/{prefix}text", padded)
    return values.astype(numpy.uint8).tobytes().decode(errors="replace")


def first_values(store: Store, key: str, values: Any) -> numpy.ndarray:
    """Rank 0's values, or in a running job those that it began with."""
    region = store.memory([len(values)])
    region.slot(0)[: len(values)] = values
    store.init([Declaration(key, region, 0, len(values))])
    store.pull([(key, region, 0)])
    got = numpy.array(region.slot(0)[: len(values)])
    region.free()
    return got


# The most bytes of a text that a worker tells the others about its model.
_TOLD = 2000


def _lowest_text(store: Store, prefix: str, text: str) -> str:
    """The text of the lowest rank whose text is not empty; every worker gets it."""
    workers = store.num_workers
    said = numpy.zeros(workers, numpy.float32)
    said[store.rank] = 1 if text else 0
    said = _sum(store, f"paragon/layout/{prefix}differs", said)
    if not said.any():
        return ""
    values = numpy.zeros(_TOLD, numpy.float32)
    if store.rank == int(numpy.flatnonzero(said)[0]):
        data = text.encode()[:_TOLD]
        values[: len(data)] = numpy.frombuffer(data, numpy.uint8)
    values = _sum(store, f"paragon/layout/{prefix}told", values)
    return values.astype(numpy.uint8).tobytes().rstrip(b"\0").decode(errors="replace")


def _sum(store: Store, key: str, values: numpy.ndarray) -> numpy.ndarray:
    """The sums over all workers of values that are whole numbers below 65,536."""
    region = store.memory([len(values)])
    slot = region.slot(0)
    slot[: len(values)] = values
    store.init([Declaration(key, region, 0, len(values))])
    slot[: len(values)] = values
    plan = store.plan([Entry(key, region, 0, 0)])
    store.wait(plan.exchange(answer=True))
    got = numpy.rint(slot[: len(values)] * store.num_workers)
    plan.drop()
    region.free()
    return got
