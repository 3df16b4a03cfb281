#!/usr/bin/env python3
"""Training steps of ResNet18 for 32x32 images in PyTorch on one GPU: images on the device already, SGD with Nesterov momentum.

usage: torch.py [--seconds 2] [--batches 128,512,1024] [--variants eager,compile] [--types bf16]

Prints one JSON object a line: first the versions, then for each measurement variant, type, batch, images_per_s, ms (the
median of spells of ten steps between two events) and mib, or an error. channels_last and autocast throughout; type tf32 has no
autocast.
"""
import argparse
import json
import time


def say(**fields):
    print(json.dumps(fields), flush=True)


def network(torch):
    nn, F = torch.nn, torch.nn.functional

    def conv(i, o, size, stride):
        return nn.Conv2d(i, o, size, stride, size // 2, bias=False)

    class Block(nn.Module):
        def __init__(self, i, o, stride):
            super().__init__()
            self.conv1, self.bn1 = conv(i, o, 3, stride), nn.BatchNorm2d(o)
            self.conv2, self.bn2 = conv(o, o, 3, 1), nn.BatchNorm2d(o)
            same = stride == 1 and i == o
            self.short = nn.Identity() if same else nn.Sequential(conv(i, o, 1, stride), nn.BatchNorm2d(o))

        def forward(self, x):
            y = F.relu(self.bn1(self.conv1(x)), inplace=True)
            return F.relu(self.bn2(self.conv2(y)) + self.short(x), inplace=True)

    blocks, width = [], 64
    for stage in range(4):
        for k in range(2):
            out = 64 << stage
            blocks.append(Block(width, out, 2 if stage > 0 and k == 0 else 1))
            width = out
    return nn.Sequential(conv(3, 64, 3, 1), nn.BatchNorm2d(64), nn.ReLU(inplace=True), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def measure(torch, variant, kind, batch, seconds):
    device = "cuda"
    torch.manual_seed(1)
    model = network(torch).to(device).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4, fused=True)
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "tf32": torch.float32}[kind]
    scaler = torch.amp.GradScaler(device, enabled=kind == "fp16")
    run = {"eager": lambda: model, "compile": lambda: torch.compile(model),
           "autotune": lambda: torch.compile(model, mode="max-autotune")}[variant]()
    images = [torch.randn(batch, 3, 32, 32, device=device).to(memory_format=torch.channels_last) for _ in range(4)]
    labels = [torch.randint(0, 10, (batch,), device=device) for _ in range(4)]

    def step(i):
        with torch.autocast(device, dtype=dtype, enabled=kind != "tf32"):
            loss = torch.nn.functional.cross_entropy(run(images[i % 4]), labels[i % 4])
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    begun = time.monotonic()
    torch.cuda.reset_peak_memory_stats()
    for i in range(12):
        step(i)
    torch.cuda.synchronize()
    warm = time.monotonic() - begun
    times, begun = [], time.monotonic()
    while time.monotonic() - begun < seconds:
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        for i in range(10):
            loss = step(i)
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) / 10)
    ms = sorted(times)[len(times) // 2]
    say(variant=variant, type=kind, batch=batch, images_per_s=batch / ms * 1e3, ms=ms, loss=float(loss),
        mib=torch.cuda.max_memory_allocated() / 2**20, warm_s=warm)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--batches", default="512,1024,256,128")
    parser.add_argument("--variants", default="eager,compile")
    parser.add_argument("--types", default="bf16")
    args = parser.parse_args()
    import torch
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    say(torch=torch.__version__, cudnn=torch.backends.cudnn.version(), cuda=torch.version.cuda, device=torch.cuda.get_device_name())
    for kind in args.types.split(","):
        for variant in args.variants.split(","):
            for batch in map(int, args.batches.split(",")):
                try:
                    measure(torch, variant, kind, batch, args.seconds)
                except Exception as e:  # one measurement; the others go on
                    say(variant=variant, type=kind, batch=batch, error=repr(e)[:2000])
                if variant != "eager":
                    torch._dynamo.reset()
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
