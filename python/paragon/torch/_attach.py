"""attach: a model's gradients become the mean over all workers when backward() returns."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union

import torch

from paragon import _process
from paragon._store import Store
from paragon.errors import ConflictError, ParagonError, UsageError

from . import _hooks, _layout
from ._buffers import Buffers
from ._exchange import GradientExchange, Policy
from ._first import take_first
from ._rows import RowsExchange
from ._turn import TurnOfModel

# Everything attached in this process, in order.
_registry: List["Attached"] = []

# Where the optimizer is, by mode.
_WHERE = {"local": "in each process, gradients averaged", "server": "on the servers"}

# The names of what was ever attached, by store.
_taken: "weakref.WeakKeyDictionary[Store, Set[str]]" = weakref.WeakKeyDictionary()

# Compressions that have no code for inf and NaN.
_NO_INFINITY = ("2bit", "1bit")


def register(attached: "Attached") -> None:
    """Counts what was attached among everything attached in this process."""
    _registry.append(attached)


def registry() -> List["Attached"]:
    """Everything attached in this process, in order."""
    return list(_registry)


def attached(store: Store) -> List["Attached"]:
    """What is attached to a store, in order."""
    return [a for a in _registry if a.store is store]


def attach(
    model: torch.nn.Module,
    torch_optimizer: Union[torch.optim.Optimizer, Sequence[torch.optim.Optimizer], None],
    store: Store,
    /,
    *,
    name: Optional[str] = None,
    state: Optional[Mapping[str, Any]] = None,
    optimizer: str = "local",
    compression: Union[str, Mapping[str, Any], None] = None,
    backward_passes_per_step: int = 1,
) -> "Attached":
    """Makes a model's training distributed. Every worker calls it, with the same model and
    optimizer; another one is ConflictError, which names the first difference and both workers.

    Parameters and buffers become rank 0's, and so does the state of an optimizer of which rank 0
    has some, with its options: a checkpoint need be read by rank 0 alone. From then on each
    ``.grad`` is the mean over all workers when ``backward()`` returns, so that clipping,
    GradScaler, schedulers and the optimizer do what they do in one process. The optimizer stays the
    caller's own object.

    ``torch_optimizer`` is the caller's optimizer, or a list if several share the model's
    parameters. With ``optimizer="local"`` it steps in each process. With "server" the servers do
    what it would, and keep its state: torch's SGD, Adam, AdamW, Adagrad and RMSprop; what they
    cannot do is refused by name, such as clipping, GradScaler and closures. ``.grad`` is this
    worker's own then.

    ``name`` begins the keys of this model; without one the first model has none, the second
    "model2/", and so on. ``state`` names objects with state_dict and load_state_dict that workers
    that join receive.
    ``compression`` is a type ("fp16", "bf16", "2bit", "1bit", "topk"), or a dict with "type" and
    its numbers. ``backward_passes_per_step`` is how many backwards are summed before an exchange.

    ``.grad`` is memory of the store, and the next backward writes there: clone what is to be
    kept."""
    if optimizer not in _WHERE:
        raise UsageError(f'attach: optimizer={optimizer!r}, want "local" or "server"')
    if not hasattr(store, "num_workers"):
        raise UsageError(
            f"attach: store is {type(store).__name__}, want what init() returned: store = pt.init()"
        )
    kind = Attached
    if optimizer == "server":
        from ._server import ServerAttached

        kind = ServerAttached
    found = kind(model, torch_optimizer, store, name, state, compression, backward_passes_per_step)
    register(found)
    return found


# The stores about which people were told that nothing shares out examples.
_told_no_sampler: "weakref.WeakSet[Store]" = weakref.WeakSet()


def _say_no_sampler(store: Store) -> None:
    """Says once that a loop has no place where workers can join and leave."""
    if store in _told_no_sampler:
        return
    _told_no_sampler.add(store)
    if store.elastic and not store.shares_examples and store.rank == 0:
        _process.say(
            "workers of this job may join, leave and be lost, but its loop is not over a "
            "paragon.torch.ElasticSampler, whose steps are where that happens: a worker that joins "
            "waits for ever, and a lost worker's examples are not used; loop over its epochs and "
            "batches, or start the job without --elastic-training-enabled"
        )


@contextlib.contextmanager
def no_sync(model: torch.nn.Module) -> Iterator[None]:
    """Backwards in this block only add to ``.grad``; the first one after it exchanges the sum."""
    inner = _layout.unwrapped(model)
    found = [a for a in _registry if a.model is inner]
    if not found:
        raise UsageError(f"no_sync: {type(inner).__name__} is not attached: call attach first")
    with contextlib.ExitStack() as stack:
        for a in found:
            stack.enter_context(a.no_sync())
        yield


class _Member:
    """A parameter as it was at attach, and the place in its module where it must stay."""

    __slots__ = ("name", "tensor", "owner", "attribute", "address", "trained", "form")

    def __init__(
        self, name: str, tensor: torch.Tensor, owner: Dict[str, Any], attribute: str
    ) -> None:
        self.name = name
        self.tensor: torch.Tensor = tensor
        self.owner = owner
        self.attribute = attribute
        self.remember()

    def remember(self) -> None:
        t = self.tensor
        self.address = t.data_ptr()
        self.trained = t.requires_grad
        self.form = (t.size(), t.stride(), t.dtype, t.device)

    def check(self) -> None:
        """Raises ConflictError if the parameter is another one, or has changed its form."""
        t = self.tensor
        if self.owner.get(self.attribute) is not t:
            raise ConflictError(
                f"parameter {self.name} was replaced by another object after attach: make such "
                "changes (pruning, LoRA, load_state_dict(assign=True)) before attach"
            )
        if t.requires_grad != self.trained:
            was, now = ("trained", "frozen") if self.trained else ("frozen", "trained")
            raise ConflictError(
                f"parameter {self.name} was {was} at attach and is {now} now (requires_grad): "
                "detach() what attach returned, and attach the model again, on every worker"
            )
        if t.data_ptr() != self.address:
            form, self.address = self.form, t.data_ptr()
            if form != (t.size(), t.stride(), t.dtype, t.device):
                raise ConflictError(
                    f"parameter {self.name} has another shape, type or device than at attach: got "
                    f"{tuple(t.size())} {t.dtype} {t.device}, want {tuple(form[0])} {form[2]} "
                    f"{form[3]}: call model.to() and model.half() before attach"
                )


class Attached(Policy):
    """A model whose gradients are exchanged; attach returns it.

    Attributes:
        model: the model, without what torch.compile puts around it.
        optimizer: what attach was given: one optimizer, a list, or None.
        optimizers: the optimizers as a list.
        store: the store.
        name: the name with which the model's keys begin; the first model has none.
        parameters: names and parameters.
        state: the objects of ``state=`` that workers that join receive.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: Any,
        store: Store,
        name: Optional[str],
        state: Optional[Mapping[str, Any]],
        compression: Union[str, Mapping[str, Any], None],
        passes: int,
    ) -> None:
        if passes < 1:
            raise UsageError(f"attach: backward_passes_per_step is {passes}, want 1 or more")
        self.model = _layout.unwrapped(model)
        self.store = store
        self.optimizers = _layout.optimizers_of(optimizer)
        self.optimizer = optimizer
        self.state = dict(state or {})
        self.name = self._named(name)
        self.prefix = self.name + "/" if self.name else ""
        self.parameters: List[Tuple[str, torch.Tensor]] = list(self.model.named_parameters())
        self._check_new()
        # How many backwards make an exchange, how many have been since the last one, and in how
        # many blocks of no_sync this is.
        self._passes, self._passed, self._muted = passes, 0, 0
        # Whether gradients have been accumulated that were not exchanged.
        self._unsent = False
        self._turn = TurnOfModel()
        self._compiled_logged = False
        self._build(compression)

    # ------------------------------------------------------------------ construction

    def _named(self, name: Optional[str]) -> str:
        # Keys are declared once in the life of a store, so a name is taken after detach, too.
        taken = _taken.setdefault(self.store, set())
        if name is None:
            name = f"model{len(taken) + 1}" if taken else ""
        if name in taken or name.startswith("paragon/"):
            raise UsageError(f"attach: name {name!r} is taken: give each model a name of its own")
        taken.add(name)
        return name

    def _check_new(self) -> None:
        before = {id(p): a for a in attached(self.store) for _, p in a.parameters}
        for name, p in self.parameters:
            if id(p) in before:
                raise UsageError(
                    f"attach: parameter {name} is attached already, as a part of "
                    f"{type(before[id(p)].model).__name__}: attach a model once, with all of its "
                    "optimizers in a list"
                )
            if p.requires_grad:
                _layout.check_parameter(name, p)
        self._names = {id(p): n for n, p in self.parameters}
        _layout.check_groups(self.optimizers, self._names)

    def _called(self) -> str:
        return f" named {self.name!r}" if self.name else ""

    mode = "local"
    """Where the optimizer is: "local" in each process, "server" on the servers."""

    def _build(self, compression: Union[str, Mapping[str, Any], None]) -> None:
        store, sparse = self.store, _layout.sparse_parameters(self.model)
        _layout.meet(store, f"attaches a {type(self.model).__name__}{self._called()}")
        lines = _layout.describe(self.model, self.optimizers, sparse, self.mode)
        local = self.mode == "local"
        with_state = _layout.agree(store, self.prefix, lines, shares=local)
        trained = [(n, p) for n, p in self.parameters if p.requires_grad and p.numel() > 0]
        config = {"type": compression} if isinstance(compression, str) else dict(compression or {})
        if config:
            store.set_compression(config)
        self._build_exchange(
            [(n, p) for n, p in trained if id(p) not in sparse],
            [(n, p) for n, p in trained if id(p) in sparse],
            config,
        )
        self._exchange.declare()
        for r in self._exchange.rows:
            r.declare()
        self._buffers = Buffers(store, self.prefix, self.model)
        others = [(n, p) for n, p in self.parameters if not p.requires_grad]
        others += [(n, b) for n, b in self.model.named_buffers() if b.dtype not in _layout.FLOATS]
        take_first(store, self.prefix, others)
        if local and not store.joining and store.num_workers > 1:
            self._take_state(with_state)
        self._members = list(self._places())
        self._group_sizes = self._sizes()
        self._register()

    def _build_exchange(
        self,
        dense: Sequence[Tuple[str, torch.Tensor]],
        sparse: Sequence[Tuple[str, torch.Tensor]],
        compression: Mapping[str, Any],
    ) -> None:
        store, kind = self.store, compression.get("type", "none")
        self._exchange = GradientExchange(
            store,
            self.prefix,
            dense,
            [RowsExchange(store, self.prefix, n, p) for n, p in sparse],
            self,
            "average" if kind == "none" else "dense",
            kind in _NO_INFINITY,
        )

    def _take_state(self, with_state: Sequence[str]) -> None:
        """Gives each worker the state and options of rank 0's optimizers that have any, such as
        those that rank 0 alone has read from a checkpoint."""
        from ._collectives import of
        from ._compat.functions import broadcast_optimizer_state

        for i, o in enumerate(self.optimizers):
            if _layout.title_of(i, o) in with_state:
                broadcast_optimizer_state(of(self.store), o, 0)

    def _places(self) -> Iterator[_Member]:
        seen = set()
        for path, module in self.model.named_modules():
            for attribute, p in module._parameters.items():
                if p is not None and id(p) not in seen:
                    seen.add(id(p))
                    yield _Member(self._names[id(p)], p, module._parameters, attribute)

    def _register(self) -> None:
        # Hooks and nodes live as long as this list.
        self._handles: List[List[Any]] = []
        for s in self._exchange.slots:
            self._handles.append(_hooks.on_gradient(s.parameter, self._exchange.hook(s)))
        for r in self._exchange.rows:
            self._handles.append(_hooks.on_gradient(r.parameter, self._exchange.hook_rows(r)))
        self._outer = self._exchange.outer
        _hooks.watch_nesting(self._outer)
        self._watch_steps()

    def _watch_steps(self) -> None:
        self._ends = [_hooks.before_step(o, self._before_step) for o in self.optimizers]

    def detach(self) -> None:
        """Takes the hooks off again. The keys stay on the servers, so the same model attached again
        has another name."""
        for h in self._handles:
            h[0].remove()
        for end in self._ends:
            end()
        self._handles, self._ends = [], []
        _hooks.unwatch_nesting(self._outer)
        if self in _registry:
            _registry.remove(self)

    def __repr__(self) -> str:
        kinds = ", ".join(type(o).__name__ for o in self.optimizers) or "no optimizer"
        return (
            f"<{type(self.model).__name__} attached as {self.name or 'the first model'}: "
            f"{len(self.parameters)} parameters, {kinds} {_WHERE[self.mode]}>"
        )

    # ------------------------------------------------------------------ a loop's calls

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backwards in this block only add to ``.grad``."""
        self._muted += 1
        try:
            yield
        finally:
            self._muted -= 1

    def synchronize(self) -> None:
        """Exchanges gradients that have only been accumulated. Without such it does nothing, so a
        second call costs nothing and changes nothing."""
        if self._unsent:
            self._exchange.now()

    @property
    def examples(self) -> Optional[int]:
        """The examples of the turn's batch, which are its weight in the mean; 0 for a batch that
        is only repeated. None, as in jobs without a sampler of ours: every worker has weight 1."""
        return self._turn.examples

    @examples.setter
    def examples(self, examples: Optional[int]) -> None:
        self._turn.begin(examples, accumulated=self._unsent)

    @property
    def exchanged(self) -> bool:
        """Whether the exchange of the turn has been made."""
        return self._turn.exchanged

    def flush(self) -> None:
        """Ends the turn: if it had no exchange, takes part in every key's round with weight 0, so
        that no other worker waits. ``.grad`` stays as it is."""
        if self._turn.examples is not None and not self._turn.exchanged:
            self._exchange.contribute_nothing()
            self._turn.contributed_nothing()

    def average_buffers(self) -> None:
        """Averages buffers of float types over all workers. Every worker calls it."""
        self._buffers.average()

    def loaded(self) -> None:
        """Says that the parameters have been set by other means than training, such as
        ``model.load_state_dict``, to the same values on every worker. With the servers' optimizer
        every worker calls it, and rank 0's values go to the servers; else it does nothing."""

    # ------------------------------------------------------------------ what the exchange asks

    def _local(self) -> bool:
        return self._muted > 0 or self._passed + 1 < self._passes

    def _weight_of(self) -> Tuple[float, int]:
        return self._turn.weight()

    def _refusal(self) -> Optional[ParagonError]:
        if not self._turn.is_over:
            return None
        return ConflictError(
            f"a second backward() reached {type(self.model).__name__} in one turn of "
            "ElasticSampler, which has one exchange. Put all others into no_sync(model): those "
            "before the last that a step adds up, and those after its step, as of a GAN's "
            "generator through its discriminator. Or give attach backward_passes_per_step"
        )

    def _end_pass(self, exchanged: bool) -> None:
        if not exchanged:
            self._unsent = True
            if not self._muted:
                self._passed += 1
            return
        self._unsent, self._passed = False, 0
        if self._turn.examples is None:
            _say_no_sampler(self.store)
        self._turn.was_exchanged()
        if not self._compiled_logged:
            self._log_compiled()

    def _buffers_due(self) -> bool:
        return self._buffers.due()

    def _log_compiled(self) -> None:
        import sys

        utils = sys.modules.get("torch._dynamo.utils")
        if utils is None or not utils.counters.get("stats", {}).get("unique_graphs"):
            return
        self._compiled_logged = True
        _layout.log_once(
            "compiled",
            "torch.compile is in use: a compiled graph hands over all its gradients when its "
            "backward has ended, so their exchange does not overlap with it; results are the same",
        )

    # ------------------------------------------------------------------ before a step

    def _before_step(self) -> None:
        self.store.check_process()
        if self._exchange.half_open:
            raise self._exchange.half_done()
        self._check()
        self.synchronize()

    def _sizes(self) -> List[int]:
        return [len(g["params"]) for o in self.optimizers for g in o.param_groups]

    def _check(self) -> None:
        for m in self._members:
            m.check()
        if self._sizes() != self._group_sizes:
            _layout.check_groups(self.optimizers, self._names)
            self._group_sizes = self._sizes()
