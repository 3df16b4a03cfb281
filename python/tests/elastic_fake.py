"""A job within the process, for tests of what Python does with turns: each worker is a thread.

It has the interface of ``paragon._store.Store`` as far as the sampler and the sharing of state use
it. Workers join, leave and are killed at named steps.
"""

from __future__ import annotations

import dataclasses
import random
import threading
from typing import Any, Callable, Optional

import numpy

from fakestore import FakeRegion

TIMEOUT = 60.0


class Killed(BaseException):
    """Ends the thread of a worker as SIGKILL ends a process."""


@dataclasses.dataclass
class Turn:
    kind: str
    epoch: int
    step: int
    steps: int
    division: int
    generation: int
    rank: int
    workers: int
    size: int
    first: int
    left: int
    joined: bool
    survivor: int
    stop: str = ""
    cuts: Optional[list[Any]] = None


class Job:
    """The membership, the divisions, and a meeting of all members for each collective call.

    ``used`` counts each (epoch, example) of steps that were acknowledged.
    """

    def __init__(self, examples: int, batch: int, epochs: int, seed: int = 1) -> None:
        self.examples, self.batch, self.epochs, self.seed = examples, batch, epochs, seed
        self.used: dict[tuple[int, int], int] = {}
        self.members: list[Store] = []
        self.changed = threading.Condition()
        self.generation = self.division = 1
        self.epoch = self.step = self.steps = 0
        self.joiners: list[Store] = []
        self.values: dict[str, numpy.ndarray] = {}
        self.failure: Optional[str] = None
        # Calls of a test, by the number of steps done in all: see at.
        self.script: dict[int, Callable[[], None]] = {}
        # joined says that the division has newcomers.
        self.joined = False
        self._meetings: dict[str, dict[Store, Any]] = {}
        self._results: dict[str, Any] = {}
        self._nodes = 0
        # How many members the division has, and whether an epoch has ended and none begun.
        self._divided = 0
        self._between = False

    def worker(self, joins: bool = False) -> "Store":
        self._nodes += 1
        store = Store(self, self._nodes, joins)
        with self.changed:
            (self.joiners if joins else self.members).append(store)
            self.changed.notify_all()
        return store

    def begin(self) -> None:
        """Divides the first epoch among the members."""
        self._divide(self._order())

    def _order(self) -> list[int]:
        order = list(range(self.examples))
        random.Random(f"{self.seed} {self.epoch}").shuffle(order)
        return order

    def _divide(self, rest: list[int]) -> None:
        n = len(self.members)
        each, longer = divmod(len(rest), n)
        at = 0
        for rank, store in enumerate(self.members):
            length = each + (rank < longer)
            store.share, store.at, store._rank = rest[at : at + length], 0, rank
            at += length

    def meet(self, what: str, store: "Store", value: Any, combine: Callable[[dict], Any]) -> Any:
        """Returns what ``combine`` makes of the members' values, when all have come."""
        with self.changed:
            if store.lost:
                raise Killed
            name = f"{what} {store.calls.setdefault(what, 0)}"
            store.calls[what] += 1
            here = self._meetings.setdefault(name, {})
            here[store] = value
            self.changed.notify_all()
            while name not in self._results:
                if all(m in here for m in self.members):
                    self._results[name] = combine(here)
                    self.changed.notify_all()
                    break
                if not self.changed.wait(TIMEOUT) or self.failure:
                    self.failure = (
                        self.failure or f"{name}: {len(here)} of {len(self.members)} came"
                    )
                    self.changed.notify_all()
                    raise AssertionError(self.failure)
                if store.lost:
                    raise Killed
            return self._results[name]

    def kill(self, store: "Store") -> None:
        """The worker counts no more; what it did not finish goes back."""
        with self.changed:
            self.members.remove(store)
            store.lost = True
            self.changed.notify_all()

    def next_turn(self, here: dict["Store", Any]) -> str:
        """Ends a step: the result is the kind of the next turn."""
        if self._between:
            self.epoch, self.step = self.epoch + 1, 0
            self._between = False
            if self.epoch < self.epochs:
                self._divide(self._order())
                self.joined = False
                self.division += 1
        else:
            self._count(list(here))
            self.step, self.steps = self.step + 1, self.steps + 1
        if self.steps in self.script:
            self.script.pop(self.steps)()
        leaving = [m for m in self.members if m.leaving]
        if self.joiners or leaving or self._divided != len(self.members):
            self._change(leaving)
        return self._kind()

    def _count(self, stores: list["Store"]) -> None:
        for s in stores:
            if s in self.members:
                for i in s.share[s.at : s.at + self.batch]:
                    self.used[self.epoch, i] = self.used.get((self.epoch, i), 0) + 1
                s.at += self.batch

    def _change(self, leaving: list["Store"]) -> None:
        rest = [i for i in self._order() if (self.epoch, i) not in self.used]
        self.joined = bool(self.joiners)
        self.members = [m for m in self.members if m not in leaving] + self.joiners
        self.joiners = []
        self.generation += 1
        self.division += 1
        self._divide(rest)
        # Each newcomer takes its calls up where the others are.
        calls = dict(self.members[0].calls)
        for m in self.members:
            if not m.counts:
                m.calls = dict(calls)
                m.counts = True
        self._divided = len(self.members)

    def _kind(self) -> str:
        if self.epoch >= self.epochs:
            return "end"
        if all(m.at >= len(m.share) for m in self.members):
            self._between = True
            return "epoch"
        return "step"

    def turn_of(self, store: "Store", kind: str) -> Turn:
        if store not in self.members:
            kind = "removed"
        longest = max((-(-(len(m.share) - m.at) // self.batch) for m in self.members), default=0)
        size = max(0, min(self.batch, len(store.share) - store.at)) if kind == "step" else 0
        return Turn(
            kind,
            self.epoch,
            self.step,
            self.steps,
            self.division,
            self.generation,
            store._rank,
            len(self.members),
            size,
            store.at,
            max(0, longest) if kind == "step" else 0,
            self.joined,
            0,
        )


class Store:
    """One worker's side."""

    def __init__(self, job: Job, node: int, joins: bool) -> None:
        self.job, self.node, self.joining = job, node, joins
        self.share: list[int] = []
        self.at = self._rank = 0
        self.calls: dict[str, int] = {}
        self.counts = not joins
        self.leaving = self.lost = False
        self.attached: list[Any] = []
        # What was reported with each turn.
        self.steps: list[Any] = []
        self.closed = False
        self.type, self.alone, self.timeout = "dist_sync", False, TIMEOUT
        self.elastic, self.shares_examples = True, True

    rank = property(lambda self: self._rank)
    num_workers = property(lambda self: len(self.job.members))
    generation = property(lambda self: self.job.generation)

    def check_process(self) -> None:
        pass

    def sampler(
        self,
        examples: int,
        batch: int,
        epochs: int,
        seed: int,
        first: int = 0,
        order: Optional[str] = None,
        **more: Any,
    ) -> Turn:
        job = self.job
        if self.joining:
            with job.changed:
                while not self.counts:
                    assert job.changed.wait(TIMEOUT), "the worker never counted"
            self.joining = False
            return job.turn_of(self, job._kind())

        def begin(here: dict[Store, Any]) -> str:
            job.epoch = first
            job._divided = len(job.members)
            if first < epochs:
                job.begin()
            return job._kind()

        return job.turn_of(self, job.meet("sampler", self, None, begin))

    def turn(
        self, step: Optional[dict[str, Any]] = None, after: Optional[Turn] = None
    ) -> Turn:
        self.steps.append(step)
        return self.job.turn_of(self, self.job.meet("turn", self, None, self.job.next_turn))

    def indices(self, first: int, count: int) -> numpy.ndarray:
        return numpy.array(self.share[first : first + count], numpy.int64)

    def report(self, **fields: Any) -> None:
        pass

    def leave(self, reason: str) -> None:
        self.leaving = True

    def broadcast(self, text: Optional[str]) -> str:
        lowest = lambda here: here[
            min((s for s in here if s in self.job.members), key=lambda s: s._rank)
        ]
        return self.job.meet("broadcast", self, text, lowest)

    def memory(self, lengths: list[int]) -> FakeRegion:
        return FakeRegion(0, lengths)

    def init(self, declarations: list[Any]) -> None:
        for d in declarations:
            self.job.values.setdefault(d.key, d.region.slot(d.slot).copy())

    def pull(self, keys: list[Any]) -> None:
        for key, region, slot in keys:
            region.slot(slot)[:] = self.job.values[key]

    def plan(self, entries: list[Any]) -> "Plan":
        return Plan(self, entries)

    def wait(self, number: int) -> None:
        pass


class Plan:
    """Averages as servers do: the sum over the sum of weights; without weight nothing changes."""

    def __init__(self, store: Store, entries: list[Any]) -> None:
        self.store, self.entries = store, entries

    def drop(self) -> None:
        self.entries = []

    def exchange(
        self,
        first: int = 0,
        count: Optional[int] = None,
        weight: float = 1.0,
        examples: int = 0,
        answer: bool = False,
        push_only: bool = False,
    ) -> int:
        entries = self.entries[first:][:count]
        pushed = [e.region.slot(e.grad_slot).copy() for e in entries]

        def mean(here: dict[Store, Any]) -> list[numpy.ndarray]:
            total = numpy.float32(sum(w for w, _ in here.values()))
            for i, e in enumerate(entries):
                if total > 0:
                    added = [values[i] for _, values in here.values()]
                    self.store.job.values[e.key] = numpy.sum(added, 0, numpy.float32) / total
            return [self.store.job.values[e.key].copy() for e in entries]

        for e, value in zip(
            entries, self.store.job.meet("exchange", self.store, (weight, pushed), mean)
        ):
            e.region.slot(e.out_slot)[:] = value
        return 1
