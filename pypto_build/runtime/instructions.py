"""The PTO instructions on the CPU as data; ``python -m pypto_build.runtime.instructions`` prints docs/instructions.md.

A row says what the headers in include/pto define: tests hold the two together, name by name, form by form, and hold the
operands that a row reads and writes to those that the checked build records.

Operands in a form: ``dst``, ``src``, ``mask``, ``index``, ... are tiles; ``global`` and ``signal`` are in global
memory; ``scalar``, ``row``, ``mode``, ... are values; ``tmp`` is a tile that hardware needs and the CPU does not touch.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

FLOATS = ("float", "half", "bfloat16_t")
INTS = ("int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t", "uint64_t")
NUMBERS = FLOATS + INTS
ANY = (*NUMBERS, "float8_e4m3_t", "float8_e5m2_t", "float8_e8m0_t", "hifloat8_t")
HALVES = tuple(name for name in NUMBERS if name in ("float", "half", "bfloat16_t") or name[-4:] in ("16_t", "32_t"))

ROW_MAJOR = ("row-major",)
PLAIN = ("row-major", "column-major")
LAYOUTS = (*PLAIN, "boxed")

#: Operands that are no tiles.
VALUES = {
    *("scalar", "start", "row", "col", "mode", "saturation", "tmp", "global", "block_length", "executed", "pipe"),
    *("signal", "value", "op", "comparison", "atomic", "diagonal", "key", "counter", "scale", "address"),
    *("offset", "view", "group", "stage", "session", "peer", "event"),
}
_SHARED = ("TPUT", "TGET", "TNOTIFY", "TWAIT", "TTEST")


@dataclass(frozen=True)
class Instruction:
    """One instruction; ``rank`` is must, should or rest, by how often compiled kernels use it.

    ``dtypes`` are the element types that its data operands take, which ``types`` says in words where there is more to
    say, and ``layouts`` those of its tiles; both are empty where a tile is only named or passed on. ``unsupported`` is
    the sentence that a use ends the compilation with.
    """

    name: str
    group: str
    rank: str
    forms: tuple[str, ...]
    does: str
    dtypes: tuple[str, ...] = ()
    types: str = ""
    layouts: tuple[str, ...] = LAYOUTS
    memory: str = "Vec"
    pipe: str = "V"
    also_read: tuple[str, ...] = ()
    unsupported: str = ""
    writes: tuple[str, ...] = field(default=("dst",))

    @property
    def reads(self) -> tuple[str, ...]:
        """The tiles it reads."""
        found = dict.fromkeys(name for form in self.forms for name in operands(form))
        tiles = [name for name in found if name not in VALUES and name not in self.writes]
        return (*tiles, *self.also_read)


def operands(form: str) -> list[str]:
    """The names of a form's operands, optional ones included."""
    return re.findall(r"\w+", form.replace("[", "").replace("]", ""))


def _rows() -> Iterator[Instruction]:
    yield from _moves()
    yield from _elementwise()
    yield from _shapes()
    yield from _indexed()
    yield from _matrix()
    yield from _between_cores()
    yield from _unsupported()


