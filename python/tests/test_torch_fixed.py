"""Jobs of fixed size: when backward() returns, .grad is the mean over all workers."""

from __future__ import annotations

import contextlib
import copy
import logging
import re
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import paragon.torch as pt  # noqa: E402
from paragon.errors import ConflictError, UnavailableError, UsageError  # noqa: E402
from paragon.torch import _attach  # noqa: E402
from fakestore import FakeJob, FakeStore, run  # noqa: E402

torch.set_num_threads(1)


_building = threading.Lock()


@contextlib.contextmanager
def seeded(seed: int):
    """Draws from a seed while other threads may do the same."""
    with _building:
        torch.manual_seed(seed)
        yield


@pytest.fixture(autouse=True)
def empty_registry():
    yield
    for a in list(_attach._registry):
        a.detach()


def mlp(seed: int = 0) -> nn.Module:
    with seeded(seed):
        return nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.Linear(300, 5))


def batch(examples: int = 24):
    g = torch.Generator().manual_seed(7)
    return torch.randn(examples, 20, generator=g), torch.randint(0, 5, (examples,), generator=g)


def train(model, opt, x, y, steps=4, **zero):
    loss_of = nn.CrossEntropyLoss()
    losses = []
    for _ in range(steps):
        loss = loss_of(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad(**zero)
        losses.append(loss.item())
    return losses


def params(model):
    return [p.detach().clone() for p in model.parameters()]


def make(name, model):
    if name == "sgd":
        return torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=0.01)
    return torch.optim.AdamW(model.parameters(), 0.01)


@pytest.mark.parametrize("opt", ["sgd", "adamw"])
@pytest.mark.parametrize("none", [True, False])
def test_one_worker_is_the_same_bit_for_bit(opt, none):
    x, y = batch()
    plain = mlp()
    losses = train(plain, make(opt, plain), x, y, set_to_none=none)

    def body(store):
        model = mlp()
        o = make(opt, model)
        pt.attach(model, o, store)
        assert train(model, o, x, y, set_to_none=none) == losses
        for a, b in zip(params(plain), params(model)):
            assert torch.equal(a, b)

    run(1, body)


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("none", [True, False])
def test_workers_equal_one_process_on_the_whole_batch(workers, none):
    x, y = batch()
    plain = mlp()
    train(plain, make("sgd", plain), x, y)

    def body(store):
        # Only rank 0's first values count.
        model = mlp(store.rank)
        o = make("sgd", model)
        pt.attach(model, o, store)
        train(model, o, x[store.rank :: workers], y[store.rank :: workers], set_to_none=none)
        return params(model)

    got = run(workers, body)
    for r in range(workers):
        for a, b, c in zip(params(plain), got[0], got[r]):
            assert torch.equal(b, c)
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_large_parameters_are_sent_at_once_and_small_ones_together():
    def body(store):
        model = nn.Sequential(*[nn.Linear(40, 40) for _ in range(6)], nn.Linear(40, 200))
        pt.attach(model, torch.optim.SGD(model.parameters(), 0.1), store)
        model(torch.ones(2, 40)).sum().backward()
        del store.sent[0:]
        model.zero_grad()
        model(torch.ones(2, 40)).sum().backward()
        # 200 × 40 alone; its bias and three layers of 1,600 + 40; the other three, the flags.
        assert [s[0] for s in store.sent] == [1, 7, 7]
        assert [s[3] for s in store.sent] == [False, False, True]

    run(1, body)


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with seeded(3):
            self.a, self.b, self.c, self.never = (nn.Linear(4, 4) for _ in range(4))

    def forward(self, x, which):
        return (self.c(self.a(x)) if which == 0 else self.c(self.b(x))).sum()


def test_unused_parameters_count_as_zeros_and_stay_none_where_nobody_used_them():
    x = torch.ones(3, 4)

    def body(store):
        model = Branches()
        opt = torch.optim.Adam(model.parameters(), 0.1, weight_decay=0.1)
        pt.attach(model, opt, store)
        model(x, store.rank).backward()
        assert model.never.weight.grad is None
        before = model.never.weight.detach().clone()
        opt.step()
        assert torch.equal(before, model.never.weight)
        return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}

    grads = []
    for which in (0, 1):
        model = Branches()
        model(x, which).backward()
        grads.append({n: p.grad for n, p in model.named_parameters()})
    for got in run(2, body):
        assert sorted(got) == ["a.bias", "a.weight", "b.bias", "b.weight", "c.bias", "c.weight"]
        for n, g in got.items():
            both = [d[n] if d[n] is not None else torch.zeros_like(g) for d in grads]
            torch.testing.assert_close(g, (both[0] + both[1]) / 2)


