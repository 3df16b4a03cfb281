"""What travels to a worker that joins is exact, and is plain data."""

from __future__ import annotations

import collections
import json
import math

import numpy
import pytest

torch = pytest.importorskip("torch")

from paragon.torch import _share, _state, _values  # noqa: E402


def through_text(value, own=None):
    """The value as another process gets it."""
    tensors: list = []
    text = json.dumps(_state.flatten(value, tensors, "state"))
    kinds = [(list(t.shape), t.dtype, _values.is_raw(t)) for t in tensors]
    values = [_values.values_of(t, raw).copy() for t, (_, _, raw) in zip(tensors, kinds)]
    for v, t, (_, _, raw) in zip(values, tensors, kinds):
        assert v.dtype == numpy.float32
        assert len(v) == _values.length(t.numel() * t.element_size(), raw)
    got = [_values.tensor_of(v, *kind) for v, kind in zip(values, kinds)]
    return _state.restore(json.loads(text), got, own)


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        for k in a:
            same(a[k], b[k])
    elif isinstance(a, (list, tuple, collections.deque)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    elif isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert a.reshape(-1).tolist().__repr__() == b.reshape(-1).tolist().__repr__()
    elif isinstance(a, float) and math.isnan(a):
        assert math.isnan(b)
    else:
        assert a == b


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        2**70,
        0.1 + 0.2,
        math.inf,
        math.nan,
        -0.0,
        "Größe 🐟",
        [1, [2.5, None]],
        (1, (2, "3")),
        {1: "a", "1": "b", (2, 3): {0: 1.5}},
        collections.OrderedDict([(3, 1), (1, 2)]),
        collections.Counter({30: 1, 80: 2}),
        collections.deque([1, 2, 3], 5),
        {1, 2, 3},
        frozenset({"a"}),
        b"\x00\xff",
        complex(1, -2),
        numpy.float64(0.1),
        numpy.int16(-7),
        numpy.bool_(True),
        torch.Size([2, 3]),
        torch.bfloat16,
        torch.device("cpu"),
        {"tensor": 1, "own": True},
    ],
    ids=repr,
)
def test_plain_data_arrives_as_it_was(value):
    same(value, through_text(value))


def test_numpy_arrays_arrive_with_type_and_shape():
    want = numpy.arange(6, dtype=numpy.int16).reshape(2, 3)
    got = through_text({"a": want})["a"]
    assert got.dtype == want.dtype and (got == want).all() and got.shape == want.shape
    got[0, 0] = 9


TYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64".split()


@pytest.mark.parametrize("name", TYPES)
def test_every_bit_of_every_type_arrives(name):
    dtype = getattr(torch, name)
    want = torch.zeros(15, dtype=dtype)
    inside = _values.as_bytes(want)
    inside[:] = numpy.random.default_rng(1).integers(0, 2 if name == "bool" else 256, inside.shape)
    got = through_text([want.reshape(3, 5), want[0].clone(), want[:0].clone()])
    assert [g.dtype for g in got] == [dtype] * 3
    assert [list(g.shape) for g in got] == [[3, 5], [], [0]]
    assert _values.as_bytes(got[0]).tobytes() == _values.as_bytes(want).tobytes()
    assert _values.as_bytes(got[1]).tobytes() == _values.as_bytes(want[:1]).tobytes()


def test_float32_goes_as_it_is_unless_a_sum_with_zeros_would_change_it():
    assert _values.is_raw(torch.tensor([1.5, 0.0, 1e-45]))
    for odd in (-0.0, math.nan, math.inf):
        want = torch.tensor([1.5, odd])
        assert not _values.is_raw(want)
        got = through_text(want)
        assert got.view(torch.int32).tolist() == want.view(torch.int32).tolist()


def test_other_memory_orders_arrive_by_index():
    image = torch.arange(24.0).reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last)
    columns = torch.arange(6.0).reshape(2, 3).t()
    got = through_text([image, columns])
    assert torch.equal(got[0], image) and torch.equal(got[1], columns)


