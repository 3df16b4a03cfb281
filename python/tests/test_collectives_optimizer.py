"""DistributedOptimizer and the state of optimizers, over stores without processes."""

from __future__ import annotations

import copy
import threading

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from fakestore import run  # noqa: E402

from paragon.errors import UsageError  # noqa: E402
from paragon.torch import _collectives  # noqa: E402
from paragon.torch._compat import compression, functions  # noqa: E402
from paragon.torch._compat.optimizer import (  # noqa: E402
    Combined,
    Parameters,
    distribute,
    named_parameters_of,
)


# Workers are threads here, and torch has one random generator for all.
_random = threading.Lock()


def net(seed: int) -> torch.nn.Module:
    with _random:
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


def distributed(store, model, optimizer, passes=1, total=False):
    named = named_parameters_of(optimizer, model.named_parameters(), "unnamed")
    return distribute(optimizer, Combined(Parameters(named), store, None, passes, total))


def loss(model: torch.nn.Module, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (model(torch.randn(5, 4, generator=generator)) ** 2).mean()


@pytest.mark.parametrize("total", [False, True])
def test_gradients_are_the_mean_or_the_sum(total: bool) -> None:
    def body(store):
        model = net(store.rank)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        assert distributed(store, model, optimizer, total=total) is optimizer
        loss(model, store.rank).backward()
        return [p.grad.clone() for p in model.parameters()]

    alone = net(0)
    (sum(loss(alone, r) for r in range(3)) / (1 if total else 3)).backward()
    for got in run(3, body):
        for g, p in zip(got, alone.parameters()):
            torch.testing.assert_close(g, p.grad, rtol=1e-5, atol=1e-7)


def test_passes_are_summed_and_synchronize_is_idempotent() -> None:
    def body(store):
        model = net(0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        distributed(store, model, optimizer, passes=2)
        loss(model, store.rank).backward()
        before = len(store.sent)
        loss(model, 10 + store.rank).backward()
        optimizer.synchronize()
        first = [p.grad.clone() for p in model.parameters()]
        count = len(store.sent)
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        with optimizer.skip_synchronize():
            optimizer.step()
        assert len(store.sent) == count > before
        # A step before the passes are complete combines what there is.
        optimizer.set_backward_passes_per_step(5)
        optimizer.zero_grad()
        loss(model, store.rank).backward()
        optimizer.step()
        assert len(store.sent) > count
        return first, [p.detach().clone() for p in model.parameters()]

    alone = net(0)
    (sum(loss(alone, r) + loss(alone, 10 + r) for r in range(2)) / 2).backward()
    results = run(2, body)
    for first, _ in results:
        for g, p in zip(first, alone.parameters()):
            torch.testing.assert_close(g, p.grad, rtol=1e-5, atol=1e-7)
    assert all(torch.equal(a, b) for a, b in zip(results[0][1], results[1][1]))


@pytest.mark.parametrize("dense", [True, False])
def test_sparse_gradients(dense: bool) -> None:
    def body(store):
        table = torch.nn.Embedding(5, 2, sparse=True)
        named = list(table.named_parameters())
        optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
        distribute(optimizer, Combined(Parameters(named), store, None, dense=dense))
        loss = table(torch.tensor([store.rank, store.rank, 4])).sum()
        if not dense:
            with pytest.raises(UsageError, match="sparse_as_dense=True"):
                loss.backward()
            return None
        loss.backward()
        gradient = table.weight.grad
        optimizer.step()
        return gradient.is_sparse, gradient.to_dense()[:, 0].tolist(), table.weight.detach().clone()

    first, second = run(2, body)
    if dense:
        assert first[:2] == second[:2] == (True, [1.0, 1.0, 0.0, 0.0, 1.0])
        assert torch.equal(first[2], second[2])


def test_another_learning_rate_on_each_worker_is_no_error() -> None:
    def body(store):
        model = net(0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (1 + store.rank))
        distributed(store, model, optimizer)
        functions.broadcast_optimizer_state(_collectives.of(store), optimizer, 1)
        return optimizer.param_groups[0]["lr"]

    assert run(2, body) == [0.2, 0.2]


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW, torch.optim.LBFGS])
@pytest.mark.parametrize("root", [0, 1])
def test_state_of_an_optimizer_goes_to_all_without_a_step(kind, root: int) -> None:
    options = {"momentum": 0.9} if kind is torch.optim.SGD else {}

    def body(store):
        model = net(store.rank)
        optimizer = kind(model.parameters(), lr=0.01 * (1 + store.rank), **options)
        if store.rank == root:
            closure = lambda: loss(model, 3)  # noqa: E731

            def full() -> torch.Tensor:
                optimizer.zero_grad()
                value = closure()
                value.backward()
                return value

            optimizer.step(full)
        weights = [p.detach().clone() for p in model.parameters()]
        functions.broadcast_optimizer_state(_collectives.of(store), optimizer, root)
        assert all(torch.equal(a, b) for a, b in zip(weights, model.parameters()))
        return copy.deepcopy(optimizer.state_dict())

    first, second = run(2, body)
    assert first["param_groups"] == second["param_groups"] and first["state"]
    assert same(first["state"], second["state"])


def same(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return a == b


def test_state_that_root_does_not_have_is_removed() -> None:
    def body(store):
        model = net(0)
        optimizer = torch.optim.Adam(model.parameters())
        if store.rank == 1:
            loss(model, 1).backward()
            optimizer.step()
        functions.broadcast_optimizer_state(_collectives.of(store), optimizer, 0)
        return len(optimizer.state_dict()["state"])

    assert run(2, body) == [0, 0]


def test_parameters_by_dict_list_and_generator() -> None:
    def body(store):
        c, models = _collectives.of(store), [net(store.rank) for _ in range(4)]
        functions.broadcast_parameters(c, models[0].state_dict(), 1)
        functions.broadcast_parameters(c, models[1].named_parameters(), 1)
        functions.broadcast_parameters(c, list(models[2].parameters()), 1)
        functions.broadcast_parameters(c, models[3].parameters(), 1)
        return [[p.detach().clone() for p in m.parameters()] for m in models]

    want = list(net(1).parameters())
    for models in run(2, body):
        assert all(torch.equal(a, b) for m in models for a, b in zip(m, want))


def test_what_is_refused_by_name() -> None:
    model = net(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    pairs = list(model.named_parameters())
    with pytest.raises(ValueError, match="parameter names must be unique; found twice: 0.weight"):
        named_parameters_of(optimizer, pairs + pairs[:1], "x")
    with pytest.raises(ValueError, match="parameter 3 of group 0 of the optimizer"):
        named_parameters_of(optimizer, pairs[:3], "x")
    with pytest.raises(ValueError, match="no sequence of tuples"):
        named_parameters_of(optimizer, list(model.parameters()), "x")
    with pytest.raises(ValueError, match="parameters of type Tensor; want a dict"):
        functions.named_tensors(torch.zeros(3))
    with pytest.raises(TypeError, match="parameter 'a' is of type int"):
        functions.named_tensors({"a": 3})
    with pytest.raises(NotImplementedError, match="for gradients; use Compression.none"):
        compression.kind_of(object())
