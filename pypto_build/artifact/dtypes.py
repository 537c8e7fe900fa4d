"""Element types: one table from torch's names to item size and to the names the compiler and the C++ side use."""

from __future__ import annotations

#: torch name -> bytes per element.
ITEMSIZE: dict[str, int] = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
    "bool": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e8m0fnu": 1,
}

#: dtypes that simpler has no name for, and those of the same size that carry their bits there.
SIMPLER_CARRIERS: dict[str, str] = {"bool": "uint8", "uint64": "int64", "float8_e5m2": "uint8"}

_ALIASES: dict[str, str] = {
    "fp64": "float64",
    "double": "float64",
    "fp32": "float32",
    "float": "float32",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "bfloat16_t": "bfloat16",
    "index": "int64",
    "size_t": "uint64",
    "int": "int32",
    "unsigned": "uint32",
    "fp8e4m3fn": "float8_e4m3fn",
    "float8_e4m3_t": "float8_e4m3fn",
    "fp8e5m2": "float8_e5m2",
    "float8_e5m2_t": "float8_e5m2",
    "fp8e8m0": "float8_e8m0fnu",
    "float8_e8m0_t": "float8_e8m0fnu",
}


def torch_name(spelling: str) -> str | None:
    """The torch name of a dtype spelt as in ``compiled_meta.json``, C++ or ``DataType::``; ``None`` if unknown."""
    word = spelling.rpartition("::")[2].strip().lower()
    if word in ITEMSIZE:
        return word
    if word in _ALIASES:
        return _ALIASES[word]
    if word.endswith("_t") and word[:-2] in ITEMSIZE:
        return word[:-2]
    return None
