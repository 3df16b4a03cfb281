"""A command that `launch tune` searches over: it goes on from its checkpoint, as PBT wants.

    launch tune examples/python/tune.yaml

It trains a small network on two spirals, on as many workers as the study gives each trial. After
each epoch it saves model and optimizer into the folder --checkpoint, and then prints a line with
its accuracy. Begun again with that folder, as after a pause or with another trial's files, it goes
on after the last epoch, at the learning rate that it is now told.
"""

import argparse
import math
import os
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import paragon.torch as pt


def spirals(count, seed):
    """Points of two spirals that wind around each other, and which of them each is of."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    angle = 3 * math.pi * torch.rand(count, generator=random).sqrt() + 0.5
    turned = angle + labels * math.pi
    points = torch.stack([turned.cos(), turned.sin()], 1) * angle[:, None] / 10
    return points + 0.03 * torch.randn(count, 2, generator=random), labels


def newest(folder):
    """The newest checkpoint in a folder and the number of its epoch, or None and -1."""
    found = {int(path.stem): path for path in folder.glob("*.safetensors")}
    return (found[max(found)], max(found)) if found else (None, -1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rate", type=float, default=0.05, help="learning rate")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder of the state")
    options = parser.parse_args()

    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = nn.Sequential(
        nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
    )
    opt = torch.optim.SGD(model.parameters(), options.rate, momentum=options.momentum)
    options.checkpoint.mkdir(parents=True, exist_ok=True)
    path, done = newest(options.checkpoint)
    if path is not None:
        pt.load(path, model, opt)
        for group in opt.param_groups:
            group["lr"] = options.rate

    store = pt.init()
    pt.attach(model, opt, store)
    dataset = TensorDataset(*spirals(2048, 1))
    points, labels = spirals(512, 2)
    criterion = nn.CrossEntropyLoss()
    batches = pt.ElasticSampler(dataset, batch_size=64, seed=1)
    for epoch in batches.epochs(options.epochs, first=done + 1):
        for x, y in batches.batches(DataLoader(dataset, batch_sampler=batches)):
            criterion(model(x), y).backward()
            opt.step()
            opt.zero_grad()
        pt.save(options.checkpoint / f"{epoch}.safetensors", model, opt)
        if store.rank == 0:
            for old in options.checkpoint.glob("*.safetensors"):
                if int(old.stem) < epoch:
                    os.remove(old)
            with torch.no_grad():
                logits = model(points)
            right = (logits.argmax(1) == labels).float().mean().item()
            # The search reads this line of rank 0.
            print(f"accuracy={right:.4f} loss={criterion(logits, labels):.4f} step={epoch + 1}")


if __name__ == "__main__":
    main()
