"""Horovod's names, in real jobs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from corehelp import REAL, SECONDS, environment, run  # noqa: E402

real = pytest.mark.skipif(not REAL, reason="PARAGON_LAUNCH names no launch to test with")

CALLS = """
    import os
    import torch
    import paragon.horovod as short
    import paragon.horovod.torch as hvd
    import paragon.horovod.torch.elastic

    assert not hvd.is_initialized()
    try:
        hvd.rank()
    except ValueError as e:
        assert str(e) == "paragon.horovod has not been initialized; call init() first"
    hvd.init()
    short.init()
    assert short.allreduce is hvd.allreduce and hvd.is_initialized()
    rank, size = hvd.rank(), hvd.size()
    workers = range(size)
    assert (size, short.size()) == (int(os.environ["WANT_WORKERS"]),) * 2
    assert (hvd.local_rank(), hvd.local_size()) == (rank, size)
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1) and hvd.is_homogeneous()
    assert not hvd.mpi_built() and not hvd.nccl_built()

    # allreduce, in all forms.
    mine = torch.tensor([1.0, 2.0, float(rank)])
    total = torch.tensor([size * 1.0, size * 2.0, float(sum(workers))])
    assert torch.allclose(hvd.allreduce(mine, name="mean"), total / size)
    assert torch.equal(hvd.allreduce(mine, op=hvd.Sum), total)
    assert torch.equal(hvd.allreduce(mine, op=hvd.Max), torch.tensor([1.0, 2.0, size - 1.0]))
    assert hvd.allreduce(torch.tensor(2**40 + rank), op=hvd.Sum) == size * 2**40 + sum(workers)
    handle = hvd.allreduce_async(mine, name="later", op=hvd.Sum)
    same = mine.clone()
    other = hvd.allreduce_async_(same, name="here", op=hvd.Sum)
    while not hvd.poll(other):
        pass
    assert torch.equal(hvd.synchronize(handle), total)
    assert hvd.synchronize(other) is same and torch.equal(same, total)
    small = hvd.allreduce(mine, name="small", compression=hvd.Compression.fp16)
    assert small.dtype == torch.float32 and torch.allclose(small, total / size, rtol=1e-3)
    group = hvd.grouped_allreduce([mine, mine * 2], name="group", op=hvd.Sum)
    assert torch.equal(group[0], total) and torch.equal(group[1], total * 2)

    # allgather, broadcast, objects.
    rows = hvd.allgather(torch.full((rank, 2), rank, dtype=torch.int16))
    assert rows.tolist() == [[r, r] for r in workers for _ in range(r)]
    last = size - 1
    assert hvd.broadcast(torch.tensor([rank, 7]), last).tolist() == [last, 7]
    half = torch.full((4,), float(rank), dtype=torch.bfloat16)
    assert hvd.broadcast_(half, last, name="half") is half and (half == last).all()
    assert hvd.broadcast_object({"r": rank}, last) == {"r": last}
    assert hvd.allgather_object("x" * rank) == ["x" * r for r in workers]
    hvd.barrier()

    # A forked data loader may ask for the rank.
    class Ranks(torch.utils.data.Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, i):
            return hvd.rank(), os.getpid()

    loader = torch.utils.data.DataLoader(Ranks(), num_workers=1, multiprocessing_context="fork")
    (from_child,) = loader
    assert from_child[0].item() == rank and from_child[1].item() != os.getpid()

    # Gradients flow.
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    (hvd.allreduce(leaf, name="leaf", op=hvd.Sum) * (rank + 1)).sum().backward()
    assert leaf.grad.tolist() == [sum(workers) + size] * 2
    leaf.grad = None
    (hvd.allgather(leaf) * torch.arange(2.0 * size)).sum().backward()
    assert torch.equal(leaf.grad, torch.tensor([2.0 * rank, 2.0 * rank + 1]))
    leaf.grad = None
    hvd.broadcast(leaf, last).sum().backward()
    assert leaf.grad.tolist() == [float(rank == last)] * 2

    # What is not there.
    def refused(call, text):
        try:
            call()
        except NotImplementedError as e:
            assert text in str(e), e
        else:
            raise AssertionError(text)

    refused(hvd.join, "use paragon.torch.ElasticSampler")
    refused(lambda: hvd.alltoall, "paragon.horovod.torch.alltoall is not there; use allgather")
    refused(lambda: short.run, "paragon.horovod.run is not there; use launch")
    refused(lambda: hvd.allreduce(mine, op=hvd.Adasum), "op=Adasum is not there; use op=Average")
    refused(lambda: hvd.allreduce(mine, process_set=3), "use global_process_set")

    # Training: the same as one process with all data.
    def net(seed):
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))

    data = torch.randn(4 * size, 4, generator=torch.Generator().manual_seed(1))
    model, alone = net(rank), net(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01 + rank)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    named = model.named_parameters()
    assert hvd.DistributedOptimizer(optimizer, named_parameters=named) is optimizer
    reference = torch.optim.Adam(alone.parameters(), lr=0.01)
    for step in range(5):
        for m, o, x in ((model, optimizer, data[rank::size]), (alone, reference, data)):
            o.zero_grad()
            m(x).pow(2).mean().backward()
            if step % 2:
                o is optimizer and o.synchronize()
                torch.nn.utils.clip_grad_norm_(m.parameters(), 0.1)
                with getattr(o, "skip_synchronize", torch.enable_grad)():
                    o.step()
            else:
                o.step()
    for a, b in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(a, b, atol=1e-5), (a, b)
    hvd.shutdown()
    assert not hvd.is_initialized()
    try:
        hvd.init()
    except RuntimeError as e:
        assert size > 1 and "cannot join it again" in str(e), e
    else:
        assert size == 1
    print("all is well")
