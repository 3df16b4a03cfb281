"""Trains the models of bench/cpu with PyTorch, in turns with it: forward, loss, backward and an update (SGD with momentum, or fused AdamW) on random data.

    pytorch.py serve MODEL BATCH THREADS DTYPE [compile]   speaks the protocol of "cpu serve" on standard input and output
    pytorch.py train MODEL BATCH PROCESSES STEPS           DistributedDataParallel over gloo, one thread a process

Of images PyTorch takes the faster of its two memory layouts, measured before it says "ready". With "compile" torch.compile makes the
forward and backward passes and SGD's step; without it they are eager. AdamW's is one kernel over all parameters in both.
"""

import os
import resource
import sys
import tempfile
import time

import torch
import torch.distributed
import torch.multiprocessing
import torch.nn as nn
import torch.nn.functional as F

import models


def conv(i, o, kernel, stride):
    return nn.Conv2d(i, o, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(i, o, 3, stride), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = conv(o, o, 3, 1), nn.BatchNorm2d(o)
        self.shortcut = nn.Sequential()
        if stride != 1 or i != o:
            self.shortcut = nn.Sequential(conv(i, o, 1, stride), nn.BatchNorm2d(o))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += self.shortcut(x)
        return F.relu(y, inplace=True)


def resnet18(stem):
    if stem == "cifar":
        first = [conv(3, 64, 3, 1), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    else:
        first = [conv(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    blocks, i = [], 64
    for stage in range(4):
        for stride in (1 if stage == 0 else 2, 1):
            blocks.append(Block(i, 64 << stage, stride))
            i = 64 << stage
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(inplace=True), nn.Linear(512, 512), nn.ReLU(inplace=True), nn.Linear(512, 10))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(inplace=True), nn.Linear(120, 84), nn.ReLU(inplace=True), nn.Linear(84, 10))


def mobilenetv2():
    """torchvision's, with the strides that are usual for 32×32: 88.0 M multiply-adds."""
    import torchvision

    stages = [[1, 16, 1, 1], [6, 24, 2, 1], [6, 32, 3, 2], [6, 64, 4, 2], [6, 96, 3, 1], [6, 160, 3, 2], [6, 320, 1, 1]]
    net = torchvision.models.MobileNetV2(num_classes=10, inverted_residual_setting=stages)
    net.features[0][0].stride = (1, 1)
    return net


class Model:
    """A network for random inputs of a shape: numbers, or integers below tokens. Labels are below classes, one for each row of logits."""

    def __init__(self, make, shape, classes=10, tokens=0, rule="sgd"):
        self.make, self.shape, self.classes, self.tokens, self.rule = make, shape, classes, tokens, rule

    def inputs(self, batch):
        if self.tokens:
            return torch.randint(0, self.tokens, (batch, *self.shape))
        return torch.randn(batch, *self.shape)

    def optimizer(self, parameters):
        if self.rule == "sgd":
            return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)
        return torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.1, fused=True)


MODELS = {
    "resnet18-imagenet": Model(lambda: resnet18("imagenet"), (3, 32, 32)),
    "resnet18-cifar": Model(lambda: resnet18("cifar"), (3, 32, 32)),
    "mlp": Model(mlp, (784,)),
    "lenet": Model(lenet, (1, 28, 28)),
    "mobilenetv2": Model(mobilenetv2, (3, 32, 32)),
    "vit-ti4": Model(lambda: models.ViT(12, 3, 192, 4, 32, 10), (3, 32, 32), rule="adamw"),
    "lstm": Model(lambda: models.LSTMClassifier(256, 256, 10), (128, 256), rule="adamw"),
    "gpt-10m": Model(lambda: models.GPT(6, 6, 384, 256, 256, "none"), (256,), classes=256, tokens=256, rule="adamw"),
    "gpt2-124m": Model(lambda: models.GPT(12, 12, 768, 1024, 50257, "tanh"), (64,), classes=50257, tokens=50257, rule="adamw"),
}


