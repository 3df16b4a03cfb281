"""The names of ``byteps.torch.parallel``."""

from .._parallel import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