"""


@real
def test_all_names_in_a_job_of_three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANT_WORKERS", "3")
    done = run(tmp_path, CALLS, launch=REAL, before=[REAL, "-n", "3", "-s", "1", "--"])
    assert done.out.count("all is well") == 3


@real
def test_all_names_without_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANT_WORKERS", "1")
    assert "all is well" in run(tmp_path, CALLS, launch=REAL).out


@real
def test_workers_in_different_calls_name_each_other(tmp_path: Path) -> None:
    code = """
        import torch
        import paragon.horovod.torch as hvd

        hvd.init()
        try:
            if hvd.rank() == 0:
                hvd.broadcast(torch.zeros(2), 0, name="a")
            else:
                hvd.allgather(torch.zeros(2), name="b")
        except RuntimeError as e:
            print(e)
    """
    done = run(tmp_path, code, launch=REAL, before=[REAL, "-n", "2", "-s", "1", "--"])
    want = (
        "workers make different calls: worker 0 makes broadcast from worker 0 of 'a' (2, float32), "
        "worker 1 makes allgather of 'b' (rows of 1, float32)"
    )
    assert done.out.count(want) == 2, done.out


ELASTIC = """
    import os, sys, time
    import torch
    import paragon.horovod.torch as hvd

    hvd.init()
    torch.manual_seed(os.getpid())
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(range(1000))
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, batch=0)
    events = open("events", "a", buffering=1)

    def reset():
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * hvd.size()

    state.register_reset_callbacks([reset])

    @hvd.elastic.run
    def train(state):
        assert len(state.sampler) * hvd.size() >= 1000 - state.sampler.processed_num
        events.write(f"begin {os.getpid()} {hvd.rank()} of {hvd.size()} at {state.batch}\\n")
        while True:
            optimizer.zero_grad()
            model(torch.ones(1, 3) * (1 + hvd.rank())).pow(2).sum().backward()
            optimizer.step()
            state.batch += 1
            state.sampler.record_batch(state.batch, 1)
            if state.sampler.processed_num > 900:
                state.sampler.set_epoch(state.sampler.epoch + 1)
            # All workers look for the file in the same step: worker 0 says.
            if state.batch % 10 == 0:
                if hvd.broadcast_object(os.path.exists("stop")):
                    return
                state.commit()

    train(state)
    everything = [p.tolist() for p in model.parameters()] + [optimizer.param_groups[0]["lr"]]
    everything += [state.batch, state.sampler.state_dict()]
    assert all(e == everything for e in hvd.allgather_object(everything))
    print(f"alike on {hvd.size()} at {state.batch}")
"""


@real
def test_workers_join_and_are_killed(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("\n".join(line[4:] for line in ELASTIC.splitlines()))
    (tmp_path / "events").touch()
    flags = ["-n", "2", "-s", "1", "--elastic-training-enabled", "--on-worker-loss", "shrink"]
    env = environment(launch=REAL)
    job = subprocess.Popen(
        [REAL, *flags, "--", sys.executable, str(script)],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        await_events(tmp_path, job, r"begin (\d+) 1 of 2 at 0")
        scale = [REAL, "ctl", "scale", "--wait", "3"]
        subprocess.run(
            scale, cwd=tmp_path, env=env, check=True, timeout=SECONDS, capture_output=True
        )
        await_events(tmp_path, job, r"begin \d+ 0 of 3 at (?!0\n)")
        newcomer = await_events(tmp_path, job, r"begin \d+ 2 of 3 at (?!0\n)")
        assert newcomer
        victim = int(await_events(tmp_path, job, r"begin (\d+) 1 of 3")[1])
        os.kill(victim, 9)
        await_events(tmp_path, job, r"(?s)begin %d 1 of 3.*begin \d+ 0 of [23]" % victim)
        (tmp_path / "stop").touch()
        out, _ = job.communicate(timeout=SECONDS)
    finally:
        job.kill()
    assert job.returncode == 0, out
    assert re.search(r"alike on [23] at \d+", out), out


def await_events(folder: Path, job: "subprocess.Popen[str]", pattern: str) -> "re.Match[str]":
    """Returns the first match of the pattern in what workers wrote of their members."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and job.poll() is None:
        found = re.search(pattern, (folder / "events").read_text())
        if found:
            return found
        time.sleep(0.05)
    job.kill()
    out, _ = job.communicate()
    raise AssertionError(f"no event {pattern!r}: {(folder / 'events').read_text()}\n{out}")


@real
def test_example(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    data = Path(os.environ.get("PARAGON_TEST_DATA") or root.parent / "shared" / "data") / "mnist"
    if not data.exists():
        pytest.skip(f"no folder {data}: set PARAGON_TEST_DATA")
    done = subprocess.run(
        [REAL, "-n", "2", "-s", "1", "--", sys.executable]
        + [str(root / "examples" / "python" / "mnist_horovod.py"), "--data", str(data)]
        + ["--epochs", "1", "--examples", "6400"],
        cwd=tmp_path,
        env=environment(launch=REAL),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout
    accuracy = re.search(r"epoch 1: loss .*, accuracy (0\.\d+)", done.stdout)
    assert accuracy and float(accuracy[1]) > 0.9, done.stdout
