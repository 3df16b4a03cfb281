"""DistributedOptimizer: the user's own optimizer, whose gradients are combined during backward."""

from __future__ import annotations

import collections
import contextlib
import types
from typing import Any, Callable, Iterable, Iterator, List, Optional, Set, Tuple

import torch

from paragon import Store

from .. import _attach, _hooks


class Parameters(torch.nn.Module):
    """Parameters by name, for an optimizer that is given without its model."""

    def __init__(self, named: List[Tuple[str, torch.Tensor]]) -> None:
        super().__init__()
        # register_parameter refuses names with dots, which the model's own names have.
        self._parameters.update(named)  # type: ignore[arg-type]


class Combined(_attach.Attached):
    """Parameters whose gradients are the mean, or the sum, over all workers after each backward."""

    def __init__(
        self,
        module: torch.nn.Module,
        store: Store,
        compression: Optional[str],
        passes: int = 1,
        total: bool = False,
        dense: bool = False,
    ) -> None:
        self._total = total
        # The parameters whose gradients are made dense, and sparse again when they are combined.
        self._sparse: Set[torch.Tensor] = set()
        if dense:
            # Hooks are called in their order: these come before those of attach.
            self._dense_hooks = [
                _hooks.on_gradient(p, self._make_dense(p))
                for p in module.parameters()
                if p.requires_grad
            ]
        super().__init__(module, None, store, None, None, compression, passes)
        _attach.register(self)

    def step_by(self, optimizer: torch.optim.Optimizer) -> None:
        """Checks before each step of the optimizer that gradients are combined.

        Attached is made without it: its learning rate may differ by worker until the program
        broadcasts its state, and on a worker that joins, which attach refuses."""
        self.optimizer, self.optimizers = optimizer, [optimizer]
        self._group_sizes = self._sizes()
        self._ends = [_hooks.before_step(optimizer, self._before_step)]

    def set_passes(self, passes: int) -> None:
        """Sets how many backwards are summed before an exchange."""
        if passes < 1:
            raise ValueError(f"backward_passes_per_step of {passes}; want at least 1")
        self._passes = passes

    def _make_dense(self, p: torch.Tensor) -> Callable[[], None]:
        def arrived() -> None:
            if p.grad is not None and p.grad.is_sparse:
                self._sparse.add(p)
                p.grad = p.grad.to_dense()

        return arrived

    def _end_pass(self, exchanged: bool) -> None:
        """Ends a pass: makes sums of means, and gradients sparse that were so."""
        if exchanged:
            with torch.no_grad():
                self._finish()
        super()._end_pass(exchanged)

    def _finish(self) -> None:
        factor = self.store.num_workers if self._total else 1
        for _, p in self.parameters:
            if p.grad is not None and factor > 1:
                p.grad.mul_(factor)
        for p in self._sparse:
            if p.grad is not None:
                p.grad = p.grad.to_sparse()
        self._sparse.clear()


def named_parameters_of(
    optimizer: torch.optim.Optimizer,
    named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]],
    unnamed: str,
) -> List[Tuple[str, torch.Tensor]]:
    """Returns a name for each parameter of the optimizer, in the order of the names given.

    Raises ValueError where two parameters have one name, or one of the optimizer's has none."""
    groups = optimizer.param_groups
    if named_parameters is None:
        return [
            (f"{unnamed}.{i}.{j}", p)
            for i, group in enumerate(groups)
            for j, p in enumerate(group["params"])
        ]
    named = list(named_parameters)
    if any(not isinstance(n, tuple) for n in named):
        raise ValueError(
            "named_parameters is no sequence of tuples (name, parameter); give it "
            "model.named_parameters()"
        )
    counts = collections.Counter(n for n, _ in named)
    twice = sorted(n for n, count in counts.items() if count > 1)
    if twice:
        raise ValueError(f"parameter names must be unique; found twice: {', '.join(twice)}")
    known = {id(p) for _, p in named}
    for i, group in enumerate(groups):
        for j, p in enumerate(group["params"]):
            if id(p) not in known:
                raise ValueError(
                    f"parameter {j} of group {i} of the optimizer ({tuple(p.shape)}) is not in "
                    f"named_parameters; name all parameters, or none"
                )
    used = {id(p) for group in groups for p in group["params"]}
    return [(n, p) for n, p in named if id(p) in used]


def distribute(optimizer: torch.optim.Optimizer, combined: Combined) -> torch.optim.Optimizer:
    """Gives the optimizer the methods that programs call, and returns it: the same object."""
    combined.step_by(optimizer)

    def synchronize(self: torch.optim.Optimizer) -> None:
        """Makes each gradient the combined one, if it is not yet. A second call does nothing."""
        combined.synchronize()

    @contextlib.contextmanager
    def skip_synchronize(self: torch.optim.Optimizer) -> Iterator[None]:
        """A block whose step() follows synchronize(). It changes nothing here, since gradients
        are combined once, at the end of backward."""
        yield

    def set_backward_passes_per_step(self: torch.optim.Optimizer, passes: int) -> None:
        """Sets how many backward passes are added up before gradients are combined."""
        combined.set_passes(passes)

    target: Any = optimizer
    for method in (synchronize, skip_synchronize, set_backward_passes_per_step):
        setattr(target, method.__name__, types.MethodType(method, optimizer))
    return optimizer
