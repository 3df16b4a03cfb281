"""attach with the servers' optimizer: gradients go up, weights come down, no worker keeps state.

What torch's optimizer does is told to the servers exactly, or refused by the name of what differs.
The servers' learning rate is 1, and each exchange scales it with the rate of its parameter group,
so that schedulers act as they do in one process.
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import torch

from paragon._store import Entry, Store
from paragon.errors import ConflictError, UnsupportedError, UsageError

from . import _hooks, _safetensors
from ._attach import Attached
from ._exchange import GradientExchange, Group, Policy, Slot, grouped

# What stands for 0: to the servers 0 is "not given", and a factor of 0 leaves even the optimizer's
# state alone.
_NEARLY_ZERO = 1e-30

_LOCAL = 'use optimizer="local", which steps in each process'


# ---------------------------------------------------------------------- torch's rules as ours


def _never_zero(value: Any) -> float:
    return float(value) or _NEARLY_ZERO


class _Rule:
    """How one of torch's optimizers is told to the servers."""

    def __init__(
        self,
        name: Callable[[Mapping[str, Any]], str],
        numbers: Callable[[Mapping[str, Any]], Dict[str, Any]],
        refused: Mapping[str, Any],
        slots: Mapping[str, Tuple[str, float]],
    ) -> None:
        self.name = name
        self.numbers = numbers
        # Options that must have these values.
        self.refused = refused
        # The servers' slots as torch names them, and what they are multiplied with.
        self.slots = slots


def _momentum(group: Mapping[str, Any]) -> Dict[str, Any]:
    if not group["momentum"]:
        return {"momentum": 0.0}
    # torch's velocity is of gradients: it does not hold the learning rate.
    return {"momentum": float(group["momentum"]), "velocity": "gradients"}


def _adam(group: Mapping[str, Any]) -> Dict[str, float]:
    beta1, beta2 = group["betas"]
    return {
        "beta1": _never_zero(beta1),
        "beta2": _never_zero(beta2),
        "epsilon": _never_zero(group["eps"]),
    }


def _rmsprop(group: Mapping[str, Any]) -> Dict[str, Any]:
    return {
        "rho": _never_zero(group["alpha"]),
        "epsilon": _never_zero(group["eps"]),
        **_momentum(group),
        "centered": bool(group["centered"]),
    }


def _adagrad(group: Mapping[str, Any]) -> Dict[str, float]:
    return {
        "epsilon": _never_zero(group["eps"]),
        "initial_accumulator": float(group["initial_accumulator_value"]),
    }


_MOMENTS = {"mean": ("exp_avg", 1.0), "variance": ("exp_avg_sq", 1.0)}
# The servers add the velocity to the weights, torch subtracts it.
_VELOCITY = {"momentum": ("momentum_buffer", -1.0)}

_RULES: Dict[type, _Rule] = {
    torch.optim.SGD: _Rule(
        # Without momentum torch ignores dampening; with one the first step would differ, too.
        lambda g: "nag" if g["nesterov"] else "sgd",
        _momentum,
        {"dampening": 0},
        _VELOCITY,
    ),
    torch.optim.Adam: _Rule(
        lambda g: "adamw" if g.get("decoupled_weight_decay") else "adam",
        _adam,
        {"amsgrad": False},
        _MOMENTS,
    ),
    torch.optim.AdamW: _Rule(lambda g: "adamw", _adam, {"amsgrad": False}, _MOMENTS),
    torch.optim.Adagrad: _Rule(
        lambda g: "adagrad", _adagrad, {"lr_decay": 0}, {"accumulator": ("sum", 1.0)}
    ),
    torch.optim.RMSprop: _Rule(
        lambda g: "rmsprop",
        _rmsprop,
        {},
        {"square": ("square_avg", 1.0), "mean": ("grad_avg", 1.0), **_VELOCITY},
    ),
}


def rule_of(optimizer: Any) -> _Rule:
    """The rule of an optimizer that the servers have; else UnsupportedError, which names it."""
    rule = _RULES.get(type(optimizer))
    if rule is None:
        names = ", ".join(sorted(t.__name__ for t in _RULES))
        raise UnsupportedError(
            f"attach: the servers have no optimizer {type(optimizer).__module__}."
            f"{type(optimizer).__name__}, only torch's {names}: {_LOCAL}"
        )
    return rule


