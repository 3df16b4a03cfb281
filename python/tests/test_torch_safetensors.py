"""Our files and those of PyPI's package safetensors are the same format."""

from __future__ import annotations

import safetensors.torch as theirs
import torch
from torch import nn

import paragon.torch as pt


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))


def test_package_safetensors_reads_ours_and_we_read_its(tmp_path):
    model = net()
    opt = torch.optim.Adam(model.parameters())
    model(torch.arange(20.0).view(5, 4)).pow(2).mean().backward()
    opt.step()
    path = str(tmp_path / "m.safetensors")
    pt.save(path, model, opt)
    got = theirs.load_file(path)
    for n, t in model.state_dict().items():
        assert torch.equal(got[n], t), n
    assert torch.equal(got["optimizer/0.weight/exp_avg"], opt.state[model[0].weight]["exp_avg"])
    theirs.save_file(model.state_dict(), path)
    other = net()
    assert pt.load(path, other) == {}
    for n, t in model.state_dict().items():
        assert torch.equal(other.state_dict()[n], t), n
