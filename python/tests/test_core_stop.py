"""How a job ends: stopped with a checkpoint, by Ctrl-C, by an exception. Real jobs."""

from __future__ import annotations

import collections
import re
from pathlib import Path

import pytest
from corehelp import REAL
from jobhelp import Job

pytestmark = pytest.mark.skipif(
    not REAL, reason="PARAGON_LAUNCH is not set: go build -o launch ./launch, and name it there"
)

# Each worker says which examples it uses; the checkpoint is the value of the key and the position.
LOOP = """
import json, os, sys
import numpy as np
import paragon
from paragon import elastic, kv

store = kv.create("dist_sync")
store.init("w", np.zeros(2, np.float32))
store.set_optimizer("sgd", learning_rate=1, reduction="mean")
position = {}
if os.path.exists("position"):
    store.load("state")
    position = json.load(open("position"))

def checkpoint():
    if store.rank == 0:
        store.save("state")
        json.dump(batches.position, open("position", "w"))

options = {"checkpoint": checkpoint} if "folder" in os.environ.get("STOP", "folder") else {}
batches = elastic.batches(store, 100, 4, epochs=EPOCHS, seed=5, **options, **position)
for batch in batches:
    if batch.first:
        store.pull("w", out=store.value("w"))
    print("turn", batch.turn.steps, flush=True)
    store.pushpull("w", np.ones(2, np.float32), out=store.value("w"))
    for i in batch.indices[:batch.examples]:
        print("used", batch.epoch, i, flush=True)
print("through", store.value("w")[0])
"""

FLAGS = ["-n", "2", "-s", "1", "--status-listen", "off"]
ELASTIC = "--elastic-training-enabled"


@pytest.mark.parametrize("flags", [[], [ELASTIC]], ids=["fixed", "elastic"])
@pytest.mark.parametrize("by", ["stop", "interrupt"])
def test_a_job_that_is_stopped_goes_on_from_its_checkpoint(
    tmp_path: Path, by: str, flags: list[str]
) -> None:
    asked = []

    def act(job: Job, line: str) -> None:
        if line.endswith("turn 30") and not asked:
            asked.append(line)
            job.ctl("stop") if by == "stop" else job.interrupt()

    first = Job(tmp_path, LOOP.replace("EPOCHS", "4000"), *FLAGS, *flags).run(act)
    assert first.code == (85 if by == "stop" else 130), first.err
    assert not first.words("through") and (tmp_path / "position").exists(), first.err
    assert "ERROR" not in first.err and "Traceback" not in first.err, first.err
    said = re.search(r"with a checkpoint after (\d+) steps", first.err)
    assert said and int(said[1]) > 30, first.err
    code = "exit 0" if by == "stop" else "exit 143"
    assert [e.split(",")[0] for e in first.ends()] == [code] * 2, first.err
    # Another number of workers ends the epoch that was begun, and the next one.
    epochs = int(first.words("used")[-1].split()[0]) + 2
    flags = ["-n", "3", *FLAGS[2:]]
    second = Job(tmp_path, LOOP.replace("EPOCHS", str(epochs)), *flags).run()
    assert second.code == 0, second.err
    counts = collections.Counter(first.words("used") + second.words("used"))
    assert set(counts.values()) == {1} and len(counts) == 100 * epochs
    ((done,),) = [set(second.words("through"))]
    assert -float(done) == max(map(int, second.words("turn"))) + 1 > int(said[1])


def test_a_job_without_a_place_for_checkpoints_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOP", "nowhere")

    def act(job: Job, line: str) -> None:
        if line.endswith("turn 30"):
            job.process.send_signal(10)

    job = Job(tmp_path, LOOP.replace("EPOCHS", "4000"), *FLAGS).run(act)
    assert job.code == 1, job.err
    assert "elastic.batches has no checkpoint=" in job.err.splitlines()[-1], job.err
    assert [e.split(",")[0] for e in job.ends()] == ["exit 143"] * 2, job.err


def test_a_sigterm_to_a_worker_that_the_job_needs_stops_all_of_it(tmp_path: Path) -> None:
    act = "if batch.turn.steps == 30 and store.rank == 1: os.kill(os.getpid(), 15)\n    "
    code = LOOP.replace("print(\"turn\"", act + "print(\"turn\"").replace("EPOCHS", "4000")
    job = Job(tmp_path, code, *FLAGS).run()
    assert job.code == 143 and (tmp_path / "position").exists(), job.err
    assert "Traceback" not in job.err
    assert [e.split(",")[0] for e in job.ends()] == ["exit 143"] * 2, job.err


def test_the_table_says_which_exception_failed_the_job(tmp_path: Path) -> None:
    code = """
    import atexit, os, signal, time
    import numpy as np
    import paragon
    from paragon import kv

    def told(*_):
        open("told", "w").close()
        os._exit(143)

    def wait():
        # The program takes its time to end, and the other one hears SIGTERM meanwhile.
        while not os.path.exists("told"):
            time.sleep(0.01)

    store = kv.create("dist_sync")
    store.init("w", np.ones(2, np.float32))
    store.store.barrier()
    if store.rank == 1:
        # What is registered last runs first, and this is to run behind the end of the store.
        atexit.unregister(paragon._life._at_exit)
        atexit.register(wait)
        atexit.register(paragon._life._at_exit)
        raise ValueError("no such file: data.bin")
    signal.signal(signal.SIGTERM, told)
    while True:
        time.sleep(0.01)
    """
    job = Job(tmp_path, code, *FLAGS).run()
    assert job.code == 1, job.err
    row = re.search(r"^worker +1 +localhost +\d+ +(.+)$", job.err.rpartition("ENDED")[2], re.M)
    assert row and row[1].startswith("exit 1 "), job.err
    assert "ValueError: no such file: data.bin" in job.err.splitlines()[-1], job.err


def test_status_and_table_name_the_same_process(tmp_path: Path) -> None:
    code = """
    import os
    import numpy as np
    from paragon import kv
    store = kv.create("dist_sync")
    store.init("w", np.ones(2, np.float32))
    store.store.barrier()
    if store.rank == 0:
        print("ready", os.getpid(), flush=True)
        while not os.path.exists("seen"):
            pass
    store.store.barrier()
    """
    seen = []

    def act(job: Job, line: str) -> None:
        if "ready" in line:
            seen.append((job.ctl("status"), job.started()))
            (job.folder / "seen").touch()

    job = Job(tmp_path, code, *FLAGS).run(act)
    assert job.code == 0, job.err
    ((status, table),) = seen
    pattern = r"^worker +0 +localhost +(\d+)"
    pids = [re.search(pattern, text, re.M)[1] for text in (status, table)]  # type: ignore[index]
    assert pids == job.words("ready") * 2, (status, table)
