"""Compression.none and Compression.fp16."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch


class Compressor:
    """How tensors are made smaller before they are sent. ``kind`` is the store's word for it."""

    kind: Optional[str] = None

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        """Returns the tensor to send, and what decompress needs."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        """Returns the tensor in its first type."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        return tensor


class FP16Compressor(Compressor):
    """Rounds floating-point tensors to float16. Gradients of a DistributedOptimizer are sent in 16
    bits; tensors of single calls are rounded only."""

    kind = "fp16"

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        if tensor.is_floating_point():
            return tensor.to(torch.float16), tensor.dtype
        return tensor, tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        return tensor.to(context)


class Compression:
    """The compressions that there are."""

    none = NoneCompressor
    fp16 = FP16Compressor


def kind_of(compression: Any) -> Optional[str]:
    """The store's word for a compression; NotImplementedError for a class of the program's own."""
    kind = getattr(compression, "kind", "")
    if kind not in (None, "fp16"):
        raise NotImplementedError(
            f"compression {compression!r} for gradients; use Compression.none, Compression.fp16, "
            f"or paragon.torch.attach with compression='2bit', '1bit', 'topk' or 'bf16'"
        )
    return kind
