"""CRC-32C (Castagnoli), the checksum in our files, by numpy: Python itself has another polynomial.

A checksum is linear: appending a byte is a map of bits. So many parts of the data, all as long, are
summed side by side, and then two by two become one: the left one is moved on over the length of
the right one, and the right one is added.
"""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy

# A table has the maps of two bytes: what 65,536 values of the low and of the high half become.
_Table = Tuple[numpy.ndarray, numpy.ndarray]

_POLYNOMIAL = 0x82F63B78

# The bytes of a part, and of the parts that are summed at a time.
_PART = 1024
_AT_ONCE = 4 << 20


def _table_of(columns: List[int]) -> _Table:
    """The table of a linear map, by what each of the 32 bits becomes."""
    halves = []
    for first in (0, 16):
        half = numpy.zeros(1 << 16, numpy.uint32)
        for bit in range(16):
            half[1 << bit : 2 << bit] = half[: 1 << bit] ^ numpy.uint32(columns[first + bit])
        halves.append(half)
    return halves[0], halves[1]


def _apply(table: _Table, values: numpy.ndarray) -> numpy.ndarray:
    """What values, uint32 of shape (n,), become."""
    found: numpy.ndarray = table[0][values & 0xFFFF]
    found ^= table[1][values >> 16]
    return found


def _twice(table: _Table) -> _Table:
    """The table of a map that is made twice."""
    bits = numpy.left_shift(numpy.uint32(1), numpy.arange(32, dtype=numpy.uint32))
    return _table_of([int(v) for v in _apply(table, _apply(table, bits))])


def _four_bytes() -> _Table:
    """The table of appending four bytes of 0."""
    columns = []
    for bit in range(32):
        value = 1 << bit
        for _ in range(32):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        columns.append(value)
    return _table_of(columns)


class _Maps:
    """Tables of appending 4, 8, 16 and so on bytes of 0, made when they are asked for."""

    def __init__(self) -> None:
        self._made: List[_Table] = []

    def of(self, power: int) -> _Table:
        """The table of 4 · 2^power bytes."""
        if not self._made:
            self._made.append(_four_bytes())
        while len(self._made) <= power:
            self._made.append(_twice(self._made[-1]))
        return self._made[power]


_maps = _Maps()


def crc32c(data: Any) -> int:
    """The checksum of bytes: of anything with the buffer protocol that is contiguous."""
    values = numpy.frombuffer(data, numpy.uint8)
    state = 0xFFFFFFFF
    for at in range(0, len(values), _AT_ONCE):
        state = _add(state, values[at : at + _AT_ONCE])
    return state ^ 0xFFFFFFFF


def _add(state: int, values: numpy.ndarray) -> int:
    """The state after further bytes."""
    if len(values) < 4:
        return _slowly(state, values)
    # The number of parts is a power of 2, with zeros before the first byte: these change nothing
    # as long as the state is 0. So the state is added to the first four bytes, which is the same.
    part = min(_PART, 2 << (len(values) // 2).bit_length() - 1)
    count = 1 << (-(-len(values) // part) - 1).bit_length()
    bytes_ = numpy.zeros(count * part, numpy.uint8)
    first = len(bytes_) - len(values)
    bytes_[first:] = values
    bytes_[first : first + 4] ^= numpy.array([state], "<u4").view(numpy.uint8)
    words = numpy.ascontiguousarray(bytes_.view("<u4").reshape(count, part // 4).T)
    four = _maps.of(0)
    sums = numpy.zeros(count, numpy.uint32)
    for word in words:
        sums = _apply(four, sums ^ word)
    power = (part // 4).bit_length() - 1
    while len(sums) > 1:
        sums = _apply(_maps.of(power), sums[0::2]) ^ sums[1::2]
        power += 1
    return int(sums[0])


def _slowly(state: int, values: numpy.ndarray) -> int:
    for value in values.tolist():
        state ^= value
        for _ in range(8):
            state = state >> 1 ^ (_POLYNOMIAL if state & 1 else 0)
    return state
