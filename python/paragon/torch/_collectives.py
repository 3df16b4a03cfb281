"""Sums, broadcasts and gathers of torch tensors over the keys of a store.

Floating-point sums have a key for each name, and go on while the program does something else:
workers may start them in any order. Broadcasts, gathers and the sums of other types are made in
one order on all workers, by :mod:`paragon.torch._stream`, and are done when the call returns.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch

from ._stream import Disagreement, Stream, WorkerMissing
from ._values import as_bytes

if TYPE_CHECKING:
    from paragon._store import Store

AVERAGE, SUM, MIN, MAX, PRODUCT = "average", "sum", "min", "max", "product"

# SUMMED are the types that servers sum, as float32.
SUMMED = (torch.float32, torch.float16, torch.bfloat16)

# RING is how many sums without a name, of one size, are under way at a time.
RING = 4

# TINY is a weight that does not change a sum of weights beside 1.
TINY = 2.0**-60


class Handle:
    """One sum, broadcast or gather, which may still be under way.

    Attributes:
        result: a tensor, or what else the operation returns. None until it is done.
    """

    def __init__(
        self, ready: Callable[[], bool], finish: Callable[[], Any], result: Any = None
    ) -> None:
        self._ready, self._finish = ready, finish
        self._done = False
        self.result = result

    @classmethod
    def of(cls, result: Any) -> Handle:
        """The handle of an operation that is done."""
        handle = cls(lambda: True, lambda: result, result)
        handle._done = True
        return handle

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        return self._done or self._ready()

    def wait(self) -> Any:
        """Returns the result. A second call returns the same."""
        if not self._done:
            self.result = self._finish()
            self._done = True
        return self.result


class Collectives:
    """The operations of one store. See :func:`of`."""

    def __init__(self, store: Store) -> None:
        if store.type == "dist_async":
            raise NotImplementedError(
                "collective operations in a store of type dist_async, where no round has all "
                "workers; use paragon.init(store='dist_sync')"
            )
        self.store = store
        self._stream = Stream(store)
        self._sums: Dict[str, _Sum] = {}
        self._shapes: Dict[str, Tuple[int, ...]] = {}
        self._unnamed: Dict[Tuple[str, int], int] = {}

    def members_changed(self) -> None:
        """Forgets how many sums without a name there were, which workers that join do not know.

        All workers call it at the same boundary, with no operation under way."""
        self._unnamed.clear()

    def reduce(
        self,
        tensor: torch.Tensor,
        op: str = AVERAGE,
        name: Optional[str] = None,
        before: float = 1.0,
        after: float = 1.0,
        into: Optional[torch.Tensor] = None,
    ) -> Handle:
        """Starts to combine the tensors of all workers, element by element.

        Args:
            tensor: any dense tensor, of the same shape and type on all workers.
            op: "average", "sum", "min", "max" or "product".
            name: the same on all workers. A name may be under way once at a time. None: sums
                are matched in their order.
            before: factor of the tensor before it is combined with others.
            after: factor of the result.
            into: tensor that gets the result. None: a new one.

        float16 and bfloat16 are summed as float32. All other types but float32, and all
        operations but average and sum, are computed by every worker from all tensors, in rank
        order: whole numbers exactly (modulo the range of their type, as torch does), an average
        of whole numbers rounded towards 0.
        """
        if tensor.layout != torch.strided:
            raise NotImplementedError(
                f"{op} of a tensor of layout {tensor.layout}; make it dense with to_dense()"
            )
        if self.store.num_workers > 1 and tensor.numel() and tensor.dtype in SUMMED:
            if op in (AVERAGE, SUM):
                return self._start_sum(tensor, op, name, before, after, into)
        return Handle.of(_deliver(self._combine(tensor, op, name, before, after), tensor, into))

    def _start_sum(
        self,
        tensor: torch.Tensor,
        op: str,
        name: Optional[str],
        before: float,
        after: float,
        into: Optional[torch.Tensor],
    ) -> Handle:
        key = self._key(tensor, op, name)
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = _Sum(self.store, key, tensor.numel(), op)
        if found.handle is not None:
            if name is not None:
                raise ValueError(
                    f"{op} of {name!r} was started twice; synchronize the first one before, or "
                    f"give the second one another name"
                )
            found.handle.wait()
        return found.start(tensor, before, after, into)

    def _key(self, tensor: torch.Tensor, op: str, name: Optional[str]) -> str:
        """The key of a sum: its name, and its shape if the name has had another one before."""
        if name is None:
            count = self._unnamed.get((op, tensor.numel()), 0)
            self._unnamed[op, tensor.numel()] = count + 1
            return f"paragon/{op}/of/{tensor.numel()}/{count % RING}"
        shape = tuple(tensor.shape)
        if self._shapes.setdefault(f"{op}/{name}", shape) == shape:
            return f"paragon/{op}/{name}"
        return f"paragon/{op}/{name}/{'x'.join(map(str, shape))}"

    def _combine(
        self, tensor: torch.Tensor, op: str, name: Optional[str], before: float, after: float
    ) -> torch.Tensor:
        """Combines all workers' tensors here, in rank order."""
        mine = tensor.detach() if before == 1.0 else tensor.detach() * before
        mine = mine.to(tensor.dtype)
        what = f"{op} of {_describe(name, mine)}"
        parts = [_tensor(b, mine) for b in self._stream.gather(what, as_bytes(mine))]
        if mine.dtype in SUMMED:
            parts = [p.float() for p in parts]
        result = parts[0]
        for part in parts[1:]:
            result = _COMBINE[op](result, part)
        if op == AVERAGE and len(parts) > 1:
            result = _divide(result, len(parts))
        return result if after == 1.0 else (result * after).to(tensor.dtype)

    def broadcast(
        self,
        tensors: Sequence[Tuple[str, torch.Tensor]],
        root: int,
    ) -> None:
        """Gives all workers the values of root's tensors, in place, bit for bit.

        Args:
            tensors: names with tensors of any type, which have the same names, shapes and types
                on all workers. One call for many is much faster than one for each.
            root: the rank whose values count.
        """
        self.check_root(root)
        what = f"broadcast from worker {root} of " + ", ".join(_describe(n, t) for n, t in tensors)
        nothing = np.zeros(0, np.uint8)
        is_root = self.store.rank == root
        mine = np.concatenate([as_bytes(t) for _, t in tensors]) if is_root and tensors else nothing
        values = self._stream.gather(what, mine)[root]
        if is_root:
            return
        begin = 0
        for _, t in tensors:
            end = begin + t.numel() * t.element_size()
            with torch.no_grad():
                t.copy_(_tensor(values[begin:end], t))
            begin = end

    def allgather(self, tensor: torch.Tensor, name: Optional[str] = None) -> List[torch.Tensor]:
        """Returns the tensor of every worker, by rank, bit for bit.

        The sizes may differ in the first dimension; a tensor without dimensions has one value."""
        mine = tensor.detach().reshape(1) if tensor.dim() == 0 else tensor.detach()
        row = mine[:0]
        row_shape = "×".join(map(str, row.shape[1:])) or "1"
        what = f"allgather of {name!r} (rows of {row_shape}, {str(row.dtype)[6:]})"
        gathered = self._stream.gather(what, as_bytes(mine))
        return [_rows(b, row).to(tensor.device) for b in gathered]

    def broadcast_object(self, obj: Any, root: int = 0, name: Optional[str] = None) -> Any:
        """Returns root's object on all workers. It is pickled, so workers must trust each other,
        as those of one job do."""
        self.check_root(root)
        if self.store.num_workers == 1:
            return obj
        text = pickle.dumps(obj) if self.store.rank == root else b""
        what = f"broadcast of object {name or ''} from worker {root}"
        parts = self._stream.gather(what, np.frombuffer(text, np.uint8))
        return obj if self.store.rank == root else pickle.loads(parts[root].tobytes())

    def allgather_object(self, obj: Any, name: Optional[str] = None) -> List[Any]:
        """Returns the objects of all workers, by rank, by pickle."""
        text = np.frombuffer(pickle.dumps(obj), np.uint8)
        parts = self._stream.gather(f"allgather of object {name or ''}", text)
        return [pickle.loads(p.tobytes()) for p in parts]

    def check_root(self, root: int) -> None:
        """Raises ValueError for a rank that the job does not have."""
        if not 0 <= root < self.store.num_workers:
            raise ValueError(
                f"root rank {root} of a job of {self.store.num_workers} workers; want 0 to "
                f"{self.store.num_workers - 1}"
            )


