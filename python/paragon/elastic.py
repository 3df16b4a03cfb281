"""Examples handed out exactly once an epoch, while workers join, leave and are lost.

::

    from paragon import elastic, kv

    store = kv.create("dist_sync")
    store.init("w", w)
    store.set_optimizer("sgd", learning_rate=0.1, reduction="mean")
    for batch in elastic.batches(store, len(x), batch_size=64, epochs=10, seed=1):
        if batch.first:
            store.pull("w", out=w)      # what the others have come to, on a worker that joins
        gradient = mean_gradient(w, x[batch.indices], y[batch.indices])
        store.pushpull("w", gradient, out=w)

Every worker runs the same loop, and pushes once to each key in each turn. A turn ends when the
loop asks for the next batch: then its examples count as used, and the workers agree whether the
membership changes. A turn that is left by ``break`` or an exception is not used. The gradient is
the mean over the batch; pushes are weighted with the number of its examples, so that a mean over
workers is one over examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, NoReturn, Optional, Union

import numpy as np

from ._store import Store, Turn
from .errors import FinishedError, RemovedError
from .kv import KVStore

__all__ = ["Batch", "Batches", "batches"]

# How many indices are asked for at a time.
_BLOCK = 1 << 15


@dataclass(frozen=True)
class Batch:
    """One turn's examples.

    Attributes:
        indices: their numbers in the data set, int64 of shape (n,).
        examples: how many of them count: n, or 0 where this worker's share is used up and others
            go on. The indices are those of an earlier batch then, and the gradient has weight 0.
        epoch: the epoch's number, from 0.
        step: the step's number in its epoch, from 0.
        first: this is the first batch of this worker.
        turn: the turn, which says more.
    """

    indices: np.ndarray
    examples: int
    epoch: int
    step: int
    first: bool
    turn: Turn

    def __len__(self) -> int:
        return len(self.indices)


def batches(
    store: Union[KVStore, Store],
    examples: int,
    batch_size: int,
    epochs: int = 1,
    seed: int = 0,
    first: int = 0,
    order: Optional[str] = None,
) -> "Batches":
    """Returns the batches of ``epochs`` passes over ``examples`` examples, an iterator.

    Every worker calls it once, with the same arguments, when all keys are initialised.
    ``store`` is a KVStore, whose pushes are weighted from then on, or a Store, whose exchanges get
    ``weight=batch.examples`` from their caller, and have ended before the next batch is asked for.
    ``batch_size`` is that of one worker; ``first`` is the epoch to begin with, and ``seed`` and
    ``order`` say in which order examples come. From then on SIGTERM asks the job to let this
    worker leave at the end of a turn, where the program has no handler of its own."""
    return Batches(store, examples, batch_size, epochs, seed, first, order)


class Batches(Iterator[Batch]):
    """The iterator of :func:`batches`. It belongs to one thread."""

    def __init__(
        self,
        store: Union[KVStore, Store],
        examples: int,
        batch_size: int,
        epochs: int,
        seed: int,
        first: int,
        order: Optional[str],
    ) -> None:
        self.turn: Optional[Turn] = None
        """The turn under way, or the last one."""
        self.removed = False
        """Whether the loop ended because this worker was asked to leave."""
        self._kv = store if isinstance(store, KVStore) else None
        self._store: Store = store.store if isinstance(store, KVStore) else store
        self._arguments = (examples, batch_size, epochs, seed, first, order)
        # _block are indices of the division from number _start on.
        self._division = -1
        self._start = 0
        self._block = np.empty(0, np.int64)
        self._last = np.zeros(1, np.int64)
        self._over = False

    def __iter__(self) -> "Batches":
        return self

    def __next__(self) -> Batch:
        begins = self.turn is None
        turn = self._next()
        while turn.kind == "epoch":
            turn = self._next()
        if turn.kind != "step":
            self._end(turn.kind == "removed")
        if turn.size:
            self._last = self._indices(turn)
        if self._kv is not None:
            self._kv.weight, self._kv.examples = float(turn.size), turn.size
        return Batch(self._last, turn.size, turn.epoch, turn.step, begins, turn)

    def _end(self, removed: bool) -> NoReturn:
        self._over, self.removed = True, removed
        if self._kv is not None:
            self._kv.weight, self._kv.examples = 1.0, 0
        raise StopIteration

    def _next(self) -> Turn:
        if self._over:
            raise StopIteration
        if self.turn is None:
            try:
                self.turn = self._store.sampler(*self._arguments)
            except (RemovedError, FinishedError) as e:
                # This worker was asked to leave, or the job ended, before it counted.
                self._end(isinstance(e, RemovedError))
        else:
            if self._kv is not None:
                # All pushes of a turn have counted when it ends.
                self._kv.wait()
            self.turn = self._store.turn(after=self.turn)
        return self.turn

    def _indices(self, turn: Turn) -> np.ndarray:
        at = turn.first - self._start
        if turn.division != self._division or not 0 <= at <= len(self._block) - turn.size:
            self._block = self._store.indices(turn.first, max(_BLOCK, turn.size))
            self._start, self._division, at = turn.first, turn.division, 0
        return self._block[at : at + turn.size].copy()
