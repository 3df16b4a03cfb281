"""PyTorch jobs that stop with a checkpoint and go on, and what is said where a loop is incomplete."""

from __future__ import annotations

import collections
import os
import re
import signal
from pathlib import Path

import pytest

pytest.importorskip("torch")

from corehelp import REAL  # noqa: E402
from jobhelp import Job  # noqa: E402

pytestmark = pytest.mark.skipif(
    not REAL, reason="PARAGON_LAUNCH is not set: go build -o launch ./launch, and name it there"
)

FLAGS = ["-s", "2", "--status-listen", "off"]
ELASTIC = "--elastic-training-enabled"

TRAIN = """
import hashlib, os, sys, time
import torch
from torch.utils.data import DataLoader
import paragon.torch as pt

torch.set_num_threads(1)
torch.manual_seed(os.getpid())
store = pt.init()
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
optimizer = torch.optim.AdamW(model.parameters(), 0.01)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.9)
kept = {"schedule": schedule, "seen": {"steps": 0}}
pt.attach(model, optimizer, store, state=kept, optimizer=os.environ.get("MODE", "local"))
batches = pt.ElasticSampler(200, 4, seed=3, checkpoint="run.safetensors")
if os.path.exists("run.safetensors"):
    batches.load("run.safetensors")

def digest():
    data = hashlib.sha256()
    slots = optimizer.state_dict()["state"].values()
    for t in [*model.parameters(), *slots, schedule.state_dict()]:
        for v in t.values() if isinstance(t, dict) else [t]:
            data.update(repr(v.tolist() if isinstance(v, torch.Tensor) else v).encode())
    return data.hexdigest()[:16]

def line(*words):
    # One write, so that the lines of two processes do not mix.
    os.write(1, (" ".join(map(str, words)) + chr(10)).encode())

x = torch.arange(600.0).reshape(200, 3) / 600
try:
    for epoch in batches.epochs(EPOCHS):
        for i in batches.batches(DataLoader(range(200), batch_sampler=batches, num_workers=1)):
            if batches.steps == STEPS:
                line("state", batches.steps, kept["seen"]["steps"], digest())
            line("turn", batches.steps)
            # Batch norm refuses a batch of one example.
            model(x[i].repeat(2, 1)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            kept["seen"]["steps"] += 1
            if batches.size:
                for n in i.tolist():
                    line("used", epoch, n)
        line("end of epoch", epoch)
except pt.StoppedExit as stopped:
    line("state", batches.steps, kept["seen"]["steps"], digest())
    raise
line("through", epoch)
"""


def train(folder: Path, epochs: int, steps: int = -1) -> Path:
    return TRAIN.replace("EPOCHS", str(epochs)).replace("STEPS", str(steps))