def _moves() -> Iterator[Instruction]:
    moved = "any"
    yield Instruction(
        "TASSIGN", "addresses", "must", ("dst, address", "dst"), "places a tile or a global tensor at an address",
        types=moved, memory="any", pipe="none", writes=(),
    )  # fmt: skip
    yield Instruction(
        "TRESHAPE", "addresses", "should", ("dst, src",), "the bytes of src under another type or shape",
        types=moved, memory="any", pipe="none", writes=(),
    )  # fmt: skip
    yield Instruction(
        "TSUBVIEW", "addresses", "rest", ("dst, src, row, col",), "dst is the part of src that starts at (row, col)",
        types="equal", memory="any, both in one", pipe="none", writes=(),
    )  # fmt: skip
    yield Instruction(
        "TLOAD", "global memory", "must", ("dst, global",), "the valid region from global memory; the rest is padded",
        ANY, types="any, of one size; fp4 to Vec", memory="Vec, Mat", pipe="MTE2",
    )  # fmt: skip
    yield Instruction(
        "TSTORE", "global memory", "must", ("global, src", "global, src, scale"),
        "the valid region to global memory; AtomicAdd adds atomically; the accumulator is converted on the way", ANY,
        types="any, of one size; fp4 from Vec; Acc: floats to floats, i32 or float to 8 and 16 bits with a scale",
        memory="Vec, Mat, Acc", pipe="MTE3 (Acc: FIX)", writes=(),
    )  # fmt: skip
    yield Instruction(
        "TSTORE_FP", "global memory", "rest", ("global, src, scales",), "TSTORE with a scale for each column",
        types="Acc to 8 or 16 bits", memory="Acc", pipe="FIX", writes=(),
    )  # fmt: skip
    yield Instruction(
        "TPREFETCH", "global memory", "rest", ("dst, global",), "TLOAD, without padding", ANY,
        types="any, of one size", memory="Vec, Mat", pipe="MTE2",
    )  # fmt: skip
    for name, rank, does in (
        ("TMOV", "must", "dst = src, between memories and layouts; from Acc with conversion"),
        ("TEXTRACT", "must", "dst = the part of src that starts at (row, col), between memories and layouts"),
        ("TINSERT", "should", "puts src into dst, starting at (row, col)"),
    ):
        place = "" if name == "TMOV" else ", row, col"
        yield Instruction(
            name, "moves", rank, (f"dst, src{place}", f"dst, src, scale{place}"), does, ANY,
            types="equal; from Acc: floats among each other, i32 or float to 8 and 16 bits with a scale",
            memory="Vec, Mat, Left, Right, Acc, Bias, Scaling", pipe="V, MTE1 or FIX",
        )  # fmt: skip
        yield Instruction(
            f"{name}_FP", "moves", "rest", (f"dst, src, scales{place}",), f"{name} with a scale for each column",
            types="Acc to 8 or 16 bits", memory="Acc", pipe="FIX",
        )  # fmt: skip
    yield Instruction("TTRANS", "moves", "should", ("dst, src, tmp",), "dst[c, r] = src[r, c]", ANY)
    yield Instruction(
        "TCONCAT", "moves", "should", ("dst, src0, src1", "dst, src0, src1, counts0, counts1"),
        "src1 to the right of src0; of each row as many as counts say, in bytes of a count", ANY,
    )  # fmt: skip
    for name, rank in (("TFILLPAD", "must"), ("TFILLPAD_INPLACE", "should"), ("TFILLPAD_EXPAND", "should")):
        yield Instruction(
            name, "moves", rank, ("dst, src",), "src's valid region, and the pad value of dst everywhere else",
            ANY,
        )  # fmt: skip


