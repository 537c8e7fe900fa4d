"""Operations of a program in PyTorch: an expression each, on tensors in global memory and on tiles.

A tile is the matrix of its valid elements.
"""

from __future__ import annotations

from collections.abc import Callable

from pypto_build.pto.ops import TABLE
from pypto_build.pto.ops.functions import COMPARE, Reduction, mask_pattern
from pypto_build.pto.torch.converting import converted
from pypto_build.pto.types import parse_type

from .ir import IrFunction, Op, Operand
from .operations import INFIX, OPERATIONS
from .values import Const, Ref, TileType

_SCALAR = {name: f"{{a}} {sign} {{b}}" for name, sign in INFIX.items()} | {
    "mod": "rest({a}, {b})", "min": "min({a}, {b})", "max": "max({a}, {b})", "and": "{a} and {b}", "or": "{a} or {b}",
    "not": "not {a}", "neg": "-{a}", "cdiv": "-(-{a} // {b})",
}  # fmt: skip
#: Typing rules of the operations that .pto has as functions of elements, and as reductions.
_ELEMENTWISE = ("binary", "unary", "row_expand", "col_expand")
_REDUCTIONS = {"row_reduce": 1, "col_reduce": 0}


class Expressions:
    """The expressions of one function. `bound` are the names that its values have in the text."""

    def __init__(self, function: IrFunction) -> None:
        self.function = function
        self.values = function.values
        self.bound: dict[str, str] = {}

    def text(self, operand: Operand) -> str:
        if isinstance(operand, Const):
            return (
                repr(operand.value)
                if operand.value not in (float("inf"), float("-inf"))
                else f'float("{operand.value}")'
            )
        if isinstance(operand, Ref):
            return self.bound[operand.name]
        if isinstance(operand, tuple):
            return f"({', '.join(map(self.text, operand))}{',' if len(operand) == 1 else ''})"
        raise KeyError(operand.name)

    def is_tile(self, operand: Operand) -> bool:
        return isinstance(operand, Ref) and self.values.is_tile(operand.name)

    def result_type(self, op: Op) -> TileType:
        """The tile that an operation makes."""
        return self.values.tile(op.result)

    def dim(self, extent: object) -> str:
        return self.text(extent) if isinstance(extent, Ref) else str(extent)

    def expression(self, op: Op) -> str:
        """Return the expression of an operation without blocks. Raises KeyError without a translation."""
        name, args = op.name, [self.text(a) for a in op.args]
        if name.startswith("s."):
            return self._scalar(op, name[2:], args)
        rule = OPERATIONS[name].rule
        if rule in _ELEMENTWISE:
            return self._elementwise(op, args)
        if rule in _REDUCTIONS:
            return self._reduction(op, args[0])
        return _EXPRESSIONS[name](self, op, args)

    def _scalar(self, op: Op, name: str, args: list[str]) -> str:
        a, b = args[0], args[1] if len(args) > 1 else ""
        is_float = op.dtype.is_float
        if name == "cast":
            return f"f32({a})" if is_float else f"int({a})"
        if name == "div" or (name == "floordiv" and is_float):
            return f"f32({a} / {b})" if is_float else f"quotient({a}, {b})"
        if name == "floordiv":
            return f"{a} // {b}"
        text = _SCALAR[name].format(a=a, b=b)
        return f"f32({text})" if is_float and name in ("add", "sub", "mul") else text

    def _elementwise(self, op: Op, args: list[str]) -> str:
        """Return the expression of the .pto operation, in the element type of the tile."""
        function, dtype = TABLE[OPERATIONS[op.name].pto].meaning, self.values.dtype(op.ref(0).name)
        number = len(args) > 1 and not self.is_tile(op.args[1])
        text = function.expression(is_float=dtype.is_float, number=number)
        converts = not function.keeps(is_float=dtype.is_float)
        if function.halves and dtype.size == 2:
            text, converts = function.halves, True
        b = f"({args[1]})" if len(args) > 1 and args[1].startswith("-") else args[-1]
        text = text.format(a=args[0], b=b, bits=8 * dtype.size)
        return f"{text}.to(torch.{dtype.torch})" if converts else text

    def _reduction(self, op: Op, tile: str) -> str:
        definition, dtype = OPERATIONS[op.name], self.values.dtype(op.ref(0).name)
        reduction = TABLE[definition.pto].computes
        assert isinstance(reduction, Reduction)
        text = reduction.torch.format(a=tile, dim=_REDUCTIONS[definition.rule])
        return text if reduction.keeps(is_float=dtype.is_float) else f"{text}.to(torch.{dtype.torch})"

    def _expand(self, op: Op, args: list[str]) -> str:
        tile = self.result_type(op)
        return f"{args[-1]}.expand({', '.join(map(self.dim, tile.valid))})"

    def _load(self, op: Op, args: list[str]) -> str:
        tile = self.result_type(op)
        shape = [int(a.value) for a in op.items(2) if isinstance(a, Const)]
        text = f"load_tile({args[0]}, {args[1]}, {self.text(tuple(map(Const, shape)))})"
        if tile.valid == tile.shape:
            return text
        return f"{text}[:{self.dim(tile.valid[0])}, :{self.dim(tile.valid[1])}]"

    def _store(self, op: Op, args: list[str]) -> str:
        add = ", add=True" if op.attrs.get("atomic") == "add" else ""
        return f"store_tile({args[2]}, {args[1]}, {args[0]}{add})"

    def _cast(self, op: Op, args: list[str]) -> str:
        source, target = parse_type(self.values.dtype(op.ref(0).name).pto), parse_type(op.attrs["dtype"].pto)
        text = converted(args[0], source, target, str(op.attrs.get("mode", "rint")).lower(), False)
        to = f".to(torch.{op.attrs['dtype'].torch})"
        return text if text.endswith(to) else f"{text}{to}"

    def _extract(self, op: Op, args: list[str]) -> str:
        tile = self.result_type(op)
        row, col = (self.text(o) for o in op.items(1))
        return f"{args[0]}[{row}:{row} + {tile.shape[0]}, {col}:{col} + {tile.shape[1]}]"

    def _reshape(self, op: Op, args: list[str]) -> str:
        shape = self.result_type(op).valid if self.values.is_tile(op.result) else self.values.tensor(op.result).shape
        return f"{args[0]}.reshape({', '.join(map(self.dim, shape))})"

    def _select(self, op: Op, args: list[str]) -> str:
        if not self.is_tile(op.args[0]):
            return f"{args[1]} if {args[0]} else {args[2]}"
        return f"torch.where({', '.join(args[:3])})"

    def _gather_mask(self, op: Op, args: list[str]) -> str:
        period, first = mask_pattern(op.attrs["pattern"])
        text = f"{args[0]}[:, {first}::{period}]"
        dtype = op.attrs["dtype"]
        if not dtype or dtype == self.values.dtype(op.ref(0).name):
            return text
        signed = {"uint32": "int32", "uint16": "int16"}.get(dtype.torch, dtype.torch)
        return f"{text}.contiguous().view(torch.{signed})"


