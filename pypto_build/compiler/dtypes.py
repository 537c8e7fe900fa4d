"""Element types of programs, by the names that programs give them."""

from __future__ import annotations

from pypto_build.facts.dtypes import DTYPES, DType

__all__ = [
    "BF16", "BOOL", "FP16", "FP32", "INDEX", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64",
    "DType",
]  # fmt: skip

FP32, FP16, BF16 = DTYPES["FP32"], DTYPES["FP16"], DTYPES["BF16"]
INT8, INT16, INT32, INT64 = (DTYPES[f"INT{n}"] for n in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (DTYPES[f"UINT{n}"] for n in (8, 16, 32, 64))
BOOL, INDEX = DTYPES["BOOL"], DTYPES["INDEX"]
