"""PyTorch training with workers that come and go.

::

    import paragon.torch as pt
    store = pt.init()
    pt.attach(model, optimizer, store)

After attach each ``.grad`` is the mean over all workers when ``backward()`` returns; the rest of a
training loop stays as it is. What is sent during backward overlaps with it.
"""

from paragon import errors

from ._attach import Attached, attach, attached, no_sync
from ._init import init

__all__ = ["Attached", "attach", "attached", "errors", "init", "no_sync"]
