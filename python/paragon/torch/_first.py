"""Rank 0's values of tensors that take no part in the exchange: frozen parameters, and buffers of
other types than float32, bfloat16 and float16."""

from __future__ import annotations

from typing import List, Sequence, Tuple

import torch

from paragon._store import Declaration, Store

from . import _values
from ._layout import log_once

# The most values of the tensors that are sent at a time: 64 MB.
_AT_ONCE = 16 << 20


def take_first(store: Store, prefix: str, tensors: Sequence[Tuple[str, torch.Tensor]]) -> None:
    """Copies rank 0's values into each tensor, exactly, whatever its type."""
    if store.joining or store.num_workers == 1:
        return
    part: List[Tuple[str, torch.Tensor]] = []
    values = 0
    for name, t in tensors:
        if t.is_quantized:
            log_once(
                ("quantized", name), "tensor %s is %s: each worker keeps its own", name, t.dtype
            )
            continue
        if part and values + _length(t) > _AT_ONCE:
            _take(store, prefix, part)
            part, values = [], 0
        part.append((name, t))
        values += _length(t)
    if part:
        _take(store, prefix, part)


def _is_raw(t: torch.Tensor) -> bool:
    """Whether the first value of a key can be the tensor's own values: nothing is added to it."""
    return t.dtype == torch.float32


def _length(t: torch.Tensor) -> int:
    """The number of float32 values that carry a tensor."""
    return _values.length(t.numel() * t.element_size(), _is_raw(t))


def _take(store: Store, prefix: str, part: Sequence[Tuple[str, torch.Tensor]]) -> None:
    part = [(n, t.detach()) for n, t in part if t.numel() > 0]
    if not part:
        return
    lengths = [_length(t) for _, t in part]
    region = store.memory(lengths)
    slots = [region.slot(i)[:n] for i, n in enumerate(lengths)]
    keys = [f"paragon/first/{prefix}{n}" for n, _ in part]
    for slot, (_, t) in zip(slots, part):
        slot[:] = _values.values_of(t, _is_raw(t))
    store.init([Declaration(k, region, i, lengths[i]) for i, k in enumerate(keys)])
    store.pull([(k, region, i) for i, k in enumerate(keys)])
    with torch.no_grad():
        for slot, (_, t) in zip(slots, part):
            t.copy_(_values.tensor_of(slot, list(t.shape), t.dtype, _is_raw(t)))
    region.free()