def _elementwise() -> Iterator[Instruction]:
    binary = (
        ("TADD", "must", NUMBERS, "src0 + src1"), ("TSUB", "must", NUMBERS, "src0 - src1"),
        ("TMUL", "must", NUMBERS, "src0 * src1"), ("TDIV", "must", NUMBERS, "src0 / src1"),
        ("TMAX", "must", NUMBERS, "max(src0, src1)"), ("TMIN", "should", NUMBERS, "min(src0, src1)"),
        ("TAND", "should", INTS, "src0 & src1"), ("TOR", "should", INTS, "src0 | src1"),
        ("TXOR", "rest", INTS, "src0 ^ src1"), ("TSHL", "should", INTS, "src0 << src1"),
        ("TSHR", "should", INTS, "src0 >> src1, with the sign if there is one"),
        ("TPRELU", "rest", FLOATS, "src0 > 0 ? src0 : src0 * src1"),
        ("TREM", "rest", NUMBERS, "src0 - floor(src0 / src1) * src1"),
        ("TFMOD", "rest", NUMBERS, "src0 - trunc(src0 / src1) * src1"),
        ("TPOW", "rest", NUMBERS, "src0 to the power of src1"),
        ("TADDRELU", "rest", NUMBERS, "max(src0 + src1, 0)"), ("TSUBRELU", "rest", NUMBERS, "max(src0 - src1, 0)"),
    )  # fmt: skip
    for name, rank, dtypes, does in binary:
        yield Instruction(name, "element-wise", rank, ("dst, src0, src1",), f"dst = {does}", dtypes)
    scalar = (
        ("TADDS", "must", NUMBERS, "src + scalar"), ("TSUBS", "must", NUMBERS, "src - scalar"),
        ("TMULS", "must", NUMBERS, "src * scalar"), ("TMAXS", "should", NUMBERS, "max(src, scalar)"),
        ("TMINS", "should", NUMBERS, "min(src, scalar)"), ("TANDS", "should", INTS, "src & scalar"),
        ("TORS", "should", INTS, "src | scalar"), ("TXORS", "rest", INTS, "src ^ scalar"),
        ("TSHLS", "should", INTS, "src << scalar"), ("TSHRS", "should", INTS, "src >> scalar"),
        ("TLRELU", "rest", FLOATS, "src > 0 ? src : src * scalar"),
        ("TREMS", "rest", NUMBERS, "src - floor(src / scalar) * scalar"),
        ("TFMODS", "rest", NUMBERS, "src - trunc(src / scalar) * scalar"),
        ("TPOWS", "rest", NUMBERS, "src to the power of scalar"),
    )  # fmt: skip
    for name, rank, dtypes, does in scalar:
        yield Instruction(name, "element-wise", rank, ("dst, src, scalar",), f"dst = {does}", dtypes)
    yield Instruction(
        "TDIVS", "element-wise", "should", ("dst, src, scalar", "dst, scalar, src"),
        "dst = src / scalar, or scalar / src", NUMBERS,
    )  # fmt: skip
    yield Instruction("TEXPANDS", "element-wise", "must", ("dst, scalar",), "every element is the scalar", NUMBERS)
    unary = (
        ("TEXP", "must", FLOATS, "exp(src)"), ("TLOG", "should", FLOATS, "log(src)"),
        ("TSQRT", "must", FLOATS, "sqrt(src)"), ("TRSQRT", "must", FLOATS, "1 / sqrt(src)"),
        ("TRECIP", "must", NUMBERS, "1 / src"), ("TNEG", "must", NUMBERS, "-src"),
        ("TABS", "should", NUMBERS, "|src|"), ("TRELU", "should", NUMBERS, "max(src, 0)"),
        ("TNOT", "should", INTS, "~src"),
    )  # fmt: skip
    for name, rank, dtypes, does in unary:
        yield Instruction(name, "element-wise", rank, ("dst, src",), f"dst = {does}", dtypes)
    for name, form, does in (
        ("TADDC", "dst, src0, src1, src2", "src0 + src1 + src2"),
        ("TSUBC", "dst, src0, src1, src2", "src0 - src1 + src2"),
        ("TADDSC", "dst, src0, scalar, src1", "src0 + scalar + src1"),
        ("TSUBSC", "dst, src0, scalar, src1", "src0 - scalar + src1"),
    ):
        yield Instruction(name, "element-wise", "rest", (form,), f"dst = {does}", NUMBERS)
    for name, form, does, dtypes in (
        ("TAXPY", "dst, src, scalar", "dst + src * scalar", FLOATS),
        ("TFUSEDMULADD", "dst, src0, src1", "src0 * dst + src1", NUMBERS),
        ("TFUSEDMULADDRELU", "dst, src0, src1", "max(src0 * dst + src1, 0)", NUMBERS),
        ("TMULADDDST", "dst, src0, src1", "src0 * src1 + dst", NUMBERS),
    ):
        yield Instruction(name, "element-wise", "rest", (form,), f"dst = {does}", dtypes, also_read=("dst",))
    yield Instruction(
        "TCVT", "conversion", "must",
        ("dst, src, mode", "dst, src, mode, saturation", "dst, src, tmp, mode", "dst, src, tmp, mode, saturation"),
        "dst = src in dst's type, rounded and saturated as hardware does", NUMBERS,
        types="any two numbers; fp8 and hif8 to and from float, hif8 from half; int4 and fp4 to and from floats",
        layouts=PLAIN,
    )  # fmt: skip
    for name, form, does, types in (
        ("TADDRELUCONV", "dst, src0, src1", "max(src0 + src1, 0)", "f32 to f16; f16, i16 to i8"),
        ("TSUBRELUCONV", "dst, src0, src1", "max(src0 - src1, 0)", "f32 to f16; f16, i16 to i8"),
        ("TADDDEQRELU", "dst, src0, src1, scale, tmp", "max((src0 + src1) * scale, 0)", "i32 to f16"),
    ):
        yield Instruction(
            name, "conversion", "rest", (form,), f"dst = {does}, to nearest even, saturated", types=types,
            layouts=ROW_MAJOR,
        )  # fmt: skip
    yield Instruction(
        "TQUANT", "conversion", "rest", ("dst, src, scales", "dst, src, scales, tmp"),
        "dst = round(src * scale + offset), saturated; a scale for each row", ("float",),
        types="f32 to i8 or u8",
    )  # fmt: skip
    yield Instruction(
        "TDEQUANT", "conversion", "rest", ("dst, src, scales, offsets",), "dst = (src - offset) * scale", INTS,
        types="integers to f32",
    )  # fmt: skip
    for name, form, does in (
        ("TCMP", "mask, src0, src1, mode", "src0 ? src1"),
        ("TCMPS", "mask, src, scalar, mode", "src ? scalar"),
    ):
        yield Instruction(
            name, "comparison", "should", (form,), f"mask = {does}, a bit an element; of i32 on a2a3 always equality",
            NUMBERS, layouts=ROW_MAJOR, writes=("mask",),
        )  # fmt: skip
    yield Instruction(
        "TSEL", "comparison", "should", ("dst, mask, src0, src1, tmp",), "dst = mask ? src0 : src1", NUMBERS,
        layouts=ROW_MAJOR,
    )  # fmt: skip
    yield Instruction(
        "TSELS", "comparison", "should", ("dst, mask, src, tmp, scalar",), "dst = mask ? src : scalar", NUMBERS,
        layouts=ROW_MAJOR,
    )  # fmt: skip


