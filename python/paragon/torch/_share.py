"""What a worker that joins gets from one that was there before.

The worker of the lowest rank that has the state tells all a text: the structure of the state with
everything that is no tensor. Then the tensors follow as a stream of float32 values in keys
``paragon/share/0``, ``/1`` and so on, as many rounds as it takes. In each round the source pushes
values with weight 1 and the others push zeros with weight 0, so the mean is what the source pushed.
Everything is exact for every type (see ``_values``).

Each key is one shard of one server, so a round has all of it or nothing. Its first values are the
numbers of the attempt and of the round. If the source is lost before the end, every worker sees the
same old numbers there, and all begin anew with the next source.
"""

from __future__ import annotations

import json
from typing import Any, Iterator, Optional, Sequence

import numpy
import torch

from paragon import _process
from paragon._store import Declaration, Entry, Store
from paragon.errors import ParagonError

from . import _state, _values

# The values of a key, of which the first _HEAD are the numbers of the attempt and the round: the
# longest key that is not cut into shards. So many keys are exchanged in one round, 16 MiB.
_SIZE = 64 << 10
_HEAD = 2
_KEYS = 64

# The most attempts of one share: each needs another source, and the one before was lost.
_ATTEMPTS = 1 << 10

# Attempts are numbered in float32 values, in which whole numbers up to here are exact.
_NUMBERS = 1 << 23


