"""Functions of all vector operations on exact numbers, and the allowed error of a result.

A result is exact, which is rounded once, or so many units in the last place away. That is at most 1e-6 of a result in
f32 and 2e-3 in f16 (bf16 has only 8 bits), unless a comment says why not. Integers are always exact: they wrap.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial as partial_function
from typing import Any

import numpy as np

from tests.pto.torch_case import COLS, ROWS, VALID, Case, Use, bits_of, both, safe, use, whole

FULL = ((ROWS, COLS), (ROWS, COLS))
#: exp(a - b): the difference is rounded before, which in f16 shifts the result by as much as 2.5e-2.
DIFFERENCE = 24


def quotient(a: int, b: int) -> int:
    """C's; x / 0 has all bits set."""
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def fmod(a: int, b: int) -> int:
    return a if b == 0 else a - b * quotient(a, b)


def remainder(a: int, b: int) -> int:
    return a if b == 0 else a % b


def power(a: int, b: int) -> int:
    if b >= 0:
        return int(a**b)
    return 1 if a == 1 else 1 - 2 * (b % 2) if a == -1 else 0


def shift_left(a: int, by: int) -> int:
    return a << by  # as many as the element has bits shift everything out


BINARY: dict[str, tuple[Any, float]] = {
    "add": (np.add, 0), "sub": (np.subtract, 0), "mul": (np.multiply, 0), "div": (both(np.divide, quotient), 0),
    "max": (np.maximum, 0), "min": (np.minimum, 0), "fmod": (both(np.fmod, fmod), 0),
    "rem": (both(np.mod, remainder), 0), "and": (whole(lambda a, b: a & b), 0), "or": (whole(lambda a, b: a | b), 0),
    "xor": (whole(lambda a, b: a ^ b), 0), "shl": (whole(shift_left), 0), "shr": (whole(lambda a, b: a >> b), 0),
    "pow": (both(np.power, power), 1),
    "prelu": (lambda a, b: np.where(np.greater(a, 0), a, np.multiply(a, b)), 0),
    "expdif": (lambda a, b: np.exp(a - b), DIFFERENCE),
}  # fmt: skip
SECOND = {"shl": "shift", "shr": "shift", "pow": "exponent"}
FIRST = {"rem": "nonzero", "fmod": "nonzero", "pow": "nonzero", "expdif": "ties"}
SCRATCH = ("rem", "xor", "prelu")


def binary() -> Iterator[Case]:
    for fn, (compute, ulps) in BINARY.items():
        domains = {"x": FIRST.get(fn, "any"), "y": SECOND.get(fn, "any")}
        if fn != "expdif":
            yield Case(f"t{fn}", f"pto.t{fn}", f"x y{' t' if fn in SCRATCH else ''}", "z", compute, ulps, domains)
    yield Case("tpow_scratch", "pto.tpow", "x y t", "z", BINARY["pow"][0], 1, {"x": "nonzero", "y": "exponent"})
    for fn in ("add", "sub", "mul", "div", "max", "min", "fmod", "rem", "and", "or", "xor", "shl", "shr", "pow"):
        compute, ulps = BINARY[fn]
        number = "3" if fn in ("shl", "shr") else ""
        domains = {"x": FIRST.get(fn, "any")}
        for scratch in ("", " t")[: 2 if fn in ("rem", "xor", "pow") else 1]:
            name = f"t{fn}s{'_scratch' if scratch else ''}"
            yield Case(name, f"pto.t{fn}s", f"x n{scratch}", "z", compute, ulps, domains, number=number)
    yield Case("tdivs_by_tile", "pto.tdivs", "n x", "z", BINARY["div"][0])
    yield Case("tlrelu", "pto.tlrelu", "x n", "z", BINARY["prelu"][0])
    # the product is rounded before the sum
    yield Case("taxpy", "pto.taxpy", "x n", "z!", lambda x, n, z: z + x * n, 2, {"x": "positive", "z": "positive"},
               number="0.75")  # fmt: skip


