"""attach with optimizer="server": the servers do what torch's optimizer would, or it is refused."""

from __future__ import annotations

import copy
import warnings

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import paragon.torch as pt  # noqa: E402
from paragon.errors import ConflictError, UnsupportedError, UsageError  # noqa: E402
from paragon.torch import _attach, _server  # noqa: E402
from corehelp import REAL, run as run_program  # noqa: E402
from fakestore import FakeJob, FakeStore, run  # noqa: E402


@pytest.fixture(autouse=True)
def empty_registry():
    yield
    for a in list(_attach._registry):
        a.detach()


def net() -> nn.Module:
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2), nn.Linear(2, 2))
    for i, p in enumerate(model.parameters()):
        p.data = torch.sin(torch.arange(p.numel()) + i).view(p.shape) / 2
    return model


X = torch.cos(torch.arange(48.0)).view(8, 6)


def loss(model, x=X):
    return model[:3](x).pow(2).mean()


CONFIGS = [
    (
        lambda p: torch.optim.SGD(p, 0.1),
        {"name": "sgd", "learning_rate": 1.0, "reduction": "mean"},
    ),
    (
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        {
            "name": "nag",
            "momentum": 0.9,
            "velocity": "gradients",
            "learning_rate": 1.0,
            "reduction": "mean",
            "weight_decay": 0.01,
        },
    ),
    (
        lambda p: torch.optim.Adam(p, betas=(0.0, 0.99), eps=0.0),
        {
            "name": "adam",
            "beta1": 1e-30,
            "beta2": 0.99,
            "epsilon": 1e-30,
            "learning_rate": 1.0,
            "reduction": "mean",
        },
    ),
    (
        lambda p: torch.optim.AdamW(p),
        {
            "name": "adamw",
            "beta1": 0.9,
            "beta2": 0.999,
            "epsilon": 1e-08,
            "learning_rate": 1.0,
            "reduction": "mean",
            "weight_decay": 0.01,
        },
    ),
    (
        lambda p: torch.optim.Adagrad(p, initial_accumulator_value=0.5),
        {
            "name": "adagrad",
            "epsilon": 1e-10,
            "initial_accumulator": 0.5,
            "learning_rate": 1.0,
            "reduction": "mean",
        },
    ),
    (
        lambda p: torch.optim.RMSprop(p, momentum=0.5, centered=True),
        {
            "name": "rmsprop",
            "rho": 0.99,
            "epsilon": 1e-08,
            "momentum": 0.5,
            "velocity": "gradients",
            "centered": True,
            "learning_rate": 1.0,
            "reduction": "mean",
        },
    ),
]


@pytest.mark.parametrize("make, config", CONFIGS)
def test_torchs_numbers_are_the_servers(make, config):
    model = net()
    names = {id(p): n for n, p in model.named_parameters()}
    assert _server.config_of(make(model.parameters()), names) == config


def test_groups_may_differ_in_rate_and_decay():
    model = net()
    names = {id(p): n for n, p in model.named_parameters()}
    groups = [
        {"params": [model[0].weight], "weight_decay": 0.02, "lr": 0.3},
        {"params": [model[0].bias], "weight_decay": 0.0},
        {"params": [model[2].weight]},
    ]
    config = _server.config_of(torch.optim.SGD(groups, 0.1, weight_decay=0.01), names, "m/")
    assert config["weight_decay"] == 0.02
    assert config["weight_decay_factors"] == [
        {"keys": "m/0.bias", "factor": 0.0},
        {"keys": "m/2.weight", "factor": 0.5},
    ]


class Mine(torch.optim.SGD):
    pass


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda p: torch.optim.LBFGS(p), "no optimizer torch.optim.*LBFGS"),
        (lambda p: Mine(p, 0.1), "no optimizer test_torch_server.Mine"),
        (lambda p: torch.optim.Adam(p, amsgrad=True), r"Adam.param_groups\[0\]\['amsgrad'\]"),
        (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.5), "'dampening'.* is 0.5"),
        (lambda p: torch.optim.SGD(p, 0.1, maximize=True), "'maximize'.* is True"),
        (lambda p: torch.optim.Adagrad(p, lr_decay=0.1), "'lr_decay'.* is 0.1"),
        (
            lambda p: torch.optim.Adam(
                [{"params": [q], "betas": (0.9, 0.9 + 0.01 * i)} for i, q in enumerate(p)]
            ),
            r"param_groups\[1\] has beta2 0.91, group 0 has 0.9",
        ),
    ],
)
def test_what_the_servers_cannot_do_is_refused_by_name(make, text):
    model = net()
    store = FakeStore(FakeJob(1), 0)
    with pytest.raises(UnsupportedError, match=f'{text}.*optimizer="local"'):
        pt.attach(model, make(model.parameters()), store, optimizer="server")


