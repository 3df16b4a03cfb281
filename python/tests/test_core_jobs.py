"""Real jobs: the bridge of PARAGON_LAUNCH, alone and with launch's servers and workers."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any, List

import pytest
from corehelp import REAL, await_end, run, start

pytestmark = pytest.mark.skipif(
    not REAL, reason="PARAGON_LAUNCH is not set: go build -o launch ./launch, and name it there"
)


def alone(folder: Path, code: str, status: Any = 0) -> Any:
    return run(folder, code, launch=REAL, status=status)


def job(folder: Path, code: str, *flags: str, status: Any = 0) -> Any:
    """Runs the program as the workers of a job with two servers."""
    return run(folder, code, launch=REAL, status=status, before=[REAL, "-s", "2", *flags, "--"])


def lines(p: Any, word: str) -> List[str]:
    """Returns what workers printed behind a word, without launch's prefixes."""
    return sorted(line.split(word + " ", 1)[1] for line in p.out.splitlines() if word + " " in line)


KV = """
import os, signal, sys, threading, time
import numpy as np
import paragon
from paragon import Declaration, Entry, elastic, errors, kv
F = np.float32
"""


def test_alone(tmp_path: Path) -> None:
    code = """
store = kv.create("dist_sync")
s = store.store
assert (s.rank, s.num_workers, s.alone, s.joining, s.type) == (0, 1, True, False, "dist_sync")
keys = [f"k{i}" for i in range(62)]
store.init(keys, [np.full((3, 64), i, F) for i in range(62)])
store.init("big", np.arange(1 << 20, dtype=F))
out = [np.empty((3, 64), F) for _ in keys]
store.pull(keys, out=out)
assert [o[2, 63] for o in out] == list(range(62))
store.pushpull(keys, [o * 2 for o in out], out=out)
assert [o[0, 0] for o in out] == list(range(0, 124, 2))
for i in range(20):
    big = store.pushpull("big", np.full(1 << 20, i, F))
    assert (big == i).all()
store.push("big", np.full(1 << 20, 7, F))
assert (store.pull("big") == 7).all()
assert s.broadcast("é" * 700_000) == "é" * 700_000
s.barrier()
s.report(step={"loss": float("nan"), "examples": 4})
s.state()
print("done", store)
"""
    p = alone(tmp_path, KV + code)
    assert "done <paragon.kv.KVStore of <paragon.Store dist_sync: worker 0 of 1>, 63 keys>" in p.out


def test_errors_of_the_job_have_their_classes_and_keys(tmp_path: Path) -> None:
    code = """
s = paragon.init()
r = s.memory([4, 4, 5])
s.init([Declaration("w", r, 0, 4)])
def shown(kind, call):
    try:
        call()
    except kind as e:
        print("error", type(e).__name__, e.key, e.worker, e.seconds is not None)
shown(errors.DuplicateInitError, lambda: s.init([Declaration("w", r, 0, 4)]))
shown(errors.UnknownKeyError, lambda: s.pull([("x", r, 0)]))
shown(errors.SizeError, lambda: s.pull([("w", r, 2)]))
def wait(entry):
    plan = s.plan([entry])
    for answer in (True, False):
        try:
            s.wait(plan.exchange(answer=answer))
        finally:
            s.wait(plan.exchange(0, 0))
    return plan
shown(errors.SizeError, lambda: wait(Entry("w", r, 2, 2)))
shown(errors.UnknownKeyError, lambda: wait(Entry("nobody", r, 0, 1)))
shown(errors.UsageError, lambda: s.request("plan", entries=[]))
shown(errors.UsageError, lambda: s.memory([1 << 50]))
shown(errors.UsageError, r.free)
n = wait(Entry("w", r, 0, 1)).exchange(weight=2, answer=True)
s.wait(n)
"""
    p = alone(tmp_path, KV + code)
    assert lines(p, "error") == [
        "DuplicateInitError w 0 True",
        "SizeError w 0 True",
        "SizeError w 0 True",
        "UnknownKeyError nobody 0 True",
        "UnknownKeyError x 0 True",
        "UsageError None 0 True",
        "UsageError None 0 True",
        "UsageError None 0 True",
    ]


