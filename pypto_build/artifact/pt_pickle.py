"""Reads the pickle in a ``.pt`` file without torch: accepts a plain tensor, refuses everything else.

Only the records below are ever created, so a file cannot run code. Pickle opcodes are checked against a list before
anything is read. The only callables that a file can name rebuild a tensor or make an ``OrderedDict``.
"""

from __future__ import annotations

import collections
import io
import math
import pickle
from typing import Any

import msgspec

from pypto_build.facts.dtypes import ITEMSIZE

from .shapes import row_major_strides

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
    """The pickle is damaged, or holds something else than one plain tensor."""


class TensorRecord(msgspec.Struct, frozen=True):
    """The tensor in a pickle; ``storage_key`` names the archive entry with the bytes."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage_key: str
    storage_nbytes: int


class _Dtype(str):
    """A dtype that the pickle names, as ``torch.uint16``."""


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
    """The pickle of a contiguous tensor whose bytes are archive entry ``data/0``."""
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
    """Raise `RefusedPickle` with the first thing that is wrong."""
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
    """Return whether every opcode up to the end is allowed and complete; if not, pickletools finds the reason."""
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
            raise RefusedPickle("is damaged: its pickle refers to something that is no storage")
        if not isinstance(size, int) or not 0 <= size <= _LARGEST:
            raise RefusedPickle("is damaged: the size of its storage is no size")
        return _Storage(str(dtype) or None, key, size)


def _rebuild(
    storage: _Storage, offset: int, shape: _Sizes, strides: _Sizes, grad: bool, hooks: object, metadata: object = None
) -> TensorRecord:
    if metadata:
        raise RefusedPickle("holds a conjugated or negated view; save its .clone()")
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
        raise RefusedPickle(f"holds a tensor of dtype {name!r}, which is not read")
    return _record(storage, str(dtype), offset, shape, strides)


_REBUILD = {"_rebuild_tensor_v2": _rebuild, "_rebuild_tensor_v3": _rebuild_untyped}


def _record(storage: _Storage, dtype: str, offset: Any, shape: Any, strides: Any) -> TensorRecord:
    numbers = (offset, *shape, *strides)
    if len(shape) != len(strides) or not all(isinstance(n, int) and 0 <= n <= _LARGEST for n in numbers):
        raise RefusedPickle("is damaged: its shape, strides or offset are no sizes")
    if len(shape) > _MAX_RANK:
        raise RefusedPickle(f"is damaged: it has {len(shape)} dimensions")
    itemsize = ITEMSIZE[dtype]
    nbytes = storage.size if storage.dtype is None else storage.size * ITEMSIZE[storage.dtype]
    last = offset + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    if 0 not in shape and (last + 1) * itemsize > nbytes:
        raise RefusedPickle(f"is damaged: shape {list(shape)} reaches beyond its {nbytes} bytes")
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