class _Sum:
    """The key of one name, with memory for what is sent and what is received.

    The key has the mean of a round: such keys are never compressed, and no optimizer of the
    servers touches them. A sum is a mean whose weights add up to 1: that of rank 0 is 1, and the
    others' are too small to change it, so that nothing is rounded twice. The last value counts the
    workers: without rank 0 the weights add up to nearly 0, and it is far too large."""

    def __init__(self, store: Store, key: str, size: int, op: str) -> None:
        from paragon._store import Declaration, Entry

        self._store, self._key, self._op, self._size = store, key, op, size
        self._region = store.memory([size + 1, size + 1])
        store.init([Declaration(key, self._region, 0, size + 1)])
        self._plan = store.plan([Entry(key, self._region, 0, 1)])
        # handle is the sum that is under way, or whose result lies here.
        self.handle: Optional[Handle] = None

    def start(
        self, tensor: torch.Tensor, before: float, after: float, into: Optional[torch.Tensor]
    ) -> Handle:
        sent = self._region.slot(0)
        sent[self._size] = 1
        values = torch.from_numpy(sent[: self._size]).view(tensor.shape)
        values.copy_(tensor.detach())
        if before != 1.0:
            values.mul_(before)
        tiny = self._op == SUM and self._store.rank != 0
        number = self._plan.exchange(weight=TINY if tiny else 1.0, answer=True)

        def finish() -> torch.Tensor:
            self._store.wait(number)
            self.handle = None
            return _deliver(self._result(tensor.shape, after), tensor, into)

        self.handle = Handle(lambda: self._store.done(number), finish)
        return self.handle

    def _result(self, shape: torch.Size, after: float) -> torch.Tensor:
        values = self._region.slot(1)
        if values[self._size] > self._store.num_workers:
            raise WorkerMissing(f"worker 0 was lost during the {self._op} of {self._key}")
        result = torch.from_numpy(values[: self._size]).view(shape)
        return result if after == 1.0 else result * after