def test_a_gradient_that_was_given_back_to_none_is_right_in_the_next_step():
    def body(store):
        model = Branches()
        opt = torch.optim.SGD(model.parameters(), 0.1)
        pt.attach(model, opt, store)
        for which in (0, 1, 0):
            model(torch.ones(3, 4), which).backward()
            used = model.a if which == 0 else model.b
            other = model.b if which == 0 else model.a
            assert used.weight.grad is not None and other.weight.grad is None
            opt.zero_grad(set_to_none=True)

    run(2, body)


def test_tied_weights():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            with seeded(1):
                self.embed = nn.Embedding(30, 8)
                self.out = nn.Linear(8, 30, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, ids):
            return self.out(self.embed(ids))

    ids = torch.arange(12)
    plain = Tied()
    nn.functional.cross_entropy(plain(ids), ids).backward()

    def body(store):
        model = Tied()
        a = pt.attach(model, torch.optim.SGD(model.parameters(), 0.1), store)
        assert [n for n, _ in a.parameters] == ["embed.weight"]
        part = ids[store.rank :: 2]
        nn.functional.cross_entropy(model(part), part).backward()
        torch.testing.assert_close(model.out.weight.grad, plain.out.weight.grad)

    run(2, body)


def test_channels_last_and_other_orders_of_memory(caplog):
    caplog.set_level(logging.INFO, "paragon.torch")

    def net():
        with seeded(2):
            model = nn.Sequential(nn.Conv2d(3, 70, 3), nn.Conv2d(70, 4, 3))
            model = model.to(memory_format=torch.channels_last)
            model.extra = nn.Parameter(torch.randn(6, 5).t())
            model.gaps = nn.Parameter(torch.randn(6, 10)[:, ::2])
        return model

    g = torch.Generator().manual_seed(1)
    x = torch.randn(4, 3, 8, 8, generator=g).to(memory_format=torch.channels_last)

    def loss(model, x):
        return model(x).pow(2).mean() + model.extra.pow(2).sum() + model.gaps.pow(3).sum()

    plain = net()
    loss(plain, x).backward()

    def body(store):
        model = net()
        pt.attach(model, torch.optim.SGD(model.parameters(), 0.1), store)
        loss(model, x[2 * store.rank :][:2]).backward()
        for (n, p), q in zip(model.named_parameters(), plain.parameters()):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-6)
            if n not in ("gaps",):
                assert p.grad.stride() == p.stride()

    run(2, body)
    assert "gaps has strides" in caplog.text
    assert "extra has strides" not in caplog.text


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_converted(dtype):
    def body(store):
        model = nn.Module()
        model.w = nn.Parameter(torch.tensor([1.5, -2.0, 3.25]).to(dtype) + store.rank)
        model.unused = nn.Parameter(torch.ones(2).to(dtype))
        pt.attach(model, torch.optim.SGD(model.parameters(), 0.1), store)
        assert model.w.tolist() == [1.5, -2.0, 3.25]
        for _ in range(2):
            (model.w.float() * (1.0 + store.rank)).sum().backward()
            assert model.w.grad.dtype == dtype
            assert model.w.grad.tolist() == [1.5, 1.5, 1.5]
            model.w.grad = None

    run(2, body)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
def test_types_that_cannot_travel_are_refused_by_name(dtype):
    model = nn.Module()
    model.good = nn.Parameter(torch.ones(2))
    model.odd = nn.Parameter(torch.ones(2, dtype=dtype))
    with pytest.raises(UsageError, match=f"parameter odd is {dtype}, want float32"):
        pt.attach(model, None, FakeStore(FakeJob(1), 0))