def test_a_function_stays_with_its_owner():
    tensors: list = []
    node = _state.flatten({"rate": 0.1, "shape": [len, math.sin]}, tensors, "state")
    ours = {"rate": 0.2, "shape": [max, min]}
    assert _state.restore(json.loads(json.dumps(node)), tensors, ours) == {
        "rate": 0.1,
        "shape": [max, min],
    }


class Odd:
    pass


@pytest.mark.parametrize(
    "value, words",
    [
        ({"a": [1, Odd()]}, ["state['a'][1]", "test_elastic_state.Odd", "no plain data"]),
        ({Odd(): 1}, ["a key of state", "Odd"]),
        (numpy.array([Odd()]), ["state", "object"]),
        (collections.defaultdict(list), ["collections.defaultdict"]),
        ({"w": torch.eye(2).to_sparse()}, ["state['w']", "sparse_coo"]),
        ([torch.empty(2, device="meta")], ["state[0]", "meta"]),
    ],
    ids=["object", "key", "array", "defaultdict", "sparse", "meta"],
)
def test_anything_else_is_refused_by_its_place_and_type(value, words):
    with pytest.raises(_state.UnknownType) as caught:
        _state.flatten(value, [], "state")
    for word in words:
        assert word in str(caught.value)


def test_quantized_tensors_are_refused():
    value = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)
    with pytest.raises(_state.UnknownType, match="quantized"):
        _state.flatten(value, [], "state")


rates = torch.optim.lr_scheduler
SCHEDULES = {
    "StepLR": lambda o: rates.StepLR(o, 2, 0.5),
    "MultiStepLR": lambda o: rates.MultiStepLR(o, [2, 4]),
    "LambdaLR": lambda o: rates.LambdaLR(o, lambda step: 0.9**step),
    "OneCycleLR": lambda o: rates.OneCycleLR(o, 0.1, total_steps=20),
    "CosineAnnealingWarmRestarts": lambda o: rates.CosineAnnealingWarmRestarts(o, 4),
    "SequentialLR": lambda o: rates.SequentialLR(
        o, [rates.ConstantLR(o, 0.1, 2), rates.ExponentialLR(o, 0.9)], [2]
    ),
    "ReduceLROnPlateau": lambda o: rates.ReduceLROnPlateau(o, patience=1),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", SCHEDULES.values(), ids=SCHEDULES)
def test_schedules_go_on_where_they_were(make):
    def step(optimizer, schedule):
        optimizer.step()
        schedule.step(*([1.0] if isinstance(schedule, rates.ReduceLROnPlateau) else []))
        return optimizer.param_groups[0]["lr"]

    def started():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.5, momentum=0.9)
        return optimizer, make(optimizer)

    theirs, ours = started(), started()
    for _ in range(3):
        step(*theirs)
    items = [
        (_share.OptimizerItem("optimizer", o), _share.ObjectItem("schedule", s))
        for o, s in (theirs, ours)
    ]
    for given, taken in zip(*items):
        taken.write(through_text(given.read(), taken.read()))
    assert [step(*ours) for _ in range(6)] == [step(*theirs) for _ in range(6)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("enabled", [False, True])
def test_scalers_have_one_scale(enabled):
    # torch 1.13 has a scaler for CUDA alone, which is off here. One that is off has no state.
    kind = getattr(torch.amp, "GradScaler", lambda _, enabled: torch.cuda.amp.GradScaler())
    theirs, ours = (kind("cpu", enabled=enabled) for _ in range(2))
    if theirs.is_enabled():
        theirs.scale(torch.ones(1))
        theirs.update(new_scale=512.0)
    given, taken = _share.ObjectItem("scaler", theirs), _share.ObjectItem("scaler", ours)
    taken.write(through_text(given.read(), taken.read()))
    assert ours.state_dict() == theirs.state_dict()
