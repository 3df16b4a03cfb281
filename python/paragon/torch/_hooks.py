"""Calls from PyTorch's autograd engine: when a parameter's gradient is final, and when a backward
has ended. The ways differ between versions; features are asked for, not versions."""

from __future__ import annotations

import functools
import threading
import types
from typing import Any, Callable, List, Optional

import torch

_HAS_POST_ACCUMULATE = hasattr(torch.Tensor, "register_post_accumulate_grad_hook")
_task_id = getattr(torch._C, "_current_graph_task_id", None)


def on_gradient(parameter: torch.Tensor, arrived: Callable[[], None]) -> List[Any]:
    """Calls arrived after each backward that has put this parameter's gradient into .grad. Returns
    what must stay alive for that; remove() of the first ends it."""
    if _HAS_POST_ACCUMULATE:

        def hook(_: torch.Tensor) -> None:
            arrived()

        # Dynamo does not look into a function with this mark.
        hook._torchdynamo_disable = True  # type: ignore[attr-defined]
        return [parameter.register_post_accumulate_grad_hook(hook)]
    with torch.enable_grad():
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    # The tensor holds its node weakly, so the node is kept with the hook.
    return [node.register_hook(lambda *_: arrived()), node]


def after_backward(ended: Callable[[], None]) -> None:
    """Calls ended once the backward under way has ended. Only a hook may call this."""
    torch.autograd.Variable._execution_engine.queue_callback(ended)


def backward_number() -> Optional[int]:
    """A number that tells one backward from another; None where torch (before 2.1) has none."""
    return _task_id() if _task_id is not None else None


class _Nesting(threading.local):
    depth = 0


_nesting = _Nesting()
_outer: List[Callable[[], None]] = []


def nested() -> bool:
    """Whether this backward runs inside another one: torch.utils.checkpoint with
    use_reentrant=True computes a part of the model again, and goes backward through it, inside a
    node of the outer backward."""
    return _nesting.depth > 0


def watch_nesting(back: Callable[[], None]) -> None:
    """Calls back in the outer backward each time that a checkpoint's own one has ended."""
    _outer.append(back)
    _wrap_checkpoint()


def unwatch_nesting(back: Callable[[], None]) -> None:
    """The end of watch_nesting."""
    _outer.remove(back)


def _wrap_checkpoint() -> None:
    from torch.utils.checkpoint import CheckpointFunction

    original = CheckpointFunction.backward
    if getattr(original, "_paragon", False):
        return

    def backward(ctx: Any, *args: Any) -> Any:
        _nesting.depth += 1
        try:
            result = original(ctx, *args)
        finally:
            _nesting.depth -= 1
        if _nesting.depth == 0:
            for back in list(_outer):
                back()
        return result

    backward._paragon = True  # type: ignore[attr-defined]
    CheckpointFunction.backward = staticmethod(backward)


def before_step(optimizer: Any, check: Callable[[], None]) -> Callable[[], None]:
    """Calls check at the start of each step of the optimizer. Returns what ends that."""
    if hasattr(optimizer, "register_step_pre_hook"):
        return optimizer.register_step_pre_hook(lambda *_: check()).remove

    def checked(before: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        check()
        return before(*args, **kwargs)

    # torch 1.13 has no such hooks.
    return replace(optimizer, "step", checked)


def replace(optimizer: Any, name: str, by: Callable[..., Any]) -> Callable[[], None]:
    """Puts a method in front of the optimizer's own, which it gets as its first argument. Returns
    what undoes that. It is a bound method with the old one's attributes, as schedulers ask for."""
    had = optimizer.__dict__.get(name)
    before = getattr(optimizer, name)
    function = getattr(before, "__func__", before)

    @functools.wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return by(before, *args, **kwargs)

    setattr(optimizer, name, types.MethodType(method, optimizer))

    def undo() -> None:
        if had is None:
            optimizer.__dict__.pop(name, None)
        else:
            setattr(optimizer, name, had)

    return undo