def test_frozen_parameters_and_buffers_of_any_type_are_rank_0s():
    def body(store):
        r = store.rank
        model = nn.Module()
        model.w = nn.Parameter(torch.ones(2))
        model.frozen = nn.Parameter(torch.full((2, 3), 5.0 + r), requires_grad=False)
        model.wide = nn.Parameter(
            torch.full((3,), 0.1 + r, dtype=torch.float64), requires_grad=False
        )
        model.register_buffer("count", torch.tensor(7 + r))
        model.register_buffer("mask", torch.tensor([True, r == 0, False]))
        model.register_buffer("odd", torch.tensor([1, 2, 3 + r], dtype=torch.int8))
        model.register_buffer("mean", torch.full((2, 2), 1.0 + r))
        model.register_buffer("z", torch.tensor([1 + 2j * r]))
        pt.attach(model, torch.optim.SGD([model.w], 0.1), store)
        assert model.frozen.tolist() == [[5.0] * 3] * 2
        assert model.wide.tolist() == [0.1] * 3
        assert model.count.item() == 7 and model.mask.tolist() == [True, True, False]
        assert model.odd.tolist() == [1, 2, 3] and model.mean.tolist() == [[1.0] * 2] * 2
        assert model.z.tolist() == [1 + 0j]

    run(3, body)


def test_batch_norm_statistics_are_averaged_and_constants_stay(monkeypatch):
    monkeypatch.setattr("paragon.torch._buffers.EXCHANGES", 3)
    g = torch.Generator().manual_seed(5)
    x = torch.randn(3, 10, 6, generator=g)

    def body(store):
        with seeded(0):
            model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))
        model.register_buffer("constant", torch.tensor([0.1, 1 / 3]))
        pt.attach(model, torch.optim.SGD(model.parameters(), 0.0), store)
        means = []
        for _ in range(3):
            means.append(model[1].running_mean.clone())
            model(x[store.rank]).pow(2).mean().backward()
        assert model.constant.tolist() == torch.tensor([0.1, 1 / 3]).tolist()
        return means[-1], model[1].running_mean.clone(), model[1].num_batches_tracked.item()

    got = run(3, body)
    assert not torch.equal(got[0][0], got[1][0])
    for mean in (g[1] for g in got):
        assert torch.equal(mean, got[0][1])
    assert [g[2] for g in got] == [3, 3, 3]


def test_two_models_and_their_optimizers():
    def body(store):
        with seeded(0):
            d, g = nn.Linear(3, 1), nn.Linear(2, 3)
        od, og = torch.optim.SGD(d.parameters(), 0.1), torch.optim.SGD(g.parameters(), 0.1)
        a, b = pt.attach(d, od, store), pt.attach(g, og, store)
        assert (a.name, b.name) == ("", "model2")
        z = torch.ones(2, 2) * (store.rank + 1)
        for _ in range(3):
            od.zero_grad()
            sent = len(store.sent)
            (d(torch.ones(2, 3)).mean() - d(g(z).detach()).mean()).backward()
            # The generator takes no part: two keys and the flags of the other.
            assert [s[0] for s in store.sent[sent:]] == [3]
            od.step()
            og.zero_grad()
            d(g(z)).mean().backward()
            og.step()
        assert pt.attached(store) == [a, b]
        return params(d) + params(g)

    got = run(2, body)
    for a, b in zip(*got):
        assert torch.equal(a, b)


def test_two_optimizers_of_one_model():
    def body(store):
        model = mlp()
        opts = [
            torch.optim.SGD(model[0].parameters(), 0.1),
            torch.optim.Adam(model[2].parameters()),
        ]
        pt.attach(model, opts, store)
        x, y = batch()
        nn.functional.cross_entropy(model(x), y).backward()
        for o in opts:
            o.step()
        with pytest.raises(UsageError, match="0.weight is attached already.*in a list"):
            pt.attach(model, opts[0], store, name="again")

    run(1, body)


def test_no_sync_and_passes_per_step_add_up_before_the_exchange():
    x, y = batch(24)
    plain = mlp()
    for part in range(2):
        for r in range(2):
            at = slice(12 * part + 6 * r, 12 * part + 6 * r + 6)
            (nn.functional.cross_entropy(plain(x[at]), y[at]) / 2).backward()
    want = [p.grad for p in plain.parameters()]

    def check(model):
        for p, w in zip(model.parameters(), want):
            torch.testing.assert_close(p.grad, w, rtol=1e-4, atol=1e-6)

    def part(model, store, i):
        at = slice(12 * i + 6 * store.rank, 12 * i + 6 * store.rank + 6)
        nn.functional.cross_entropy(model(x[at]), y[at]).backward()

    def body(store):
        model = mlp()
        a = pt.attach(model, torch.optim.SGD(model.parameters(), 0.1), store)
        for none in (True, False):
            sent = len(store.sent)
            with pt.no_sync(model):
                part(model, store, 0)
            assert len(store.sent) == sent
            part(model, store, 1)
            check(model)
            assert len(store.sent) > sent
            model.zero_grad(set_to_none=none)
        # synchronize() exchanges what was only added up, once.
        with a.no_sync():
            part(model, store, 0)
            part(model, store, 1)
        a.synchronize()
        check(model)
        sent = len(store.sent)
        a.synchronize()
        assert len(store.sent) == sent
        check(model)
        a.detach()
        b = pt.attach(model, a.optimizer, store, backward_passes_per_step=2)
        assert b.name == "model2"
        for _ in range(2):
            model.zero_grad()
            sent = len(store.sent)
            part(model, store, 0)
            assert len(store.sent) == sent
            part(model, store, 1)
            check(model)
        b.detach()

    run(2, body)


