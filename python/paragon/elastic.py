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

A job that is stopped (``launch ctl stop``, SIGUSR1 to launch, Ctrl-C) calls ``checkpoint=`` on
every worker after a step, if it is given, and the loop ends with :class:`StoppedExit`::

    def checkpoint():
        if store.rank == 0:
            store.save_optimizer_states("model.safetensors")
            json.dump(batches.position, open("position.json", "w"))

    batches = elastic.batches(store, len(x), 64, epochs=10, checkpoint=checkpoint, **position)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, NoReturn, Optional, Sequence, Union

import numpy as np

from . import _stop
from ._stop import StoppedExit
from ._store import Store, Turn
from .errors import FinishedError, RemovedError
from .kv import KVStore

__all__ = ["Batch", "Batches", "StoppedExit", "batches"]

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
    *,
    cuts: Optional[Sequence[Any]] = None,
    steps: int = 0,
    checkpoint: Optional[Callable[[], object]] = None,
) -> "Batches":
    """Returns the batches of ``epochs`` passes over ``examples`` examples, an iterator.

    Every worker calls it once, with the same arguments, when all keys are initialised.
    ``store`` is a KVStore, whose pushes are weighted from then on, or a Store, whose exchanges get
    ``weight=batch.examples`` from their caller, and have ended before the next batch is asked for.
    ``batch_size`` is that of one worker; ``first`` is the epoch to begin with, and ``seed`` and
    ``order`` say in which order examples come. From then on SIGTERM asks the job to let this
    worker leave at the end of a turn, where the program has no handler of its own; if the job
    cannot go on without it all workers stop together.

    ``checkpoint`` is called on every worker where all stop before the last epoch; it writes what
    the next run goes on from. That run is given ``first``, ``cuts`` and ``steps`` as
    :attr:`Batches.position` had them then: no example of the epoch is used twice, whatever the
    number of workers."""
    arguments = (examples, batch_size, epochs, seed, first, order)
    return Batches(store, arguments, cuts, steps, checkpoint)


class Batches(Iterator[Batch]):
    """The iterator of :func:`batches`. It belongs to one thread."""

    def __init__(
        self,
        store: Union[KVStore, Store],
        arguments: Sequence[Any],
        cuts: Optional[Sequence[Any]],
        steps: int,
        checkpoint: Optional[Callable[[], object]],
    ) -> None:
        self.turn: Optional[Turn] = None
        """The turn under way, or the last one."""
        self.removed = False
        """Whether the loop ended because this worker was asked to leave."""
        self._kv = store if isinstance(store, KVStore) else None
        self._store: Store = store.store if isinstance(store, KVStore) else store
        self._arguments = tuple(arguments)
        self._begin: Dict[str, Any] = {"cuts": cuts, "steps": steps}
        self._checkpoint = checkpoint
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
        while turn.kind == "stop":
            if self._checkpoint is not None:
                self._checkpoint()
            turn = self._next()
        if turn.kind != "step":
            self._end(turn)
        if turn.size:
            self._last = self._indices(turn)
        if self._kv is not None:
            self._kv.weight, self._kv.examples = float(turn.size), turn.size
        return Batch(self._last, turn.size, turn.epoch, turn.step, begins, turn)

    @property
    def position(self) -> Dict[str, Any]:
        """Where the run is, as arguments of :func:`batches` of one that goes on from here:
        ``first``, ``cuts`` and ``steps``. Between the steps of an epoch that epoch begins anew; where all
        workers stop it does not."""
        turn = self.turn
        if turn is None:
            return {"first": self._arguments[4], **self._begin}
        return {
            "first": turn.epoch + (turn.kind == "epoch"),
            "cuts": turn.cuts,
            "steps": turn.steps,
        }

    def _end(self, turn: Optional[Turn]) -> NoReturn:
        self._over, self.removed = True, turn is None or turn.kind == "removed"
        if self._kv is not None:
            self._kv.weight, self._kv.examples = 1.0, 0
        if turn is not None and turn.kind == "stopped":
            missing = None if self._checkpoint is not None else "elastic.batches has no checkpoint="
            raise _stop.end(self._store, turn, missing)
        raise StopIteration

    def _next(self) -> Turn:
        if self._over:
            raise StopIteration
        if self.turn is None:
            try:
                self._store.report(folder=self._checkpoint is not None)
                self.turn = self._store.sampler(*self._arguments, stops=True, **self._begin)
            except RemovedError:
                # This worker was asked to leave before it counted.
                self._end(None)
            except FinishedError:
                self._over = True
                raise StopIteration from None
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
