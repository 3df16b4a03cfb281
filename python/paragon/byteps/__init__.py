"""BytePS's names over Paragon: a program changes its import line.

::

    import paragon.byteps.torch as bps      # was: import byteps.torch as bps

    bps.init()
    optimizer = bps.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    bps.broadcast_parameters(model.state_dict(), root_rank=0)
    bps.broadcast_optimizer_state(optimizer, root_rank=0)

``launch -n 4 -s 2 -- python train.py`` starts scheduler, servers and workers; DMLC_* and bpslaunch
are not needed. ``import paragon.byteps as bps`` has the same names. What differs is what
:mod:`paragon.horovod` says, and:

- Keys are by name, so the order of ``declare`` does not matter.
- ``broadcast_parameters`` changes no tensor before root's values have come.
- ``DistributedDataParallel`` runs on the CPU, too, and needs no ``synchronize()``.

Names of BytePS that are not here raise NotImplementedError, which says what to use.
"""

from __future__ import annotations

from typing import Any

from . import _missing
from .torch import *  # noqa: F401, F403
from .torch import __all__  # noqa: F401


def __getattr__(name: str) -> Any:
    return _missing.attribute("paragon.byteps", name)