def test_a_step_exchanges_what_was_left_of_passes():
    def body(store):
        model = mlp()
        opt = torch.optim.SGD(model.parameters(), 0.1)
        pt.attach(model, opt, store, backward_passes_per_step=4)
        x, y = batch()
        nn.functional.cross_entropy(model(x[store.rank :: 2]), y[store.rank :: 2]).backward()
        opt.step()
        return params(model)

    got = run(2, body)
    for a, b in zip(*got):
        assert torch.equal(a, b)


def test_a_second_backward_before_the_step_adds_its_mean():
    x, y = batch()
    plain = mlp()
    nn.functional.cross_entropy(plain(x), y).backward()
    plain(x).pow(2).mean().backward()

    def body(store):
        model = mlp()
        pt.attach(model, torch.optim.SGD(model.parameters(), 0.1), store)
        xs, ys = x[store.rank :: 2], y[store.rank :: 2]
        out = model(xs)
        nn.functional.cross_entropy(out, ys).backward(retain_graph=True)
        out.pow(2).mean().backward()
        for p, q in zip(model.parameters(), plain.parameters()):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-6)

    run(2, body)


def test_clipping_needs_no_call_of_ours():
    x, y = batch()

    def step(model, xs, ys):
        opt = torch.optim.SGD(model.parameters(), 1.0)
        return opt, lambda: (
            nn.functional.cross_entropy(model(xs), ys).backward(),
            nn.utils.clip_grad_norm_(model.parameters(), 0.01),
            opt.step(),
        )

    plain = mlp()
    step(plain, x, y)[1]()

    def body(store):
        model = mlp()
        opt, go = step(model, x[store.rank :: 2], y[store.rank :: 2])
        pt.attach(model, opt, store)
        go()
        for p, q in zip(model.parameters(), plain.parameters()):
            torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-7)

    run(2, body)


class Scaler:
    """GradScaler's unscale, test for inf and step; torch's own needs a GPU before 2.3."""

    def __init__(self) -> None:
        self.scale, self.skipped = 1024.0, 0

    def step(self, opt):
        grads = [p.grad for g in opt.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g.mul_(1 / self.scale)
        if all(torch.isfinite(g).all() for g in grads):
            opt.step()
        else:
            self.scale, self.skipped = self.scale / 2, self.skipped + 1


@pytest.mark.parametrize("compression", [None, "2bit"])
def test_an_inf_on_one_worker_makes_all_skip(compression):
    def body(store):
        model = mlp()
        opt = torch.optim.SGD(model.parameters(), 0.1)
        pt.attach(model, opt, store, compression=compression)
        assert store.compression == (compression and {"type": compression})
        try:
            scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        except (AttributeError, TypeError):
            scaler = None
        own = Scaler()
        x, y = batch()
        for i in range(3):
            loss = nn.functional.cross_entropy(model(x), y)
            if i == 1 and store.rank == 1:
                loss = loss * float("inf")
            before = params(model)
            if scaler is not None:
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            else:
                (loss * own.scale).backward()
                own.step(opt)
            opt.zero_grad()
            same = all(torch.equal(a, b) for a, b in zip(before, params(model)))
            assert same == (i == 1)
        assert (scaler.get_scale() if scaler else own.scale) == 512.0
        return params(model)

    got = run(2, body)
    for a, b in zip(*got):
        assert torch.equal(a, b)


def test_closures_exchange_each_of_their_backwards():
    x, y = batch()

    def go(model, opt, xs, ys):
        def closure():
            opt.zero_grad()
            loss = model(xs).pow(2).mean()
            loss.backward()
            return loss

        opt.step(closure)

    plain = mlp()
    go(plain, torch.optim.LBFGS(plain.parameters(), max_iter=3), x, y)

    def body(store):
        model = mlp()
        opt = torch.optim.LBFGS(model.parameters(), max_iter=3)
        pt.attach(model, opt, store)
        go(model, opt, x[store.rank :: 2], y)
        for p, q in zip(model.parameters(), plain.parameters()):
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)

    run(2, body)


