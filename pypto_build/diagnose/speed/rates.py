"""Parameters of the model: a row each, with value, unit, chip, evidence and source; `RATES=file` replaces rows.

Evidence of a row: D measured on a device, C computed from what was measured, S of a cycle simulator, F a fit or formula
whose origin is not stated, G a guess. Every prediction says how much of it rests on which.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import read_text

EVIDENCE: Mapping[str, str] = {"D": "measured", "C": "computed", "S": "simulated", "F": "fitted", "G": "guessed"}
#: Relative error that is expected of a value, by its evidence. A row may have its own.
ERRORS: Mapping[str, float] = {"D": 0.05, "C": 0.1, "S": 0.3, "F": 0.25, "G": 0.5}

A2A3, A5 = "a2a3", "a5"


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One parameter. `chip` is a chip (910B2) or a generation (a2a3). `error` is relative; 0: that of the evidence."""

    name: str
    value: float
    unit: str
    chip: str
    evidence: str
    source: str
    error: float = 0.0

    @property
    def spread(self) -> float:
        """Return the relative error that is expected of the value."""
        return self.error or ERRORS[self.evidence]


def _of(chip: str, source: str, *rows: tuple[str, float, str, str]) -> tuple[Rate, ...]:
    """Rows of one source: names with blanks between them, value, unit, evidence."""
    return tuple(
        Rate(name, value, unit, chip, evidence, source)
        for names, value, unit, evidence in rows
        for name in names.split()
    )


_ADD, _COPY = "AscendC add of 8192 x 8192", "AscendC data copies"
_MATMUL, _GEMM = "AscendC matmul of 8192 x 8192 x 8192", "pto-isa's GEMM"
_NZ, _GELU = "AscendC ND to NZ", "AscendC GELU"
_CCE, _TILES, _TILES_A5 = "pto-isa a2a3 cost model", "pto-isa a2a3 tile formulas", "pto-isa a5 tile formulas"
_PYPTO, _SIMPLER = "PyPTO's tile sweep on 910B2", "simpler's documentation"
_OURS = "estimate of this project"

_CHIPS = (
    *_of("910B1", "AscendC and pto-isa", ("cores.aic", 24, "cores", "D"), ("clock", 1.85, "GHz", "D")),
    *_of("910B2", "AscendC and pto-isa", ("cores.aic", 24, "cores", "D"), ("clock", 1.80, "GHz", "D")),
    *_of("910B3", "AscendC and pto-isa", ("cores.aic", 20, "cores", "D"), ("clock", 1.80, "GHz", "D")),
    *_of("910B4", "AscendC and pto-isa", ("cores.aic", 20, "cores", "D"), ("clock", 1.50, "GHz", "D")),
    *_of("910B4", "half of the bandwidth of 910B1", ("hbm", 780, "GB/s", "C"), ("hbm.read", 745, "GB/s", "C")),
    *_of("950PR", "AscendC", ("cores.aic", 32, "cores", "D"), ("clock", 1.65, "GHz", "D")),
    *_of("950DT", "as 950PR, with faster memory", ("cores.aic", 36, "cores", "G"), ("clock", 1.65, "GHz", "G")),
    *_of("950DT", "nominal rate", ("hbm hbm.read", 3200, "GB/s", "G")),
)
#: The generation of each chip.
CHIPS: Mapping[str, str] = {rate.chip: A5 if rate.chip.startswith("95") else A2A3 for rate in _CHIPS}
#: The chip that a platform stands for where none is named.
DEFAULT_CHIP: Mapping[str, str] = {A2A3: "910B2", A5: "950PR"}

