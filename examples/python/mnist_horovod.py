"""Trains a small convolutional network on MNIST by Horovod's names.

    launch -n 2 -s 1 -- python mnist_horovod.py --data data/mnist

A program written for Horovod runs the same way: only its import line changes.
"""

import argparse
import gzip
import os
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import paragon.horovod.torch as hvd


def read_idx(folder, name):
    """Returns the array of an idx file, compressed or not."""
    path = os.path.join(folder, name)
    packed = not os.path.exists(path)
    with gzip.open(path + ".gz") if packed else open(path, "rb") as f:
        data = f.read()
    # The header is two zeros, the type (8 is unsigned bytes), the number of dimensions, and sizes.
    if data[:3] != b"\0\0\x08":
        raise SystemExit(f"{path} is no idx file of bytes")
    dimensions = data[3]
    shape = np.frombuffer(data, ">u4", dimensions, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def mnist(folder, part):
    """Returns the images of a part, normalised, with their labels."""
    images = torch.from_numpy(read_idx(folder, f"{part}-images-idx3-ubyte").astype(np.float32))
    labels = torch.from_numpy(read_idx(folder, f"{part}-labels-idx1-ubyte").astype(np.int64))
    return TensorDataset((images.unsqueeze(1) / 255 - 0.1307) / 0.3081, labels)


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 5, stride=2),
        torch.nn.BatchNorm2d(16),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 5, stride=2),
        torch.nn.BatchNorm2d(32),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * 4 * 4, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 10),
    )


def train(model, optimizer, loader):
    model.train()
    for images, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        # Gradients are the mean of all workers here. In Horovod this needs synchronize() before
        # and skip_synchronize() around step(); both work here, too.
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    return loss.item()


@torch.no_grad()
def evaluate(model, loader):
    """Returns the accuracy over the images of all workers."""
    model.eval()
    correct = total = 0
    for images, labels in loader:
        correct += (model(images).argmax(1) == labels).sum()
        total += len(labels)
    counts = hvd.allreduce(torch.tensor([correct, total]), op=hvd.Sum, name="correct")
    return (counts[0] / counts[1]).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder of MNIST's idx files, .gz or not")
    parser.add_argument("--epochs", type=int, default=2, help="passes over the data")
    parser.add_argument("--batch", type=int, default=64, help="images per step and worker")
    parser.add_argument("--learning-rate", type=float, default=0.02, help="of one worker")
    parser.add_argument("--examples", type=int, default=60000, help="images to train on")
    args = parser.parse_args()

    hvd.init()
    torch.manual_seed(hvd.rank())
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // hvd.local_size()))

    training, test = mnist(args.data, "train"), mnist(args.data, "t10k")
    training = torch.utils.data.Subset(training, range(min(args.examples, len(training))))
    sampler = DistributedSampler(training, num_replicas=hvd.size(), rank=hvd.rank())
    loader = DataLoader(training, batch_size=args.batch, sampler=sampler)
    mine = torch.utils.data.Subset(test, range(hvd.rank(), len(test), hvd.size()))

    model = network()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=args.learning_rate * hvd.size(), momentum=0.9
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        began = time.perf_counter()
        loss = train(model, optimizer, loader)
        seconds = time.perf_counter() - began
        # Workers have seen different images, so their statistics of BatchNorm differ.
        hvd.broadcast_parameters(list(model.named_buffers()), root_rank=0)
        accuracy = evaluate(model, DataLoader(mine, batch_size=500))
        if hvd.rank() == 0:
            print(
                f"epoch {epoch + 1}: loss {loss:.4f}, accuracy {accuracy:.4f}, "
                f"{len(training) / seconds:.0f} images/s on {hvd.size()} workers",
                flush=True,
            )


if __name__ == "__main__":
    main()
