"""Costs of single instructions: cycles on their pipe, bytes of global memory, and the evidence of each.

An instruction costs `work` cycles in a pipe that is busy. The first one of a run of instructions also waits `head`
cycles. A transfer from or to global memory takes longer where the rate shared by the cores allows no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pypto_build.diagnose.speed.rates import A2A3, Rates
from pypto_build.diagnose.speed.record import (
    FIX,
    INSTRUCTION,
    L0A,
    L0B,
    L0C,
    MTE1,
    MTE2,
    MTE3,
    UB,
    EventRow,
    M,
    S,
    TileArea,
    V,
    View,
)
from pypto_build.facts.accesses import SCRATCH

REPEAT, BLOCK = 256, 32


@dataclass(frozen=True)
class Cost:
    """The cost of one instruction in cycles and bytes.

    `moved` are the bytes of global memory as they count against the shared rate, and `own` those that the instruction
    needs. `light` is the least that the pipe could take: no head, no conflict, no loss by small or unaligned rows.
    `conflict` are the cycles lost to banks. `used` counts the cycles by the rate that they follow from. An instruction
    without a price has its reason in `unpriced`.
    """

    pipe: int = S
    head: float = 0.0
    work: float = 0.0
    light: float = 0.0
    conflict: float = 0.0
    own: int = 0
    moved: float = 0.0
    writes: bool = False
    remote: bool = False
    used: Mapping[str, float] = field(default_factory=dict)
    unpriced: str = ""


NOTHING = Cost()

#: Instructions that are priced as others: a guess.
_ALIKE: Mapping[str, tuple[str, ...]] = {
    "TADDRELU": ("TADD",),
    "TSUBRELU": ("TSUB",),
    "TADDRELUCONV": ("TADD", "TCVT"),
    "TSUBRELUCONV": ("TSUB", "TCVT"),
    "TADDDEQRELU": ("TADD", "TCVT"),
    "TPRELU": ("TMUL",),
    "TAXPY": ("TMUL",),
    "TADDC": ("TADD", "TADD"),
    "TSUBC": ("TSUB", "TADD"),
    "TADDSC": ("TADDS", "TADD"),
    "TSUBSC": ("TSUBS", "TADD"),
    "TFUSEDMULADD": ("TMUL",),
    "TFUSEDMULADDRELU": ("TMUL",),
    "TMULADDDST": ("TMUL",),
    "TPARTADD": ("TADD",),
    "TPARTMUL": ("TMUL",),
    "TPARTMAX": ("TMAX",),
    "TPARTMIN": ("TMIN",),
    "TXORS": ("TXOR",),
    "TGATHERB": ("TGATHER",),
    "TCOLEXPAND": ("TMOV",),
    "TFILLPAD": ("TMOV",),
    "TCONCAT": ("TMOV",),
    "TINTERLEAVE": ("TMOV", "TMOV"),
    "TDEINTERLEAVE": ("TMOV", "TMOV"),
    "TPACK": ("TCVT",),
    "TTRI": ("TEXPANDS",),
    "TEXPDIF": ("TSUB", "TEXP"),
}


def price(row: EventRow, rates: Rates) -> Cost:
    """Return the cost of an event. Flags, barriers and slots cost no work of a pipe."""
    if row.kind != INSTRUCTION:
        return NOTHING
    by_pipe = {MTE2: _load, MTE3: _store, MTE1: _to_l0, M: _multiply, FIX: _drain, V: _vector, S: _scalar}
    pricing = by_pipe.get(row.pipe)
    return pricing(row, rates) if pricing else Cost(unpriced=f"{row.name} on pipe {row.pipe}")


# -- transfers --


def _moved(view: View, rates: Rates, core: str) -> float:
    """Return the bytes of a transfer, more where small or unaligned rows make worse use of the memory."""
    count, length, step = view.bursts
    size = count * length
    if count <= 1 or not size:
        return size
    aligned = rates["alignment"]
    share = 1.0
    if length < 512:
        small = rates[f"rows.{core}"]
        share = small * length / 128 if length < 128 else 1 - (1 - small) * (512 - length) / (512 - 128)
    if step % aligned:
        share = min(share, rates[f"unaligned.{core}"])
    return size / share


def _transfer(row: EventRow, rates: Rates, verb: str, size: int, moved: float, writes: bool) -> Cost:
    issue, rate, head = rates[f"{verb}.issue"], rates[f"{verb}.rate"], rates[f"{verb}.latency"]
    work = max(issue, size / rate)
    used = {f"{verb}.issue" if issue > size / rate else f"{verb}.rate": work, f"{verb}.latency": head}
    return Cost(row.pipe, head, work, 0.0, 0.0, size, moved, writes, used=used)


def _load(row: EventRow, rates: Rates) -> Cost:
    if not row.tiles:
        return _remote(row, rates) if row.name.startswith("T") else _gathered(row, rates)
    target = row.tiles[0]
    core = "aiv" if target.space == UB else "aic"
    if not row.views:  # TPOP: a slot of a pipe
        return _transfer(row, rates, "load", target.bytes, target.bytes, False)
    if row.name == "MGATHER":
        return _gathered(row, rates)
    view = row.views[0]
    count, length, _ = view.bursts
    return _transfer(row, rates, "load", count * length, _moved(view, rates, core), False)


def _gathered(row: EventRow, rates: Rates) -> Cost:
    size = sum(count * length for count, length, _ in (view.bursts for view in row.views))
    writes = any(view.writes for view in row.views)
    cycles = rates["element"] if size else 0.0
    return Cost(row.pipe, 0.0, cycles, 0.0, 0.0, size, size, writes, used={"element": cycles})


def _remote(row: EventRow, rates: Rates) -> Cost:
    """Return the cost of a transfer between chips: of its source, since its target is another event."""
    if not row.views or row.views[0].writes:
        return Cost(row.pipe)
    count, length, _ = row.views[0].bursts
    cycles = count * length / rates.per_cycle("remote")
    return Cost(row.pipe, 0.0, cycles, cycles, remote=True, used={"remote": cycles})


def _store(row: EventRow, rates: Rates) -> Cost:
    source = next((tile for tile in row.tiles if tile.reads), None)
    if row.views and source is None:
        return _remote(row, rates) if row.name.startswith("T") else _gathered(row, rates)
    if row.name == "MSCATTER":
        return _gathered(row, rates)
    if source is None:
        return Cost(row.pipe)
    if row.views:
        count, length, _ = row.views[0].bursts
        return _transfer(row, rates, "store", count * length, _moved(row.views[0], rates, "aiv"), True)
    if row.name == "TPUSH":
        return _transfer(row, rates, "store", source.bytes, source.bytes, True)
    cycles = source.bytes / rates["store.rate"]  # UB to L1
    return Cost(row.pipe, rates["vector.head"], cycles, cycles, used={"store.rate": cycles})


def _to_l0(row: EventRow, rates: Rates) -> Cost:
    target = next((tile for tile in row.tiles if tile.writes), None)
    if target is None:
        return Cost(row.pipe, unpriced=f"{row.name} without a target")
    name = {L0A: "l0a", L0B: "l0b"}.get(target.space, "l1.copy")
    size = max(target.bytes, target.height * target.width * target.element)
    cycles = size / rates[name]
    return Cost(row.pipe, 0.0, cycles, cycles, used={name: cycles})


def _drain(row: EventRow, rates: Rates) -> Cost:
    """Return the cost of the accumulator's way out: rows, and what an odd number of fractals adds to each."""
    source = next((tile for tile in row.tiles if tile.space == L0C and tile.reads), None)
    if source is None:
        return Cost(row.pipe, unpriced=f"{row.name} from another memory than L0C")
    rows, cols = source.height, source.width
    element = row.views[0].element if row.views and rates.arch != A2A3 else 4
    odd = -(-cols // 8)
    while odd and odd % 2 == 0:
        odd //= 2
    by_rate = cols * element / rates["drain.rate"]
    cycles = rows * (max(rates["drain.row"], by_rate) + rates["drain.odd"] * max(odd - 1, 0))
    used = {"drain.rate" if by_rate > rates["drain.row"] else "drain.row": cycles, "drain.head": rates["drain.head"]}
    light = rows * max(rates["drain.row"], by_rate)
    if not row.views and row.name != "TPUSH":
        return Cost(row.pipe, rates["drain.head"], cycles, light, used=used)
    view = row.views[0] if row.views else None
    size = view.bursts[0] * view.bursts[1] if view else source.bytes
    moved = _moved(view, rates, "aic") if view else float(size)
    return Cost(row.pipe, rates["drain.head"], cycles, light, 0.0, size, moved, True, used=used)


# -- cube and scalar --


def _multiply(row: EventRow, rates: Rates) -> Cost:
    left = next((tile for tile in row.tiles if tile.space == L0A), None)
    right = next((tile for tile in row.tiles if tile.space == L0B), None)
    if left is None or right is None:
        return Cost(row.pipe, unpriced=f"{row.name} without operands in L0A and L0B")
    passes = rates["mad.fp32"] if left.element == 4 else 1.0
    light = passes * fractals(left.height, left.width, right.width, left.element)
    cycles = rates["mad.head"] + light
    return Cost(row.pipe, rates["mad.start"], cycles, light, used={"mad.head": cycles, "mad.start": rates["mad.start"]})


def fractals(m: int, k: int, n: int, element: int) -> int:
    """Return the cycles of a product of m x k by k x n elements: one for each fractal."""
    return -(-m // 16) * -(-k * element // 32) * -(-n // 16)


def _scalar(row: EventRow, rates: Rates) -> Cost:
    if row.views:
        count, length, _ = row.views[0].bursts
        elements = count * length // row.views[0].element
        cycles = rates["element"] * elements
        return Cost(S, 0.0, cycles, 0.0, used={"element": cycles})
    elements = max((tile.height * tile.width for tile in row.tiles), default=0)
    if row.name == "TPRINT":
        elements = 0
    cycles = rates["scalar.access"] * elements
    return Cost(S, 0.0, cycles, cycles, used={"scalar.access": cycles})


# -- vectors --


def repeats(tile: TileArea) -> tuple[int, bool]:
    """Return the repeats of 256 bytes that cover a rectangle, and whether one of them is not whole."""
    lines, length, extent = tile.height, tile.width, tile.cols
    if not tile.row_major and not tile.fractals:
        lines, length, extent = tile.width, tile.height, tile.rows
    size = length * tile.element
    if tile.fractals or length == extent or lines == 1:
        return -(-lines * size // REPEAT), bool(lines * size % REPEAT)
    return lines * -(-size // REPEAT), bool(size % REPEAT)


def conflict(tiles: Sequence[TileArea], rates: Rates) -> float:
    """Return the cycles in which a repeat's blocks reach their banks: 1 where no two blocks want the same."""

    def cycles(operands: list[TileArea], by_bank: bool) -> int:
        blocks: Counter[tuple[int, int]] = Counter()
        for tile in operands:
            step = tile.rows if tile.fractals else 1
            for block in range(REPEAT // BLOCK):
                address = tile.start + block * step * BLOCK
                half = address >> 17 if by_bank else 0
                blocks[(address // BLOCK) % groups, half] += 1
        return max(blocks.values(), default=1)

    groups = 16 if rates.arch == A2A3 else 8
    whole = [tile for tile in tiles if tile.space == UB and not tile.access & SCRATCH and tile.bytes >= REPEAT]
    reads = cycles([tile for tile in whole if tile.reads], rates.arch != A2A3)
    writes = cycles([tile for tile in whole if tile.writes], False)
    return float(max(reads, writes))


def _slopes(name: str) -> tuple[str, ...]:
    """Return the names of the slopes that add up to an instruction's."""
    for prefix in ("TROWEXPAND", "TCOLEXPAND"):
        if name.startswith(prefix) and name != prefix:
            name = "T" + name.removeprefix(prefix)
    return _ALIKE.get(name, (name,))


def _vector(row: EventRow, rates: Rates) -> Cost:
    name, tiles = row.name, row.tiles
    widest = max((tile for tile in tiles if not tile.access & SCRATCH), key=lambda tile: tile.bytes, default=None)
    if widest is None:
        return Cost(V, unpriced=f"{name} without tiles")
    count, partial = repeats(widest)
    head = rates["vector.head"]
    for kind in ("row", "column"):
        rate = f"{kind}.{name}"
        if rate in rates:
            step = 1.65 if kind == "row" else 2.0
            more = step * max(0.0, widest.width * widest.element / REPEAT - 1)
            cycles = widest.height * (rates[rate] + more)
            return Cost(
                V, rates["reduce.head"], cycles, cycles, used={rate: cycles, "reduce.head": rates["reduce.head"]}
            )
    names = [f"slope.{part}" for part in _slopes(name)]
    missing = next((part for part in names if part not in rates), None)
    if missing:
        return Cost(V, unpriced=name)
    half = (
        rates["half"]
        if "half" in rates and widest.element == 2 and name in ("TEXP", "TDIV", "TDIVS", "TRECIP")
        else 1.0
    )
    slope = half * sum(rates[part] for part in names)
    if name == "TMRGSORT":
        count = -(-count * REPEAT // (64 * 8))
    light = count * slope
    at_banks = count * conflict(tiles, rates) * len(names) + (rates["bank.head"] - head)
    lost = max(0.0, at_banks - light)
    cycles = light + lost + (rates["count.mode"] if partial else 0.0)
    used = {names[0]: cycles, "vector.head": head}
    return Cost(V, head, cycles, light, lost, used=used)
