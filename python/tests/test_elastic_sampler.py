"""Every example is used exactly once an epoch, whatever loads it and whoever comes and goes.

The job is one of threads (``elastic_fake``); the worker of the main thread has the loader.
"""

from __future__ import annotations

import collections
import os
import pickle
import signal
import threading
import warnings
from typing import Any, Callable, Optional

import pytest

torch = pytest.importorskip("torch")


import elastic_fake  # noqa: E402
from paragon.errors import ParagonError  # noqa: E402
from paragon.torch import _attach, _report, _sampler, _share  # noqa: E402

TIMEOUT = elastic_fake.TIMEOUT


class Numbers(torch.utils.data.Dataset):
    """Example i is i."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        return int(i)


class Attached:
    """What attach returns, as far as the sampler uses it."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
        self.optimizer = torch.optim.Adam(self.model.parameters(), 0.1 * seed)
        self.optimizers = [self.optimizer]
        self.parameters = list(self.model.named_parameters())
        self.name, self.mode = "model", "local"
        self.state: dict[str, Any] = {}
        self.examples = None
        self.flushed = 0

    @property
    def examples(self) -> Optional[int]:
        return self._examples

    @examples.setter
    def examples(self, examples: Optional[int]) -> None:
        self._examples, self.exchanged = examples, False

    def flush(self) -> None:
        self.flushed += 1

    def train(self) -> None:
        self.model(torch.randn(4, 3)).sum().backward()
        self.optimizer.step()


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    monkeypatch.setattr(_attach, "attached", lambda store: store.attached)
    monkeypatch.setattr(_report, "_turns", False)
    monkeypatch.setattr(_sampler.atexit, "register", lambda *_: None)


def run_others(
    job: elastic_fake.Job, stores: list, per_turn: Optional[Callable[[Any, Any], None]] = None
):
    """Runs a loop without a loader for each store, in threads. Returns what ends them."""
    errors: list[BaseException] = []

    def loop(store: elastic_fake.Store) -> None:
        sampler = _sampler.ElasticSampler(job.examples, job.batch, job.seed, store=store)
        try:
            for _ in sampler.epochs(job.epochs):
                for batch in sampler.batches():
                    if per_turn:
                        per_turn(store, batch)
        except (elastic_fake.Killed, _sampler.RemovedExit):
            pass
        except BaseException as err:
            errors.append(err)
            job.failure = repr(err)

    threads = [threading.Thread(target=loop, args=(s,), daemon=True) for s in stores]
    for t in threads:
        t.start()

    def end() -> None:
        for t in threads:
            t.join(TIMEOUT)
            assert not t.is_alive()
        assert not errors, errors

    return end


def want_each_once(job: elastic_fake.Job) -> None:
    counts = collections.Counter(job.used.values())
    assert len(job.used) == job.examples * job.epochs, counts
    assert set(job.used.values()) == {1}


LOADERS = {
    "no loader": None,
    "in the process": {},
    "workers": {"num_workers": 2, "prefetch_factor": 3},
    "persistent": {"num_workers": 2, "persistent_workers": True},
    "pinned": {"num_workers": 1, "pin_memory": True},
}


@pytest.mark.filterwarnings("ignore:.*pin_memory")
@pytest.mark.parametrize("options", LOADERS.values(), ids=LOADERS)
def test_each_example_once_with_a_join_a_leave_and_a_kill(options):
    job = elastic_fake.Job(examples=83, batch=4, epochs=3)
    mine, second, third = (job.worker() for _ in range(3))
    joins = []

    def join() -> None:
        joins.append(run_others(job, [job.worker(joins=True)]))

    job.script = {2: join, 5: lambda: job.kill(second), 9: join, 11: lambda: third.leave("")}
    end = run_others(job, [second, third])
    sampler = _sampler.ElasticSampler(job.examples, job.batch, job.seed, store=mine)
    loader = None
    if options is not None:
        loader = torch.utils.data.DataLoader(
            Numbers(job.examples), batch_sampler=sampler, **options
        )
    seen = collections.Counter()
    for epoch in sampler.epochs(job.epochs):
        for batch in sampler.batches(loader):
            assert sampler.indices == (batch if loader is None else batch.tolist())
            assert len(sampler.indices) >= sampler.size > -1
            if sampler.size:
                assert sampler.indices == mine.share[mine.at : mine.at + job.batch]
                seen.update((epoch, i) for i in sampler.indices)
            else:
                assert len(sampler.indices) == job.batch
    end()
    for end in joins:
        end()
    want_each_once(job)
    assert set(seen.values()) == {1} and len(seen) < len(job.used)
    assert mine.num_workers == 3