_MEMORY = (
    *_of(A2A3, _ADD, ("hbm", 1560, "GB/s", "D"), ("store.latency", 220, "cycles", "C")),
    *_of(A2A3, _ADD, ("store.weight", 1.6, "times the rate of a load", "C"), ("hbm.aiv", 23.4, "B/cycle", "C")),
    *_of(A2A3, _MATMUL, ("hbm.aic", 42, "B/cycle", "C")),
    *_of(A2A3, "cores that read the same 6.3 MB", ("l2.shared.aiv", 788e3, "B/cycle", "C")),
    *_of(A2A3, "cores that read the same 6.3 MB", ("l2.shared.aic", 197e3, "B/cycle", "C")),
    *_of(A2A3, _COPY, ("hbm.read", 1490, "GB/s", "D"), ("load.issue", 20.6, "cycles", "D")),
    *_of(A2A3, _COPY, ("l2.aiv", 67, "B/cycle", "D"), ("l2.aic", 111, "B/cycle", "D")),
    *_of(A2A3, _COPY, ("rows.aiv", 0.92, "of the rate", "D"), ("rows.aic", 0.757, "of the rate", "D")),
    *_of(A2A3, _COPY, ("unaligned.aiv", 0.785, "of the rate", "D"), ("unaligned.aic", 0.505, "of the rate", "D")),
    *_of(A2A3, _COPY, ("alignment", 512, "bytes", "D"), ("l2", 192, "MiB", "D"), ("l2.line", 512, "bytes", "D")),
    *_of(A2A3, "pto-isa TLOAD tests", ("load.latency", 264, "cycles", "S"), ("load.rate", 128, "B/cycle", "S")),
    *_of(A2A3, "pto-isa constants", ("store.rate", 109, "B/cycle", "F"), ("store.issue", 20.6, "cycles", "F")),
    *_of(A5, _ADD, ("hbm", 1650, "GB/s", "D"), ("load.latency store.latency", 204, "cycles", "C")),
    *_of(A5, _ADD, ("store.weight", 1.6, "times the rate of a load", "G"), ("hbm.aiv", 20.5, "B/cycle", "C")),
    *_of(A5, "as a2a3", ("hbm.aic", 42, "B/cycle", "G")),
    *_of(A5, "cores that read the same 6.3 MB", ("l2.shared.aiv", 3760e3, "B/cycle", "C")),
    *_of(A5, "cores that read the same 6.3 MB", ("l2.shared.aic", 386e3, "B/cycle", "C")),
    *_of(A5, _COPY, ("hbm.read", 1630, "GB/s", "D"), ("load.issue", 39.4, "cycles", "D")),
    *_of(A5, _COPY, ("l2.aiv", 51, "B/cycle", "D"), ("l2.aic", 85, "B/cycle", "D")),
    *_of(A5, _COPY, ("rows.aiv", 0.904, "of the rate", "D"), ("rows.aic", 0.78, "of the rate", "D")),
    *_of(A5, _COPY, ("unaligned.aiv", 0.98, "of the rate", "D"), ("unaligned.aic", 0.92, "of the rate", "D")),
    *_of(A5, _COPY, ("alignment", 128, "bytes", "D"), ("l2", 128, "MiB", "D"), ("l2.line", 512, "bytes", "D")),
    *_of(A5, "as a2a3", ("load.rate store.rate", 128, "B/cycle", "G"), ("store.issue", 39.4, "cycles", "G")),
    *_of(A2A3, _OURS, ("l2.reuse", 0.8, "of the capacity", "G"), ("element", 264, "cycles", "G")),
    *_of(A5, _OURS, ("l2.reuse", 0.8, "of the capacity", "G"), ("element", 264, "cycles", "G")),
    *_of(A2A3, "pto-isa TGET", ("remote", 4.85, "GB/s", "D")),
    *_of(A5, "pto-isa TGET", ("remote", 4.85, "GB/s", "G")),
)
_CUBE = (
    *_of(A2A3, _MATMUL, ("mad.head", 11, "cycles", "D"), ("mad.start", 49, "cycles", "C")),
    *_of(A2A3, _PYPTO, ("l0a", 157, "B/cycle", "C"), ("l0b", 103.5, "B/cycle", "C")),
    *_of(A2A3, _PYPTO, ("drain.head", 164, "cycles", "D"), ("drain.row", 4.45, "cycles a row", "D")),
    *_of(A2A3, _PYPTO, ("drain.rate", 118, "B/cycle", "D"), ("drain.odd", 2.6, "cycles a row", "D")),
    *_of(A2A3, "pto-isa cost model", ("mad.fp32", 2, "passes", "F")),
    *_of(A5, _MATMUL, ("mad.head", 9, "cycles", "D"), ("l0a l0b", 196, "B/cycle", "D")),
    *_of(A5, _MATMUL, ("drain.rate", 150, "B/cycle", "D")),
    *_of(A5, "as a2a3", ("mad.start", 49, "cycles", "G"), ("drain.head", 164, "cycles", "G")),
    *_of(A5, "as a2a3", ("drain.row drain.odd", 0, "cycles a row", "G")),
    *_of(A5, "PyPTO's model", ("mad.fp32", 8, "passes", "F")),
    *_of(A2A3, "pto-isa constants", ("l1.copy", 128, "B/cycle", "F"), ("drain.l1", 74, "B/cycle", "F")),
    *_of(A5, "as a2a3", ("l1.copy", 128, "B/cycle", "G"), ("drain.l1", 74, "B/cycle", "G")),
    *_of(A2A3, "AscendC mmad with base 128 x 64 x 256", ("queue", 32, "instructions", "D")),
    *_of(A5, "as a2a3", ("queue", 32, "instructions", "G")),
)
# Slopes are cycles a repeat of 256 bytes whose operands lie in different groups of banks.
_VECTOR_A2A3 = (
    *_of(A2A3, _ADD, ("vector.head bank.head", 22.3, "cycles", "D"), ("scalar.access", 11.3, "cycles", "C")),
    *_of(A2A3, _ADD, ("slope.TADD", 1.0, "cycles a repeat", "D")),
    *_of(A2A3, _NZ, ("slope.TMOV slope.TEXTRACT slope.TINSERT", 1.1, "cycles a repeat", "D")),
    *_of(A2A3, _CCE, ("slope.TSUB", 1.0, "cycles a repeat", "F"), ("slope.TMUL", 1.05, "cycles a repeat", "F")),
    *_of(A2A3, _CCE, ("slope.TMAX slope.TMIN slope.TAND slope.TOR slope.TXOR", 1.0, "cycles a repeat", "F")),
    *_of(A2A3, _CCE, ("slope.TMULS slope.TMAXS slope.TRELU slope.TLRELU slope.TRSQRT", 1.0, "cycles a repeat", "F")),
    *_of(
        A2A3, _CCE, ("slope.TEXP slope.TLOG", 2.0, "cycles a repeat", "F"), ("slope.TDIV", 4.03, "cycles a repeat", "F")
    ),
    *_of(A2A3, _CCE, ("count.mode", 16, "cycles", "F"), ("slope.TMRGSORT", 78, "cycles a block of 64", "F")),
    *_of(A2A3, _CCE, ("slope.TGATHER", 46.6, "cycles a repeat", "F")),
    *_of(
        A2A3,
        _CCE,
        ("slope.TABS slope.TADDS slope.TSUBS slope.TMINS slope.TEXPANDS slope.TNOT", 1.0, "cycles a repeat", "G"),
    ),
    *_of(
        A2A3, _CCE, ("slope.TCVT slope.TSEL slope.TSELS slope.TCMP slope.TCMPS slope.TNEG", 2.0, "cycles a repeat", "G")
    ),
    *_of(
        A2A3,
        _CCE,
        ("slope.TSHL slope.TSHR slope.TSHLS slope.TSHRS slope.TANDS slope.TORS", 1.0, "cycles a repeat", "G"),
    ),
    *_of(
        A2A3,
        _TILES,
        ("slope.TSQRT", 2.0, "cycles a repeat", "F"),
        ("slope.TDIVS slope.TRECIP", 5.0, "cycles a repeat", "F"),
    ),
    *_of(A2A3, _TILES, ("row.TROWMAX row.TROWMIN row.TROWSUM", 7.0, "cycles a row", "F")),
    *_of(
        A2A3,
        _TILES,
        ("column.TCOLSUM", 19.5, "cycles a row", "F"),
        ("column.TCOLMAX column.TCOLMIN", 17, "cycles a row", "F"),
    ),
    *_of(A2A3, _TILES, ("row.TROWEXPAND", 14.5, "cycles a row", "F"), ("reduce.head", 60, "cycles", "F")),
    *_of(A2A3, _OURS, ("row.TROWPROD row.TROWARGMAX row.TROWARGMIN", 14.0, "cycles a row", "G")),
    *_of(A2A3, _OURS, ("column.TCOLPROD column.TCOLARGMAX column.TCOLARGMIN", 20, "cycles a row", "G")),
    *_of(A2A3, _OURS, ("slope.TTRANS", 32, "cycles a repeat", "G"), ("slope.TSORT32", 32, "cycles a repeat", "G")),
)
_LINEAR = "slope.TSUB slope.TSUBS slope.TADDS slope.TMULS slope.TMAXS slope.TRELU slope.TABS slope.TMAX slope.TMIN"
_VECTOR_A5 = (
    *_of(A5, _TILES_A5, ("vector.head", 55, "cycles", "F"), ("slope.TADD", 1.247, "cycles a repeat", "F")),
    *_of(
        A5,
        _TILES_A5,
        ("slope.TMUL", 1.194, "cycles a repeat", "F"),
        ("slope.TMINS slope.TNEG", 1.06, "cycles a repeat", "F"),
    ),
    *_of(
        A5,
        _TILES_A5,
        ("slope.TEXP", 1.97, "cycles a repeat", "F"),
        ("slope.TDIVS slope.TRECIP", 1.91, "cycles a repeat", "F"),
    ),
    *_of(A5, _TILES_A5, ("slope.TRSQRT", 4.03, "cycles a repeat", "F"), ("slope.TSEL", 2.9, "cycles a repeat", "F")),
    *_of(A5, _TILES_A5, ("slope.TCVT", 1.25, "cycles a repeat", "F"), ("half", 1.87, "times fp32", "F")),
    *_of(
        A5,
        _ADD,
        ("scalar.access", 10, "cycles", "C"),
        ("count.mode", 0, "cycles", "C"),
        ("bank.head", 30, "cycles", "D"),
    ),
    *_of(A5, _TILES_A5, (_LINEAR, 1.2, "cycles a repeat", "G")),
    *_of(A5, _GELU, ("slope.TDIV", 1.91, "cycles a repeat", "F")),
    *_of(A5, _NZ, ("slope.TMOV slope.TEXTRACT slope.TINSERT", 1.84, "cycles a repeat", "D")),
    *_of(
        A5,
        "as a2a3",
        ("slope.TAND slope.TOR slope.TXOR slope.TLRELU slope.TNOT slope.TEXPANDS", 1.0, "cycles a repeat", "G"),
    ),
    *_of(
        A5,
        "as a2a3",
        ("slope.TSHL slope.TSHR slope.TSHLS slope.TSHRS slope.TANDS slope.TORS", 1.0, "cycles a repeat", "G"),
    ),
    *_of(A5, "as a2a3", ("slope.TLOG slope.TSQRT slope.TSELS slope.TCMP slope.TCMPS", 2.0, "cycles a repeat", "G")),
    *_of(
        A5,
        "as a2a3",
        ("slope.TMRGSORT", 78, "cycles a block of 64", "G"),
        ("slope.TGATHER", 46.6, "cycles a repeat", "G"),
    ),
    *_of(A5, "as a2a3", ("row.TROWMAX row.TROWMIN row.TROWSUM", 7.0, "cycles a row", "G")),
    *_of(
        A5,
        "as a2a3",
        ("column.TCOLSUM", 19.5, "cycles a row", "G"),
        ("column.TCOLMAX column.TCOLMIN", 17, "cycles a row", "G"),
    ),
    *_of(A5, "as a2a3", ("row.TROWEXPAND", 14.5, "cycles a row", "G"), ("reduce.head", 60, "cycles", "G")),
    *_of(A5, _OURS, ("row.TROWPROD row.TROWARGMAX row.TROWARGMIN", 14.0, "cycles a row", "G")),
    *_of(A5, _OURS, ("column.TCOLPROD column.TCOLARGMAX column.TCOLARGMIN", 20, "cycles a row", "G")),
    *_of(A5, _OURS, ("slope.TTRANS", 32, "cycles a repeat", "G"), ("slope.TSORT32", 32, "cycles a repeat", "G")),
)
_RUN = tuple(
    rate
    for chip, evidence in ((A2A3, "D"), (A5, "G"))
    for rate in _of(
        chip, _SIMPLER,
        ("dispatch.pickup", 0.35, "us", evidence),
        ("dispatch.dependency", 10, "us", evidence),
        ("dispatch.submit", 0.87, "us", evidence),
        ("dispatch.preamble", 9, "us", evidence),
        ("dispatch.barrier", 1, "us", evidence),
    )
) + tuple(
    rate
    for chip in (A2A3, A5)
    for rate in _of(chip, _OURS, ("issue", 4, "cycles", "G"), ("slot", 200, "cycles", "G"))
)  # fmt: skip