def test_what_attach_refuses():
    model = net()
    store = FakeStore(FakeJob(1), 0)

    def attach(own, **more):
        return pt.attach(model, own, store, optimizer="server", **more)

    with pytest.raises(UsageError, match="got 0 optimizers"):
        attach(None, name="a")
    with pytest.raises(UsageError, match="parameter 2.weight is in no group of SGD"):
        attach(torch.optim.SGD(model[0].parameters(), 0.1), name="b")
    own = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    loss(model).backward()
    own.step()
    with pytest.raises(UsageError, match="SGD has state already"):
        attach(own, name="c")
    with pytest.raises(UsageError, match='want "local" or "server"'):
        pt.attach(model, own, store, optimizer="remote")
    model.words = nn.Embedding(3, 2, sparse=True)
    with pytest.raises(UnsupportedError, match="parameter words.weight has sparse gradients"):
        attach(torch.optim.SGD(model.parameters(), 0.1), name="d")


def attached(store, **more):
    model = net()
    own = torch.optim.SGD(
        [{"params": model[0].parameters(), "lr": 0.5}, {"params": model[2:].parameters()}], 0.1
    )
    return model, own, pt.attach(model, own, store, optimizer="server", **more)


def test_weights_come_in_step_with_each_groups_rate():
    plain = net()
    own = torch.optim.SGD(
        [{"params": plain[0].parameters(), "lr": 0.5}, {"params": plain[2:].parameters()}], 0.1
    )
    schedule = torch.optim.lr_scheduler.StepLR(own, 1, 0.5)
    unused = plain[3].weight.clone()
    for _ in range(3):
        loss(plain).backward()
        own.step()
        schedule.step()
        own.zero_grad(set_to_none=True)

    def body(store):
        model, own, a = attached(store)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            schedule = torch.optim.lr_scheduler.StepLR(own, 1, 0.5)
            for _ in range(3):
                before = [p.clone() for p in model.parameters()]
                loss(model, X[store.rank :: 2]).backward()
                assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before))
                own.step()
                schedule.step()
                own.zero_grad(set_to_none=True)
        for p, q in zip(model.parameters(), plain.parameters()):
            torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)
        assert torch.equal(model[3].weight, unused)
        assert "SGD on the servers" in repr(a)
        assert own.state == {}

    run(2, body)


def test_a_parameter_that_one_worker_used_counts_the_others_as_zeros():
    def body(store):
        model, own, _ = attached(store)
        part = model[3].weight.clone()
        x = torch.ones(2, 2)
        (model[3](x).sum() if store.rank == 1 else loss(model)).backward()
        own.step()
        # The rank's gradient is 2 everywhere; its mean over both is 1.
        torch.testing.assert_close(model[3].weight, part - 0.1)
        return [p.detach().clone() for p in model.parameters()]

    got = run(2, body)
    assert all(torch.equal(a, b) for a, b in zip(*got))


@pytest.mark.parametrize(
    "change, text",
    [
        (lambda m, o: nn.utils.clip_grad_norm_(m.parameters(), 0.01), "clip_grad_norm_"),
        (lambda m, o: m[0].weight.grad.mul_(0.5), "gradient of 0.weight was changed"),
        (lambda m, o: o.zero_grad(set_to_none=True), "gradient of 0.weight was changed"),
        (lambda m, o: loss(m).backward(), "a second backward.*no_sync"),
        (lambda m, o: o.param_groups[1].update(lr=9.0), r"param_groups\[1\]\['lr'\] was 0.1"),
        (lambda m, o: o.param_groups[1].update(momentum=0.5), r"\[1\]\['momentum'\] was 0 at att"),
        (lambda m, o: o.step(lambda: loss(m)), "SGD.step: got a closure"),
        (lambda m, o: o.state_dict(), "has no step"),
    ],
)
def test_what_a_loop_may_not_do_is_refused_by_name(change, text):
    def body(store):
        model, own, _ = attached(store)
        loss(model).backward()
        with pytest.raises((UnsupportedError, ConflictError), match=text):
            change(model, own)
            own.step()

    run(1, body)


def test_passes_and_no_sync_add_up():
    plain = net()
    own = torch.optim.SGD(plain.parameters(), 0.1)
    loss(plain).backward()
    loss(plain, X + 1).backward()
    own.step()

    def body(store):
        model = net()
        own = torch.optim.SGD(model.parameters(), 0.1)
        pt.attach(model, own, store, optimizer="server")
        with pt.no_sync(model):
            loss(model).backward()
        loss(model, X + 1).backward()
        own.step()
        for p, q in zip(model.parameters(), plain.parameters()):
            torch.testing.assert_close(p, q)
        # A step without a backward does nothing.
        own.step()
        for p, q in zip(model.parameters(), plain.parameters()):
            torch.testing.assert_close(p, q)

    run(1, body)


