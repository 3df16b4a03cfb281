"""attach in a real job: launch, two workers, two servers, and a bridge for each worker."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from corehelp import REAL, run  # noqa: E402

pytestmark = pytest.mark.skipif(
    not REAL, reason="PARAGON_LAUNCH does not name the binary launch: make pytests"
)

JOB = [REAL, "-n", "2", "-s", "2", "--"]

PROGRAM = """
import sys

import torch
import torch.distributed as dist
from torch import nn

import paragon.torch as pt
from paragon.errors import ConflictError

torch.set_num_threads(1)
store = pt.init()
rank, workers = store.rank, store.num_workers
assert workers == 2
cross_entropy = nn.functional.cross_entropy
generator = torch.Generator().manual_seed(7)
x = torch.randn(24, 3, 8, 8, generator=generator)
y = torch.randint(0, 5, (24,), generator=generator)


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 40, 3), nn.ReLU(), nn.Conv2d(40, 8, 3), nn.Flatten(), nn.Linear(128, 5)
    ).to(memory_format=torch.channels_last)


def adam(model):
    return torch.optim.Adam(model.parameters(), 0.01)


def train(model, x, y, steps=5, checked=None):
    opt = adam(model)
    if checked is None:
        return go(model, opt, x, y, steps)
    pt.attach(model, opt, store, name=checked)
    return go(model, opt, x, y, steps)


def go(model, opt, x, y, steps):
    for _ in range(steps):
        cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=False)
    return [p.detach().clone() for p in model.parameters()]


own = slice(rank, None, workers)
# As one process on the whole batch, and bit for bit as the other worker.
ours = train(net(rank), x[own], y[own], checked="whole")
for a, b in zip(train(net(), x, y), ours):
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)

# A gradient is the sum of all, in rank order, by their weight: to the bit.
model = net()
pt.attach(model, None, store, name="exact")
wanted = []
for r in range(workers):
    plain = net()
    at = slice(r, None, workers)
    cross_entropy(plain(x[at]), y[at]).backward()
    wanted.append([p.grad for p in plain.parameters()])
cross_entropy(model(x[own]), y[own]).backward()
for p, a, b in zip(model.parameters(), *wanted):
    assert torch.equal(p.grad, (a + b) / 2)

# DistributedDataParallel has the same gradients.
file = sys.argv[1] if len(sys.argv) > 1 else "gloo"
dist.init_process_group("gloo", init_method="file://" + __import__("os").path.abspath(file),
                        rank=rank, world_size=workers)
theirs = nn.parallel.DistributedDataParallel(net(rank))
cross_entropy(theirs(x[own]), y[own]).backward()
for p, q in zip(model.parameters(), theirs.module.parameters()):
    torch.testing.assert_close(p.grad, q.grad, rtol=1e-6, atol=1e-8)
dist.destroy_process_group()

# Sparse rows, a branch of one worker, a frozen parameter, a counter, bfloat16.
class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(rank)
        self.words = nn.Embedding(1000, 4, sparse=True)
        self.branches = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)])
        self.brain = nn.Parameter(torch.full((4,), 1.5 + rank).bfloat16())
        self.frozen = nn.Parameter(torch.full((2,), 3.0 + rank, dtype=torch.float64), False)
        self.register_buffer("count", torch.tensor(1 << 40 | rank))

    def forward(self, ids):
        return (self.branches[rank](self.words(ids)) * self.brain).sum()


odd = Odd()
opt = torch.optim.SGD(odd.parameters(), 0.5)
pt.attach(odd, opt, store, name="odd")
assert odd.frozen.tolist() == [3.0, 3.0] and odd.count.item() == 1 << 40
for ids in ([1, 7, 7], [999]), ([0], [5, 0]), ([2], [2]):
    opt.zero_grad(set_to_none=True)
    odd(torch.tensor(ids[rank])).backward()
    assert odd.words.weight.grad.coalesce().indices()[0].tolist() == sorted(set(ids[0] + ids[1]))
    assert odd.branches[2].weight.grad is None and odd.branches[1 - rank].weight.grad is not None
    assert odd.brain.grad.dtype == torch.bfloat16
    opt.step()
digest = sum(p.detach().double().abs().sum().item() for p in odd.parameters())

# Another model on one worker: the same error on both.
different = nn.Sequential(nn.Linear(3, 4 + rank))
try:
    pt.attach(different, None, store, name="different")
    told = "nothing"
except ConflictError as e:
    told = str(e)

pt.report(loss=1.0)
pt.save("job.safetensors", model)
store.barrier()
got = pt.load("job.safetensors")
assert torch.equal(got["0.weight"], model[0].weight)
print("digest", digest, [p.double().sum().item() for p in ours], told)
"""


def test_two_workers(tmp_path):
    p = run(tmp_path, PROGRAM, launch=REAL, before=JOB)
    lines = sorted(line.split("| ", 1)[1] for line in p.out.splitlines() if "digest" in line)
    told = [line for line in lines if line.startswith("digest")]
    assert len(told) >= 2 and told[0] == told[1], p.out + p.err
    assert (
        "worker 1 has another model than worker 0. Worker 1: parameter 0.weight: shape (5, 3), "
        "strides (3, 1), torch.float32, gradient. Worker 0: parameter 0.weight: shape (4, 3)"
    ) in told[0]


LOST = """
import os
import signal

import torch

import paragon.torch as pt

store = pt.init()
model = torch.nn.Linear(100, 100)
opt = torch.optim.SGD(model.parameters(), 0.1)
pt.attach(model, opt, store)
fired = []
model.bias.register_hook(lambda g: fired.append(1))
for i in range(100):
    if i == 3 and store.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        model(torch.ones(1, 100)).sum().backward()
    except Exception as e:
        print("raised", type(e).__name__, e, "after", len(fired), "hooks of step", i, flush=True)
        raise
    opt.step()
"""


def test_a_killed_worker_is_an_error_of_backward_elsewhere(tmp_path):
    p = run(tmp_path, LOST, launch=REAL, before=JOB, status=None)
    assert p.returncode != 0
    assert "raised" in p.out and "after 4 hooks of step 3" in p.out, p.out + p.err