_Expression = Callable[[Expressions, Op, list[str]], str]


def _plain(form: str) -> _Expression:
    """Return a template of an expression: its fields are the operands, the attributes, and the type of its `result`."""

    def expression(f: Expressions, op: Op, args: list[str]) -> str:
        return form.format(*args, **op.attrs, result=f.values.types[op.result] if op.results else None)

    return expression


_EXPRESSIONS: dict[str, _Expression] = {
    "load": Expressions._load,
    "store": Expressions._store,
    "cast": Expressions._cast,
    "extract": Expressions._extract,
    "row_expand": Expressions._expand,
    "col_expand": Expressions._expand,
    "move": _plain("{0}"),
    "transpose": _plain("{0}.T"),
    "full": _plain("torch.full({result.shape}, {0}, dtype=torch.{result.dtype.torch})"),
    "create_tile": _plain("torch.zeros({result.shape}, dtype=torch.{result.dtype.torch})"),
    "arange": _plain("{0} + torch.arange({result.shape[1]}, dtype=torch.int64)[None]"),
    "reshape": Expressions._reshape,
    "fillpad": _plain('fill_pad({0}, {result.shape[0]}, {result.shape[1]}, "{pad}")'),
    "select": Expressions._select,
    "gather_mask": Expressions._gather_mask,
    "cmp": lambda f, op, args: f"{args[0]} {COMPARE[op.attrs['mode']]} {args[1]}",
    "create_tensor": _plain("create_tensor({0}, torch.{dtype.torch})"),
    "concat": _plain("torch.cat(({0}, {1}), dim=1)"),
    "gather": _plain("{0}.reshape(-1)[{1}.to(torch.int64)]"),
    "sort32": _plain("sorted_groups({0}, {1})"),
    "mrgsort": _plain("merged_blocks({0}, {1})"),
    "matmul": _plain("multiply({0}, {1})"),
    "matmul_acc": _plain("{0} + multiply({1}, {2})"),
    "no_task": _plain("None"),
    "dummy_task": _plain("None"),
    "get_block_idx": _plain("_program_block[0]"),
    "get_block_num": _plain("_program_block[1]"),
    "read": _plain("{0}[{1}].item()"),
    "write": _plain("{0}.__setitem__({1}, {2})"),
    "slice": _plain("slice_tensor({0}, {1}, {2})"),
}
