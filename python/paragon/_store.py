"""The store: this process's part in a job, through its bridge."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import threading
import traceback
from dataclasses import dataclass, fields
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np

from . import _life
from ._bridge import Bridge
from ._exchange import Entry, Exchanges, Plan, json_entries
from ._memory import Memory, Region
from ._version import PROTOCOL, __version__
from .errors import ForkError, ParagonError, UsageError

__all__ = ["Declaration", "Entry", "Plan", "Region", "Store", "Turn"]

END_SECONDS = 5.5
"""How long close and abort may take: the bridge bounds them to 5 s, and then has to end."""

# Of a packet's 64 KiB the lists of a request take at most this; and the bridge takes so many keys,
# or entries of a plan, in one.
_LIST_BYTES = 48 * 1024
_MAX_KEYS, _MAX_ENTRIES = 256, 4096
# _TEXT_BYTES is the most bytes of a text in one broadcast: the scheduler's limit, less a header.
_TEXT_BYTES = (512 << 10) - 128
# _SCRATCH_VALUES is the length of the slot for texts and indices.
_SCRATCH_VALUES = (512 << 10) // 4


@dataclass(frozen=True)
class Declaration:
    """A key and its first value, for :meth:`Store.init`. Rank 0's value counts.

    Attributes:
        key: the key's name.
        region, slot: where the first value lies.
        size: the number of values in the slot.
        form: what a round does with the value. "average": the sum divided by the sum of the
            weights replaces it, and no optimizer touches it. "dense": the servers' optimizer
            changes it; without one the sum replaces it. "rows": as "dense", row by row, in a
            table of which a worker pushes and pulls some rows.
        shape: that of the tensor in files of ``save``; None: not given.
        rows, row_len: with form "rows", the table's rows and the values of each.
    """

    key: str
    region: Region
    slot: int
    size: int
    form: str = "average"
    shape: Optional[Tuple[int, ...]] = None
    rows: int = 0
    row_len: int = 0


@dataclass(frozen=True)
class Turn:
    """What this worker does next in an elastic job.

    A division shares out what is left of an epoch: when the epoch begins, and when workers have
    joined or left. With a new one, what was drawn from the old one is void.

    Attributes:
        kind: "step" (a batch), "epoch" (the epoch has ended), "end" (all have), "removed" (this
            worker was asked to leave, and has left), "stop" (all workers stop here, and write a
            checkpoint if they have a place for it) or "stopped" (all have written it).
        epoch: the epoch's number, from 0.
        step: the step's number in its epoch, from 0.
        steps: the number of steps done in all.
        division: the number of the division, counted on this worker.
        generation: the version of the membership.
        rank, workers: this worker's rank, and the number of workers.
        size: examples of this worker's batch; 0: its share is used up while others go on.
        first: the place in the share at which the batch begins.
        share: examples of this worker's share of the division.
        left: turns that the division still has, this one included; 0 but in a step.
        global_batch: examples of the batches of all workers together.
        joined: workers joined with this division, who need the state. Kind "epoch" may have it.
        survivor: the lowest rank that was there before the division; -1: none is left.
        number: counts the turns of this worker, from 1.
        stop: of kind "stop" and "stopped": "checkpoint", the job was asked to stop with one, or
            "end", a worker was told to end and the job cannot go on without it.
        cuts: of kind "stop": which examples of the epoch were used, for the run that goes on.
    """

    kind: str
    epoch: int = 0
    step: int = 0
    steps: int = 0
    division: int = 0
    generation: int = 0
    rank: int = 0
    workers: int = 1
    size: int = 0
    first: int = 0
    share: int = 0
    left: int = 0
    global_batch: int = 0
    joined: bool = False
    survivor: int = 0
    number: int = 0
    stop: str = ""
    cuts: Optional[List[Any]] = None


# What answers say of the job.
_FACTS = ("type", "rank", "workers", "generation", "node", "joining", "alone", "elastic", "job")
_TURN_FIELDS = frozenset(f.name for f in fields(Turn))


class Store:
    """This process's part in a job: keys, exchanges, and who else is there.

    Made by :func:`paragon.init`. Any thread may call its methods; a wait of one does not hold up
    another's calls. Calls for one key may not be made at the same time. Only the process that made
    it may use it: in a forked child ``rank`` and the other properties can be read, ``close`` and
    ``abort`` do nothing, and every other method raises ForkError.

    A signal handler may raise an exception, at any line, and may call ``leave``. It calls no other
    method: it may have interrupted one, so it sets a flag for the training loop instead.

    Ctrl-C comes out of a wait as KeyboardInterrupt. What was waited for is still under way:
    ``wait`` can be called again for an exchange; a late answer of another request is dropped."""

    def __init__(self, store: str = "dist_sync", timeout: float = 300.0) -> None:
        self._bridge = Bridge()
        self._state: Dict[str, Any] = {}
        self._closed = False
        self._last_turn = 0
        self._scratch: Optional[Region] = None
        self._scratch_lock = threading.RLock()
        self._threads: Set[int] = {threading.get_ident()}
        try:
            self._join(store, timeout)
        except BaseException:
            self._bridge.kill()
            raise

    def _join(self, store: str, timeout: float) -> None:
        memory = self._memory = Memory(self._bridge)
        self._bridge.moved = memory.moved
        result, descriptors = self._bridge.request_with_descriptors(
            "join",
            {
                "protocol": PROTOCOL,
                "release": __version__,
                "python": platform.python_version(),
                "store": store,
                "timeout_ms": -1 if math.isinf(timeout) else max(1, int(timeout * 1000)),
                "host_sums": "",
            },
        )
        words = dict(result["words"])
        region = memory.add(words, [words["bytes"] // 4], descriptors)
        self._exchanges = Exchanges(self._bridge, region)
        self._learn(result)

    def _learn(self, result: Mapping[str, Any]) -> None:
        """Keeps what an answer says of the job."""
        for name in _FACTS:
            if name in result:
                self._state[name] = result[name]
        self._bridge.rank = self._state.get("rank")

    # ---- facts

    @property
    def type(self) -> str:
        """The kind of store, such as "dist_sync"."""
        return str(self._state["type"])

    @property
    def rank(self) -> int:
        """This worker's number from 0. It may change when workers join and leave."""
        return int(self._state["rank"])

    @property
    def num_workers(self) -> int:
        """The number of workers of the job as of the last answer."""
        return int(self._state["workers"])

    @property
    def generation(self) -> int:
        """The version of the membership; it goes up when workers join or leave."""
        return int(self._state["generation"])

    @property
    def node(self) -> int:
        """This worker's number that never changes and is never given again."""
        return int(self._state.get("node", 0))

    @property
    def joining(self) -> bool:
        """Whether this worker joins a running job and does not count yet."""
        return bool(self._state.get("joining", False))

    @property
    def alone(self) -> bool:
        """Whether the job is this process alone, started without launch."""
        return bool(self._state.get("alone", False))

    @property
    def elastic(self) -> bool:
        """Whether workers may join and leave while the job runs."""
        return bool(self._state.get("elastic", False))

    @property
    def shares_examples(self) -> bool:
        """Whether a sampler hands out turns in this process."""
        return self._last_turn > 0

    @property
    def job(self) -> Any:
        """What the job is called."""
        return self._state.get("job")

    @property
    def closed(self) -> bool:
        """Whether close or abort was called."""
        return self._closed

    def state(self) -> None:
        """Asks for rank, number of workers and generation anew."""
        self._learn(self.request("state"))

    def __repr__(self) -> str:
        if self._closed:
            return "<paragon.Store, closed>"
        return f"<paragon.Store {self.type}: worker {self.rank} of {self.num_workers}>"

    def __reduce__(self) -> Any:
        raise ForkError(
            "paragon: a store cannot be pickled or copied: it belongs to process "
            f"{self._bridge.process_id}. A child started by spawn or forkserver gets numbers and "
            "arrays in its place; leave the store out of the data set and of the objects that "
            "go to it"
        )

    def check_process(self) -> None:
        """Raises ForkError in a child of the process that owns the store."""
        self._bridge.check_process()

    # ---- requests

    def request(self, op: str, **fields: Any) -> Dict[str, Any]:
        """Makes one request of the protocol and returns its result.

        Raises the class of paragon.errors that the bridge's error has."""
        return self._request(op, fields)

    def _request(self, op: str, fields: Mapping[str, Any]) -> Dict[str, Any]:
        self._threads.add(threading.get_ident())
        return self._bridge.request(op, fields)

    def memory(self, lengths: Sequence[int]) -> Region:
        """Returns a region with slots of these numbers of float32 values, all zero."""
        self._bridge.check_process()
        return self._memory.allocate(lengths)

    def init(self, declarations: Sequence[Declaration]) -> None:
        """Gives keys their first values, which lie in their slots.

        Every worker calls it; rank 0's values count. It returns when the values can be pulled."""
        items = []
        for d in declarations:
            item = {"key": d.key, "form": d.form, "region": d.region.id, "slot": d.slot}
            item["size"] = d.size
            if d.form == "rows":
                item.update(rows=d.rows, row_len=d.row_len)
            if d.shape is not None:
                item["shape"] = [int(n) for n in d.shape]
            items.append(item)
        for keys in _runs(items, _MAX_KEYS):
            self._request("init", {"keys": keys})

    def pull(self, keys: Sequence[Tuple[str, Region, int]]) -> None:
        """Copies the values of keys into slots: (key, region, slot) for each."""
        items = [{"key": k, "region": r.id, "out": slot} for k, r, slot in keys]
        for run in _runs(items, _MAX_KEYS):
            self._request("pull", {"keys": run})

    def plan(self, entries: Sequence[Entry]) -> Plan:
        """Names once what is exchanged again and again."""
        runs = list(_runs(json_entries(entries), _MAX_ENTRIES))
        if not runs:
            raise UsageError("paragon: plan: got no entries, want at least 1")
        number = 0
        try:
            number = self._request("plan", {"entries": runs[0]})["plan"]
            for run in runs[1:]:
                self._request("extend", {"plan": number, "entries": run})
            return Plan(self._exchanges, number, len(entries))
        except BaseException:
            if number:
                self._bridge.later("drop_plan", {"plan": number})
            raise

    def wait(self, number: int) -> None:
        """Returns when exchange ``number`` and all before it have ended.

        Raises the first error of theirs that was not raised yet."""
        self._exchanges.wait(number)

    def done(self, number: int) -> bool:
        """Whether exchange ``number`` and all before it have ended, well or not.

        It makes no system call unless an exchange asks for it."""
        return self._exchanges.done(number)

    # ---- the job as a whole

    def barrier(self) -> None:
        """Returns when every worker has called it."""
        self._request("barrier", {})

    def save(self, uri: str) -> None:
        """Writes all parameters and the servers' optimizer state into one safetensors file.

        ``uri`` is a path or a bucket's URL. One worker's call is enough; it has no exchange under
        way."""
        self._request("save", {"uri": os.fspath(uri)})

    def load(self, uri: str) -> None:
        """Restores what save wrote. Every worker calls it."""
        self._request("load", {"uri": os.fspath(uri)})

    def set_optimizer(self, config: Mapping[str, Any]) -> None:
        """Makes the servers apply an optimizer to each closed round. Every worker calls it.

        ``config`` has Go's names: {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9}."""
        self._request("set_optimizer", {"config": dict(config)})

    def set_compression(self, config: Mapping[str, Any]) -> None:
        """Compresses this worker's pushes of dense keys: {"type": "2bit", "scale": 1}."""
        self._request("set_compression", {"config": dict(config)})

    def set_learning_rate(self, round: int, rate: float) -> None:
        """Replaces the servers' learning rate from this round on."""
        self._request("set_learning_rate", {"round": round, "rate": rate})

    def report(self, **fields: Any) -> None:
        """Tells the job of a step, an evaluation or a checkpoint, for its page and metrics.

        It returns at once, and what is wrong with it is in the log. ``step`` has any of "loss" (the
        mean over its examples), "examples", "global_batch", "epoch", "learning_rate",
        "gradient_norm", and in seconds "seconds" (in all), "compute", "wait", "data" and "save";
        where a sampler shares out the examples the end of the turn reports it, and knows all but
        loss, learning rate, norm and the parts of the time by itself. ``evaluation`` has "loss",
        "accuracy" (0 to 1) and "others", a dict; ``checkpoint`` has "seconds", or "failed": True.
        ``folder`` says whether there is a place for checkpoints."""
        try:
            self._bridge.post("report", _plain(fields))
        except BlockingIOError:
            # The bridge has many packets to read: the next report says more than this one.
            pass

    def tensorboard(self, folder: str) -> None:
        """Writes what this worker reports for TensorBoard, too: ``tensorboard --logdir FOLDER``.

        It goes to ``FOLDER/worker-RANK``, or ``FOLDER/worker-node-NODE`` of a worker that joined a
        running job; such a worker calls it behind its first turn. The names are those of Go
        programs: train/loss, time/step, test/accuracy and so on, by the number of steps that the
        job has done."""
        self._request("tensorboard", {"folder": os.path.abspath(folder)})

    def broadcast(self, text: Optional[str]) -> str:
        """Returns on every worker the text of the worker of the lowest rank.

        Every worker calls it, in the same order. A worker that has no text gives None; if it is
        the lowest one after all, since others were lost, the text is empty. A text may have any
        length: a long one goes in pieces."""
        data = (text or "").encode()
        pieces = _pieces(data)
        with self._scratch_lock:
            while True:
                got = self._broadcast_once(data, pieces)
                if got is not None:
                    return got.decode()

    def _broadcast_once(self, data: bytes, pieces: List[bytes]) -> Optional[bytes]:
        """Sends one text; None if its sender was lost on the way, so that all begin again."""
        if len(pieces) == 1:
            first = b"1 " + data
        else:
            first = f"{len(pieces)} {hashlib.sha256(data).hexdigest()}".encode()
        head, _, rest = self._broadcast_piece(first).partition(b" ")
        if head == b"1":
            return rest
        got = [
            self._broadcast_piece(pieces[i] if i < len(pieces) else b"") for i in range(int(head))
        ]
        whole = b"".join(got)
        return whole if hashlib.sha256(whole).hexdigest().encode() == rest else None

    def _broadcast_piece(self, piece: bytes) -> bytes:
        region = self._take_scratch()
        slot = region.raw(0, np.uint8)
        slot[: len(piece)] = np.frombuffer(piece, np.uint8)
        fields = {"region": region.id, "slot": 0, "bytes": len(piece)}
        size = self._request("broadcast", fields)["bytes"]
        self._scratch = region
        return slot[:size].tobytes()

    def _take_scratch(self) -> Region:
        """Returns the region for texts and indices. The caller gives it back when its request has
        ended: one that Ctrl-C has left goes on with its region, which is not used again."""
        region, self._scratch = self._scratch, None
        return region or self.memory([_SCRATCH_VALUES])

    # ---- workers that come and go

    def sampler(
        self,
        examples: int,
        batch: int,
        epochs: int,
        seed: int,
        first: int = 0,
        order: Optional[str] = None,
        *,
        cuts: Optional[Sequence[Any]] = None,
        steps: int = 0,
        stops: bool = False,
    ) -> Turn:
        """Begins to hand out the examples; once in the life of a store.

        Returns the first turn, when this worker counts. From now on SIGTERM, where nobody else
        handles it, asks the job to let this worker leave at the end of a step; a second one ends
        the process. ``cuts`` and ``steps`` are those of the turn of kind "stop" from whose
        checkpoint this run goes on; ``first`` is its epoch. ``stops`` says that the caller knows
        turns of that kind: it writes a checkpoint in them, ends them, and behind that of kind
        "stopped" calls :meth:`stopped`. Without it a SIGTERM to a worker that the job needs is a
        NeededError of the next turn."""
        config: Dict[str, Any] = {"examples": examples, "batch": batch, "epochs": epochs}
        config.update(seed=seed, first=first)
        if order is not None:
            config["order"] = order
        if cuts:
            config["cuts"] = list(cuts)
        if steps:
            config["steps"] = steps
        if stops:
            config["stops"] = True
        turn = self._turn(self._request("sampler", config))
        _life.leave_on_sigterm(self)
        return turn

    def turn(
        self, step: Optional[Mapping[str, Any]] = None, after: Optional[Turn] = None
    ) -> Turn:
        """Ends a turn, and returns the next one when all workers agree on it.

        ``after`` is the turn that ends; by default the one that was returned last. After Ctrl-C in
        this call it can be made again: a turn that was made meanwhile is not lost, nor are its
        examples. ``step`` tells of the step of the turn that ends, as in :meth:`report`."""
        fields: Dict[str, Any] = {}
        number = self._last_turn if after is None else after.number
        if number:
            fields["after"] = number
        if step is not None:
            fields["step"] = _plain(step)
        return self._turn(self._request("turn", fields))

    def _turn(self, result: Mapping[str, Any]) -> Turn:
        turn = Turn(**{k: v for k, v in result.items() if k in _TURN_FIELDS})
        self._learn(result)
        self._state["joining"] = False
        self._last_turn = turn.number
        return turn

    def indices(self, first: int, count: int) -> np.ndarray:
        """Returns ``count`` examples of this worker's share from ``first`` on, as int64.

        There are fewer where the share ends."""
        found: List[np.ndarray] = []
        with self._scratch_lock:
            region = self._take_scratch()
            slot = region.raw(0, np.int64)
            while count > 0:
                want = min(count, len(slot))
                fields = {"region": region.id, "slot": 0, "first": first, "count": want}
                got = self._request("indices", fields)["count"]
                found.append(slot[:got].copy())
                first, count = first + got, count - got
                if got < want:
                    break
            self._scratch = region
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def stopped(self, saved: bool, reason: str = "") -> None:
        """Tells the job that all workers have stopped, after a turn of kind "stopped".

        ``saved`` says that there is a checkpoint from which a run can go on, ``reason`` why there
        is none. Every worker calls it, closes the store, and ends."""
        self._request("stopped", {"saved": saved, "reason": reason})

    def leave(self, reason: str) -> None:
        """Asks the job to let this worker go at the end of a step, and returns at once.

        A later turn is "removed" then."""
        self._bridge.post("leave", {"reason": reason})

    # ---- the end

    def close(self) -> None:
        """Leaves the job in order: this worker is done, and the others go on without it.

        It takes at most 5.5 s. A second call does nothing; nor does a call in a forked child. A
        bridge that had ended before is a BridgeError."""
        self._end("the store is closed", "close", {})

    def _end(self, why: str, op: str, fields: Mapping[str, Any]) -> None:
        if self._closed or os.getpid() != self._bridge.process_id:
            return
        self._closed = True
        _life.ended(self)
        self._bridge.close(why, op, fields, END_SECONDS)

    def abort(self, cause: BaseException) -> None:
        """Leaves the job because of ``cause``, and fails the job: the others hear who and why.

        It takes at most 5.5 s. A second call does nothing; nor does a call in a forked child."""
        text = str(cause)[:4096]
        fields: Dict[str, Any] = {"class": type(cause).__name__, "text": text}
        fields["last"] = _where(cause)
        # Starting a job again whose failure is final would end in the same failure.
        fields["final"] = isinstance(cause, ParagonError) and cause.final
        try:
            self._end(f"the store was aborted: {type(cause).__name__}: {text}", "abort", fields)
        except ParagonError:
            # The bridge is gone, or could not leave in order; the job notices either.
            pass

    def has_thread(self, ident: int) -> bool:
        """Whether the thread has made a request."""
        return ident in self._threads


