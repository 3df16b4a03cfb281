"""Horovod's names that are not here, and what to use in their place."""

from __future__ import annotations

from typing import Any, Dict

ADVICE: Dict[str, str] = {
    "SyncBatchNorm": "torch.nn.BatchNorm; paragon.torch.attach averages its running statistics",
    "ProcessSet": "all workers of the job; start a second job by launch for a part of them",
    "add_process_set": "all workers of the job; start a second job by launch for a part of them",
    "remove_process_set": "all workers of the job; start a second job by launch for a part of them",
    "alltoall": "allgather, and take this worker's part",
    "alltoall_async": "allgather, and take this worker's part",
    "reducescatter": "allreduce, and take this worker's part",
    "reducescatter_async": "allreduce, and take this worker's part",
    "grouped_reducescatter": "grouped_allreduce, and take this worker's part",
    "grouped_reducescatter_async": "grouped_allreduce, and take this worker's part",
    "sparse_allreduce_async": "paragon.torch.attach, which sends rows of Embedding(sparse=True)",
    "start_timeline": "launch ctl trace, which shows all processes in one timeline",
    "stop_timeline": "launch ctl trace, which shows all processes in one timeline",
    "run": "launch -n 4 -s 2 -- python train.py",
    "common": "the names of paragon.horovod.torch",
    "spark": "launch",
    "ray": "launch",
    "tensorflow": "paragon.horovod.torch; other frameworks have paragon.kv",
    "keras": "paragon.horovod.torch; other frameworks have paragon.kv",
    "mxnet": "paragon.kv, which has MXNet's names",
}


def attribute(module: str, name: str) -> Any:
    """What a module's __getattr__ does with a name that it does not have.

    Raises NotImplementedError for Horovod's names, AttributeError for others."""
    if name in ADVICE:
        raise NotImplementedError(f"{module}.{name} is not there; use {ADVICE[name]}")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
