"""Checkpoints: everything that workers keep alike, with the place in the epoch, in one file.

It is what a worker that joins receives: of all that is attached parameters, buffers, optimizers
and the objects of ``attach(state=...)``. The file is in the format safetensors. Its tensors are
named by numbers; "paragon.checkpoint" of its metadata has the structure in which they are.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Sequence

import torch

from paragon.errors import ConflictError, DamagedError

from . import _safetensors, _share, _state
from ._safetensors import Path

# The structure, in a file's metadata.
_NAME = "paragon.checkpoint"


def write(path: Path, attached: Sequence[Any], position: Dict[str, Any]) -> None:
    """Writes what is attached, and a position as plain data. One worker calls it."""
    tensors: List[torch.Tensor] = []
    items = [
        [item.name, _state.flatten(item.read(), tensors, item.name)] for item in _items(attached)
    ]
    text = json.dumps({"version": 1, "position": position, "items": items})
    _safetensors.write(path, {str(i): t for i, t in enumerate(tensors)}, {_NAME: text})


def read(path: Path, attached: Sequence[Any]) -> Dict[str, Any]:
    """Gives what is attached the state of a checkpoint, and returns the position. Every worker
    calls it, with the same file."""
    tensors, strings = _safetensors.read(path)
    if _NAME not in strings:
        raise DamagedError(
            f"checkpoint {path}: it is no checkpoint of ElasticSampler.save; load reads the files "
            "of save"
        )
    told = json.loads(strings[_NAME])
    items = _items(attached)
    theirs, ours = [name for name, _ in told["items"]], [item.name for item in items]
    if theirs != ours:
        raise ConflictError(
            f"checkpoint {path}: it has {', '.join(theirs) or 'nothing'}, and attached is "
            f"{', '.join(ours) or 'nothing'}; call attach as in the run that wrote it, and before"
        )
    numbered = [tensors[str(i)].clone() for i in range(len(tensors))]
    nodes = [node for _, node in told["items"]]
    # Parameters come to the servers before the state of an optimizer there, which fetches them.
    for last in (False, True):
        for item, node in zip(items, nodes):
            if isinstance(item, _share.OptimizerItem) is last:
                item.write(_state.restore(node, numbered, item.read()))
        for a in attached if not last else ():
            a.loaded()
    return dict(told["position"])


def _items(attached: Sequence[Any]) -> List[_share.Item]:
    """What a file has, the state of optimizers on the servers included."""
    return _share.items_of(attached, servers=True)