def _shapes() -> Iterator[Instruction]:
    for axis, line in (("ROW", "row"), ("COL", "column")):
        for name, rank, does in (
            ("SUM", "must" if axis == "ROW" else "should", "the sum"), ("PROD", "rest", "the product"),
            ("MAX", "must" if axis == "ROW" else "should", "the greatest"), ("MIN", "should", "the least"),
        ):  # fmt: skip
            form = "dst, src, tmp" if axis == "ROW" else "dst, src"
            yield Instruction(
                f"T{axis}{name}", "reduction", rank, (form,), f"{does} of each {line}; 16-bit floats add up in f32",
                NUMBERS, layouts=PLAIN,
            )  # fmt: skip
        for name, does in (("ARGMAX", "greatest"), ("ARGMIN", "least")):
            yield Instruction(
                f"T{axis}{name}", "reduction", "should" if axis == "ROW" else "rest",
                ("positions, src, tmp", "values, positions, src, tmp"),
                f"where in each {line} the {does} is first, and what it is", NUMBERS,
                types="numbers; positions: i32 or u32", layouts=PLAIN, writes=("positions", "values"),
            )  # fmt: skip
        yield Instruction(
            f"T{axis}EXPAND", "expansion", "should", ("dst, src",), f"the value of each {line}, all over it",
            NUMBERS, layouts=ROW_MAJOR,
        )  # fmt: skip
        for name, does in (
            ("ADD", "src0 + src1"), ("SUB", "src0 - src1"), ("MUL", "src0 * src1"), ("DIV", "src0 / src1"),
            ("MAX", "max(src0, src1)"), ("MIN", "min(src0, src1)"), ("EXPDIF", "exp(src0 - src1)"),
        ):  # fmt: skip
            must = (axis == "ROW" and name in ("MUL", "DIV", "SUB")) or (axis == "COL" and name == "MUL")
            narrow = "one source has a value a row" if axis == "ROW" else "src1 is a row"
            yield Instruction(
                f"T{axis}EXPAND{name}", "expansion", "must" if must else "should", ("dst, src0, src1",),
                f"dst = {does}; {narrow}", FLOATS if name == "EXPDIF" else NUMBERS, layouts=ROW_MAJOR,
            )  # fmt: skip
    for name, does in (("ADD", "sum"), ("MUL", "product"), ("MAX", "greater"), ("MIN", "less")):
        yield Instruction(
            f"TPART{name}", "partial", "rest", ("dst, src0, src1",),
            f"the {does} where both sources are valid, a copy where one is", NUMBERS, layouts=ROW_MAJOR,
        )  # fmt: skip
    for name in ("ARGMAX", "ARGMIN"):
        yield Instruction(
            f"TPART{name}", "partial", "rest", ("dst, src0, src1, positions, index0, index1",),
            "the value and the position taken with it", NUMBERS, types="numbers; positions: i32 or u32",
            writes=("dst", "positions"),
        )  # fmt: skip


