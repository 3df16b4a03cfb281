"""Horovod's names over Paragon: a program changes its import line.

::

    import paragon.horovod.torch as hvd      # was: import horovod.torch as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

It is started by ``launch -n 4 -s 2 -- python train.py`` in place of horovodrun. ``import
paragon.horovod as hvd`` has the same names. What differs:

- Each ``.grad`` is combined when ``backward()`` returns, so clipping and GradScaler are right
  without ``synchronize()`` and ``skip_synchronize()``, which may stay as they are in programs.
- ``DistributedOptimizer`` returns the optimizer that it is given, with its state and its class.
- A parameter that no worker used has the gradient None, so that Adam does not move it.
- Broadcasts, gathers and sums of other types than float32, float16 and bfloat16 are done when the
  call returns, also where its name has async; all workers make them in the same order.

Names of Horovod that are not here raise NotImplementedError, which says what to use.
"""

from __future__ import annotations

from typing import Any

from . import _missing
from .torch import *  # noqa: F401, F403
from .torch import __all__  # noqa: F401


def __getattr__(name: str) -> Any:
    return _missing.attribute("paragon.horovod", name)
