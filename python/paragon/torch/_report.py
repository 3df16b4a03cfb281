"""What a training loop tells the job of itself, for launch top, the page, metrics and search."""

from __future__ import annotations

from typing import Any, Dict, Optional

import torch

import paragon
from paragon.errors import UsageError

# What was reported of the turn under way. It goes with the request that ends the turn.
_told: Dict[str, Any] = {}
# Whether an ElasticSampler hands out turns in this process.
_turns = False


def report(
    loss: Any = None,
    accuracy: Any = None,
    *,
    epoch: Optional[int] = None,
    examples: Optional[int] = None,
    learning_rate: Any = None,
    gradient_norm: Any = None,
    seconds: Optional[float] = None,
    **measures: Any,
) -> None:
    """Tells the job of a step, or of an evaluation.

    ``report(loss=loss)`` after ``optimizer.step()`` is about that step; the time since the step
    before is measured, unless ``seconds`` is given. With ``accuracy``, or with measures of other
    names, ``loss`` is that of the evaluation::

        pt.report(loss=loss, examples=len(x), learning_rate=opt.param_groups[0]["lr"])
        pt.report(loss=test_loss, accuracy=right / total, f1=f1)

    Values are numbers, or tensors of one element. In a turn of ``ElasticSampler`` the report of a
    step is sent with the turn's end, and costs no message."""
    step: Dict[str, Any] = {
        "epoch": epoch,
        "examples": examples,
        "seconds": seconds,
        "learning_rate": _number("learning_rate", learning_rate),
        "gradient_norm": _number("gradient_norm", gradient_norm),
    }
    told: Dict[str, Any] = {}
    if accuracy is None and not measures:
        step["loss"] = _number("loss", loss)
        told["step"] = step
    else:
        scores = {k: _number(k, v) for k, v in measures.items()}
        evaluation = {
            "loss": _number("loss", loss),
            "accuracy": _number("accuracy", accuracy),
            "others": scores,
        }
        told["evaluation"] = {k: v for k, v in evaluation.items() if v not in (None, {})}
        if any(v is not None for v in step.values()):
            told["step"] = step
    if "step" in told:
        told["step"] = {k: v for k, v in step.items() if v is not None}
        if _turns:
            _told.update(told.pop("step"))
    if told:
        (paragon.current() or paragon.init()).report(**told)


def begin_turns() -> None:
    """From now on steps are reported with their turns."""
    global _turns
    _turns = True


def take_step() -> Dict[str, Any]:
    """What was reported of the turn that ends."""
    step = dict(_told)
    _told.clear()
    return step


def _number(name: str, value: Any) -> Optional[float]:
    """The number of a value that may be a tensor of one element."""
    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        # A loss still has its graph, of which float warns.
        value = value.detach()
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError) as err:
        raise UsageError(
            f"report: {name}: {err}: want a number, or a tensor of one element"
        ) from err
