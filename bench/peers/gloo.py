"""Plays the ResNet18 work of bench/kv as one all-reduce of all arrays over gloo, for "bench/kv -peer".

bench/kv/peer.go says what it is told and what it answers. An all-reduce has no servers: theirs end at once, and the scheduler
only finds a port. Works that are not one whole pass, and jobs of one worker, are skipped.
"""

import json
import os
import socket
import sys
import threading
import time


def end_with_input():
    while sys.stdin.buffer.raw.read(4096):
        pass
    os._exit(1)


def say(**event):
    print(json.dumps(event), flush=True)


def schedule():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        print("127.0.0.1:%d" % s.getsockname()[1], flush=True)


def plan():
    for line in os.environ["PARAGON_BENCH_PLAN"].splitlines():
        name, samples, passes, pull, whole, *values = line.split()
        yield name, int(samples), int(passes) == 1 and pull == whole == "1", sum(map(int, values))


def work():
    workers = int(os.environ["DMLC_NUM_WORKER"])
    works = list(plan())
    if workers == 1 or not any(plays for _, _, plays, _ in works):
        for name, *_ in works:
            say(Work=name, Skip=True)
        return
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    address = "tcp://%s:%s" % (os.environ["DMLC_PS_ROOT_URI"], os.environ["DMLC_PS_ROOT_PORT"])
    dist.init_process_group("gloo", init_method=address, rank=int(os.environ["PARAGON_RANK"]), world_size=workers)
    for name, samples, plays, values in works:
        if not plays:
            say(Work=name, Skip=True)
            continue
        x = torch.ones(values)

        def sample():
            x.fill_(1)
            begin = time.perf_counter_ns()
            dist.all_reduce(x)
            return time.perf_counter_ns() - begin

        for _ in range(3):
            sample()
        dist.barrier()
        say(Work=name, Begin=True)
        took = [sample() for _ in range(samples)]
        if not bool((x == workers).all()):
            sys.exit("gloo: %s: the sum of ones is not the number of workers" % name)
        say(Work=name, Took=took, First=took)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    threading.Thread(target=end_with_input, daemon=True).start()
    role = os.environ["DMLC_ROLE"]
    if role == "scheduler":
        schedule()
    elif role == "worker":
        work()