RATES: tuple[Rate, ...] = (*_CHIPS, *_MEMORY, *_CUBE, *_VECTOR_A2A3, *_VECTOR_A5, *_RUN)


@dataclass(frozen=True)
class Rates:
    """The rows that hold for one chip, by name."""

    chip: str
    rows: Mapping[str, Rate]

    def __getitem__(self, name: str) -> float:
        return self.rows[name].value

    def __contains__(self, name: str) -> bool:
        return name in self.rows

    def evidence(self, name: str) -> str:
        """Return the evidence of a row."""
        return self.rows[name].evidence

    def with_values(self, **values: float) -> Rates:
        """Return the rates with other values of some rows; `__` in a name stands for a dot."""
        rows = dict(self.rows)
        for key, value in values.items():
            name = key.replace("__", ".")
            rows[name] = msgspec.structs.replace(rows[name], value=value)
        return replace(self, rows=rows)

    @property
    def arch(self) -> str:
        """Return the generation of the chip."""
        return CHIPS[self.chip]

    @cached_property
    def clock(self) -> float:
        """Return the cycles of a microsecond."""
        return self["clock"] * 1000

    @cached_property
    def cores(self) -> dict[str, int]:
        """Return the number of cores by type."""
        return {"aic": int(self["cores.aic"]), "aiv": 2 * int(self["cores.aic"])}

    def per_cycle(self, name: str) -> float:
        """Return a rate in GB/s as bytes per cycle."""
        return self[name] / self["clock"]


