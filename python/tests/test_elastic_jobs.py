"""Jobs of real processes whose workers join, leave and are killed: launch, servers, bridges.

What is counted are the gradients of the round, as worker 0 sees them: an example that a worker
contributed before it was killed counts, whether or not that worker knew.
"""

from __future__ import annotations

import collections
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any, Callable

import pytest

pytest.importorskip("torch")

LAUNCH = os.environ.get("PARAGON_LAUNCH", "")
HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES, EPOCHS = 600, 4
TIMEOUT = 100

pytestmark = pytest.mark.skipif(not LAUNCH, reason="PARAGON_LAUNCH does not name launch")


class Job:
    """A job that has ended: the lines of its workers, and what launch wrote."""

    def __init__(self, folder: pathlib.Path, fates: dict[str, Any], options: list[str]) -> None:
        self.folder, self.fates, self.options = folder, fates, options
        self.lines: list[dict[str, Any]] = []
        self.hosts: dict[str, int] = {}

    def run(self, on_line: Callable[["Job", dict[str, Any]], None]) -> "Job":
        os.mkfifo(self.folder / "joins")
        command = [LAUNCH, "-s", "2", "--elastic-training-enabled", "--max-workers", "6"]
        command += ["--rejoin", "0", "--status-listen", "off", *self.options, "--"]
        command += [sys.executable, str(HERE / "elastic_worker.py"), str(self.folder)]
        command += [json.dumps(self.fates)]
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        with (self.folder / "launch.log").open("w") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            # A job that hangs ends, and the test fails with what was said.
            reaper = subprocess.Popen(["sh", "-c", f"sleep {TIMEOUT}; kill {process.pid}"])
            try:
                for line in process.stdout:
                    _, bar, text = line.partition("| ")
                    if bar and text.startswith("{"):
                        self.lines.append(json.loads(text))
                        on_line(self, self.lines[-1])
                self.code = process.wait()
            finally:
                reaper.kill()
                reaper.wait()
                if process.poll() is None:
                    process.kill()
        self.log = (self.folder / "launch.log").read_text()
        return self

    def process(self, role: str, rank: int) -> int:
        """The process of a role and rank at the start, from the table that launch writes."""
        log = (self.folder / "launch.log").read_text()
        return int(re.search(rf"^{role} +{rank} +localhost +(\d+)", log, re.MULTILINE)[1])

    def of(self, worker: int, field: str) -> list[Any]:
        return [m[field] for m in self.lines if m["worker"] == worker and field in m]

    def want_each_example_once(self) -> None:
        counts = collections.Counter(
            (m["epoch"], i) for m in self.lines if m["worker"] == 0 for i in m.get("used", ())
        )
        other = {k: n for k, n in counts.items() if n != 1}
        assert not other, f"used another number of times than once: {other}\n{self.log}"
        assert len(counts) == EXAMPLES * EPOCHS, self.log

    def states(self, step: int) -> dict[int, str]:
        """The state of each worker at the start of a step."""
        return {
            m["worker"]: m["state"] for m in self.lines if m.get("step") == step and "state" in m
        }

    def want_same_state(self) -> None:
        """Parameters, optimizer, schedule and counters are alike on all workers in each step."""
        steps = {m["step"] for m in self.lines if "state" in m}
        differ = [self.states(s) for s in steps if len(set(self.states(s).values())) > 1]
        assert steps and not differ, differ


def ctl(job: Job, *arguments: str) -> None:
    done = subprocess.run(
        [LAUNCH, "ctl", *arguments], cwd=job.folder, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stderr


def test_each_example_once_with_a_join_and_three_kills(tmp_path):
    def on_line(job: Job, line: dict[str, Any]) -> None:
        if "waits" in line:
            ctl(job, "scale", str(job.options[1]))

    fates = {
        "1": "killed after backward in step 6",
        "join": 10,
        "2": "killed before backward in step 60",
        "3": "bridge killed after backward in step 80",
    }
    job = Job(tmp_path, fates, ["-n", "4"]).run(on_line)
    assert job.code == 0, job.log
    assert job.of(4, "joins") == [True], job.log
    assert {m["fate"] for m in job.lines if "fate" in m} == {fates[w] for w in "123"}
    job.want_each_example_once()
    job.want_same_state()
    # The joiner had the state of the others from its first step on, and all of it at the end.
    first = job.of(4, "step")[0]
    assert 10 < first < 60
    assert {0, 4} <= set(job.states(first))
    assert job.of(0, "end") == job.of(4, "end") != []
    assert len(re.findall(r"killed\), lost, the job went on", job.log)) == 2, job.log
    assert "BridgeError" in job.log


def test_a_join_and_a_kill_with_the_servers_optimizer(tmp_path):
    def on_line(job: Job, line: dict[str, Any]) -> None:
        if "waits" in line:
            ctl(job, "scale", "3")

    fates = {"mode": "server", "join": 10, "1": "killed after backward in step 60"}
    job = Job(tmp_path, fates, ["-n", "2"]).run(on_line)
    assert job.code == 0, job.log
    job.want_same_state()
    assert job.of(2, "joins") == [True] and {0, 2} <= set(job.states(job.of(2, "step")[0]))
    assert [m["fate"] for m in job.lines if "fate" in m] == [fates["1"]]
    assert job.of(0, "end") == job.of(2, "end") != []


def test_a_server_a_loader_and_a_worker_that_is_told_to_end(tmp_path):
    def on_line(job: Job, line: dict[str, Any]) -> None:
        if line["worker"] == 0 and line.get("step") == 20 and "used" in line:
            os.kill(job.process("server", 1), 9)

    fates = {
        "1": "loader killed before backward in step 10",
        "2": "leave after backward in step 60",
    }
    job = Job(tmp_path, fates, ["-n", "3", "--backups", "1"]).run(on_line)
    assert job.code == 0, job.log
    assert {m["fate"] for m in job.lines if "fate" in m} == {fates[w] for w in "12"}
    job.want_each_example_once()
    job.want_same_state()
    assert job.of(2, "removed") == [True] and job.of(0, "removed") == []
    assert re.search(r"exit 0, removed .*", job.log), job.log
    assert job.of(1, "end") == [] and "DataLoader worker" in job.log
    # The job hears of the wish while it goes on, and changes after a step of all.
    last = job.of(2, "step")[-1]
    assert 60 <= last < 100
    assert job.of(2, "end") == [job.states(last + 1)[0]]