def test_a_batch_left_by_break_or_an_error_comes_again():
    job = elastic_fake.Job(examples=20, batch=3, epochs=1)
    mine = job.worker()
    sampler = _sampler.ElasticSampler(20, 3, store=mine)
    loader = torch.utils.data.DataLoader(Numbers(20), batch_sampler=sampler, num_workers=2)
    batches = []
    for _ in sampler.epochs(1):
        for batch in sampler.batches(loader):
            if len(batches) == 2:
                left = batch.tolist()
                break
            batches.append(batch.tolist())
        with pytest.raises(ZeroDivisionError):
            for batch in sampler.batches(loader):
                assert batch.tolist() == left
                1 / 0
        batches += [b.tolist() for b in sampler.batches(loader)]
    assert batches[2] == left
    assert sorted(i for b in batches for i in b) == list(range(20))
    want_each_once(job)


def test_a_turn_that_ctrl_c_came_out_of_is_asked_for_again(monkeypatch):
    job = elastic_fake.Job(examples=20, batch=3, epochs=1)
    mine = job.worker()
    made, turn = [], mine.turn
    interrupted = iter([False, True])

    def asked(step=None, after=None):
        if len(made) < 2 or after is made[-1]:
            made.append(turn(step))
        if next(interrupted, False):
            # The turn is made, and Python does not keep it.
            raise KeyboardInterrupt
        return made[-1]

    monkeypatch.setattr(mine, "turn", asked)
    sampler = _sampler.ElasticSampler(20, 3, store=mine)
    batches = []
    for _ in sampler.epochs(1):
        with pytest.raises(KeyboardInterrupt):
            for batch in sampler.batches():
                batches.append(batch)
        assert len(batches) == 2
        batches += sampler.batches()
    assert sorted(i for b in batches for i in b) == list(range(20))
    want_each_once(job)


class Killing(Numbers):
    def __getitem__(self, i):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_of_the_loader_that_is_killed_is_named():
    sampler, _epochs = begun()
    loader = torch.utils.data.DataLoader(Killing(10), batch_sampler=sampler, num_workers=1)
    with pytest.raises((ParagonError, RuntimeError), match=r"DataLoader worker \(pid"):
        list(sampler.batches(loader))


def test_a_loader_whose_processes_do_not_start_is_told_why(monkeypatch):
    def refused(self):
        raise ConnectionResetError(104, "Connection reset by peer")

    sampler, _epochs = begun()
    loader = torch.utils.data.DataLoader(Numbers(10), batch_sampler=sampler, num_workers=1)
    monkeypatch.setattr(torch.utils.data.DataLoader, "_get_iterator", refused)
    with pytest.raises(ParagonError, match=r'(?s)Connection reset.*__main__.*context="fork"'):
        list(sampler.batches(loader))


