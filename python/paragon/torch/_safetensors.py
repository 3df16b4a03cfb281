"""Files of named tensors in the format safetensors, written and read here, so that nothing else
needs to be installed. Package safetensors of PyPI reads them, and so do Go programs.

A file is, in little endian: the length of the header (8 bytes); the header, a JSON object padded
with spaces to a multiple of 8; the tensors' bytes, row by row, without gaps. The header maps each
name to {"dtype", "shape", "data_offsets"}, and "__metadata__" to an object of strings.

One of the strings is ours, as in files of Go programs: "paragon.crc32c" has CRC-32C checksums, in
hexadecimal with spaces between. The first is that of everything before the data, with these eight
digits as zeros; then comes one for each tensor, in the order of the data. Other programs ignore it.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import tempfile
from typing import Dict, List, Mapping, Tuple, Union

import torch

from paragon.errors import DamagedError, UsageError

from ._crc32c import crc32c
from ._values import as_bytes

Path = Union[str, "os.PathLike[str]"]

# A longer header is no file of ours: the same limit as in package safetensors.
_HEADER_LIMIT = 100 << 20

# The string of checksums, what is in the place of the header's own while it is computed, and where
# that is in the header's text: quotes within strings are escaped, so it cannot be elsewhere.
_SUMS = "paragon.crc32c"
_NO_SUM = b"00000000"
_SUM_AT = f'"{_SUMS}":"'.encode()

_NAMES = {
    torch.float64: "F64",
    torch.int64: "I64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
for _attribute, _name in (
    ("uint64", "U64"),
    ("uint32", "U32"),
    ("uint16", "U16"),
    ("float8_e5m2", "F8_E5M2"),
    ("float8_e4m3fn", "F8_E4M3"),
):
    # What this version of torch has.
    if hasattr(torch, _attribute):
        _NAMES[getattr(torch, _attribute)] = _name
_TYPES = {name: dtype for dtype, name in _NAMES.items()}


def write(
    path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] = {}
) -> None:
    """Writes tensors and strings into a file, which is the old one or the whole new one if this
    process or the machine ends meanwhile. Types that the format does not have are UsageError."""
    path = os.fspath(path)
    for name, t in tensors.items():
        if t.dtype not in _NAMES or t.layout != torch.strided or name == "__metadata__":
            raise UsageError(
                f"save {path}: tensor {name} is {t.dtype} with layout {t.layout}, which "
                f"safetensors does not have; want one of {', '.join(sorted(_TYPES))}"
            )
    # Wider types first, so that each lies at a multiple of its own width.
    order = sorted(tensors, key=lambda n: (-tensors[n].element_size(), n))
    if _SUMS in metadata:
        raise UsageError(f"save {path}: metadata {_SUMS!r}: the name is that of the checksums")
    sums = [f"{crc32c(as_bytes(tensors[name])):08x}" for name in order]
    strings = {**metadata, _SUMS: " ".join([_NO_SUM.decode(), *sums])}
    header: Dict[str, object] = {"__metadata__": strings}
    at = 0
    for name in order:
        t = tensors[name]
        end = at + t.numel() * t.element_size()
        header[name] = {
            "dtype": _NAMES[t.dtype],
            "shape": list(t.shape),
            "data_offsets": [at, end],
        }
        at = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    text = len(text).to_bytes(8, "little") + text
    own = text.index(_SUM_AT) + len(_SUM_AT)
    text = text[:own] + b"%08x" % crc32c(text) + text[own + len(_NO_SUM) :]
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"save {path}: there is no folder {folder}; make it first")
    descriptor, beside = tempfile.mkstemp(prefix=os.path.basename(path) + ".", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as f:
            f.write(text)
            for name in order:
                f.write(memoryview(as_bytes(tensors[name])))
            f.flush()
            os.fsync(f.fileno())
        os.chmod(beside, 0o666 & ~_umask())
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read(path: Path) -> Tuple[Dict[str, torch.Tensor], Dict[str, str]]:
    """The tensors and strings of a file. A file that is not whole, that no writer makes, or that is
    not what its checksums say is DamagedError, which names the tensor. Files of other programs have
    no checksums. The tensors are read from the file when they are used, and are private: changing
    them changes no file."""
    path = os.fspath(path)
    with open(path, "rb") as f:
        size = os.fstat(f.fileno()).st_size
        if size < 8:
            raise DamagedError(f"load {path}: the file has {size} bytes, want at least 8")
        data = mmap.mmap(f.fileno(), size, access=mmap.ACCESS_COPY)
    header, start = _header(path, data, size)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise DamagedError(f"load {path}: __metadata__ is no object of strings")
    found: Dict[str, torch.Tensor] = {}
    spans: List[Tuple[int, int, str]] = []
    for name, entry in header.items():
        dtype, shape, begin, end = _entry(path, name, entry, size - start)
        spans.append((begin, end, name))
        if begin == end:
            found[name] = torch.empty(shape, dtype=dtype)
            continue
        raw = torch.frombuffer(data, dtype=torch.uint8, count=end - begin, offset=start + begin)
        if (start + begin) % torch.empty(0, dtype=dtype).element_size():
            # Some writers leave out the padding.
            raw = raw.clone()
        found[name] = raw.view(dtype).view(shape)
    at = 0
    spans.sort(key=lambda s: s[:2])
    for begin, end, _ in spans:
        if begin != at:
            raise DamagedError(
                f"load {path}: tensors overlap or leave a gap at byte {at} of the data"
            )
        at = end
    if start + at != size:
        raise DamagedError(f"load {path}: got {size} bytes, want {start + at}: it was cut off")
    strings = {str(k): str(v) for k, v in metadata.items()}
    sums = strings.pop(_SUMS, None)
    if sums is not None:
        _compare_sums(path, data, start, sums.split(" "), spans)
    return found, strings


def _compare_sums(
    path: str, data: mmap.mmap, start: int, sums: List[str], spans: List[Tuple[int, int, str]]
) -> None:
    """Compares a file with its checksums."""
    head = data[:start]
    own = head.find(_SUM_AT) + len(_SUM_AT)
    got = f"{crc32c(head[:own] + _NO_SUM + head[own + len(_NO_SUM) :]):08x}"
    if sums[0] != got or head[own : own + len(_NO_SUM)] != got.encode():
        raise DamagedError(
            f"load {path}: its header has the checksum {got}, want {sums[0][:8]} as recorded in it"
        )
    if len(sums) != 1 + len(spans):
        raise DamagedError(
            f"load {path}: {_SUMS}: got {len(sums)} checksums, want {1 + len(spans)}: of the header "
            "and of each tensor"
        )
    with memoryview(data) as view:
        for want, (begin, end, name) in zip(sums[1:], spans):
            got = f"{crc32c(view[start + begin : start + end]):08x}"
            if got != want:
                raise DamagedError(
                    f"load {path}: tensor {name}: its {end - begin} bytes have the checksum {got}, "
                    f"want {want[:8]}; the file was damaged: take another one"
                )


def _header(path: str, data: mmap.mmap, size: int) -> Tuple[dict, int]:
    length = int.from_bytes(data[:8], "little")
    if length > min(size - 8, _HEADER_LIMIT):
        raise DamagedError(
            f"load {path}: its header would have {length} bytes, the file has {size}: it was cut "
            "off, or is no safetensors file"
        )
    try:
        header = json.loads(data[8 : 8 + length].decode())
    except ValueError as e:
        raise DamagedError(f"load {path}: header: {e}") from None
    if not isinstance(header, dict):
        raise DamagedError(f"load {path}: its header is no JSON object")
    return header, 8 + length


def _entry(
    path: str, name: str, entry: object, size: int
) -> Tuple[torch.dtype, List[int], int, int]:
    try:
        dtype, shape = _TYPES[entry["dtype"]], entry["shape"]  # type: ignore[index]
        begin, end = entry["data_offsets"]  # type: ignore[index]
        whole = all(isinstance(n, int) and n >= 0 for n in [*shape, begin, end])
    except (KeyError, TypeError, ValueError):
        raise DamagedError(f"load {path}: tensor {name}: cannot read {entry!r}") from None
    width = torch.empty(0, dtype=dtype).element_size()
    if not whole or not end <= size or end - begin != width * math.prod(shape):
        raise DamagedError(
            f"load {path}: tensor {name}: bytes {begin} to {end} of {size} do not hold "
            f"{entry['dtype']} of shape {shape}"  # type: ignore[index]
        )
    return dtype, shape, begin, end
