"""The exchange of gradients during backward: what is sent when, and how the mean gets into .grad.

A pass is one backward. Its first hook opens the pass and asks the engine to call back at the end.
Each hook copies a gradient into its slot of the store's memory. Slots are in groups: a large
parameter is a group of its own, small ones share one. A group whose gradients are all there is
sent at once, while backward goes on. The call at the end sends the rest, zeros for parameters that
had no gradient, and the flags; waits; and makes each .grad the slot itself, which now holds the
mean.
"""

from __future__ import annotations

import threading
from typing import Callable, List, Optional, Sequence, Tuple

import numpy
import torch

from paragon._memory import MAX_SLOTS
from paragon._store import Declaration, Entry, Region, Store
from paragon.errors import ConflictError, ParagonError, UsageError

from . import _hooks
from ._layout import view_like
from ._rows import RowsExchange

# A parameter of more values is sent by itself; smaller ones together when they are as many.
GROUP_VALUES = 4096

# More workers than this share places among those that say what a round's weight is; then the
# smallest share is right as long as one worker has a place of its own.
_RANKS = 1024


class Slot:
    """One parameter's place in the exchange."""

    __slots__ = ("name", "key", "parameter", "index", "view", "address", "direct", "group", "place")

    def __init__(self, name: str, key: str, parameter: torch.Tensor, index: int) -> None:
        self.name = name
        self.key = key
        self.parameter = parameter
        # The place among all slots, and so among the flags.
        self.index = index
        self.view: torch.Tensor = parameter
        self.address = 0
        # Whether .grad can be the slot's memory itself: float32 on the CPU.
        self.direct = parameter.dtype == torch.float32 and parameter.device.type == "cpu"
        self.group: Group = None  # type: ignore[assignment]
        # The region, and the first of its slots that are this parameter's.
        self.place: Tuple[Region, int] = None  # type: ignore[assignment]


class Group:
    """Slots that are sent together: a run of the plan's entries."""

    __slots__ = ("first", "slots", "missing", "sent")

    def __init__(self, first: int, slots: List[Slot]) -> None:
        self.first = first
        self.slots = slots
        self.missing = len(slots)
        self.sent = False


def grouped(sizes: Sequence[int]) -> List[List[int]]:
    """Places of parameters in groups, in the order in which backward is expected to finish them:
    the last first."""
    groups: List[List[int]] = []
    small: List[int] = []
    values = 0
    for i in reversed(range(len(sizes))):
        if sizes[i] > GROUP_VALUES:
            groups.append([i])
            continue
        small.append(i)
        values += sizes[i]
        if values >= GROUP_VALUES:
            groups.append(small)
            small, values = [], 0
    if small:
        groups.append(small)
    return groups


class Policy:
    """What the owner of an exchange decides for each pass."""

    def _local(self) -> bool:
        """Whether this pass only accumulates."""
        raise NotImplementedError

    def _weight_of(self) -> Tuple[float, int]:
        """The weight of this pass's gradients in the mean, and the examples that it uses up."""
        raise NotImplementedError

    def _refusal(self) -> Optional[ParagonError]:
        """Why no pass may be exchanged now; None if one may."""
        raise NotImplementedError

    def _end_pass(self, exchanged: bool) -> None:
        """A pass has ended."""
        raise NotImplementedError

    def _buffers_due(self) -> bool:
        """Whether this worker wants the buffers averaged after this pass."""
        raise NotImplementedError

    def average_buffers(self) -> None:
        """Some worker wanted it: all average now."""
        raise NotImplementedError


