"""The names of ``horovod.torch.elastic``: see :mod:`paragon.horovod.elastic`."""

from ..elastic import ElasticSampler, TorchState, run

__all__ = ["ElasticSampler", "TorchState", "run"]
