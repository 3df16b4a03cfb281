"""Hugging Face's Trainer, and accelerate, with workers of a job.

::

    trainer = Trainer(model, args, train_dataset=dataset, ...)
    paragon.transformers.distribute(trainer)      # elastic=True: workers may come and go
    trainer.train()

``launch -n 4 -s 2 -- python train.py`` starts it. Each worker has its share of the examples, and
each gradient is the mean over all workers when ``backward()`` returns, so that clipping, fp16,
accumulation and the schedule of the Trainer are right. Worker 0 alone logs and writes files.

A training loop of one's own with accelerate gives :func:`attach` what ``prepare`` returned::

    accelerator = Accelerator(gradient_accumulation_steps=4)
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    paragon.transformers.attach(accelerator, model, optimizer, state={"scheduler": scheduler})

Its data loader is not prepared; its sampler is :class:`paragon.torch.ElasticSampler`, or torch's
``DistributedSampler(dataset, store.num_workers, store.rank)``.

Neither must be started with WORLD_SIZE or RANK in the environment, with which both open a process
group of their own. launch does not set them.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, Dict, Iterator, Mapping, Optional

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, IterableDataset

import transformers

from .torch import Attached, ElasticSampler, _attach, _layout
from .torch._init import init
from ._store import Store

__all__ = ["Callback", "attach", "distribute"]


class _Accelerated(Attached):
    """An attached model that exchanges gradients when accelerate says that a step follows."""

    def _local(self) -> bool:
        """Whether this backward only accumulates."""
        return self._muted > 0 or not GradientState().sync_gradients


def attach(
    accelerator: Optional[Accelerator],
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    store: Optional[Store] = None,
    *,
    state: Optional[Mapping[str, Any]] = None,
    compression: Any = None,
) -> Attached:
    """Makes each gradient the mean over all workers: :func:`paragon.torch.attach` for accelerate.

    Accumulation is that of ``accelerator.accumulate(model)``: the last backward of a step
    exchanges the sum. ``accelerator.is_main_process`` is true on worker 0 alone.

    Args:
        accelerator: with which model and optimizer were prepared; None for the Trainer's.
        model, optimizer: prepared or not.
        store: by default the one of this process.
        state: what workers that join need besides, such as the scheduler.
        compression: as for paragon.torch.attach.
    """
    store = store or init()
    _say_who(store)
    if accelerator is not None:
        model = accelerator.unwrap_model(model)
    inner = getattr(optimizer, "optimizer", optimizer)
    attached = _Accelerated(model, inner, store, None, state, compression, 1)
    _attach.register(attached)
    return attached


def _say_who(store: Store) -> None:
    """Tells accelerate this worker's rank, so that rank 0 alone is the main process. The number of
    processes stays 1: with another one accelerate would share out examples itself, and open a
    process group."""
    partial = PartialState()
    if partial.num_processes != 1:
        raise RuntimeError(
            f"accelerate has opened a process group of {partial.num_processes} processes; start "
            f"the program by launch, without WORLD_SIZE and RANK in the environment"
        )
    states = [partial]
    if AcceleratorState._shared_state:
        states.append(AcceleratorState())
    for s in states:
        s.process_index = s.local_process_index = store.rank


class _Progress:
    """How far the Trainer has come, for workers that join."""

    def __init__(self, trainer: transformers.Trainer) -> None:
        self._trainer = trainer

    def state_dict(self) -> Dict[str, Any]:
        return {"global_step": self._trainer.state.global_step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._trainer.state.global_step = state["global_step"]


class Callback(transformers.TrainerCallback):
    """Attaches the Trainer's model when training begins. :func:`distribute` adds it.

    Attributes:
        store: the store.
        attached: what attach returned; None before training.
        sampler: the sampler of the training examples; None before training.
    """

    def __init__(self, trainer: transformers.Trainer, store: Store, elastic: bool) -> None:
        self.store, self.elastic = store, elastic
        self.attached: Optional[Attached] = None
        self.sampler: Any = None
        self._trainer = trainer
        # The steps of the epoch so far.
        self._steps = 0
        # Where the run that this one resumes has stopped; None: this one begins anew.
        self.position: Optional[Dict[str, Any]] = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Makes gradients the mean over all workers, once in the life of the Trainer."""
        optimizer = getattr(kwargs["optimizer"], "optimizer", kwargs["optimizer"])
        if self.attached is not None:
            if self.attached.optimizer is optimizer:
                return
            self.attached.detach()
            raise RuntimeError(
                "the Trainer has another optimizer than in its first train(); make a new Trainer, "
                "with a new model, for a second training"
            )
        shared = {"scheduler": kwargs["lr_scheduler"], "progress": _Progress(self._trainer)}
        self.attached = attach(None, kwargs["model"], optimizer, self.store, state=shared)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Learns this worker's rank, which may have changed."""
        _say_who(self.store)
        state.is_world_process_zero = state.is_local_process_zero = self.store.rank == 0

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Says which part of the epoch is over."""
        self._steps += 1
        if self.elastic:
            state.epoch = self.sampler.epoch + (self.sampler.step + 1) / len(self.sampler)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Counts the steps of an epoch."""
        self._steps = 0

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ends training behind the last epoch of the job, of which a worker that joined had fewer.

        A worker that joins at the end of an epoch has it without a step, where the Trainer would
        end training."""
        if not self.elastic:
            return
        if self.sampler._stopping:
            # All workers stop here: the Trainer writes a checkpoint, behind which on_save ends it.
            control.should_save = control.should_training_stop = True
            return
        if self.sampler.epoch + 1 >= _epochs(args):
            # Of max_steps the Trainer computes examples a second.
            state.max_steps = state.global_step
            control.should_training_stop = True
        elif self._steps == 0:
            control.should_training_stop = False

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Waits until worker 0 has written a checkpoint, which the others may read. Where all
        workers stop it ends the program, with ``paragon.torch.StoppedExit``."""
        if self.elastic and self.store.rank == 0:
            _write_position(args, state, self.sampler.state_dict())
        if not self.elastic or not self.sampler._stopping:
            self.store.barrier()
            return
        self.sampler._stopped()
        # A worker was lost, perhaps the one that wrote.
        while True:
            _say_who(self.store)
            self._trainer._save_checkpoint(kwargs["model"], trial=None)
            if self.store.rank == 0:
                _write_position(args, state, self.sampler.state_dict())
            self.sampler._stopped()