class GradientExchange:
    """The exchange of one attached model's gradients.

    Several threads may go backward, one after another. ``form`` is that of the keys: "average", or
    "dense", whose round's sum is divided here, because only such keys are compressed. With
    ``finite`` the compression has no code for inf and NaN, so a flag travels in their place."""

    def __init__(
        self,
        store: Store,
        prefix: str,
        parameters: Sequence[Tuple[str, torch.Tensor]],
        rows: Sequence[RowsExchange],
        policy: Policy,
        form: str = "average",
        finite: bool = False,
    ) -> None:
        self._store = store
        self._policy = policy
        self._form = form
        self._finite = finite
        self._lock = threading.RLock()
        self.rows = list(rows)
        self.slots = [Slot(n, prefix + n, p, i) for i, (n, p) in enumerate(parameters)]
        self._flags_key = f"paragon/used/{prefix}flags"
        self._allocate()
        self._here = bytearray(len(self.slots))
        self._open = False
        self._queued = False
        self._local = False
        self._task: Optional[int] = None
        self._failure: Optional[BaseException] = None
        self._sent_any = False
        self._weight, self._examples = 1.0, 0
        # The exchange that a wait was interrupted at, by Ctrl-C.
        self._outstanding: Optional[int] = None

    # ------------------------------------------------------------------ memory, keys

    # How many slots of memory a parameter has, one behind the other.
    _each = 1

    def _allocate(self) -> None:
        store, slots = self._store, self.slots
        at_once = MAX_SLOTS // self._each
        for start in range(0, len(slots), at_once):
            part = slots[start : start + at_once]
            region = store.memory([s.parameter.numel() for s in part for _ in range(self._each)])
            for i, s in enumerate(part):
                s.place = (region, self._each * i)
                s.view = self._seen_as(s, 0)
                s.address = s.view.data_ptr()
        # Behind a flag for each parameter come: whether a gradient is not finite; whether buffers
        # are due; and where sums are divided here, 1 at the place of this worker's rank, which
        # comes back as 1 divided by the weight of the round.
        self._used = len(slots)
        self._odd, self._due, self._shares = self._used, self._used + 1, self._used + 2
        size = self._shares + (_RANKS if self._form == "dense" else 0)
        self._flags_region = store.memory([size])
        self._flags = self._flags_region.slot(0)[:size]
        self._flags[:] = 0

    def _seen_as(self, s: Slot, behind: int) -> torch.Tensor:
        """One of a parameter's slots of memory, seen as the parameter is."""
        region, first = s.place
        flat = torch.from_numpy(region.slot(first + behind)[: s.parameter.numel()])
        return view_like(flat, s.name, s.parameter)

    def _takes_first(self) -> bool:
        """Whether the keys hold rank 0's parameters, and not this worker's own, or a mean."""
        return self._store.num_workers > 1 and not self._store.joining

    def declare(self) -> None:
        """Gives the keys their first values, rank 0's parameters, and takes these over. On a worker
        that joins a running job the values there are means, and the parameters stay."""
        with torch.no_grad():
            for s in self.slots:
                s.view.copy_(s.parameter)
        self._store.init(
            [
                Declaration(
                    s.key,
                    s.place[0],
                    s.place[1],
                    s.parameter.numel(),
                    self._form,
                    tuple(s.parameter.shape),
                )
                for s in self.slots
            ]
            + [Declaration(self._flags_key, self._flags_region, 0, len(self._flags))]
        )
        if self._takes_first():
            self._store.pull([(s.key, s.place[0], s.place[1]) for s in self.slots])
            with torch.no_grad():
                for s in self.slots:
                    s.parameter.copy_(s.view)
        self._make_plan()

    def _make_plan(self) -> None:
        entries: List[Entry] = []
        self._groups: List[Group] = []
        for places in grouped([s.parameter.numel() for s in self.slots]):
            group = Group(len(entries), [self.slots[i] for i in places])
            for s in group.slots:
                s.group = group
                entries.append(Entry(s.key, s.place[0], s.place[1], s.place[1]))
            self._groups.append(group)
        self._flags_entry = len(entries)
        entries.append(Entry(self._flags_key, self._flags_region, 0, 0))
        # The group that goes with the flags.
        self._last = self._groups[-1] if self._groups else None
        self._plan = self._store.plan(entries)

    # ------------------------------------------------------------------ hooks

    def hook(self, slot: Slot) -> Callable[[], None]:
        """What the engine calls when the slot's gradient is in .grad. It raises nothing that comes
        from the job: backward would end half done. Such an error is raised at the end."""

        def arrived() -> None:
            with self._lock:
                self._enter()
                if self._local or self._failure is not None:
                    return
                try:
                    self._take(slot)
                except Exception as e:
                    # The call at the end of backward raises it.
                    self._failure = e

        return arrived

    def hook_rows(self, rows: RowsExchange) -> Callable[[], None]:
        """hook for a parameter with sparse gradients: these are sent at the end."""

        def arrived() -> None:
            with self._lock:
                self._enter()

        return arrived

    def _enter(self) -> None:
        """Opens a pass if this hook is its first."""
        if self._open:
            if self._task is None or _hooks.nested() or self._task == _hooks.backward_number():
                return
            self._abandoned()
        self._begin()
        if _hooks.nested():
            return
        self._queue()

    def outer(self) -> None:
        """A checkpoint's own backward inside another one has ended."""
        with self._lock:
            if self._open and not self._queued:
                self._queue()

    def _queue(self) -> None:
        self._queued = True
        self._task = _hooks.backward_number()
        _hooks.after_backward(self._ended)

    def _abandoned(self) -> None:
        """The pass before this one never ended: an exception came out of backward."""
        if self._sent_any and not self._local:
            self._failure = self.half_done()
        self._open = False

    def half_done(self) -> ConflictError:
        """The error of a backward that an exception ended after gradients had been sent."""
        return ConflictError(
            "an exception ended a backward() after a part of its gradients had been sent, and the "
            "other workers count them: end this worker (store.abort), or start it again"
        )

    def _begin(self) -> None:
        failure, self._failure = self._failure, None
        self._open, self._queued, self._task, self._sent_any = True, False, None, False
        self._local = self._policy._local()
        if self._local:
            return
        self._here[:] = bytes(len(self._here))
        for g in self._groups:
            g.missing, g.sent = len(g.slots), False
        self._flags[self._used :] = 0
        self._weight, self._examples = self._policy._weight_of()
        self._failure = failure or self._policy._refusal()
        if self._failure is None and self._outstanding is not None:
            # A Ctrl-C came out of the wait for the pass before, which still uses the slots.
            number, self._outstanding = self._outstanding, None
            try:
                self._store.wait(number)
            except Exception as e:
                self._failure = e

    def _take(self, slot: Slot) -> None:
        if self._here[slot.index]:
            self._again(slot)
            return
        gradient = slot.parameter.grad
        if gradient is None:
            # torch 1.13 calls hooks for gradients that are not defined, too.
            return
        self._copy(slot, gradient)
        group = slot.group
        group.missing -= 1
        if group.missing == 0 and group is not self._last:
            self._send(group.first, len(group.slots), False)
            group.sent = True

    def _again(self, slot: Slot) -> None:
        """A second gradient of a parameter in one pass."""
        if _hooks.nested():
            self._failure = ConflictError(
                f"parameter {slot.name} got two gradients in one backward(): a part of the model "
                "that is used twice needs torch.utils.checkpoint with use_reentrant=False"
            )
        elif self._sent_any:
            self._failure = self.half_done()
            # torch 1.13 does not tell one backward from another: of this one nobody has asked for
            # a call at the end.
            self._queue()
        else:
            # The backward before was given up with nothing sent.
            self._open = False
            self._enter()
            self._take(slot)

    def _copy(self, slot: Slot, gradient: torch.Tensor) -> None:
        view, weight = slot.view, self._weight
        if gradient.requires_grad:
            gradient = gradient.detach()
        self._check_dense(slot, gradient)
        self._here[slot.index] = 1
        if self._finite and not bool(torch.isfinite(gradient).all()):
            self._flags[self._odd] = 1
            view.zero_()
        elif weight == 0:
            view.zero_()
        elif weight == 1:
            if gradient.data_ptr() != slot.address:
                view.copy_(gradient)
        elif slot.direct:
            torch.mul(gradient, weight, out=view)
        else:
            view.copy_(gradient)
            view.mul_(weight)

    @staticmethod
    def _check_dense(slot: Slot, gradient: torch.Tensor) -> None:
        if gradient.layout != torch.strided:
            raise UsageError(
                f"parameter {slot.name} got a sparse gradient, but no Embedding(sparse=True) of "
                "the model owns it: sparse gradients of other modules are not exchanged. With "
                "DistributedOptimizer give sparse_as_dense=True, or use paragon.torch.attach"
            )

    def _send(self, first: int, count: int, answer: bool) -> int:
        self._sent_any = True
        return self._plan.exchange(first, count, self._weight, self._examples, answer)

    # ------------------------------------------------------------------ end of a pass

    def _ended(self) -> None:
        """The engine calls this when a backward has ended."""
        with self._lock:
            if not self._open:
                return
            self._open = False
            local, failure = self._local, self._failure
            self._failure = None
            if failure is None and not local:
                number = self._send_rest()
        if failure is not None:
            raise failure
        if not local:
            self._receive(number)
        self._policy._end_pass(not local)

    def now(self) -> None:
        """Exchanges what is in every .grad, outside of a backward."""
        with self._lock:
            if self._open:
                raise self.half_done()
            self._begin()
            self._local = False
            self._open = False
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            number = self._send_rest()
        self._receive(number)
        self._policy._end_pass(True)

    def contribute_nothing(self) -> None:
        """Takes part in the round of every key with weight 0, and leaves each .grad as it is."""
        with self._lock:
            self._begin()
            self._local = self._open = False
            self._weight, self._examples = 0.0, 0
            for s in self.slots:
                if s.parameter.grad is s.view:
                    s.parameter.grad = s.view.clone()
                s.view.zero_()
            self._flags[:] = 0
            number = self._send_all()
            self._outstanding = number
        for r in self.rows:
            r.contribute_nothing()
        self._store.wait(number)
        self._outstanding = None

    def _send_all(self) -> int:
        return self._send(0, self._flags_entry + 1, True)

    @property
    def half_open(self) -> bool:
        """Whether a backward has begun and not ended."""
        return self._open

    def _send_rest(self) -> int:
        """Sends what no hook has sent, and the flags. All is copied first: what goes while the
        rest is copied makes the copies and the sums wait for each other."""
        for s in self.slots:
            if not self._here[s.index] and s.parameter.grad is not None:
                self._check_dense(s, s.parameter.grad)
        for g in self._groups:
            if not g.sent:
                self._fill(g)
        self._set_flags()
        first = self._flags_entry
        for g in self._groups:
            if not g.sent:
                first = min(first, g.first)
            elif first < g.first:
                self._send(first, g.first - first, False)
                first = self._flags_entry
        number = self._send(first, self._flags_entry + 1 - first, True)
        self._outstanding = number
        return number

    def _fill(self, group: Group) -> None:
        """Copies the gradients that no hook has copied, zeros for those that are not there."""
        for s in group.slots:
            if self._here[s.index]:
                continue
            gradient = s.parameter.grad
            if gradient is None:
                s.view.zero_()
            else:
                # Of a pass that only accumulated, or a second backward before the step.
                self._copy(s, gradient)

    def _set_flags(self) -> None:
        """Says which parameters had a gradient, and the rest, times the weight."""
        self._flags[: self._used] = numpy.frombuffer(self._here, numpy.uint8)
        self._flags[self._due] = self._policy._buffers_due()
        if self._weight != 1:
            self._flags *= self._weight
        if self._form == "dense" and self._weight > 0:
            self._flags[self._shares + self._store.rank % _RANKS] = 1

    def _divisor(self) -> float:
        """The weight of the round, by which sums are divided."""
        shares = self._flags[self._shares :]
        return 1 / float(shares[shares > 0].min())

    def _receive(self, number: int) -> None:
        """Waits for the means and puts them into .grad."""
        with torch.no_grad():
            for r in self.rows:
                r.exchange(self._weight, self._examples)
            self._store.wait(number)
            self._outstanding = None
            flags = self._flags.tolist()
            divisor = self._divisor() if self._form == "dense" else 1.0
            for s, used in zip(self.slots, flags):
                if divisor != 1:
                    s.view.div_(divisor)
                self._give(s, used > 0)
            if flags[self._odd] > 0:
                self._spoil()
        if flags[self._due] > 0:
            self._policy.average_buffers()

    @staticmethod
    def _give(s: Slot, used: bool) -> None:
        p = s.parameter
        gradient = p.grad
        if not used:
            # No worker had a gradient: None, or Adam and weight decay would move the parameter.
            if gradient is not None:
                p.grad = None
        elif s.direct:
            if gradient is not s.view:
                p.grad = s.view
        elif gradient is None:
            p.grad = torch.empty_like(p).copy_(s.view)
        else:
            gradient.copy_(s.view)

    def _spoil(self) -> None:
        """A worker's gradient was not finite, and the compression has no code for that: an inf in
        every worker's gradients makes all scalers skip alike."""
        for s in self.slots:
            if s.parameter.grad is not None:
                s.parameter.grad.fill_(float("inf"))
                return