def _indexed() -> Iterator[Instruction]:
    yield Instruction(
        "TCI", "indices", "should", ("dst, start", "dst, start, tmp"), "start, start + 1, ...; or descending",
        NUMBERS, layouts=ROW_MAJOR, pipe="S",
    )  # fmt: skip
    yield Instruction(
        "TTRI", "indices", "rest", ("dst, diagonal",), "1 in the lower or upper triangle, else 0", NUMBERS,
        layouts=ROW_MAJOR,
    )  # fmt: skip
    yield Instruction(
        "TRANDOM", "indices", "rest", ("dst, key, counter",),
        "Philox 4x32, seven or ten rounds; 64 blocks make up to 256 columns",
        ("int32_t", "uint32_t"), layouts=ROW_MAJOR,
    )  # fmt: skip
    yield Instruction(
        "TGATHER", "indexed", "should",
        ("dst, src, index", "dst, src", "dst, src, threshold, count, tmp, offset", "group, global, stage"),
        "elements by index; columns or rows by a mask pattern; positions of those that pass a comparison; "
        "the rows of all ranks", ANY,
        types="any; index: integers", layouts=ROW_MAJOR,
        writes=("dst", "count"),
    )  # fmt: skip
    yield Instruction(
        "TGATHERB", "indexed", "rest", ("dst, src, offsets",), "blocks of 32 bytes by byte offset", ANY,
        layouts=ROW_MAJOR,
    )  # fmt: skip
    yield Instruction(
        "TSCATTER", "indexed", "should", ("dst, src, index", "dst, src", "group, global, stage"),
        "elements to an index; columns or rows to some by a mask pattern; rows to the ranks", ANY,
        types="any; index: integers", layouts=ROW_MAJOR, pipe="S, V",
    )  # fmt: skip
    yield Instruction(
        "MGATHER", "indexed", "should", ("dst, global, index", "dst, global, global"),
        "rows or elements of global memory by index, which may be in global memory too", ANY,
        types="any; index: i32", pipe="MTE2, S",
    )  # fmt: skip
    yield Instruction(
        "MSCATTER", "indexed", "should", ("global, src, index",), "rows or elements to global memory; also atomically",
        ANY, types="any, numbers if atomic; index: i32", pipe="MTE3, S", writes=(),
    )  # fmt: skip
    yield Instruction(
        "TSORT32", "sorting", "should", ("dst, src, index",), "groups of 32, descending, as pairs of value and index",
        ("float", "half"), types="float, half; index: u32", layouts=ROW_MAJOR,
    )  # fmt: skip
    lists = ("dst, executed, tmp, src0, src1", "dst, executed, tmp, src0, src1, src2")
    yield Instruction(
        "TMRGSORT", "sorting", "should",
        ("dst, src, block_length", *lists, "dst, executed, tmp, src0, src1, src2, src3"),
        "merges sorted lists of pairs: blocks of one tile, or two to four tiles", ("float", "half"),
        layouts=ROW_MAJOR, writes=("dst", "tmp"),
    )  # fmt: skip
    for name, does in (
        ("TINTERLEAVE", "the elements of two tiles in turn"), ("TDEINTERLEAVE", "even and odd elements apart"),
    ):  # fmt: skip
        forms = ("dst1, dst0, src1, src0",) + (("dst1, dst0, src",) if name == "TDEINTERLEAVE" else ())
        yield Instruction(name, "rearranging", "rest", forms, does, ANY, layouts=ROW_MAJOR, writes=("dst1", "dst0"))
    yield Instruction(
        "TPACK", "rearranging", "rest", ("dst, src",), "the low bits of each element", HALVES,
        types="numbers of 16 or 32 bits to narrower integers", layouts=ROW_MAJOR,
    )  # fmt: skip
    yield Instruction(
        "TPAIRREDUCESUM", "rearranging", "rest", ("dst, src",), "sums of neighbours in a row", NUMBERS,
        layouts=ROW_MAJOR,
    )  # fmt: skip
    yield Instruction(
        "THISTOGRAM", "rearranging", "rest", ("dst, src, index",), "how often each byte, or a lesser one, occurs",
        ("uint16_t", "uint32_t"), types="u16, u32 to u32", layouts=ROW_MAJOR,
    )  # fmt: skip


