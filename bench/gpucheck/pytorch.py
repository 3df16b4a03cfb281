#!/usr/bin/env python3
"""Training steps of ResNet18 for 32x32 images in PyTorch on one GPU: images on the device already, SGD with Nesterov momentum.

usage: pytorch.py [--seconds 1.5] [--cases "eager bf16 512,compile bf16 512"] [--device cuda] [--within SECONDS]

Prints one JSON object a line: first the versions, then for each case variant, type, batch, images_per_s, ms (the median of
spells of steps between two events), least_ms, mib and warm_s, or error, or late. The memory order is channels_last and products
are under autocast throughout; type tf32 has no autocast. Variants are PyTorch's ways to run the same step:

    eager                      operation by operation
    compile                    torch.compile of network and loss
    reduce-overhead, max-autotune
                               torch.compile in that mode, which uses CUDA graphs
    eager-graph, compile-graph the whole step with its update, captured once and replayed
"""
import argparse
import json
import time

MODES = {"compile": "default", "compile-graph": "default", "reduce-overhead": "reduce-overhead", "max-autotune": "max-autotune"}
VARIANTS = ["eager", "eager-graph", *MODES]
TYPES = ["bf16", "fp16", "tf32"]


def say(**fields):
    print(json.dumps(fields), flush=True)


def network(torch, first=64):
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

    blocks, width = [], first
    for stage in range(4):
        for k in range(2):
            out = first << stage
            blocks.append(Block(width, out, 2 if stage > 0 and k == 0 else 1))
            width = out
    return nn.Sequential(conv(3, first, 3, 1), nn.BatchNorm2d(first), nn.ReLU(inplace=True), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


class Events:
    """Times between two points of the device's work; without a GPU those of a clock."""

    def __init__(self, torch, device):
        self.torch, self.gpu = torch, device == "cuda"

    def now(self):
        if not self.gpu:
            return time.perf_counter()
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def ms(self, a, b):
        if not self.gpu:
            return (b - a) * 1e3
        b.synchronize()
        return a.elapsed_time(b)

    def wait(self):
        if self.gpu:
            self.torch.cuda.synchronize()


def measure(torch, variant, kind, batch, args):
    device, gpu = args.device, args.device == "cuda"
    torch.manual_seed(1)
    model = network(torch, args.width).to(device).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4, **({"fused": True} if gpu else {}))
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "tf32": torch.bfloat16}[kind]
    scaler = torch.amp.GradScaler(device) if kind == "fp16" else None

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, y):
            with torch.autocast(device, dtype=dtype, enabled=kind != "tf32"):
                return torch.nn.functional.cross_entropy(self.model(x), y)

    run = Loss()
    if variant in MODES:
        run = torch.compile(run, mode=MODES[variant], dynamic=False)
    images = [torch.randn(batch, 3, args.size, args.size, device=device).to(memory_format=torch.channels_last) for _ in range(4)]
    labels = [torch.randint(0, 10, (batch,), device=device) for _ in range(4)]
    trees = variant in ("reduce-overhead", "max-autotune") and gpu

    def step(i):
        if trees:
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        loss = run(images[i % 4], labels[i % 4])
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        return loss

    events = Events(torch, device)
    begun = time.monotonic()
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    if variant.endswith("-graph"):
        if scaler is not None:
            raise ValueError("a loss scale is the host's to decide, and is in no graph")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for i in range(args.warm):
                step(i)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = step(0)

        def spell(n):
            for _ in range(n):
                graph.replay()
            return captured
    else:

        def spell(n):
            for i in range(n):
                loss = step(i)
            return loss
    spell(args.warm)
    events.wait()
    warm = time.monotonic() - begun
    times, begun = [], time.monotonic()
    while not times or time.monotonic() - begun < args.seconds:
        a = events.now()
        loss = spell(args.spell)
        b = events.now()
        times.append(events.ms(a, b) / args.spell)
    ms = sorted(times)[len(times) // 2]
    say(variant=variant, type=kind, batch=batch, images_per_s=batch / ms * 1e3, ms=ms, least_ms=min(times), loss=float(loss),
        mib=torch.cuda.max_memory_allocated() / 2**20 if gpu else 0, warm_s=warm)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--cases", default="eager bf16 512,compile bf16 512")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--within", type=float, default=0, help="begin nothing after so many seconds")
    parser.add_argument("--warm", type=int, default=12, help="steps before time is taken")
    parser.add_argument("--spell", type=int, default=10, help="steps between two events")
    parser.add_argument("--width", type=int, default=64, help="channels of the first stage")
    parser.add_argument("--size", type=int, default=32, help="height and width of images")
    args, started = parser.parse_args(), time.monotonic()
    cases = []
    for text in args.cases.split(","):
        variant, kind, batch = text.split()
        if variant not in VARIANTS or kind not in TYPES:
            parser.error(f"case {text!r}: want one of {VARIANTS}, one of {TYPES} and a batch")
        cases.append((variant, kind, int(batch)))
    import torch
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    gpu = args.device == "cuda"
    say(torch=torch.__version__, cudnn=torch.backends.cudnn.version() or 0, cuda=torch.version.cuda or "none",
        device=torch.cuda.get_device_name() if gpu else "cpu")
    for variant, kind, batch in cases:
        if args.within and time.monotonic() - started > args.within:
            say(variant=variant, type=kind, batch=batch, late=True)
            continue
        try:
            measure(torch, variant, kind, batch, args)
        except Exception as e:  # one measurement; the others go on
            say(variant=variant, type=kind, batch=batch, error=f"{type(e).__name__}: {e}"[:2000])
        if variant in MODES and hasattr(torch, "compile"):
            torch._dynamo.reset()
        if gpu:
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
