"""Keys and values on servers, by MXNet's names, for numpy arrays.

::

    import numpy as np
    from paragon import kv

    store = kv.create("dist_sync")               # a job of launch; alone: of one worker
    store.init("w", np.ones((2, 3), np.float32)) # every worker; rank 0's value counts
    store.set_optimizer("sgd", learning_rate=0.1)
    w = np.empty((2, 3), np.float32)
    store.pull("w", out=w)
    store.pushpull("w", gradient, out=w)         # up, and the new value back

A key is a str or an int, all of one store of the same kind. Each call takes one key and its array,
or a list of keys and a list with an array for each; an array may also be a list of arrays (one for
each device), which are summed. What workers push to a key is summed over all workers. Without an
optimizer the sum replaces the value.

========================  =====================================================================
type of an array          what happens
========================  =====================================================================
float32                   taken as it is, with any strides
float16, bfloat16         converted while it is copied, both ways
float64, integers, bool,  refused with a UsageError that names the key: servers compute in
complex, other            float32. Convert by ``a.astype(numpy.float32)``
========================  =====================================================================

A push of dense arrays returns at once; its error, if any, is raised by a later call. Other calls
return when they are done, since a numpy array cannot wait for its values when it is read.
``priority`` is accepted and does nothing: small keys share messages in any case. Arrays of
:meth:`KVStore.gradient` and :meth:`KVStore.value` lie in memory that the servers' side reads and
writes in place, so that a call with them copies nothing.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _life
from ._exchange import Entry, Plan
from ._memory import MAX_SLOTS, Region
from ._store import Declaration, Store
from .errors import DuplicateInitError, SizeError, UnknownKeyError, UnsupportedError, UsageError

__all__ = ["KVStore", "RowSparseArray", "create", "row_sparse_array"]

Key = Union[str, int]

_TYPES = {
    "local": "local",
    "local_update_cpu": "local",
    "local_allreduce_cpu": "local",
    "device": "device",
    "local_allreduce_device": "device",
    "dist": "dist_sync",
    "dist_sync": "dist_sync",
    "dist_sync_device": "dist_sync",
    "dist_device_sync": "dist_sync",
    "dist_async": "dist_async",
    "dist_async_device": "dist_async",
    "dist_device_async": "dist_async",
}

_FLOAT32 = np.dtype(np.float32)

# Keys that are initialised one by one share regions with keys of the same size, of up to
# _MAX_PAIRS keys. Larger ones than _LARGE values have regions of their own.
_MAX_PAIRS = 64
_LARGE = 1 << 20

# _MAX_GROUPS is how many lists of keys are kept, each with its plan.
_MAX_GROUPS = 64

# MXNet's other names of optimizers' settings.
_SETTINGS = {"lr": "learning_rate", "wd": "weight_decay", "rescale_grad": "rescale"}

_ABSENT = {
    "save_optimizer_states": "the servers have the optimizer's state: save(uri) writes it with the "
    "values",
    "load_optimizer_states": "the servers have the optimizer's state: load(uri) restores it with "
    "the values",
    "set_updater": "an updater is code of this process: name the servers' optimizer by "
    "set_optimizer, or apply the pulled sum here",
    "_set_updater": "name the servers' optimizer by set_optimizer",
    "send_command_to_servers": "servers take no commands; launch ctl steers the job",
    "_send_command_to_servers": "servers take no commands; launch ctl steers the job",
    "set_barrier_before_exit": "the end of a worker does not wait for others; call barrier()",
    "num_dead_node": "launch watches the workers; its page and ctl list them",
}


def create(name: str = "local", timeout: float = 300.0) -> "KVStore":
    """Returns the key-value store of this process.

    ``name`` is MXNet's: "dist_sync" (also "dist", "dist_device_sync") and "dist_async" join the job
    that launch describes in the environment, "local" and "device" are of this process alone. A
    process has one store: a second call returns the same one. ``timeout`` is in seconds: a call
    that waits longer for other workers raises UnavailableError."""
    kind = _TYPES.get(name)
    if kind is None:
        raise UnsupportedError(
            f"paragon: kv.create: no store {name!r}; there are {', '.join(sorted(_TYPES))}"
        )
    store = _life.init(kind, timeout)
    global _made
    if _made is None or _made.store is not store:
        _made = KVStore(store)
    return _made


_made: Optional["KVStore"] = None


class RowSparseArray:
    """Some rows of a table: row i of ``data`` is row ``indices[i]`` of an array of ``shape``.

    The first number of ``shape`` is None for a table with an open vocabulary
    (:meth:`KVStore.init_table`), in which any int64 may name a row. ``data`` is (n, …) with the
    table's row shape, ``indices`` is (n,). Rows that are not named are zero. Indices need not be
    sorted or unique; in a gradient repeated rows add up."""

    def __init__(self, data: Any, indices: Any, shape: Sequence[int]) -> None:
        self.shape: Tuple[Any, ...] = tuple(None if n is None else int(n) for n in shape)
        self.data: np.ndarray = np.asarray(data)
        self.indices: np.ndarray = np.asarray(indices).astype(np.int64, copy=False).reshape(-1)
        if len(self.shape) < 2:
            raise SizeError(f"paragon: row_sparse_array: shape {self.shape}: want rows of values")
        if self.data.shape != (len(self.indices),) + self.shape[1:]:
            raise SizeError(
                f"paragon: row_sparse_array: {len(self.indices)} indices of an array of shape "
                f"{self.shape}, and data of shape {self.data.shape}"
            )
        if None in self.shape[1:]:
            raise SizeError(f"paragon: row_sparse_array: shape {self.shape}: want rows of one size")
        if not _in_table(self.indices, self.shape[0]):
            raise SizeError(
                f"paragon: row_sparse_array: rows {self.indices.min()} to {self.indices.max()}, "
                f"want 0 to {self.shape[0] - 1}"
            )

    def asnumpy(self) -> np.ndarray:
        """Returns the whole array, with repeated rows added up."""
        if self.shape[0] is None:
            raise UnsupportedError(
                f"paragon: row_sparse_array: shape {self.shape}: an open vocabulary has no whole "
                "array; use data and indices"
            )
        whole = np.zeros(self.shape, self.data.dtype)
        np.add.at(whole, self.indices, self.data)
        return whole


def _in_table(indices: np.ndarray, rows: Optional[int]) -> bool:
    """Whether all of these are rows of a table of so many; None: every number is one."""
    if rows is None or not len(indices):
        return True
    return bool(0 <= indices.min() <= indices.max() < rows)


def row_sparse_array(rows: Tuple[Any, Any], shape: Sequence[int]) -> RowSparseArray:
    """Returns a RowSparseArray of (data, indices), as MXNet's function of this name."""
    data, indices = rows
    return RowSparseArray(data, indices, shape)