def embedding_net():
    with seeded(4):
        return nn.ModuleDict({"words": nn.Embedding(50, 3, sparse=True), "out": nn.Linear(3, 1)})


def test_sparse_gradients_stay_sparse():
    ids = [torch.tensor([1, 4, 4, 49]), torch.tensor([4, 7])]

    def loss(model, ids):
        return model["out"](model["words"](ids)).sum()

    want = torch.zeros(50, 3)
    for i in ids:
        plain = embedding_net()
        loss(plain, i).backward()
        want += plain["words"].weight.grad.to_dense() / 2

    def body(store):
        model = embedding_net()
        opt = torch.optim.SGD(model.parameters(), 0.5)
        pt.attach(model, opt, store)
        w = model["words"].weight
        for _ in range(2):
            opt.zero_grad()
            loss(model, ids[store.rank]).backward()
            assert w.grad.layout == torch.sparse_coo and w.grad.is_coalesced()
            assert w.grad.indices().tolist() == [[1, 4, 7, 49]]
            torch.testing.assert_close(w.grad.to_dense(), want)
        opt.zero_grad(set_to_none=True)
        # Nobody uses a row.
        model["out"](torch.ones(1, 3)).sum().backward()
        assert w.grad is None and model["out"].weight.grad is not None
        # One worker uses none; more rows than before.
        many = torch.arange(45) if store.rank == 0 else None
        x = torch.ones(1, 3) if many is None else model["words"](many)
        opt.zero_grad(set_to_none=True)
        model["out"](x).sum().backward()
        assert w.grad.indices().shape[1] == 45
        opt.step()
        assert all("rows" not in key or "words" in key for key in store.job.values)
        return w.detach().clone()

    got = run(2, body)
    assert torch.equal(got[0], got[1])


def test_the_optimizers_state_that_rank_0_has_read_goes_to_all():
    x, y = batch()

    def trained(model, opt, steps):
        for _ in range(steps):
            opt.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            opt.step()

    def body(store):
        model = mlp()
        opt = torch.optim.AdamW(model.parameters(), 1e-3)
        if store.rank == 0:
            before = mlp()
            old = torch.optim.AdamW(before.parameters(), 1e-3)
            trained(before, old, 3)
            old.param_groups[0]["lr"] = 5e-4
            model.load_state_dict(before.state_dict())
            opt.load_state_dict(old.state_dict())
        pt.attach(model, opt, store)
        assert opt.param_groups[0]["lr"] == 5e-4
        assert len(opt.state) == len(list(model.parameters()))
        first = [opt.state[p]["exp_avg"].clone() for p in model.parameters()]
        trained(model, opt, 2)
        steps = {int(opt.state[p]["step"]) for p in model.parameters()}
        return first, steps, [p.detach().clone() for p in model.parameters()]

    a, b = run(2, body)
    assert a[1] == b[1] == {5} and any(t.abs().max() > 0 for t in a[0])
    for ours, theirs in zip(a[0] + a[2], b[0] + b[2]):
        assert torch.equal(ours, theirs)


def test_an_optimizers_state_that_rank_0_lacks_or_that_differs_is_refused():
    def body(store):
        model = mlp()
        rate = 0.2 if both and store.rank == 1 else 0.1
        opt = torch.optim.SGD(model.parameters(), rate, momentum=0.5)
        if store.rank == 1 or both:
            model(torch.ones(1, next(model.parameters()).shape[1])).sum().backward()
            opt.step()
        pt.attach(model, opt, store)

    # With state on both workers the options are compared.
    for both, text in (
        (False, r"Worker 1: optimizer 0: SGD.state of 0.bias: .*. Worker 0: nothing further"),
        (True, r"\['lr'\]: 0.2. Worker 0: .*: 0.1"),
    ):
        with pytest.raises(ConflictError, match=text):
            run(2, body)


