"""The gradient of ResNet18 (CIFAR stem) in 16 bits by autocast against that in float32. Usage: pytorch.py FOLDER cpu|cuda BATCH WIDTH
FOLDER has images, labels, and of each parameter its value and its gradient in float32 by another program."""
import sys

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F

folder, device, batch, width = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if device == "cuda":
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False


class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.downsample = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o)) if stride != 1 or i != o else None

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        i = width
        for k in range(4):
            o = width << k
            setattr(self, f"layer{k + 1}", nn.Sequential(Block(i, o, 1 if k == 0 else 2), Block(o, o, 1)))
            i = o
        self.fc = nn.Linear(i, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        for k in range(4):
            x = getattr(self, f"layer{k + 1}")(x)
        return self.fc(x.mean((2, 3)))


def read(name, kind=numpy.float32):
    return torch.from_numpy(numpy.fromfile(f"{folder}/{name}", kind))


def gradient(model, dtype, scale=1.0):
    x, labels = read("images").view(batch, 3, 32, 32).to(device), read("labels", numpy.int32).long().to(device)
    model.zero_grad(set_to_none=True)
    with torch.autocast(device, dtype=dtype or torch.bfloat16, enabled=dtype is not None):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), labels)
    (loss * scale).backward()
    return {n: p.grad.double().cpu().flatten() / scale for n, p in model.named_parameters()}, loss.item()


def distance(got, want):
    whole = lambda d: torch.cat([d[n] for n in want])
    each = {n: ((got[n] - want[n]).norm() / want[n].norm()).item() for n in want}
    most = max(each, key=each.get)
    return ((whole(got) - whole(want)).norm() / whole(want).norm()).item(), most, each[most]


model = ResNet18().to(device)
for name, p in model.named_parameters():
    p.data.copy_(read(name).view(p.shape))
exact, loss = gradient(model, None)
ours = {n: read(n + ".gradient").double() for n in exact}
print(f"torch {torch.__version__} {device} float32\tbatch {batch}\tgradient %.2g\tmost in %s: %.2g (against ours in float32)" % distance(exact, ours))
for dtype, text, scale in ((torch.bfloat16, "bf16", 1.0), (torch.float16, "fp16", 1024.0)):
    if dtype == torch.float16 and device == "cpu":
        continue
    got, loss16 = gradient(model, dtype, scale)
    print(f"torch {torch.__version__} {device} {text}\tbatch {batch}\tgradient %.4f\tmost in %s: %.3f\tloss %.2g" % (*distance(got, exact), abs(loss16 - loss) / loss))
