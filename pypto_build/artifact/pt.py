"""``.pt`` files (one tensor each, as ``torch.save`` writes them), read and written without torch and numpy.

A ``.pt`` file is a zip archive of uncompressed entries: ``data.pkl`` describes the tensor, ``data/0`` holds the bytes
of its storage. The bytes are mapped, not copied.
"""

from __future__ import annotations

import collections
import io
import itertools
import math
import mmap
import os
import pickle
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from pypto_build.facts.dtypes import ITEMSIZE

from .errors import ArtifactError, ErrorKind
from .files import open_file, replace_file
from .shapes import row_major_strides

# Reads the pickle in a ``.pt`` file without torch: accepts a plain tensor, refuses everything else.
# Only the records below are ever created, so a file cannot run code. Pickle opcodes are checked against a list
# before anything is read. The only callables that a file can name rebuild a tensor or make an ``OrderedDict``.

_MAX_PICKLE = 1 << 16
_MAX_MEMO = 1 << 12
#: Each repeated use of the memo may double an object; a tensor needs none.
_MAX_GETS = 16
_MAX_RANK = 64
_Sizes = tuple[int, ...]
_LARGEST = (1 << 63) - 1
#: Largest size, laid out, of a tensor whose elements share bytes (`expand`, `unfold`).
_MAX_SHARED = 1 << 30
_MAX_SLICES = 1 << 20

#: torch's typed storages -> torch dtype name; element types newer than these are saved with `UntypedStorage`.
STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}

_OPCODES = (
    "PROTO FRAME STOP MARK GLOBAL STACK_GLOBAL REDUCE BINPERSID BINPUT LONG_BINPUT MEMOIZE BINGET LONG_BINGET NONE "
    "NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE EMPTY_TUPLE TUPLE TUPLE1 "
    "TUPLE2 TUPLE3 EMPTY_LIST APPEND APPENDS EMPTY_DICT SETITEM SETITEMS BINBYTES SHORT_BINBYTES"
)
_ALLOWED_OPCODES = frozenset(_OPCODES.split(" "))

#: Bytes of the argument behind each allowed opcode; of the counted ones, bytes of the count before the argument.
_ARGUMENT = {getattr(pickle, name)[0]: 0 for name in _ALLOWED_OPCODES if hasattr(pickle, name)} | {
    **{pickle.PROTO[0]: 1, pickle.BININT1[0]: 1, pickle.BINPUT[0]: 1, pickle.BINGET[0]: 1, pickle.BININT2[0]: 2},
    **{pickle.BININT[0]: 4, pickle.LONG_BINPUT[0]: 4, pickle.LONG_BINGET[0]: 4},
    **{pickle.BINFLOAT[0]: 8, pickle.FRAME[0]: 8},
}
_COUNT = {
    **{pickle.LONG1[0]: 1, pickle.SHORT_BINUNICODE[0]: 1, pickle.SHORT_BINBYTES[0]: 1},
    **{pickle.BINUNICODE[0]: 4, pickle.BINBYTES[0]: 4},
}
_GETS = {pickle.BINGET[0], pickle.LONG_BINGET[0]}
_MEMO = {pickle.LONG_BINPUT[0], pickle.LONG_BINGET[0]}


class RefusedPickle(Exception):
    """The pickle is damaged, or contains anything but one plain tensor."""


class TensorRecord(msgspec.Struct, frozen=True):
    """The tensor in a pickle; ``storage_key`` names the archive entry with the bytes."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage_key: str
    storage_nbytes: int


class _Dtype(str):
    """A dtype named in the pickle, such as ``torch.uint16``."""


class _Storage(msgspec.Struct, frozen=True):
    dtype: str | None
    key: str
    size: int


def load_record(data: bytes) -> TensorRecord:
    """Return the tensor that the pickle ``data`` describes. Raises `RefusedPickle` with the reason."""
    _check_opcodes(data)
    try:
        result = _TensorUnpickler(io.BytesIO(data)).load()
    except RefusedPickle:
        raise
    except Exception as error:  # a damaged pickle raises almost anything
        raise RefusedPickle(f"is damaged: its pickle cannot be read ({error})") from None
    if not isinstance(result, TensorRecord):
        what = "dtype" if isinstance(result, _Dtype) else type(result).__name__
        raise RefusedPickle(f"holds a {what}, not a tensor")
    return result


def dump_record(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the pickle of a contiguous tensor whose bytes are archive entry ``data/0``."""
    strides = row_major_strides([max(extent, 1) for extent in shape])
    count = math.prod(shape)
    typed = next((name for name, element in STORAGES.items() if element == dtype), None)
    rebuild = "_rebuild_tensor_v2" if typed else "_rebuild_tensor_v3"
    storage = ("torch", typed) if typed else ("torch.storage", "UntypedStorage")
    size = count if typed else count * ITEMSIZE[dtype]
    return b"".join(
        (
            b"\x80\x02",
            _global("torch._utils", rebuild),
            b"((",
            _text("storage"),
            _global(*storage),
            _text("0"),
            _text("cpu"),
            _integer(size),
            b"tQ",
            _integer(0),
            _integers(shape),
            _integers(strides),
            b"\x89",
            _global("collections", "OrderedDict"),
            b")R",
            b"" if typed else _global("torch", dtype),
            b"tR.",
        )
    )


