"""A Python worker of TestAGoWorkerGoesOnFromPythonsServers: serverstate.py FOLDER RANK RULE

It trains with the servers' optimizer, saves, goes on, and writes what the weights are then.
"""

import sys

import numpy as np
import torch

import paragon.torch as pt

RULES = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, 0.02, betas=(0.8, 0.9)),
}


def main(folder, rank, rule):
    torch.set_num_threads(1)
    store = pt.init()
    torch.manual_seed(3)
    model = torch.nn.Sequential()
    model.add_module("fc1", torch.nn.Linear(60, 100))
    model.add_module("fc2", torch.nn.Linear(100, 7))
    own = RULES[rule](model.parameters())
    pt.attach(model, own, store, optimizer="server")
    # The same on both sides, by the number of the step.
    gradients = np.fromfile(f"{folder}/gradients{rank}", np.float32).reshape(8, -1)
    sizes = np.cumsum([p.numel() for p in model.parameters()])[:-1]
    for i, all_of_step in enumerate(gradients):
        if i == 5:
            store.barrier()
            if rank == 0:
                store.save(f"{folder}/store.safetensors")
            store.barrier()
        parts = np.split(all_of_step, sizes)
        loss = sum(
            (p * torch.from_numpy(g).view(p.shape)).sum() for p, g in zip(model.parameters(), parts)
        )
        own.zero_grad(set_to_none=True)
        loss.backward()
        own.step()
    weights = np.concatenate([p.detach().numpy().reshape(-1) for p in model.parameters()])
    weights.tofile(f"{folder}/python{rank}")
    store.close()


main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
