"""Stores of several workers within one process, each in a thread, for tests of paragon.torch."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from paragon._store import Declaration, Entry
from paragon.errors import DuplicateInitError, SizeError, UnavailableError

SECONDS = 20.0


class FakeJob:
    """What the servers hold, and the rounds that are open. Sums are in rank order, as there."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.changed = threading.Condition()
        self.values: Dict[str, np.ndarray] = {}
        self.forms: Dict[str, str] = {}
        self.declared: Dict[str, set] = {}
        self.rounds: Dict[str, int] = {}
        self.open: Dict[str, Dict[int, tuple]] = {}
        self.weights: Dict[str, float] = {}
        self.failed: Optional[BaseException] = None
        self.pushes: List[tuple] = []
        self.optimizer: Any = None
        # The rates that the exchanges of keys came with.
        self.factors: Dict[str, float] = {}

    def until(self, true: Callable[[], bool], what: str) -> None:
        with self.changed:
            if not self.changed.wait_for(lambda: true() or self.failed is not None, SECONDS):
                raise UnavailableError(f"{what}: waited {SECONDS} s", key=what)
            if self.failed is not None and not true():
                raise UnavailableError(f"{what}: another worker failed: {self.failed!r}", key=what)

    def fail(self, e: BaseException) -> None:
        with self.changed:
            self.failed = self.failed or e
            self.changed.notify_all()

    def contribute(self, key: str, rank: int, content: Any, weight: float) -> int:
        """Adds to the open round; returns the number of rounds after which it has closed."""
        with self.changed:
            pushes = self.open.setdefault(key, {})
            assert rank not in pushes, f"worker {rank} pushed {key} twice in a round"
            pushes[rank] = (content, weight)
            end = self.rounds[key] + 1
            if len(pushes) == self.workers:
                self._close(key, pushes)
                self.open[key] = {}
                self.rounds[key] = end
                self.changed.notify_all()
            return end

    def _close(self, key: str, pushes: Dict[int, tuple]) -> None:
        value, form = self.values[key], self.forms[key]
        total = sum(pushes[r][1] for r in range(self.workers))
        self.weights[key] = total
        if form == "rows":
            sums: Dict[int, np.ndarray] = {}
            for r in range(self.workers):
                ids, rows = pushes[r][0]
                for i, row in zip(ids.tolist(), rows):
                    sums[i] = sums.get(i, np.zeros_like(row)) + row
            for i, row in sums.items():
                value[i] = row
            return
        summed = pushes[0][0].copy()
        for r in range(1, self.workers):
            summed += pushes[r][0]
        if form == "average":
            if total > 0:
                value[:] = summed / np.float32(total)
        elif self.optimizer is not None:
            # Plain sgd is enough here.
            if total > 0:
                value -= np.float32(self.factors[key]) * summed / np.float32(total)
        else:
            value[:] = summed