class _Dense:
    """A key whose value is pushed and pulled whole, with its two slots."""

    def __init__(
        self, name: str, shape: Tuple[int, ...], region: Region, slots: Tuple[int, int]
    ) -> None:
        size = int(np.prod(shape, dtype=np.int64))
        self.name, self.shape, self.size = name, shape, size
        self.region, self.slots = region, slots
        self.gradient = region.slot(slots[0])[:size].reshape(shape)
        self.value = region.slot(slots[1])[:size].reshape(shape)
        # pushed is the last push that may still read the gradient.
        self.pushed = 0


def _fits(d: _Dense, value: Any) -> bool:
    """Whether the value is a float32 array of the key's shape, as in most calls."""
    return type(value) is np.ndarray and value.dtype is _FLOAT32 and value.shape == d.shape


class _Rows:
    """A key of rows."""

    def __init__(self, name: str, shape: Tuple[Any, ...]) -> None:
        self.name, self.shape = name, shape
        self.row_len = int(np.prod(shape[1:], dtype=np.int64))


class _Pool:
    """Pairs of slots of one size: those that are free, and how many are taken."""

    def __init__(self) -> None:
        self.free: List[Tuple[Region, Tuple[int, int]]] = []
        self.taken = 0


class _Group:
    """The keys of a call, which is likely to be made again."""

    def __init__(self, key: Any, names: List[str], keys: List[Union[_Dense, _Rows]]) -> None:
        self.single = not isinstance(key, (list, tuple))
        self.names, self.keys = names, keys
        self.dense = [k for k in keys if isinstance(k, _Dense)]
        # plan has the dense keys in order; None: not made yet.
        self.plan: Optional[Plan] = None


