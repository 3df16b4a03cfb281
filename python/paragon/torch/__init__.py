"""PyTorch training with workers that come and go.

::

    import paragon.torch as pt
    store = pt.init()
    pt.attach(model, optimizer, store)
    batches = pt.ElasticSampler(len(dataset), batch_size=64, seed=1)
    for epoch in batches.epochs(10):
        for x, y in batches.batches(DataLoader(dataset, batch_sampler=batches)):
            ...

After attach each ``.grad`` is the mean over all workers when ``backward()`` returns; the rest of a
training loop stays as it is. What is sent during backward overlaps with it.
"""

from paragon import errors

from ._attach import Attached, attach, attached, no_sync
from ._files import load, save
from ._init import init
from ._reduce import all_reduce
from ._report import report
from ._sampler import ElasticSampler, Index, RemovedExit, StoppedExit, example_seed

__all__ = [
    "Attached",
    "ElasticSampler",
    "Index",
    "RemovedExit",
    "StoppedExit",
    "all_reduce",
    "attach",
    "attached",
    "errors",
    "example_seed",
    "init",
    "load",
    "no_sync",
    "report",
    "save",
]
