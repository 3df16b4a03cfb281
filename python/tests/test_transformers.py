"""Hugging Face's Trainer and accelerate, in real jobs, with models that nobody downloads."""

from __future__ import annotations

import collections
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")

from corehelp import REAL, SECONDS, environment, run  # noqa: E402
from jobhelp import Job  # noqa: E402

pytestmark = pytest.mark.skipif(not REAL, reason="PARAGON_LAUNCH names no launch to test with")

COMMON = """
    import os, sys, time
    import torch
    import transformers
    import paragon.torch as pt
    import paragon.transformers

    class Data(torch.utils.data.Dataset):
        def __init__(self, n):
            generator = torch.Generator().manual_seed(1)
            self.x = torch.randint(0, 50, (n, 8), generator=generator)

        def __len__(self):
            return len(self.x)

        def __getitem__(self, i):
            return {"input_ids": self.x[i], "labels": int(self.x[i, 0] > 25)}

    def model(seed):
        torch.manual_seed(seed)
        sizes = dict(vocab_size=50, hidden_size=16, num_hidden_layers=1, intermediate_size=16)
        off = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        config = transformers.BertConfig(num_attention_heads=2, **sizes, **off)
        return transformers.BertForSequenceClassification(config)

    def trainer(net, data, folder, **options):
        options.setdefault("report_to", "none")
        args = transformers.TrainingArguments(
            output_dir=folder, use_cpu=True, learning_rate=0.01, disable_tqdm=True, **options
        )
        return transformers.Trainer(net, args, train_dataset=data)

    def weights(net):
        return torch.cat([p.detach().flatten() for p in net.parameters()])
"""

FIXED = (
    COMMON
    + """
    from accelerate import Accelerator
    import paragon.horovod.torch as hvd

    store = pt.init()
    hvd.init()
    rank, size = store.rank, store.num_workers
    data = Data(32)

    # Two workers with half of the examples each, in two passes a step, do what one does with all.
    net = model(rank)
    options = dict(num_train_epochs=3, max_grad_norm=0.01, optim="sgd", warmup_steps=1)
    both = trainer(
        net, data, "out", per_device_train_batch_size=8, gradient_accumulation_steps=2,
        save_strategy="epoch", logging_steps=1, **options
    )
    assert paragon.transformers.distribute(both) is both
    both.train()
    assert both.state.global_step == 3 and both.is_world_process_zero() == (rank == 0)
    mine = weights(net)
    assert all(torch.equal(w, mine) for w in hvd.allgather_object(mine))
    if rank == 0:
        assert os.path.exists("out/checkpoint-3/model.safetensors")
    store.barrier()

    # A run that goes on from a checkpoint ends where the other one did.
    options.update(save_strategy="no")
    again = trainer(
        model(5), data, "again", per_device_train_batch_size=8, gradient_accumulation_steps=2,
        **options
    )
    paragon.transformers.distribute(again, store).train(resume_from_checkpoint="out/checkpoint-1")
    assert torch.allclose(weights(again.model), mine, atol=1e-7)

    # accelerate: accumulation, clipping and the scheduler.
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    net = model(0)
    optimizer = torch.optim.AdamW(net.parameters(), 0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    net, optimizer, scheduler = accelerator.prepare(net, optimizer, scheduler)
    attached = paragon.transformers.attach(accelerator, net, optimizer, store)
    before = weights(net)
    for i in range(4):
        with accelerator.accumulate(net):
            x = data.x[(i * 2 + rank) * 4 : (i * 2 + rank + 1) * 4]
            loss = net(input_ids=x, labels=(x[:, 0] > 25).long()).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    assert scheduler.get_last_lr() == [0.0025] and not torch.equal(before, weights(net))
    assert all(torch.equal(w, weights(net)) for w in hvd.allgather_object(weights(net)))
    assert accelerator.is_main_process == (rank == 0)

    # What is refused.
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([])

    for bad, options, text in (
        (Stream(), dict(max_steps=1), "train_dataset of type Stream has no length"),
        (data, dict(gradient_accumulation_steps=2), "elastic=True with gradient_accumulation"),
    ):
        try:
            paragon.transformers.distribute(trainer(model(0), bad, "x", **options), elastic=True)
        except NotImplementedError as e:
            assert text in str(e), e
        else:
            raise AssertionError(text)

    # One process with all examples, without us. Its steps have all 32 examples.
    if rank == 0:
        from accelerate.state import AcceleratorState, GradientState, PartialState
        for s in (AcceleratorState, GradientState, PartialState):
            s._reset_state()
        net = model(0)
        options = dict(num_train_epochs=3, max_grad_norm=0.01, optim="sgd", warmup_steps=1)
        trainer(net, data, "alone", per_device_train_batch_size=32, **options).train()
        difference = (weights(net) - mine).abs().max().item()
        moved = (weights(net) - weights(model(0))).abs().max().item()
        assert difference < 1e-6 < 1e-5 < moved, (difference, moved)
    print("all is well")
"""
)


def test_trainer_and_accelerate_in_a_job_of_two(tmp_path: Path) -> None:
    done = run(tmp_path, FIXED, launch=REAL, before=[REAL, "-n", "2", "-s", "1", "--"])
    assert done.out.count("all is well") == 2, done.out


