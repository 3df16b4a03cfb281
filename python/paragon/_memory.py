"""Memory that Python and the bridge both map: regions of slots of values."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Sequence

import numpy as np

from .errors import InternalError, UsageError

if TYPE_CHECKING:
    from ._bridge import Bridge, Descriptors

MAX_SLOTS = 4096
"""The most slots of a region."""

# The bytes of a value.
_VALUE = 4
_PAGE = mmap.PAGESIZE
_MAP_FIXED = 0x10

# ctypes is there for mmap at a given address alone.
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_longlong if ctypes.sizeof(ctypes.c_void_p) == 8 else ctypes.c_long,
]


class Mapping(mmap.mmap):
    """Addresses of this process that show a file of shared memory.

    An anonymous mapping reserves the addresses, which stay the same for its life; ``show`` lets
    them show another file. Arrays of it keep it alive."""

    address: int
    room: int

    def __new__(cls, size: int, descriptor: int) -> "Mapping":
        room = -(-size // _PAGE) * _PAGE
        made: "Mapping" = super().__new__(cls, -1, room)
        made.room = room
        made.address = made.array().__array_interface__["data"][0]
        made.show(descriptor)
        return made

    def array(self) -> np.ndarray:
        """The bytes."""
        return np.frombuffer(self, dtype=np.uint8)

    def show(self, descriptor: int, offset: int = 0, size: int = -1) -> None:
        """Shows the file of ``descriptor`` at ``size`` bytes from ``offset`` on, from now on.

        Without ``size`` it is all of the mapping."""
        if size < 0:
            size = self.room
        # A file that is too short would be a bus error at the first access.
        length = os.fstat(descriptor).st_size
        if offset % _PAGE or size % _PAGE or offset + size > self.room or length < size:
            raise InternalError(
                f"paragon: shared memory: got a file of {length} bytes for {size} bytes at offset "
                f"{offset} of {self.room}; pages have {_PAGE}"
            )
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        flags = mmap.MAP_SHARED | _MAP_FIXED
        at = _libc.mmap(self.address + offset, size, protection, flags, descriptor, 0)
        if at != self.address + offset:
            error = os.strerror(ctypes.get_errno())
            raise InternalError(f"paragon: mmap of {size} bytes of shared memory: {error}")


class Region:
    """Slots of float32 values that the bridge reads and writes in place.

    ``id`` is its number in the protocol. Views stay valid for their own life, also after ``free``;
    after that nobody reads or writes them but this process. A region that nobody has any more is
    freed when no plan and no exchange uses it."""

    def __init__(
        self,
        memory: "Memory",
        number: int,
        lengths: Sequence[int],
        offsets: Sequence[int],
        mapping: Mapping,
    ) -> None:
        self.id = number
        self.lengths: List[int] = list(lengths)
        self._memory = memory
        self._offsets = list(offsets)
        self._bytes = mapping.array()
        values = self._bytes.view(np.float32)
        self._slots: List[np.ndarray] = [
            values[o // _VALUE : o // _VALUE + n] for o, n in zip(self._offsets, self.lengths)
        ]
        self.freed = False
        """Whether the bridge has it back."""

    def __len__(self) -> int:
        return len(self._slots)

    def slot(self, i: int) -> np.ndarray:
        """Returns slot i, a float32 array of shape (lengths[i],) in the shared memory."""
        return self._slots[i]

    def raw(self, i: int, dtype: Any) -> np.ndarray:
        """Returns slot i as an array of another type, of as many whole items as fit in."""
        kind = np.dtype(dtype)
        size = self.lengths[i] * _VALUE // kind.itemsize * kind.itemsize
        return self._bytes[self._offsets[i] : self._offsets[i] + size].view(kind)

    def free(self) -> None:
        """Gives the memory back. A plan or an exchange that uses the region is an error."""
        self._memory.free(self)


class Memory:
    """The regions of one bridge."""

    def __init__(self, bridge: "Bridge") -> None:
        self._bridge = bridge
        self._mappings: "weakref.WeakValueDictionary[int, Mapping]"
        self._mappings = weakref.WeakValueDictionary()

    def allocate(self, lengths: Sequence[int]) -> Region:
        """Returns a new region with slots of these numbers of values, all zero."""
        lengths = [int(n) for n in lengths]
        for i, n in enumerate(lengths):
            if n < 1:
                raise UsageError(f"paragon: memory: slot {i} has {n} values, want at least 1")
        if not 0 < len(lengths) <= MAX_SLOTS:
            raise UsageError(f"paragon: memory: got {len(lengths)} slots, want 1 to {MAX_SLOTS}")
        bridge, result = self._bridge, {}
        try:
            result, descriptors = bridge.request_with_descriptors("memory", {"lengths": lengths})
            region = self.add(result, lengths, descriptors)
            bridge.watch(region, "free", "region", region.id)
            return region
        except BaseException:
            if result:
                bridge.later("free", {"region": result["region"]})
            raise

    def add(
        self, result: Dict[str, Any], lengths: Sequence[int], descriptors: "Descriptors"
    ) -> Region:
        """Maps the region that an answer describes, and closes its descriptors."""
        try:
            if len(descriptors) != 1:
                raise InternalError(
                    f"paragon: memory: got {len(descriptors)} descriptors with the answer, want 1"
                )
            mapping = Mapping(result["bytes"], descriptors[0].fileno())
        finally:
            for descriptor in descriptors:
                descriptor.close()
        with self._bridge.lock:
            self._mappings[result["region"]] = mapping
        return Region(self, result["region"], lengths, result["offsets"], mapping)

    def free(self, region: Region) -> None:
        """Gives a region back. One that was given back before is left alone."""
        if not region.freed:
            self._bridge.request("free", {"region": region.id})
            region.freed = True
            self._bridge.unwatch("free", region.id)

    def moved(self, note: Dict[str, Any], descriptors: "Descriptors") -> None:
        """Takes a note ``moved``: a slot has new memory, which has what the slot had and its new
        value. The slot belongs to an exchange until that is answered, so nobody has written to
        it."""
        mapping = self._mappings.get(note["region"])
        with descriptors[0] as descriptor:
            if mapping is not None:
                mapping.show(descriptor.fileno(), note["offset"], note["bytes"])
