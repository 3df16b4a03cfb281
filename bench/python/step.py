"""Trains a model of bench/peers/pytorch.py as a worker of a job of launch, on one thread: whole steps through paragon.torch.

    step.py MODEL BATCH STEPS     prints "spell STEPS SECONDS CPU", as pytorch.py train does for DistributedDataParallel
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "peers"))

import pytorch
import torch

import paragon.torch


def main(model, batch, steps):
    torch.set_num_threads(1)
    store = paragon.torch.init()
    t = pytorch.Training(model, batch, "float32")
    paragon.torch.attach(t.net, t.optimizer, store)
    for _ in range(2):
        t.step()
    store.barrier()
    # One write: processes share the output.
    sys.stdout.write("spell %d %.6f %.6f\n" % pytorch.spell(t.step, lambda n, s: n < steps))
    sys.stdout.flush()
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
