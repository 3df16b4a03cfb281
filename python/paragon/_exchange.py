"""Exchanges: gradients to the servers and new values back, one packet for many keys."""

from __future__ import annotations

import struct
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Deque, Dict, List, Optional, Sequence, Set, Tuple

from ._errors import exception
from ._memory import Region
from .errors import ParagonError, UsageError

if TYPE_CHECKING:
    from ._bridge import Bridge

WORDS = 1024
"""The number of completion words: exchange n has word n mod WORDS."""

MAX_UNDER_WAY = 500
"""The most exchanges under way at a time; a further one waits.

The bridge's own limit is 512: there is always room for one that asks when the others have ended."""

_PACKET = struct.Struct("<cB2xIQIIfId8x")
_ANSWER, _PUSH_ONLY = 1, 2
_FAILED, _READ_FIRST = 2, 3
# After so many answers that nobody waited for, those in the socket are read.
_MAX_UNREAD = 64


@dataclass(frozen=True)
class Entry:
    """One key of a plan.

    The gradient is in slot ``grad_slot`` of ``region``, and the new value comes into slot
    ``out_slot`` of it, which may be the same."""

    key: str
    region: Region
    grad_slot: int
    out_slot: int


class Plan:
    """A list of entries that are exchanged again and again, any run of them at a time.

    Made by :meth:`Store.plan`. Whoever starts an exchange leaves its gradients' slots alone until
    it has ended: the exchange owns them. A plan that nobody has any more is dropped with its last
    exchange."""

    def __init__(self, exchanges: "Exchanges", number: int, size: int) -> None:
        self.id = number
        self._exchanges = exchanges
        self._size = size
        exchanges.bridge.watch(self, "drop_plan", "plan", number)

    def __len__(self) -> int:
        return self._size

    def exchange(
        self,
        first: int = 0,
        count: Optional[int] = None,
        weight: float = 1.0,
        examples: int = 0,
        answer: bool = False,
        push_only: bool = False,
        factor: float = 0.0,
    ) -> int:
        """Starts an exchange of ``count`` entries from ``first`` on (None: all that follow).

        Returns its number for ``Store.wait`` and ``Store.done`` at once. ``weight`` is that of the
        contribution in a mean, and ``examples`` how many examples it counts for; the gradient in
        the slot is already multiplied by the weight. ``answer`` says that ``wait`` for this
        exchange will be called, as for the last one of a step: it saves a trip. With ``push_only``
        no new values come back. ``factor`` multiplies the learning rate of the servers' optimizer
        in this round alone, the same on every worker; 0 is 1. More than 500 exchanges under way are
        waited for."""
        if count is None:
            count = self._size - first
        if first < 0 or count < 0 or first + count > self._size:
            raise UsageError(
                f"paragon: exchange of {count} entries from {first} on: the plan has {self._size}"
            )
        flags = (_ANSWER if answer else 0) | (_PUSH_ONLY if push_only else 0)
        return self._exchanges.start(self.id, flags, first, count, weight, examples, factor)

    def drop(self) -> None:
        """Forgets the plan, so that its regions can be freed. All its exchanges have ended."""
        self._exchanges.bridge.request("drop_plan", {"plan": self.id})
        self._exchanges.bridge.unwatch("drop_plan", self.id)


