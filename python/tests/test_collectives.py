"""Sums, broadcasts and gathers, over stores without processes."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from fakestore import run  # noqa: E402

from paragon.torch import _collectives, _stream, _values  # noqa: E402

TYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
]


def bits(dtype: torch.dtype, n: int, seed: int) -> torch.Tensor:
    """A tensor with all kinds of bits: NaN, infinities, denormals, minus zero."""
    if dtype == torch.bool:
        return torch.from_numpy(np.random.default_rng(seed).integers(0, 2, n).astype(bool))
    size = torch.empty(0, dtype=dtype).element_size()
    raw = np.random.default_rng(seed).integers(0, 256, n * size, dtype=np.uint8)
    return _collectives._tensor(raw, torch.empty(n, dtype=dtype))


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    equal = bool(np.array_equal(_values.as_bytes(a), _values.as_bytes(b)))
    return a.dtype == b.dtype and a.shape == b.shape and equal


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("root", [0, 2])
def test_broadcast_keeps_every_bit(dtype: torch.dtype, root: int) -> None:
    def program(store):
        mine = [("a", bits(dtype, 1001, store.rank)), ("b", bits(dtype, 3, 100 + store.rank))]
        _collectives.of(store).broadcast(mine, root)
        return [t for _, t in mine]

    for got in run(3, program):
        assert same(got[0], bits(dtype, 1001, root)) and same(got[1], bits(dtype, 3, 100 + root))


def test_conjugated_and_negated_views_are_what_they_show() -> None:
    value = torch.tensor([1 + 2j, 3j])

    def program(store):
        c = _collectives.of(store)
        return c.allgather(value.conj(), "conjugated") + c.allgather(value.conj().imag, "negated")

    for conjugated, other, negated, _ in run(2, program):
        assert torch.equal(conjugated, value.conj()) and same(other, conjugated)
        assert torch.equal(negated, value.conj().imag)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_allgather_keeps_every_bit_of_uneven_parts(dtype: torch.dtype) -> None:
    def program(store):
        mine = bits(dtype, 7 * store.rank, store.rank).reshape(store.rank, 7)
        return _collectives.of(store).allgather(mine, "x")

    for got in run(5, program):
        assert [tuple(t.shape) for t in got] == [(r, 7) for r in range(5)]
        assert all(same(t, bits(dtype, 7 * r, r).reshape(r, 7)) for r, t in enumerate(got))


@pytest.mark.parametrize("workers", [2, 3, 17, 40])
def test_gather_of_messages_of_many_parts(workers: int, monkeypatch) -> None:
    monkeypatch.setattr(_stream, "LENGTHS", (64, 256))

    def program(store):
        stream = _stream.Stream(store)
        sizes = np.random.default_rng(1).integers(0, 2000, workers)
        mine = np.random.default_rng(store.rank).integers(0, 256, sizes[store.rank], np.uint8)
        return [stream.gather("one", mine), stream.gather("two", mine[:9])]

    sizes = np.random.default_rng(1).integers(0, 2000, workers)
    want = [np.random.default_rng(r).integers(0, 256, n, np.uint8) for r, n in enumerate(sizes)]
    for got in run(workers, program):
        assert all(np.array_equal(a, b) for a, b in zip(got[0], want))
        assert all(np.array_equal(a, b[:9]) for a, b in zip(got[1], want))


def test_sums_of_whole_numbers_are_exact() -> None:
    values = [torch.tensor([2**62, -(2**40) - 1, 7 * r - 3]) for r in range(3)]

    def program(store):
        c = _collectives.of(store)
        mine = values[store.rank]
        return [c.reduce(mine, op, "n").wait() for op in ("sum", "average", "min", "max")]

    for total, mean, least, most in run(3, program):
        assert same(total, values[0] + values[1] + values[2])
        assert same(mean, torch.div(total, 3, rounding_mode="trunc"))
        assert same(least, torch.minimum(torch.minimum(*values[:2]), values[2]))
        assert same(most, torch.maximum(torch.maximum(*values[:2]), values[2]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("op", ["sum", "average", "product"])
def test_sums_of_floating_point(dtype: torch.dtype, op: str) -> None:
    values = [torch.arange(12).reshape(3, 4).to(dtype) + r for r in range(3)]
    whole = values[0].double() + values[1].double() + values[2].double()
    if op == "product":
        whole = values[0].double() * values[1].double() * values[2].double()
    want = whole / 3 if op == "average" else whole

    def program(store):
        # A transposed tensor is not contiguous.
        mine = values[store.rank].t().contiguous().t()
        into = torch.empty_like(mine)
        c = _collectives.of(store)
        handle = c.reduce(mine, op, "x", into=into)
        scaled = c.reduce(mine, op, "y", before=0.5, after=4.0)
        return handle.wait(), into, scaled.wait()

    for result, into, scaled in run(3, program):
        assert result is into and result.dtype == dtype
        tolerance = {torch.bfloat16: 1e-2, torch.float16: 1e-3}.get(dtype, 1e-6)
        torch.testing.assert_close(result.double(), want, rtol=tolerance, atol=0)
        factor = 0.125 * 4 if op == "product" else 2.0
        torch.testing.assert_close(scaled.double(), want * factor, rtol=tolerance, atol=0)


def test_sums_in_another_order_on_each_worker() -> None:
    def asynchronous(store):
        c = _collectives.of(store)
        # A key's first use waits for all workers.
        for n in "abc":
            c.reduce(torch.zeros(4), "sum", n).wait()
        names = ["a", "b", "c"][:: 1 if store.rank else -1]
        handles = {n: c.reduce(torch.full((4,), float(ord(n))), "sum", n) for n in names}
        return {n: h.wait() for n, h in sorted(handles.items())}

    for got in run(2, asynchronous):
        assert all(torch.equal(v, torch.full((4,), 2.0 * ord(n))) for n, v in got.items())


def test_many_sums_without_a_name() -> None:
    def program(store):
        c = _collectives.of(store)
        handles = [c.reduce(torch.full((5,), float(i)), "sum") for i in range(20)]
        return [h.wait()[0].item() for h in handles]

    for got in run(2, program):
        assert got == [2.0 * i for i in range(20)]


def test_a_name_that_is_under_way_is_refused() -> None:
    def program(store):
        c = _collectives.of(store)
        first = c.reduce(torch.ones(2), "sum", "x")
        with pytest.raises(ValueError, match="sum of 'x' was started twice"):
            c.reduce(torch.ones(2), "sum", "x")
        return first.wait(), c.reduce(torch.ones(3), "sum", "x").wait()

    for first, other_shape in run(2, program):
        assert torch.equal(first, torch.full((2,), 2.0))
        assert torch.equal(other_shape, torch.full((3,), 2.0))


def test_different_calls_are_an_error_on_every_worker() -> None:
    def program(store):
        c = _collectives.of(store)
        with pytest.raises(_stream.Disagreement) as error:
            if store.rank == 1:
                c.allgather(torch.zeros(3), "left")
            c.broadcast([("right", torch.zeros(2, 3))], 0)
        return error.value

    for error in run(2, program):
        assert "worker 0 makes broadcast from worker 0 of 'right' (2×3, float32)" in str(error)
        assert "worker 1 makes allgather of 'left' (rows of 1, float32)" in str(error)


def test_a_difference_in_a_long_call_is_shown() -> None:
    def program(store):
        tensors = [(f"layer{i}", torch.zeros(2)) for i in range(300)]
        tensors[250 + store.rank] = ("odd", torch.zeros(3))
        with pytest.raises(_stream.Disagreement) as error:
            _collectives.of(store).broadcast(tensors, 0)
        return str(error.value)

    for text in run(2, program):
        assert "'layer249' (2, float32), 'odd' (3, float32), 'layer251'" in text
        assert "'layer249' (2, float32), 'layer250' (2, float32), 'odd'" in text
        assert len(text) < 900


def test_objects() -> None:
    def program(store):
        c = _collectives.of(store)
        mine = {"rank": store.rank, "data": list(range(store.rank * 100))}
        return c.broadcast_object(mine, 1), c.allgather_object(mine)

    for one, all_ in run(3, program):
        assert one["rank"] == 1 and [len(o["data"]) for o in all_] == [0, 100, 200]


def test_what_is_refused() -> None:
    (one,) = run(1, lambda s: _collectives.of(s))
    with pytest.raises(ValueError, match="root rank 2 of a job of 1 workers"):
        one.broadcast([], 2)
    with pytest.raises(NotImplementedError, match="layout torch.sparse_coo"):
        one.reduce(torch.eye(2).to_sparse())
    one.store.type = "dist_async"
    with pytest.raises(NotImplementedError, match="dist_async"):
        _collectives.Collectives(one.store)