def test_workers_add_up_and_average(tmp_path: Path) -> None:
    code = """
store = kv.create("dist_sync")
s, rank = store.store, store.rank
assert store.num_workers == 2 and not s.alone
store.init(["w", "v"], [np.full(5, rank + 1, F), np.full((300, 300), rank, F)])
assert store.pull("w")[0] == 1                       # rank 0's value
out = [np.empty(5, F), np.empty((300, 300), F)]
for i in range(30):
    store.pushpull(["w", "v"], [np.full(5, i + rank, F), np.full((300, 300), rank, F)], out=out)
    assert out[0][4] == 2 * i + 1 and (out[1] == 1).all()
store.set_optimizer("sgd", learning_rate=0.5)
store.push("w", np.full(5, 2, F))
print("optimizer", store.pull("w")[0])
r = s.memory([3, 3])
r.slot(0)[:] = rank
s.init([Declaration("mean", r, 0, 3)])
plan = s.plan([Entry("mean", r, 0, 1)])
weight = 1.0 + 2 * rank
r.slot(0)[:] = (rank + 1) * weight
s.wait(plan.exchange(weight=weight, answer=True))
print("mean", r.slot(1)[0])
print("text", s.broadcast(f"of {rank}"), len(s.broadcast("x" * 2_000_000 if rank == 0 else None)))
store.barrier()
if rank == 1:
    store.save("saved.safetensors")
store.barrier()
store.pushpull("w", np.ones(5, F))
store.load("saved.safetensors")
print("loaded", store.pull("w")[0])
"""
    p = job(tmp_path, KV + code, "-n", "2")
    assert lines(p, "optimizer") == ["57.0", "57.0"]
    assert lines(p, "mean") == ["1.75", "1.75"]
    assert lines(p, "text") == ["of 0 2000000"] * 2
    assert lines(p, "loaded") == ["57.0"] * 2


def test_rows(tmp_path: Path) -> None:
    code = """
store = kv.create("dist_sync")
rank = store.rank
store.init("t", kv.row_sparse_array((np.arange(8, dtype=F).reshape(4, 2), [0, 1, 2, 3]), (4, 2)))
store.push("t", kv.row_sparse_array((np.full((2, 2), rank + 1, F), [rank, 2]), (4, 2)))
out = np.zeros((4, 2), F)
store.row_sparse_pull("t", out=out, row_ids=[3, 0, 1, 2, 0])
print("rows", out.ravel().tolist())
"""
    p = job(tmp_path, KV + code, "-n", "2")
    # Without an optimizer the sum of a round replaces the rows that it names.
    assert lines(p, "rows") == [str([1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 6.0, 7.0])] * 2


def test_tables_that_the_servers_make(tmp_path: Path) -> None:
    code = """
store = kv.create("dist_sync")
two = {"name": "uniform", "low": 2, "high": 2}
store.init_table("words", (2, 2), max_rows=8, initializer=two)
store.init_table("users", 3, rows=10)
store.set_optimizer("sgd", learning_rate=1)
ids = np.array([-7, 1 << 62, -7])
words = store.row_sparse_pull("words", row_ids=ids)
assert words.shape == (None, 2, 2) and words.indices.tolist() == [-7, 1 << 62]
assert (words.data == 2).all()
store.push("words", kv.row_sparse_array((np.ones((3, 2, 2), F), ids), (None, 2, 2)))
print("words", store.row_sparse_pull("words", row_ids=ids).data.ravel().tolist())
store.push("users", kv.row_sparse_array((np.ones((1, 3), F), [9]), (10, 3)))
out = np.ones((10, 3), F)
store.row_sparse_pull("users", out=out, row_ids=[9, 0])
print("users", out[:, 0].tolist())
store.barrier()
many = kv.row_sparse_array((np.ones((100, 2, 2), F), np.arange(100)), (None, 2, 2))
def shown(kind, call):
    try:
        call()
    except kind as e:
        print("error", kind.__name__, e.key)
shown(errors.SizeError, lambda: store.row_sparse_pull("users", row_ids=[10]))
shown(errors.SizeError, lambda: store.push("users", many))
shown(errors.SizeError, lambda: store.init_table("x", 0))
shown(errors.SizeError, lambda: store.init_table("x", (3, -1)))
shown(errors.SizeError, lambda: store.init_table("x", 3, rows=0))
shown(errors.SizeError, lambda: store.init_table("x", 3, rows=5, max_rows=5))
shown(errors.DuplicateInitError, lambda: store.init_table("words", 4))
shown(errors.UnsupportedError, many.asnumpy)
shown(errors.TableFullError, lambda: store.push("words", many))
"""
    p = job(tmp_path, KV + code, "-n", "2")
    # Both workers' pushes are added, and of one worker those to the same row.
    assert lines(p, "words") == [str([-2.0] * 4 + [0.0] * 4)] * 2
    assert lines(p, "users") == [str([0.0] * 9 + [-2.0])] * 2
    assert lines(p, "error") == sorted(
        [
            *["SizeError users"] * 2,
            *["SizeError x"] * 4,
            "DuplicateInitError words",
            "UnsupportedError None",
            "TableFullError words",
        ]
        * 2
    )