def test_a_loop_that_was_left_goes_on_where_its_gradients_are(monkeypatch):
    job = elastic_fake.Job(examples=20, batch=4, epochs=2)
    mine = job.worker()
    mine.attached = [Attached(1)]
    sampler = _sampler.ElasticSampler(20, 4, store=mine)
    contributed = []

    def cell(before=None, after=None):
        """A notebook's cell, with the turn before or after whose backward Ctrl-C comes."""
        turns = 0
        for epoch in sampler.epochs(2):
            for batch in sampler.batches():
                turns += 1
                if turns == before:
                    raise KeyboardInterrupt
                mine.attached[0].exchanged = True
                contributed.extend((epoch, i) for i in batch)
                if turns == after:
                    raise KeyboardInterrupt

    def interrupted(*_, **__):
        monkeypatch.undo()
        raise KeyboardInterrupt

    for where in ({"before": 2}, {"after": 2}, {"before": 1}, {"after": 2}):
        with pytest.raises(KeyboardInterrupt):
            cell(**where)
    monkeypatch.setattr(elastic_fake.Store, "turn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cell()
    monkeypatch.setattr(_attach, "attached", lambda store: store.attached)
    cell()
    assert sorted(contributed) == [(e, i) for e in range(2) for i in range(20)]
    want_each_once(job)


def test_an_epoch_that_was_not_finished_is_an_error():
    job = elastic_fake.Job(examples=20, batch=3, epochs=2)
    sampler = _sampler.ElasticSampler(20, 3, store=job.worker())
    with pytest.raises(ParagonError, match="epoch 0: 6 steps were not taken"):
        for _ in sampler.epochs(2):
            for n, _ in enumerate(sampler.batches()):
                if n == 1:
                    break


def test_a_worker_without_examples_repeats_a_batch_at_weight_0():
    job = elastic_fake.Job(examples=9, batch=4, epochs=1)
    a, b = job.worker(), job.worker()
    a.attached = [Attached(1)]
    b.attached = [Attached(2)]
    sizes = {a: [], b: []}
    end = run_others(
        job, [a, b], lambda s, batch: sizes[s].append((len(batch), s.attached[0].examples))
    )
    end()
    assert sizes == {a: [(4, 4), (1, 1)], b: [(4, 4), (4, 0)]}
    assert a.attached[0].flushed == 2 and a.attached[0].examples is None
    want_each_once(job)


def test_a_removed_worker_ends_with_exit_code_0():
    job = elastic_fake.Job(examples=40, batch=4, epochs=2)
    mine, other = job.worker(), job.worker()
    end = run_others(job, [other])
    sampler = _sampler.ElasticSampler(40, 4, store=mine)
    turns = 0
    with pytest.raises(_sampler.RemovedExit, match="asked to leave") as caught:
        for _ in sampler.epochs(2):
            for _ in sampler.batches():
                turns += 1
                if turns == 2:
                    mine.leave("SIGTERM")
    assert turns == 2 and caught.value.code == 0 and sampler.removed
    assert issubclass(_sampler.RemovedExit, SystemExit)
    end()
    want_each_once(job)


def test_a_worker_that_joins_behind_the_last_step_has_the_epoch_without_a_step():
    job = elastic_fake.Job(examples=8, batch=4, epochs=2)
    first = job.worker()
    seen = {}
    joiner = []

    def loop(store):
        sampler = _sampler.ElasticSampler(8, 4, store=store)
        seen[store] = [(e, len(list(sampler.batches()))) for e in sampler.epochs(2)]

    def join():
        store = job.worker(joins=True)
        joiner.append(threading.Thread(target=loop, args=(store,), daemon=True))
        joiner[0].start()

    job.script = {2: join}
    loop(first)
    joiner[0].join(TIMEOUT)
    assert list(seen.values()) in (
        [[(0, 2), (1, 1)], [(0, 0), (1, 1)]],
        [[(0, 0), (1, 1)], [(0, 2), (1, 1)]],
    )
    want_each_once(job)


def test_a_run_goes_on_from_the_epoch_of_its_checkpoint():
    job = elastic_fake.Job(examples=10, batch=4, epochs=3)
    sampler = _sampler.ElasticSampler(10, 4, store=job.worker())
    saved = []
    for _ in sampler.epochs(3):
        for _ in sampler.batches():
            saved.append(sampler.state_dict()["epoch"])
        saved.append(sampler.state_dict())
    position = {"epoch": 1, "cuts": None, "steps": 3}
    assert saved[:4] == [0, 0, 0, {"length": 10, "seed": 1, "order": "shuffled", **position}]
    again = elastic_fake.Job(examples=10, batch=4, epochs=3)
    resumed = _sampler.ElasticSampler(10, 4, store=again.worker())
    resumed.load_state_dict(saved[3])
    assert [e for e in resumed.epochs(3) for _ in resumed.batches()] == [1, 1, 1, 2, 2, 2]
    assert {e for e, _ in again.used} == {1, 2}
    with pytest.raises(ParagonError, match="before epochs"):
        resumed.load_state_dict(saved[3])
    other = _sampler.ElasticSampler(11, 4, store=elastic_fake.Job(11, 4, 3).worker())
    with pytest.raises(ValueError, match="length was 10"):
        other.load_state_dict(saved[3])
    done = elastic_fake.Job(examples=10, batch=4, epochs=3)
    over = _sampler.ElasticSampler(10, 4, store=done.worker())
    assert list(over.epochs(3, first=3)) == []


def test_a_report_goes_with_the_end_of_its_turn():
    job = elastic_fake.Job(examples=8, batch=4, epochs=1)
    store = job.worker()
    sampler = _sampler.ElasticSampler(8, 4, store=store)
    loss = torch.tensor(0.5, requires_grad=True)
    with warnings.catch_warnings():
        # Of a loss that has its graph newer releases of torch warn.
        warnings.simplefilter("error")
        for _ in sampler.epochs(1):
            for _ in sampler.batches():
                if sampler.step == 0:
                    _report.report(loss, learning_rate=0.1, gradient_norm=float("inf"))
    first, second, over = store.steps
    assert first.pop("data") >= 0 and second.pop("data") >= 0
    assert (first, second, over) == (
        {"loss": 0.5, "learning_rate": 0.1, "gradient_norm": float("inf")},
        {},
        None,
    )


def test_an_index_knows_its_epoch_and_a_seed_of_its_own():
    job = elastic_fake.Job(examples=5, batch=5, epochs=2)
    sampler = _sampler.ElasticSampler(5, 5, seed=7, with_epoch=True, store=job.worker())
    seeds = {}
    for epoch in sampler.epochs(2):
        for batch in sampler.batches():
            for i in pickle.loads(pickle.dumps(batch)):
                assert i.epoch == epoch and [10, 11, 12, 13, 14][i] == 10 + i
                assert i.seed == _sampler.example_seed(7, epoch, int(i)) and 0 <= i.seed < 2**63
                seeds[epoch, int(i)] = i.seed
    assert len(set(seeds.values())) == 10


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(10))


