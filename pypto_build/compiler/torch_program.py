"""Translates a program to PyTorch: its kernels on matrices, its orchestration as plain calls.

The `.pto` modules and the orchestration generated from the program must agree with this text. The program is translated
after type inference and before cores, memories and addresses are decided. So a kernel for both cores is one function,
and a tile is just its valid elements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from pypto_build.facts.positions import SourcePosition
from pypto_build.pto.ops import TABLE
from pypto_build.pto.ops.spec import COMPARE, Reduction, mask_pattern
from pypto_build.pto.torch.dtypes import UnsupportedTorchType
from pypto_build.pto.torch.elementwise import converted
from pypto_build.pto.torch.module import helper_names, preamble, taken_names, torch_codegen, used_names
from pypto_build.pto.torch.writer import PythonNames, function_names
from pypto_build.pto.types import parse_type

from .ir import Block, Const, IrFunction, Op, Operand, Program, Ref, TensorParam, TileType, ValueKind
from .operations import INFIX, OPERATIONS
from .pipeline import PASSES

# Operations of a program in PyTorch: an expression each, on tensors in global memory and on tiles.
# A tile is the matrix of its valid elements.

_SCALAR = {name: f"{{a}} {sign} {{b}}" for name, sign in INFIX.items()} | {
    "mod": "rest({a}, {b})", "min": "min({a}, {b})", "max": "max({a}, {b})", "and": "{a} and {b}", "or": "{a} or {b}",
    "not": "not {a}", "neg": "-{a}", "cdiv": "-(-{a} // {b})",
}  # fmt: skip
#: Typing rules of the operations that .pto has as functions of elements, and as reductions.
_ELEMENTWISE = ("binary", "unary", "row_expand", "col_expand")
_REDUCTIONS = {"row_reduce": 1, "col_reduce": 0}


class Expressions:
    """The expressions of one function. `bound` are the Python names of its values."""

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
        """Return the type of the tile that an operation creates."""
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
    """Return an expression template whose fields are the operands, the attributes, and the type of its `result`."""

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


#: Passes that a program needs before it can be translated.
TYPED = ("flatten_calls", "convert_to_ssa", "infer_types")
_PASSED_ON = (ValueKind.CARRIED, ValueKind.LEFT, ValueKind.MERGED)


class Translation(NamedTuple):
    """The text of a Python file, the names of the program's functions in it, and the source positions of its lines
    (from 1)."""

    text: str
    names: Mapping[str, str]
    places: Mapping[int, SourcePosition]


def typed_program(program: Program) -> Program:
    """Return a program of the front end with inferred types. Raises CompileError."""
    for one in PASSES:
        if one.name in TYPED:
            program = one.run(program)
    return program


@torch_codegen.register
def _(node: Program, *, check_shapes: bool = False) -> str:
    return program_text(node, check_shapes=check_shapes)


@torch_codegen.register
def _(node: IrFunction, *, check_shapes: bool = False) -> str:
    return _file({node.name: node}, None, check_shapes).text


def program_text(program: Program, *, check_shapes: bool = False) -> str:
    """Return the text: kernels, then the orchestration, then `run`, unless the program has a function of that name.

    The program's types are known (see `typed_program`). Raises ValueError naming all operations that have no
    translation.
    """
    return translated(program, check_shapes=check_shapes).text


def translated(program: Program, *, check_shapes: bool = False) -> Translation:
    """Return the text, and the names of the program's functions in it.

    A function with the name of a helper that the text needs gets a number behind its name.
    """
    functions = {name: function for name, function in program.functions.items() if function.kind != "inline"}
    return _file(functions, program.entries[0] if program.entries else None, check_shapes)


def _file(functions: Mapping[str, IrFunction], entry: IrFunction | None, check_shapes: bool) -> Translation:
    translation = _Functions(functions, check_shapes, taken_names()).file(entry)
    if all(name == translated_name for name, translated_name in translation.names.items()):
        return translation
    return _Functions(functions, check_shapes, used_names(translation.text)).file(entry)


class _Functions:
    def __init__(self, functions: Mapping[str, IrFunction], check_shapes: bool, taken: Collection[str]) -> None:
        self.functions = functions
        self.names = function_names(functions, taken)
        self.taken = helper_names() | set(self.names.values())
        self.check_shapes = check_shapes
        self.lines: list[str] = []
        self.places: dict[int, SourcePosition] = {}
        self.problems: list[str] = []

    def file(self, entry: IrFunction | None) -> Translation:
        for function in sorted(self.functions.values(), key=lambda f: f.kind == "orchestration"):
            writer = _Function(function, self)
            head, lines = writer.write()
            self.places |= {len(self.lines) + 2 + number: source for number, source in writer.places.items()}
            self.lines += [head, *lines, "", ""]
        if entry is not None and entry.name != "run" and "run" in self.functions:
            self.lines += [f"# Entry point: {entry.name}; run is one of the program's own", ""]
        elif entry is not None and entry.name != "run":
            names = ", ".join(_parameters(entry, self))
            self.lines += ["# Entry point", f"def run({names}):", f"    return {self.names[entry.name]}({names})", ""]
        if self.problems:
            names = ", ".join(dict.fromkeys(f"'{problem.split()[0]}'" for problem in self.problems))
            raise ValueError(f"Unsupported op {names} in torch_codegen. {'; '.join(self.problems)}")
        body = "\n".join(self.lines).rstrip() + "\n"
        head = preamble(body, self.names.values()) + "\n\n"
        above = head.count("\n")
        return Translation(head + body, self.names, {above + line: source for line, source in self.places.items()})


def _parameters(function: IrFunction, functions: _Functions) -> list[str]:
    names = PythonNames(functions.taken)
    return [names.unique(p.value.stem) for p in function.params]


class _Function(Expressions):
    def __init__(self, function: IrFunction, owner: _Functions) -> None:
        super().__init__(function)
        self.owner = owner
        self.names = PythonNames(owner.taken)
        self.lines: list[str] = []
        self.places: dict[int, SourcePosition] = {}  # of lines, from 0
        self.indent = 1

    def write(self) -> tuple[str, list[str]]:
        """Return the function's first line, and its other lines."""
        for param in self.function.params:
            self.bound[param.name] = self.names.unique(param.value.stem)
        parameters = ", ".join(self.bound[p.name] for p in self.function.params)
        for param in self.function.tensors():
            self._tensor(param)
        self.block(self.function.body)
        head = f"def {self.owner.names[self.function.name]}({parameters}):  # {self.function.position.at_line}"
        return head, self.lines or ["    pass"]

    def _tensor(self, param: TensorParam) -> None:
        """Write assertions on a tensor, and assign its named extents."""
        text, type_ = self.bound[param.name], param.type
        if self.owner.check_shapes:
            self.add(f'assert isinstance({text}, torch.Tensor), "Expected {text} to be a Tensor"')
            self.add(
                f'assert {text}.dtype == torch.{type_.dtype.torch}, f"Dtype mismatch for {text}: {{{text}.dtype}}"'
            )
            self.add(f'assert {text}.dim() == {len(type_.shape)}, f"Rank mismatch for {text}: {{{text}.dim()}}"')
        for axis, extent in enumerate(type_.shape):
            if isinstance(extent, Ref) and extent.name not in self.bound:
                self.bound[extent.name] = self.names.unique(extent.name)
                self.add(f"{self.bound[extent.name]} = {text}.shape[{axis}]")
            elif self.owner.check_shapes and isinstance(extent, int):
                self.add(
                    f'assert {text}.shape[{axis}] == {extent}, f"Dim {axis} mismatch for {text}: {{{text}.shape}}"'
                )

    def _named(self, name: str) -> str:
        """Return a variable for a value: the program's, or a separate one for values that a loop or condition
        yields.
        """
        value = self.function.values[name]
        return self.names.unique(value.name if value.kind in _PASSED_ON else value.stem)

    def add(self, line: str, op: Op | None = None) -> None:
        note = ""
        if op is not None and op.position.line:
            note = f"  # {op.position.at_line}"
            self.places[len(self.lines)] = op.position
        self.lines.append("    " * self.indent + line + note)

    # --- control -------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.operation(op)

    def operation(self, op: Op) -> None:
        if op.name in _CONTROL:
            _CONTROL[op.name](self, op)
            return
        try:
            text = self.expression(op)
        except (KeyError, UnsupportedTorchType) as error:
            self.owner.problems.append(
                f"{op.name} at {op.position.at_line}" + (f" {error}" if isinstance(error, UnsupportedTorchType) else "")
            )
            text = "None"
        if op.results:
            name = self.bound[op.result] = self._named(op.result)
            self.add(f"{name} = {text}", op)
        else:
            self.add(text, op)

    def _assign(self, names: list[str], values: list[str]) -> None:
        pairs = [(n, v) for n, v in zip(names, values, strict=True) if n != v]
        if pairs:
            self.add(f"{', '.join(n for n, _ in pairs)} = {', '.join(v for _, v in pairs)}")

    def _for(self, op: Op) -> None:
        (block,) = op.blocks
        index, *carried = block.params
        start, stop, step, *initial = (self.text(a) for a in op.args)
        names = [self.bound.setdefault(n, self._named(n)) for n in carried]
        self._assign(names, initial)
        name = self.bound[index] = self._named(index)
        span = f"{start}, {stop}, {step}" if step != "1" else f"{start}, {stop}" if start != "0" else stop
        self.add(f"for {name} in range({span}):", op)
        self._body(block, names)
        for result, carrier in zip(op.results, names, strict=True):
            self.bound[result] = carrier

    def _body(self, block: Block, names: list[str]) -> None:
        self.indent += 1
        before = len(self.lines)
        self.block(block)
        self._assign(names, [self.text(y) for y in block.yields[: len(names)]])
        if len(self.lines) == before:
            self.add("pass")
        self.indent -= 1

    def _if(self, op: Op) -> None:
        names = [self.bound.setdefault(n, self._named(n)) for n in op.results]
        self.add(f"if {self.text(op.args[0])}:", op)
        self._body(op.blocks[0], names)
        if len(op.blocks) > 1 and (op.blocks[1].ops or names):
            self.add("else:")
            self._body(op.blocks[1], names)

    def _copy(self, op: Op) -> None:
        self.bound[op.result] = self.text(op.args[0])

    def _while(self, op: Op) -> None:
        test, body = op.blocks
        names = [self.bound.setdefault(n, self._named(n)) for n in test.params]
        self._assign(names, [self.text(a) for a in op.args])
        self.add("while True:", op)
        self.indent += 1
        self.block(test)
        self.add(f"if not ({self.text(test.yields[0])}):")
        self.add("    break")
        self.block(body)
        self._assign(names, [self.text(y) for y in body.yields])
        self.indent -= 1
        self.bound.update(zip(op.results, names, strict=True))

    def _call(self, op: Op) -> None:
        self.bound.update(dict.fromkeys(op.results, "None"))  # calls are done in their order, so nothing waits
        arguments = ", ".join(self.text(a) for a in op.args)
        callee = self.owner.names.get(op.callee, op.callee)
        call = f"{callee}({arguments})"
        if op.launch.blocks is not None:
            call = f"spmd({self.text(op.launch.blocks)}, {callee}, {arguments})"
        if (p := op.launch.predicate) is not None:
            call = f"if {self.text(p.tensor)}[{self.text(p.indices)}].item() {COMPARE[p.op]} {p.target}: {call}"
        self.add(call, op)


_CONTROL: dict[str, Callable[[_Function, Op], None]] = {
    "for": _Function._for, "while": _Function._while, "if": _Function._if,
    "scope": lambda f, op: f.block(op.blocks[0]),
    "copy": _Function._copy, "call": _Function._call,
}  # fmt: skip