def config_of(optimizer: Any, names: Mapping[int, str], prefix: str = "") -> Dict[str, Any]:
    """The servers' configuration for one of torch's optimizers, whose parameters have these names.
    UnsupportedError names what the servers would do otherwise."""
    kind, rule = type(optimizer).__name__, rule_of(optimizer)
    groups = optimizer.param_groups
    wanted = {"maximize": False, "differentiable": False, **rule.refused}
    for g, group in enumerate(groups):
        for option, value in wanted.items():
            if option == "dampening" and not group["momentum"]:
                continue
            if group.get(option, value) != value:
                raise UnsupportedError(
                    f"attach: {kind}.param_groups[{g}]['{option}'] is {group[option]}, and the "
                    f"servers' optimizer has only {value}: {_LOCAL}"
                )
    told = [{"name": rule.name(g), **rule.numbers(g)} for g in groups]
    for g, other in enumerate(told[1:], 1):
        for option in other:
            if other[option] != told[0][option]:
                raise UnsupportedError(
                    f"attach: {kind}.param_groups[{g}] has {option} {other[option]}, group 0 has "
                    f"{told[0][option]}: on the servers groups may differ in lr and weight_decay "
                    f"alone: {_LOCAL}"
                )
    config: Dict[str, Any] = {**told[0], "learning_rate": 1.0, "reduction": "mean"}
    decays = [float(g["weight_decay"]) for g in groups]
    most = max(decays)
    config["weight_decay"] = most
    if min(decays) != most:
        config["weight_decay_factors"] = [
            {"keys": prefix + names[id(p)], "factor": decay / most}
            for group, decay in zip(groups, decays)
            for p in group["params"]
            if decay != most
        ]
    return {k: v for k, v in config.items() if v not in (0.0, False)}


def options_of(group: Mapping[str, Any]) -> Dict[str, Any]:
    """What of a group must not change after attach: all but the rate, and what schedulers keep."""
    own = {"params", "lr", "initial_lr", "foreach", "fused", "capturable", "param_names"}
    return {k: v for k, v in group.items() if k not in own}


# ---------------------------------------------------------------------- the exchange


