"""The store against a bridge of one worker in Python: requests, memory, exchanges."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import threading
from typing import Any, Iterator

import numpy as np
import pytest
from corehelp import FAKE, SECONDS, TESTS

import paragon
from paragon import Declaration, Entry, _errors, _exchange, _store, errors


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes stores, each with a bridge of its own, that end with the test."""
    made = []

    def store(fake: str = "") -> _store.Store:
        monkeypatch.setenv("PARAGON_LAUNCH", FAKE)
        monkeypatch.setenv("FAKE_BRIDGE", fake)
        made.append(_store.Store("dist_sync"))
        return made[-1]

    yield store
    for s in made:
        s.close()


def keyed(store: _store.Store, *sizes: int) -> Any:
    """Returns a region with a gradient and a value slot for each of the keys k0, k1, …, and the
    plan of all."""
    region = store.memory(list(sizes) * 2)
    n = len(sizes)
    store.init([Declaration(f"k{i}", region, i, size) for i, size in enumerate(sizes)])
    return region, store.plan([Entry(f"k{i}", region, i, n + i) for i in range(n)])


def test_every_class_of_the_protocol_is_an_exception() -> None:
    note = (TESTS.parent.parent / "docs/design/0058-python.md").read_text()
    listed = note.split("The classes are those of package kvstore")[1].split("\n")[0]
    classes = re.findall(r"`([A-Z]\w+)`", listed)
    assert len(classes) > 15
    assert set(classes) == set(_errors.CLASSES)


def test_an_error_has_key_worker_and_seconds_in_text_and_fields() -> None:
    e = _errors.exception({"class": "Size", "text": "push: wrong size", "key": "w"}, 3, 1.25)
    assert (type(e), e.key, e.worker, e.seconds, e.final) == (errors.SizeError, "w", 3, 1.25, False)
    assert str(e) == "push: wrong size (key w, worker 3, after 1.2 s)"
    again = pickle.loads(pickle.dumps(e))
    assert (type(again), str(again), again.seconds) == (errors.SizeError, str(e), 1.25)
    assert type(_errors.exception({"class": "New", "text": "?"})) is errors.InternalError


def test_a_store_says_who_it_is(make: Any) -> None:
    s = make()
    assert (s.type, s.rank, s.num_workers, s.generation, s.node) == ("dist_sync", 0, 1, 1, 8)
    assert (s.joining, s.alone, s.job) == (False, True, "fake")
    s.state()
    assert repr(s) == "<paragon.Store dist_sync: worker 0 of 1>"
    s.close()
    s.close()
    assert repr(s) == "<paragon.Store, closed>"
    with pytest.raises(errors.ClosedError, match="the store is closed"):
        s.barrier()


def test_memory_is_shared_aligned_and_typed(make: Any) -> None:
    s = make()
    region = s.memory([5, 1000, 1])
    assert [len(region.slot(i)) for i in range(3)] == [5, 1000, 1] and len(region) == 3
    for i in range(3):
        assert region.slot(i).dtype == np.float32
        assert region.slot(i).__array_interface__["data"][0] % 64 == 0
        assert not region.slot(i).any()
    region.raw(1, np.int64)[:] = np.arange(500)
    assert region.raw(0, np.int64).shape == (2,)
    assert region.slot(1).view(np.int64)[499] == 499
    view = region.slot(1)
    region.free()
    region.free()
    # A view outlives its region.
    view[:] = 1
    del region
    assert view.sum() == 1000
    with pytest.raises(errors.UsageError, match="slot 1 has 0 values"):
        s.memory([1, 0])
    with pytest.raises(errors.UsageError, match="got 0 slots"):
        s.memory([])


def test_values_go_up_and_come_back(make: Any) -> None:
    s = make()
    region, plan = keyed(s, 3, 4)
    region.slot(0)[:], region.slot(1)[:] = [1, 2, 3], 8
    n = plan.exchange(weight=2.0, examples=2, answer=True)
    s.wait(n)
    assert s.done(n)
    np.testing.assert_array_equal(region.slot(2), [0.5, 1, 1.5])
    np.testing.assert_array_equal(region.slot(3), [4] * 4)
    region.slot(1)[:] = 6
    s.wait(plan.exchange(1, 1, push_only=True))
    np.testing.assert_array_equal(region.slot(3), [4] * 4)
    s.pull([("k0", region, 2), ("k1", region, 3)])
    np.testing.assert_array_equal(region.slot(3), [6] * 4)
    with pytest.raises(errors.UsageError, match="of 2 entries from 1 on: the plan has 2"):
        plan.exchange(1, 2)
    with pytest.raises(errors.ConflictError, match="used by a plan"):
        region.free()
    plan.drop()
    region.free()


