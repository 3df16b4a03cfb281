"""Bytes of every worker for every worker, exact, over keys of the store.

A store sums float32 values. Bytes travel in it as 16-bit pieces: whole numbers from 0 to 65535,
each in one float32 value. In a round every worker writes its pieces where nobody else does, and
zeros elsewhere; the mean times the number of workers is each worker's piece again, exactly, since
what rounding adds is far below 1/2. So every type arrives bit for bit.

All workers make the same calls in the same order. Each call says what it is; if two workers are
not in the same call, all of them raise the same error, which names both calls.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Dict, List, Tuple

import numpy as np

if TYPE_CHECKING:
    from paragon._store import Store

# LENGTHS are the numbers of values of the keys: a message goes through the shortest that holds
# it, and through the longest in parts.
LENGTHS = (1 << 10, 1 << 16, 1 << 20)

# IN_FLIGHT is how many parts of one message are under way at a time.
IN_FLIGHT = 3

# A header is 16 bytes of a digest of what the call is, 8 bytes of the payload's length, and the
# payload itself if it has at most INLINE bytes.
DIGEST, INLINE = 16, 64
HEADER_PIECES = (DIGEST + 8 + INLINE) // 2

# SHOWN is how many characters before and behind a difference an error shows.
SHOWN = 150


class Disagreement(RuntimeError):
    """Workers are in different calls, or gave tensors that do not fit together."""


class WorkerMissing(RuntimeError):
    """A worker was lost while a call was under way, and its part of the call with it."""


class Stream:
    """The calls of all workers in their common order."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lanes: Dict[int, List[_Lane]] = {}
        # The workers and this one's rank, as they were when the call under way began.
        self._workers, self._rank = 1, 0

    def gather(self, what: str, payload: np.ndarray) -> List[np.ndarray]:
        """Returns every worker's payload, by rank.

        Args:
            what: says what the call is, such as "broadcast of 'fc.weight' (10×50 float32) from
                worker 0". It is the same on all workers.
            payload: bytes (uint8, one dimension). Its length may differ by worker.

        Raises:
            Disagreement: another worker is in another call.
            WorkerMissing: a worker was lost meanwhile.
        """
        self._workers, self._rank = self._store.num_workers, self._store.rank
        if self._workers == 1:
            return [payload.copy()]
        headers = self._exchange([HEADER_PIECES] * self._workers, _header(what, payload))
        digests = [h[: DIGEST // 2].tobytes() for h in headers]
        if len(set(digests)) > 1:
            self._disagree(what)
        lengths = [int(h[DIGEST // 2 : DIGEST // 2 + 4].view(np.uint64)[0]) for h in headers]
        if max(lengths) <= INLINE:
            return [h[-INLINE // 2 :].view(np.uint8)[:n] for h, n in zip(headers, lengths)]
        pieces = self._exchange([(n + 1) // 2 for n in lengths], _pieces(payload))
        return [p.view(np.uint8)[:n] for p, n in zip(pieces, lengths)]

    def _disagree(self, what: str) -> None:
        """Raises the error that names two workers' different calls. All workers come here."""
        text = _pieces(np.frombuffer(what.encode(), np.uint8))
        length = np.array([len(text)], np.uint32).view(np.uint16)
        lengths = [int(n.view(np.uint32)[0]) for n in self._exchange([2] * self._workers, length)]
        parts = self._exchange(lengths, text)
        calls = [p.tobytes().rstrip(b"\0").decode() for p in parts]
        other = next(r for r, call in enumerate(calls) if call != calls[0])
        mine, theirs = _around_difference(calls[0], calls[other])
        raise Disagreement(
            f"workers make different calls: worker 0 makes {mine}, worker {other} makes {theirs}; "
            f"make the same calls in the same order on every worker"
        )

    def _exchange(self, counts: List[int], mine: np.ndarray) -> List[np.ndarray]:
        """Returns the pieces of each worker, of which counts says how many there are."""
        starts = np.concatenate([[0], np.cumsum(counts)])
        total, first = int(starts[-1]), int(starts[self._rank])
        everything = np.zeros(total, np.uint16)
        length = next((n for n in LENGTHS if total <= self._room(n)), LENGTHS[-1])
        lanes, room = self._lanes_of(length), self._room(length)
        waiting = []
        for part, begin in enumerate(range(0, total, room)):
            lane = lanes[part % IN_FLIGHT]
            if len(waiting) == IN_FLIGHT:
                self._receive(*waiting.pop(0), everything)
            end = min(begin + room, total)
            number = self._send(lane, begin, end, first, mine)
            waiting.append((lane, number, begin, end))
        for sent in waiting:
            self._receive(*sent, everything)
        return [everything[a:b] for a, b in zip(starts[:-1], starts[1:])]

    def _marks(self) -> int:
        """The number of values before the pieces: a scale, and a bit of each worker."""
        return 1 + (self._workers + 15) // 16

    def _room(self, length: int) -> int:
        return length - self._marks()

    def _send(self, lane: _Lane, begin: int, end: int, first: int, mine: np.ndarray) -> int:
        """Starts the round of pieces [begin, end), of which mine are those from first on."""
        rank, marks = self._rank, self._marks()
        values = lane.region.slot(0)
        values[:] = 0
        # The mean of 1 from worker 0 and 0 from the others says how many there were.
        values[0] = 1 if rank == 0 else 0
        values[1 + rank // 16] = 1 << rank % 16
        low, high = max(begin, first), min(end, first + len(mine))
        if low < high:
            values[marks + low - begin : marks + high - begin] = mine[low - first : high - first]
        return lane.plan.exchange(weight=1.0, answer=True)

    def _receive(
        self, lane: _Lane, number: int, begin: int, end: int, everything: np.ndarray
    ) -> None:
        self._store.wait(number)
        marks = self._marks()
        values = lane.region.slot(1)[: marks + end - begin]
        workers = 1 / float(values[0]) if values[0] > 0 else 0.0
        whole = np.rint(values * workers).astype(np.uint16)
        missing = [r for r in range(self._workers) if not int(whole[1 + r // 16]) >> r % 16 & 1]
        if missing:
            raise WorkerMissing(
                f"worker {missing[0]} was lost while all workers exchanged data, and its part "
                f"is missing"
            )
        everything[begin:end] = whole[marks:]

    def _lanes_of(self, length: int) -> List[_Lane]:
        if length not in self._lanes:
            self._lanes[length] = [_Lane(self._store, length, i) for i in range(IN_FLIGHT)]
        return self._lanes[length]


class _Lane:
    """A key for parts of messages, with memory for what is sent and what is received."""

    def __init__(self, store: Store, length: int, number: int) -> None:
        from paragon._store import Declaration, Entry

        key = f"paragon/stream/{length}/{number}"
        self.region = store.memory([length, length])
        store.init([Declaration(key, self.region, 0, length, form="average")])
        self.plan = store.plan([Entry(key, self.region, 0, 1)])


def _pieces(payload: np.ndarray) -> np.ndarray:
    """The payload as 16-bit pieces, with a byte of 0 behind an odd number of bytes."""
    if len(payload) % 2:
        payload = np.concatenate([payload, np.zeros(1, np.uint8)])
    return np.ascontiguousarray(payload).view(np.uint16)


def _header(what: str, payload: np.ndarray) -> np.ndarray:
    header = np.zeros(DIGEST + 8 + INLINE, np.uint8)
    digest = hashlib.sha256(what.encode()).digest()[:DIGEST]
    header[:DIGEST] = np.frombuffer(digest, np.uint8)
    header[DIGEST : DIGEST + 8] = np.array([len(payload)], np.uint64).view(np.uint8)
    if len(payload) <= INLINE:
        header[DIGEST + 8 : DIGEST + 8 + len(payload)] = payload
    return header.view(np.uint16)


def _around_difference(a: str, b: str) -> Tuple[str, str]:
    """Two texts, of which what is long before and behind their first difference is left out."""
    same = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    begin = max(0, same - SHOWN)
    parts = []
    for text in (a, b):
        part = text[begin : same + SHOWN]
        kind = text.split(" ", 1)[0]
        before = f"{kind} ..." if begin > 0 else ""
        parts.append(before + part + ("..." if len(text) > same + SHOWN else ""))
    return parts[0], parts[1]
