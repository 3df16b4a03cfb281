"""Joining the job, ranks, and pauses."""

from __future__ import annotations

from typing import Any

from ..torch._compat import job as _job
from ..torch._compat.job import Job

PACKAGE = "paragon.byteps"

_suspended = False


def joined() -> Job:
    """The job, also between suspend and resume."""
    return _job.current(PACKAGE)


def current() -> Job:
    """The job for an operation; RuntimeError between suspend and resume."""
    if _suspended:
        raise RuntimeError(f"{PACKAGE} is suspended; call resume() first")
    return _job.current(PACKAGE)


def init(lazy: bool = True) -> None:
    """Joins the job that launch started. A second call does nothing.

    Started without launch the job has one worker.

    Args:
        lazy: changes nothing.
    """
    _job.init()


def shutdown() -> None:
    """Leaves the job in order; the others go on. The end of the process does it, too."""
    global _suspended
    _suspended = False
    _job.shutdown()


def is_initialized() -> bool:
    """Whether init was called, and shutdown was not."""
    return _job.is_initialized()


def suspend() -> None:
    """Waits until all workers have called it. Until resume no operation may be started; ranks and
    sizes may be asked for."""
    global _suspended
    current().store.barrier()
    _suspended = True


def resume(num_workers: int, num_servers: int, global_rank: int, context: Any = None) -> None:
    """Ends suspend.

    Args:
        num_workers: as many as the job has. Other numbers are NotImplementedError: launch adds
            and removes workers while all go on.
        num_servers: changes nothing: launch knows how many there are.
        global_rank: changes nothing: the worker keeps its rank.
        context: changes nothing.
    """
    global _suspended
    workers = joined().store.num_workers
    if num_workers != workers:
        raise NotImplementedError(
            f"resume({num_workers}, ...) in a job of {workers} workers; start the job by launch "
            f"--elastic-training-enabled, change it by launch ctl scale, and use "
            f"paragon.torch.ElasticSampler, which needs no suspend"
        )
    _suspended = False


def rank() -> int:
    """This worker's number, from 0."""
    return joined().store.rank


def size() -> int:
    """The number of workers."""
    return joined().store.num_workers


def local_rank() -> int:
    """This worker's number among those of its host."""
    return joined().local_rank


def local_size() -> int:
    """The number of workers of this host."""
    return joined().local_size