def begun(**options):
    sampler = _sampler.ElasticSampler(10, 4, store=elastic_fake.Job(10, 4, 1).worker(), **options)
    epochs = sampler.epochs(1)
    next(epochs)
    return sampler, epochs


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(
        TypeError, match="IterableDataset has no numbered examples; give it __getitem__"
    ):
        _sampler.ElasticSampler(Endless())
    with pytest.raises(ValueError, match="0 examples"):
        _sampler.ElasticSampler(Numbers(0))
    with pytest.raises(ValueError, match="batch_size is 0"):
        _sampler.ElasticSampler(10, 0)
    sampler, _epochs = begun()
    with pytest.raises(TypeError, match="IterableDataset.*one number for each file"):
        next(sampler.batches(torch.utils.data.DataLoader(Endless())))
    with pytest.raises(
        ValueError, match="does not draw from this sampler; make it with DataLoader"
    ):
        next(sampler.batches(torch.utils.data.DataLoader(Numbers(10), batch_size=4)))
    loader = torch.utils.data.DataLoader(Numbers(10), batch_sampler=sampler)
    loader.__dict__["in_order"] = False
    with pytest.raises(ValueError, match="in_order=False"):
        next(sampler.batches(loader))
    with pytest.raises(ParagonError, match="no epoch yet"):
        next(_sampler.ElasticSampler(10, store=elastic_fake.Job(10, 4, 1).worker()).batches())
    with pytest.raises(ParagonError, match=r"over the loader itself.*batches\.batches\(loader\)"):
        next(iter(torch.utils.data.DataLoader(Numbers(10), batch_sampler=sampler)))
    batches = sampler.batches()
    next(batches)
    with pytest.raises(ParagonError, match="within a loop over batches"):
        next(sampler.batches())


def test_a_loader_that_changes_the_order_or_drops_batches_is_found_out():
    class Halved:
        def __init__(self, sampler):
            self.batch_sampler = sampler

        def __iter__(self):
            return (b for i, b in enumerate(self.batch_sampler) if i % 2)

    sampler, _epochs = begun()
    batches = sampler.batches(Halved(sampler))
    with pytest.raises(ParagonError, match="the loader ended with 2 steps left|keep the order"):
        list(batches)


