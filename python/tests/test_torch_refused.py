"""docs/python/refused.md: each of its texts is what a program gets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import paragon.torch as pt  # noqa: E402
from paragon import errors  # noqa: E402
from paragon.torch import _attach  # noqa: E402
from fakestore import FakeJob, FakeStore, run  # noqa: E402

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python" / "refused.md"


@pytest.fixture(autouse=True)
def empty_registry():
    yield
    for a in list(_attach._registry):
        a.detach()


def rows():
    for line in PAGE.read_text().splitlines():
        cells = [c.strip() for c in line.split("|")[1:-1]]
        if len(cells) == 3 and cells[1].endswith("Error"):
            yield cells


def store():
    return FakeStore(FakeJob(1), 0)


def two():
    return nn.Sequential(nn.Linear(2, 2, bias=False))


def sgd(model):
    return torch.optim.SGD(model.parameters(), 0.1)


def backward(model):
    model(torch.ones(1, 2)).sum().backward()


def odd_type():
    model = nn.Module()
    model.odd = nn.Parameter(torch.ones(1).double())
    pt.attach(model, None, store())


def lazy():
    pt.attach(nn.LazyLinear(3), None, store())


def no_store():
    model = two()
    pt.attach(model, sgd(model), None)


def other_model():
    pt.attach(two(), sgd(two()), store())


def twice():
    s, model = store(), two()
    pt.attach(model, None, s)
    pt.attach(model, None, s)


def name():
    s = store()
    pt.attach(two(), None, s, name="a")
    pt.attach(two(), None, s, name="a")


class Words(nn.Module):
    def __init__(self, sparse):
        super().__init__()
        self.sparse = sparse
        self.weight = nn.Parameter(torch.ones(3, 2))

    def forward(self, ids):
        return nn.functional.embedding(ids, self.weight, sparse=self.sparse).sum()


def sparse_elsewhere():
    model = Words(True)
    pt.attach(model, None, store())
    model(torch.tensor([1])).backward()


def dense_for_sparse():
    model = nn.Embedding(3, 2, sparse=True)
    pt.attach(model, None, store())
    model.weight.sum().backward()


def another_on_one_worker():
    run(2, lambda s: pt.attach(nn.Sequential(nn.Linear(2 + s.rank, 2, bias=False)), None, s))


def changed(change, **more):
    def bring_about():
        model = two()
        opt = sgd(model)
        a = pt.attach(model, opt, store(), **more)
        backward(model)
        change(model, opt, a)
        opt.step()

    return bring_about


def replace(model, opt, a):
    model[0].weight = nn.Parameter(torch.ones(2, 2))


def second_in_turn(model, opt, a):
    a.examples = 4
    backward(model)
    backward(model)


def half_done():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 5000))
    opt = sgd(model)
    pt.attach(model, opt, store())
    model[0].weight.register_hook(lambda g: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        backward(model)
    opt.step()


def served(make, model=two):
    def bring_about():
        m = model()
        pt.attach(m, make(m), store(), optimizer="server")

    return bring_about


def in_server(change):
    return changed(change, optimizer="server")


def biased():
    return nn.Sequential(nn.Linear(2, 2))


BRING_ABOUT = {
    "a parameter of a type that does not travel": odd_type,
    "a lazy module before its first batch": lazy,
    "a store that is none, as before `init`": no_store,
    "an optimizer of another model": other_model,
    "a model that is attached already": twice,
    "a name that is taken": name,
    "a sparse gradient of another module than Embedding": sparse_elsewhere,
    "a dense gradient of Embedding(sparse=True)": dense_for_sparse,
    "another model on one worker, said on all": another_on_one_worker,
    "a parameter was replaced": changed(replace),
    "a parameter was frozen": changed(lambda m, o, a: m.requires_grad_(False)),
    "`model.half()` after attach": changed(lambda m, o, a: m.half()),
    "a parameter was added to the optimizer": changed(
        lambda m, o, a: o.add_param_group({"params": [nn.Parameter(torch.ones(3))]})
    ),
    "a second backward in a turn of ElasticSampler": changed(second_in_turn),
    "a step after an exception ended a backward": half_done,
    "another optimizer": served(lambda m: torch.optim.LBFGS(m.parameters())),
    "an option": served(lambda m: torch.optim.Adam(m.parameters(), amsgrad=True)),
    "groups that differ": served(
        lambda m: torch.optim.Adam(
            [{"params": m[0].weight}, {"params": m[0].bias, "betas": (0.5, 0.999)}]
        ),
        biased,
    ),
    "sparse gradients": served(sgd, lambda: nn.Embedding(3, 2, sparse=True)),
    "two optimizers": served(lambda m: [sgd(m), sgd(m)]),
    "clipping, GradScaler": in_server(
        lambda m, o, a: nn.utils.clip_grad_norm_(m.parameters(), 0.1)
    ),
    "a closure": in_server(lambda m, o, a: o.step(lambda: 0.0)),
    "a second backward before the step": in_server(lambda m, o, a: backward(m)),
    "a rate that changed between backward and step": in_server(
        lambda m, o, a: o.param_groups[0].update(lr=0.2)
    ),
    "an option that changed": in_server(lambda m, o, a: o.param_groups[0].update(momentum=0.5)),
}


@pytest.mark.parametrize("what, kind, text", list(rows()))
def test_the_page_has_what_a_program_gets(what, kind, text):
    with pytest.raises(getattr(errors, kind)) as got:
        BRING_ABOUT[what]()
    pattern = re.escape(text).replace(re.escape("..."), ".*")
    assert re.fullmatch(pattern, str(got.value)), str(got.value)


def test_the_page_has_all():
    assert sorted(BRING_ABOUT) == sorted(what for what, _, _ in rows())
