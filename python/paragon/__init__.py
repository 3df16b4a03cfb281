"""Paragon: elastic, fault-tolerant training with parameter servers, for Python.

A program is a worker of the job that ``launch`` started, or a job of its own::

    import paragon

    store = paragon.init()
    print(store.rank, "of", store.num_workers)

:mod:`paragon.kv` has keys and values by MXNet's names, :mod:`paragon.elastic` hands out the
examples of a data set exactly once while workers come and go, and :mod:`paragon.torch` (which
needs torch) attaches a PyTorch model and its optimizer. :mod:`paragon.errors` are the exceptions.

The member of the job is a process of its own, the *bridge*, the program in this wheel. This
package starts it, and talks to it through a socket and shared memory. It starts no thread.
"""

from __future__ import annotations

from . import _process

_process.refuse_subinterpreter()

from . import errors  # noqa: E402
from ._life import current, init  # noqa: E402
from ._store import Declaration, Entry, Plan, Region, Store, Turn  # noqa: E402
from ._version import __version__  # noqa: E402
from .errors import ParagonError  # noqa: E402

__all__ = [
    "Declaration",
    "Entry",
    "ParagonError",
    "Plan",
    "Region",
    "Store",
    "Turn",
    "__version__",
    "current",
    "errors",
    "init",
]
