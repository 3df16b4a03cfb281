"""The store of this process."""

from __future__ import annotations

import paragon
from paragon._store import Store


def init(store: str = "dist_sync", timeout: float = 300.0) -> Store:
    """Joins the job that ``launch`` has started this process for, and returns its store. Without
    ``launch`` it is a job of one worker, and the log says so. A second call returns the same store.

    ``store`` is "dist_sync", the kind in which every worker's gradients are in each step's mean.
    ``timeout`` is how long a call waits for other workers, in seconds."""
    return paragon.init(store=store, timeout=timeout)
