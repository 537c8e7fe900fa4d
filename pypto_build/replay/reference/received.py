"""Reads data from a child that ran code of an artifact: values and our own records, without calling any function."""

from __future__ import annotations

import dataclasses
import enum
import io
import pickle
from typing import Any

import msgspec

_PLAIN = {
    ("pathlib", "PosixPath"),
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("builtins", "complex"),
    ("builtins", "memoryview"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    *((f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        if module.startswith("pypto_build.") and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module and _is_record(found):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no value")


def written(value: Any) -> bytes:
    """Return the bytes that ``read_value`` reads. Objects are written by themselves, without reducers of other
    packages.

    Raises an error of pickle for a value that cannot be sent.
    """
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream)
    pickler.dispatch_table = {memoryview: lambda view: (memoryview, (bytes(view),))}
    pickler.dump(value)
    return stream.getvalue()


def _is_record(kind: type) -> bool:
    if issubclass(kind, tuple):
        return hasattr(kind, "_fields")  # a NamedTuple, whose `__new__` makes a tuple and does nothing else
    return dataclasses.is_dataclass(kind) or issubclass(kind, (enum.Enum, Exception, msgspec.Struct))


def read_value(data: bytes) -> Any:
    """Return the value. Raises ValueError for invalid bytes."""
    try:
        return _Reader(io.BytesIO(data)).load()
    except Exception as error:  # invalid bytes can raise any exception
        raise ValueError(str(error)) from None
