"""A batch sampler whose examples are each used exactly once an epoch, while workers come and go."""

from __future__ import annotations

import atexit
import collections
import multiprocessing.connection
import os
import sys
import time
from typing import Any, Callable, Iterator, Optional, Sized, Union

import numpy
import torch.utils.data

import paragon
from paragon import _life, _process, _stop, errors
from paragon._stop import StoppedExit
from paragon._store import Store, Turn

from . import _attach, _checkpoint, _collectives, _layout, _report, _share

__all__ = ["ElasticSampler", "Index", "RemovedExit", "StoppedExit", "example_seed"]

# So many batches are asked of the bridge at once.
_AHEAD = 64

# Python 3.14 starts processes by forkserver unless it is told otherwise.
_NOT_STARTED = """\
ElasticSampler: the loader's processes did not start: {error}. Those that forkserver and spawn start \
import the program first, and forkserver is what Python 3.14 takes by itself: put the program's top \
level into

    if __name__ == "__main__":
        main()

or give the DataLoader multiprocessing_context="fork\""""


class RemovedExit(SystemExit):
    """This worker was asked to leave, and has. It ends the program in order, with exit code 0.

    It comes out of the loops over ``ElasticSampler.epochs`` and ``batches``, so that what follows
    them, such as an evaluation or a save, is left to the workers that go on. Catch it where a
    program has something of its own to end.
    """

    def __init__(self, text: str) -> None:
        super().__init__(0)
        self.text = text

    def __str__(self) -> str:
        return self.text


class Index(int):
    """The number of an example that knows its epoch: an int in every other respect.

    ``seed`` is a number below 2⁶³ that depends on the sampler's seed, the epoch and the example,
    and on nothing else. Random augmentation that begins with it is the same whichever worker, or
    process of a data loader, makes it.
    """

    epoch: int
    """The epoch for which the example was drawn."""
    seed: int
    """The seed of this example in this epoch."""

    def __new__(cls, value: int, epoch: int, seed: int) -> "Index":
        self = super().__new__(cls, value)
        self.epoch = epoch
        self.seed = seed
        return self

    def __reduce__(self) -> Any:
        return Index, (int(self), self.epoch, self.seed)


def example_seed(seed: int, epoch: int, index: int) -> int:
    """A number below 2⁶³ that depends on these three alone: see ``Index``."""
    words = numpy.random.SeedSequence([seed & 0xFFFFFFFFFFFFFFFF, epoch, index]).generate_state(
        1, numpy.uint64
    )
    return int(words[0] >> numpy.uint64(1))


