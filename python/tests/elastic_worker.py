"""One worker of the jobs of test_elastic_jobs.py.

Arguments: a folder, and as JSON what happens to which worker in which step. Each worker takes a
number, the first free one. The lines on standard output are for the test.
"""

import hashlib
import json
import os
import pathlib
import signal
import sys

import torch
from torch.utils.data import DataLoader, Dataset

import paragon.torch as pt

EXAMPLES, BATCH, EPOCHS, FEATURES = 600, 4, 4, 6


def take_number(folder):
    number = 0
    while True:
        try:
            (folder / f"worker{number}").touch(exist_ok=False)
            return number
        except FileExistsError:
            number += 1


class Examples(Dataset):
    def __len__(self):
        return EXAMPLES

    def __getitem__(self, i):
        x = torch.arange(FEATURES) * 0.1 * (i % 7) - i / EXAMPLES
        return i, x, x.sum()


class Model(torch.nn.Module):
    """counts[i] gets a gradient above 0 in a step that uses example i, on whatever worker."""

    def __init__(self):
        super().__init__()
        self.counts = torch.nn.Parameter(torch.zeros(EXAMPLES))
        self.first = torch.nn.Linear(FEATURES, 8)
        self.norm = torch.nn.BatchNorm1d(4)
        self.last = torch.nn.Linear(8, 1)

    def forward(self, i, x, y):
        hidden = self.norm(self.first(x).reshape(-1, 4, 2)).reshape(-1, 8)
        return self.counts[i].mean() + (self.last(hidden).squeeze(1) - y).square().mean()


def digest(value):
    """A short text that differs where any bit of the value does."""
    data = hashlib.sha256()

    def add(value):
        if isinstance(value, torch.Tensor):
            data.update(value.detach().contiguous().numpy().tobytes())
        elif isinstance(value, dict):
            for k in value:
                data.update(repr(k).encode())
                add(value[k])
        elif isinstance(value, (list, tuple)):
            for x in value:
                add(x)
        else:
            data.update(repr(value).encode())

    add(value)
    return data.hexdigest()[:16]


def child(word):
    """The process among this one's children that has a word in its command, or none of "bridge"."""
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            words = (path / "cmdline").read_text().split("\0")
        except (OSError, IndexError):
            continue
        if parent == os.getpid() and ("bridge" in words) == (word == "bridge"):
            return int(path.name)
    raise SystemExit(f"no child process for {word}")


class Worker:
    def __init__(self, folder, fates):
        self.folder, self.fates = folder, fates
        self.number = take_number(folder)
        self.fate = fates.get(str(self.number), "")

    def say(self, **what):
        # One write, so that the lines of two processes do not mix.
        line = json.dumps({"worker": self.number, **what})
        os.write(1, (line + "\n").encode())

    def meet(self, now, step):
        """Does what is to happen to this worker at this place of a step."""
        what, _, when = self.fate.partition(" in step ")
        if when != str(step) or not what.endswith(now):
            return
        self.say(fate=self.fate)
        if what.startswith("bridge"):
            os.kill(child("bridge"), signal.SIGKILL)
        elif what.startswith("loader"):
            os.kill(child("loader"), signal.SIGKILL)
        elif what.startswith("leave"):
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            os.kill(os.getpid(), signal.SIGKILL)

    def run(self):
        torch.set_num_threads(1)
        torch.manual_seed(self.number)
        store = pt.init()
        model = Model()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.9)
        counters = {"steps": 0}
        mode = self.fates.get("mode", "local")
        kept = {"schedule": schedule, "counters": counters}
        pt.attach(model, optimizer, store, state=kept, optimizer=mode)
        batches = pt.ElasticSampler(EXAMPLES, BATCH)
        # A loader's process that is to be killed has to be a child of this one.
        way = "fork" if self.fate.startswith("loader") else None
        loader = DataLoader(
            Examples(), batch_sampler=batches, num_workers=1, multiprocessing_context=way
        )
        self.say(joins=store.joining)
        if store.joining and "join" in self.fates:
            # Worker 0 waits for this, so that the job does not end before.
            (self.folder / "joins").open("w").close()

        def state():
            # The servers' optimizer has its state there, and each state_dict() fetches it.
            own = optimizer.state_dict() if mode == "local" else optimizer.param_groups[0]["lr"]
            parts = [own, schedule.state_dict(), counters]
            return digest([*parts, dict(model.named_parameters())])

        try:
            self.train(batches, loader, model, optimizer, schedule, counters, state)
        except pt.RemovedExit:
            self.say(end=state(), removed=True)
            raise
        self.say(end=state())

    def train(self, batches, loader, model, optimizer, schedule, counters, state):
        for epoch in batches.epochs(EPOCHS):
            for i, x, y in batches.batches(loader):
                step = batches.steps
                self.say(step=step, state=state())
                if self.number == 0 and step == self.fates.get("join"):
                    self.say(waits=step)
                    (self.folder / "joins").open("r").close()
                self.meet("before backward", step)
                loss = model(i, x, y)
                loss.backward()
                used = model.counts.grad.nonzero().squeeze(1).tolist()
                self.meet("after backward", step)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
                counters["steps"] += 1
                self.say(epoch=epoch, step=step, used=used)


# From Python 3.14 on the loader's processes import this file.
if __name__ == "__main__":
    Worker(pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])).run()
