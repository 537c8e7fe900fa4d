"""Cases, like those of table_cases, of instructions that move, choose, index, sort and convert."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.runtime.instructions.table_cases import (
    COLS,
    ROWS,
    SCALAR,
    A,
    B,
    C,
    Case,
    D,
    Operand,
    Operands,
    numbers,
    of,
    region,
    tile,
)
from tests.runtime.instructions.tile_harness import FLOATS, INTS, Array, decode, encode, size_of

_EVERY = (str(ROWS), str(COLS))
_LEFT = 5  # columns of the first part of a concatenation
_GLOBAL = Operand("g", values=lambda dtype: numbers(dtype, 2), is_global=True)
_OUT = Operand("g", values=lambda dtype: numbers(dtype, 4), is_global=True)
_MASK = of("m", np.random.default_rng(8).integers(0, 256, (ROWS, 32)), "u8", layout="ND", valid=_EVERY)
_INDEX = of("i", np.random.default_rng(9).permutation(ROWS * COLS).reshape(ROWS, COLS), "i32", valid=("v[0]", "v[1]"))


def _bits(t: Operands) -> Array:
    return np.unpackbits(t["m"].astype(np.uint8), axis=1, bitorder="little")[:, :COLS].astype(bool)


def _moves() -> dict[str, Case]:
    def store(t: Operands, h: int, w: int) -> None:
        t["g"][:h, :w] = t["a"][:h, :w]

    def insert(t: Operands, h: int, w: int) -> None:
        t["l"][16 : 16 + h, 32 : 32 + w] = t["a"][:h, :w]

    def transpose(t: Operands, h: int, w: int) -> None:
        t["d"][:w, :h] = t["a"][:h, :w].T

    def concat(t: Operands, h: int, w: int) -> None:
        t["l"][:h, :_LEFT] = t["a"][:h, :_LEFT]
        t["l"][:h, _LEFT : _LEFT + w] = t["b"][:h, :w]

    def pad(t: Operands, h: int, w: int) -> None:
        kept = t["a"][:h, :w].copy()
        for name in t.keys() & {"p", "l"}:
            t[name][:] = 0
            t[name][:h, :w] = kept

    large = Operand(
        "l", rows=64, cols=64, valid=("64", "64"), values=lambda dtype: np.tile(numbers(dtype, 4), (2, 2)), pad="Zero"
    )
    padded = tile("p", 4, pad="Zero")
    first, part = tile("a", 1, valid=("v[0]", str(_LEFT))), tile("b", 2)
    # a source that reaches as far beyond the corner as the destination does
    whole = Operand("a", rows=64, cols=64, valid=("64", "64"), values=lambda dtype: np.tile(numbers(dtype, 1), (2, 2)))

    def corner(t: Operands, h: int, w: int) -> None:
        t["d"][:h, :w] = t["a"][16 : 16 + h, 32 : 32 + w]

    return {
        "TLOAD": Case("TLOAD(d, g);", (D, _GLOBAL), region(lambda t: t["g"])),
        "TPREFETCH": Case("TPREFETCH(d, g);", (D, _GLOBAL), region(lambda t: t["g"])),
        "TSTORE": Case("TSTORE(g, a);", (A, _OUT), store),
        "TMOV": Case("TMOV(d, a);", (D, A), region(lambda t: t["a"])),
        "TEXTRACT": Case("TEXTRACT(d, a, 16, 32);", (D, whole), corner),
        "TINSERT": Case("TINSERT(l, a, 16, 32);", (large, A), insert),
        "TTRANS": Case("TTRANS(d, a, a);", (D, A), transpose),
        "TCONCAT": Case("TCONCAT(l, a, b);", (large, first, part), concat),
        "TFILLPAD": Case("TFILLPAD(p, a);", (padded, A), pad),
        "TFILLPAD_INPLACE": Case("TFILLPAD_INPLACE(p, a);", (padded, A), pad),
        "TFILLPAD_EXPAND": Case("TFILLPAD_EXPAND(l, a);", (large, A), pad),
    }


def _choices() -> dict[str, Case]:
    def compare(other: Callable[[Operands], Array]) -> Callable[[Operands, int, int], None]:
        def model(t: Operands, h: int, w: int) -> None:
            bits = np.packbits((t["a"] == other(t))[:h, :w], axis=1, bitorder="little")
            t["m"][:h, : bits.shape[1]] = bits

        return model

    return {
        "TCMP": Case("TCMP(m, a, b, CmpMode::EQ);", (_MASK, A, B), compare(lambda t: t["b"])),
        "TCMPS": Case("TCMPS(m, a, s, CmpMode::EQ);", (_MASK, A), compare(lambda t: np.full((ROWS, COLS), SCALAR))),
        "TSEL": Case("TSEL(d, m, a, b, c);", (D, _MASK, A, B, C), region(lambda t: np.where(_bits(t), t["a"], t["b"]))),
        "TSELS": Case("TSELS(d, m, a, c, s);", (D, _MASK, A, C), region(lambda t: np.where(_bits(t), t["a"], SCALAR))),
    }


def _indices() -> dict[str, Case]:
    def sequence(t: Operands, h: int, w: int) -> None:
        t["r"][0, :w] = SCALAR + np.arange(w)

    def triangle(t: Operands, h: int, w: int) -> None:
        r, c = np.mgrid[:h, :w]
        t["d"][:h, :w] = c <= r + 2

    def gather_rows(t: Operands, h: int, w: int) -> None:
        chosen = t["a"][:h, 1:w:2]
        t["d"].reshape(-1)[: chosen.size] = chosen.reshape(-1)

    def scatter(t: Operands, h: int, w: int) -> None:
        t["d"].reshape(-1)[t["i"][:h, :w].reshape(-1)] = t["a"][:h, :w].reshape(-1)

    def spread(t: Operands, h: int, w: int) -> None:
        t["l"][:] = 0
        t["l"][:h, 1 : 2 * w : 2] = t["a"][:h, :w]

    def gather_global(t: Operands, h: int, w: int) -> None:
        t["d"][:h, :w] = t["g"][t["x"][0, :h]][:, :w]

    def scatter_global(t: Operands, h: int, w: int) -> None:
        t["g"][t["x"][0, :h], :w] = t["a"][:h, :w]

    row = tile("r", 2, rows=1, valid=("1", "v[1]"))
    rows = of("x", np.random.default_rng(7).permutation(ROWS).reshape(1, ROWS), "i32", layout="ND", valid=("1", "v[0]"))
    wide = Operand("l", cols=64, valid=("32", "64"), values=lambda dtype: np.tile(numbers(dtype, 4), (1, 2)))
    blocks = of("o", 32 * np.arange(ROWS * 8)[::-1].reshape(ROWS, 8) % 1024, "u32", layout="ND", valid=("v[0]", "8"))
    return {
        "TCI": Case("TCI<r_t, r_t::DType, 0>(r, s);", (row,), sequence),
        "TTRI": Case("TTRI<d_t, 0>(d, 2);", (D,), triangle),
        "TGATHER": Case("TGATHER(d, a, i, a);", (D, A, _INDEX), region(lambda t: t["a"].reshape(-1)[t["i"]])),
        "TGATHER mask": Case("TGATHER<d_t, a_t, MaskPattern::P1010>(d, a);", (D, A), gather_rows),
        "TGATHERB": Case("TGATHERB(d, a, o);", (D, A, blocks), _gather_blocks),
        "TSCATTER": Case("TSCATTER(d, a, i);", (D, A, _INDEX), scatter),
        "TSCATTER mask": Case("TSCATTER<MaskPattern::P1010>(l, a);", (wide, A), spread),
        "MGATHER": Case("MGATHER<Coalesce::Row>(d, g, x);", (D, _GLOBAL, rows), gather_global),
        "MSCATTER": Case("MSCATTER<Coalesce::Row>(g, a, x);", (_OUT, A, rows), scatter_global),
    }


def _gather_blocks(t: Operands, h: int, w: int) -> None:
    size = size_of(t.dtype)
    block = 32 // size
    flat = t["a"].reshape(-1)
    for r in range(h):
        for c in range(0, w, block):
            start, width = t["o"][r, c // block] // size, min(block, w - c)
            t["d"][r, c : c + width] = flat[start : start + width]


def philox(counter: int, key: tuple[int, int], rounds: int) -> list[int]:
    """The four words of a block of the generator."""
    x = [(counter >> (32 * k)) & 0xFFFFFFFF for k in range(4)]
    k0, k1 = key
    for _ in range(rounds):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(b >> 32) ^ x[1] ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ x[3] ^ k1, a & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return x


def _records(values: Array, positions: Array, dtype: str) -> Array:
    """Rows of values and positions as records of eight bytes, seen as numbers of the values' type."""
    bits = encode(values, dtype).view("u4" if dtype == "f32" else "u2").astype(np.uint32)
    pairs = np.stack([bits, positions.astype(np.uint32)], axis=-1).reshape(len(values), 2 * values.shape[1])
    return decode(pairs.view(np.float32 if dtype == "f32" else np.float16), dtype)


