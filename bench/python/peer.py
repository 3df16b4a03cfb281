"""Plays works of bench/kv through the Python client, for "bench/kv -peer".

    peer.py KV TRANSPORT API

bench/kv/peer.go says what a peer is told and what it answers. Scheduler and servers are those of
KV, the program of bench/kv, over TRANSPORT (tcp or auto); a worker is this script, through

    torch    paragon.torch: ordinary tensors as .grad, and the mean in .grad
    arrays   paragon.kv.pushpull with ordinary arrays
    views    paragon.kv.pushpull with arrays that lie in the client's memory

A sample of a work of small keys is many calls, one after another. Values are checked afterwards.
"""

import json
import os
import sys
import threading
import time

import numpy as np


def end_with_input():
    while sys.stdin.buffer.raw.read(4096):
        pass
    os._exit(1)


def say(**event):
    print(json.dumps(event), flush=True)


def plan():
    for line in os.environ["PARAGON_BENCH_PLAN"].splitlines():
        name, samples, passes, pull, whole, *values = line.split()
        yield name, int(samples), int(passes), pull == whole == "1", [int(n) for n in values]


def gradient(n):
    return (np.arange(n) % 7 - 3).astype(np.float32)


class Torch:
    """Parameters whose gradients are ordinary tensors."""

    def __init__(self, name, sizes):
        import torch
        import paragon.torch

        torch.set_num_threads(1)
        self.store = paragon.torch.init()
        self.model = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(n)) for n in sizes])
        self.gradients = [torch.from_numpy(gradient(n)) for n in sizes]
        self.parameters = list(self.model.parameters())
        optimizer = torch.optim.SGD(self.parameters, 0.1)
        self.attached = paragon.torch.attach(self.model, optimizer, self.store, name=name)

    def prepare(self):
        for p, g in zip(self.parameters, self.gradients):
            p.grad = g

    def run(self):
        self.attached._exchange.now()

    def check(self, workers):
        return all(np.array_equal(p.grad.numpy(), gradient(p.numel())) for p in self.parameters)


class Arrays:
    """Ordinary arrays, or views of the client's memory."""

    def __init__(self, name, sizes, views=False):
        from paragon import kv

        self.kv = kv.create("dist_sync")
        self.store = self.kv.store
        self.keys = [f"{name}/{i}" for i in range(len(sizes))]
        self.kv.init(self.keys, [np.zeros(n, np.float32) for n in sizes])
        if views:
            self.gradients = [self.kv.gradient(k) for k in self.keys]
            self.outs = [self.kv.value(k) for k in self.keys]
        else:
            self.gradients = [np.empty(n, np.float32) for n in sizes]
            self.outs = [np.empty(n, np.float32) for n in sizes]
        for g in self.gradients:
            g[:] = gradient(g.size)

    def prepare(self):
        pass

    def run(self):
        self.kv.pushpull(self.keys, self.gradients, out=self.outs)

    def check(self, workers):
        return all(np.array_equal(o, workers * gradient(o.size)) for o in self.outs)


def sample(player, passes):
    took = 0
    for _ in range(passes):
        player.prepare()
        begin = time.perf_counter_ns()
        player.run()
        took += time.perf_counter_ns() - begin
    return took


def work(api):
    make = {"torch": Torch, "arrays": Arrays, "views": lambda *a: Arrays(*a, views=True)}[api]
    store = None
    for name, samples, passes, plays, sizes in plan():
        if not plays:
            say(Work=name, Skip=True)
            continue
        player = make(name, sizes)
        store = player.store
        for _ in range(3):
            sample(player, passes)
        store.barrier()
        say(Work=name, Begin=True)
        took = [sample(player, passes) for _ in range(samples)]
        if not player.check(store.num_workers):
            sys.exit(f"peer: {name}: the values are not those of {store.num_workers} workers")
        say(Work=name, Took=took, First=took)
        store.barrier()
    if store is not None:
        store.close()


if __name__ == "__main__":
    kv, transport, api = sys.argv[1:4]
    os.environ["PARAGON_BENCH_TRANSPORT"] = os.environ["PARAGON_TRANSPORT"] = transport
    # Workers of bench/kv do not add up within their host.
    os.environ["PARAGON_HOST_SUMS"] = "off"
    if os.environ["DMLC_ROLE"] != "worker":
        os.execv(kv, [kv])
    threading.Thread(target=end_with_input, daemon=True).start()
    work(api)