def unary() -> Iterator[Case]:
    for name, compute, ulps, domain in (
        ("abs", np.abs, 0, "any"), ("neg", np.negative, 0, "any"), ("exp", np.exp, 1, "ties"),
        ("log", np.log, 1, "positive"), ("sqrt", np.sqrt, 0, "positive"), ("rsqrt", lambda x: x**-0.5, 2, "positive"),
        ("recip", lambda x: 1 / x, 0, "any"), ("relu", lambda x: np.maximum(x, 0), 0, "any"),
        ("not", whole(lambda x: ~x), 0, "any"),
    ):  # fmt: skip
        yield Case(f"t{name}", f"pto.t{name}", "x", "z", compute, ulps, {"x": domain})
    yield Case("trsqrt_scratch", "pto.trsqrt", "x t", "z", lambda x: x**-0.5, 2, {"x": "positive"}, halves=1)
    yield Case("texpands", "pto.texpands", "n", "z", lambda n: np.full(VALID, n))


def three() -> Iterator[Case]:
    """Sums of positive numbers, which round twice."""
    for fn, compute in (("add", lambda a, b, c: a + b + c), ("sub", lambda a, b, c: a - b + c)):
        domains = {"x": "positive", "y": "positive" if fn == "add" else "negative", "w": "positive"}
        number = "2" if fn == "add" else ""
        yield Case(f"t{fn}c", f"pto.t{fn}c", "x y w", "z", compute, 2, domains)
        yield Case(f"t{fn}sc", f"pto.t{fn}sc", "x n w", "z", compute, 2, domains, number=number)


REDUCE: dict[str, tuple[Any, float, str]] = {
    "sum": (np.sum, 8, "positive"), "max": (np.max, 0, "any"), "min": (np.min, 0, "any"), "prod": (np.prod, 8, "unit"),
}  # fmt: skip


def reductions() -> Iterator[Case]:
    """Sums and products of f32 round at every step, those of 16 bits once."""
    for axis, line in ((1, "row"), (0, "col")):
        out = "c" if axis else "r"
        for fn, (function, ulps, domain) in REDUCE.items():
            compute = lambda x, f=function, a=axis: f(x, axis=a, keepdims=True)  # noqa: E731
            ins = "x t" if axis else "x"  # with scratch and without
            halves = min(ulps, 1)
            yield Case(f"t{line}{fn}", f"pto.t{line}{fn}", ins, out, compute, ulps, {"x": domain}, halves=halves)
        for fn in ("argmax", "argmin"):
            function = np.argmax if fn == "argmax" else np.argmin
            where = lambda x, f=function, a=axis: f(x, axis=a, keepdims=True)  # noqa: E731
            both_of = lambda x, w=where, a=axis: (np.take_along_axis(x, w(x), a), w(x))  # noqa: E731
            for index in ("i32", "ui32"):
                name, op = f"t{line}{fn}_{index}", f"pto.t{line}{fn}"
                yield Case(name, op, "x t", f"{out}:{index}", where, domains={"x": "ties"})
                yield Case(f"{name}_and_value", op, "x t", f"{out} {out}2:{index}", both_of, domains={"x": "ties"})


def broadcasts() -> Iterator[Case]:
    yield Case("trowexpand", "pto.trowexpand", "c", "z", lambda c: np.broadcast_to(c, VALID))
    yield Case("tcolexpand", "pto.tcolexpand", "r", "z", lambda r: np.broadcast_to(r, VALID))
    for fn in ("add", "sub", "mul", "div", "max", "min", "expdif"):
        compute, ulps = BINARY[fn]
        domains = dict.fromkeys("xrcb", FIRST.get(fn, "any"))
        blocks = lambda x, b, f=compute: f(x, np.tile(b, COLS)[:, : VALID[1]])  # noqa: E731
        yield Case(f"tcolexpand{fn}", f"pto.tcolexpand{fn}", "x r", "z", compute, ulps, domains)
        yield Case(f"trowexpand{fn}", f"pto.trowexpand{fn}", "x c t", "z", compute, ulps, domains)
        yield Case(f"trowexpand{fn}_left", f"pto.trowexpand{fn}", "c x", "z", compute, ulps, domains)
        yield Case(f"trowexpand{fn}_blocks", f"pto.trowexpand{fn}", "x b", "z", blocks, ulps, domains)


