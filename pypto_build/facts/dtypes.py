"""Element types: one row each, with the name that every part of an artifact gives it.

C++ cannot read this table: a test compares it with runtime/include/pypto/data_type.h and the names in runtime/src.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    ``name``: in programs; ``pto``: in .pto; ``cpp``: in kernels; ``torch``: in snapshots and references; ``enum``:
    ``DataType::…`` in orchestrations; ``meta``: in compiled_meta.json. A name is empty if the type has none there.
    ``size``: bytes of an element. ``exponent`` and ``mantissa``: bits of a floating-point type. ``other_pto``: further
    spellings in .pto. ``aliases``: other names in C++ and manifests, in lower case.
    """

    name: str
    pto: str
    cpp: str
    torch: str
    enum: str
    meta: str
    size: int
    exponent: int = 0
    mantissa: int = 0
    other_pto: str = ""
    aliases: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        return self.exponent > 0

    @property
    def is_integer(self) -> bool:
        return not self.is_float and self.name != "BOOL"

    @property
    def is_unsigned(self) -> bool:
        return self.name.startswith("UINT")

    @property
    def storage(self) -> str:
        """Return numpy's type of the stored elements; an unsigned integer type if numpy lacks the floating-point
        type.
        """
        if self.name == "BOOL":
            return "?"
        native = self.name in ("FP64", "FP32", "FP16")
        kind = "f" if native else "u" if self.is_float or self.is_unsigned else "i"
        return f"{'<' if self.size > 1 else ''}{kind}{self.size}"

    @property
    def epsilon(self) -> float:
        """Return the unit roundoff of a floating-point type."""
        return float(2.0 ** -(self.mantissa + 1))


DTYPES: dict[str, DType] = {
    row.name: row
    for row in (
        DType("FP64", "f64", "double", "float64", "", "fp64", 8, 11, 52),
        DType("FP32", "f32", "float", "float32", "FLOAT32", "fp32", 4, 8, 23),
        DType("FP16", "f16", "half", "float16", "FLOAT16", "fp16", 2, 5, 10),
        DType("BF16", "bf16", "bfloat16_t", "bfloat16", "BFLOAT16", "bfloat16", 2, 8, 7, aliases=("bf16",)),
        DType("INT64", "i64", "int64_t", "int64", "INT64", "int64", 8, other_pto="si64"),
        DType("INT32", "i32", "int32_t", "int32", "INT32", "int32", 4, other_pto="si32", aliases=("int",)),
        DType("INT16", "i16", "int16_t", "int16", "INT16", "int16", 2, other_pto="si16"),
        DType("INT8", "i8", "int8_t", "int8", "INT8", "int8", 1, other_pto="si8"),
        DType("UINT64", "ui64", "uint64_t", "uint64", "UINT64", "uint64", 8, aliases=("size_t",)),
        DType("UINT32", "ui32", "uint32_t", "uint32", "UINT32", "uint32", 4, aliases=("unsigned",)),
        DType("UINT16", "ui16", "uint16_t", "uint16", "UINT16", "uint16", 2),
        DType("UINT8", "ui8", "uint8_t", "uint8", "UINT8", "uint8", 1),
        DType("BOOL", "i1", "bool", "bool", "BOOL", "bool", 1),
        DType("FP8E4M3FN", "f8E4M3FN", "float8_e4m3_t", "float8_e4m3fn", "FP8E4M3FN", "fp8e4m3fn", 1, 4, 3),
        DType("FP8E5M2", "f8E5M2", "float8_e5m2_t", "float8_e5m2", "", "fp8e5m2", 1, 5, 2),
        DType("FP8E8M0", "f8E8M0", "float8_e8m0_t", "float8_e8m0fnu", "FP8E8M0", "fp8e8m0", 1, 8, 0),
        # as wide as an address: numbers of programs, never elements of a tensor
        DType("INDEX", "index", "int64_t", "int64", "INT64", "index", 8),
        # what tiles may have and tensors of a run may not
        DType("FP8E4M3", "f8E4M3", "float8_e4m3_t", "", "", "", 1, 4, 3),
        DType("HIF8", "hif8", "hifloat8_t", "", "", "", 1, 4, 3),  # near one; further away it has less mantissa
        DType("HIF8X2", "hif8x2", "", "", "", "", 1, 4, 3),
        DType("FP4E2M1", "f4E2M1x2", "float4_e2m1x2_t", "", "FP4E2M1", "", 1, 2, 1),
        DType("FP4E1M2", "f4E1M2x2", "float4_e1m2x2_t", "", "", "", 1, 1, 2),
        DType("INT4", "i4", "", "", "", "", 1),
    )
}  # fmt: skip

#: The element types of programs, by the names that programs give them.
FP32, FP16, BF16 = DTYPES["FP32"], DTYPES["FP16"], DTYPES["BF16"]
INT8, INT16, INT32, INT64 = (DTYPES[f"INT{n}"] for n in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (DTYPES[f"UINT{n}"] for n in (8, 16, 32, 64))
BOOL, INDEX = DTYPES["BOOL"], DTYPES["INDEX"]

#: By the name in .pto.
PTO: dict[str, DType] = {name: row for row in DTYPES.values() for name in (row.pto, row.other_pto) if name}

#: By torch's name: the element types of tensors.
TORCH: dict[str, DType] = {row.torch: row for row in DTYPES.values() if row.torch and row.name != "INDEX"}

#: Torch name -> bytes per element.
ITEMSIZE: dict[str, int] = {name: row.size for name, row in TORCH.items()}

#: Torch names that simpler lacks, each with the type of the same size that carries its bits there.
SIMPLER_CARRIERS: dict[str, str] = {"bool": "uint8", "uint64": "int64", "float8_e5m2": "uint8"}

_SPELLINGS: dict[str, str] = {
    spelling.lower(): row.torch
    for row in DTYPES.values()
    for spelling in (row.torch, row.meta, row.cpp, row.enum, *row.aliases)
    if row.torch and spelling
}


def torch_name(spelling: str) -> str | None:
    """Return the torch name of a dtype spelled as in ``compiled_meta.json``, C++ or ``DataType::``; None if unknown."""
    word = spelling.rpartition("::")[2].strip().lower()
    return _SPELLINGS.get(word) or _SPELLINGS.get(word.removesuffix("_t"))
