"""Plain data as one JSON text and a list of tensors.

A worker that joins gets what ``state_dict`` of the others' objects returns. No code travels, so
this is not pickle: ``flatten`` knows plain data and refuses everything else by its place and type.

=============================================  ==============================================
kept exactly                                   how
=============================================  ==============================================
None, bool, int, float, str, list              as in JSON (floats by their shortest repr)
tuple, dict, OrderedDict, Counter, deque,      an object with one tag
set, frozenset, bytes, complex, torch.Size,
torch.dtype, torch.device
numpy scalars and arrays of numbers            their type's name and bytes
tensors                                        their place in the list
functions and methods                          a mark: the receiver keeps its own
=============================================  ==============================================
"""

from __future__ import annotations

import base64
import collections
import types
from typing import Any, Callable

import numpy
import torch

# Functions are code. An object that was made by the same program on the receiver has the same ones.
_CODE = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)

_CONTAINERS: dict[type, str] = {
    tuple: "tuple",
    torch.Size: "size",
    set: "set",
    frozenset: "frozenset",
    dict: "dict",
    collections.OrderedDict: "ordered",
    collections.Counter: "counter",
}


class UnknownType(TypeError):
    """A value that is no plain data: its place, its type and what to do."""


def flatten(value: Any, tensors: list[torch.Tensor], where: str) -> Any:
    """Returns ``value`` as JSON can write it, and appends its tensors to ``tensors``.

    ``where`` names the value in errors, such as ``state["scheduler"]``. ``UnknownType`` is raised
    for what is no plain data.
    """
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [flatten(x, tensors, f"{where}[{i}]") for i, x in enumerate(value)]
    if isinstance(value, torch.Tensor):
        tensors.append(checked(value, where))
        return {"tensor": len(tensors) - 1}
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return _flatten_numpy(value, where)
    if isinstance(value, _CODE):
        return {"own": True}
    if kind in (tuple, torch.Size):
        return {
            _CONTAINERS[kind]: [flatten(x, tensors, f"{where}[{i}]") for i, x in enumerate(value)]
        }
    if kind in (set, frozenset):
        return {_CONTAINERS[kind]: [flatten(x, tensors, f"a member of {where}") for x in value]}
    if kind in _CONTAINERS:
        pairs = [
            [flatten(k, tensors, f"a key of {where}"), flatten(x, tensors, f"{where}[{k!r}]")]
            for k, x in value.items()
        ]
        return {_CONTAINERS[kind]: pairs}
    if kind is collections.deque:
        items = [flatten(x, tensors, f"{where}[{i}]") for i, x in enumerate(value)]
        return {"deque": items, "most": value.maxlen}
    if kind is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    if kind is torch.dtype:
        return {"dtype": str(value).rpartition(".")[2]}
    if kind is torch.device:
        return {"device": str(value)}
    raise UnknownType(
        f"{where} is a {kind.__module__}.{kind.__qualname__}, which is no plain data and "
        "cannot be sent to workers that join; leave it out of state_dict(), or return numbers, "
        "texts, lists, dicts and tensors for it"
    )


def checked(tensor: torch.Tensor, where: str) -> torch.Tensor:
    """Returns the tensor if its values can be copied byte by byte; ``UnknownType`` else."""
    what = None
    if tensor.is_quantized:
        what = "quantized"
    elif tensor.layout != torch.strided:
        what = f"of layout {tensor.layout}"
    elif tensor.device.type == "meta":
        what = "on the device meta, without values"
    if what:
        raise UnknownType(
            f"{where} is a tensor that is {what}, and cannot be sent to workers that "
            "join; want a dense tensor"
        )
    return tensor.detach()


def restore(node: Any, tensors: list[torch.Tensor], own: Any = None) -> Any:
    """Returns the value of which ``flatten`` made ``node``.

    ``own`` is the receiver's value at the same place: functions are taken from it.
    """
    if isinstance(node, list):
        return [restore(x, tensors, _at(own, i)) for i, x in enumerate(node)]
    if not isinstance(node, dict):
        return node
    tag, data = next(iter(node.items()))
    return _restorers[tag](node, data, tensors, own)


def _at(own: Any, place: Any) -> Any:
    """The receiver's value at a place of one of its containers; None: it has none."""
    try:
        return own[place]
    except (TypeError, KeyError, IndexError):
        return None


def _items(data: list[Any], tensors: list[torch.Tensor], own: Any) -> list[Any]:
    return [restore(x, tensors, _at(own, i)) for i, x in enumerate(data)]


def _pairs(data: list[Any], tensors: list[torch.Tensor], own: Any) -> list[tuple[Any, Any]]:
    keys = [restore(k, tensors) for k, _ in data]
    return [(k, restore(x, tensors, _at(own, k))) for k, (_, x) in zip(keys, data)]


_Restorer = Callable[[Any, Any, "list[torch.Tensor]", Any], Any]

_restorers: dict[str, _Restorer] = {
    "tensor": lambda node, data, tensors, own: tensors[data],
    "own": lambda node, data, tensors, own: own,
    "tuple": lambda node, data, tensors, own: tuple(_items(data, tensors, own)),
    "size": lambda node, data, tensors, own: torch.Size(data),
    "set": lambda node, data, tensors, own: set(_items(data, tensors, None)),
    "frozenset": lambda node, data, tensors, own: frozenset(_items(data, tensors, None)),
    "dict": lambda node, data, tensors, own: dict(_pairs(data, tensors, own)),
    "ordered": lambda node, data, tensors, own: collections.OrderedDict(_pairs(data, tensors, own)),
    "counter": lambda node, data, tensors, own: collections.Counter(
        dict(_pairs(data, tensors, own))
    ),
    "deque": lambda node, data, tensors, own: collections.deque(
        _items(data, tensors, own), node["most"]
    ),
    "bytes": lambda node, data, tensors, own: base64.b64decode(data),
    "complex": lambda node, data, tensors, own: complex(*data),
    "dtype": lambda node, data, tensors, own: getattr(torch, data),
    "device": lambda node, data, tensors, own: torch.device(data),
    "numpy": lambda node, data, tensors, own: _restore_numpy(node, data),
}


def _flatten_numpy(value: Any, where: str) -> Any:
    if value.dtype.hasobject or value.dtype.names:
        raise UnknownType(
            f"{where} is a numpy value of type {value.dtype}, which is no plain data and "
            "cannot be sent to workers that join; want numbers"
        )
    # Scalars have the shape null, which no array has.
    shape = list(value.shape) if isinstance(value, numpy.ndarray) else None
    return {
        "numpy": base64.b64encode(value.tobytes()).decode(),
        "type": value.dtype.str,
        "shape": shape,
    }


def _restore_numpy(node: Any, data: str) -> Any:
    values = numpy.frombuffer(base64.b64decode(data), numpy.dtype(node["type"]))
    return values[0] if node["shape"] is None else values.reshape(node["shape"]).copy()