class Sharer:
    """Shares the state of what is attached to a store. Every worker of the job calls it alike."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # The keys that this worker has declared; a key is declared once in the life of a store.
        self._declared = 0

    def share(self, items: Sequence["Item"], has_state: bool, number: int) -> bool:
        """Gives the workers without the state what a worker with it has.

        ``items`` are this worker's own, in the same order on all workers. ``number`` is the same on
        all workers and differs from one share to the next. Returns whether this worker received.
        An error on all workers alike says that no worker has the state any more.
        """
        for attempt in range(_ATTEMPTS):
            serial = (number * _ATTEMPTS + attempt) % _NUMBERS + 1
            outgoing, text = None, "null"
            if has_state:
                try:
                    outgoing = _Outgoing(items, self._store.node, serial)
                    text = outgoing.text
                except _state.UnknownType as err:
                    text = json.dumps({"refused": str(err)})
            told = json.loads(self._store.broadcast(text))
            if told is not None and "refused" in told:
                return self._refused(told["refused"], has_state)
            if told is None:
                raise ParagonError(
                    "all workers that had the optimizer's state were lost before they could share "
                    "it; start the job again from its last checkpoint"
                )
            source = outgoing if outgoing and told["node"] == self._store.node else None
            incoming = None if has_state else _Incoming(told)
            if not self._transfer(told, source, incoming):
                continue
            if incoming:
                incoming.apply(items)
            return incoming is not None
        raise ParagonError("the state could not be shared: every source of it was lost")

    @staticmethod
    def _refused(why: str, has_state: bool) -> bool:
        """Ends a worker that cannot have the state; the others go on."""
        if not has_state:
            raise _state.UnknownType(f"this worker cannot join: {why}")
        _process.say(f"a worker cannot join: {why}")
        return False

    def _transfer(
        self, told: Any, source: Optional["_Outgoing"], incoming: Optional["_Incoming"]
    ) -> bool:
        """Exchanges the tensors. False: the source was lost before the end."""
        total, serial = told["values"], told["serial"]
        chunks = -(-total // (_SIZE - _HEAD))
        if not chunks:
            return True
        keys = min(chunks, _KEYS)
        region = self._store.memory([_SIZE] * (2 * keys))
        try:
            pushed = [region.slot(i) for i in range(keys)]
            pulled = [region.slot(keys + i) for i in range(keys)]
            for slot in pushed:
                slot[:] = 0
            self._declare(region, keys)
            plan = self._store.plan([Entry(_key(i), region, i, keys + i) for i in range(keys)])
            try:
                return self._rounds(plan, pushed, pulled, chunks, serial, source, incoming)
            finally:
                plan.drop()
        finally:
            region.free()

    def _declare(self, region: Any, keys: int) -> None:
        new = range(self._declared, keys)
        if new:
            self._store.init([Declaration(_key(i), region, i, _SIZE, "average") for i in new])
            self._declared = keys

    def _rounds(
        self,
        plan: Any,
        pushed: Sequence[numpy.ndarray],
        pulled: Sequence[numpy.ndarray],
        chunks: int,
        serial: int,
        source: Optional["_Outgoing"],
        incoming: Optional["_Incoming"],
    ) -> bool:
        weight = 1.0 if source else 0.0
        for number, first in enumerate(range(0, chunks, len(pushed))):
            count = min(len(pushed), chunks - first)
            head = [serial, number]
            if source:
                for slot in pushed[:count]:
                    slot[:_HEAD] = head
                    source.fill(slot[_HEAD:])
            self._store.wait(plan.exchange(0, count, weight=weight, answer=True))
            if any(slot[:_HEAD].tolist() != head for slot in pulled[:count]):
                return False
            if incoming:
                for slot in pulled[:count]:
                    incoming.take(slot[_HEAD:])
        return True


def _key(i: int) -> str:
    return f"paragon/share/{i}"


class Item:
    """One thing that workers keep alike.

    ``name`` names it in errors. ``read`` returns its plain data and tensors, ``write`` takes what
    ``read`` of another worker returned.
    """

    name: str

    def read(self) -> Any:
        raise NotImplementedError

    def write(self, value: Any) -> None:
        raise NotImplementedError


class TensorsItem(Item):
    """Tensors by name that keep their places: parameters, or buffers."""

    def __init__(self, name: str, tensors: Sequence[tuple[str, torch.Tensor]]) -> None:
        self.name = name
        self._tensors = dict(tensors)

    def read(self) -> Any:
        return dict(self._tensors)

    def write(self, value: Any) -> None:
        if list(value) != list(self._tensors):
            differing = sorted(set(value) ^ set(self._tensors)) or ["their order"]
            raise ParagonError(
                f"{self.name}: this worker and the one that shares its state differ in "
                f"{', '.join(differing[:5])}; all workers attach the same model"
            )
        with torch.no_grad():
            for name, tensor in self._tensors.items():
                got = value[name]
                if got.shape != tensor.shape or got.dtype != tensor.dtype:
                    raise ParagonError(
                        f"{self.name}: {name}: the worker that shares its state has "
                        f"{got.dtype} of {list(got.shape)}, this worker {tensor.dtype} of "
                        f"{list(tensor.shape)}; all workers attach the same model"
                    )
                tensor.copy_(got)


class OptimizerItem(Item):
    """The state and the options of an optimizer."""

    def __init__(self, name: str, optimizer: torch.optim.Optimizer) -> None:
        self.name = name
        self._optimizer = optimizer

    def read(self) -> Any:
        return self._optimizer.state_dict()

    def write(self, value: Any) -> None:
        self._optimizer.load_state_dict(value)
        self._exact(value)

    def _exact(self, value: Any) -> None:
        """Undoes what ``load_state_dict`` casts to the type of a parameter."""
        params = [p for group in self._optimizer.param_groups for p in group["params"]]
        for number, entries in value.get("state", {}).items():
            if (
                not isinstance(number, int)
                or not isinstance(entries, dict)
                or number >= len(params)
            ):
                continue
            param = params[number]
            loaded = self._optimizer.state.get(param)
            if not isinstance(loaded, dict):
                continue
            for name, want in entries.items():
                got = loaded.get(name)
                if isinstance(want, torch.Tensor) and isinstance(got, torch.Tensor):
                    loaded[name] = _like(want, got, param)


class GroupsItem(Item):
    """The options of an optimizer whose state is on the servers."""

    def __init__(self, name: str, optimizer: torch.optim.Optimizer) -> None:
        self.name = name
        self._groups = optimizer.param_groups

    def read(self) -> Any:
        return [{k: v for k, v in group.items() if k != "params"} for group in self._groups]

    def write(self, value: Any) -> None:
        for group, options in zip(self._groups, value):
            group.update(options)


def _like(want: torch.Tensor, got: torch.Tensor, param: torch.Tensor) -> torch.Tensor:
    """``want`` on the device of ``got``, in the memory order of a parameter of its shape."""
    if want.shape != param.shape:
        return want.to(got.device)
    out = torch.empty_like(param, dtype=want.dtype, device=got.device, requires_grad=False)
    return out.copy_(want)


class ObjectItem(Item):
    """An object of ``attach(state=...)``: one with state_dict and load_state_dict, or a dict."""

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self._value = value
        if not isinstance(value, dict) and not (
            hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
        ):
            raise TypeError(
                f"{name} is a {type(value).__qualname__}; want an object with state_dict "
                "and load_state_dict, or a dict"
            )

    def read(self) -> Any:
        return dict(self._value) if isinstance(self._value, dict) else self._value.state_dict()

    def write(self, value: Any) -> None:
        if isinstance(self._value, dict):
            self._value.clear()
            self._value.update(value)
        # A GradScaler that is not enabled has no state and refuses an empty one.
        elif value or self._value.state_dict():
            self._value.load_state_dict(value)


class _Outgoing:
    """The source's side: the text, and the stream of the tensors' values."""

    def __init__(self, items: Sequence[Item], node: int, serial: int) -> None:
        tensors: list[torch.Tensor] = []
        structure = [[item.name, _state.flatten(item.read(), tensors, item.name)] for item in items]
        raw = [_values.is_raw(t) for t in tensors]
        kinds = [[str(t.dtype).rpartition(".")[2], list(t.shape), r] for t, r in zip(tensors, raw)]
        total = sum(_values.length(t.numel() * t.element_size(), r) for t, r in zip(tensors, raw))
        told = {
            "node": node,
            "serial": serial,
            "values": total,
            "tensors": kinds,
            "items": structure,
        }
        self.text = json.dumps(told, separators=(",", ":"))
        self._arrays: Iterator[numpy.ndarray] = (
            _values.values_of(t, r) for t, r in zip(tensors, raw)
        )
        self._rest = numpy.empty(0, numpy.float32)

    def fill(self, out: numpy.ndarray) -> None:
        """Writes the next values of the stream into ``out``; zeros behind the last."""
        while len(out):
            if not len(self._rest):
                following = next(self._arrays, None)
                if following is None:
                    out[:] = 0
                    return
                self._rest = following
            n = min(len(out), len(self._rest))
            out[:n] = self._rest[:n]
            out, self._rest = out[n:], self._rest[n:]


class _Incoming:
    """The receiver's side: collects the stream, and applies the state when it is complete."""

    def __init__(self, told: Any) -> None:
        self._told = told
        self._values = numpy.empty(told["values"], numpy.float32)
        self._filled = 0

    def take(self, values: numpy.ndarray) -> None:
        n = min(len(values), len(self._values) - self._filled)
        self._values[self._filled : self._filled + n] = values[:n]
        self._filled += n

    def apply(self, items: Sequence[Item]) -> None:
        told = self._told["items"]
        theirs, ours = [name for name, _ in told], [item.name for item in items]
        if theirs != ours:
            raise ParagonError(
                f"the worker that shares its state has attached {', '.join(theirs)}, this "
                f"worker {', '.join(ours)}; all workers call attach alike, with the same state"
            )
        tensors = self._tensors()
        for item, (_, node) in zip(items, told):
            item.write(_state.restore(node, tensors, item.read()))

    def _tensors(self) -> list[torch.Tensor]:
        out, at = [], 0
        for name, shape, raw in self._told["tensors"]:
            dtype = getattr(torch, name)
            size = numpy.prod(shape, dtype=int) * torch.empty(0, dtype=dtype).element_size()
            n = _values.length(int(size), raw)
            out.append(_values.tensor_of(self._values[at : at + n], shape, dtype, raw))
            at += n
        return out


def check(attached: Sequence[Any]) -> None:
    """Raises ``UnknownType`` for an object of ``attach(state=...)`` that cannot be sent."""
    for item in items_of(attached):
        if isinstance(item, ObjectItem):
            _state.flatten(item.read(), [], item.name)


def items_of(attached: Sequence[Any], servers: bool = False) -> list[Item]:
    """What ``attach`` was told to keep alike, of everything that is attached; with ``servers`` also
    the state of optimizers that is on the servers.

    Parameters and buffers that two models have in common are sent twice, which does no harm.
    """
    items: list[Item] = []
    for number, a in enumerate(attached):
        name = a.name or f"attach {number + 1}"
        items.append(TensorsItem(f"{name}: parameters", a.parameters))
        items.append(TensorsItem(f"{name}: buffers", list(a.model.named_buffers())))
        for n, optimizer in enumerate(a.optimizers):
            which = f"optimizer {n + 1}" if len(a.optimizers) > 1 else "optimizer"
            kind = GroupsItem if a.mode == "server" and not servers else OptimizerItem
            items.append(kind(f"{name}: {which}", optimizer))
        for key, value in a.state.items():
            items.append(ObjectItem(f"{name}: state[{key!r}]", value))
    return items
