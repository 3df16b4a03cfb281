"""save and load: safetensors files that other programs read, with the optimizer's state."""

from __future__ import annotations

import json
import math
import os

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import paragon.torch as pt  # noqa: E402
from paragon.errors import ConflictError, DamagedError, UsageError  # noqa: E402
from paragon.torch import _attach, _crc32c, _safetensors  # noqa: E402
from fakestore import run  # noqa: E402


@pytest.fixture(autouse=True)
def empty_registry():
    yield
    for a in list(_attach._registry):
        a.detach()


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))


def step(model, opt):
    model(torch.arange(20.0).view(5, 4)).pow(2).mean().backward()
    opt.step()
    opt.zero_grad()


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, 0.1, betas=(0.8, 0.95), amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, 0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.1, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.1),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_training_goes_on_from_a_file_as_if_it_had_not_stopped(tmp_path, kind):
    path = tmp_path / "m.safetensors"
    model = net()
    opt = OPTIMIZERS[kind](model.parameters())
    for _ in range(3):
        step(model, opt)
    pt.save(path, model, opt, metadata={"epoch": "3"})
    other = net()
    again = OPTIMIZERS[kind](other.parameters())
    assert pt.load(path, other, again) == {}
    for _ in range(2):
        step(model, opt)
        step(other, again)
    for (n, a), b in zip(model.state_dict().items(), other.state_dict().values()):
        assert torch.equal(a, b), n
    assert repr(again) == repr(opt)
    assert _safetensors.read(path)[1]["epoch"] == "3"


def test_all_types_and_shapes_come_back(tmp_path):
    path = str(tmp_path / "t.safetensors")
    tensors = {
        "half": torch.randn(3).half(),
        "brain": torch.randn(2, 2).bfloat16(),
        "double": torch.randn(3, 1, 2).double(),
        "scalar": torch.tensor(7),
        "empty": torch.zeros(0, 5),
        "yes/no": torch.tensor([True, False, True]),
        "byte": torch.arange(5, dtype=torch.uint8),
        "small": torch.tensor([-1, 2], dtype=torch.int8),
        "ünï": torch.randn(4, 3).t(),
        "last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    }
    _safetensors.write(path, tensors, {"a": "b"})
    got, strings = _safetensors.read(path)
    assert strings == {"a": "b"} and sorted(got) == sorted(tensors)
    for n, t in tensors.items():
        assert got[n].dtype == t.dtype and got[n].shape == t.shape and torch.equal(got[n], t), n
    assert os.listdir(tmp_path) == ["t.safetensors"]


def test_what_cannot_be_loaded_is_named_and_changes_nothing(tmp_path):
    path = tmp_path / "m.safetensors"
    model = net()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    pt.save(path, model, opt)
    other = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 9))
    before = other[0].weight.clone()
    with pytest.raises(
        ConflictError, match=r"tensor 2.weight has shape \(2, 3\), the model's \(9, 3\)"
    ):
        pt.load(path, other)
    assert torch.equal(before, other[0].weight)
    more = net()
    more.add_module("extra", nn.Linear(1, 1))
    with pytest.raises(ConflictError, match=r"lacks 2 of the model's 11 tensors.*'extra.weight'"):
        pt.load(path, more)
    pt.load(path, more, strict=False)
    with pytest.raises(ConflictError, match="its optimizer is SGD, want Adam"):
        pt.load(path, net_ := net(), torch.optim.Adam(net_.parameters()))
    part = net()
    with pytest.raises(ConflictError, match="file has 0.weight in group 0, and the optimizer 2.weight"):
        pt.load(path, part, torch.optim.SGD(part[2].parameters(), 0.1))
    with pytest.raises(UsageError, match="tensor z is torch.complex64"):
        _safetensors.write(path, {"z": torch.zeros(1, dtype=torch.complex64)})


def test_a_folder_that_is_not_there_is_named(tmp_path):
    model = torch.nn.Linear(2, 2)
    missing = tmp_path / "none"
    with pytest.raises(FileNotFoundError, match=f"{missing}/x: there is no folder {missing}"):
        pt.save(missing / "x", model)