def test_more_exchanges_than_words_with_and_without_answers(make: Any) -> None:
    s = make()
    region, plan = keyed(s, 1)
    for i in range(2 * _exchange.WORDS + 7):
        region.slot(0)[:] = i
        n = plan.exchange(answer=i % 5 == 0)
        if i % 100 == 0:
            s.wait(n)
    s.wait(n)
    assert region.slot(1)[0] == 2 * _exchange.WORDS + 6
    with pytest.raises(errors.UsageError, match="the newest is"):
        s.wait(n + 100)


def test_exchanges_wait_for_room(make: Any) -> None:
    # Nothing ends before somebody asks whether it has.
    s = make("queue")
    region, plan = keyed(s, 1)
    for i in range(3 * _exchange.MAX_UNDER_WAY):
        region.slot(0)[:] = i
        n = plan.exchange()
        assert n - s._exchanges._ended <= _exchange.MAX_UNDER_WAY + 1
    assert not s.done(n)
    s.wait(n)


def test_answers_that_nobody_waits_for_do_not_fill_the_socket(make: Any) -> None:
    s = make()
    _, plan = keyed(s, 1)
    for _ in range(5000):
        n = plan.exchange(answer=True)
        while not s.done(n):
            pass
    assert s._exchanges._unread <= 2 * _exchange._MAX_UNREAD
    s.barrier()


def test_the_first_error_is_raised_once(make: Any) -> None:
    s = make()
    region, plan = keyed(s, 1)
    bad = s.plan([Entry("nobody", region, 0, 1)])
    for answered in (True, False):
        n = bad.exchange()
        bad.exchange()
        m = plan.exchange(answer=answered)
        with pytest.raises(errors.UnknownKeyError, match="key nobody: unknown key") as e:
            s.wait(m)
        assert (e.value.key, e.value.worker) == ("nobody", 0) and e.value.seconds is not None
        assert s.done(n)
        s.wait(m)
    s.wait(plan.exchange(answer=True))


def test_memory_that_moved_keeps_addresses_and_what_python_wrote(make: Any) -> None:
    for answered in (True, False):
        s = make("move=2")
        region, plan = keyed(s, 3, 3)
        view = region.slot(2)
        region.slot(0)[:] = 1
        s.wait(plan.exchange(0, 1, answer=True))
        # While exchange 2 moves the region, a hook writes the other key's gradient.
        region.slot(0)[:] = 2
        n = plan.exchange(0, 1, answer=answered)
        region.slot(1)[:] = 7
        if answered:
            s.wait(n)
        else:
            while not s.done(n):
                pass
        np.testing.assert_array_equal(view, [1002, 2, 2])
        np.testing.assert_array_equal(region.slot(1), [7, 7, 7])
        s.wait(plan.exchange(1, 1, answer=True))
        np.testing.assert_array_equal(region.slot(3), [7, 7, 7])


def test_lists_longer_than_a_packet_go_in_several(make: Any) -> None:
    s = make()
    n = 1000
    region = s.memory([2] * n)
    names = [f"{i}." + "x" * 150 for i in range(n)]
    for i in range(n):
        region.slot(i)[:] = i
    s.init([Declaration(k, region, i, 2, shape=(2, 1)) for i, k in enumerate(names)])
    out = s.memory([2] * n)
    s.pull([(k, out, i) for i, k in enumerate(names)])
    np.testing.assert_array_equal([out.slot(i)[1] for i in range(n)], np.arange(n))
    plan = s.plan([Entry(k, region, i, i) for i, k in enumerate(names)])
    assert len(plan) == n
    region.slot(n - 1)[:] = 5
    s.wait(plan.exchange(n - 1, answer=True))
    s.pull([(names[-1], out, 0)])
    assert out.slot(0)[0] == 5
    with pytest.raises(errors.UsageError, match="got no entries"):
        s.plan([])


def test_texts_of_any_length_are_broadcast(make: Any) -> None:
    s = make()
    for text in ("", "short", "é" * 400_000, "x" + "日本" * 200_000, "1 2 3"):
        assert s.broadcast(text) == text
    assert s.broadcast(None) == ""


