"""Buffers, such as the running statistics of batch normalisation.

Each worker's forward changes its own. Those of float types are averaged over the workers every
100 exchanges and before a save; a buffer that no worker has changed stays as it is, bit for bit.
Others, such as num_batches_tracked, are rank 0's at attach and each worker's own after that.
"""

from __future__ import annotations

from typing import Dict, List

import torch

from paragon._store import Declaration, Entry, Store

from ._layout import FLOATS

# The number of exchanges from one averaging to the next.
EXCHANGES = 100


class Buffers:
    """The buffers of float types of one model."""

    def __init__(self, store: Store, prefix: str, model: torch.nn.Module) -> None:
        self._store = store
        self._model = model
        self.names: List[str] = [
            n for n, b in model.named_buffers() if b.dtype in FLOATS and b.numel() > 0
        ]
        # What a buffer was after the last averaging. Versions of tensors do not tell: batch norm
        # changes its statistics without counting them up.
        self._before: Dict[str, torch.Tensor] = {}
        self._since = 0
        if not self.names:
            return
        tensors = self._tensors()
        lengths = [b.numel() for b in tensors] + [len(tensors)]
        self._region = store.memory(lengths)
        self._slots = [self._region.slot(i)[:n] for i, n in enumerate(lengths)]
        keys = [f"paragon/buffer/{prefix}{n}" for n in self.names]
        keys.append(f"paragon/changed/{prefix}buffers")
        for slot, b in zip(self._slots, tensors):
            torch.from_numpy(slot).view(b.shape).copy_(b)
        self._slots[-1][:] = 0
        store.init([Declaration(k, self._region, i, lengths[i]) for i, k in enumerate(keys)])
        if not store.joining and store.num_workers > 1:
            store.pull([(k, self._region, i) for i, k in enumerate(keys)])
            self._take_over([True] * len(tensors))
        self._plan = store.plan([Entry(k, self._region, i, i) for i, k in enumerate(keys)])
        self._remember()

    def _tensors(self) -> List[torch.Tensor]:
        found = dict(self._model.named_buffers())
        return [found[n].detach() for n in self.names]

    def _remember(self) -> None:
        for n, b in zip(self.names, self._tensors()):
            self._before[n] = b.clone()

    def _take_over(self, which: List[bool]) -> None:
        with torch.no_grad():
            for slot, b, take in zip(self._slots, self._tensors(), which):
                if take:
                    b.copy_(torch.from_numpy(slot).view(b.shape))

    def due(self) -> bool:
        """Counts one exchange, and returns whether it is time to average."""
        self._since += 1
        return bool(self.names) and self._since >= EXCHANGES and self._store.num_workers > 1

    def average(self) -> None:
        """Averages the buffers over all workers, which count alike: one that repeats a batch has
        statistics, too. Every worker calls it."""
        self._since = 0
        if not self.names or self._store.num_workers == 1:
            return
        changed = self._slots[-1]
        for i, (slot, b) in enumerate(zip(self._slots, self._tensors())):
            changed[i] = not torch.equal(b, self._before[self.names[i]])
            torch.from_numpy(slot).view(b.shape).copy_(b)
        self._store.wait(self._plan.exchange(answer=True))
        self._take_over([c > 0 for c in changed.tolist()])
        self._remember()