def test_detach_gives_the_optimizer_its_methods_back():
    def body(store):
        model, own, a = attached(store)
        a.detach()
        assert not {"step", "state_dict", "load_state_dict"} & set(own.__dict__)
        loss(model).backward()
        before = model[0].weight.clone()
        own.step()
        assert not torch.equal(before, model[0].weight)
        copy.deepcopy(own)

    run(1, body)


PROGRAM = """
import math
import os
import sys

import torch
from torch import nn

import paragon.torch as pt

torch.set_num_threads(1)
MAKE = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, 0.02, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, 0.02, betas=(0.8, 0.9)),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.1, initial_accumulator_value=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.5),
    "centered": lambda p: torch.optim.RMSprop(p, 0.01, centered=True, weight_decay=0.01),
}


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 300), nn.Tanh(), nn.Linear(300, 5))


def groups(model):
    return [
        {"params": [model[0].weight, model[2].weight]},
        {"params": [model[0].bias, model[2].bias], "lr": 0.05, "weight_decay": 0.0},
    ]


generator = torch.Generator().manual_seed(7)
x, y = torch.randn(24, 20, generator=generator), torch.randint(0, 5, (24,), generator=generator)


def train(model, opt, schedule, x, y, steps):
    for _ in range(steps):
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()
        schedule.step()
        opt.zero_grad()


def schedule_of(opt):
    # The rate changes in every step, and is 0 once.
    return torch.optim.lr_scheduler.LambdaLR(opt, lambda i: abs(math.sin(2.0 * i)) if i != 2 else 0.0)


def close(rule, model, plain):
    for (n, a), b in zip(model.named_parameters(), plain.parameters()):
        torch.testing.assert_close(a, b, rtol=2e-4, atol=2e-5, msg=lambda m: f"{rule} {n}: {m}")


def main(rule):
    store = pt.init()
    plain = net()
    opt = MAKE[rule](groups(plain))
    schedule = schedule_of(opt)
    train(plain, opt, schedule, x, y, 6)

    own = slice(store.rank, None, store.num_workers)
    model = net()
    ours = MAKE[rule](groups(model))
    pt.attach(model, ours, store, optimizer="server")
    our_schedule = schedule_of(ours)
    train(model, ours, our_schedule, x[own], y[own], 6)
    close(rule, model, plain)

    # The state has torch's names, and its values.
    state, wanted = ours.state_dict(), opt.state_dict()
    assert state["param_groups"] == wanted["param_groups"], (state["param_groups"], wanted["param_groups"])
    for i, values in wanted["state"].items():
        names = {k for k, v in values.items() if v is not None}
        assert names == set(state["state"].get(i, {})), (i, names, state["state"])
        for k in names:
            torch.testing.assert_close(
                torch.as_tensor(state["state"][i][k]).float(), torch.as_tensor(values[k]).float(),
                # rmsprop divides gradients near 0 by their size.
                rtol=1e-2, atol=1e-3,
            )

    # A file has it, from which one process and the servers go on alike.
    pt.save("server.safetensors", model)
    store.barrier()
    one = net()
    one_opt = MAKE[rule](groups(one))
    one_schedule = schedule_of(one_opt)
    pt.load("server.safetensors", one, one_opt)
    one_schedule.load_state_dict(our_schedule.state_dict())
    train(one, one_opt, one_schedule, x, y, 3)
    for p in model.parameters():
        p.data.fill_(7.0)
    train(plain, opt, schedule, x, y, 3)
    close(rule, one, plain)
    pt.load("server.safetensors", model)
    train(model, ours, our_schedule, x[own], y[own], 3)
    close(rule, model, one)
    print("right", rule)
    store.close()


if len(RULES) == 1:
    main(RULES[0])
for rule in RULES[1:] and RULES:
    # A job of one worker for each rule: a store has one optimizer in its life.
    child = os.fork()
    if not child:
        main(rule)
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{rule} failed")
"""

needs_launch = pytest.mark.skipif(
    not REAL, reason="PARAGON_LAUNCH does not name the binary launch: make pytests"
)


def program(*rules):
    return f"RULES = {rules!r}\n" + PROGRAM


@needs_launch
@pytest.mark.parametrize("rule", ["momentum", "adamw"])
def test_two_servers_do_what_torch_does_in_one_process(tmp_path, rule):
    before = [REAL, "-n", "2", "-s", "2", "--"]
    p = run_program(tmp_path, program(rule), launch=REAL, before=before)
    assert p.out.count(f"right {rule}") == 2, p.out + p.err


@needs_launch
def test_every_rule_is_torchs(tmp_path):
    rules = ("sgd", "nesterov", "momentum", "adam", "adamw", "adagrad", "rmsprop", "centered")
    p = run_program(tmp_path, program(*rules), launch=REAL)
    assert [f"right {r}" for r in rules] == p.out.split("\n")[:-1], p.out + p.err