def partial() -> Iterator[Case]:
    """One operand covers some columns of all rows, the other all columns of some rows."""
    places = {"x": ((ROWS, COLS), (ROWS, 40)), "y": ((ROWS, COLS), (11, COLS)), "z": FULL}

    def joined(function: Any) -> Any:
        def compute(x: Any, y: Any, before: Any) -> Any:
            result = before.copy()
            result[:, :40], result[:11] = x, y
            result[:11, :40] = function(x[:11], y[:, :40])
            return result

        return compute

    for fn in ("add", "mul", "max", "min"):
        yield Case(f"tpart{fn}", f"pto.tpart{fn}", "x y", "z!", joined(BINARY[fn][0]), places=places)

    for fn, better in (("max", np.greater_equal), ("min", np.less_equal)):

        def extreme(x: Any, y: Any, i: Any, j: Any, better: Any = better) -> Any:
            """Equal values give the first one's position; only where both are valid, and where one is."""
            x, y, i, j = (np.pad(a, ((0, ROWS - a.shape[0]), (0, COLS - a.shape[1]))) for a in (x, y, i, j))
            rows, cols = np.indices((ROWS, COLS))
            first = (cols < 40) & ((rows >= 11) | better(x, y).astype(bool))
            return np.where(first, x, y)[:, :40], np.where(first, i, j)[:, :40]

        indexed = {**places, "x2": places["x"], "y2": places["y"], "z": places["x"], "w": places["x"]}
        domains = {"x": "ties", "y": "ties"}
        for index in ("i32", "ui32"):
            yield Case(f"tpartarg{fn}_{index}", f"pto.tpartarg{fn}", f"x y x2:{index} y2:{index}", f"z w:{index}",
                       extreme, domains=domains, places=indexed)  # fmt: skip


COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
           "ge": np.greater_equal}  # fmt: skip


def choices() -> Iterator[Case]:
    for mode, function in COMPARE.items():
        within = f" {{cmpMode = #pto<cmp {mode}>}}"
        compute = lambda x, y, f=function: f(x, y).astype(bool)  # noqa: E731
        domains = {"x": "ties", "y": "ties"}
        yield Case(f"tcmp_{mode}", "pto.tcmp", "x y", "m", compute, domains=domains, within=within)
        yield Case(f"tcmps_{mode}", "pto.tcmps", "x n", "m", compute, domains=domains, within=within, number="1")
    choose = lambda m, x, y: np.where(bits_of(m), x, y)  # noqa: E731
    yield Case("tsel", "pto.tsel", "m x y t", "z", choose)
    yield Case("tsels", "pto.tsels", "m x t n", "z", choose)


def sequences() -> Iterator[Case]:
    for name, sign in (("up", 1), ("down", -1)):
        within = "" if sign == 1 else " {descending = true}"
        start = lambda n, s=sign: n + s * np.arange(VALID[1]).astype(object)[None]  # noqa: E731
        yield Case(f"tci_{name}", "pto.tci", "n", "r", start, within=within)
    rows, cols = np.indices(VALID)
    for diagonal in (-3, 0, 5):
        for upper in (0, 1):
            ones = (cols >= rows + diagonal) if upper else (cols <= rows + diagonal)
            yield Case(f"ttri_{diagonal}_{upper}", "pto.ttri", f"k{str(diagonal).replace('-', '_')}:i32", "z",
                       lambda o=ones: o.astype(int), within=f" {{upperOrLower = {upper} : i32}}")  # fmt: skip