_collectives: Dict[int, Collectives] = {}


def of(store: Store) -> Collectives:
    """Returns the operations of a store, one object for each store."""
    found = _collectives.get(id(store))
    if found is None or found.store is not store:
        found = _collectives[id(store)] = Collectives(store)
    return found


def _deliver(
    result: torch.Tensor, like: torch.Tensor, into: Optional[torch.Tensor]
) -> torch.Tensor:
    """Copies the result into a tensor of its own, with the type and device of like."""
    if into is None:
        into = torch.empty_like(like, requires_grad=False)
    with torch.no_grad():
        into.copy_(result)
    return into


def _divide(total: torch.Tensor, n: int) -> torch.Tensor:
    if total.dtype == torch.bool:
        raise NotImplementedError("average of bool tensors; use a sum, or convert to float32")
    if total.is_floating_point() or total.is_complex():
        return total / n
    return torch.div(total, n, rounding_mode="trunc")


_COMBINE: Dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    AVERAGE: torch.add,
    SUM: torch.add,
    MIN: torch.minimum,
    MAX: torch.maximum,
    PRODUCT: torch.mul,
}


def _describe(name: Optional[str], tensor: torch.Tensor) -> str:
    shape = "×".join(map(str, tensor.shape)) or "1"
    return f"{name!r} ({shape}, {str(tensor.dtype)[6:]})"


def _tensor(data: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    """A new tensor of like's type and shape with the bytes of data."""
    want = like.numel() * like.element_size()
    if len(data) != want:
        raise Disagreement(
            f"a worker sent {len(data)} bytes for a tensor of {want} bytes; give tensors of the "
            f"same shape and type on all workers"
        )
    result = torch.empty(like.shape, dtype=like.dtype)
    as_bytes(result)[:] = data
    return result


def _rows(data: np.ndarray, row: torch.Tensor) -> torch.Tensor:
    """A new tensor of as many rows as data has, of the type and shape of row without its first
    dimension."""
    shape = row.shape[1:]
    size = row.element_size() * int(np.prod(shape, dtype=np.int64))
    count = len(data) // size if size else 0
    return _tensor(data, torch.empty((count, *shape), dtype=row.dtype))
