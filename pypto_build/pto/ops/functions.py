"""Functions of operations on elements, as expressions of PyTorch; all writers of PyTorch use them.

`{a}` and `{b}` are operands, `{d}` is the destination's old content, `{bits}` the width of an element. The expressions
call functions of torch/helpers.
"""

from __future__ import annotations

from dataclasses import dataclass

COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@dataclass(frozen=True)
class Meaning:
    """A function of elements at one position.

    `floats`, `integers`: the expressions. Integers have the same expression as floats unless they have their own; `-`
    means undefined. `number`, `integers_number`: variants for a number as the second operand. `halves`: a variant for
    16-bit floats. `converts`: the elements (`f`loats, `i`ntegers) for which the expression has another type than the
    operands. `callable`: the function by itself. `precise`: the C++ instruction has a variant of high precision.
    """

    name: str
    floats: str
    integers: str = ""
    number: str = ""
    integers_number: str = ""
    halves: str = ""
    converts: str = ""
    callable: str = ""
    precise: bool = False

    def expression(self, *, is_float: bool, number: bool = False) -> str:
        """Return the expression for an element type; empty without one."""
        floats = (number and self.number) or self.floats
        integers = self.integers or self.floats
        if number:
            integers = self.integers_number or (self.number if not self.integers else "") or integers
        text = floats if is_float else integers
        return "" if text == "-" else text

    def keeps(self, *, is_float: bool) -> bool:
        """Return whether the expression has the element type of the operands."""
        return ("f" if is_float else "i") not in self.converts


@dataclass(frozen=True)
class Reduction:
    """A function along rows or columns; `maybe_empty` is for a region that may have no elements."""

    name: str
    torch: str
    maybe_empty: str = ""

    def keeps(self, *, is_float: bool) -> bool:
        """Return whether the result has the element type of the operand."""
        return is_float or self.name in ("max", "min")


# those that several operations compute
ADD = Meaning("add", "{a} + {b}", callable="torch.add")
SUB = Meaning("sub", "{a} - {b}")
MUL = Meaning("mul", "{a} * {b}", callable="torch.mul")
DIV = Meaning(
    "div", "{a} / {b}", "divide({a}, {b})", integers_number="divide({a}, torch.tensor({b}))", converts="i", precise=True
)
MAX = Meaning("max", "torch.maximum({a}, {b})", number="{a}.clamp(min={b})", callable="torch.maximum")
MIN = Meaning("min", "torch.minimum({a}, {b})", number="{a}.clamp(max={b})", callable="torch.minimum")
FMOD = Meaning(
    "fmod", "torch.fmod({a}, {b})", "fmod({a}, {b})", integers_number="fmod({a}, torch.tensor({b}))", converts="i",
    precise=True,
)  # fmt: skip
REM = Meaning("rem", "remainder({a}, {b})", number="remainder({a}, torch.tensor({b}))", converts="fi", precise=True)
POW = Meaning("pow", "power({a}, {b})", number="power({a}, torch.tensor({b}))", converts="fi", precise=True)
AND = Meaning("and", "-", "{a} & {b}")
OR = Meaning("or", "-", "{a} | {b}")
XOR = Meaning("xor", "-", "{a} ^ {b}")
SHL = Meaning(
    "shl", "-", "shift_left({a}, {b}, {bits})", integers_number="shift_left({a}, torch.tensor({b}), {bits})",
    converts="fi",
)  # fmt: skip
SHR = Meaning(
    "shr", "-", "shift_right({a}, {b}, {bits})", integers_number="shift_right({a}, torch.tensor({b}), {bits})",
    converts="fi",
)  # fmt: skip
PRELU = Meaning("prelu", "torch.where({a} > 0, {a}, {a} * {b})")
EXPDIF = Meaning("expdif", "torch.exp({a} - {b})", "-")
ADD_ADD = Meaning("add,add", "{a} + {b} + {c}", converts="fi")
SUB_ADD = Meaning("sub,add", "{a} - {b} + {c}", converts="fi")

SUM = Reduction("sum", "{a}.sum(dim={dim}, keepdim=True)", "total({a}, {dim})")
PROD = Reduction("prod", "{a}.prod(dim={dim}, keepdim=True)", "product({a}, {dim})")
MAX_OF = Reduction("max", "{a}.amax(dim={dim}, keepdim=True)", "highest({a}, {dim})")
MIN_OF = Reduction("min", "{a}.amin(dim={dim}, keepdim=True)", "lowest({a}, {dim})")


def mask_pattern(case: str) -> tuple[int, int]:
    """Return period and position of the element that a mask pattern (`P0101`) selects; its last digit is element 0."""
    digits = case[1:][::-1]
    if digits == "1111":
        return 1, 0
    return (2, digits.index("1")) if digits.count("1") == 2 else (4, digits.index("1"))