def copies() -> Iterator[Case]:
    turned, wide = ((COLS, ROWS), (VALID[1], VALID[0])), ((ROWS, 2 * COLS), (VALID[0], 2 * VALID[1]))
    yield Case("ttrans", "pto.ttrans", "x t", "z", np.transpose, places={"z": turned})
    yield Case("tconcat", "pto.tconcat", "x y", "z", lambda x, y: np.concatenate((x, y), 1), places={"z": wide})

    def counted(size: int, x: Any, y: Any, c: Any, c2: Any, z: Any) -> Any:
        """The hardware counts in the size of the counts' own type."""
        result = z.copy()
        for row in range(VALID[0]):
            first = min(c[row, 0] // size, x.shape[1], z.shape[1])
            second = min(c2[row, 0] // size, y.shape[1], z.shape[1] - first)
            result[row, :first], result[row, first : first + second] = x[row, :first], y[row, :second]
        return result

    counts = {"c": ((ROWS, 32), (VALID[0], 1)), "c2": ((ROWS, 32), (VALID[0], 1)), "z": ((ROWS, COLS), (VALID[0], 60))}
    for size, index in ((1, "i8"), (2, "i16"), (4, "i32")):
        yield Case(f"tconcatidx_{index}", "pto.tconcatidx", f"x y c:{index} c2:{index}", "z!",
                   partial_function(counted, size),
                   domains={"c": "count", "c2": "count"}, places=counts)  # fmt: skip
    yield Case("tmov", "pto.tmov", "x", "z", lambda x: x)
    yield Case("textract", "pto.textract", "x k8 k16", "z", lambda x: x[8:19, 16:56], places={"x": FULL})

    def inserted(x: Any, z: Any) -> Any:
        result = z.copy()
        result[8:19, 16:56] = x
        return result

    yield Case("tinsert", "pto.tinsert", "x k8 k16", "z!", inserted, places={"z": FULL})


def rearrangements() -> Iterator[Case]:
    for index in ("i32", "ui32"):
        gathered = lambda x, i: x.reshape(-1)[i.astype(int)]  # noqa: E731
        for scratch in ("", " t"):
            yield Case(f"tgather_{index}{scratch.strip()}", "pto.tgather", f"x y:{index}{scratch}", "z", gathered,
                       domains={"y": "position"}, places={"x": FULL})  # fmt: skip

    def scattered(x: Any, i: Any, z: Any) -> Any:
        """Over the valid part of the index, which is less than that of the source."""
        result = z.reshape(-1).copy()
        result[i.astype(int)] = x[: VALID[0], : VALID[1]]
        return result.reshape(ROWS, COLS)

    for index in ("i16", "i32"):
        yield Case(f"tscatter_{index}", "pto.tscatter", f"x y:{index}", "z!", scattered,
                   domains={"y": "position"}, places={"x": FULL, "z": FULL})  # fmt: skip
    for pattern in ("P1111", "P0101", "P1010", "P0001", "P0010", "P0100", "P1000"):
        period = 1 if pattern == "P1111" else 2 if pattern.count("1") == 2 else 4
        first = pattern[:0:-1].index("1")
        within = f", {{maskPattern = #pto.mask_pattern<{pattern}>}}"

        def packed(x: Any, z: Any, first: int = first, period: int = period) -> Any:
            """The chosen elements of a row follow those of the row before."""
            chosen, result = x[:, first::period].reshape(-1), z.reshape(-1).copy()
            result[: chosen.size] = chosen
            return result.reshape(z.shape)

        yield Case(f"tgather_{pattern}", "pto.tgather", "x", "z!", packed, places={"z": FULL}, within=within)

        def spread(x: Any, z: Any, first: int = first, period: int = period) -> Any:
            """All elements of the tile that are not written are zero, unless every column is."""
            result = np.zeros_like(z) if period > 1 else z.copy()
            result[: x.shape[0], first : x.shape[1] * period : period] = x
            return result

        wide = {"x": ((ROWS, COLS), (11, 15)), "z": FULL}
        yield Case(f"tscatter_{pattern}", "pto.tscatter", "x", "z!", spread, places=wide, within=within)


def quantization() -> Iterator[Case]:
    def quantized(low: int, high: int) -> Any:
        def compute(x: Any, scale: Any, offset: Any = 0.0) -> Any:
            """In float32, as everything there."""
            result = x.astype(np.float32) * scale.astype(np.float32) + np.float32(offset)
            return np.clip(np.rint(result), low, high).astype(int)

        return compute

    domains, symmetric = {"c": "positive"}, quantized(-128, 127)
    for name, ins, outs, kind, compute in (
        ("", "x c:f32", "z:i8", "SYM", symmetric), ("_scratch", "x c:f32", "z:i8 t:f32", "SYM", symmetric),
        ("_offset", "x c:f32 c2:f32", "z:ui8", "ASYM", quantized(0, 255)),
        ("_offset_scratch", "x c:f32 c2:f32", "z:ui8 t:f32", "ASYM", quantized(0, 255)),
    ):  # fmt: skip
        yield Case(f"tquant{name}", "pto.tquant", ins, outs, compute, domains=domains,
                   behind=f" {{quantType = #pto<quant_type INT8_{kind}>}}")  # fmt: skip
    yield Case("tdequant", "pto.tdequant", "x c:f32 c2:f32", "z:f32", lambda x, c, d: (x.astype(float) - d) * c, 2,
               {"c2": "half"})  # fmt: skip
    for source, target in (("i32", "i16"), ("i32", "i8"), ("i16", "i8")):
        for sign in ("", "u"):
            yield Case(f"tpack_{source}_{sign}{target}", "pto.tpack", "x", f"z:{sign}{target}", lambda x: x,
                       dtypes=(sign + source,))  # fmt: skip


def histograms() -> Iterator[Case]:
    """Count the elements of a row with at most each value of a byte, if their higher bytes match."""
    for width in (2, 4):
        for byte in range(width):
            passes = width - 1 - byte

            def counted(x: Any, index: Any, byte: int = byte, passes: int = passes, width: int = width) -> Any:
                result = np.zeros((VALID[0], 256), int)
                for r, row in enumerate(x.tolist()):
                    for c, value in enumerate(row):
                        digits = value.to_bytes(width, "big")
                        higher = [index[r, 0]] if width == 2 else [index[p, c] for p in range(passes)]
                        if list(digits[:passes]) == higher[:passes]:
                            result[r, digits[passes] :] += 1
                return result

            index = ((ROWS, 1), (VALID[0], 1)) if width == 2 else ((4, COLS), (max(passes, 1), VALID[1]))
            places = {"c": index, "z": ((ROWS, 256), (VALID[0], 256))}
            yield Case(f"thistogram_{width}_{byte}", "pto.thistogram", "x c:ui8", "z:ui32", counted, places=places,
                       domains={"x": "bytes", "c": "bit"}, behind=f" {{byte = {byte} : i32}}",
                       dtypes=(f"ui{8 * width}",))  # fmt: skip


def philox(counter: int, key: list[int], rounds: int) -> list[int]:
    """Four numbers of the generator of Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (2011)."""
    words, wrap = [(counter >> 32 * k) % 2**32 for k in range(4)], 2**32
    for _ in range(rounds):
        low, high = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [(high // wrap) ^ words[1] ^ key[0], high % wrap, (low // wrap) ^ words[3] ^ key[1], low % wrap]
        key = [(key[0] + 0x9E3779B9) % wrap, (key[1] + 0xBB67AE85) % wrap]
    return words


def generators() -> Iterator[Case]:
    words = [123456789, -5, -1, -1, 7, 0]  # the counter's low words carry
    counter = sum((word % 2**32) << 32 * k for k, word in enumerate(words[2:]))
    operands = " ".join(f"k{str(word).replace('-', '_')}:i32" for word in words)
    for rounds in (7, 10):
        made = np.zeros(VALID, dtype=object)
        for r, c in np.ndindex(*VALID):  # at most 256 columns: 64 blocks, of which a column has one of the four words
            made[r, c] = philox(counter + r * (COLS // 4) + c % 64, [w % 2**32 for w in words[:2]], rounds)[c // 64]
        yield Case(f"trandom_{rounds}", "pto.trandom", operands, "z", lambda m=made: m,
                   within=f" {{rounds = {rounds} : i32}}")  # fmt: skip


CASES = {
    case.name: case
    for family in (
        binary, unary, three, reductions, broadcasts, partial, choices, sequences, copies, rearrangements,
        quantization, histograms, generators,
    )
    for case in family()
}  # fmt: skip


def uses_of(dtype: str) -> dict[str, Use]:
    """All cases with one element type, by the names of their functions."""
    return {safe(case.name): use(case, dtype) for case in CASES.values() if dtype in case.types()}
