"""Element types of programs: one row each, with the names the parts of an artifact give it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DType:
    """`pto`: in .pto; `cpp`: in kernels; `enum`: `DataType::…` in orchestrations; `torch`: in references; `meta`: in
    compiled_meta.json; `size`: bytes."""

    name: str
    pto: str
    cpp: str
    enum: str
    torch: str
    meta: str
    size: int

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        return self.name[0] in "FB" and self.name != "BOOL"

    @property
    def is_integer(self) -> bool:
        return not self.is_float and self.name != "BOOL"


_ROWS = (
    ("FP32", "f32", "float", "FLOAT32", "float32", "fp32", 4),
    ("FP16", "f16", "half", "FLOAT16", "float16", "fp16", 2),
    ("BF16", "bf16", "bfloat16_t", "BFLOAT16", "bfloat16", "bfloat16", 2),
    ("INT8", "i8", "int8_t", "INT8", "int8", "int8", 1),
    ("INT16", "i16", "int16_t", "INT16", "int16", "int16", 2),
    ("INT32", "i32", "int32_t", "INT32", "int32", "int32", 4),
    ("INT64", "i64", "int64_t", "INT64", "int64", "int64", 8),
    ("UINT8", "ui8", "uint8_t", "UINT8", "uint8", "uint8", 1),
    ("UINT16", "ui16", "uint16_t", "UINT16", "uint16", "uint16", 2),
    ("UINT32", "ui32", "uint32_t", "UINT32", "uint32", "uint32", 4),
    ("UINT64", "ui64", "uint64_t", "UINT64", "uint64", "uint64", 8),
    ("BOOL", "i1", "bool", "BOOL", "bool", "bool", 1),
    ("INDEX", "index", "int64_t", "INT64", "int64", "index", 8),
)
DTYPES: dict[str, DType] = {row[0]: DType(*row) for row in _ROWS}

FP32, FP16, BF16 = DTYPES["FP32"], DTYPES["FP16"], DTYPES["BF16"]
INT8, INT16, INT32, INT64 = (DTYPES[f"INT{n}"] for n in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (DTYPES[f"UINT{n}"] for n in (8, 16, 32, 64))
BOOL, INDEX = DTYPES["BOOL"], DTYPES["INDEX"]
