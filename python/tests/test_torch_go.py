"""What PyTorch has trained is where a Go program begins: examples/mnist --init-from."""

import os
import re
import struct

import pytest
import torch
from torch import nn

import paragon.torch as pt
from examplehelp import run

MEAN, DEVIATION = 0.1307, 0.3081


def lenet():
    """The network of examples/mnist, whose parameters have the same names."""
    net = nn.Sequential()
    net.add_module("conv1", nn.Conv2d(1, 6, 5, padding=2))
    net.add_module("relu1", nn.ReLU())
    net.add_module("pool1", nn.MaxPool2d(2))
    net.add_module("conv2", nn.Conv2d(6, 16, 5))
    net.add_module("relu2", nn.ReLU())
    net.add_module("pool2", nn.MaxPool2d(2))
    net.add_module("flatten", nn.Flatten())
    net.add_module("fc1", nn.Linear(400, 120))
    net.add_module("relu3", nn.ReLU())
    net.add_module("fc2", nn.Linear(120, 84))
    net.add_module("relu4", nn.ReLU())
    net.add_module("fc3", nn.Linear(84, 10))
    return net


def drawn(count, seed):
    """Noisy pictures of ten classes, as bytes of 28×28, and the classes."""
    random = torch.Generator().manual_seed(seed)
    classes = torch.rand(10, 28, 28, generator=torch.Generator().manual_seed(1)) * 90
    labels = torch.randint(10, (count,), generator=random)
    noise = torch.rand(count, 28, 28, generator=random) * 165
    return (classes[labels] + noise).byte(), labels


def write_idx(folder, name, images, labels):
    """Writes MNIST's files."""
    head = struct.pack(">iiii", 2051, len(images), 28, 28)
    (folder / f"{name}-images-idx3-ubyte").write_bytes(head + images.numpy().tobytes())
    head = struct.pack(">ii", 2049, len(labels))
    (folder / f"{name}-labels-idx1-ubyte").write_bytes(head + labels.byte().numpy().tobytes())


def inputs(images):
    return ((images.float() / 255 - MEAN) / DEVIATION)[:, None]


def test_a_go_worker_begins_with_what_torch_trained(tmp_path):
    mnist = os.environ.get("PARAGON_TEST_MNIST")
    if not mnist:
        pytest.skip("PARAGON_TEST_MNIST names no examples/mnist: make pytests builds it")
    torch.manual_seed(1)
    images, labels = drawn(512, 2)
    others, answers = drawn(1000, 3)
    model = lenet()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(7):
        for x, y in zip(inputs(images).split(32), labels.split(32)):
            opt.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            opt.step()
    with torch.no_grad():
        logits = model(inputs(others))
    right = (logits.argmax(1) == answers).float().mean().item()
    loss = nn.functional.cross_entropy(logits, answers).item()
    assert 0.2 < right < 1, "the test wants a network that knows something, and not all"

    write_idx(tmp_path, "train", images[:64], labels[:64])
    write_idx(tmp_path, "t10k", others, answers)
    pt.save(tmp_path / "model.safetensors", model, opt)
    out = run(
        mnist, "--data", tmp_path, "--init-from", tmp_path / "model.safetensors", "--epochs", 1,
        "--learning-rate", "1e-12", "--out", tmp_path,
        folder=tmp_path,
    )
    got, lost = re.findall(r"Test_acc (\S+), Test_loss (\S+)", out)[-1]
    assert abs(float(got) - right) < 2e-3, (right, out)
    assert abs(float(lost) - loss) < 1e-3, (loss, out)