def test_an_exception_of_one_worker_is_named_on_the_others(tmp_path: Path) -> None:
    code = """
store = kv.create("dist_sync")
store.init("w", np.ones(2, F))
if store.rank == 1:
    raise ValueError("no such file: data.bin")
try:
    store.pushpull("w", np.ones(2, F))
except errors.ParagonError as e:
    print("heard", type(e).__name__, str(e).replace(chr(10), " "))
    raise
"""
    p = job(tmp_path, KV + code, "-n", "2", status=None)
    assert p.returncode != 0
    heard = lines(p, "heard")
    assert len(heard) == 1 and "ValueError: no such file: data.bin" in heard[0], (p.out, p.err)


def test_a_worker_with_another_size_is_named(tmp_path: Path) -> None:
    code = """
store = kv.create("dist_sync")
try:
    store.init("w", np.ones(2 + store.rank, F))
    store.barrier()
except errors.SizeError as e:
    print("heard", e.key, e.worker, e)
    raise
"""
    p = job(tmp_path, KV + code, "-n", "2", status=None)
    heard = lines(p, "heard")
    assert p.returncode != 0 and heard and heard[0].startswith("w "), (p.out, p.err)
    assert "3" in heard[0] and "2" in heard[0]


def test_a_wait_that_takes_too_long_names_key_worker_and_seconds(tmp_path: Path) -> None:
    code = """
store = kv.create("dist_sync", timeout=3)
store.init("slow", np.ones(2, F))
if store.rank == 1:
    # It opens when worker 0 has heard.
    open("heard").close()
    sys.exit(0)
try:
    store.pushpull("slow", np.ones(2, F))
except errors.UnavailableError as e:
    print("heard", e.key, e.worker, round(e.seconds), str(e).replace(chr(10), " "))
open("heard", "w").close()
"""
    os.mkfifo(tmp_path / "heard")
    p = job(tmp_path, KV + code, "-n", "2", status=None)
    heard = lines(p, "heard")
    assert heard and heard[0].startswith("slow 0 3 "), (p.out, p.err)
    assert "worker 1" in heard[0]


def test_stores_within_the_process(tmp_path: Path) -> None:
    code = """
store = kv.create("local")
assert store.type == "local" and kv.create("local") is store
store.init("w", np.ones(3, F))
store.push("w", [np.ones(3, F), np.ones(3, F)])
print("local", store.pull("w").tolist())
try:
    store.set_gradient_compression({"type": "fp16"})
except errors.UnsupportedError as e:
    print("refused", e)
store.close()
device = kv.create("device")
device.init("w", np.ones(3, F))
device.set_gradient_compression({"type": "2bit", "threshold": 0.5})
device.set_optimizer("sgd", learning_rate=1)
device.store.set_learning_rate(0, 2)
print("in-device", device.pushpull("w", np.full(3, 0.75, F)).tolist())
for config in ({"name": "sgd", "speed": 1}, {"name": "adamax"}, {"learning_rate": 1}):
    try:
        device.set_optimizer(config)
    except errors.ParagonError as e:
        print("refused", e)
"""
    p = alone(tmp_path, KV + code)
    assert lines(p, "local") == [str([2.0] * 3)]
    assert lines(p, "in-device") == [str([0.0] * 3)]
    refused = " ".join(lines(p, "refused"))
    assert "speed" in refused and "adamax" in refused and len(lines(p, "refused")) == 4


