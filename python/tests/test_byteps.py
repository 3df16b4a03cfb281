"""BytePS's names, in real jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from corehelp import REAL, run  # noqa: E402

real = pytest.mark.skipif(not REAL, reason="PARAGON_LAUNCH names no launch to test with")

CALLS = """
    import os
    import torch
    import paragon.byteps as short
    import paragon.byteps.torch as bps
    from paragon.byteps.torch.parallel import DistributedDataParallel

    try:
        bps.size()
    except ValueError as e:
        assert str(e) == "paragon.byteps has not been initialized; call init() first"
    bps.init()
    assert short.push_pull is bps.push_pull
    rank, size = bps.rank(), bps.size()
    assert size == int(os.environ["WANT_WORKERS"])
    assert (bps.local_rank(), bps.local_size()) == (rank, size)

    # push_pull, in all forms. The order of declare does not matter.
    for name in ["a", "b", "c"][:: 1 if rank else -1]:
        bps.declare(name)
    mine = torch.tensor([1.0, float(rank)])
    total = torch.tensor([float(size), float(sum(range(size)))])
    assert torch.allclose(bps.push_pull(mine, name="a"), total / size)
    assert torch.equal(bps.push_pull(mine, average=False, name="b"), total)
    handle = bps.push_pull_async(mine, average=False, name="c")
    while not bps.poll(handle):
        pass
    assert torch.equal(bps.synchronize(handle), total)
    same = mine.clone()
    assert bps.synchronize(bps.push_pull_async_inplace(same, average=False)) is same
    assert torch.equal(same, total)
    assert torch.equal(bps.push_pull_inplace(mine.clone(), average=False, name="d"), total)
    leaf = torch.ones(2, requires_grad=True)
    (bps.push_pull(leaf, name="e") * (rank + 1)).sum().backward()
    assert torch.allclose(leaf.grad, torch.full((2,), 1 + (size - 1) / 2))
    try:
        bps.push_pull(mine)
    except AssertionError as e:
        assert "without a name" in str(e)
    assert bps.broadcast_object([rank], size - 1) == [size - 1]

    def net(seed):
        torch.manual_seed(seed)
        layers = torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 1)
        return torch.nn.Sequential(*layers)

    def train(model, optimizer):
        torch.manual_seed(100 + rank)
        for step in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).pow(2).mean().backward()
            optimizer.step()
        weights = torch.cat([p.detach().flatten() for p in model.parameters()])
        assert torch.equal(bps.push_pull(weights, name="weights", average=False), weights * size)
        return weights

    # The optimizer by name, and the model in DistributedDataParallel, do the same.
    model = net(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    named = model.named_parameters()
    assert bps.DistributedOptimizer(optimizer, named_parameters=named) is optimizer
    bps.broadcast_parameters(model.state_dict(), root_rank=0)
    bps.broadcast_optimizer_state(optimizer, root_rank=0)
    weights = train(model, optimizer)

    inner = net(rank)
    model = DistributedDataParallel(inner, device_ids=[bps.local_rank()])
    bps.broadcast_parameters(model.state_dict(), root_rank=0)
    parallel = train(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    assert torch.equal(parallel, weights)
    assert list(model.state_dict()) == ["module." + n for n in inner.state_dict()]

    # no_sync adds up; the next backward averages the sum.
    x = torch.full((8, 4), float(rank))
    model.eval()
    model.zero_grad()
    with model.no_sync():
        model(x).sum().backward()
    alone = inner[2].bias.grad.clone()
    assert alone.item() == 8
    model(x).sum().backward()
    model.synchronize()
    assert inner[2].bias.grad.item() == 16

    # Pauses, and what is not there.
    bps.suspend()
    assert bps.rank() == rank
    try:
        bps.push_pull(mine, name="a")
    except RuntimeError as e:
        assert "suspended; call resume()" in str(e)
    try:
        bps.resume(size + 1, 1, 0)
    except NotImplementedError as e:
        assert "launch ctl scale" in str(e)
    bps.resume(size, 1, 0)
    assert torch.equal(bps.push_pull(mine, average=False, name="b"), total)
    try:
        bps.cross_barrier
    except NotImplementedError as e:
        assert "paragon.byteps.torch.cross_barrier is not there; use" in str(e)
    os.environ["BYTEPS_ENABLE_ASYNC"] = "1"
    try:
        bps.DistributedOptimizer(optimizer)
    except NotImplementedError as e:
        assert "dist_async" in str(e)
    bps.shutdown()
    print("all is well")
"""


@real
def test_all_names_in_a_job_of_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANT_WORKERS", "2")
    done = run(tmp_path, CALLS, launch=REAL, before=[REAL, "-n", "2", "-s", "2", "--"])
    assert done.out.count("all is well") == 2


@real
def test_all_names_without_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANT_WORKERS", "1")
    assert "all is well" in run(tmp_path, CALLS, launch=REAL).out