def _sorted(values: Array, positions: Array) -> tuple[Array, Array]:
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(values, order, 1), np.take_along_axis(positions, order, 1)


def _sorting() -> dict[str, Case]:
    positions = np.arange(ROWS * COLS).reshape(ROWS, COLS)

    def sort(t: Operands, h: int, w: int) -> None:
        records = _records(*_sorted(t["a"][:h, :w], positions[:h, :w]), t.dtype)
        t["d"][:h, : records.shape[1]] = records

    def blocks(dtype: str) -> Array:
        values = np.sort(decode(numbers("i32", 1)[:1], "i32").reshape(4, 8))[:, ::-1].reshape(1, COLS)
        return encode(_records(values, positions[:1], dtype), dtype)

    def merge(t: Operands, h: int, w: int) -> None:
        width = 8 // size_of(t.dtype)
        count, values = w * width, t["a"][:, ::width]
        t["d"][:, :count] = _records(*_sorted(values[:, :w], positions[:1, :w]), t.dtype)

    whole = Operand("d", records=True, values=lambda dtype: np.zeros((ROWS, COLS * 8 // size_of(dtype)), dtype="u1"))
    line = Operand(
        "d", rows=1, records=True, values=lambda dtype: np.zeros((1, COLS * 8 // size_of(dtype)), dtype="u1")
    )
    source = Operand("a", rows=1, records=True, valid=("1", "v[1] * int64_t(8 / sizeof(a_t::DType))"), values=blocks)
    index = of("i", positions, "u32")
    return {
        "TSORT32": Case("TSORT32(d, a, i, a);", (whole, A, index), sort),
        "TMRGSORT": Case("TMRGSORT(d, a, uint32_t(8 * 8 / sizeof(a_t::DType)));", (line, source), merge),
    }


def _rearranging() -> dict[str, Case]:
    def interleave(t: Operands, h: int, w: int) -> None:
        line = np.stack([t["a"][:h, :w], t["b"][:h, :w]], axis=-1).reshape(h, 2 * w)
        t["d"][:h, :w], t["c"][:h, :w] = line[:, :w], line[:, w:]

    def deinterleave(t: Operands, h: int, w: int) -> None:
        line = np.concatenate([t["a"][:h, :w], t["b"][:h, :w]], axis=1)
        t["d"][:h, :w], t["c"][:h, :w] = line[:, ::2], line[:, 1::2]

    def pack(t: Operands, h: int, w: int) -> None:
        size = size_of(t.dtype)
        t["n"][:h, :w] = encode(t["a"], t.dtype).view("u1").reshape(ROWS, COLS, size)[:h, :w, 0]

    def pairs(t: Operands, h: int, w: int) -> None:
        sums = np.pad(t["a"][:h, :w], ((0, 0), (0, w % 2))).reshape(h, (w + 1) // 2, 2).sum(axis=2)
        t["d"][:h, :w] = 0
        t["d"][:h, : sums.shape[1]] = sums

    def histogram(t: Operands, h: int, w: int) -> None:
        for r in range(h):
            t["n"][r] = np.bincount(t["a"][r, :w], minlength=256).cumsum()

    bytes_, counts = of("n", np.full((ROWS, COLS), 9), "u8"), of("n", np.full((ROWS, 256), 9), "u32")
    zeros = of("i", np.zeros((ROWS, COLS)), "u8", layout="DN", valid=_EVERY)
    return {
        "TINTERLEAVE": Case("TINTERLEAVE(c, d, b, a);", (D, A, B, C), interleave),
        "TDEINTERLEAVE": Case("TDEINTERLEAVE(c, d, b, a);", (D, A, B, C), deinterleave),
        "TPACK": Case("TPACK(n, a);", (bytes_, A), pack),
        "TPAIRREDUCESUM": Case("TPAIRREDUCESUM(d, a);", (D, A), pairs),
        "THISTOGRAM": Case("THISTOGRAM<HistByte::BYTE_0>(n, a, i);", (counts, A, zeros), histogram),
    }


def _random(t: Operands, h: int, w: int) -> None:
    """Rows shorter than the 64 blocks that are made at once have the first word of each."""
    words = [[philox(0xFFFFFFFF + r * (COLS // 4) + c, (1, 2), 10)[0] for c in range(w)] for r in range(h)]
    t["d"][:h, :w] = np.array(words, np.int64).reshape(h, w)


def _conversions() -> dict[str, Case]:
    def floats(name: str, value: int) -> Operand:
        column = np.arange(ROWS).reshape(ROWS, 1) % 4 + value
        return of(name, column, "f32", layout="DN", valid=("v[0]", "1"))

    scale, offset, small = floats("k", 1), floats("o", 0), of("n", np.full((ROWS, COLS), 9), "i8")
    result = of("n", np.full((ROWS, COLS), 9), "f32")
    cases = {
        "TQUANT": Case(
            "TQUANT<QuantType::INT8_SYM>(n, a, k);",
            (small, A, scale),
            region(lambda t: np.rint(t["a"] * t["k"]).astype(np.int64), "n"),
        ),
        "TDEQUANT": Case(
            "TDEQUANT(n, a, k, o);",
            (result, A, scale, offset),
            region(lambda t: (t["a"] - t["o"]) * t["k"], "n"),
        ),
    }
    for target in (*FLOATS, *INTS, "i64", "u64"):
        blank = of("n", np.full((ROWS, COLS), 9), target)
        call = "TCVT(n, b, RoundMode::CAST_RINT);"
        cases[f"TCVT {target}"] = Case(call, (blank, B), region(lambda t: t["b"], "n"))
    return cases


def move_cases() -> dict[str, Case]:
    """Instructions that move elements; a name with a word behind it is another form of the instruction."""
    random = Case("TRandomKey key = {1, 2}; TRandomCounter at = {~0u, 0, 0, 0}; TRANDOM(d, key, at);", (D,), _random)
    cases = _moves() | _choices() | _indices() | _sorting() | _rearranging() | _conversions()
    return cases | {"TRANDOM": random}