def _check_opcodes(data: bytes) -> None:
    if len(data) > _MAX_PICKLE:
        raise RefusedPickle("holds more than one tensor: its pickle is too long")
    if _looks_plain(data):
        return
    _check_named(data)


def _check_named(data: bytes) -> None:
    """Raise `RefusedPickle` with the first fault of the pickle."""
    import pickletools  # takes longer to import than all else that a replay needs, and most files are plain

    named, gets = "", 0
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "GLOBAL":
                named = str(argument).replace(" ", ".")
            elif opcode.name not in _ALLOWED_OPCODES:
                raise RefusedPickle(f"holds {named or 'an object'}, not a plain tensor (pickle opcode {opcode.name})")
            if opcode.name.startswith("LONG_BIN") and isinstance(argument, int) and argument > _MAX_MEMO:
                raise RefusedPickle("is damaged: its pickle memo is too large")
            gets += opcode.name in ("BINGET", "LONG_BINGET")
            if gets > _MAX_GETS:
                raise RefusedPickle("is damaged: its pickle refers to itself too often")
    except RefusedPickle:
        raise
    except Exception as error:
        raise RefusedPickle(f"is damaged: its pickle cannot be read ({error})") from None


def _looks_plain(data: bytes) -> bool:
    """Return whether every opcode up to the end is allowed and complete; if not, pickletools determines the reason."""
    position = gets = 0
    while position < len(data):
        code, position = data[position], position + 1
        if code == pickle.STOP[0]:
            return position == len(data)
        if code == pickle.GLOBAL[0]:
            module = data.find(b"\n", position)
            name = data.find(b"\n", module + 1)
            if module < 0 or name < 0:
                return False
            position = name + 1
        elif code in _COUNT:
            width = _COUNT[code]
            position += width + int.from_bytes(data[position : position + width], "little")
        elif code in _ARGUMENT:
            width = _ARGUMENT[code]
            gets += code in _GETS
            if gets > _MAX_GETS:
                return False
            if code in _MEMO and int.from_bytes(data[position : position + width], "little") > _MAX_MEMO:
                return False
            position += width
        else:
            return False
    return False


class _TensorUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module == "torch._utils" and name in _REBUILD:
            return _REBUILD[name]
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if module == "torch" and name in STORAGES:
            return _Dtype(STORAGES[name])
        if module == "torch.storage" and name in ("UntypedStorage", "TypedStorage"):
            return _Dtype("")
        if module == "torch" and name in ITEMSIZE:
            return _Dtype(name)
        raise RefusedPickle(f"holds {module}.{name}, not a plain tensor")

    def persistent_load(self, pid: Any) -> _Storage:
        tag, dtype, key, _location, size = pid
        if tag != "storage" or not isinstance(dtype, _Dtype) or not (isinstance(key, str) and key.isdecimal()):
            raise RefusedPickle("is damaged: its pickle refers to something that is not a storage")
        if not isinstance(size, int) or not 0 <= size <= _LARGEST:
            raise RefusedPickle("is damaged: the size of a storage is not a valid number")
        return _Storage(str(dtype) or None, key, size)


def _rebuild(
    storage: _Storage, offset: int, shape: _Sizes, strides: _Sizes, grad: bool, hooks: object, metadata: object = None
) -> TensorRecord:
    if metadata:
        raise RefusedPickle("holds a conjugated or negated view; save a .clone() of it")
    if storage.dtype is None:
        raise RefusedPickle("is damaged: its storage has no dtype")
    return _record(storage, storage.dtype, offset, shape, strides)


def _rebuild_untyped(
    storage: _Storage,
    offset: int,
    shape: _Sizes,
    strides: _Sizes,
    grad: bool,
    hooks: object,
    dtype: _Dtype,
    metadata: object = None,
) -> TensorRecord:
    if metadata or not isinstance(dtype, _Dtype) or dtype not in ITEMSIZE:
        name = str(dtype) if isinstance(dtype, _Dtype) else type(dtype).__name__
        raise RefusedPickle(f"holds a tensor of dtype {name!r}, which is not supported")
    return _record(storage, str(dtype), offset, shape, strides)