class Exchanges:
    """The exchanges of one bridge, by number."""

    def __init__(self, bridge: "Bridge", words: Region) -> None:
        self.bridge = bridge
        self._region = words
        self._words = words.raw(0, "u8").data
        self._packet = bytearray(_PACKET.size)
        # _sent has the newest exchange: what send returned, and its number.
        self._sent: Deque[Tuple[int, int]] = deque([(0, 0)], maxlen=1)
        # All exchanges up to _ended have ended. The socket has been read since those up to _noted
        # ended, so what their notes say is known.
        self._ended = self._noted = 0
        # _answered is the newest exchange that asks for an answer, or an earlier one if a signal
        # came before it was set. _unread is how many answers were not read yet.
        self._answered = 0
        self._unread = 0
        # _unexplained are exchanges that failed, whose error has not come yet, and _explained those
        # whose error came before their word was read.
        self._unexplained: List[int] = []
        self._explained: Set[int] = set()
        # _failures are the errors that wait to be raised, and _raised the exchanges whose error
        # was raised before an answer repeats it.
        self._failures: Dict[int, Dict[str, Any]] = {}
        self._raised: Set[int] = set()
        bridge.exchanged = self._exchanged
        bridge.failed = self._failed

    def start(
        self,
        plan: int,
        flags: int,
        first: int,
        count: int,
        weight: float,
        examples: int,
        factor: float = 0.0,
    ) -> int:
        """Starts an exchange, and returns its number: see :meth:`Plan.exchange`."""
        self.bridge.check_process()
        while self.last - self._ended >= MAX_UNDER_WAY:
            self._await(self.last - MAX_UNDER_WAY + 1)
        return self._send(plan, flags, first, count, weight, examples, factor)

    def _send(
        self,
        plan: int,
        flags: int,
        first: int,
        count: int,
        weight: float,
        examples: int,
        factor: float,
    ) -> int:
        with self.bridge.lock:
            number = self.last + 1
            _PACKET.pack_into(
                self._packet, 0, b"X", flags, plan, number, first, count, weight, examples, factor
            )
            self.bridge.send_numbered(self._packet, number, self._sent)
            if flags & _ANSWER:
                self._answered = number
                self._unread += 1
        return number

    @property
    def last(self) -> int:
        """The number of the newest exchange."""
        return self._sent[0][1]

    def done(self, number: int) -> bool:
        """Whether exchange ``number`` and all before it have ended, well or not."""
        self.bridge.check_process()
        if number <= self._ended:
            return True
        with self.bridge.lock:
            asks = self._advance()
        if asks:
            self._read_notes(asks)
            return self.done(number)
        self._tidy()
        return number <= self._ended

    def wait(self, number: int) -> None:
        """Returns when exchange ``number`` and all before it have ended.

        Raises the first error of those, once."""
        self.bridge.check_process()
        if number > self.last:
            raise UsageError(f"paragon: wait for exchange {number}: the newest is {self.last}")
        started = time.monotonic()
        self._await(number)
        if self._failures:
            error = self._failure(number, time.monotonic() - started)
            if error is not None:
                raise error

    def _await(self, number: int) -> None:
        while True:
            with self.bridge.lock:
                asks = self._advance()
                if self._is_over(number):
                    break
            if asks:
                self._read_notes(asks)
                continue
            if self._answered < number or self._unread == 0:
                # An exchange of nothing, behind all others, is answered when they have ended.
                self._send(0, _ANSWER, 0, 0, 0.0, 0, 0.0)
            self.bridge.wait_until(lambda: self._is_ready(number), f"exchange {number}")
        self._tidy()

    def _is_over(self, number: int) -> bool:
        if self._ended < number:
            return False
        return not self._unexplained or min(self._unexplained) > number

    def _is_ready(self, number: int) -> bool:
        return bool(self._advance()) or self._is_over(number)

    def _advance(self) -> int:
        """Reads the words of the next exchanges.

        Returns the number of one that asks to read the socket first; 0: none does."""
        words, n, last = self._words, self._ended, self.last
        while n < last:
            word = words[(n + 1) % WORDS]
            state = word & 3
            if word >> 2 != n + 1 or state == 0:
                break
            if state == _READ_FIRST and n + 1 > self._noted:
                self._ended = n
                return n + 1
            n += 1
            if state == _FAILED and n not in self._explained:
                self._unexplained.append(n)
            self._explained.discard(n)
        self._ended = n
        return 0

    def _read_notes(self, number: int) -> None:
        """Reads what the bridge sent before it wrote the word of exchange ``number``."""
        # Packets keep their order, so the answer of a request comes behind the note.
        self.bridge.request("state", {})
        self._noted = max(self._noted, number)

    def _exchanged(self, number: int, state: int, error: Optional[Dict[str, Any]]) -> None:
        """Takes the answer of an exchange: it and all before it have ended."""
        self._unread = max(0, self._unread - 1)
        # What came before the answer has been read.
        self._noted = max(self._noted, number)
        self._advance()
        if error is not None:
            failed = error.get("number") or min(self._unexplained, default=number)
            if failed not in self._raised:
                self._failures.setdefault(int(failed), error)
        self._raised = {n for n in self._raised if n > number}
        self._ended = max(self._ended, number)
        self._unexplained = [n for n in self._unexplained if n > number]
        self._explained = {n for n in self._explained if n > number}

    def _failed(self, number: int, error: Dict[str, Any]) -> None:
        """Takes the error of an exchange that is not answered."""
        self._unexplained = [n for n in self._unexplained if n != number]
        if number > self._ended:
            self._explained.add(number)
        self._failures.setdefault(number, error)

    def _failure(self, number: int, seconds: float) -> Optional[ParagonError]:
        """Returns the first error up to exchange ``number``, and forgets these errors."""
        with self.bridge.lock:
            past = sorted(n for n in self._failures if n <= number)
            errors = [self._failures.pop(n) for n in past]
            self._raised.update(past)
        return exception(errors[0], self.bridge.rank, seconds) if errors else None

    def _tidy(self) -> None:
        if self._unread > _MAX_UNREAD:
            self.bridge.drain()


def json_entries(entries: Sequence[Entry]) -> List[Dict[str, Any]]:
    """Returns the entries as the protocol has them."""
    return [
        {"key": e.key, "region": e.region.id, "grad": e.grad_slot, "out": e.out_slot}
        for e in entries
    ]