def test_rows_count_the_examples_of_their_batch():
    def body(store):
        model = embedding_net()
        a = pt.attach(model, torch.optim.SGD(model.parameters(), 0.5), store)
        for size in (3, 0):
            a.examples = size
            model["out"](model["words"](torch.tensor([1, 4]))).sum().backward()
            a.flush()
        assert store.rows_sent == [("words.weight", 3, 3), ("words.weight", 0, 0)]

    run(1, body)


def test_weights_are_examples():
    x, y = batch(24)
    plain = mlp()
    nn.functional.cross_entropy(plain(x), y).backward()
    cuts = [0, 16, 24, 24]

    def body(store):
        model = mlp()
        a = pt.attach(model, torch.optim.SGD(model.parameters(), 0.1), store)
        lo, hi = cuts[store.rank], cuts[store.rank + 1]
        a.examples = hi - lo
        # A worker without examples repeats a batch at weight 0.
        at = slice(lo, hi) if hi > lo else slice(0, 8)
        nn.functional.cross_entropy(model(x[at]), y[at]).backward()
        for p, q in zip(model.parameters(), plain.parameters()):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-6)
        with pytest.raises(ConflictError, match="no_sync.*backward_passes_per_step"):
            nn.functional.cross_entropy(model(x[at]), y[at]).backward()
        return [s[1:3] for s in store.sent[-1:]]

    assert run(3, body) == [[(16.0, 16)], [(8.0, 8)], [(0.0, 0)]]


def test_a_gan_in_turns():
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))
    z = torch.randn(8, 2, generator=torch.Generator().manual_seed(2))

    def gan():
        with seeded(0):
            d, g = nn.Linear(3, 1), nn.Linear(2, 3)
        return d, g, torch.optim.SGD(d.parameters(), 0.1), torch.optim.SGD(g.parameters(), 0.1)

    def turn(d, g, od, og, x, z, muted):
        od.zero_grad()
        with muted(d):
            d(x).sigmoid().log().mean().neg().backward()
        d(g(z).detach()).mean().backward()
        od.step()
        og.zero_grad()
        with muted(d):
            d(g(z)).mean().neg().backward()
        og.step()

    plain = gan()
    for _ in range(3):
        turn(*plain, x, z, lambda model: contextlib.nullcontext())
    cuts = [0, 6, 8]

    def body(store):
        d, g, od, og = gan()
        both = [pt.attach(d, od, store), pt.attach(g, og, store)]
        own = slice(cuts[store.rank], cuts[store.rank + 1])
        size = cuts[store.rank + 1] - cuts[store.rank]
        for _ in range(3):
            for a in both:
                a.examples = size
            store.sent.clear()
            turn(d, g, od, og, x[own], z[own], pt.no_sync)
            for a in both:
                a.flush()
            # One exchange of each, with the weight of this turn alone.
            assert [s[1:3] for s in store.sent] == [(size, size), (size, size)]
        for p, q in zip([*d.parameters(), *g.parameters()], plain[0].parameters()):
            torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)
        for p, q in zip(g.parameters(), plain[1].parameters()):
            torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)

    run(2, body)


def test_turns_that_only_add_up_are_weighed_with_the_next():
    def body(store):
        model = mlp()
        opt = torch.optim.SGD(model.parameters(), 0.1)
        a = pt.attach(model, opt, store)
        x, y = batch()
        weights = []
        for muted in (True, True, False, False):
            a.examples = 4
            with a.no_sync() if muted else contextlib.nullcontext():
                nn.functional.cross_entropy(model(x), y).backward()
            a.flush()
            weights.append(store.sent[-1][1])
        assert weights == [0.0, 0.0, 12.0, 4.0]

    run(2, body)


def test_a_turn_without_backward_is_flushed():
    def body(store):
        model = mlp()
        a = pt.attach(model, torch.optim.SGD(model.parameters(), 0.1), store)
        x, y = batch()
        a.examples = 4
        nn.functional.cross_entropy(model(x), y).backward()
        sent = len(store.sent)
        a.flush()
        assert len(store.sent) == sent
        kept = [p.grad.clone() for p in model.parameters()]
        a.examples = 4
        a.flush()
        assert store.sent[-1][1:3] == (0.0, 0)
        for p, k in zip(model.parameters(), kept):
            assert torch.equal(p.grad, k)

    run(2, body)