class ServerExchange(GradientExchange):
    """The exchange of gradients for weights. A pass ends without a wait: the weights are waited for
    in step(), which puts them into the parameters.

    A parameter for which no worker had a gradient must not be touched, although Adam and weight
    decay would move it: all contribute weight 0 to it then. Who had no gradient while others had
    one contributes zeros at full weight. So a worker without some gradients first asks for the
    flags of all."""

    def __init__(
        self,
        store: Store,
        prefix: str,
        parameters: Sequence[Tuple[str, torch.Tensor]],
        policy: Policy,
        group_of: Sequence[int],
        rates: Callable[[], List[float]],
    ) -> None:
        self._group_of, self._rates = group_of, rates
        # The rates that the pass was sent with.
        self.sent_rates: List[float] = []
        # The .grad of each slot as it was sent, and its version then.
        self._seen: List[Optional[torch.Tensor]] = [None] * len(parameters)
        self._versions = [0] * len(parameters)
        # The exchange whose weights are to come; None: no pass since the last step.
        self._pending: Optional[int] = None
        super().__init__(store, prefix, parameters, [], policy, "dense")

    # The new weights come into slots of their own: the parameters change in step() alone.
    _each = 2

    def _allocate(self) -> None:
        super()._allocate()
        self._values = [self._seen_as(s, 1) for s in self.slots]

    def _takes_first(self) -> bool:
        # On a worker that joins, too: the keys hold weights.
        return self._store.num_workers > 1 or self._store.joining

    def _make_plan(self) -> None:
        entries: List[Entry] = []
        self._groups: List[Group] = []
        for number in sorted(set(self._group_of)):
            places = [i for i, g in enumerate(self._group_of) if g == number]
            for run in grouped([self.slots[i].parameter.numel() for i in places]):
                group = Group(len(entries), [self.slots[places[i]] for i in run])
                for s in group.slots:
                    s.group = group
                    region, i = s.place
                    entries.append(Entry(s.key, region, i, i + 1))
                self._groups.append(group)
        self._flags_entry = len(entries)
        entries.append(Entry(self._flags_key, self._flags_region, 0, 0))
        self._last = None
        self._plan = self._store.plan(entries)

    # ---- a pass

    def _begin(self) -> None:
        super()._begin()
        if self._local:
            return
        if self._pending is not None and self._failure is None:
            self._failure = ConflictError(
                'a second backward() before step(): with optimizer="server" each backward is a '
                "step of the servers. Add the losses up before one backward(), put all but the "
                "last into no_sync(model), or give attach backward_passes_per_step"
            )
        self._seen = [None] * len(self.slots)
        self.sent_rates = self._rates()

    def _copy(self, slot: Slot, gradient: torch.Tensor) -> None:
        super()._copy(slot, gradient)
        self._seen[slot.index], self._versions[slot.index] = gradient, gradient._version

    def _send(self, first: int, count: int, answer: bool, weight: Optional[float] = None) -> int:
        self._sent_any = True
        factor = 0.0
        if first < self._flags_entry:
            factor = self.sent_rates[self._group_of[self._slot_at(first).index]] or _NEARLY_ZERO
        examples = self._examples
        weight = self._weight if weight is None else weight
        return self._plan.exchange(first, count, weight, examples, answer, factor=factor)

    def _slot_at(self, entry: int) -> Slot:
        for g in self._groups:
            if g.first <= entry < g.first + len(g.slots):
                return g.slots[entry - g.first]
        raise IndexError(entry)

    def _send_rest(self) -> int:
        absent = []
        for s in self.slots:
            if not self._here[s.index]:
                if s.parameter.grad is None:
                    absent.append(s)
                else:
                    self._copy(s, s.parameter.grad)
        self._set_flags()
        weights = {s.index: self._weight for s in self.slots}
        if absent:
            used = self._ask_flags()
            for s in absent:
                s.view.zero_()
                if not used[s.index]:
                    weights[s.index] = 0.0
        for g in self._groups:
            if not g.sent:
                self._send_runs(g, weights)
                g.sent = True
        if absent:
            # An exchange of nothing is answered when all before it have ended.
            number = self._plan.exchange(0, 0, answer=True)
        else:
            number = self._send(self._flags_entry, 1, True)
        return number

    def _send_runs(self, group: Group, weights: Mapping[int, float]) -> None:
        """Sends a group, those of its slots together that have one weight."""
        slots, start = group.slots, 0
        for i in range(1, len(slots) + 1):
            weight = weights[slots[start].index]
            if i == len(slots) or weights[slots[i].index] != weight:
                self._send(group.first + start, i - start, False, weight)
                start = i

    def _ask_flags(self) -> List[bool]:
        """Which parameters had a gradient on some worker: waits for this alone."""
        region = self._flags_region
        keys = [{"key": self._flags_key, "region": region.id, "grad": 0, "out": 0}]
        self._store.request("pushpull", keys=keys, weight=self._weight)
        return [f > 0 for f in self._flags[: self._used].tolist()]

    def _receive(self, number: int) -> None:
        # The weights are waited for in step().
        self._pending = number

    # ---- the step

    @property
    def pending(self) -> bool:
        """Whether a pass has been sent whose weights are not in the parameters yet."""
        return self._pending is not None

    def check_seen(self) -> None:
        """Raises UnsupportedError if a .grad is not what was sent."""
        for s, seen, version in zip(self.slots, self._seen, self._versions):
            gradient = s.parameter.grad
            if gradient is not seen or seen is not None and seen._version != version:
                raise UnsupportedError(
                    f"the gradient of {s.name} was changed between backward() and step(), as "
                    "clip_grad_norm_, clip_grad_value_ and GradScaler do, and the servers have "
                    f"had it already: {_LOCAL}"
                )

    def complete(self) -> None:
        """Waits for the new weights, and puts them into the parameters."""
        assert self._pending is not None
        number, self._pending = self._pending, None
        try:
            self._store.wait(number)
        except KeyboardInterrupt:
            self._pending = number
            raise
        self._seen = [None] * len(self.slots)
        self.take_weights()
        if self._flags[self._due] > 0:
            self._policy.average_buffers()

    def take_weights(self) -> None:
        """Copies the weights that came from the servers into the parameters."""
        with torch.no_grad():
            for s, value in zip(self.slots, self._values):
                s.parameter.copy_(value)

    def pull(self) -> None:
        """Takes the weights that the servers have now."""
        self._store.pull([(s.key, s.place[0], s.place[1] + 1) for s in self.slots])
        self.take_weights()

    def contribute_nothing(self) -> None:
        self.sent_rates = self._rates()
        super().contribute_nothing()
        self.take_weights()

    def _send_all(self) -> int:
        for g in self._groups:
            self._send(g.first, len(g.slots), False)
        return self._send(self._flags_entry, 1, True)