def rates_of(chip: str, replaced: Iterable[Rate] = ()) -> Rates:
    """Return the rates of a chip. Rows of the chip precede those of its generation, and later rows earlier ones."""
    rows: dict[str, Rate] = {}
    listed = (*RATES, *replaced)
    for of in (CHIPS[chip], chip):
        rows.update({rate.name: rate for rate in listed if rate.chip == of})
    for rate in replaced:  # a user's row of the generation precedes ours of the chip
        if rate.chip == CHIPS[chip] and not any(r.chip == chip and r.name == rate.name for r in replaced):
            rows[rate.name] = rate
    return Rates(chip, rows)


_LONGEST_LINE = 4096
#: Units of which there is at least one.
_WHOLE = ("cores", "bytes", "MiB", "instructions", "passes")


class _Replaced(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rate: list[Rate]


def read_rates(path: Path) -> list[Rate]:
    """Read the rows of a file: tables `[[rate]]` with the fields of a rate. Raises a usage error."""
    try:
        text = read_text(path)
        # A key of many parts takes the parser the square of their number.
        if max(map(len, text.splitlines()), default=0) > _LONGEST_LINE:
            raise ArtifactError(
                path, "is not a list of rates: it has a line that is too long", "see docs/understand/speed.md"
            )
        listed = msgspec.toml.decode(text, type=_Replaced).rate
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", "name another file") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise ArtifactError(
            path, f"is not a list of rates: {str(error)[:200]}", "see docs/understand/speed.md"
        ) from None
    units = {rate.name: rate.unit for rate in RATES}
    for rate in listed:
        if rate.name not in units and not rate.name.startswith(("slope.", "row.", "column.")):
            raise ArtifactError(path, f"there is no rate '{rate.name}'", "JSON= lists all rates")
        if rate.chip not in (*CHIPS, *CHIPS.values()):
            raise ArtifactError(path, f"there is no chip '{rate.chip}'", f"use one of {', '.join(CHIPS)}, a2a3, a5")
        if rate.evidence not in EVIDENCE:
            raise ArtifactError(path, f"'{rate.evidence}' is not a kind of evidence", "use one of D, C, S, F, G")
        if rate.unit != units.get(rate.name, rate.unit):
            raise ArtifactError(
                path, f"the unit of '{rate.name}' is not {rate.unit}", f"give the rate in {units[rate.name]}"
            )
        least = 0.0 if rate.unit.startswith(("cycles", "us")) else 1e-3 if rate.unit not in _WHOLE else 1.0
        if not least <= rate.value < 1e9:
            raise ArtifactError(
                path, f"{rate.value} is not a valid value of '{rate.name}'", f"give a number from {least:g} to 1e9"
            )
        if not 0 <= rate.error <= 10:
            raise ArtifactError(path, f"{rate.error} is not a valid relative error", "give a number from 0 to 10")
    return listed