_REBUILD = {"_rebuild_tensor_v2": _rebuild, "_rebuild_tensor_v3": _rebuild_untyped}


def _record(storage: _Storage, dtype: str, offset: Any, shape: Any, strides: Any) -> TensorRecord:
    numbers = (offset, *shape, *strides)
    if len(shape) != len(strides) or not all(isinstance(n, int) and 0 <= n <= _LARGEST for n in numbers):
        raise RefusedPickle("is damaged: its shape, strides or offset are not valid numbers")
    if len(shape) > _MAX_RANK:
        raise RefusedPickle(f"is damaged: it has {len(shape)} dimensions")
    itemsize = ITEMSIZE[dtype]
    nbytes = storage.size if storage.dtype is None else storage.size * ITEMSIZE[storage.dtype]
    last = offset + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    if 0 not in shape and (last + 1) * itemsize > nbytes:
        raise RefusedPickle(f"is damaged: its shape {list(shape)} needs more than the {nbytes} bytes that are stored")
    count = math.prod(shape)
    if count * itemsize > nbytes and (count * itemsize > _MAX_SHARED or count // max(shape) > _MAX_SLICES):
        raise RefusedPickle(f"holds a view of shape {list(shape)} that repeats its {nbytes} bytes")
    return TensorRecord(dtype, tuple(shape), tuple(strides), offset, storage.key, nbytes)


def _global(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def _text(text: str) -> bytes:
    return b"X" + len(text).to_bytes(4, "little") + text.encode()


def _integer(value: int) -> bytes:
    if value < 1 << 31:
        return b"J" + value.to_bytes(4, "little", signed=True)
    return b"\x8a\x09" + value.to_bytes(9, "little", signed=True)


def _integers(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(map(_integer, values)) + b"t"


_LEGACY_MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19"
_RESAVE = "save it again: torch.save(tensor.detach().cpu().contiguous(), path)"
_ALIGNMENT = 64
_FORMATS: dict[int, Literal["B", "H", "I", "Q"]] = {1: "B", 2: "H", 4: "I", 8: "Q"}
#: Exceptions of zipfile for damaged archives.
_DAMAGED = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError),
    *(ValueError, OverflowError, struct.error),
)
_DOS_EPOCH = (1980, 1, 1, 0, 0, 0)


class PtTensor(msgspec.Struct, frozen=True):
    """One tensor: torch dtype name, shape, strides and offset in elements, and the bytes of its whole storage.

    ``data`` is a read-only view of the mapped file, valid as long as it is referenced.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    data: memoryview

    @property
    def itemsize(self) -> int:
        """Return the bytes per element."""
        return ITEMSIZE[self.dtype]

    @property
    def numel(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Return whether the elements lie in row-major order without gaps."""
        rows = zip(self.shape, self.strides, row_major_strides(self.shape), strict=True)
        return not self.numel or all(extent == 1 or stride == expected for extent, stride, expected in rows)

    def contiguous(self) -> memoryview:
        """Return the elements' bytes in row-major order; copy them only if they are stored in another order."""
        start, size = self.offset * self.itemsize, self.numel * self.itemsize
        if self.is_contiguous:
            return self.data[start : start + size] if size else memoryview(b"")
        count = len(self.data) // self.itemsize
        elements = _as_elements(self.data[: count * self.itemsize], self.itemsize)
        out = bytearray(size)
        _gather(elements, _as_elements(memoryview(out), self.itemsize), self.offset, _axes(self.shape, self.strides))
        return memoryview(out).toreadonly()


def read_pt(path: str | Path, *, kind: ErrorKind = "usage_error") -> PtTensor:
    """Return the tensor saved at ``path``.

    Raises an `ArtifactError` of ``kind`` naming a file that is missing, truncated, big-endian, older than torch 1.6, or
    more than one plain tensor. No code in the file is run.
    """
    path = Path(path)
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise RefusedPickle("is empty")
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            if bytes(view[: len(_LEGACY_MAGIC)]) == _LEGACY_MAGIC:
                raise RefusedPickle("was written by a torch older than 1.6, whose format is not supported")
            if bytes(view[:4]) != b"PK\x03\x04":
                raise RefusedPickle("is not a file written by torch.save")
            with zipfile.ZipFile(file) as archive:
                return _read_archive(archive, view)
    except FileNotFoundError:
        raise ArtifactError(path, "no such file", "save the tensor there", kind=kind) from None
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror or error}", kind=kind) from None
    except _DAMAGED:
        raise ArtifactError(
            path, "is truncated or damaged: it is not a readable zip archive", _RESAVE, kind=kind
        ) from None
    except RefusedPickle as error:
        raise ArtifactError(path, str(error), _RESAVE, kind=kind) from None