# ---------------------------------------------------------------------- attach


class ServerAttached(Attached):
    """A model that the servers' optimizer trains; attach returns it. ``step()`` of the caller's
    optimizer puts the servers' weights into the parameters, ``state_dict()`` fetches the state from
    the servers under torch's names, and ``load_state_dict()`` puts it there."""

    mode = "server"
    _exchange: ServerExchange

    def _build_exchange(
        self,
        dense: Sequence[Tuple[str, torch.Tensor]],
        sparse: Sequence[Tuple[str, torch.Tensor]],
        compression: Mapping[str, Any],
    ) -> None:
        if len(self.optimizers) != 1:
            raise UsageError(
                f"attach: got {len(self.optimizers)} optimizers, and the servers have one: {_LOCAL}"
            )
        own = self.optimizers[0]
        if sparse:
            raise UnsupportedError(
                f"attach: parameter {sparse[0][0]} has sparse gradients, which the servers' "
                f"optimizer does not have for PyTorch: {_LOCAL}"
            )
        if any(float(s.get("step", 1)) > 0 for s in own.state.values()):
            raise UsageError(
                f"attach: {type(own).__name__} has state already: call load_state_dict (or "
                "paragon.torch.load) after attach, which puts it on the servers"
            )
        self._rule = rule_of(own)
        group_of = {id(p): g for g, group in enumerate(own.param_groups) for p in group["params"]}
        for name, p in dense:
            if id(p) not in group_of:
                raise UsageError(
                    f"attach: parameter {name} is in no group of {type(own).__name__}, so the "
                    "servers would not know its rate: set requires_grad=False, or add it"
                )
        self.config = config_of(own, self._names, self.prefix)
        self.store.set_optimizer(self.config)
        # Adagrad makes its state at once; here it is on the servers.
        own.state.clear()
        self._options = [options_of(g) for g in own.param_groups]
        self._exchange = ServerExchange(
            self.store, self.prefix, dense, self, [group_of[id(p)] for _, p in dense], self._rates
        )

    def _rates(self) -> List[float]:
        return [float(g["lr"]) for g in self.optimizers[0].param_groups]

    def _watch_steps(self) -> None:
        own = self.optimizers[0]
        self._ends = [
            _hooks.replace(own, "step", self._step),
            _hooks.replace(own, "state_dict", self._state_dict),
            _hooks.replace(own, "load_state_dict", self._load_state_dict),
        ]

    # ---- step

    def _step(self, original: Callable[..., Any], closure: Any = None, **more: Any) -> None:
        own = self.optimizers[0]
        kind = type(own).__name__
        if closure is not None:
            raise UnsupportedError(
                f"{kind}.step: got a closure, whose backwards would each be a step of the "
                f"servers: {_LOCAL}"
            )
        for hooks in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
            if getattr(own, hooks, None):
                raise UnsupportedError(
                    f"{kind} has step hooks, and the servers have had the gradients: {_LOCAL}"
                )
        self._before_step()
        for g, (group, before) in enumerate(zip(own.param_groups, self._options)):
            now = options_of(group)
            changed = sorted(k for k in now if now[k] != before.get(k))
            if changed:
                raise UnsupportedError(
                    f"{kind}.param_groups[{g}]['{changed[0]}'] was {before.get(changed[0])} at "
                    f"attach and is {now[changed[0]]}: on the servers only lr may change: {_LOCAL}"
                )
        if not self._exchange.pending:
            return
        self._exchange.check_seen()
        rates = self._rates()
        if rates != self._exchange.sent_rates:
            g = next(i for i, r in enumerate(rates) if r != self._exchange.sent_rates[i])
            raise ConflictError(
                f"{kind}.param_groups[{g}]['lr'] was {self._exchange.sent_rates[g]} at backward() "
                f"and is {rates[g]} at step(): the servers had the first. Change rates before "
                "backward() or after step(), as schedulers do"
            )
        self._exchange.complete()
        # What schedulers look at to see that a step was taken.
        own._opt_called = True
        if hasattr(own, "_step_count"):
            own._step_count += 1

    # ---- state

    def _state_dict(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        state = original(*args, **kwargs)
        if self._exchange.pending:
            raise ConflictError("state_dict: a backward() has no step() yet: call step() first")
        tensors, strings = self._saved()
        rounds = {k["name"]: k for k in json.loads(strings["paragon.keys"])}
        found: Dict[int, Dict[str, Any]] = {}
        for number, name in enumerate(self._order()):
            key = rounds.get(self.prefix + name)
            if key is None or not key["round"]:
                continue
            found[number] = {}
            if self._counts_steps():
                found[number]["step"] = torch.tensor(float(key["round"]))
            for slot in key.get("slots") or ():
                torchs, sign = self._rule.slots[slot]
                found[number][torchs] = tensors[f"{key['name']}/{slot}"].clone() * sign
        state["state"] = found
        return state

    def _counts_steps(self) -> bool:
        return not isinstance(self.optimizers[0], torch.optim.SGD)

    def _order(self) -> List[str]:
        """The parameters' names as state_dict numbers them."""
        own = self.optimizers[0]
        return [self._names[id(p)] for g in own.param_groups for p in g["params"]]

    def _saved(self) -> Tuple[Dict[str, torch.Tensor], Dict[str, str]]:
        with tempfile.TemporaryDirectory(prefix="paragon-") as folder:
            path = os.path.join(folder, "store.safetensors")
            self.store.save(path)
            return _safetensors.read(path)

    def _load_state_dict(self, original: Callable[..., Any], state: Mapping[str, Any]) -> None:
        """Every worker calls it, with the same state; rank 0's counts. Groups come first, so that
        a state which does not fit is an error before anything changes."""
        bare = {**state, "state": {}}
        original(bare)
        order = self._order()
        slots: Dict[str, Dict[str, torch.Tensor]] = {}
        steps: Dict[str, int] = {}
        for number, values in state["state"].items():
            name = order[number]
            ours = slots.setdefault(name, {})
            for slot, (torchs, sign) in self._rule.slots.items():
                if isinstance(values.get(torchs), torch.Tensor):
                    ours[slot] = values[torchs].detach().float() * sign
            steps[name] = int(values.get("step", 1))
        self._restore(slots, steps, {})

    def loaded(self) -> None:
        """Puts the parameters, which were read from a file, on the servers."""
        self._restore({}, {}, {n: s.parameter.detach() for n, s in self._slots_by_name().items()})

    def _slots_by_name(self) -> Dict[str, Slot]:
        return {s.name: s for s in self._exchange.slots}

    def _restore(
        self,
        slots: Mapping[str, Mapping[str, torch.Tensor]],
        steps: Mapping[str, int],
        values: Mapping[str, torch.Tensor],
    ) -> None:
        """Gives the servers other state: rank 0 takes what they have as a file and puts the new
        tensors into it, and all load that."""
        with tempfile.TemporaryDirectory(prefix="paragon-") as folder:
            path = os.path.join(folder, "store.safetensors")
            # Nobody may push while rank 0 saves.
            self.store.barrier()
            if self.store.rank == 0:
                self.store.save(path)
                tensors, strings = _safetensors.read(path)
                _put(tensors, strings, self.prefix, slots, steps, values)
                os.unlink(path)
                _safetensors.write(path, tensors, strings)
            self.store.load(path)
        self._exchange.pull()


def _put(
    tensors: Dict[str, torch.Tensor],
    strings: Dict[str, str],
    prefix: str,
    slots: Mapping[str, Mapping[str, torch.Tensor]],
    steps: Mapping[str, int],
    values: Mapping[str, torch.Tensor],
) -> None:
    """Changes a file of Store.save in memory."""
    keys = json.loads(strings["paragon.keys"])
    for key in keys:
        name = key["name"]
        shape = tensors[name].shape
        if name.startswith(prefix):
            own = name[len(prefix) :]
            if own in slots:
                key["round"] = steps[own]
                key["slots"] = sorted(slots[own], key=list(key.get("slots") or slots[own]).index)
                for slot, t in slots[own].items():
                    tensors[f"{name}/{slot}"] = t
            if own in values:
                tensors[name] = values[own].float()
        for part in [name, *(f"{name}/{slot}" for slot in key.get("slots") or ())]:
            tensors[part] = tensors[part].reshape(shape)
    strings["paragon.keys"] = json.dumps(keys)