def test_a_killed_bridge_fails_the_worker_at_once(tmp_path: Path) -> None:
    code = """
store = kv.create("dist_sync")
store.init("w", np.ones(2, F))
os.kill(store.store._bridge.pid, signal.SIGKILL)
store.pushpull("w", np.ones(2, F))
"""
    p = alone(tmp_path, KV + code, status=1)
    assert re.search(r"BridgeError: .*was killed by signal 9 \(SIGKILL\)", p.err)


def test_the_bridge_ends_with_a_killed_program_though_a_child_lives(tmp_path: Path) -> None:
    code = """
store = kv.create("dist_sync")
child = os.fork()
if child == 0:
    signal.pause()
    os._exit(0)
print(store.store._bridge.pid, child, flush=True)
signal.pause()
"""
    p = start(tmp_path, KV + code, launch=REAL)
    assert p.stdout is not None
    bridge, child = map(int, p.stdout.readline().split())
    try:
        p.kill()
        p.wait()
        await_end(bridge)
    finally:
        os.kill(child, signal.SIGKILL)
    p.communicate()


def test_a_wait_for_another_worker_is_said(tmp_path: Path) -> None:
    code = """
store = kv.create("dist_sync")
store.init("slow", np.ones(2, F))
if store.rank == 1:
    # It opens when worker 0 has said so.
    open("said").close()
class Said:
    def __init__(self, to): self.to, self.heard = to, False
    def write(self, text):
        if not self.heard and "slow" in text and "worker 1" in text:
            self.heard = True
            open("said", "w").close()
        return self.to.write(text)
    def flush(self): self.to.flush()
sys.stderr = Said(sys.stderr)
store.pushpull("slow", np.ones(2, F))
"""
    os.mkfifo(tmp_path / "said")
    p = job(tmp_path, KV + code, "-n", "2")
    said = [line for line in p.err.splitlines() if "| paragon: push-pull has waited" in line]
    assert "for key slow (round 0)" in said[0] and "worker 1 on localhost" in said[-1], p.err


ELASTIC = """
store = kv.create("dist_sync")
store.init("w", np.zeros(2, F))
store.set_optimizer("sgd", learning_rate=1, reduction="mean")
for batch in elastic.batches(store, 103, 8, epochs=2, seed=5):
    store.pushpull("w", np.ones(2, F), out=store.value("w"))
    for i in batch.indices[:batch.examples]:
        print("used", batch.epoch, i)
"""


@pytest.mark.parametrize("flags", [["-n", "1"], ["-n", "3"]])
def test_every_example_once_in_jobs_of_fixed_size(tmp_path: Path, flags: List[str]) -> None:
    p = job(tmp_path, KV + ELASTIC, *flags)
    assert lines(p, "used") == sorted(f"{e} {i}" for e in range(2) for i in range(103))


LEAVES = """
store = kv.create("dist_sync")
store.init("w", np.zeros(2, F))
store.set_optimizer("sgd", learning_rate=1, reduction="mean")
batches = elastic.batches(store, 103, 8, epochs=EPOCHS, seed=5)
for batch in batches:
    if batch.epoch == 0 and batch.step == 2 and store.rank == 1:
        HAPPENS
    store.pushpull("w", np.ones(2, F), out=store.value("w"))
    for i in batch.indices[:batch.examples]:
        print("used", batch.epoch, i)
print("ended", "removed" if batches.removed else store.num_workers)
"""


@pytest.mark.parametrize(
    "happens, flags, ended",
    [
        (
            "os.kill(os.getpid(), signal.SIGTERM)",
            ["--elastic-training-enabled", "True"],
            ["2", "2", "removed"],
        ),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            ["--on-worker-loss", "shrink", "--rejoin", "0"],
            ["2", "2"],
        ),
        (
            "os.kill(store.store._bridge.pid, signal.SIGKILL)",
            ["--on-worker-loss", "shrink", "--rejoin", "0"],
            ["2", "2"],
        ),
    ],
    ids=["sigterm", "killed", "bridge killed"],
)
def test_every_example_once_though_a_worker_leaves(
    tmp_path: Path, happens: str, flags: List[str], ended: List[str]
) -> None:
    # The launcher takes a moment to let a worker leave.
    epochs = 60 if "SIGTERM" in happens else 2
    code = LEAVES.replace("HAPPENS", happens).replace("EPOCHS", str(epochs))
    p = job(tmp_path, KV + code, "-n", "3", *flags)
    assert lines(p, "ended") == ended, p.err
    assert lines(p, "used") == sorted(f"{e} {i}" for e in range(epochs) for i in range(103))


