"""Trains the model of examples/gpt with PyTorch on the weights and batches of "cpu curve", and compares losses.

    cpu curve --text FILE --out FOLDER
    python bench/peers/curves.py FOLDER

It prints how far our losses, and those of PyTorch in float32, are at most from those of PyTorch in float64, and draws all three into
FOLDER/curves.svg. Ours shall be apart by at most twice what PyTorch's are; otherwise it ends with 1.
"""

import json
import math
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

import models


def place(name):
    """Where models.GPT has the parameter."""
    return name.removeprefix("transformer.").replace("h.", "blocks.", 1).replace(".mlp.", ".")


def losses(folder, run, number):
    net = models.GPT(4, 4, 128, run["Length"], 256, "none").to(number)
    weights, here = torch.from_numpy(np.fromfile(os.path.join(folder, "weights.bin"), np.float32)), dict(net.named_parameters())
    for p in run["Parameters"]:
        n = math.prod(p["Shape"])
        with torch.no_grad():
            here.pop(place(p["Name"])).copy_(weights[:n].view(p["Shape"]))
        weights = weights[n:]
    assert not here and not len(weights), f"weights are left over: {list(here)}, {len(weights)} numbers"
    rule = run["Rule"]
    matrices, others = [p for p in net.parameters() if p.dim() > 1], [p for p in net.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": rule["weight_decay"]}, {"params": others, "weight_decay": 0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, rule["beta2"]))
    batches = np.fromfile(os.path.join(folder, "batches.bin"), np.uint8).astype(np.int64).reshape(-1, run["Batch"], run["Length"] + 1)
    out = []
    for batch, rate in zip(torch.from_numpy(batches), run["Rates"]):
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = F.cross_entropy(net(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    return np.array(out)


def draw(path, title, curves):
    """Curves of steps, wide and pale ones below narrow ones."""
    width, height, margin = 760, 420, 50
    low, high = min(c.min() for _, c, _, _ in curves), max(c.max() for _, c, _, _ in curves)
    steps = len(curves[0][1])
    x = lambda i: margin + i * (width - 2 * margin) / (steps - 1)
    y = lambda v: height - margin - (v - low) * (height - 2 * margin) / (high - low)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="white"/>',
             f'<text x="{margin}" y="25">{title}</text>', f'<text x="{width / 2}" y="{height - 12}">step</text>']
    for i in range(5):
        v = low + i * (high - low) / 4
        parts.append(f'<text x="8" y="{y(v) + 4:.1f}">{v:.2f}</text><path d="M{margin} {y(v):.1f}H{width - margin}" stroke="#ddd"/>')
    for n, (name, c, colour, thick) in enumerate(curves):
        points = " ".join(f"{x(i):.1f},{y(v):.1f}" for i, v in enumerate(c))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{thick}"/><text x="{width - 250}" y="{70 + 20 * n}" fill="{colour}">{name}</text>')
    with open(path, "w") as f:
        f.write("\n".join(parts) + "</svg>\n")


if __name__ == "__main__":
    folder = sys.argv[1]
    with open(os.path.join(folder, "run.json")) as f:
        run = json.load(f)
    ours, exact, single = np.array(run["Losses"]), losses(folder, run, torch.float64), losses(folder, run, torch.float32)
    apart, theirs = abs(ours - exact).max(), abs(single - exact).max()
    print(f"{len(ours)} steps, losses {exact[0]:.6f} to {exact[-1]:.6f}; at most apart from PyTorch's float64: ours {apart:.2e}, PyTorch's float32 {theirs:.2e}")
    draw(os.path.join(folder, "curves.svg"), f"Loss of a GPT of 0.8 million parameters, PyTorch {torch.__version__}",
         [("PyTorch, float64", exact, "#f2b98a", 9), ("PyTorch, float32", single, "#2f6fb3", 4), ("Paragon, float32", ours, "#000000", 1.3)])
    sys.exit(0 if apart <= 2 * theirs else 1)