@pytest.mark.parametrize("mode", ["local", "server"])
def test_a_run_goes_on_with_the_whole_state(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODE", mode)
    asked = []

    def act(job: Job, line: str) -> None:
        if line.endswith("turn 40") and not asked:
            asked.append(line)
            os.kill(job.process.pid, signal.SIGUSR1)

    first = Job(tmp_path, train(tmp_path, 4000), "-n", "2", *FLAGS, ELASTIC).run(act)
    assert first.code == 85, first.err
    (state,) = set(first.words("state"))
    steps = int(state.split()[0])
    assert steps > 40 and state.split()[1] == str(steps), state
    epochs = int(first.words("used")[-1].split()[0]) + 2
    second = Job(tmp_path, train(tmp_path, epochs, steps), "-n", "3", *FLAGS, ELASTIC).run()
    assert second.code == 0, second.err
    # If the stop was behind the last step of an epoch this is the state at the next one's first.
    assert set(second.words("state")) == {state}
    counts = collections.Counter(first.words("used") + second.words("used"))
    assert set(counts.values()) == {1} and len(counts) == 200 * epochs
    ends = collections.Counter(first.words("end of epoch") + second.words("end of epoch"))
    assert set(ends) == {str(e) for e in range(epochs)}
    assert second.words("through") == [str(epochs - 1)] * 3


def test_ctrl_c_in_an_elastic_job_is_no_failure(tmp_path: Path) -> None:
    asked = []

    def act(job: Job, line: str) -> None:
        if line.endswith("turn 20") and not asked:
            asked.append(line)
            job.interrupt()

    code = train(tmp_path, 4000).replace(', checkpoint="run.safetensors"', "")
    job = Job(tmp_path, code, "-n", "3", *FLAGS, ELASTIC).run(act)
    assert job.code == 130, job.err
    assert "ERROR" not in job.err and "Traceback" not in job.err, job.err
    assert "cannot go on without this worker" not in job.err, job.err
    assert [e.split(",")[0] for e in job.ends()] == ["exit 143"] * 3, job.err
    assert job.err.splitlines()[-1] == "launch: stopped by interrupt", job.err


def test_a_worker_that_is_killed_while_all_stop_is_made_up_for(tmp_path: Path) -> None:
    code = train(tmp_path, 4000).replace(
        'checkpoint="run.safetensors"', "checkpoint=lambda: checkpoint()"
    )
    code += ""
    kills = """
def checkpoint():
    line("writes", batches.steps)
    if store.rank == 0 and store.num_workers == 3:
        os.kill(os.getpid(), 9)
    batches.save("run.safetensors")
"""
    code = code.replace("\nx = torch", kills + "\nx = torch")

    def act(job: Job, line: str) -> None:
        if line.endswith("turn 20") and "worker 1" in line:
            os.kill(job.process.pid, signal.SIGUSR1)

    job = Job(tmp_path, code, "-n", "3", *FLAGS, ELASTIC, "--rejoin", "0").run(act)
    assert job.code == 85, job.err
    assert len(job.words("writes")) == 5 and (tmp_path / "run.safetensors").exists(), job.err


@pytest.mark.parametrize("rank", [0, 1])
def test_a_worker_that_attaches_nothing_is_told_so(tmp_path: Path, rank: int) -> None:
    code = TRAIN.replace("pt.attach(", "if store.rank != RANK: pt.attach(")
    code = code.replace("RANK", str(rank)).replace("EPOCHS", "2").replace("STEPS", "-1")
    job = Job(tmp_path, code, "-n", "2", *FLAGS).run()
    assert job.code == 1, job.err
    other = 1 - rank
    does = ["loops over ElasticSampler.epochs", "attaches a Sequential"]
    wanted = f"worker 1 {does[other]}, where worker 0 {does[rank]}"
    wanted = f"worker 1 {does[rank]}, where worker 0 {does[other]}" if rank else wanted
    assert f"worker 1 {does[1 - rank]}, where worker 0 {does[rank]}" in job.err, job.err


def test_a_loop_without_a_sampler_in_an_elastic_job_is_warned_of(tmp_path: Path) -> None:
    code = """
    import torch
    import paragon.torch as pt
    store = pt.init()
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    pt.attach(model, optimizer, store)
    for _ in range(3):
        model(torch.ones(4, 2)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    """
    said = "its loop is not over a paragon.torch.ElasticSampler"
    job = Job(tmp_path, code, "-n", "2", *FLAGS, ELASTIC).run()
    assert job.code == 0 and job.err.count(said) == 1, job.err
    job = Job(tmp_path, code, "-n", "2", *FLAGS).run()
    assert job.code == 0 and said not in job.err, job.err


def test_accelerated_programs_of_horovod_stop_in_order(tmp_path: Path) -> None:
    code = """
    import os
    import torch
    import paragon.horovod.torch as hvd
    hvd.init()
    state = hvd.elastic.TorchState(step=0)

    @hvd.elastic.run
    def train(state):
        while True:
            hvd.allreduce(torch.ones(2), name="x")
            state.step += 1
            if state.step == 20:
                os.write(1, b"turn 20" + bytes([10]))
            state.commit()

    train(state)
    """
    asked = []

    def act(job: Job, line: str) -> None:
        if line.endswith("turn 20") and not asked:
            asked.append(line)
            job.interrupt()

    job = Job(tmp_path, code, "-n", "2", *FLAGS, ELASTIC).run(act)
    assert job.code == 130 and "ERROR" not in job.err and "Traceback" not in job.err, job.err
    assert [e.split(",")[0] for e in job.ends()] == ["exit 143"] * 2, job.err
