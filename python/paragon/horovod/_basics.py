"""Joining the job, ranks, and what Horovod was built with."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

from ..torch._compat import job as _job
from ..torch._compat.job import Job

PACKAGE = "paragon.horovod"


class HorovodInternalError(RuntimeError):
    """An operation failed because of other workers, servers, or the end of the job. Functions of
    ``elastic.run`` need not catch it."""


class HostsUpdatedInterrupt(RuntimeError):
    """Workers have joined or left. ``elastic.run`` catches it.

    Attributes:
        skip_sync: nobody joined, so the state need not be sent.
    """

    def __init__(self, skip_sync: bool) -> None:
        super().__init__("workers have joined or left")
        self.skip_sync = skip_sync


class _GlobalProcessSet:
    """All workers of the job."""

    process_set_id = 0

    def size(self) -> int:
        return size()

    def rank(self) -> int:
        return rank()

    def included(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "global_process_set"


global_process_set = _GlobalProcessSet()


def check_process_set(process_set: Any) -> None:
    """Raises NotImplementedError for a process set of a part of the workers."""
    if process_set is not global_process_set:
        raise NotImplementedError(
            f"process_set={process_set!r} is not there; use global_process_set, or start a second "
            f"job by launch for a part of the workers"
        )


def current() -> Job:
    """The job; ValueError before init and after shutdown."""
    return _job.current(PACKAGE)


@contextlib.contextmanager
def job_errors() -> Iterator[None]:
    """Raises errors of the job as HorovodInternalError."""
    with _job.errors_as(HorovodInternalError):
        yield


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Joins the job that launch started. A second call does nothing.

    Started without launch the job has one worker."""
    if comm is not None:
        raise NotImplementedError(
            f"init(comm={comm!r}): ranks are those that launch gives; call init() without arguments"
        )
    if process_sets:
        raise NotImplementedError(
            "init(process_sets=...) is not there; use all workers of the job, or start a second "
            "job by launch"
        )
    _job.init()


def shutdown() -> None:
    """Leaves the job in order; the others go on. The end of the process does it, too.

    A process of a job of several cannot join again."""
    _job.shutdown()


def is_initialized() -> bool:
    """Whether init was called, and shutdown was not."""
    return _job.is_initialized()


def rank() -> int:
    """This worker's number, from 0. It may change when workers join and leave."""
    return current().store.rank


def size() -> int:
    """The number of workers."""
    return current().store.num_workers


def local_rank() -> int:
    """This worker's number among those of its host."""
    return current().local_rank


def local_size() -> int:
    """The number of workers of this host."""
    return current().local_size


def cross_rank() -> int:
    """This worker's number among those with the same local rank, by rank."""
    return current().cross_rank


def cross_size() -> int:
    """The number of workers with the same local rank: of hosts, if all have as many workers."""
    return current().cross_size


def is_homogeneous() -> bool:
    """Whether all hosts have as many workers."""
    job = current()
    return job.local_size * job.cross_size == job.store.num_workers


def mpi_threads_supported() -> bool:
    """False: there is no MPI here."""
    current()
    return False


def mpi_enabled() -> bool:
    """False: there is no MPI here."""
    return False


def mpi_built() -> bool:
    """False: there is no MPI here."""
    return False


def gloo_enabled() -> bool:
    """False: there is no Gloo here."""
    return False


def gloo_built() -> bool:
    """False: there is no Gloo here."""
    return False


def nccl_built() -> int:
    """0: there is no NCCL here; gradients on a GPU are copied through the host's memory."""
    return 0


def ddl_built() -> bool:
    """False: there is no DDL here."""
    return False


def ccl_built() -> bool:
    """False: there is no oneCCL here."""
    return False


def cuda_built() -> bool:
    """False: operations run on the CPU; tensors may be on a GPU."""
    return False


def rocm_built() -> bool:
    """False: operations run on the CPU; tensors may be on a GPU."""
    return False
