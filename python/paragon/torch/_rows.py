"""Sparse gradients: only the rows that some worker's batch has used travel.

A parameter of R rows has a key of R + 1 rows. The last row holds the weight that a worker pushes,
so that its sum is the round's weight. Each worker pushes its rows, repeated ones added up; the
round's sums replace those rows on the servers. Which rows these are the workers tell each other in
a key in which each has a part of its own, as large as the longest list.
"""

from __future__ import annotations

from typing import Dict, Optional, Tuple

import numpy
import torch

from paragon._store import Declaration, Entry, Plan, Region, Store
from paragon.errors import UsageError

# torch 2.0 and newer want to be told that numbers of rows need no check, or warn.
_UNCHECKED: Dict[str, bool] = (
    {"check_invariants": False} if hasattr(torch.sparse, "check_sparse_tensor_invariants") else {}
)

# A row number travels as three pieces of 16 bits, each exact in a float32.
_PIECES = 3


class RowsExchange:
    """The exchange of one parameter with sparse gradients."""

    def __init__(self, store: Store, prefix: str, name: str, parameter: torch.Tensor) -> None:
        self._store = store
        self.name = name
        self.key = prefix + name
        self._lists = f"paragon/rows/{prefix}{name}"
        self.parameter = parameter
        if parameter.dim() != 2:
            raise UsageError(
                f"attach: parameter {name} with sparse gradients has shape "
                f"{tuple(parameter.shape)}, want rows × values"
            )
        self._rows, self._width = int(parameter.shape[0]), int(parameter.shape[1])
        # Plans by the number of values that each worker has, at this number of workers.
        self._plans: Dict[Tuple[int, int], Tuple[Plan, Region]] = {}
        # Slots of row numbers and of values, as large as the longest list so far.
        self._buffer: Optional[Region] = None
        self._room = 0

    # ------------------------------------------------------------------ first values

    def declare(self) -> None:
        """Gives the key its first value, rank 0's table, and takes it over."""
        rows, width = self._rows, self._width
        region = self._store.memory([2 * max(1, rows), (rows + 1) * width])
        values = region.slot(1)[: (rows + 1) * width]
        table = torch.from_numpy(values[: rows * width]).view(rows, width)
        with torch.no_grad():
            table.copy_(self.parameter)
        values[rows * width :] = 0
        self._store.init(
            [Declaration(self.key, region, 1, len(values), "rows", None, rows + 1, width)]
        )
        if not self._store.joining and self._store.num_workers > 1:
            region.raw(0, numpy.int64)[:rows] = numpy.arange(rows)
            self._store.request(
                "pull_rows", key=self.key, region=region.id, ids=0, n=rows, values=1
            )
            with torch.no_grad():
                self.parameter.copy_(table)
        region.free()

    # ------------------------------------------------------------------ a step

    def exchange(self, weight: float, examples: int = 0) -> None:
        """Pushes this worker's rows, which count for so many examples, and leaves the mean over all
        workers in .grad: coalesced, with the rows that some worker used, or None without any."""
        p = self.parameter
        rows, values = self._own(p.grad, weight)
        union = self._union(rows)
        self._push(rows, values, weight, examples)
        if len(union) == 0:
            p.grad = None
            return
        p.grad = self._mean(union)

    def contribute_nothing(self) -> None:
        """Takes part in the round with no rows and weight 0."""
        none = numpy.zeros(0, numpy.int64)
        self._union(none)
        self._push(none, torch.zeros(0, self._width), 0.0)

    def _own(
        self, gradient: Optional[torch.Tensor], weight: float
    ) -> Tuple[numpy.ndarray, torch.Tensor]:
        if gradient is None or weight == 0:
            return numpy.zeros(0, numpy.int64), torch.zeros(0, self._width)
        if gradient.layout == torch.strided:
            raise UsageError(
                f"parameter {self.name} got a dense gradient, want a sparse one: a parameter of "
                "Embedding(sparse=True) that another module uses, too, needs sparse=False"
            )
        gradient = gradient.detach().coalesce()
        values = gradient.values().to(device="cpu", dtype=torch.float32)
        if weight != 1:
            values = values * weight
        return gradient.indices()[0].cpu().numpy(), values

    def _mean(self, union: numpy.ndarray) -> torch.Tensor:
        """The mean of the round, of the rows in union."""
        n, width = len(union), self._width
        buffer = self._room_for(n + 1)
        ids = buffer.raw(0, numpy.int64)
        ids[:n], ids[n] = union, self._rows
        self._request("pull_rows", n + 1)
        got = torch.from_numpy(numpy.array(buffer.slot(1)[: (n + 1) * width])).view(n + 1, width)
        mean = got[:n] / got[n, 0]
        p = self.parameter
        indices = torch.from_numpy(union.reshape(1, -1))
        made = torch.sparse_coo_tensor(
            indices, mean.to(p.dtype), p.shape, device=p.device, **_UNCHECKED
        )
        # The numbers are sorted, and each is there once.
        return made._coalesced_(True)

    def _push(
        self, rows: numpy.ndarray, values: torch.Tensor, weight: float, examples: int = 0
    ) -> None:
        n, width = len(rows), self._width
        buffer = self._room_for(n + 1)
        ids = buffer.raw(0, numpy.int64)
        ids[:n], ids[n] = rows, self._rows
        slot = torch.from_numpy(buffer.slot(1)[: (n + 1) * width]).view(n + 1, width)
        slot[:n].copy_(values)
        slot[n] = weight
        self._request("push_rows", n + 1, weight=weight, examples=examples)

    def _request(self, op: str, n: int, **fields: object) -> None:
        # A request that Ctrl-C has left goes on with its region: it is not used again.
        region, self._buffer = self._buffer, None
        assert region is not None
        self._store.request(op, key=self.key, region=region.id, ids=0, n=n, values=1, **fields)
        self._buffer = region

    def _room_for(self, rows: int) -> Region:
        if self._buffer is None or rows > self._room:
            self._buffer = None
            self._room = max(256, 1 << (rows - 1).bit_length())
            self._buffer = self._store.memory([2 * self._room, self._room * self._width])
        return self._buffer

    # ------------------------------------------------------------------ which rows

    def _union(self, rows: numpy.ndarray) -> numpy.ndarray:
        """The sorted rows that any worker has."""
        workers = self._store.num_workers
        if workers == 1:
            return rows.astype(numpy.int64)
        counts = self._gather(
            numpy.array([float(len(rows) >> 16), float(len(rows) & 0xFFFF)], numpy.float32), 2
        )
        longest = max(int(c[0]) << 16 | int(c[1]) for c in counts)
        if longest == 0:
            return numpy.zeros(0, numpy.int64)
        room = max(64, 1 << (longest - 1).bit_length())
        # A number of 0 says that there is no row.
        numbers = numpy.zeros(room, numpy.int64)
        numbers[: len(rows)] = rows + 1
        pieces = [(numbers >> (16 * i) & 0xFFFF).astype(numpy.float32) for i in range(_PIECES)]
        got = self._gather(numpy.concatenate(pieces), _PIECES * room).astype(numpy.int64)
        got = got.reshape(workers, _PIECES, room)
        numbers = sum((got[:, i] << (16 * i) for i in range(1, _PIECES)), got[:, 0]).ravel()
        return numpy.unique(numbers[numbers > 0]) - 1

    def _gather(self, values: numpy.ndarray, length: int) -> numpy.ndarray:
        """Every worker's values (whole numbers below 65,536), by rank; zeros of a worker that was
        lost on the way."""
        store = self._store
        workers, rank = store.num_workers, store.rank
        plan, region = self._lists_of(workers, length + 1)
        slot = region.slot(0)[: workers * (length + 1)].reshape(workers, length + 1)
        slot[:] = 0
        # A mean comes back: behind its values each worker has a 1, which says of how many.
        slot[rank, :length], slot[rank, length] = values, 1
        store.wait(plan.exchange(answer=True))
        return numpy.rint(slot[:, :length] / slot[rank, length])

    def _lists_of(self, workers: int, length: int) -> Tuple[Plan, Region]:
        found = self._plans.get((workers, length))
        if found is None:
            key = f"{self._lists}/{workers}/{length}"
            region = self._store.memory([workers * length])
            region.slot(0)[: workers * length] = 0
            self._store.init([Declaration(key, region, 0, workers * length)])
            found = self._store.plan([Entry(key, region, 0, 0)]), region
            self._plans[workers, length] = found
        return found