def _matrix() -> Iterator[Instruction]:
    types = "f32 from f32, f16, bf16, fp8 or hif8 pairs; i32 from i8 pairs"
    for name, rank in (("TMATMUL", "must"), ("TGEMV", "should")):
        yield Instruction(
            name, "matrix", rank, ("dst, left, right",), "dst = left @ right", types=types,
            memory="Left, Right to Acc", pipe="M",
        )  # fmt: skip
        forms = ("dst, accumulator, left, right",) + (("dst, left, right",) if name == "TMATMUL" else ())
        yield Instruction(
            f"{name}_ACC", "matrix", rank, forms, "dst = accumulator + left @ right", types=types,
            memory="Left, Right, Acc to Acc", pipe="M",
        )  # fmt: skip
        yield Instruction(
            f"{name}_BIAS", "matrix", "should", ("dst, left, right, bias",), "dst = left @ right + bias", types=types,
            memory="Left, Right, Bias to Acc", pipe="M",
        )  # fmt: skip


def _between_cores() -> Iterator[Instruction]:
    for name, form, does in (
        ("TALLOC", "pipe, view", "waits for a free slot to write to"),
        ("TPUSH", "pipe, tile", "puts a tile, or the slot allocated, into the pipe; waits while it is full"),
        ("TPOP", "pipe, tile", "takes the oldest slot; waits while there is none"),
        ("TFREE", "pipe", "gives the oldest slot taken back to the producer"),
    ):
        yield Instruction(
            name, "pipes", "should" if name != "TALLOC" else "rest", (form,), does, types="any",
            memory="Vec, Mat, Acc", pipe="MTE2, MTE3 or FIX", writes=("tile",) if name == "TPOP" else (),
        )  # fmt: skip
    for name, form, does in (
        ("TPUT", "global, global, tile, atomic", "copies to another rank's memory; also adds atomically"),
        ("TGET", "global, global, tile", "copies from another rank's memory"),
        ("TNOTIFY", "signal, value, op", "sets or adds to a signal, atomically"),
        ("TWAIT", "signal, value, comparison", "waits until the comparison holds"),
        ("TTEST", "signal, value, comparison", "whether the comparison holds"),
        ("SYNCALL", "", "waits for every core of the task"),
        ("TBROADCAST", "group, global, stage", "copies to every rank"),
        ("TREDUCE", "group, global, stage, stage, op", "the sum, greatest or least over the ranks, in their order"),
        ("TPUT_ASYNC", "global, global, session, peer", "copies to another rank's memory, at once"),
        ("TGET_ASYNC", "global, global, session, peer", "copies from another rank's memory, at once"),
        ("TPREFETCH_ASYNC", "global, session", "nothing: the CPU has caches of its own"),
    ):
        yield Instruction(
            name, "communication", "should" if name in _SHARED else "rest", (form,), does, types="any; signals: i32",
            memory="global", pipe="S", writes=(),
        )  # fmt: skip
    yield Instruction(
        "TSYNC", "communication", "rest", ("", "event"), "nothing: what it waits for is complete on the CPU",
        types="any", memory="any", pipe="all", writes=(),
    )  # fmt: skip
    yield Instruction(
        "TPRINT", "communication", "rest", ("tile", "tile, tmp", "global"), "prints a matrix", types="any", pipe="S",
        writes=(),
    )  # fmt: skip