def test_replaced_parameters_are_errors_with_their_name():
    x, y = batch()

    def begin(store, name):
        model = mlp()
        opt = torch.optim.SGD(model.parameters(), 0.1)
        return model, opt, pt.attach(model, opt, store, name=name)

    def body(store):
        model, opt, _ = begin(store, "replaced")
        model[2].weight = nn.Parameter(torch.zeros(5, 300))
        with pytest.raises(ConflictError, match="2.weight was replaced"):
            opt.step()
        model, opt, _ = begin(store, "frozen")
        model[0].bias.requires_grad_(False)
        with pytest.raises(ConflictError, match="0.bias was trained at attach and is frozen now"):
            opt.step()
        model, opt, _ = begin(store, "added")
        opt.add_param_group({"params": [nn.Parameter(torch.ones(3))]})
        with pytest.raises(
            UsageError, match=r"SGD.param_groups\[1\]\['params'\]\[0\], shape \(3,\)"
        ):
            opt.step()
        model, opt, _ = begin(store, "half")
        model.to(torch.bfloat16)
        with pytest.raises(ConflictError, match="0.weight has another shape, type or device"):
            opt.step()
        model, opt, _ = begin(store, "swapped")
        # Another memory of the same form, as moving averages put in, is right.
        model[0].weight.data = model[0].weight.data.clone()
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()

    run(1, body)


@pytest.mark.parametrize(
    "change, text",
    [
        (lambda m: m.append(nn.Linear(5, 5)), "parameter 3.weight: shape"),
        (
            lambda m: m[2].register_parameter("bias", nn.Parameter(torch.ones(5).double(), False)),
            "torch.float64, frozen",
        ),
        (lambda m: m[0].weight.requires_grad_(False), "parameter 0.weight: .*frozen"),
        (lambda m: m.register_buffer("extra", torch.ones(2)), "buffer extra"),
    ],
)
def test_another_model_is_an_error_on_all_workers_that_names_both(change, text):
    def body(store):
        model = mlp()
        if store.rank == 1:
            change(model)
        with pytest.raises(ConflictError, match="Worker 1: .*Worker 0: ") as e:
            pt.attach(model, None, store)
        return str(e.value)

    got = run(3, body)
    assert got[0] == got[1] == got[2]
    assert re.search(text, got[0]), got[0]


def test_another_learning_rate_is_an_error():
    def body(store):
        model = mlp()
        opt = torch.optim.SGD(model.parameters(), 0.1 if store.rank == 0 else 0.2)
        with pytest.raises(ConflictError, match=r"\['lr'\]: 0.2. Worker 0: .*\['lr'\]: 0.1"):
            pt.attach(model, opt, store)

    run(2, body)


def test_errors_of_the_job_come_out_of_backward_not_of_its_hooks():
    def body(store):
        model = mlp()
        fired = []
        model[0].weight.register_hook(lambda g: fired.append(1))
        pt.attach(model, torch.optim.SGD(model.parameters(), 0.1), store)
        a = pt.attached(store)[0]
        original = a._exchange._plan.exchange

        def fails(*args, **kw):
            raise UnavailableError("push key 2.weight: server 0 is gone", key="2.weight")

        x, y = batch()
        a._exchange._plan.exchange = fails
        with pytest.raises(UnavailableError, match="server 0 is gone"):
            nn.functional.cross_entropy(model(x), y).backward()
        # The graph was gone through to its end.
        assert fired == [1]
        a._exchange._plan.exchange = original
        model.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        assert torch.isfinite(model[0].weight.grad).all()

    run(1, body)


def test_a_backward_that_an_exception_ended_is_an_error_at_the_next():
    def body(store):
        model = nn.Sequential(*[nn.Linear(80, 80) for _ in range(3)])
        opt = torch.optim.SGD(model.parameters(), 0.1)
        pt.attach(model, opt, store)

        def raises(g):
            raise ValueError("mine")

        handle = model[0].weight.register_hook(raises)
        with pytest.raises(ValueError, match="mine"):
            model(torch.ones(1, 80)).sum().backward()
        handle.remove()
        with pytest.raises(ConflictError, match="ended a backward"):
            opt.step()
        with pytest.raises(ConflictError, match="ended a backward"):
            model(torch.ones(1, 80)).sum().backward()

    run(1, body)