def test_reports_take_numbers_of_every_kind(make: Any) -> None:
    s = make()
    step = {"loss": np.float32(0.5), "gradient_norm": float("nan"), "examples": np.int64(64)}
    s.report(step=step, evaluation={"others": {"x": -np.inf}, "ok": np.bool_(True)})
    assert s.request("reported") == {
        "step": {"loss": 0.5, "gradient_norm": "nan", "examples": 64},
        "evaluation": {"others": {"x": "-inf"}, "ok": True},
    }


def test_broadcast_begins_again_when_its_sender_was_lost(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = make()
    piece, others = s._broadcast_piece, iter([b"2 0123"])
    # The first head is of a worker that is lost then: its pieces are another worker's.
    monkeypatch.setattr(s, "_broadcast_piece", lambda b: piece(next(others, b)))
    text = "y" * (_store._TEXT_BYTES + 5)
    assert s.broadcast(text) == text


def test_one_thread_waits_and_others_go_on(make: Any) -> None:
    s = make("hold")
    _, plan = keyed(s, 1)
    ended = []
    threads = [
        threading.Thread(target=lambda: (s.barrier(), ended.append(1)), daemon=True)
        for _ in range(3)
    ]
    for t in threads:
        t.start()
    while len(s._bridge._waited) < 3:
        pass
    # The barriers wait, and one of the threads reads the socket.
    for _ in range(200):
        s.wait(plan.exchange(answer=True))
    assert ended == []
    s.state()
    for t in threads:
        t.join(SECONDS)
    assert len(ended) == 3


def test_many_threads_exchange_and_ask(make: Any) -> None:
    s = make()
    region, plan = keyed(s, *[1] * 8)
    wrong = []

    def work(i: int) -> None:
        for j in range(100):
            region.slot(i)[:] = j
            s.wait(plan.exchange(i, 1, answer=j % 2 == 0))
            if region.slot(8 + i)[0] != j:
                wrong.append((i, j))
            if j % 10 == 0:
                s.state()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(SECONDS)
        assert not t.is_alive()
    assert wrong == []


def test_a_store_is_not_copied(make: Any) -> None:
    s = make()
    for f in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(errors.ForkError, match="cannot be pickled or copied"):
            f(s)


def test_arguments_that_cannot_be_sent(make: Any) -> None:
    s = make()
    with pytest.raises(errors.UsageError, match="barrier: an argument cannot be sent"):
        s.request("barrier", x=object())
    with pytest.raises(errors.UsageError, match="cannot be sent"):
        s.request("barrier", x=float("nan"))
    with pytest.raises(errors.UsageError, match="want at most 65536"):
        s.request("barrier", x="y" * 70_000)
    with pytest.raises(errors.UnsupportedError, match="no nothing"):
        s.request("nothing")
    s.barrier()


def test_a_child_cannot_use_the_store(make: Any) -> None:
    s = make()
    region, plan = keyed(s, 1)
    calls = [
        s.barrier,
        s.check_process,
        lambda: s.memory([1]),
        lambda: plan.exchange(),
        lambda: s.wait(0),
        lambda: s.done(0),
        lambda: s.leave("x"),
        region.free,
        paragon.init,
    ]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        texts = []
        for call in calls:
            try:
                call()
                texts.append("no error")
            except errors.ForkError as e:
                texts.append(str(e))
            except BaseException as e:
                texts.append(repr(e))
        s.close()
        s.abort(ValueError("x"))
        os.write(writer, json.dumps(texts).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as f:
        texts = json.load(f)
    assert os.waitpid(child, 0)[1] == 0
    want = f"belongs to process {os.getpid()}, and this is process {child}"
    assert [t for t in texts[:-1] if want not in t] == []
    # The child's own close did nothing.
    s.barrier()
    s.wait(plan.exchange(answer=True))


def test_a_turn_that_was_not_kept_comes_again(make: Any) -> None:
    store = make()
    first = store.sampler(examples=5, batch=2, epochs=1, seed=1)
    second = store.turn()
    assert (first.number, second.number, second.first) == (1, 2, 2)
    # As after Ctrl-C between the answer and the name that was to keep it.
    assert store.turn(after=first) == second
    assert store.turn().first == 4
    assert [store.turn().kind, store.turn().kind] == ["epoch", "end"]
