"""Calls from PyTorch's autograd engine: when a parameter's gradient is final, and when a backward
has ended. The ways differ between versions; features are asked for, not versions."""

from __future__ import annotations

import threading
from typing import Any, Callable, List, Optional

import torch

_HAS_POST_ACCUMULATE = hasattr(torch.Tensor, "register_post_accumulate_grad_hook")
_task_id = getattr(torch._C, "_current_graph_task_id", None)


def on_gradient(parameter: torch.Tensor, arrived: Callable[[], None]) -> List[Any]:
    """Call arrived after each backward that has put this parameter's gradient into .grad. Returns
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
    """Call ended once the backward under way has ended. Only a hook may call this."""
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
    """Call back in the outer backward each time that a checkpoint's own one has ended."""
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
    """Call check at the start of each step of the optimizer. Returns what ends that."""
    if hasattr(optimizer, "register_step_pre_hook"):
        return optimizer.register_step_pre_hook(lambda *_: check()).remove
    return _wrap_step(optimizer, check)


def _wrap_step(optimizer: Any, check: Callable[[], None]) -> Callable[[], None]:
    """before_step for torch 1.13: an attribute of the object in front of its class's method. It is
    a bound method, as lr_scheduler asks for, unless a scheduler has wrapped it before."""
    import functools
    import types

    had = "step" in optimizer.__dict__
    before = optimizer.step
    function = getattr(before, "__func__", None)
    if function is not None:

        @functools.wraps(function)
        def bound(self: Any, *args: Any, **kwargs: Any) -> Any:
            check()
            return function(self, *args, **kwargs)

        optimizer.step = types.MethodType(bound, optimizer)
    else:

        @functools.wraps(before)
        def plain(*args: Any, **kwargs: Any) -> Any:
            check()
            return before(*args, **kwargs)

        optimizer.step = plain

    def remove() -> None:
        if had:
            optimizer.step = before
        else:
            optimizer.__dict__.pop("step", None)

    return remove
