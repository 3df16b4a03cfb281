"""Reads a folder of images with PyTorch's DataLoader and torchvision, in turns with bench/dataload.

    peer.py FOLDER WORKERS BATCH SIZE DEVICE_FORMAT

DEVICE_FORMAT is float32 (ToTensor and Normalize, what a model takes) or uint8 (without both). It writes "ready", and for each line that it
reads makes one pass over the images and writes how many they were, the seconds, and the seconds of CPU time with those of its processes.
"""
import os
import sys
import time

import torch
from torchvision import datasets, transforms


def cpu():
    """cpu is the CPU time of this process and of its children, which live on, in seconds."""
    ticks = 0
    children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
    for process in ["self", *children]:
        fields = open(f"/proc/{process}/stat").read().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main(folder, workers, batch, size, kind):
    torch.set_num_threads(1)
    steps = [transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip()]
    if kind == "float32":
        steps += [transforms.ToTensor(), transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    else:
        steps += [transforms.PILToTensor()]
    images = datasets.ImageFolder(folder, transforms.Compose(steps))
    loader = torch.utils.data.DataLoader(images, batch, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    for _ in loader:  # starts the processes
        pass
    print("ready", flush=True)
    for _ in sys.stdin:
        begun, before, n = time.perf_counter(), cpu(), 0
        for pixels, labels in loader:
            n += len(labels)
        print(n, time.perf_counter() - begun, cpu() - before, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