def test_a_joiner_gets_the_state_of_a_survivor_bit_for_bit():
    job = elastic_fake.Job(examples=60, batch=4, epochs=2)
    stores = [job.worker(), job.worker()]
    joiner: list = []
    for seed, s in enumerate(stores, 1):
        s.attached = [Attached(5)]
        s.attached[0].state = {"counters": {"steps": 3, "deque": collections.deque([1.5], 2)}}
        for _ in range(3):
            torch.manual_seed(seed)
            s.attached[0].train()
    scheduler = torch.optim.lr_scheduler.MultiStepLR(stores[0].attached[0].optimizer, [2, 4])
    stores[0].attached[0].state["schedule"] = scheduler
    stores[1].attached[0].state["schedule"] = scheduler
    scheduler.step()
    want = {}

    def join() -> None:
        first = stores[0].attached[0]
        want["parameters"] = [p.detach().clone() for _, p in first.parameters]
        want["state"] = pickle.dumps(first.optimizer.state_dict())
        new = job.worker(joins=True)
        new.attached = [Attached(9)]
        own = torch.optim.lr_scheduler.MultiStepLR(new.attached[0].optimizer, [2, 4])
        new.attached[0].state = {"counters": {"steps": 0}, "schedule": own}
        joiner.extend([new, run_others(job, [new])])

    job.script = {4: join, 8: lambda: job.kill(stores[0])}
    run_others(job, stores)()
    new, end = joiner
    end()
    got = new.attached[0]
    for (_, p), w in zip(got.parameters, want["parameters"]):
        assert torch.equal(p, w)
    theirs, ours = pickle.loads(want["state"]), got.optimizer.state_dict()
    assert theirs["param_groups"] == ours["param_groups"]
    for number, entries in theirs["state"].items():
        for name, value in entries.items():
            have = ours["state"][number][name]
            assert have.dtype == value.dtype and torch.equal(have, value), (number, name)
    assert got.state["counters"] == {"steps": 3, "deque": collections.deque([1.5], 2)}
    assert got.state["schedule"].state_dict() == scheduler.state_dict()
    assert all(
        torch.equal(a, b)
        for a, b in zip(got.model.buffers(), stores[0].attached[0].model.buffers())
    )
    want_each_once(job)


@pytest.mark.parametrize("lost", ["before its text", "between two rounds"])
def test_a_source_that_is_lost_meanwhile_is_replaced(monkeypatch, lost):
    monkeypatch.setattr(_share, "_SIZE", 5)
    monkeypatch.setattr(_share, "_KEYS", 2)
    job = elastic_fake.Job(examples=60, batch=4, epochs=1)
    stores = [job.worker(), job.worker()]
    for s in stores:
        s.attached = [Attached(5)]
        for _ in range(2):
            torch.manual_seed(1)
            s.attached[0].train()
    joiner: list = []

    def join() -> None:
        new = job.worker(joins=True)
        new.attached = [Attached(9)]
        joiner.extend([new, run_others(job, [new])])

    rounds = []
    real = elastic_fake.Plan.exchange

    def exchange(plan, *args, **kwargs):
        if plan.store is stores[0]:
            rounds.append(kwargs["weight"])
            if len(rounds) == 3:
                job.kill(stores[0])
        return real(plan, *args, **kwargs)

    def broadcast(store, text):
        if store is stores[0]:
            job.kill(store)
        return tell(store, text)

    tell = elastic_fake.Store.broadcast
    if lost == "before its text":
        monkeypatch.setattr(elastic_fake.Store, "broadcast", broadcast)
    else:
        monkeypatch.setattr(elastic_fake.Plan, "exchange", exchange)
    job.script = {4: join}
    run_others(job, stores)()
    new, end = joiner
    end()
    got, want = new.attached[0], stores[1].attached[0]
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(got.parameters, want.parameters))
    assert repr(got.optimizer.state_dict()) == repr(want.optimizer.state_dict())
    assert rounds == ([1.0] * 3 if lost == "between two rounds" else [])
    want_each_once(job)


def test_if_all_with_the_state_are_lost_the_joiner_says_so(monkeypatch):
    job = elastic_fake.Job(examples=60, batch=4, epochs=1)
    first = job.worker()
    caught: list = []

    def broadcast(store, text):
        if store is first:
            job.kill(store)
        return tell(store, text)

    tell = elastic_fake.Store.broadcast
    monkeypatch.setattr(elastic_fake.Store, "broadcast", broadcast)
    ended = threading.Event()

    def join() -> None:
        new = job.worker(joins=True)

        def loop() -> None:
            try:
                list(_sampler.ElasticSampler(60, 4, store=new).epochs(1))
            except ParagonError as err:
                caught.append(str(err))
            ended.set()

        threading.Thread(target=loop, daemon=True).start()

    job.script = {3: join}
    run_others(job, [first])()
    assert ended.wait(TIMEOUT)
    assert "all workers that had the optimizer's state were lost" in caught[0]


class Odd:
    pass