# The file of a checkpoint that says where in the epoch it is.
_POSITION = "paragon.json"


def _write_position(args: Any, state: Any, position: Dict[str, Any]) -> None:
    folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
    with open(os.path.join(folder, _POSITION), "w", encoding="utf-8") as f:
        json.dump(position, f)


def _read_position(folder: str) -> Dict[str, Any]:
    path = os.path.join(folder, _POSITION)
    if not os.path.exists(path):
        raise NotImplementedError(
            f"resume_from_checkpoint with elastic=True: {folder} has no file {_POSITION}, so it is "
            "no checkpoint of a job with elastic=True; use elastic=False, or load the model and "
            "train for the epochs left"
        )
    with open(path, encoding="utf-8") as f:
        return dict(json.load(f))


def distribute(
    trainer: transformers.Trainer, store: Optional[Store] = None, *, elastic: bool = False
) -> transformers.Trainer:
    """Makes a Trainer train with all workers of the job, and returns it. Call it before train().

    ``per_device_train_batch_size`` is that of each worker, and one epoch is one pass of all workers
    together. Evaluation is done by every worker with all its examples, so that all decide alike.

    Args:
        trainer: with a train_dataset that has a length.
        store: by default the one of this process.
        elastic: examples are handed out by paragon.torch.ElasticSampler: each is used exactly once
            an epoch while workers join, leave and are killed. It needs
            ``gradient_accumulation_steps=1``, and trains for whole epochs, or for ``max_steps``
            steps of all workers together, which may end within an epoch: so its last examples are
            not used. The schedule of the learning rate has as many steps as the job would make with
            the workers that it begins with. Without it the workers stay those of the start, and the
            last examples of an epoch are repeated so that all have as many.
            ``launch ctl stop``, SIGUSR1 and Ctrl-C end an elastic job after a step with a checkpoint
            in ``output_dir``, from which ``resume_from_checkpoint`` goes on, with any number of
            workers.
    """
    store = store or init()
    _check(trainer, store, elastic)
    _say_who(store)
    callback = Callback(trainer, store, elastic)
    trainer.add_callback(callback)
    original = trainer.get_train_dataloader
    trainer.get_train_dataloader = lambda: _loader(callback, original())
    if elastic:
        _resume_by_position(trainer, callback)
        create = trainer.create_scheduler

        def create_scheduler(num_training_steps: int, *args: Any, **kwargs: Any) -> Any:
            steps = num_training_steps
            if trainer.args.max_steps <= 0:
                steps = math.ceil(trainer.args.num_train_epochs * len(callback.sampler))
            # A worker that joins later has the same schedule as the others.
            high, low = _layout.first_values(
                store, "paragon/transformers/steps", [steps >> 20, steps & 0xFFFFF]
            )
            return create((int(high) << 20) + int(low), *args, **kwargs)

        trainer.create_scheduler = create_scheduler
    # All workers would write the same file at the same time.
    save_random_state = getattr(trainer, "_save_rng_state", None)
    if save_random_state is not None:
        trainer._save_rng_state = lambda *a, **k: (
            save_random_state(*a, **k) if store.rank == 0 else None
        )
    return trainer


