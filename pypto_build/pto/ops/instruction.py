"""The instructions of the C++ headers as data: their operands on the CPU, and their effects.

Most belong to an operation, whose row has them; the others have rows of their own. Tests compare the rows with the
headers (runtime/include/pto): name by name, form by form, on every element type and layout that a row admits. They
compare the operands that it reads and writes with those that the checked build records.

Operands in a form: `dst`, `src`, `mask`, `index`, … are tiles; `global` and `signal` are in global memory. `scalar`,
`row`, `mode`, … are values; `tmp` is a tile that hardware needs and the CPU does not touch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from pypto_build.facts.dtypes import DTYPES

FLOATS = tuple(DTYPES[name].cpp for name in ("FP32", "FP16", "BF16"))
INTS = tuple(DTYPES[f"{sign}INT{bits}"].cpp for bits in (8, 16, 32, 64) for sign in ("", "U"))
NUMBERS = FLOATS + INTS
ANY = (*NUMBERS, *(DTYPES[name].cpp for name in ("FP8E4M3FN", "FP8E5M2", "FP8E8M0", "HIF8")))

ROW_MAJOR = ("row-major",)
PLAIN = ("row-major", "column-major")
LAYOUTS = (*PLAIN, "fractal")

#: Operands other than tiles.
VALUES = {
    *("scalar", "start", "row", "col", "mode", "saturation", "tmp", "global", "block_length", "executed", "pipe"),
    *("signal", "value", "op", "comparison", "atomic", "diagonal", "key", "counter", "scale", "address"),
    *("offset", "view", "group", "stage", "session", "peer", "event"),
}


@dataclass(frozen=True)
class Instruction:
    """One instruction; `rank` is must, should or rest, by how often compiled kernels use it.

    `dtypes` are the element types of its data operands, `types` the same in words if needed, `layouts` the layouts of
    its tiles. They are empty where a tile is only named or passed on. `unsupported` is the error message for a use.
    Empty fields of an operation's row follow from the operation.
    """

    rank: str
    does: str
    dtypes: tuple[str, ...] = ()
    name: str = ""
    group: str = ""
    forms: tuple[str, ...] = ()
    types: str = ""
    layouts: tuple[str, ...] = LAYOUTS
    memory: str = "Vec"
    pipe: str = "V"
    also_read: tuple[str, ...] = ()
    unsupported: str = ""
    writes: tuple[str, ...] = ("dst",)

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the tiles it reads."""
        names = dict.fromkeys(name for form in self.forms for name in operands(form))
        tiles = [name for name in names if name not in VALUES and name not in self.writes]
        return (*tiles, *self.also_read)


def operands(form: str) -> list[str]:
    """The names of a form's operands, optional ones included."""
    return re.findall(r"\w+", form.replace("[", "").replace("]", ""))


INSTRUCTIONS: dict[str, Instruction] = {}


def instruction(row: Instruction, **more: object) -> None:
    """Add an instruction to the table."""
    complete = replace(row, **more)  # type: ignore[arg-type]
    if complete.name in INSTRUCTIONS:
        raise ValueError(f"instruction {complete.name} is defined twice")
    INSTRUCTIONS[complete.name] = complete
