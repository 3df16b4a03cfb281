"""A Python worker of TestPythonsValuesAreGos: values.py FOLDER RANK JOB

JOB is JSON: the sizes of the keys, the number of steps, the servers' optimizer or null, the rate of
the torch one, and the kinds of keys: "dense" through paragon.kv, "average" through the store's
plans, "local" and "server" through paragon.torch.attach in its two modes. Gradients, weights and
first values are files of float32 values; what each key's value is behind each step goes to one.
"""

import json
import sys

import numpy as np


def dense(store, names, first):
    """Keys of paragon.kv: pushed and pulled in one call in even steps, in two in odd ones."""
    import paragon.kv

    kv = paragon.kv.KVStore(store)
    kv.init(names, first)

    def step(i, gradients, weight):
        kv.weight = weight
        if i % 2 == 0:
            return kv.pushpull(names, gradients)
        kv.push(names, gradients)
        values = [np.empty_like(f) for f in first]
        kv.pull(names, values)
        return values

    return step


def average(store, names, first):
    """Keys whose value is the mean, from the store itself. The mean comes into the gradient's
    slot, or into another one."""
    from paragon._store import Declaration, Entry

    region = store.memory([f.size for f in first for _ in range(2)])
    for i, f in enumerate(first):
        region.slot(2 * i)[: f.size] = f
    store.init([Declaration(n, region, 2 * i, f.size) for i, (n, f) in enumerate(zip(names, first))])
    plans = [
        store.plan([Entry(n, region, 2 * i, 2 * i + out) for i, n in enumerate(names)])
        for out in (0, 1)
    ]

    def step(i, gradients, weight):
        for k, g in enumerate(gradients):
            region.slot(2 * k)[: g.size] = g * np.float32(weight)
        store.wait(plans[i % 2].exchange(weight=weight, answer=True))
        return [region.slot(2 * k + i % 2)[: g.size].copy() for k, g in enumerate(gradients)]

    return step


def attached(store, first, mode, optimizer):
    """A model whose gradients are what the test says: each parameter's, times 1."""
    import torch

    import paragon.torch as pt

    torch.set_num_threads(1)
    model = torch.nn.ParameterList([torch.nn.Parameter(torch.from_numpy(f.copy())) for f in first])
    own = optimizer(torch, model.parameters())
    a = pt.attach(model, own, store, name=mode, optimizer=mode)

    def step(i, gradients, weight):
        # What a turn of ElasticSampler says of its batch.
        a._weight_of = lambda: (weight, 0)
        own.zero_grad(set_to_none=i % 2 == 0)
        sum((p * torch.from_numpy(g)).sum() for p, g in zip(model, gradients)).backward()
        own.step()
        values = model if mode == "server" else [p.grad for p in model]
        return [v.detach().numpy().copy() for v in values]

    return step


def main(folder, rank, job):
    import paragon._store

    sizes, steps = job["sizes"], job["steps"]
    store = paragon._store.Store("dist_sync", 60.0)
    assert store.rank == rank
    numbers = np.fromfile(f"{folder}/first", np.float32)
    first = np.split(numbers, np.cumsum(sizes)[:-1])
    optimizer = job["optimizer"]
    if optimizer and "server" not in job["kinds"]:
        store.set_optimizer(optimizer)
    groups = []
    for kind in job["kinds"]:
        names = [f"{kind}/{i}" for i in range(len(sizes))]
        if kind == "dense":
            groups.append(dense(store, names, first))
        elif kind == "average":
            groups.append(average(store, names, first))
        else:
            of = job["rate"], optimizer["beta1"], optimizer["beta2"]
            groups.append(
                attached(store, first, kind, lambda torch, p: torch.optim.Adam(p, of[0], of[1:]))
            )
    gradients = np.fromfile(f"{folder}/gradients{rank}", np.float32).reshape(steps, -1)
    weights = np.fromfile(f"{folder}/weights{rank}", np.float32)
    with open(f"{folder}/python{rank}", "wb") as out:
        for i in range(steps):
            for step in groups:
                split = np.split(gradients[i], np.cumsum(sizes)[:-1])
                for value in step(i, split, float(weights[i])):
                    out.write(value.tobytes())
    store.close()


main(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