def _resume_by_position(trainer: transformers.Trainer, callback: Callback) -> None:
    """Makes a run that is resumed begin where the checkpoint says, in place of skipping batches."""
    trainer.args.ignore_data_skip = True
    load = trainer._load_from_checkpoint

    def load_from_checkpoint(folder: str, *args: Any, **kwargs: Any) -> Any:
        callback.position = _read_position(folder)
        return load(folder, *args, **kwargs)

    trainer._load_from_checkpoint = load_from_checkpoint


def _check(trainer: transformers.Trainer, store: Store, elastic: bool) -> None:
    dataset = trainer.train_dataset
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise NotImplementedError(
            f"train_dataset of type {type(dataset).__name__} has no length, so its examples cannot "
            f"be shared out; give the Trainer a dataset with __len__ and __getitem__"
        )
    steps = trainer.args.gradient_accumulation_steps
    if elastic and steps != 1:
        raise NotImplementedError(
            f"elastic=True with gradient_accumulation_steps={steps}, of which the Trainer loads "
            f"all batches first; use gradient_accumulation_steps=1 and a larger batch"
        )
    if store.joining and not elastic:
        raise RuntimeError(
            "this worker joins a running job; call distribute(trainer, elastic=True) on all workers"
        )


def _loader(callback: Callback, made: DataLoader) -> Any:
    """The Trainer's own loader, with this worker's examples."""
    trainer, store = callback._trainer, callback.store
    args, dataset = trainer.args, made.dataset
    options: Dict[str, Any] = {
        "collate_fn": made.collate_fn,
        "num_workers": made.num_workers,
        "pin_memory": made.pin_memory,
        "worker_init_fn": made.worker_init_fn,
        "persistent_workers": made.persistent_workers,
        "multiprocessing_context": made.multiprocessing_context,
    }
    if made.num_workers:
        options["prefetch_factor"] = made.prefetch_factor
    seed = args.seed if args.data_seed is None else args.data_seed
    if callback.elastic:
        if callback.sampler is None:
            callback.sampler = ElasticSampler(dataset, args.train_batch_size, seed, store=store)
            callback.sampler._defers = True
            if callback.position is not None:
                callback.sampler.load_state_dict(callback.position)
        inner = DataLoader(dataset, batch_sampler=callback.sampler, **options)
        kind = _EndlessLoader if args.max_steps > 0 else _ElasticLoader
        return kind(callback.sampler, inner, _epochs(args))
    callback.sampler = DistributedSampler(dataset, store.num_workers, store.rank, seed=seed)
    drop_last = args.dataloader_drop_last
    batches = _Batches(callback.sampler, args.train_batch_size, drop_last)
    return _FixedLoader(dataset, batch_sampler=batches, **options)


def _epochs(args: transformers.TrainingArguments) -> int:
    """The number of epochs of an elastic job, which max_steps may end before."""
    return 1 << 20 if args.max_steps > 0 else max(1, math.ceil(args.num_train_epochs))


class _Batches(BatchSampler):
    """Batches of this worker's examples."""

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of an epoch. The Trainer looks for it here when it skips batches."""
        self.sampler.set_epoch(epoch)


class _FixedLoader(DataLoader):
    """A loader of _Batches."""

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of an epoch."""
        self.batch_sampler.set_epoch(epoch)


class _EndlessLoader:
    """What the Trainer takes its batches from: an epoch of ElasticSampler for each of its own.

    With max_steps it must have no length: the Trainer would compute the number of epochs from that,
    and how many steps an epoch has changes with the number of workers."""

    def __init__(self, sampler: ElasticSampler, loader: DataLoader, epochs: int) -> None:
        self.dataset = loader.dataset
        self._sampler, self._loader = sampler, loader
        self._epochs = sampler.epochs(epochs)

    def __iter__(self) -> Iterator[Any]:
        for _ in self._epochs:
            began = False
            for batch in self._sampler.batches(self._loader):
                began = True
                yield batch
            # A worker that joined behind the last step of an epoch has no batch of it.
            if began:
                return


class _ElasticLoader(_EndlessLoader):
    """An _EndlessLoader with a length, which the Trainer asks for to train for whole epochs."""

    def __len__(self) -> int:
        # The Trainer takes at most as many batches of an epoch as it had been told at the start.
        # One worker alone has the most, and each change of workers may cut one more short.
        return -(-len(self.dataset) // self._loader.batch_sampler._batch) + 1024