def _unsupported() -> Iterator[Instruction]:
    convolution, microscaled = "convolution is not supported", "microscaled matrix multiplication is not supported"
    for name, sentence, instead in (
        ("TIMG2COL", convolution, ""), ("SETFMATRIX", convolution, ""), ("SET_IMG2COL_RPT", convolution, ""),
        ("SET_IMG2COL_PADDING", convolution, ""),
        ("TMATMUL_MX", microscaled, ""), ("TGEMV_MX", microscaled, ""), ("TGET_SCALE_ADDR", microscaled, ""),
        ("SET_QUANT_SCALAR", "pipes that convert are not supported", "use TMOV with a scale"),
        ("SET_QUANT_VECTOR", "pipes that convert are not supported", "use TMOV_FP"),
    ):  # fmt: skip
        message = f"{name}: {sentence} by the CPU runtime" + (f"; {instead}" if instead else "")
        yield Instruction(name, "not supported", "rest", (), "", writes=(), unsupported=message)


INSTRUCTIONS: dict[str, Instruction] = {row.name: row for row in _rows()}

_INTRODUCTION = """# Instructions

What `pto/pto-inst.hpp` of the embedded runtime has, for both generations of the platform. An instruction works on the
valid region of the tile it writes, which comes first; layouts and paddings are those of the tiles. *Reads* and *writes*
are what the checked build (`CHECK=1`) records; *rank* is how often compiled kernels use it. *Types* are those of the
elements that it computes with or moves, one type for all operands where the row does not say otherwise.
"""


_TESTS = """## Tests

`pytest tests/runtime/instructions` runs every row on each of its element types, in each of its layouts, for full,
partial and empty valid regions. `CXX` names another compiler for all of them, `PYPTO_TEST_CXXFLAGS` more flags:

    CXX=clang++-19 PYPTO_TEST_CXXFLAGS=-DPYPTO_CHECK pytest tests/runtime/instructions
    PYPTO_TEST_CXXFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined" ASAN_OPTIONS=detect_leaks=0 \\
        LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)" \\
        pytest tests/runtime/instructions

A program of many instructions runs under the sanitizers, and on an emulated aarch64 where its compiler is installed,
each time; `python -m tests.runtime.sanitize aarch64` runs the whole runtime with the example artifacts there.
"""


def document() -> str:
    """The page docs/instructions.md."""
    lines = [_INTRODUCTION]
    groups = dict.fromkeys(row.group for row in INSTRUCTIONS.values())
    names = {
        FLOATS: "floats", INTS: "integers", NUMBERS: "numbers", ANY: "any",
        ("int32_t", "uint32_t"): "i32, u32", ("float", "half"): "float, half",
    }  # fmt: skip
    layouts = {ROW_MAJOR: "row-major", PLAIN: "row- or column-major", LAYOUTS: "any"}
    for group in groups:
        rows = [row for row in INSTRUCTIONS.values() if row.group == group]
        if rows[0].unsupported:
            lines += ["## Not supported", "", "A use ends the compilation with the sentence.", ""]
            lines += [
                "| instruction | sentence |",
                "|---|---|",
                *(f"| {row.name} | {row.unsupported} |" for row in rows),
                "",
            ]
            continue
        lines += [f"## {group[0].upper()}{group[1:]}", ""]
        lines += ["| instruction | form | does | types | layouts | memory | pipe | reads | writes | rank |"]
        lines += ["|" + "---|" * 10]
        for row in rows:
            forms = "<br>".join(f"`({form})`" for form in row.forms)
            types = row.types or names[row.dtypes]
            cells = (row.name, forms, row.does.replace("|", "\\|"), types, layouts[row.layouts], row.memory, row.pipe)
            lines.append(f"| {' | '.join((*cells, ', '.join(row.reads), ', '.join(row.writes), row.rank))} |")
        lines.append("")
    lines += ["`floats` are float, half and bfloat16_t; `integers` those of 8 to 64 bits; `numbers` both.", "", _TESTS]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(document())
