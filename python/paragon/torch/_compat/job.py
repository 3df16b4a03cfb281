"""The job of this process, as programs of Horovod and BytePS see it: ranks, and places on hosts."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Iterator, List, Optional, Type

import paragon
from paragon import ParagonError, Store, _stop
from paragon._store import Turn

from .. import _collectives
from .._collectives import Collectives
from .._stream import Disagreement, WorkerMissing


class Job:
    """This process's part in the job, from init to shutdown.

    Attributes:
        store: the store.
        collectives: its operations.
        local_rank, local_size: this worker's number among those of its host, and their number.
        cross_rank, cross_size: this worker's number among those that have the same local rank on
            their hosts, by rank, and their number.
        root: the lowest rank that has the job's state.
    """

    def __init__(self) -> None:
        self.store: Store = paragon.init()
        self.collectives: Collectives = _collectives.of(self.store)
        self.local_rank, self.local_size = 0, 1
        self.cross_rank, self.cross_size = 0, 1
        self.root = 0
        self._seat: Optional[socket.socket] = None
        self._turn: Optional[Turn] = None
        if self.store.joining:
            # The others make no calls with this worker yet, and so cannot say where they are.
            self.local_rank = self._take_seat(0)
            self.local_size = self.local_rank + 1
        else:
            self._find_places()
            self._take_seat(self.local_rank)

    def _find_places(self) -> None:
        """Asks all workers for their hosts. All call it together."""
        host = os.environ.get("DMLC_NODE_HOST") or socket.gethostname()
        hosts: List[str] = self.collectives.allgather_object(host, "hosts")
        rank = self.store.rank
        # The number of workers before each one on its own host.
        local = [hosts[:r].count(h) for r, h in enumerate(hosts)]
        self.local_rank, self.local_size = local[rank], hosts.count(host)
        same = [r for r, n in enumerate(local) if n == self.local_rank]
        self.cross_rank, self.cross_size = same.index(rank), len(same)

    def _take_seat(self, first: int) -> int:
        """Holds the lowest free number of this host, from first on, for the life of the process.

        A worker that joins has its local rank from it, so that it gets a device of its own. The
        number is an abstract socket's name: the system frees it when the process ends."""
        for number in range(first, 1024):
            seat = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                seat.bind(f"\0paragon/{os.environ.get('PARAGON_JOB', os.getpid())}/{number}")
            except OSError:
                seat.close()
                continue
            self._seat = seat
            return number
        raise RuntimeError("no free local rank below 1024 on this host: end workers of the job")

    # ---- workers that come and go

    @property
    def elastic(self) -> bool:
        """Whether begin_steps was called."""
        return self._turn is not None

    def begin_steps(self) -> None:
        """From now on workers may join and leave at :meth:`end_step`.

        A worker that joins is a member when it returns. All call members_changed next."""
        if self.store.alone or self.elastic:
            return
        # There are no examples to share out: each step uses one of a number that does not end.
        self._turn = self.store.sampler(
            examples=1 << 30, batch=1, epochs=1 << 10, seed=0, order="sequential", stops=True
        )

    def end_step(self) -> Optional[Turn]:
        """Ends a step. Returns the turn with which the members changed, else None."""
        if self._turn is None:
            return None
        before, turn = self._turn, self.store.turn()
        while turn.kind in ("epoch", "stop"):
            turn = self.store.turn()
        self._turn = turn
        if turn.kind == "stopped":
            raise _stop.end(self.store, turn, "elastic.run has no place for one of all workers")
        if turn.kind != "step":
            return turn
        if turn.division == before.division:
            return None
        self.root = turn.survivor
        return turn

    def members_changed(self) -> None:
        """Learns where the members of a new division are. All of them call it together."""
        self.collectives.members_changed()
        self._find_places()

    def close(self) -> None:
        """Leaves the job in order, and gives this worker's number on its host free."""
        self.store.close()
        if self._seat is not None:
            self._seat.close()


_job: Optional[Job] = None
# Whether this process has left a job of launch, which counts it as done.
_left = False


def init() -> Job:
    """Joins the job. A second call returns the same; after :func:`shutdown` it is an error, unless
    the process is alone."""
    global _job
    if _left:
        raise RuntimeError(
            "shutdown has left the job, and this process cannot join it again; call shutdown once, "
            "at the end of the program"
        )
    if _job is None or _job.store.closed:
        _job = Job()
    return _job


def shutdown() -> None:
    """Leaves the job in order."""
    global _job, _left
    if _job is not None:
        _left = not _job.store.alone
        _job.close()
        _job = None


def is_initialized() -> bool:
    """Whether init was called, and the store is open."""
    return _job is not None and not _job.store.closed


def current(package: str) -> Job:
    """Returns the job; ValueError before init and after shutdown.

    In a forked child it knows rank and size, for data loaders; operations raise ForkError there."""
    if _job is None or _job.store.closed:
        raise ValueError(f"{package} has not been initialized; call init() first")
    return _job


@contextlib.contextmanager
def errors_as(cls: Type[Exception]) -> Iterator[None]:
    """Raises what the job failed with as another class, with the same text."""
    try:
        yield
    except (ParagonError, WorkerMissing) as e:
        raise cls(str(e)) from e


__all__ = ["Disagreement", "Job", "current", "errors_as", "init", "is_initialized", "shutdown"]