ELASTIC = (
    COMMON
    + """
    # This text has no main() that forkserver, Python 3.14's own choice, could leave alone.
    import multiprocessing
    multiprocessing.set_start_method("fork")
    events = open("events", "a", buffering=1)

    class Watch(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            s = callback.sampler
            if s.size:
                events.write(f"used {s.epoch} {s.indices}\\n")
            events.write(f"step {os.getpid()} {store.rank} of {store.num_workers}\\n")
            # The job goes on until a worker has joined, whatever the machine's speed is.
            while s.epoch == 1 and not os.path.exists("joining"):
                time.sleep(0.01)
            if s.epoch > 0 and store.num_workers < 3:
                time.sleep(0.2)

    store = pt.init()
    net = model(os.getpid())
    t = trainer(
        net, Data(200), "out", per_device_train_batch_size=4, num_train_epochs=4,
        save_strategy="no", dataloader_num_workers=int(os.environ["LOADERS"]),
    )
    paragon.transformers.distribute(t, store, elastic=True)
    callback = t.callback_handler.callbacks[-1]
    t.add_callback(Watch())
    if store.joining:
        open("joining", "w").close()
    t.train()
    assert t.state.max_steps == t.state.global_step
    rate = t.lr_scheduler.get_last_lr()[0]
    total = weights(net).double().sum()
    events.write(f"end {store.num_workers} {t.state.global_step} {rate:.9f} {total:.9f}\\n")
"""
)


STEPS = (
    COMMON
    + """
    store = pt.init()
    t = trainer(
        model(0), Data(80), "out", per_device_train_batch_size=8, max_steps=23,
        save_strategy="no",
    )
    paragon.transformers.distribute(t, store, elastic=True)
    t.train()
    rate = t.lr_scheduler.get_last_lr()[0]
    sampler = t.callback_handler.callbacks[-1].sampler
    print(f"ended after {t.state.global_step} in epoch {sampler.epoch}, rate {rate:.4f}")
"""
)


def test_max_steps_are_steps_of_all_workers(tmp_path: Path) -> None:
    flags = ["-n", "2", "-s", "1", "--elastic-training-enabled"]
    done = run(tmp_path, STEPS, launch=REAL, before=[REAL, *flags, "--"])
    # An epoch of two workers has 5 steps.
    assert done.out.count("ended after 23 in epoch 4, rate 0.0000") == 2, done.out


def test_workers_join_a_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADERS", "1")
    script = tmp_path / "train.py"
    script.write_text("\n".join(line[4:] for line in ELASTIC.splitlines()))
    events = tmp_path / "events"
    events.touch()
    env = environment(launch=REAL)
    flags = ["-n", "2", "-s", "1", "--elastic-training-enabled"]
    with open(tmp_path / "log", "w") as log:
        job = subprocess.Popen(
            [REAL, *flags, "--", sys.executable, str(script)],
            cwd=tmp_path,
            env=env,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            end = time.monotonic() + SECONDS
            while "step" not in events.read_text() and time.monotonic() < end:
                assert job.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.05)
            scale = [REAL, "ctl", "scale", "3"]
            subprocess.run(scale, cwd=tmp_path, env=env, check=True, timeout=SECONDS, stdout=log)
            code = job.wait(timeout=SECONDS)
        finally:
            job.kill()
    text, output = events.read_text(), (tmp_path / "log").read_text()
    assert code == 0, output
    assert "2 of 3" in text, text
    for epoch in range(4):
        used = [
            int(i)
            for indices in re.findall(rf"used {epoch} \[(.*)\]", text)
            for i in indices.split(", ")
        ]
        assert sorted(used) == list(range(200)), (epoch, sorted(used))
    ends = set(re.findall(r"end (.*)", text))
    assert len(ends) == 1 and text.count("end ") == 3, ends


STOPS = (
    COMMON
    + """
    class Watch(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            s = callback.sampler
            line("turn", state.global_step)
            for i in s.indices if s.size else ():
                line("used", s.epoch, i)

    def line(*words):
        os.write(1, (" ".join(map(str, words)) + chr(10)).encode())

    last = transformers.trainer_utils.get_last_checkpoint("out") if os.path.exists("out") else None
    t = trainer(
        model(os.getpid()), Data(200), "out", per_device_train_batch_size=4,
        num_train_epochs=EPOCHS, save_strategy="no", lr_scheduler_type="constant",
    )
    paragon.transformers.distribute(t, elastic=True)
    callback = t.callback_handler.callbacks[-1]
    t.add_callback(Watch())
    t.train(resume_from_checkpoint=last)
    line("through", t.state.global_step, weights(t.model).double().sum().item())
    """
)


def test_a_trainer_stops_with_a_checkpoint_and_goes_on(tmp_path: Path) -> None:
    asked = []

    def act(job: Job, line: str) -> None:
        if line.endswith("turn 40") and not asked:
            asked.append(line)
            job.ctl("stop")

    flags = ["-s", "1", "--status-listen", "off", "--elastic-training-enabled"]
    first = Job(tmp_path, STOPS.replace("EPOCHS", "4000"), "-n", "2", *flags).run(act)
    assert first.code == 85, first.err
    assert "ERROR" not in first.err and "Traceback" not in first.err, first.err
    assert not first.words("through") and "with a checkpoint after" in first.err, first.err
    steps = max(map(int, first.words("turn")))
    assert (tmp_path / f"out/checkpoint-{steps}/model.safetensors").exists()
    epochs = int(first.words("used")[-1].split()[0]) + 2
    second = Job(tmp_path, STOPS.replace("EPOCHS", str(epochs)), "-n", "3", *flags).run()
    assert second.code == 0, second.err
    counts = collections.Counter(first.words("used") + second.words("used"))
    assert set(counts.values()) == {1} and len(counts) == 200 * epochs
    turns = list(map(int, second.words("turn")))
    ((done, _),) = {tuple(w.split()) for w in second.words("through")}
    assert min(turns) == steps + 1 and int(done) == max(turns)
