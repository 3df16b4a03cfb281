"""Kills one of three workers again and again, and says how many examples were used all the same.

    kills.py ours [--launch bin/launch] [--seconds 600] [--every 60] [--compute 0.02]
    kills.py torchft ...            the same with torchft's DDP, which pip installs as torchft-nightly

Each worker trains a small network (784-128-64-10, batch 64, one thread). --compute is added to each
step, as time that an accelerator would take: three workers share this machine's cores, and how
fast they compute is not what is asked. Who is killed (SIGKILL) is started again at once: by
launch, and of torchft by this script. torchft's timeouts are 10 s.

The result is a line: the examples of steps that counted; the steady rate, which is the median over
the seconds that are at least --settled seconds behind a kill; the seconds that workers' processes
were alive, from their start on, imports and all; and the examples in parts of the rate of one
worker times these seconds. "longest gap" is the longest time without any step that counted.
"""

import argparse
import collections
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

WORKERS, BATCH = 3, 64


# ---------------------------------------------------------------------- workers


class Notes:
    """A file of this process: when it began, and each step that counted with its examples."""

    def __init__(self, folder):
        self.file = os.open(f"{folder}/{os.getpid()}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        with open("/proc/self/stat", encoding="ascii") as f:
            ticks = int(f.read().rpartition(")")[2].split()[19])
        self.write(ticks / os.sysconf("SC_CLK_TCK"), 0)

    def write(self, at, examples):
        os.write(self.file, f"{at:.4f} {examples}\n".encode())

    def step(self, examples):
        self.write(now(), examples)


def now():
    """Seconds on the clock by which processes' starts are told."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def network(torch):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    x = torch.randn(BATCH, 784)
    return model, x, torch.randint(10, (BATCH,)), torch.optim.SGD(model.parameters(), 0.01, 0.9)


def ours(folder, compute):
    notes = Notes(folder)
    import torch

    import paragon.torch as pt

    store = pt.init()
    model, x, y, optimizer = network(torch)
    pt.attach(model, optimizer, store)
    batches = pt.ElasticSampler(1 << 20, BATCH)
    for _ in batches.epochs(1000):
        for _ in batches.batches():
            loss = torch.nn.functional.cross_entropy(model(x), y)
            time.sleep(compute)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            notes.step(batches.size)


def torchft(folder, compute, name, lighthouse):
    notes = Notes(folder)
    from datetime import timedelta

    import torch
    import torchft as ft

    model, x, y, inner = network(torch)
    ten = timedelta(seconds=10)
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = ft.Manager(
        pg=ft.ProcessGroupGloo(timeout=ten),
        load_state_dict=lambda s: (
            model.load_state_dict(s["model"]),
            inner.load_state_dict(s["optimizer"]),
        ),
        state_dict=lambda: {"model": model.state_dict(), "optimizer": inner.state_dict()},
        min_replica_size=1,
        timeout=ten,
        quorum_timeout=ten,
        connect_timeout=ten,
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        lighthouse_addr=lighthouse,
        replica_id=name,
        hostname="127.0.0.1",
    )
    replicated = ft.DistributedDataParallel(manager, model)
    optimizer = ft.Optimizer(manager, inner)
    while True:
        before = manager.current_step()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(replicated(x), y)
        time.sleep(compute)
        loss.backward()
        takes_part = manager.is_participating()
        optimizer.step()
        if manager.current_step() > before and takes_part:
            notes.step(BATCH)


# ---------------------------------------------------------------------- the run


class Ours:
    """A job of launch, which starts workers again."""

    def __init__(self, args, folder):
        self.folder = folder
        launch = os.path.abspath(args.launch)
        command = [launch, "-n", str(WORKERS), "-s", "1", "--elastic-training-enabled"]
        command += ["--rejoin", "1000", "--", sys.executable, __file__, "worker", str(folder)]
        package = str(pathlib.Path(__file__).resolve().parents[2] / "python")
        path = os.pathsep.join(p for p in (package, os.environ.get("PYTHONPATH")) if p)
        env = {**os.environ, "PARAGON_LAUNCH": launch, "PYTHONPATH": path}
        self.job = subprocess.Popen(
            [*command, str(args.compute)], env=env, cwd=folder, stdout=args.log, stderr=args.log
        )

    def keep(self):
        if self.job.poll() is not None:
            raise SystemExit(f"the job ended with {self.job.returncode}: see --log")

    def end(self):
        self.job.send_signal(signal.SIGTERM)
        self.job.wait(60)


class TorchFT:
    """A lighthouse, and processes that this script starts again."""

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        place = pathlib.Path(sys.executable).parent / "torchft_lighthouse"
        # Its own choice of a port is not told, and it has to be known.
        port = random.randrange(20000, 30000)
        command = [str(place), "--bind", f"127.0.0.1:{port}", "--min_replicas", "1"]
        self.lighthouse = subprocess.Popen(
            [*command, "--join_timeout_ms", "10000"], stdout=args.log, stderr=args.log
        )
        self.address = f"http://127.0.0.1:{port}"
        self.workers = [self.start(i) for i in range(WORKERS)]

    def start(self, i):
        command = [sys.executable, __file__, "worker", str(self.folder), str(self.args.compute)]
        return subprocess.Popen(
            [*command, f"replica{i}", self.address], stdout=self.args.log, stderr=self.args.log
        )

    def keep(self):
        for i, w in enumerate(self.workers):
            if w.poll() is not None:
                if w.returncode != -signal.SIGKILL:
                    print(f"replica{i} ended with {w.returncode}", flush=True)
                self.workers[i] = self.start(i)

    def end(self):
        for p in [*self.workers, self.lighthouse]:
            p.kill()
            p.wait()


def alive(folder):
    """The processes of workers that have begun and not ended."""
    return [int(p.name) for p in folder.iterdir() if p.name.isdigit() and runs(p.name)]


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def run(args):
    """Returns when the workers had made their first steps, when it ended, who was killed when, and
    the folder of the workers' notes."""
    now = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kills-"))
    job = (Ours if args.who == "ours" else TorchFT)(args, folder)
    chance, killed = random.Random(args.seed), {}
    try:
        while sum(len((folder / str(p)).read_text().splitlines()) > 20 for p in alive(folder)) < 3:
            job.keep()
            time.sleep(0.1)
        begin = now()
        while now() < begin + args.seconds:
            if now() >= begin + args.every * (len(killed) + 1):
                victim = chance.choice(sorted(alive(folder)))
                os.kill(victim, signal.SIGKILL)
                killed[victim] = now()
                print(f"{now() - begin:6.1f} s: killed {victim}", flush=True)
            job.keep()
            time.sleep(0.02)
        return begin, now(), killed, folder
    finally:
        job.end()


def result(args, begin, end, killed, folder):
    seconds, used, lived = collections.Counter(), 0, 0.0
    times = []
    for path in folder.iterdir():
        if not path.name.isdigit():
            continue
        lines = [line.split() for line in path.read_text().splitlines() if line.count(" ") == 1]
        lived += max(0.0, killed.get(int(path.name), end) - max(begin, float(lines[0][0])))
        for at, examples in lines[1:]:
            if begin <= float(at) < end:
                times.append(float(at))
                used += int(examples)
                seconds[int(float(at) - begin)] += int(examples)
    times = sorted([begin, *times, end])
    kills = [k - begin for k in killed.values()]
    calm = [
        seconds[s]
        for s in range(1, int(end - begin))
        if not any(k - 1 < s < k + args.settled for k in kills)
    ]
    rate = statistics.median(calm) / WORKERS
    gap = max(b - a for a, b in zip(times, times[1:]))
    print(
        f"{args.who}: {len(killed)} kills in {end - begin:.0f} s; examples used {used}; steady rate "
        f"{rate:.0f}/s a worker; alive {lived:.0f} s of {WORKERS * (end - begin):.0f}; "
        f"used/(rate x alive) {used / rate / lived:.3f}, of all seconds "
        f"{used / rate / (WORKERS * (end - begin)):.3f}; longest gap {gap:.2f} s",
        flush=True,
    )


def main():
    if sys.argv[1:2] == ["worker"]:
        folder, compute, *more = sys.argv[2:]
        return torchft(folder, float(compute), *more) if more else ours(folder, float(compute))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("who", choices=("ours", "torchft"))
    parser.add_argument("--launch", default="bin/launch")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--every", type=float, default=60)
    parser.add_argument("--compute", type=float, default=0.02, help="seconds added to each step")
    parser.add_argument("--settled", type=float, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=argparse.FileType("w"), default=subprocess.DEVNULL)
    args = parser.parse_args()
    result(args, *run(args))


if __name__ == "__main__":
    main()
