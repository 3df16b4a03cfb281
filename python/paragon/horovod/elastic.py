"""Training that goes on while workers join and leave: ``hvd.elastic``.

::

    state = hvd.elastic.TorchState(model, optimizer, epoch=0, batch=0)

    @hvd.elastic.run
    def train(state):
        for state.epoch in range(state.epoch, epochs):
            ...
            state.commit()

    train(state)

The job is started by ``launch --elastic-training-enabled``; ``launch ctl add`` and ``remove``
change its workers. Members change in ``commit()`` and ``check_host_updates()`` alone, which all
workers call equally often. If a worker is lost the others keep their steps, and the next commit
says that members have changed; only where ``allreduce`` or another call lacked its part all go
back to the last commit. Examples of the lost worker that were not used are counted as used by
:class:`ElasticSampler`, as in Horovod; :class:`paragon.torch.ElasticSampler` uses each once.
"""

from __future__ import annotations

import copy
import functools
import logging
import math
import random
from typing import Any, Callable, Dict, Iterator, List, Optional, Sized

import torch

from ..torch._compat import job as _job
from ..torch._stream import WorkerMissing
from . import _basics
from ._basics import HorovodInternalError, HostsUpdatedInterrupt, current
from ._functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters

__all__ = ["ElasticSampler", "TorchState", "run"]

_log = logging.getLogger("paragon.horovod")


class _Removed(Exception):
    """This worker was asked to leave, and all its steps count."""