def test_reentrant_checkpoints():
    from torch.utils.checkpoint import checkpoint

    def net():
        with seeded(0):
            return nn.Sequential(*[nn.Linear(80, 80) for _ in range(4)])

    x = torch.ones(2, 80, requires_grad=True)

    def forward(model):
        y = model[0](x)
        for part in (model[1], model[2]):
            y = checkpoint(part, y, use_reentrant=True)
        return model[3](y)

    plain = net()
    forward(plain).pow(2).sum().backward()

    def body(store):
        model = net()
        pt.attach(model, torch.optim.SGD(model.parameters(), 0.1), store)
        before = len(store.sent)
        forward(model).pow(2).sum().backward()
        for p, q in zip(model.parameters(), plain.parameters()):
            assert torch.equal(p.grad, q.grad)
        assert sum(s[0] for s in store.sent[before:]) == 9

    run(1, body)


def test_schedulers_before_and_after_attach():
    def body(store):
        model = mlp()
        opt = torch.optim.SGD(model.parameters(), 0.1)
        first = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)
        a = pt.attach(model, opt, store)
        second = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)
        x, y = batch()
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()
        first.step()
        second.step()
        assert opt.param_groups[0]["lr"] == 0.025
        a.detach()
        opt.step()

    run(1, body)


if hasattr(torch, "compile"):

    @pytest.mark.parametrize("before", [True, False])
    def test_compiled_models_are_right_and_one_line_says_what_is_lost(before, caplog, monkeypatch):
        caplog.set_level(logging.INFO, "paragon.torch")
        monkeypatch.setattr("paragon.torch._layout._logged", set())
        x, y = batch()
        plain = mlp()
        losses = train(plain, make("sgd", plain), x, y)

        def body(store):
            model = mlp()
            opt = make("sgd", model)
            compiled = torch.compile(model, backend="aot_eager")
            pt.attach(compiled if before else model, opt, store)
            got = train(compiled, opt, x, y)
            assert got == pytest.approx(losses, rel=1e-5)
            with pt.no_sync(compiled):
                compiled(x).sum().backward()

        run(1, body)
        assert caplog.text.count("torch.compile is in use") == 1

    def test_compiled_autograd_is_right():
        if not hasattr(torch._dynamo.config, "compiled_autograd"):
            return
        x, y = batch()
        plain = mlp()
        losses = train(plain, make("sgd", plain), x, y)

        def body(store):
            model = mlp()
            opt = make("sgd", model)
            pt.attach(model, opt, store)
            with torch._dynamo.config.patch(compiled_autograd=True):
                compiled = torch.compile(model, backend="aot_eager")
                assert train(compiled, opt, x, y) == pytest.approx(losses, rel=1e-5)

        run(1, body)


def test_a_copied_model_is_not_attached():
    def body(store):
        model = mlp()
        pt.attach(model, torch.optim.SGD(model.parameters(), 0.1), store)
        x, y = batch()
        other = copy.deepcopy(model)
        sent = len(store.sent)
        nn.functional.cross_entropy(other(x), y).backward()
        assert len(store.sent) == sent

    run(1, body)


@pytest.mark.parametrize("examples", [None, (16, 8, 0)])
def test_compressed_sums_are_divided(examples):
    x, y = batch(24)
    plain = mlp()
    nn.functional.cross_entropy(plain(x), y).backward()
    cuts = [0, 8, 16, 24] if examples is None else [0, 16, 24, 24]

    def body(store):
        model = mlp()
        opt = torch.optim.SGD(model.parameters(), 0.1)
        a = pt.attach(model, opt, store, compression={"type": "fp16"})
        assert set(store.job.forms[n] for n, _ in model.named_parameters()) == {"dense"}
        lo, hi = cuts[store.rank], cuts[store.rank + 1]
        for _ in range(2):
            a.examples = examples and examples[store.rank]
            opt.zero_grad()
            at = slice(lo, hi) if hi > lo else slice(0, 8)
            nn.functional.cross_entropy(model(x[at]), y[at]).backward()
            for p, q in zip(model.parameters(), plain.parameters()):
                torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-6)

    run(3, body)


def test_numbers_of_rows_beyond_16_bits():
    from paragon.torch._rows import RowsExchange

    def body(store):
        r = RowsExchange(store, "", "w", torch.zeros(2, 2))
        own = [np.array([5, 70_000, 1 << 40]), np.array([], np.int64), np.array([70_000])][
            store.rank
        ]
        return r._union(own).tolist()

    assert run(3, body) == [[5, 70_000, 1 << 40]] * 3