class FakeRegion:
    def __init__(self, number: int, lengths: Sequence[int]) -> None:
        assert all(n >= 1 for n in lengths), lengths
        self.id, self.lengths = number, list(lengths)
        self._slots = [np.zeros(n, np.float32) for n in lengths]

    def slot(self, i: int) -> np.ndarray:
        return self._slots[i]

    def raw(self, i: int, dtype: Any) -> np.ndarray:
        kind = np.dtype(dtype)
        whole = self._slots[i].view(np.uint8)
        return whole[: len(whole) // kind.itemsize * kind.itemsize].view(kind)

    def free(self) -> None:
        self._slots = []


class FakePlan:
    def __init__(self, store: "FakeStore", entries: Sequence[Entry]) -> None:
        self.store, self.entries = store, list(entries)

    def drop(self) -> None:
        pass

    def exchange(
        self,
        first: int = 0,
        count: Optional[int] = None,
        weight: float = 1.0,
        examples: int = 0,
        answer: bool = False,
        push_only: bool = False,
        factor: float = 0.0,
    ) -> int:
        store = self.store
        entries = self.entries[first:][:count]
        assert first + len(entries) == (len(self.entries) if count is None else first + count)
        ends = []
        for e in entries:
            size = len(store.job.values[e.key])
            gradient = e.region.slot(e.grad_slot)[:size].copy()
            # What reads the slot before the answer shall see that it is not the mean.
            e.region.slot(e.grad_slot)[:size] = np.nan
            store.job.factors[e.key] = factor
            ends.append((e, size, store.job.contribute(e.key, store.rank, gradient, weight)))
        store.sent.append((len(entries), weight, examples, answer))
        store.under_way.append(ends)
        return len(store.under_way)


class FakeStore:
    """The part of paragon.Store that paragon.torch uses."""

    type = "dist_sync"
    joining = alone = elastic = shares_examples = False
    generation = 1

    def __init__(self, job: FakeJob, rank: int) -> None:
        self.job, self.rank = job, rank
        self.regions: List[FakeRegion] = []
        self.under_way: List[Any] = []
        self.waited = 0
        self.sent: List[tuple] = []
        self.rows_sent: List[tuple] = []
        self.compression: Any = None
        self.reports: List[dict] = []

    @property
    def num_workers(self) -> int:
        return self.job.workers

    def check_process(self) -> None:
        pass

    def memory(self, lengths: Sequence[int]) -> FakeRegion:
        self.regions.append(FakeRegion(len(self.regions), lengths))
        return self.regions[-1]

    def init(self, declarations: Sequence[Declaration]) -> None:
        job = self.job
        for d in declarations:
            with job.changed:
                who = job.declared.setdefault(d.key, set())
                if self.rank in who:
                    raise DuplicateInitError(f"init key {d.key}: declared twice", key=d.key)
                who.add(self.rank)
                if self.rank == 0:
                    value = d.region.slot(d.slot)[: d.size].copy()
                    job.values[d.key] = (
                        value.reshape(d.rows, d.row_len) if d.form == "rows" else value
                    )
                    job.forms[d.key], job.rounds[d.key] = d.form, 0
                job.changed.notify_all()
        for d in declarations:
            job.until(
                lambda: d.key in job.rounds and len(job.declared[d.key]) == job.workers, d.key
            )
            if job.values[d.key].size != d.size:
                raise SizeError(
                    f"key {d.key}: got {d.size}, want {job.values[d.key].size}", key=d.key
                )

    def pull(self, keys: Sequence[tuple]) -> None:
        with self.job.changed:
            for key, region, slot in keys:
                value = self.job.values[key].ravel()
                region.slot(slot)[: len(value)] = value

    def plan(self, entries: Sequence[Entry]) -> FakePlan:
        for e in entries:
            assert self.rank in self.job.declared[e.key], e.key
        return FakePlan(self, entries)

    def wait(self, number: int) -> None:
        while self.waited < number:
            for e, size, end in self.under_way[self.waited]:
                self.job.until(lambda: self.job.rounds[e.key] >= end, e.key)
                with self.job.changed:
                    e.region.slot(e.out_slot)[:size] = self.job.values[e.key]
            self.waited += 1

    def done(self, number: int) -> bool:
        return self.waited >= number

    def set_optimizer(self, config: dict) -> None:
        self.job.optimizer = config

    def request(self, op: str, **f: Any) -> dict:
        if op == "pushpull":
            for k in f["keys"]:
                size = len(self.job.values[k["key"]])
                slot = self.regions[k["region"]].slot(k["grad"])[:size]
                end = self.job.contribute(k["key"], self.rank, slot.copy(), f["weight"])
                self.job.until(lambda: self.job.rounds[k["key"]] >= end, k["key"])
                with self.job.changed:
                    slot[:] = self.job.values[k["key"]]
            return {}
        region = self.regions[f["region"]]
        ids = region.raw(f["ids"], np.int64)[: f["n"]].copy()
        value = self.job.values[f["key"]]
        rows = region.slot(f["values"])[: f["n"] * value.shape[1]].reshape(f["n"], value.shape[1])
        if op == "push_rows":
            self.rows_sent.append((f["key"], f["weight"], f.get("examples", 0)))
            end = self.job.contribute(f["key"], self.rank, (ids, rows.copy()), f["weight"])
            # A pull has this worker's last push, so it waits for the round.
            self.rows_end = getattr(self, "rows_end", {})
            self.rows_end[f["key"]] = end
        else:
            assert op == "pull_rows", op
            end = getattr(self, "rows_end", {}).get(f["key"], 0)
            self.job.until(lambda: self.job.rounds[f["key"]] >= end, f["key"])
            with self.job.changed:
                rows[:] = value[ids]
        return {}

    def set_compression(self, config: dict) -> None:
        self.compression = config

    def report(self, **fields: Any) -> None:
        self.reports.append(fields)


def run(workers: int, body: Callable[[FakeStore], Any]) -> List[Any]:
    """Calls body with each worker's store in a thread of its own, and returns what the calls
    return, by rank. If one raises, the others' waits end, and its exception is raised here."""
    job = FakeJob(workers)
    results: List[Any] = [None] * workers

    def one(rank: int) -> None:
        try:
            results[rank] = body(FakeStore(job, rank))
        except BaseException as e:
            job.fail(e)

    threads = [threading.Thread(target=one, args=(r,)) for r in range(workers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if job.failed is not None:
        raise job.failed
    return results
