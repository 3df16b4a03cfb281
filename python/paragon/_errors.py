"""From an error of the protocol to an exception."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Type

from . import errors

CLASSES: Dict[str, Type[errors.ParagonError]] = {
    "UnknownKey": errors.UnknownKeyError,
    "DuplicateInit": errors.DuplicateInitError,
    "Size": errors.SizeError,
    "StaleGeneration": errors.StaleGenerationError,
    "Closed": errors.ClosedError,
    "Unavailable": errors.UnavailableError,
    "Conflict": errors.ConflictError,
    "Unsupported": errors.UnsupportedError,
    "Full": errors.TableFullError,
    "NotFinite": errors.NotFiniteError,
    "Removed": errors.RemovedError,
    "Finished": errors.FinishedError,
    "Lost": errors.LostError,
    "Needed": errors.NeededError,
    "Damaged": errors.DamagedError,
    "Usage": errors.UsageError,
    "Protocol": errors.ProtocolError,
    "Cancelled": errors.CancelledError,
    "Internal": errors.InternalError,
}


def exception(
    error: Mapping[str, Any], worker: Optional[int] = None, seconds: Optional[float] = None
) -> errors.ParagonError:
    """Returns the exception for an ``error`` object of the protocol.

    ``worker`` is this worker's rank, for an error that names no other, and ``seconds`` how long
    the call had been waited for. A class that this version does not know is InternalError."""
    cls = CLASSES.get(error.get("class", ""), errors.InternalError)
    return cls(
        str(error.get("text", "an error without a text")),
        key=error.get("key") or None,
        worker=error.get("worker", worker),
        seconds=error.get("seconds", seconds),
        final=bool(error.get("final", False)),
    )