ROWS = (
    LEAVES.replace("HAPPENS", "os.kill(os.getpid(), signal.SIGKILL)")
    .replace("EPOCHS", "2")
    .replace(
        'store.init("w", np.zeros(2, F))',
        'store.init("t", kv.row_sparse_array((np.zeros((103, 2), F), range(103)), (103, 2)))',
    )
    .replace(
        'store.pushpull("w", np.ones(2, F), out=store.value("w"))',
        "rows = np.ones((len(batch.indices), 2), F)\n"
        '    store.push("t", kv.row_sparse_array((rows, batch.indices), (103, 2)))',
    )
)


def test_every_example_of_a_table_once_though_a_worker_is_killed(tmp_path: Path) -> None:
    assert "pushpull" not in ROWS
    p = job(tmp_path, KV + ROWS, "-n", "3", "--on-worker-loss", "shrink", "--rejoin", "0")
    assert lines(p, "ended") == ["2", "2"], p.err
    assert lines(p, "used") == sorted(f"{e} {i}" for e in range(2) for i in range(103))


JOINS = """
store = kv.create("dist_sync")
store.init("w", np.zeros(2, F))
store.set_optimizer("sgd", learning_rate=1, reduction="mean")
first = not os.path.exists("lost")
used = open(f"used.{os.getpid()}", "w", buffering=1)
for batch in elastic.batches(store, 103, 8, epochs=500, seed=5):
    if batch.first:
        store.pull("w", out=store.value("w"))
        before = int(-store.value("w")[0])
        print("begins", "early" if before == 0 else "late")
    if batch.epoch == 2 and store.rank == 1 and first and not os.path.exists("lost"):
        open("lost", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    store.pushpull("w", np.ones(2, F), out=store.value("w"))
    print(*[f"{batch.epoch}.{i}" for i in batch.indices[:batch.examples]], file=used)
print("ended", store.num_workers, store.value("w")[0])
"""


def test_every_example_once_though_a_worker_joins(tmp_path: Path) -> None:
    p = job(tmp_path, KV + JOINS, "-n", "3", "--on-worker-loss", "shrink")
    ended = lines(p, "ended")
    assert len(ended) == 3 and len(set(ended)) == 1 and ended[0].startswith("3 "), (ended, p.err)
    assert lines(p, "begins") == ["early"] * 3 + ["late"]
    used = [word for f in tmp_path.glob("used.*") for word in f.read_text().split()]
    assert sorted(used) == sorted(f"{e}.{i}" for e in range(500) for i in range(103))


def test_reports_are_written_for_tensorboard(tmp_path: Path) -> None:
    code = """
store = kv.create("dist_sync").store
store.sampler(examples=4, batch=2, epochs=1, seed=1)
store.tensorboard("board")
store.turn(step={"loss": 0.5})
store.report(evaluation={"accuracy": 0.75})
store.close()
"""
    alone(tmp_path, KV + code)
    (written,) = (tmp_path / "board/worker-0").glob("events.out.tfevents.*")
    data = written.read_bytes()
    assert all(tag in data for tag in (b"train/loss", b"time/step", b"test/accuracy"))


def test_sigterm_in_a_job_that_needs_the_worker_ends_it_with_a_line(tmp_path: Path) -> None:
    code = """
store = paragon.init()
turn = store.sampler(100000, 1, epochs=1, seed=1)
while turn.kind == "step":
    if turn.step == 3 and store.rank == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    turn = store.turn()
"""
    p = job(tmp_path, KV + code, "-n", "2", status=1)
    worker = [line for line in p.err.splitlines() if "worker 1  | " in line]
    said = [line for line in worker if "SIGTERM ends this program" in line]
    assert "it was not started with --elastic-training-enabled" in said[0]
    assert not [line for line in p.err.splitlines() if "worker 1  | Traceback" in line]