class ElasticSampler(torch.utils.data.Sampler):
    """Divides the examples of an epoch among workers, anew when members have changed.

    It is a part of TorchState, has ``record_batch`` called after each batch, and ``set_epoch`` at
    the end of each epoch. As in Horovod an epoch is padded by repeated examples, so that all
    workers have as many.

    Args:
        dataset: anything with a length, which stays the same.
        shuffle: whether examples come in another order in each epoch.
        seed: of that order, the same on all workers.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch, of which no example has been used."""
        self.epoch, self.processed_num = epoch, 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Counts the examples of one batch of all workers as used."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> Dict[str, int]:
        """Returns the epoch and how many of its examples have been used."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: Dict[str, int]) -> None:
        """Goes on from what state_dict returned."""
        self.epoch, self.processed_num = state_dict["epoch"], state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Divides what is left of the epoch among the workers that there are."""
        self.num_replicas, self.rank = _basics.size(), _basics.rank()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices = order[self.processed_num :]
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        left = self.remaining_indices
        padded = left + left[: self.total_size - len(left)]
        # Of fewer examples than workers some are repeated more than once.
        while left and len(padded) < self.total_size:
            padded += left[: self.total_size - len(padded)]
        return iter(padded[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples


class _Handler:
    """What TorchState does with one object: keep a copy, go back to it, and send it to others."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.save()

    def save(self) -> None:
        self.saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(self.saved)

    def sync(self, root: int) -> None:
        raise NotImplementedError


class _ModelHandler(_Handler):
    def sync(self, root: int) -> None:
        broadcast_parameters(self.value.state_dict(), root)


class _OptimizerHandler(_Handler):
    def sync(self, root: int) -> None:
        broadcast_optimizer_state(self.value, root)


class _SamplerHandler(_Handler):
    def sync(self, root: int) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), root))


_HANDLERS = [
    (torch.nn.Module, _ModelHandler),
    (torch.optim.Optimizer, _OptimizerHandler),
    (ElasticSampler, _SamplerHandler),
]


class TorchState:
    """What training needs to go on: models, optimizers, samplers, and plain values.

    Each keyword is an attribute. Models, optimizers and ElasticSamplers are copied and sent by
    their state_dict, others by pickle.

    Args:
        model: a torch.nn.Module.
        optimizer: a torch optimizer.
        kwargs: further objects and values, such as ``epoch=0, batch=0``.
    """

    def __init__(
        self,
        model: Optional[torch.nn.Module] = None,
        optimizer: Optional[torch.optim.Optimizer] = None,
        **kwargs: Any,
    ) -> None:
        kwargs.update(model=model, optimizer=optimizer)
        self._reset_callbacks: List[Callable[[], None]] = []
        self._handlers: Dict[str, _Handler] = {}
        self._saved: Dict[str, Any] = {}
        for name, value in kwargs.items():
            handler = next((h for kind, h in _HANDLERS if isinstance(value, kind)), None)
            if handler is not None:
                self._handlers[name] = handler(value)
            elif name not in ("model", "optimizer") or value is not None:
                self._saved[name] = copy.deepcopy(value)
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None:
            handler.value = value
            handler.save()
        object.__setattr__(self, name, value)

    def register_reset_callbacks(self, callbacks: List[Callable[[], None]]) -> None:
        """Has functions called, in this order, each time that members have changed."""
        self._reset_callbacks.extend(callbacks)

    def commit(self) -> None:
        """Keeps a copy of everything, and lets workers join and leave.

        All workers call it equally often; inside of ``elastic.run`` it ends their common step."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Lets workers join and leave, without a copy.

        Raises HostsUpdatedInterrupt, for ``elastic.run``, if some did."""
        with _basics.job_errors():
            turn = current().end_step()
        if turn is None:
            return
        if turn.kind != "step":
            raise _Removed
        raise HostsUpdatedInterrupt(skip_sync=not turn.joined)

    def save(self) -> None:
        """Keeps a copy of everything in this process's memory."""
        for handler in self._handlers.values():
            handler.save()
        for name in self._saved:
            self._saved[name] = copy.deepcopy(getattr(self, name))

    def restore(self) -> None:
        """Goes back to the last copy."""
        for handler in self._handlers.values():
            handler.restore()
        for name, value in self._saved.items():
            object.__setattr__(self, name, copy.deepcopy(value))

    def sync(self) -> None:
        """Sends everything from the lowest worker that had it before to all."""
        root = current().root
        for name in sorted(self._handlers):
            self._handlers[name].sync(root)
        values = {name: getattr(self, name) for name in self._saved}
        for name, value in broadcast_object(values, root, "state").items():
            object.__setattr__(self, name, value)
        self.save()

    def on_reset(self) -> None:
        """Divides the examples anew and calls the callbacks."""
        for handler in self._handlers.values():
            if isinstance(handler, _SamplerHandler):
                handler.value.reset()
        for callback in self._reset_callbacks:
            callback()


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function whose first argument is a TorchState, so that it goes on where it was
    when workers join and leave.

    The function is called again after each change of members, from the state as it is; if an
    operation failed, from the last commit. A worker that was asked to leave ends the process with
    code 0. Workers that join make no calls to others before this function."""

    @functools.wraps(func)
    def wrapper(state: TorchState, *args: Any, **kwargs: Any) -> Any:
        try:
            with _basics.job_errors():
                current().begin_steps()
            return _until_done(lambda: func(state, *args, **kwargs), state)
        except _Removed:
            _log.info("this worker was asked to leave; all its steps count")
            _job.shutdown()
            raise SystemExit(0) from None

    return wrapper


def _until_done(train: Callable[[], Any], state: TorchState) -> Any:
    """Calls train until it returns, and before it whatever members that changed make necessary. A
    worker may be lost at any moment of that, too."""
    job = current()
    changed, callbacks, skip_sync = job.elastic, False, False
    while True:
        try:
            if changed:
                with _basics.job_errors():
                    job.members_changed()
                if callbacks:
                    state.on_reset()
                changed = False
            if not skip_sync:
                state.sync()
            return train()
        except HostsUpdatedInterrupt as change:
            skip_sync = change.skip_sync
        except HorovodInternalError as e:
            # Other failures are no worker's loss, and no other worker goes back for them.
            if not job.elastic or not isinstance(e.__cause__, WorkerMissing):
                raise
            _log.warning("%s; going back to the last commit", e)
            state.restore()
            skip_sync = False
            _end_failed_step(job)
        changed = callbacks = True


def _end_failed_step(job: _job.Job) -> None:
    """Meets the others, whose operation failed as well, where members change."""
    with _basics.job_errors():
        turn = job.end_step()
    if turn is not None and turn.kind != "step":
        raise _Removed