def write_pt(path: str | Path, dtype: str, shape: Sequence[int], data: bytes | bytearray | memoryview) -> None:
    """Write a contiguous tensor so that ``torch.load(path, weights_only=True)`` reads it.

    ``data`` are its elements in row-major order, little-endian. Equal tensors give equal bytes; the file is written
    atomically. Raises ``ValueError`` if ``dtype`` is unknown or the size of ``data`` does not match ``shape``.
    """
    view = memoryview(data).cast("B") if memoryview(data).nbytes else memoryview(b"")
    expected = ITEMSIZE.get(dtype, 0) * math.prod(shape)
    if dtype not in ITEMSIZE or view.nbytes != expected:
        raise ValueError(f"{path}: a tensor of dtype {dtype} and shape {list(shape)} cannot have {view.nbytes} bytes")
    with replace_file(Path(path)) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "data.pkl", dump_record(dtype, tuple(shape)))
        _add(archive, "byteorder", b"little")
        _add(archive, "data/0", view, align_at=file.tell())
        _add(archive, "version", b"3\n")


def _read_archive(archive: zipfile.ZipFile, view: memoryview) -> PtTensor:
    names = archive.namelist()
    pickle_name = next((name for name in names if name.count("/") == 1 and name.endswith("/data.pkl")), None)
    if pickle_name is None:
        raise RefusedPickle("is a zip archive without data.pkl, so torch.save did not write it")
    prefix = pickle_name.removesuffix("data.pkl")
    if f"{prefix}byteorder" in names and bytes(_entry(archive, view, f"{prefix}byteorder")) != b"little":
        raise RefusedPickle("is big-endian; save it on a little-endian machine")
    record: TensorRecord = load_record(bytes(_entry(archive, view, pickle_name)))
    storage_name = f"{prefix}data/{record.storage_key}"
    if storage_name not in names:
        raise RefusedPickle(f"is damaged: the entry {storage_name} is missing")
    data = _entry(archive, view, storage_name)
    if len(data) != record.storage_nbytes:
        raise RefusedPickle(f"is damaged: {storage_name} has {len(data)} bytes instead of {record.storage_nbytes}")
    return PtTensor(record.dtype, record.shape, record.strides, record.offset, data)


def _entry(archive: zipfile.ZipFile, view: memoryview, name: str) -> memoryview:
    """Return the bytes of one archive entry: a slice of the mapped file, since torch stores entries uncompressed."""
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED:
        raise RefusedPickle("is a compressed zip archive; save it with torch.save")
    header = view[info.header_offset : info.header_offset + 30]
    if info.flag_bits & 1 or len(header) < 30 or bytes(header[:4]) != b"PK\x03\x04":
        raise zipfile.BadZipFile(name)
    start = info.header_offset + 30 + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    data = view[start : start + info.file_size]
    if len(data) != info.file_size:
        raise zipfile.BadZipFile(name)
    return data


def _add(archive: zipfile.ZipFile, name: str, data: bytes | memoryview, align_at: int | None = None) -> None:
    info = zipfile.ZipInfo(f"archive/{name}", _DOS_EPOCH)
    info.create_system = 3
    info.external_attr = 0o600 << 16
    if align_at is not None:
        # An extra field pads the header, so that a mapped file has its elements aligned.
        gap = -(align_at + 30 + len(info.filename) + 4) % _ALIGNMENT
        info.extra = b"FB" + gap.to_bytes(2, "little") + b"Z" * gap
    archive.writestr(info, data)


def _as_elements(data: memoryview, itemsize: int) -> memoryview:
    return data.cast(_FORMATS[itemsize])


def _axes(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Return extent, stride in the storage and stride in row-major order for each axis, the longest axis last."""
    rows = zip(shape, strides, row_major_strides(shape), strict=True)
    return sorted((extent, stride, packed) for extent, stride, packed in rows if extent > 1)


def _gather(elements: memoryview, out: memoryview, start: int, axes: Sequence[tuple[int, int, int]]) -> None:
    """Copy the elements along ``axes``, beginning at ``start``, slice by slice along the longest axis."""
    *outer, (extent, stride, packed) = axes
    for steps in itertools.product(*(range(count) for count, _, _ in outer)):
        first, to = start, 0
        for step, (_, along, along_packed) in zip(steps, outer, strict=True):
            first, to = first + step * along, to + step * along_packed
        target = slice(to, to + (extent - 1) * packed + 1, packed)
        if stride:
            out[target] = elements[first : first + (extent - 1) * stride + 1 : stride]
        else:
            out[target] = _repeated(elements, first, extent)


def _repeated(elements: memoryview, index: int, count: int) -> memoryview:
    one = elements[index : index + 1]
    return _as_elements(memoryview(one.tobytes() * count), one.itemsize)