def _where(cause: BaseException) -> str:
    """Returns the last line of the program, not of this package, that an exception came through."""
    frames = traceback.extract_tb(cause.__traceback__)
    package = os.path.dirname(__file__) + os.sep
    own = [f for f in frames if not f.filename.startswith(package)] or frames
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""


def _plain(value: Any) -> Any:
    """Returns the value as JSON can have it: numbers that are not finite are words."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return number if math.isfinite(number) else str(number)
    if isinstance(value, np.integer):
        return int(value)
    return value


def _runs(items: Sequence[Dict[str, Any]], most: int) -> Iterator[List[Dict[str, Any]]]:
    """Cuts a list into runs of at most ``most`` that fit into a packet each."""
    run: List[Dict[str, Any]] = []
    size = 0
    for item in items:
        length = len(json.dumps(item, separators=(",", ":"))) + 1
        if run and (len(run) == most or size + length > _LIST_BYTES):
            yield run
            run, size = [], 0
        run.append(item)
        size += length
    if run:
        yield run


def _pieces(data: bytes) -> List[bytes]:
    """Cuts UTF-8 text into pieces of at most _TEXT_BYTES bytes, between characters."""
    pieces = []
    while len(data) > _TEXT_BYTES:
        end = _TEXT_BYTES
        while data[end] & 0xC0 == 0x80:
            end -= 1
        pieces.append(data[:end])
        data = data[end:]
    return pieces + [data]