class ElasticSampler:
    """Hands the examples of a data set to the workers of a job, each exactly once an epoch.

    It is the ``batch_sampler`` of a ``DataLoader``::

        batches = pt.ElasticSampler(len(dataset), batch_size=64, seed=1)
        for epoch in batches.epochs(10):
            for x, y in batches.batches(DataLoader(dataset, batch_sampler=batches, num_workers=2)):
                loss = criterion(model(x), y); loss.backward(); opt.step(); opt.zero_grad()

    A turn of the inner loop is a step, which ends when the loop asks for its next batch. Examples
    have been used when their step has ended, not when they were loaded: what a data loader has
    fetched ahead is loaded anew, perhaps by another worker, if workers come or go meanwhile. A turn
    that is left by ``break``, or by an exception as Ctrl-C in a notebook, before its gradients were
    exchanged has not used its batch, which comes again; both loops may be begun anew.

    The last batch of a worker's share may have one example, with which batch norm over vectors is
    an error of PyTorch's: ``continue`` skips such a step, in which this worker then has weight 0.

    The workers of a job take as many turns. One that has no more examples while others do gets a
    batch of examples that count elsewhere; its gradients then have weight 0, so that clipping,
    schedules and scalers run alike on all workers. ``size`` says how many examples of the batch
    count.

    When this worker is asked to leave (``launch ctl remove``, SIGTERM in an elastic job) the loops
    end after a step with ``RemovedExit``, which ends the program with exit code 0. Its steps count,
    and its other examples go to the others. What follows the inner loop is run by all others, also
    by one that joined behind the last step of the epoch, whose inner loop has no turn.

    Where all workers stop before the last epoch (``launch ctl stop``, SIGUSR1 to launch, Ctrl-C, a
    SIGTERM to a worker that the job needs), they do so after the same step: each writes the
    ``checkpoint``, and the loops end with ``StoppedExit``, which ends the program. The next run
    goes on from it by ``load``, with any number of workers, and uses no example of the epoch
    twice::

        batches = pt.ElasticSampler(len(dataset), seed=1, checkpoint="run.safetensors")
        if os.path.exists("run.safetensors"):
            batches.load("run.safetensors")

    Args:
        length: the number of examples, or the data set, of which ``len`` is taken.
        batch_size: examples of a step of one worker; the last step of an epoch may have fewer.
        seed: of the order of examples, with the epoch. The same on all workers.
        shuffle: whether each epoch has an order of its own; False: the data's order.
        with_epoch: the numbers of examples are ``Index`` objects, which know epoch and seed.
        store: the store; by default the one of this process (``paragon.torch.init``).
        checkpoint: the file that ``save`` writes where all workers stop, or a function without
            arguments that every worker calls instead.
    """

    def __init__(
        self,
        length: Union[int, Sized],
        batch_size: int = 64,
        seed: int = 1,
        *,
        shuffle: bool = True,
        with_epoch: bool = False,
        store: Optional[Store] = None,
        checkpoint: Union[_checkpoint.Path, Callable[[], object], None] = None,
    ) -> None:
        self._length = _number_of(length)
        if batch_size < 1:
            raise errors.UsageError(f"ElasticSampler: batch_size is {batch_size}, want at least 1")
        self._batch = min(batch_size, self._length)
        self._seed = seed
        self._order = None if shuffle else "sequential"
        self._with_epoch = with_epoch
        self._store = store
        self._sharer: Optional[_share.Sharer] = None
        self._checkpoint = checkpoint
        # Whether whoever loops writes what resumes the run, and calls finish_stop.
        self._defers = False
        # Where a run that is resumed begins, and what the job has come to.
        self._first = 0
        self._cuts: Optional[list[Any]] = None
        self._steps = 0
        self._turn: Optional[Turn] = None
        self._has_left = False
        # A worker that joins has no state until another has shared it.
        self._has_state = True
        self._shared: Optional[int] = None
        self._generation = 0
        # What a loader draws, and the numbers of the batch that the loop has.
        self._draw: Optional[_Draw] = None
        self._indices: list[int] = []
        # How long the batch was waited for.
        self._seconds = 0.0
        self._in_batches = False
        # The turn was asked to end: an exception, such as Ctrl-C, may have come out of the wait.
        self._ending = False

    # ---- the loops

    def epochs(self, epochs: int, first: Optional[int] = None) -> Iterator[int]:
        """Yields the numbers of the epochs that are left, from 0.

        ``epochs`` is how many the job has in all, ``first`` the one with which a resumed run begins
        (``load_state_dict`` sets it, too). A worker that joins begins with the epoch of the others,
        and has their state when this yields. All workers call it, after attach. A second call
        goes on where the first one was left.
        """
        if epochs < 1:
            raise errors.UsageError(f"ElasticSampler.epochs: got {epochs} epochs, want at least 1")
        begin = self._first if first is None else first
        if not 0 <= begin <= epochs:
            raise errors.UsageError(
                f"ElasticSampler.epochs: the first epoch is {begin}, want 0 to {epochs}"
            )
        turn = self._start(epochs, begin) if self._turn is None else self._resume()
        while turn.kind not in ("end", "stop"):
            epoch = turn.epoch
            yield epoch
            turn = self._resume()
            if turn.kind == "stop":
                return
            if turn.kind == "step":
                raise errors.ParagonError(
                    f"ElasticSampler: epoch {epoch}: {turn.left} steps were not taken; take all of "
                    "batches() before the next epoch"
                )
            turn = self._next()

    def batches(self, loader: Any = None) -> Iterator[Any]:
        """Yields the batches that are left of the epoch, as ``loader`` makes them.

        ``loader`` is a ``DataLoader`` whose ``batch_sampler`` is this sampler, with any number of
        worker processes. Without one the batches are lists of the numbers of examples.
        """
        if self._in_batches:
            raise errors.ParagonError(
                "ElasticSampler: batches() was called within a loop over batches(); a step "
                "has one batch"
            )
        turn = self._resume()
        if loader is not None:
            self._check_loader(loader)
        source = _Source(self, loader)
        self._in_batches = True
        try:
            while turn.kind == "step":
                begin = time.perf_counter()
                batch, self._indices = source.next(turn)
                self._seconds = time.perf_counter() - begin
                yield batch
                del batch
                turn = self._next()
        finally:
            self._in_batches = False
            source.end()

    def __iter__(self) -> Iterator[list[int]]:
        """What a loader draws: the batches of this worker in the division of the current turn."""
        turn = self._now()
        if not self._in_batches:
            raise errors.ParagonError(
                "ElasticSampler: the loop is over the loader itself, which ends no step; loop over "
                "batches.batches(loader), where batches is this sampler"
            )
        self._draw = _Draw(self, self._the_store(), turn)
        return iter(self._draw)

    def __len__(self) -> int:
        """Steps of the epoch, should the workers stay as they are."""
        if self._turn is not None and self._turn.kind == "step":
            return self._turn.step + self._turn.left
        workers = self._the_store().num_workers
        share = -(-self._length // max(workers, 1))
        return -(-share // self._batch)

    # ---- what the job has come to

    @property
    def indices(self) -> list[int]:
        """The numbers of the examples of the current batch. They count if ``size`` is not 0."""
        return list(self._indices)

    @property
    def size(self) -> int:
        """How many examples of the current batch count: all or, where the share is used up, 0."""
        return self._now().size

    @property
    def epoch(self) -> int:
        """The number of the epoch, from 0."""
        return self._now().epoch

    @property
    def step(self) -> int:
        """The number of the step in its epoch, from 0."""
        return self._now().step

    @property
    def steps(self) -> int:
        """Steps done in all, those before this worker joined included."""
        return self._now().steps

    @property
    def removed(self) -> bool:
        """Whether this worker was asked to leave, and has: for programs that catch RemovedExit."""
        return self._has_left

    def state_dict(self) -> dict[str, Any]:
        """What a run that goes on from a checkpoint needs to know.

        Behind the last batch of an epoch it begins with the next one. Where all workers stop it
        goes on within this epoch; elsewhere it begins this epoch anew.
        """
        state = {"length": self._length, "seed": self._seed, "order": self._order or "shuffled"}
        turn = self._turn
        if turn is None:
            return {**state, "epoch": self._first, "cuts": self._cuts, "steps": self._steps}
        epoch = turn.epoch + (turn.kind == "epoch")
        return {**state, "epoch": epoch, "cuts": turn.cuts, "steps": turn.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Begins where a checkpoint was written. Call it before ``epochs``, on every worker."""
        if self._turn is not None:
            raise errors.ParagonError("ElasticSampler.load_state_dict: call it before epochs()")
        order = self._order or "shuffled"
        for name, own in (("length", self._length), ("seed", self._seed), ("order", order)):
            if state.get(name, own) != own:
                raise errors.UsageError(
                    f"ElasticSampler.load_state_dict: {name} was {state[name]} in the run of "
                    f"the checkpoint and is {own} here; want the same"
                )
        self._first = int(state["epoch"])
        self._cuts, self._steps = state.get("cuts"), int(state.get("steps", 0))

    def save(self, path: _checkpoint.Path) -> None:
        """Writes a checkpoint: all that workers that join receive, and ``state_dict``.

        Of everything that is attached these are parameters, buffers, optimizers (also the state of
        one on the servers) and the objects of ``attach(state=...)``. Every worker calls it, because
        buffers are averaged first; rank 0 writes. A crash leaves the old file or the new one.
        Gradients that have only been accumulated are not in it."""
        store = self._the_store()
        begin = time.perf_counter()
        attached = _attach.attached(store)
        for a in attached:
            a.average_buffers()
        if store.rank == 0:
            _checkpoint.write(path, attached, self.state_dict())
            store.report(checkpoint={"seconds": time.perf_counter() - begin})

    def load(self, path: _checkpoint.Path) -> None:
        """Goes on from what ``save`` has written. Every worker calls it, with the same file, after
        attach and before ``epochs``. On a worker that joins a running job it does nothing: such a
        worker gets the state of the others."""
        store = self._the_store()
        if not store.joining:
            self.load_state_dict(_checkpoint.read(path, _attach.attached(store)))

    # ---- turns

    def _the_store(self) -> Store:
        if self._store is None:
            self._store = paragon.init()
        return self._store

    def _now(self) -> Turn:
        if self._turn is None:
            raise errors.ParagonError(
                "ElasticSampler: there is no epoch yet; loop over epochs() first, and over "
                "batches() within"
            )
        return self._turn

    def _start(self, epochs: int, first: int) -> Turn:
        store = self._the_store()
        self._has_state = not store.joining
        _share.check(_attach.attached(store))
        self._agree(store, epochs, first)
        store.report(folder=self._checkpoint is not None or self._defers)
        atexit.register(self._say_left, os.getpid())
        cuts, steps = (self._cuts, self._steps) if first == self._first else (None, 0)
        try:
            turn = store.sampler(
                self._length,
                self._batch,
                epochs,
                self._seed,
                first=first,
                order=self._order,
                cuts=cuts,
                steps=steps,
                stops=True,
            )
        except (errors.RemovedError, errors.FinishedError) as err:
            # Where it joins it has come too late.
            raise self._removed(str(err)) from err
        _report.begin_turns()
        return self._enter(turn)

    def _agree(self, store: Store, epochs: int, first: int) -> None:
        """An error if worker 0 divides other examples, or begins elsewhere; a worker that joins
        compares with the examples of the job, whose place it takes over."""
        if store.alone:
            return
        _layout.meet(store, "loops over ElasticSampler.epochs")
        own = (
            f"{self._length} examples in batches of {self._batch}, {epochs} epochs, seed "
            f"{self._seed}, {self._order or 'shuffled'}"
        )
        begin = f"; it begins with epoch {first} after {self._steps} steps"
        theirs = _layout.first_text(store, "sampler/", own + begin)
        if store.joining:
            theirs = theirs.partition(";")[0]
        else:
            own += begin
        if theirs != own:
            raise errors.ConflictError(
                f"ElasticSampler: this worker has {own}, and worker 0 has {theirs}; give all "
                "workers the same",
                worker=None if store.joining else store.rank,
            )

    def _say_left(self, process: int) -> None:
        """At the end of the process: a line if it has examples that nobody will use."""
        turn = self._turn
        store = self._the_store()
        if turn is None or turn.kind != "step" or self._has_left or os.getpid() != process:
            return
        if store.closed or store.num_workers == 1 or getattr(sys, "last_value", None) is not None:
            return
        _process.say(
            f"worker {store.rank} ends in epoch {turn.epoch} with {turn.left} steps left; if "
            "others go on, nobody uses the rest of its examples of this epoch"
        )

    def _resume(self) -> Turn:
        """The turn under way, where a loop was left and begins anew."""
        turn = self._now()
        # A turn is over whose end was asked for, or whose gradients are in the mean.
        over = self._ending
        if turn.kind == "stop" and not self._defers:
            return self._stop(turn)
        if turn.kind == "step":
            over = over or any(a.exchanged for a in _attach.attached(self._the_store()))
        return self._next() if over else turn

    def _next(self) -> Turn:
        """Ends the turn, and returns the next one."""
        self._ending = True
        store = self._the_store()
        if self._now().kind != "step":
            return self._enter(store.turn(after=self._turn))
        for attached in _attach.attached(store):
            attached.flush()
        step = _report.take_step()
        step.setdefault("data", self._seconds)
        return self._enter(store.turn(step, after=self._turn))

    def _enter(self, turn: Turn) -> Turn:
        self._turn, self._ending = turn, False
        if turn.kind == "removed":
            raise self._removed("this worker was asked to leave")
        store = self._the_store()
        if turn.generation != self._generation and store.type != "dist_async":
            _collectives.of(store).members_changed()
        self._generation = turn.generation
        if turn.joined and turn.division != self._shared:
            self._shared = turn.division
            items = _share.items_of(_attach.attached(store))
            if self._sharer is None:
                self._sharer = _share.Sharer(store)
            self._sharer.share(items, self._has_state, turn.generation)
            self._has_state = True
        for attached in _attach.attached(store):
            # Between epochs all workers have one weight.
            attached.examples = turn.size if turn.kind == "step" else None
        return self._stop(turn) if turn.kind in ("stop", "stopped") else turn

    def _stop(self, turn: Turn) -> Turn:
        """Writes what resumes the run, until a turn says that all workers have; then ends."""
        if turn.kind == "stopped":
            known = self._checkpoint is not None or self._defers
            missing = None if known else "ElasticSampler has no checkpoint="
            raise _stop.end(self._the_store(), turn, missing)
        if self._defers:
            return turn
        if callable(self._checkpoint):
            self._checkpoint()
        elif self._checkpoint is not None:
            self.save(self._checkpoint)
        return self._next()

    def _stopped(self) -> None:
        """Ends the turn in which whoever defers it has written the checkpoint. It returns if that
        has to be written again."""
        self._next()

    @property
    def _stopping(self) -> bool:
        """Whether the loops have ended for whoever defers writing the checkpoint."""
        return self._turn is not None and self._turn.kind == "stop"

    def _removed(self, why: str) -> RemovedExit:
        self._has_left = True
        _process.say(f"{why}; the program ends, and the job goes on")
        return RemovedExit(why)

    def _numbers(self, indices: numpy.ndarray, epoch: int) -> list[int]:
        if not self._with_epoch:
            return indices.tolist()
        return [Index(i, epoch, example_seed(self._seed, epoch, i)) for i in indices.tolist()]

    def _check_loader(self, loader: Any) -> None:
        if isinstance(getattr(loader, "dataset", None), torch.utils.data.IterableDataset):
            raise TypeError(
                "ElasticSampler: the loader's data set is an IterableDataset, whose examples have "
                "no numbers, so nobody can say which were used; give it __getitem__ and __len__, "
                "for example with one number for each file, or read it without this sampler"
            )
        if getattr(loader, "in_order", True) is False:
            raise errors.UsageError(
                "ElasticSampler: the loader has in_order=False, and its batches are counted "
                "in the order in which they were drawn; leave in_order out"
            )
        if not _draws_from(loader, self):
            raise errors.UsageError(
                "ElasticSampler: the loader does not draw from this sampler; make it with "
                "DataLoader(dataset, batch_sampler=sampler, ...), without batch_size and shuffle"
            )


def _number_of(length: Union[int, Sized]) -> int:
    if isinstance(length, torch.utils.data.IterableDataset):
        raise TypeError(
            "ElasticSampler: an IterableDataset has no numbered examples; give it "
            "__getitem__ and __len__, for example with one number for each file"
        )
    number = length if isinstance(length, int) else len(length)
    if number < 1:
        raise errors.UsageError(
            f"ElasticSampler: the data set has {number} examples, want at least 1"
        )
    return number


def _draws_from(loader: Any, sampler: ElasticSampler) -> bool:
    """Whether a loader's batches are the sampler's; wrappers have theirs under the same name."""
    while loader is not None:
        if loader is sampler:
            return True
        loader = getattr(loader, "batch_sampler", None)
    return False


class _Draw:
    """The batches of a division that a loader has drawn, in its order."""

    def __init__(self, sampler: ElasticSampler, store: Store, turn: Turn) -> None:
        self._sampler = sampler
        self._store = store
        self._turn = turn
        self.division = turn.division
        self.epoch = turn.epoch
        # Each with how many of its examples count. The loop takes them from the left.
        self.drawn: collections.deque[tuple[list[int], int]] = collections.deque()

    def __iter__(self) -> Iterator[list[int]]:
        if self._turn.kind != "step":
            return
        batch = self._sampler._batch
        # What counts elsewhere is as long as a batch: models with batch norm need several examples.
        repeated = numpy.arange(batch)
        share = self._share()
        for _ in range(self._turn.left):
            own = next(share, None)
            if own is None:
                indices, size = repeated, 0
            else:
                indices, size = own, len(own)
                if len(own) == batch:
                    repeated = own
            numbers = self._sampler._numbers(indices, self.epoch)
            self.drawn.append((numbers, size))
            yield numbers

    def _share(self) -> Iterator[numpy.ndarray]:
        """This worker's examples, batch by batch."""
        batch, first = self._sampler._batch, self._turn.first
        while True:
            got = self._store.indices(first, batch * _AHEAD)
            first += len(got)
            for at in range(0, len(got), batch):
                yield numpy.array(got[at : at + batch])
            if len(got) < batch * _AHEAD:
                return


class _Source:
    """Where a loop over batches takes them from: a loader's iterator, anew for each division."""

    def __init__(self, sampler: ElasticSampler, loader: Any) -> None:
        self._sampler = sampler
        self._loader = sampler if loader is None else loader
        self._iterator: Optional[Iterator[Any]] = None
        self._draw: Optional[_Draw] = None

    def next(self, turn: Turn) -> tuple[Any, list[int]]:
        """The batch of the turn, and the numbers of its examples."""
        if self._draw is not None and self._draw.division != turn.division:
            self.end()
        if self._iterator is None:
            self._sampler._draw = None
            try:
                self._iterator = iter(self._loader)
            except (ConnectionError, EOFError) as err:
                raise errors.ParagonError(_NOT_STARTED.format(error=repr(err))) from err
        try:
            batch = next(self._iterator, self)
        except (EOFError, OSError, RuntimeError) as err:
            if _life.told_to_end():
                # Loaders that were not forked got the SIGTERM that this process got.
                text = "the data loader has ended, as this process was told to by SIGTERM"
                raise StoppedExit(text, 143, False) from None
            self._explain(turn, err)
            raise
        if self._draw is None:
            self._draw = self._sampler._draw
        if batch is self or self._draw is None or not self._draw.drawn:
            raise errors.ParagonError(
                f"ElasticSampler: epoch {turn.epoch}: the loader ended with {turn.left} steps "
                "left; it must make one batch of each list of its batch_sampler"
            )
        indices, size = self._draw.drawn.popleft()
        if size != turn.size:
            raise errors.ParagonError(
                f"ElasticSampler: epoch {turn.epoch} step {turn.step}: the loader's batch has "
                f"{size} examples that count, want {turn.size}; a loader must keep the order of "
                "its batch_sampler, and make one batch of each list"
            )
        return batch, indices

    def _explain(self, turn: Turn, err: Exception) -> None:
        """Raises what says that a process of the loader has died, if one has."""
        workers = {w.sentinel: w for w in getattr(self._iterator, "_workers", ())}
        # A process that is being killed has closed its files before it has ended.
        for sentinel in multiprocessing.connection.wait(list(workers), 1) if workers else ():
            worker = workers[sentinel]
            worker.join()
            code = worker.exitcode
            how = f"signal {-code}" if code < 0 else f"exit {code}"
            raise errors.ParagonError(
                f"ElasticSampler: epoch {turn.epoch} step {turn.step}: DataLoader worker (pid "
                f"{worker.pid}) ended by {how}; the batch was not used"
            ) from err

    def end(self) -> None:
        """Drops the iterator, and with it what it has fetched ahead."""
        self._iterator = None
        self._draw = None
        self._sampler._draw = None