def test_damaged_files_are_named(tmp_path):
    path = tmp_path / "m.safetensors"
    _safetensors.write(path, {"a": torch.arange(6.0), "b": torch.arange(3)})
    whole = path.read_bytes()
    n = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + n])
    for cut in (0, 5, 8, 20, 8 + n, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(DamagedError, match="m.safetensors"):
            _safetensors.read(path)
    path.write_bytes(whole + b"x")
    with pytest.raises(DamagedError, match="m.safetensors"):
        _safetensors.read(path)
    for change in (
        {"dtype": "F77"},
        {"shape": [7]},
        {"shape": [-6]},
        {"shape": "6"},
        {"data_offsets": [24, 0]},
        {"data_offsets": [0, 1 << 60]},
        {"data_offsets": [0]},
    ):
        other = {**header, "a": {**header["a"], **change}}
        text = json.dumps(other).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + n :])
        with pytest.raises(DamagedError, match="m.safetensors"):
            _safetensors.read(path)


def test_a_file_that_was_changed_is_named_with_its_tensor(tmp_path):
    path = tmp_path / "m.safetensors"
    names = ["a", "b", "c"]
    tensors = [torch.arange(6.0), torch.arange(3, dtype=torch.uint8), torch.zeros(0)]
    _safetensors.write(path, dict(zip(names, tensors)), {"paragon": 'x", "paragon.crc32c":"'})
    assert _safetensors.read(path)[1] == {"paragon": 'x", "paragon.crc32c":"'}
    whole = path.read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    # Without the name of the checksums it is a file of another program, which has none.
    name = whole.rindex(b"paragon.crc32c")
    for at in [*range(name), *range(name + len("paragon.crc32c"), len(whole))]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        want = "m.safetensors"
        if at >= start:
            want = r"m.safetensors: tensor a: its 24 bytes have the checksum [0-9a-f]{8}, want "
        if at >= start + 24:
            want = "tensor b: its 3 bytes"
        with pytest.raises(DamagedError, match=want):
            _safetensors.read(path)
    with pytest.raises(UsageError, match="'paragon.crc32c': the name is that of the checksums"):
        _safetensors.write(path, {}, {"paragon.crc32c": ""})


def test_checksums_are_those_of_crc32c():
    # The values are those of RFC 3720, B.4, and of Go's hash/crc32.
    for data, want in (
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b"a", 0xC1D04330),
        (bytes(i * i % 251 for i in range(5000)), 0xA7054E9C),
        (bytes(1 << 22) + b"123", 0x22C0D320),
    ):
        assert _crc32c.crc32c(data) == want, data[:32]


def test_an_attached_model_is_saved_once_with_averaged_buffers(tmp_path):
    path = tmp_path / "m.safetensors"

    def body(store):
        model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
        opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.5)
        a = pt.attach(model, opt, store)
        model(torch.arange(20.0).view(5, 4) * (store.rank + 1)).pow(2).mean().backward()
        opt.step()
        own = model[1].running_mean.clone()
        pt.save(path, a)
        return own, model[1].running_mean.clone()

    got = run(2, body)
    assert not torch.equal(got[0][0], got[1][0])
    tensors, _ = _safetensors.read(path)
    assert torch.equal(tensors["1.running_mean"], got[0][1])
    assert torch.equal(got[0][1], got[1][1])
    torch.testing.assert_close(got[0][1], (got[0][0] + got[1][0]) / 2)
    assert "optimizer/0.weight/momentum_buffer" in tensors


def test_report_says_steps_and_evaluations(monkeypatch):
    class Store:
        told = []

        def report(self, **fields):
            self.told.append(fields)

    store = Store()
    monkeypatch.setattr("paragon.current", lambda: store)
    pt.report(loss=torch.tensor(2.5), examples=64, learning_rate=0.1)
    pt.report(loss=1.5, accuracy=torch.tensor(0.75), f1=0.5)
    pt.report(loss=float("nan"), gradient_norm=float("-inf"))
    last = store.told.pop()["step"]
    # The store turns these into words, which JSON can have.
    assert math.isnan(last.pop("loss")) and last == {"gradient_norm": -math.inf}
    assert store.told == [
        {"step": {"loss": 2.5, "examples": 64, "learning_rate": 0.1}},
        {"evaluation": {"loss": 1.5, "accuracy": 0.75, "others": {"f1": 0.5}}},
    ]
    want = "report: f1: .*: want a number, or a tensor of one element"
    with pytest.raises(UsageError, match=want):
        pt.report(accuracy=0.5, f1=torch.ones(3))
    with pytest.raises(UsageError, match="report: loss: .*x"):
        pt.report("x")


def test_all_reduce_takes_tensors_and_names_of_operations():
    with pytest.raises(UsageError, match="got a float, want a tensor: torch.tensor"):
        pt.all_reduce(1.0)
    with pytest.raises(UsageError, match="op is 'avg', want one of average, sum"):
        pt.all_reduce(torch.ones(1), "avg")