class KVStore:
    """Keys and values of a job. Made by :func:`create`.

    Several threads may use it for different keys."""

    def __init__(self, store: Store) -> None:
        self.store = store
        """The store beneath, which has exchanges, plans and what else a job can do."""
        self.weight: float = 1.0
        """What gradients are multiplied by, and count for in a mean: the examples of the batch in
        an elastic job (:func:`paragon.elastic.batches` sets it)."""
        self.examples: int = 0
        """How many examples the contributions of this step count for."""
        self._keys: Dict[str, Union[_Dense, _Rows]] = {}
        self._kind: Optional[type] = None
        self._groups: Dict[Any, _Group] = {}
        self._pools: Dict[int, _Pool] = {}
        self._rows: Optional[Region] = None

    def __getattr__(self, name: str) -> Any:
        if name in _ABSENT:
            raise UnsupportedError(f"paragon: kv: there is no {name}: {_ABSENT[name]}")
        raise AttributeError(f"paragon: kv: a KVStore has no {name!r}")

    def __repr__(self) -> str:
        return f"<paragon.kv.KVStore of {self.store!r}, {len(self._keys)} keys>"

    # ---- facts

    @property
    def type(self) -> str:
        """The kind of store, such as "dist_sync"."""
        return self.store.type

    @property
    def rank(self) -> int:
        """This worker's number, from 0."""
        return self.store.rank

    @property
    def num_workers(self) -> int:
        """The number of workers of the job."""
        return self.store.num_workers

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether the store has what MXNet calls a capability: it has "optimizer"."""
        return capability.lower() == "optimizer"

    # ---- values

    def init(self, key: Union[Key, Sequence[Key]], value: Any) -> None:
        """Gives keys their first values. Every worker calls it; rank 0's values count.

        A RowSparseArray makes a key of rows, for row_sparse_pull. A second init of a key is a
        DuplicateInitError. A call with a list is one exchange with the servers."""
        dense: List[Tuple[str, np.ndarray]] = []
        rows: List[Tuple[str, RowSparseArray]] = []
        names = self._names(key)
        self._distinct("init", names)
        for name, v in zip(names, self._listed("init", _Group(key, names, []), value)):
            if name in self._keys:
                raise DuplicateInitError(
                    f"paragon: kv: init key {name}: initialised before", key=name
                )
            first = self._arrays("init", name, v)[0]
            if isinstance(first, RowSparseArray):
                rows.append((name, first))
            else:
                value = self._array("init", name, first)
                if value.size == 0:
                    raise SizeError(
                        f"paragon: kv: init key {name}: an array of shape {value.shape} has no "
                        "values",
                        key=name,
                    )
                dense.append((name, value))
        self._init_dense(dense)
        for name, table in rows:
            self._init_rows(name, table)

    def init_table(
        self,
        key: Key,
        row_shape: Union[int, Sequence[int]],
        rows: Optional[int] = None,
        max_rows: Optional[int] = None,
        initializer: Optional[Mapping[str, Any]] = None,
    ) -> None:
        """Makes a key of rows whose first values the servers make, as embeddings have. Every worker
        calls it alike.

        ``row_shape`` is that of a row: (16,), or 16. Without ``rows`` the vocabulary is open: any
        int64 names a row, such as the hash of a word, and its first push makes it. A pull of a row
        that was never pushed returns its first values, and makes none. ``max_rows`` is the most
        rows of such a table, on all servers; a push beyond it is TableFullError. ``initializer`` is
        {"name": "uniform", "low": -0.05, "high": 0.05, "seed": 1} or {"name": "normal", "mean": 0,
        "deviation": 0.01, "seed": 1}; without it rows begin as zeros.

        Arrays of an open vocabulary have None in the place of the number of rows::

            store.init_table("words", 16, max_rows=1_000_000)
            words = store.row_sparse_pull("words", row_ids=hashes)
            store.push("words", kv.row_sparse_array((gradients, words.indices), (None, 16)))"""
        (name,) = self._names(key)
        if name in self._keys:
            raise DuplicateInitError(
                f"paragon: kv: init_table key {name}: initialised before", key=name
            )
        shape = (row_shape,) if isinstance(row_shape, (int, np.integer)) else row_shape
        k = _Rows(name, (rows, *(int(n) for n in shape)))
        sizes = [n for n in (*k.shape[1:], rows, max_rows) if n is not None]
        if len(k.shape) < 2 or min(sizes) < 1 or rows is not None and max_rows is not None:
            raise SizeError(
                f"paragon: kv: init_table key {name}: row_shape {row_shape}, rows {rows}, max_rows "
                f"{max_rows}: want numbers of 1 or more, not both rows and max_rows",
                key=name,
            )
        self.store.request(
            "table",
            key=name,
            row_len=k.row_len,
            rows=rows or 0,
            max_rows=max_rows or 0,
            initializer=dict(initializer or {}),
        )
        self._keys[name] = k

    def push(self, key: Union[Key, Sequence[Key]], value: Any, priority: int = 0) -> None:
        """Adds this worker's gradients to the keys' open rounds, and returns at once.

        The arrays may be changed after it. A key whose last push is still under way is waited for
        first, and a push of rows returns when the servers have them."""
        group = self._group("push", key)
        for k, v in zip(group.keys, self._listed("push", group, value)):
            if isinstance(k, _Rows):
                self._push_rows(k, v)
            else:
                self._take("push", k, v)
        if group.dense:
            plan = self._plan(group)
            number = plan.exchange(weight=self.weight, examples=self.examples, push_only=True)
            for d in group.dense:
                d.pushed = number

    def pull(
        self,
        key: Union[Key, Sequence[Key]],
        out: Any = None,
        priority: int = 0,
        ignore_sparse: bool = True,
    ) -> Any:
        """Copies values into ``out``, with this worker's last push in them.

        ``out`` is an array for each key, or a list of arrays that all get the value. Without it the
        values are returned as new arrays. A key of rows is passed over, as in MXNet, or refused
        with ``ignore_sparse=False``."""
        group = self._group("pull", key)
        if len(group.dense) < len(group.keys) and (out is None or not ignore_sparse):
            self._refuse_rows("pull", group)
        outs = self._outs("pull", group, out)
        for d in group.dense:
            self._settle(d)
        self.store.pull([(d.name, d.region, d.slots[1]) for d in group.dense])
        return self._give(group, outs)

    def pushpull(
        self, key: Union[Key, Sequence[Key]], value: Any, out: Any = None, priority: int = 0
    ) -> Any:
        """Is push and pull in one trip: returns when all workers' gradients have counted.

        Without ``out`` the values are returned as new arrays."""
        group = self._group("pushpull", key)
        if len(group.dense) < len(group.keys):
            self._refuse_rows("pushpull", group)
        outs = self._outs("pushpull", group, out)
        plain = self.weight == 1
        for d, v in zip(group.dense, self._listed("pushpull", group, value)):
            if d.pushed or not plain or v is not d.gradient and not _fits(d, v):
                self._take("pushpull", d, v)
            elif v is not d.gradient:
                d.gradient[...] = v
        number = self._plan(group).exchange(
            weight=self.weight, examples=self.examples, answer=True
        )
        self.store.wait(number)
        return self._give(group, outs)

    def broadcast(
        self, key: Union[Key, Sequence[Key]], value: Any, out: Any = None, priority: int = 0
    ) -> Any:
        """Is init and pull: every ``out`` gets rank 0's value."""
        self.init(key, value)
        return self.pull(key, out, priority)

    def gradient(self, key: Key) -> np.ndarray:
        """Returns the array of the key's shape whose values a push of it sends without a copy.

        ``kv.pushpull(key, kv.gradient(key), out=kv.value(key))`` copies nothing. It belongs to a
        push until the next call of pull or pushpull for the key returns."""
        return self._dense("gradient", self._names(key)[0]).gradient

    def value(self, key: Key) -> np.ndarray:
        """Returns the array of the key's shape into which values come without a copy."""
        return self._dense("value", self._names(key)[0]).value

    def row_sparse_pull(
        self,
        key: Union[Key, Sequence[Key]],
        out: Any = None,
        priority: int = 0,
        row_ids: Any = None,
    ) -> Any:
        """Pulls the rows ``row_ids`` of a key of rows; they may be unsorted and repeated.

        ``out`` is a float32 array of the key's shape, whose other rows become zero, or a
        RowSparseArray, which gets the rows, sorted and each once. Without it a RowSparseArray is
        returned. For a list of keys ``out`` and ``row_ids`` are lists, too."""
        if row_ids is None:
            raise UsageError("paragon: kv: row_sparse_pull: want row_ids, the rows to pull")
        if isinstance(key, (list, tuple)):
            outs = [None] * len(key) if out is None else out
            if len(outs) != len(key) or len(row_ids) != len(key):
                raise UsageError(
                    f"paragon: kv: row_sparse_pull: {len(key)} keys, {len(outs)} outs and "
                    f"{len(row_ids)} lists of rows"
                )
            return [self._pull_rows(self._names(k)[0], o, r) for k, o, r in zip(key, outs, row_ids)]
        return self._pull_rows(self._names(key)[0], out, row_ids)

    # ---- the job

    def set_optimizer(self, optimizer: Union[str, Mapping[str, Any]], **settings: Any) -> None:
        """Makes the servers apply an optimizer to the sums. Every worker calls it alike.

        ``optimizer`` is a name with settings, as in ``set_optimizer("sgd", learning_rate=0.1,
        momentum=0.9)``, or a dict with "name" and settings. The names are sgd, nag, adam, adamw,
        adagrad, rmsprop, ftrl, lars and lamb. MXNet's ``wd`` and ``rescale_grad`` may stand for
        ``weight_decay`` and ``rescale``; ``reduction="mean"`` divides the sum by the sum of the
        workers' weights."""
        if isinstance(optimizer, str):
            config: Dict[str, Any] = {"name": optimizer}
        elif isinstance(optimizer, Mapping):
            config = dict(optimizer)
        else:
            raise UsageError(
                f"paragon: kv: set_optimizer: got a {type(optimizer).__name__}, want a name with "
                "settings or a dict: the servers run no Python code"
            )
        config.update(settings)
        self.store.set_optimizer({_SETTINGS.get(k, k): v for k, v in config.items()})

    def set_gradient_compression(self, compression_params: Mapping[str, Any]) -> None:
        """Compresses this worker's pushes of dense keys.

        ``compression_params`` has "type" ("2bit", "1bit", "topk", "fp16" or "bf16") and numbers, as
        in {"type": "2bit", "threshold": 0.5}."""
        self.store.set_compression(compression_params)

    def barrier(self) -> None:
        """Returns when every worker has called it."""
        self.store.barrier()

    _barrier = barrier

    def wait(self) -> None:
        """Returns when all pushes have counted; raises the first error of theirs."""
        for d in list(self._keys.values()):
            if isinstance(d, _Dense):
                self._settle(d)

    def save(self, uri: str) -> None:
        """Writes values and the servers' optimizer state into one safetensors file.

        One worker's call is enough."""
        self.wait()
        self.store.save(uri)

    def load(self, uri: str) -> None:
        """Restores what save wrote. Every worker calls it, before or after init."""
        self.wait()
        self.store.load(uri)

    def close(self) -> None:
        """Leaves the job in order, when all pushes have counted."""
        if not self.store.closed:
            self.wait()
        self.store.close()

    # ---- keys

    def _names(self, key: Union[Key, Sequence[Key]]) -> List[str]:
        keys = key if isinstance(key, (list, tuple)) else [key]
        for k in keys:
            kind = int if isinstance(k, (int, np.integer)) and not isinstance(k, bool) else type(k)
            if kind not in (str, int):
                raise UsageError(f"paragon: kv: key {k!r} is a {kind.__name__}, want str or int")
            if self._kind is None:
                self._kind = kind
            if kind is not self._kind:
                raise UsageError(
                    f"paragon: kv: key {k!r} is of type {kind.__name__}, and earlier keys of type "
                    f"{self._kind.__name__}; use one type in a store"
                )
        return [str(k) for k in keys]

    def _group(self, verb: str, key: Union[Key, Sequence[Key]]) -> _Group:
        """Returns the keys of a call, all of which are initialised."""
        index = tuple(key) if isinstance(key, (list, tuple)) else key
        group = self._groups.get(index)
        if group is not None:
            return group
        names = self._names(key)
        self._distinct(verb, names)
        group = _Group(key, names, [self._find(verb, n) for n in names])
        if len(self._groups) >= _MAX_GROUPS:
            self.wait()
            old = self._groups.pop(next(iter(self._groups)))
            if old.plan is not None:
                old.plan.drop()
        self._groups[index] = group
        return group

    @staticmethod
    def _distinct(verb: str, names: List[str]) -> None:
        if len(set(names)) != len(names):
            raise UsageError(f"paragon: kv: {verb}: a key is named twice in {names}")

    @staticmethod
    def _listed(verb: str, group: _Group, value: Any) -> Sequence[Any]:
        """Returns what a call has for each of its keys."""
        if group.single:
            return [value]
        if not isinstance(value, (list, tuple)) or len(value) != len(group.names):
            got = len(value) if isinstance(value, (list, tuple)) else "no list"
            raise UsageError(
                f"paragon: kv: {verb}: got {len(group.names)} keys and {got} of values, want one "
                "for each"
            )
        return value

    @staticmethod
    def _arrays(verb: str, name: str, value: Any) -> Sequence[Any]:
        """Returns the arrays that a call has for one key, one for each device."""
        values = value if isinstance(value, (list, tuple)) else [value]
        if not values:
            raise UsageError(f"paragon: kv: {verb} key {name}: got no array", key=name)
        return values

    def _find(self, verb: str, name: str) -> Union[_Dense, _Rows]:
        found = self._keys.get(name)
        if found is None:
            raise UnknownKeyError(
                f"paragon: kv: {verb} key {name}: unknown key; init it first", key=name
            )
        return found

    def _dense(self, verb: str, name: str) -> _Dense:
        found = self._find(verb, name)
        if isinstance(found, _Rows):
            raise self._rows_refused(verb, name)
        return found

    def _refuse_rows(self, verb: str, group: _Group) -> None:
        for k in group.keys:
            if isinstance(k, _Rows):
                raise self._rows_refused(verb, k.name)

    @staticmethod
    def _rows_refused(verb: str, name: str) -> UnsupportedError:
        return UnsupportedError(
            f"paragon: kv: {verb} key {name}: it is a key of rows: use push and row_sparse_pull",
            key=name,
        )

    # ---- dense values

    def _init_dense(self, pairs: List[Tuple[str, np.ndarray]]) -> None:
        if not pairs:
            return
        declarations, keys = [], []
        for (name, value), (region, slots) in zip(pairs, self._slots([v for _, v in pairs])):
            k = _Dense(name, value.shape, region, slots)
            np.copyto(k.value, value, casting="same_kind")
            shape = k.shape or None
            declarations.append(Declaration(name, region, slots[1], k.size, "dense", shape))
            keys.append(k)
        self.store.init(declarations)
        self._keys.update({k.name: k for k in keys})

    def _slots(self, values: List[np.ndarray]) -> List[Tuple[Region, Tuple[int, int]]]:
        """Returns a region and two slots for each value."""
        if len(values) == 1:
            return [self._pooled(values[0].size)]
        found: List[Tuple[Region, Tuple[int, int]]] = []
        for at in range(0, len(values), MAX_SLOTS // 2):
            sizes = [v.size for v in values[at : at + MAX_SLOTS // 2]]
            region = self.store.memory(sizes + sizes)
            found += [(region, (i, len(sizes) + i)) for i in range(len(sizes))]
        return found

    def _pooled(self, size: int) -> Tuple[Region, Tuple[int, int]]:
        """Returns two slots of this size.

        A bridge has few hundred regions, so each region for keys of a size has room for as many
        as there are already."""
        pool = self._pools.setdefault(size, _Pool())
        if not pool.free:
            pairs = 1 if size > _LARGE else max(1, min(pool.taken, _MAX_PAIRS))
            region = self.store.memory([size] * (2 * pairs))
            pool.free += [(region, (i, pairs + i)) for i in reversed(range(pairs))]
        pool.taken += 1
        return pool.free.pop()

    def _plan(self, group: _Group) -> Plan:
        if group.plan is None:
            entries = [Entry(d.name, d.region, d.slots[0], d.slots[1]) for d in group.dense]
            group.plan = self.store.plan(entries)
        return group.plan

    def _settle(self, d: _Dense) -> None:
        """Waits for the key's last push."""
        if d.pushed:
            number, d.pushed = d.pushed, 0
            self.store.wait(number)

    def _take(self, verb: str, d: _Dense, value: Any) -> None:
        """Copies gradients into the key's slot, summed and weighted."""
        if d.pushed:
            self._settle(d)
        slot, weight = d.gradient, self.weight
        values = self._arrays(verb, d.name, value)
        if values[0] is not slot:
            slot[...] = self._fitting(verb, d, values[0])
        for further in values[1:]:
            slot += self._fitting(verb, d, further)
        if weight == 0:
            # A worker without examples contributes zeros, also where its gradient is not finite.
            slot.fill(0)
        elif weight != 1:
            slot *= np.float32(weight)

    def _fitting(self, verb: str, d: _Dense, value: Any) -> np.ndarray:
        """Returns the value as an array of the key's shape."""
        a = self._array(verb, d.name, value)
        if a.shape != d.shape:
            raise SizeError(
                f"paragon: kv: {verb} key {d.name}: an array of shape {a.shape}, and the key has "
                f"{d.shape}",
                key=d.name,
                worker=self.store.rank,
            )
        return a

    def _outs(self, verb: str, group: _Group, out: Any) -> Optional[Sequence[Any]]:
        """Checks the arrays for each key; None: new ones are wanted."""
        if out is None:
            return None
        outs = self._listed(verb, group, out)
        for k, o in zip(group.keys, outs):
            if isinstance(k, _Rows) or o is k.value or _fits(k, o):
                continue
            for a in self._arrays(verb, k.name, o):
                if not isinstance(a, np.ndarray):
                    raise UsageError(
                        f"paragon: kv: {verb} key {k.name}: out is a {type(a).__name__}, want a "
                        "numpy array",
                        key=k.name,
                    )
                self._fitting(verb, k, a)
        return outs

    @staticmethod
    def _give(group: _Group, outs: Optional[Sequence[Any]]) -> Any:
        """Copies values out of the slots."""
        if outs is None:
            copies = [d.value.copy() for d in group.dense]
            return copies[0] if group.single else copies
        for k, out in zip(group.keys, outs):
            if isinstance(k, _Rows) or out is k.value:
                continue
            for a in out if isinstance(out, (list, tuple)) else (out,):
                a[...] = k.value
        return None

    def _array(self, verb: str, name: str, value: Any) -> np.ndarray:
        """Returns the value as an array of a type that can be sent."""
        a = value if type(value) is np.ndarray else np.asarray(value)
        kind = a.dtype
        if kind is _FLOAT32 or kind.name in ("float32", "float16", "bfloat16"):
            return a
        raise UsageError(
            f"paragon: kv: {verb} key {name}: an array of {kind.name}, want float32, float16 or "
            "bfloat16: servers compute in float32; convert it by a.astype(numpy.float32)",
            key=name,
            worker=self.store.rank,
        )

    # ---- rows

    def _init_rows(self, name: str, value: RowSparseArray) -> None:
        whole = self._array("init", name, value.asnumpy())
        region = self.store.memory([whole.size])
        np.copyto(region.slot(0), whole.reshape(-1), casting="same_kind")
        k = _Rows(name, value.shape)
        declaration = Declaration(
            name, region, 0, whole.size, "rows", value.shape, value.shape[0], k.row_len
        )
        self.store.init([declaration])
        region.free()
        self._keys[name] = k

    def _row_memory(self, ids: np.ndarray, k: _Rows) -> Region:
        """Returns a region with slots for ids and their rows, the ids written."""
        want = [max(2, 2 * len(ids)), max(1, len(ids) * k.row_len)]
        # A request that Ctrl-C has left goes on with its region: it is not used again.
        region, self._rows = self._rows, None
        if region is None or any(n > have for n, have in zip(want, region.lengths)):
            have = region.lengths if region is not None else [0, 0]
            region = None
            region = self.store.memory([max(n, 2 * h) for n, h in zip(want, have)])
        region.raw(0, np.int64)[: len(ids)] = ids
        return region

    def _push_rows(self, k: _Rows, value: Any) -> None:
        values = self._arrays("push", k.name, value)
        for v in values:
            if not isinstance(v, RowSparseArray) or v.shape != k.shape:
                shape = getattr(v, "shape", None)
                raise SizeError(
                    f"paragon: kv: push key {k.name}: a {type(v).__name__} of shape {shape}, want "
                    f"a RowSparseArray of shape {k.shape}",
                    key=k.name,
                )
        ids = np.concatenate([v.indices for v in values])
        rows = np.concatenate([self._array("push", k.name, v.data) for v in values])
        region = self._row_memory(ids, k)
        slot = region.slot(1)[: len(ids) * k.row_len]
        np.multiply(rows.reshape(-1), np.float32(self.weight), out=slot, casting="same_kind")
        self.store.request(
            "push_rows",
            key=k.name,
            region=region.id,
            ids=0,
            n=len(ids),
            values=1,
            weight=self.weight,
            examples=self.examples,
        )
        self._rows = region

    def _pull_rows(self, name: str, out: Any, row_ids: Any) -> Any:
        k = self._find("row_sparse_pull", name)
        if isinstance(k, _Dense):
            raise UnsupportedError(
                f"paragon: kv: row_sparse_pull key {name}: it is no key of rows: use pull, or init "
                "it with a row_sparse_array",
                key=name,
            )
        ids = np.unique(np.asarray(row_ids).astype(np.int64).reshape(-1))
        if not _in_table(ids, k.shape[0]):
            raise SizeError(
                f"paragon: kv: row_sparse_pull key {name}: rows {ids[0]} to {ids[-1]}, want 0 to "
                f"{k.shape[0] - 1}",
                key=name,
            )
        rows = np.empty((len(ids),) + k.shape[1:], np.float32)
        if len(ids):
            region = self._row_memory(ids, k)
            self.store.request(
                "pull_rows", key=name, region=region.id, ids=0, n=len(ids), values=1
            )
            rows.reshape(-1)[:] = region.slot(1)[: rows.size]
            self._rows = region
        return _give_rows(k, out, ids, rows)


def _give_rows(k: _Rows, out: Any, ids: np.ndarray, rows: np.ndarray) -> Any:
    if out is None:
        return RowSparseArray(rows, ids, k.shape)
    if getattr(out, "shape", None) != k.shape:
        raise SizeError(
            f"paragon: kv: row_sparse_pull key {k.name}: out has shape "
            f"{getattr(out, 'shape', None)}, and the key {k.shape}",
            key=k.name,
        )
    if isinstance(out, RowSparseArray):
        out.data, out.indices = rows, ids
    else:
        out[...] = 0
        out[ids] = rows
    return None