class Training:
    def __init__(self, model, batch, dtype, layout=torch.contiguous_format, wrap=lambda m: m, compiled=False):
        m = MODELS[model]
        torch.manual_seed(1)
        net, x = m.make(), m.inputs(batch)
        if x.dim() == 4:
            net, x = net.to(memory_format=layout), x.to(memory_format=layout)
        self.net, self.x = wrap(net), x
        self.labels = torch.randint(0, m.classes, tuple(x.shape) if m.tokens else (batch,))
        self.optimizer = m.optimizer(self.net.parameters())
        self.bf16 = dtype == "bf16"
        self.update = self.optimizer.step
        if compiled:
            self.loss = torch.compile(self.loss)
            if m.rule == "sgd":
                self.update = torch.compile(self.update)

    def loss(self):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            return F.cross_entropy(self.net(self.x).flatten(0, -2), self.labels.flatten())

    def step(self):
        loss = self.loss()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.update()


class Passes:
    """Attention's forward and backward passes; there is no update."""

    def __init__(self, model, batch, dtype, compiled=False):
        torch.manual_seed(1)
        number = torch.bfloat16 if dtype == "bf16" else torch.float32
        self.net = models.Attention(batch, 6, 1024, 64, model == "attention", number)
        self.forward = torch.compile(self.net) if compiled else self.net
        self.gradient = torch.randn(batch, 6, 1024, 64, dtype=number)

    def step(self):
        self.net.zero_grad(set_to_none=True)
        self.forward().backward(self.gradient)


def cpu_time():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime


def spell(step, more):
    """Steps as long as more(steps, seconds); returns steps, seconds, seconds of CPU time."""
    cpu, start, n = cpu_time(), time.perf_counter(), 0
    while n == 0 or more(n, time.perf_counter() - start):
        step()
        n += 1
    return n, time.perf_counter() - start, cpu_time() - cpu


def faster(model, batch, dtype, layouts, compiled):
    """The training in the faster layout: the better of two short spells each, in turns, after two steps."""
    if model in ("attention", "attention-unfused"):
        return Passes(model, batch, dtype, compiled)
    trainings = [Training(model, batch, dtype, layout, compiled=compiled) for layout in layouts]
    if len(trainings) == 1:
        return trainings[0]
    best = [float("inf")] * len(trainings)
    for t in trainings:
        t.step(), t.step()
    for _ in range(2):
        for i, t in enumerate(trainings):
            n, seconds, _ = spell(t.step, lambda n, s: s < 0.3)
            best[i] = min(best[i], seconds / n)
    return trainings[best.index(min(best))]


def status(name):
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(name + ":"):
                return int(line.split()[1]) << 10
    return 0


def reset_peak():
    try:
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
    except OSError:
        pass


def serve(model, batch, threads, dtype, compiled):
    torch.set_num_threads(threads)
    choices = {"plain": torch.contiguous_format, "last": torch.channels_last}
    layouts = [choices[os.environ["TORCH_LAYOUT"]]] if "TORCH_LAYOUT" in os.environ else list(choices.values())
    if model in MODELS and (MODELS[model].tokens or len(MODELS[model].shape) != 3):
        layouts = layouts[:1]  # of numbers that are no images
    reset_peak()
    before = status("VmRSS")
    t = faster(model, batch, dtype, layouts, compiled)
    for _ in range(2):
        t.step()
    print("ready", flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "run":
            print(*spell(t.step, lambda n, s: s < float(rest[0])), flush=True)
        else:
            print(0, status("VmHWM") - before, status("VmHWM"), flush=True)


def train(rank, model, batch, processes, steps, rendezvous):
    torch.set_num_threads(1)
    wrap = lambda m: m
    if processes > 1:
        torch.distributed.init_process_group("gloo", init_method="file://" + rendezvous, rank=rank, world_size=processes)
        wrap = nn.parallel.DistributedDataParallel
    t = Training(model, batch, "float32", wrap=wrap)
    for _ in range(2):
        t.step()
    if processes > 1:
        torch.distributed.barrier()
    # One write: processes share the output.
    sys.stdout.write("spell %d %.6f %.6f\n" % spell(t.step, lambda n, s: n < steps))
    sys.stdout.flush()


if __name__ == "__main__":
    what, model, batch = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if what == "serve":
        serve(model, batch, int(sys.argv[4]), sys.argv[5], "compile" in sys.argv[6:])
    else:
        processes, steps = int(sys.argv[4]), int(sys.argv[5])
        with tempfile.TemporaryDirectory() as folder:
            args = (model, batch, processes, steps, os.path.join(folder, "rendezvous"))
            if processes == 1:
                train(0, *args)
            else:
                torch.multiprocessing.spawn(train, args, nprocs=processes)
