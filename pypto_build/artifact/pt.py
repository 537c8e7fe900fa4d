"""``.pt`` files (one tensor each, as ``torch.save`` writes them), read and written without torch and numpy.

A ``.pt`` file is a zip archive of uncompressed entries: ``data.pkl`` describes the tensor, ``data/0`` holds the bytes
of its storage. The bytes are mapped, not copied.
"""

from __future__ import annotations

import itertools
import math
import mmap
import os
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from pypto_build.facts.dtypes import ITEMSIZE

from .atomic import replace_file
from .errors import ArtifactError, ErrorKind
from .files import open_file
from .pt_pickle import RefusedPickle, TensorRecord, dump_record, load_record
from .shapes import row_major_strides

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
        """Bytes per element."""
        return ITEMSIZE[self.dtype]

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Return whether the elements lie in row-major order without gaps."""
        rows = zip(self.shape, self.strides, row_major_strides(self.shape), strict=True)
        return not self.numel or all(extent == 1 or stride == expected for extent, stride, expected in rows)

    def contiguous(self) -> memoryview:
        """The elements' bytes in row-major order; a copy only if they do not lie so already."""
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

    Raises an `ArtifactError` of ``kind`` naming a file that is missing, truncated, big-endian, of the format before
    torch 1.6, or other than one plain tensor. No code in the file is run.
    """
    path = Path(path)
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise RefusedPickle("is empty")
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            if bytes(view[: len(_LEGACY_MAGIC)]) == _LEGACY_MAGIC:
                raise RefusedPickle("is in the format of torch before 1.6")
            if bytes(view[:4]) != b"PK\x03\x04":
                raise RefusedPickle("is not a file that torch.save wrote")
            with zipfile.ZipFile(file) as archive:
                return _read_archive(archive, view)
    except FileNotFoundError:
        raise ArtifactError(path, "no such file", "save the tensor there", kind=kind) from None
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror or error}", kind=kind) from None
    except _DAMAGED:
        raise ArtifactError(path, "is truncated or damaged: no readable zip archive", _RESAVE, kind=kind) from None
    except RefusedPickle as error:
        raise ArtifactError(path, str(error), _RESAVE, kind=kind) from None


def write_pt(path: str | Path, dtype: str, shape: Sequence[int], data: bytes | bytearray | memoryview) -> None:
    """Writes a contiguous tensor so that ``torch.load(path, weights_only=True)`` reads it.

    ``data`` are its elements in row-major order, little-endian. Same tensor, same bytes; the file appears whole or not
    at all. Raises ``ValueError`` if ``dtype`` is unknown or ``data`` has another size than ``shape`` says.
    """
    view = memoryview(data).cast("B") if memoryview(data).nbytes else memoryview(b"")
    expected = ITEMSIZE.get(dtype, 0) * math.prod(shape)
    if dtype not in ITEMSIZE or view.nbytes != expected:
        raise ValueError(f"{path}: {view.nbytes} bytes are no {dtype} tensor of shape {list(shape)}")
    with replace_file(Path(path)) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "data.pkl", dump_record(dtype, tuple(shape)))
        _add(archive, "byteorder", b"little")
        _add(archive, "data/0", view, align_at=file.tell())
        _add(archive, "version", b"3\n")


def _read_archive(archive: zipfile.ZipFile, view: memoryview) -> PtTensor:
    names = archive.namelist()
    pickle_name = next((name for name in names if name.count("/") == 1 and name.endswith("/data.pkl")), None)
    if pickle_name is None:
        raise RefusedPickle("is a zip archive without data.pkl, not a file that torch.save wrote")
    prefix = pickle_name.removesuffix("data.pkl")
    if f"{prefix}byteorder" in names and bytes(_entry(archive, view, f"{prefix}byteorder")) != b"little":
        raise RefusedPickle("is big-endian")
    record: TensorRecord = load_record(bytes(_entry(archive, view, pickle_name)))
    storage_name = f"{prefix}data/{record.storage_key}"
    if storage_name not in names:
        raise RefusedPickle(f"is damaged: its entry {storage_name} is missing")
    data = _entry(archive, view, storage_name)
    if len(data) != record.storage_nbytes:
        raise RefusedPickle(f"is damaged: {storage_name} has {len(data)} bytes instead of {record.storage_nbytes}")
    return PtTensor(record.dtype, record.shape, record.strides, record.offset, data)


def _entry(archive: zipfile.ZipFile, view: memoryview, name: str) -> memoryview:
    """Bytes of one entry: a slice of the mapped file, since torch stores entries uncompressed."""
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED:
        raise RefusedPickle("is a compressed zip archive")
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
    """Extent, stride in the storage and stride in row-major order of each axis, the longest last."""
    rows = zip(shape, strides, row_major_strides(shape), strict=True)
    return sorted((extent, stride, packed) for extent, stride, packed in rows if extent > 1)


def _gather(elements: memoryview, out: memoryview, start: int, axes: Sequence[tuple[int, int, int]]) -> None:
    """Copy the elements that lie along ``axes`` from ``start`` on: slice by slice along the longest axis."""
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
