"""MXNet's names for numpy arrays, and elastic batches, against a bridge of one worker in Python."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any, Iterator, List

import numpy as np
import pytest
from corehelp import FAKE

from paragon import _life, _store, elastic, errors, kv

F = np.float32


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[kv.KVStore]:
    monkeypatch.setenv("PARAGON_LAUNCH", FAKE)
    monkeypatch.setenv("FAKE_BRIDGE", "")
    made = kv.KVStore(_store.Store("dist_sync"))
    yield made
    made.store.close()


def of(shape: Any, value: float = 0) -> np.ndarray:
    return np.full(shape, value, F)


def test_create_knows_the_names_of_mxnet(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: List[Any] = []

    class Made:
        pass

    def init(kind: str, timeout: float) -> Any:
        asked.append((kind, timeout))
        return Made()

    monkeypatch.setattr(_life, "init", init)
    for name in ("local", "device", "dist", "dist_device_sync", "dist_async"):
        kv.create(name, 5.0)
    assert asked == [
        (k, 5.0) for k in ("local", "device", "dist_sync", "dist_sync", "dist_async")
    ]
    with pytest.raises(errors.UnsupportedError, match="no store 'nccl'; there are device, dist,"):
        kv.create("nccl")


def test_one_key(store: kv.KVStore) -> None:
    assert (store.rank, store.num_workers, store.type) == (0, 1, "dist_sync")
    store.init("w", of((2, 3), 1))
    out = np.empty((2, 3), F)
    assert store.pull("w", out=out) is None
    np.testing.assert_array_equal(out, of((2, 3), 1))
    store.push("w", np.arange(6, dtype=F).reshape(2, 3))
    np.testing.assert_array_equal(store.pull("w"), np.arange(6).reshape(2, 3))
    store.pushpull("w", of((2, 3), 5), out=out, priority=-1)
    np.testing.assert_array_equal(out, of((2, 3), 5))
    np.testing.assert_array_equal(store.pushpull("w", of((2, 3), 6)), of((2, 3), 6))


def test_lists_of_keys_and_lists_of_arrays(store: kv.KVStore) -> None:
    keys = [3, 5, 7]
    store.init(keys, [of(2, k) for k in keys])
    outs = [of(2) for _ in keys]
    store.pull(keys, out=outs)
    assert [o[0] for o in outs] == keys
    # The arrays of one key are summed: one for each device.
    store.push(keys, [[of(2, 1), of(2, 10)], of(2, 4), [of(2, 2)] * 3])
    pulled = store.pull(keys)
    assert [p[0] for p in pulled] == [11, 4, 6]
    pair = [of(2), of(2)]
    store.pull(5, out=pair)
    assert pair[0][1] == pair[1][1] == 4
    store.pushpull((7, 3), [of(2, 1), [of(2, 2), of(2, 3)]], out=[outs[0], [outs[1], outs[2]]])
    assert [o[0] for o in outs] == [1, 5, 5]
    store.init(8, of(()))
    store.broadcast(9, of(1, 4), out=outs[0][:1])
    assert outs[0][0] == 4 and store.pull(8) == 0


def test_a_push_returns_with_its_arrays_free(store: kv.KVStore) -> None:
    store.init("w", of(1000))
    a = of(1000)
    for i in range(50):
        a[:] = i
        store.push("w", a)
    a[:] = -1
    assert store.pull("w")[999] == 49


def test_views_are_sent_and_filled_in_place(store: kv.KVStore) -> None:
    store.init(["a", "b"], [of((3, 2)), of(4)])
    g, v = store.gradient("a"), store.value("a")
    g[:] = 7
    store.pushpull(["a", "b"], [g, of(4, 1)], out=[v, of(4)])
    assert v.shape == (3, 2) and v.sum() == 42
    g[:] = 8
    store.push("a", g)
    assert store.pull("a").sum() == 48


def test_types_of_arrays(store: kv.KVStore) -> None:
    store.init("h", np.full(3, 0.5, np.float16))
    out = np.zeros(3, np.float16)
    store.pushpull("h", np.full(3, 0.25, np.float16), out=out)
    assert out.dtype == np.float16 and out[0] == 0.25
    store.pushpull("h", np.full(3, 2, ">f4"), out=out)
    assert out[0] == 2
    store.pushpull("h", of((3, 3), 3)[:, 1], out=of((3, 2))[:, 0])
    # A view with strides is filled, too.
    wide = of((3, 2))
    store.pull("h", out=wide[:, 1])
    np.testing.assert_array_equal(wide, [[0, 3]] * 3)
    for kind in (np.float64, np.int32, np.int64, np.bool_, np.complex64):
        with pytest.raises(errors.UsageError) as e:
            store.push("h", np.zeros(3, kind))
        assert f"push key h: an array of {np.dtype(kind).name}, want float32" in str(e.value)
        assert "a.astype(numpy.float32)" in str(e.value) and e.value.key == "h"
        with pytest.raises(errors.UsageError, match="pull key h"):
            store.pull("h", out=np.zeros(3, kind))
    with pytest.raises(errors.UsageError, match="init key new: an array of float64"):
        store.init("new", [[1.0, 2.0]])
    with pytest.raises(errors.UsageError, match="out is a list|out is a str|out is a float"):
        store.pull("h", out=1.5)


def test_arguments_that_do_not_fit_are_named(store: kv.KVStore) -> None:
    store.init("w", of((2, 3)))
    cases: List[Any] = [
        (errors.SizeError, "push key w: an array of shape \\(3, 2\\)", "w", of((3, 2))),
        (errors.SizeError, "the key has \\(2, 3\\)", "w", [of((2, 3)), of(6)]),
        (errors.UnknownKeyError, "push key x: unknown key; init it first", "x", of(1)),
        (errors.UsageError, "got 2 keys and 1 of values", ["w", "x"], [of(1)]),
        (errors.UsageError, "got no array", "w", []),
        (errors.UsageError, "named twice", ["w", "w"], [of((2, 3))] * 2),
        (errors.UsageError, "key 3 is of type int, and earlier keys of type str", 3, of(1)),
        (errors.UsageError, "key 1.5 is a float, want str or int", 1.5, of(1)),
    ]
    for kind, text, key, value in cases:
        if kind is errors.UsageError and key == ["w", "x"]:
            store.init("x", of(1))
        with pytest.raises(kind, match=text):
            store.push(key, value)
    with pytest.raises(errors.DuplicateInitError, match="init key w: initialised before"):
        store.init("w", of((2, 3)))
    with pytest.raises(errors.SizeError, match="init key e: an array of shape .* has no values"):
        store.init("e", of((0, 3)))
    with pytest.raises(errors.SizeError, match="pull key w: an array of shape \\(6,\\)"):
        store.pull("w", out=of(6))


def test_names_that_are_not_there_say_what_is(store: kv.KVStore) -> None:
    for name, instead in [
        ("save_optimizer_states", "save\\(uri\\)"),
        ("load_optimizer_states", "load\\(uri\\)"),
        ("set_updater", "set_optimizer"),
        ("num_dead_node", "launch"),
    ]:
        with pytest.raises(errors.UnsupportedError, match=f"no {name}: .*{instead}"):
            getattr(store, name)
    with pytest.raises(AttributeError, match="has no 'other'"):
        store.other
    assert store.is_capable("optimizer") and not store.is_capable("other")


def test_settings(store: kv.KVStore, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: List[Any] = []
    monkeypatch.setattr(store.store, "set_optimizer", sent.append)
    store.set_optimizer("sgd", learning_rate=0.5, wd=0.1)
    store.set_optimizer({"name": "adam", "lr": 1, "rescale_grad": 2})
    assert sent == [
        {"name": "sgd", "learning_rate": 0.5, "weight_decay": 0.1},
        {"name": "adam", "learning_rate": 1, "rescale": 2},
    ]
    with pytest.raises(errors.UsageError, match="got a object, want a name"):
        store.set_optimizer(object())  # type: ignore[arg-type]
    store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    with pytest.raises(errors.UsageError, match="unknown type"):
        store.set_gradient_compression({"type": "zip"})
    store.barrier()
    store._barrier()


def test_the_servers_optimizer(store: kv.KVStore) -> None:
    store.init("w", of(2, 1))
    store.set_optimizer("sgd", learning_rate=0.5)
    np.testing.assert_array_equal(store.pushpull("w", of(2, 1)), of(2, 0.5))


def test_save_and_load(store: kv.KVStore, tmp_path: Path) -> None:
    store.init("w", of(2, 1))
    store.push("w", of(2, 3))
    store.save(str(tmp_path / "x"))
    store.push("w", of(2, 4))
    store.load(str(tmp_path / "x"))
    np.testing.assert_array_equal(store.pull("w"), of(2, 3))


def test_many_lists_of_keys_and_many_keys(store: kv.KVStore) -> None:
    for i in range(200):
        store.init(i, of(i + 1, i))
    store.init(200, of(70_000, 1))
    for i in range(199):
        np.testing.assert_array_equal(
            store.pushpull([i, i + 1], [of(i + 1, 1), of(i + 2, 2)])[1], of(i + 2, 2)
        )
        store.push(i, of(i + 1, 3))
    assert len(store._groups) <= kv._MAX_GROUPS
    assert store.pull(3)[0] == 3 and store.pull(200).sum() == 70_000


def test_keys_of_one_size_share_regions(store: kv.KVStore) -> None:
    before = len(store.store._memory._mappings)
    for i in range(300):
        store.init(i, of(6, i))
    assert len(store.store._memory._mappings) - before < 15
    assert [store.pull(i)[5] for i in (0, 1, 2, 3, 99, 299)] == [0, 1, 2, 3, 99, 299]


def test_errors_of_pushes_come_out_later(store: kv.KVStore) -> None:
    store.init(["w", "v"], [of(1), of(1)])
    store.store.request("drop_key", key="w")
    store.push("w", of(1))
    with pytest.raises(errors.UnknownKeyError, match="key w"):
        store.wait()
    store.push("w", of(1))
    with pytest.raises(errors.UnknownKeyError, match="key w"):
        store.pushpull("v", of(1, 2))
    assert store.pull("v")[0] == 2


def test_rows(store: kv.KVStore) -> None:
    table = kv.row_sparse_array((np.arange(8, dtype=F).reshape(4, 2), [0, 1, 3, 4]), (5, 2))
    store.init("t", table)
    out = of((5, 2), 9)
    store.row_sparse_pull("t", out=out, row_ids=np.array([3, 0, 3]))
    np.testing.assert_array_equal(out, [[0, 1], [0, 0], [0, 0], [4, 5], [0, 0]])
    some = store.row_sparse_pull("t", row_ids=[4, 1])
    np.testing.assert_array_equal(some.indices, [1, 4])
    np.testing.assert_array_equal(some.data, [[2, 3], [6, 7]])
    # Rows that are named twice add up; others stay.
    gradient = kv.row_sparse_array((of((3, 2), 1), [2, 4, 2]), (5, 2))
    store.push("t", gradient)
    store.row_sparse_pull("t", out=some, row_ids=range(5))
    np.testing.assert_array_equal(some.data[:, 0], [0, 2, 2, 4, 1])
    both = store.row_sparse_pull(["t", "t"], row_ids=[[0], [1]])
    assert [b.indices[0] for b in both] == [0, 1]
    assert store.row_sparse_pull("t", row_ids=[]).data.shape == (0, 2)
    store.push("t", [gradient, kv.row_sparse_array((of((0, 2)), []), (5, 2))])


def test_rows_that_do_not_fit_are_named(store: kv.KVStore) -> None:
    store.init(["t", "d"], [kv.row_sparse_array((of((1, 2)), [0]), (5, 2)), of(3)])
    with pytest.raises(errors.SizeError, match="rows 1 to 5, want 0 to 4"):
        store.row_sparse_pull("t", row_ids=[1, 5])
    with pytest.raises(errors.SizeError, match="out has shape \\(4, 2\\)"):
        store.row_sparse_pull("t", out=of((4, 2)), row_ids=[1])
    with pytest.raises(errors.UnsupportedError, match="no key of rows"):
        store.row_sparse_pull("d", row_ids=[1])
    with pytest.raises(errors.UsageError, match="want row_ids"):
        store.row_sparse_pull("t")
    for call in (lambda: store.pushpull("t", of((5, 2))), lambda: store.pull("t")):
        with pytest.raises(errors.UnsupportedError, match="use push and row_sparse_pull"):
            call()
    # As in MXNet, pull with out passes over keys of rows.
    out = of(3, 1)
    store.pull(["t", "d"], out=[of((5, 2)), out])
    assert out.sum() == 0
    with pytest.raises(errors.SizeError, match="want a RowSparseArray of shape \\(5, 2\\)"):
        store.push("t", of((5, 2)))
    with pytest.raises(errors.SizeError, match="rows 7 to 7, want 0 to 4"):
        kv.row_sparse_array((of((1, 2)), [7]), (5, 2))
    with pytest.raises(errors.SizeError, match="2 indices of an array of shape"):
        kv.row_sparse_array((of((1, 2)), [1, 2]), (5, 2))


def test_every_example_once_an_epoch_and_weights_by_examples(
    store: kv.KVStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elastic, "_BLOCK", 32)
    store.init("w", of(2))
    counts = np.zeros((2, 103), int)
    seen = []
    batches = elastic.batches(store, 103, 10, epochs=2, seed=3)
    for batch in batches:
        counts[batch.epoch, batch.indices] += 1
        seen.append((batch.step, batch.examples, batch.first, len(batch)))
        assert (store.weight, store.examples) == (batch.examples, batch.examples)
        # The mean of the batch comes back as the mean over examples.
        np.testing.assert_array_equal(store.pushpull("w", of(2, 3)), of(2, 3))
    assert (counts == 1).all()
    assert len(seen) == 22 and seen[10][:2] == (10, 3)
    assert [s[2] for s in seen] == [True] + [False] * 21
    assert not batches.removed and (store.weight, store.examples) == (1, 0)
    with pytest.raises(StopIteration):
        next(batches)


def test_a_worker_without_examples_repeats_a_batch_at_weight_zero(
    store: kv.KVStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [
        _store.Turn("step", size=2, division=1, left=2),
        _store.Turn("step", size=0, division=1, first=2, left=1, step=1),
        _store.Turn("end"),
    ]
    monkeypatch.setattr(store.store, "sampler", lambda *a, **more: turns.pop(0))
    monkeypatch.setattr(store.store, "turn", lambda after: turns.pop(0))
    monkeypatch.setattr(store.store, "indices", lambda first, n: np.array([7, 9], np.int64))
    store.init("w", of(2))
    got = []
    for batch in elastic.batches(store, 2, 2):
        if batch.examples == 0:
            store.push("w", of(2, np.nan))
            assert not np.isnan(store.gradient("w")).any()
        got.append((list(batch.indices), batch.examples, store.weight))
    assert got == [([7, 9], 2, 2.0), ([7, 9], 0, 0.0)]


def test_pushes_have_counted_when_a_turn_ends(
    store: kv.KVStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.init("w", of(2))
    turn = store.store.turn

    def checked(after: Any) -> _store.Turn:
        assert store._keys["w"].pushed == 0  # type: ignore[union-attr]
        return turn(after=after)

    monkeypatch.setattr(store.store, "turn", checked)
    for _ in elastic.batches(store, 40, 10):
        store.push("w", of(2, 1))


def test_a_worker_that_never_counted_has_no_batches(
    store: kv.KVStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error, removed in ((errors.RemovedError, True), (errors.FinishedError, False)):

        def sampler(*a: Any, error: Any = error, **more: Any) -> Any:
            raise error("before it counted")

        monkeypatch.setattr(store.store, "sampler", sampler)
        batches = elastic.batches(store.store, 10, 5)
        assert list(batches) == [] and batches.removed == removed


def test_nothing_is_left_for_the_collector(store: kv.KVStore) -> None:
    """Exchanges make no cycles, which would let the collector run in a training loop."""
    store.init(["a", "b"], [of(3), of(4)])
    g, o = [of(3), of(4)], [of(3), of(4)]
    store.pushpull(["a", "b"], g, out=o)
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            store.pushpull(["a", "b"], g, out=o)
        assert gc.collect() == 0
    finally:
        gc.enable()
