"""Tensors as float32 values, which is what servers keep, and as bytes.

The values of a float32 tensor may travel as they are. Others go as 16-bit pieces: their bytes two
by two as whole numbers below 65,536, each exact in a float32.
"""

from __future__ import annotations

import numpy
import torch


def is_raw(tensor: torch.Tensor) -> bool:
    """Whether the values of a tensor can travel as the float32 values that they are.

    A server adds the zeros of the other workers to them: −0 would become 0, and values that are not
    finite may be refused. Such tensors, and other types, travel as pieces.
    """
    if tensor.dtype != torch.float32:
        return False
    flat = as_bytes(tensor).view(numpy.float32)
    bits = flat.view(numpy.uint32)
    return bool(numpy.isfinite(flat).all()) and not bool((bits == 0x80000000).any())


def length(tensor_bytes: int, raw: bool) -> int:
    """How many float32 values so many bytes take."""
    return tensor_bytes // 4 if raw else (tensor_bytes + 1) // 2


def values_of(tensor: torch.Tensor, raw: bool) -> numpy.ndarray:
    """The tensor as float32 values: its own, or its bytes two by two as whole numbers."""
    flat = as_bytes(tensor)
    if raw:
        return flat.view(numpy.float32)
    if flat.size % 2:
        flat = numpy.append(flat, numpy.uint8(0))
    return flat.view(numpy.uint16).astype(numpy.float32)


def tensor_of(
    values: numpy.ndarray, shape: list[int], dtype: torch.dtype, raw: bool
) -> torch.Tensor:
    """The tensor, contiguous and on the CPU, of which ``values_of`` made ``values``."""
    out = torch.empty(shape, dtype=dtype)
    into = as_bytes(out)
    if raw:
        into.view(numpy.float32)[:] = values
    else:
        into[:] = values.astype(numpy.uint16).view(numpy.uint8)[: into.size]
    return out


def as_bytes(tensor: torch.Tensor) -> numpy.ndarray:
    """The bytes of a tensor's values in the order of its indices.

    A contiguous tensor on the CPU is shared with the result.
    """
    flat = tensor.detach().cpu()
    if flat.is_conj():
        flat = flat.resolve_conj()
    if flat.is_neg():
        flat = flat.resolve_neg()
    flat = flat.contiguous().reshape(-1)
    if flat.numel() == 0:
        return numpy.empty(0, numpy.uint8)
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    return flat.view(torch.uint8).numpy()
