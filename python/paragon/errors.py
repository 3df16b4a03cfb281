"""What can go wrong, one class for each kind.

Every error says in its text what happened to which object and what to do, and has fields for
programs::

    try:
        store.wait(number)
    except paragon.errors.SizeError as e:
        print(e.key, e.worker, e.seconds)

The classes from :class:`UnknownKeyError` to :class:`InternalError` may be answers of the job, or be
found before it is asked; :class:`BridgeError` and :class:`ForkError` are about this process.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Type

__all__ = [
    "ParagonError",
    "UnknownKeyError",
    "DuplicateInitError",
    "SizeError",
    "StaleGenerationError",
    "ClosedError",
    "UnavailableError",
    "ConflictError",
    "UnsupportedError",
    "TableFullError",
    "NotFiniteError",
    "RemovedError",
    "FinishedError",
    "LostError",
    "NeededError",
    "DamagedError",
    "UsageError",
    "ProtocolError",
    "CancelledError",
    "InternalError",
    "BridgeError",
    "ForkError",
]


class ParagonError(Exception):
    """The base of all errors of this package."""

    key: Optional[str]
    """The key that the call was about; None: it was about no single key."""
    worker: Optional[int]
    """The rank of the worker that the error is about; None: it has none, as before a join."""
    seconds: Optional[float]
    """How long the call had been waited for; None: it did not wait."""
    final: bool
    """True: starting the job again would end in the same error."""

    def __init__(
        self,
        text: str,
        *,
        key: Optional[str] = None,
        worker: Optional[int] = None,
        seconds: Optional[float] = None,
        final: bool = False,
    ) -> None:
        super().__init__(text)
        self.key = key
        self.worker = worker
        self.seconds = seconds
        self.final = final

    def __str__(self) -> str:
        text = super().__str__()
        where = []
        if self.key is not None and f"key {self.key}" not in text and f'"{self.key}"' not in text:
            where.append(f"key {self.key}")
        if self.worker is not None:
            where.append(f"worker {self.worker}")
        if self.seconds is not None:
            where.append(f"after {self.seconds:.1f} s")
        return f"{text} ({', '.join(where)})" if where else text

    def __reduce__(self) -> Any:
        fields = {n: getattr(self, n) for n in ("key", "worker", "seconds", "final")}
        return _unpickled, (type(self), self.args[0], fields)


def _unpickled(cls: Type[ParagonError], text: str, fields: Dict[str, Any]) -> ParagonError:
    return cls(text, **fields)


class UnknownKeyError(ParagonError, LookupError):
    """The key was never initialised."""


class DuplicateInitError(ParagonError):
    """This worker has initialised the key already."""


class SizeError(ParagonError, ValueError):
    """The value has another number of values than the key, or than on another worker."""


class StaleGenerationError(ParagonError):
    """The job's membership has changed, and this worker is no longer part of it."""


class ClosedError(ParagonError):
    """The store is closed: by ``close``, by ``abort``, or by the end of the process."""


class UnavailableError(ParagonError):
    """The job failed or ended, or a node could not be reached in time."""


class ConflictError(ParagonError):
    """Workers gave different arguments for what must be the same on all."""


class UnsupportedError(ParagonError):
    """What was asked for does not exist in this kind of store. The text says what does."""


class TableFullError(ParagonError):
    """A table of rows, or its server's memory, has no room for more rows."""


class NotFiniteError(ParagonError, ArithmeticError):
    """A gradient has a NaN or an infinity, which its compression cannot encode.

    Nothing was pushed."""


class RemovedError(ParagonError):
    """This worker was asked to leave, and has left. It is no failure of the job."""


class FinishedError(ParagonError):
    """The job ended in order before this worker counted."""


class LostError(ParagonError):
    """The job declared this worker lost."""


class NeededError(ParagonError):
    """The worker may not leave: the job needs it."""


class DamagedError(ParagonError):
    """A file of a model or a checkpoint is cut off, or does not agree with its checksums."""


class UsageError(ParagonError, ValueError):
    """An argument has a type or a value that the call does not take; the text says what it does."""


class ProtocolError(ParagonError):
    """Python's side and the bridge do not understand each other, such as by other versions."""


class CancelledError(ParagonError):
    """The request was ended before it had an answer."""


class InternalError(ParagonError):
    """An error that has no class of its own. Its text says what happened."""


class BridgeError(ParagonError):
    """The bridge process did not start, or has ended. It says how, with its last lines."""

    status: Optional[int]
    """The exit status, negative for a signal; None: it is not known."""

    def __init__(self, text: str, *, status: Optional[int] = None, **fields: Any) -> None:
        super().__init__(text, **fields)
        self.status = status


class ForkError(ParagonError):
    """A process used the store of its parent. Only the process that made it may use it."""