def test_state_that_is_no_plain_data_is_refused_at_the_start():
    sampler = _sampler.ElasticSampler(10, store=elastic_fake.Job(10, 4, 1).worker())
    sampler._store.attached = [Attached(1)]
    sampler._store.attached[0].state = {"mine": {"x": [Odd()]}}
    with pytest.raises(
        TypeError, match=r"state\['mine'\]\['x'\]\[0\] is a test_elastic.*Odd, which"
    ):
        next(sampler.epochs(1))
    sampler._store.attached[0].state = {"mine": Odd()}
    with pytest.raises(
        TypeError, match=r"state\['mine'\] is a Odd; want an object with state_dict"
    ):
        next(sampler.epochs(1))


def test_an_optimizer_whose_state_cannot_be_sent_ends_the_joiner_alone(capfd):
    job = elastic_fake.Job(examples=60, batch=4, epochs=1)
    first = job.worker()
    first.attached = [Attached(1)]
    parameter = first.attached[0].optimizer.param_groups[0]["params"][0]
    first.attached[0].optimizer.state[parameter]["odd"] = Odd()
    caught: list = []

    def join() -> None:
        new = job.worker(joins=True)
        new.attached = [Attached(2)]

        def loop() -> None:
            try:
                list(_sampler.ElasticSampler(60, 4, store=new).epochs(1))
            except TypeError as err:
                caught.append(str(err))
            job.kill(new)

        threading.Thread(target=loop, daemon=True).start()

    job.script = {3: join}
    run_others(job, [first])()
    where = "model: optimizer['state'][0]['odd'] is a test_elastic_sampler.Odd"
    assert f"this worker cannot join: {where}" in caught[0]
    assert f"paragon: a worker cannot join: {where}" in capfd.readouterr().err
    want_each_once(job)


def test_workers_that_divide_other_examples_are_told():
    job = elastic_fake.Job(examples=60, batch=4, epochs=1)
    first, second = job.worker(), job.worker()
    begun = threading.Event()
    init = first.init
    first.init = lambda keys: (init(keys), begun.set() if "text" in keys[0].key else None)
    end = run_others(job, [first])
    assert begun.wait(TIMEOUT)
    sampler = _sampler.ElasticSampler(60, 5, 2, shuffle=False, store=second)
    with pytest.raises(ParagonError) as caught:
        next(sampler.epochs(1))
    begin = "; it begins with epoch 0 after 0 steps"
    theirs = "60 examples in batches of 4, 1 epochs, seed 1, shuffled" + begin
    ours = "60 examples in batches of 5, 1 epochs, seed 2, sequential" + begin
    assert f"this worker has {ours}, and worker 0 has {theirs}; give all" in str(caught.value)
    job.kill(second)
    end()
    want_each_once(job)


def test_a_worker_that_ends_early_says_what_is_not_used(capfd):
    job = elastic_fake.Job(examples=60, batch=4, epochs=1)
    mine, other = job.worker(), job.worker()
    end = run_others(job, [other])
    sampler = _sampler.ElasticSampler(60, 4, store=mine)
    for _ in sampler.epochs(1):
        for _ in sampler.batches():
            if sampler.step == 3:
                break
        break
    sampler._say_left(os.getpid() + 1)
    assert capfd.readouterr().err == ""
    sampler._say_left(os.getpid())
    assert "ends in epoch 0 with 5 steps left; if others go on, nobody" in capfd.readouterr().err
    job.kill(mine)
    end()


def test_another_model_on_the_joiner_is_an_error_that_names_both():
    job = elastic_fake.Job(examples=60, batch=4, epochs=1)
    first = job.worker()
    first.attached = [Attached(1)]
    caught: list = []

    def join() -> None:
        new = job.worker(joins=True)
        new.attached = [Attached(2)]
        name, p = new.attached[0].parameters[0]
        new.attached[0].parameters[0] = (name, torch.nn.Parameter(torch.zeros(2, 4)))

        def loop() -> None:
            try:
                list(_sampler.ElasticSampler(60, 4, store=new).epochs(1))
            except ParagonError as err:
                caught.append(str(err))
            job.kill(new)

        threading.Thread(target=loop, daemon=True).start()

    job.script = {3: join}
    run_others(job, [first])()
    assert (
        "model: parameters: 0.weight: the worker that shares its state has torch.float32 of [2, 3]"
        in caught[0]
    )
    assert "this worker torch.float32 of [2, 4]" in caught[0]
    want_each_once(job)
