"""A program to PyTorch: its kernels on matrices, its orchestration as plain calls. This is what the `.pto` modules and
the orchestration that are made of it have to agree with.

The program is taken after its types are known and before anything is decided about cores, memories and addresses, so a
kernel for both cores is one function, and a tile is just what is valid of it.
"""

from __future__ import annotations

from collections.abc import Callable

from pypto_build.pto.torch.converting import converted
from pypto_build.pto.torch.dtypes import UnsupportedType
from pypto_build.pto.torch.module import torch_codegen
from pypto_build.pto.torch.names import Names
from pypto_build.pto.torch.preamble import helper_names, preamble
from pypto_build.pto.types import parse_type

from .dtypes import DType
from .ir import Block, Const, Function, Launch, Op, Operand, Program, Ref, ScalarType, TensorType, TileType
from .pipeline import PASSES

#: Passes that a program needs before it can be translated.
TYPED = ("flatten_calls", "convert_to_ssa", "infer_types")


def typed_program(program: Program) -> Program:
    """A program as the front end made it, with its types known. Raises CompileError."""
    for one in PASSES:
        if one.name in TYPED:
            program = one.run(program)
    return program


@torch_codegen.register
def _(node: Program, *, check_shapes: bool = False) -> str:
    return program_text(node, check_shapes=check_shapes)


@torch_codegen.register
def _(node: Function, *, check_shapes: bool = False) -> str:
    writer = _Functions({node.name: node}, check_shapes)
    return writer.file([node], entry=None)


def program_text(program: Program, *, check_shapes: bool = False) -> str:
    """Kernels, then the orchestration, then `run`. The program's types are known (see `typed_program`).

    Raises ValueError naming all operations that have no translation.
    """
    writer = _Functions(program.functions, check_shapes)
    entry = program.entries[0] if program.entries else None
    return writer.file([f for f in program.functions.values() if f.kind != "inline"], entry)


class _Functions:
    def __init__(self, functions: dict[str, Function], check_shapes: bool) -> None:
        self.functions = functions
        self.check_shapes = check_shapes
        self.lines: list[str] = []
        self.problems: list[str] = []

    def file(self, functions: list[Function], entry: Function | None) -> str:
        ordered = sorted(functions, key=lambda f: f.kind == "orchestration")
        for function in ordered:
            writer = _Function(function, self)
            self.lines += [*writer.write(), "", ""]
        if entry is not None and entry.name != "run":
            names = ", ".join(_parameters(entry, self))
            self.lines += ["# Entry point", f"def run({names}):", f"    return {entry.name}({names})", ""]
        if self.problems:
            names = ", ".join(dict.fromkeys(f"'{problem.split()[0]}'" for problem in self.problems))
            raise ValueError(f"Unsupported op {names} in torch_codegen. {'; '.join(self.problems)}")
        body = "\n".join(self.lines).rstrip() + "\n"
        return preamble(body) + "\n\n" + body


def _parameters(function: Function, functions: _Functions) -> list[str]:
    names = Names(helper_names() | set(functions.functions))
    return [names.unique(_hint(p.name)) for p in function.params]


def _hint(name: str) -> str:
    return name.partition("__ssa")[0]


_BINARY = {
    "add": "{a} + {b}", "sub": "{a} - {b}", "mul": "{a} * {b}", "div": "{a} / {b}",
    "maximum": "torch.maximum({a}, {b})", "minimum": "torch.minimum({a}, {b})", "bitwise_and": "{a} & {b}",
    "bitwise_or": "{a} | {b}", "shl": "{a} << {b}", "shr": "{a} >> {b}",
}  # fmt: skip
_WITH_NUMBER = {"maximum": "{a}.clamp(min={b})", "minimum": "{a}.clamp(max={b})"}
_UNARY = {
    "exp": "torch.exp({a})", "log": "torch.log({a})", "sqrt": "torch.sqrt({a})", "recip": "torch.reciprocal({a})",
    "neg": "-{a}", "abs": "torch.abs({a})", "relu": "torch.relu({a})", "rsqrt": "torch.rsqrt({a})", "move": "{a}",
    "transpose": "{a}.T",
}  # fmt: skip
_REDUCE = {"sum": "sum", "max": "amax", "min": "amin"}
_EXPAND = {
    "add": "{a} + {b}", "sub": "{a} - {b}", "mul": "{a} * {b}", "div": "{a} / {b}", "max": "torch.maximum({a}, {b})",
    "min": "torch.minimum({a}, {b})",
}  # fmt: skip
_SCALAR = {
    "add": "{a} + {b}", "sub": "{a} - {b}", "mul": "{a} * {b}", "mod": "rest({a}, {b})", "lt": "{a} < {b}",
    "le": "{a} <= {b}", "gt": "{a} > {b}", "ge": "{a} >= {b}", "eq": "{a} == {b}", "ne": "{a} != {b}",
    "min": "min({a}, {b})", "max": "max({a}, {b})", "and": "{a} and {b}", "or": "{a} or {b}", "not": "not {a}",
    "neg": "-{a}", "bitwise_and": "{a} & {b}", "bitwise_or": "{a} | {b}", "shl": "{a} << {b}", "shr": "{a} >> {b}",
    "cdiv": "-(-{a} // {b})",
}  # fmt: skip
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_PATTERNS = {"P0101": (2, 0), "P1010": (2, 1), "P0001": (4, 0), "P0010": (4, 1), "P0100": (4, 2), "P1000": (4, 3),
             "P1111": (1, 0)}  # fmt: skip


class _Function:
    def __init__(self, function: Function, owner: _Functions) -> None:
        self.function, self.owner = function, owner
        self.names = Names(helper_names() | set(owner.functions))
        self.bound: dict[str, str] = {}
        self.lines: list[str] = []
        self.indent = 1

    def write(self) -> list[str]:
        for param in self.function.params:
            self.bound[param.name] = self.names.unique(_hint(param.name))
        parameters = ", ".join(self.bound[p.name] for p in self.function.params)
        for param in self.function.tensors():
            self._tensor(param.name, param.type)
        self.block(self.function.body)
        head = f"def {self.function.name}({parameters}):  # {self.function.place}"
        return [head, *(self.lines or ["    pass"])]

    def _tensor(self, name: str, type_: object) -> None:
        """Assertions on a tensor, and the extents that are known by a name."""
        assert isinstance(type_, TensorType)
        text = self.bound[name]
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

    def add(self, line: str, op: Op | None = None) -> None:
        note = f"  # {op.place}" if op is not None and op.place.line else ""
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
        except (KeyError, UnsupportedType) as error:
            self.owner.problems.append(
                f"{op.name} at {op.place}" + (f" {error}" if isinstance(error, UnsupportedType) else "")
            )
            text = "None"
        if op.results:
            name = self.bound[op.result] = self.names.unique(_hint(op.result))
            self.add(f"{name} = {text}", op)
        else:
            self.add(text, op)

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

    def _assign(self, names: list[str], values: list[str]) -> None:
        pairs = [(n, v) for n, v in zip(names, values, strict=True) if n != v]
        if pairs:
            self.add(f"{', '.join(n for n, _ in pairs)} = {', '.join(v for _, v in pairs)}")

    def _for(self, op: Op) -> None:
        (block,) = op.blocks
        index, *carried = block.params
        start, stop, step, *initial = (self.text(a) for a in op.args)
        names = [self.bound.setdefault(n, self.names.unique(_hint(n))) for n in carried]
        self._assign(names, initial)
        name = self.bound[index] = self.names.unique(index.partition("__")[0])
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
        names = [self.bound.setdefault(n, self.names.unique(_hint(n))) for n in op.results]
        self.add(f"if {self.text(op.args[0])}:", op)
        self._body(op.blocks[0], names)
        if len(op.blocks) > 1 and (op.blocks[1].ops or names):
            self.add("else:")
            self._body(op.blocks[1], names)

    def _scope(self, op: Op) -> None:
        self.block(op.blocks[0])

    def _copy(self, op: Op) -> None:
        self.bound[op.result] = self.text(op.args[0])

    def _while(self, op: Op) -> None:
        test, body = op.blocks
        names = [self.bound.setdefault(n, self.names.unique(_hint(n))) for n in test.params]
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
        launch = op.attrs.get("launch")
        call = f"{op.attrs['callee']}({arguments})"
        if isinstance(launch, Launch) and launch.blocks is not None:
            call = f"spmd({self.text(launch.blocks)}, {op.attrs['callee']}, {arguments})"
        if isinstance(launch, Launch) and (p := launch.predicate) is not None:
            call = f"if {self.text(p.tensor)}[{self.text(p.indices)}].item() {_COMPARE[p.op]} {p.target}: {call}"
        self.add(call, op)

    # --- operations ------------------------------------------------------------------------------------------------

    def tile(self, operand: Operand) -> TileType | None:
        type_ = self.function.types.get(operand.name) if isinstance(operand, Ref) else None
        return type_ if isinstance(type_, TileType) else None

    def dtype(self, operand: Operand) -> DType:
        type_ = self.function.types[operand.name] if isinstance(operand, Ref) else None
        assert isinstance(type_, (TileType, TensorType, ScalarType))
        return type_.dtype

    def dim(self, extent: object) -> str:
        return self.text(extent) if isinstance(extent, Ref) else str(extent)

    def expression(self, op: Op) -> str:
        """The value of an operation without blocks. KeyError where there is no translation."""
        name, args = op.name, [self.text(a) for a in op.args]
        made = self.function.types.get(op.result) if op.results else None
        if name.startswith("s."):
            return self._scalar(op, name[2:], args)
        if name in _BINARY:
            return self._binary(op, args)
        if name in _UNARY:
            return _UNARY[name].format(a=args[0])
        if name.startswith(("row_expand_", "col_expand_")):
            return _EXPAND[name[11:]].format(a=args[0], b=args[1])
        if name in ("row_expand", "col_expand"):
            return f"{args[1]}.expand_as({args[0]}).clone()"
        if name.startswith(("row_", "col_")) and name[4:] in _REDUCE:
            return f"{args[0]}.{_REDUCE[name[4:]]}(dim={1 if name[0] == 'r' else 0}, keepdim=True)"
        return _EXPRESSIONS[name](self, op, args, made)

    def _scalar(self, op: Op, name: str, args: list[str]) -> str:
        a, b = args[0], args[1] if len(args) > 1 else ""
        dtype = op.attrs.get("dtype")
        is_float = isinstance(dtype, DType) and dtype.is_float
        if name == "cast":
            return f"f32({a})" if is_float else f"int({a})"
        if name == "div" or (name == "floordiv" and is_float):
            return f"f32({a} / {b})" if is_float else f"quotient({a}, {b})"
        if name == "floordiv":
            return f"{a} // {b}"
        text = _SCALAR[name].format(a=a, b=b)
        return f"f32({text})" if is_float and name in ("add", "sub", "mul") else text

    def _binary(self, op: Op, args: list[str]) -> str:
        number = self.tile(op.args[1]) is None
        if op.name == "div" and self.dtype(op.args[0]).is_integer:
            return f"divide({args[0]}, {f'torch.tensor({args[1]})' if number else args[1]})"
        form = _WITH_NUMBER.get(op.name, _BINARY[op.name]) if number else _BINARY[op.name]
        return form.format(a=args[0], b=f"({args[1]})" if args[1].startswith("-") else args[1])

    def _load(self, op: Op, args: list[str], made: object) -> str:
        assert isinstance(made, TileType)
        shape = [int(a.value) for a in op.args[2] if isinstance(a, Const)]  # type: ignore[union-attr]
        text = f"load_tile({args[0]}, {args[1]}, {self.text(tuple(map(Const, shape)))})"
        if made.valid == made.shape:
            return text
        return f"{text}[:{self.dim(made.valid[0])}, :{self.dim(made.valid[1])}]"

    def _store(self, op: Op, args: list[str], made: object) -> str:
        add = ", add=True" if op.attrs.get("atomic") == "add" else ""
        return f"store_tile({args[2]}, {args[1]}, {args[0]}{add})"

    def _cast(self, op: Op, args: list[str], made: object) -> str:
        source, target = parse_type(self.dtype(op.args[0]).pto), parse_type(op.attrs["dtype"].pto)
        text = converted(args[0], source, target, str(op.attrs.get("mode", "rint")).lower(), False)
        to = f".to(torch.{op.attrs['dtype'].torch})"
        return text if text.endswith(to) else f"{text}{to}"

    def _extract(self, op: Op, args: list[str], made: object) -> str:
        assert isinstance(made, TileType) and isinstance(op.args[1], tuple)
        row, col = (self.text(o) for o in op.args[1])
        return f"{args[0]}[{row}:{row} + {made.shape[0]}, {col}:{col} + {made.shape[1]}]"

    def _full(self, op: Op, args: list[str], made: object) -> str:
        assert isinstance(made, TileType)
        return f"torch.full({made.shape}, {args[0]}, dtype=torch.{made.dtype.torch})"

    def _create_tile(self, op: Op, args: list[str], made: object) -> str:
        assert isinstance(made, TileType)
        return f"torch.zeros({made.shape}, dtype=torch.{made.dtype.torch})"

    def _arange(self, op: Op, args: list[str], made: object) -> str:
        assert isinstance(made, TileType)
        return f"{args[0]} + torch.arange({made.shape[1]}, dtype=torch.int64)[None]"

    def _reshape(self, op: Op, args: list[str], made: object) -> str:
        assert isinstance(made, (TileType, TensorType))
        shape = made.valid if isinstance(made, TileType) else made.shape
        return f"{args[0]}.reshape({', '.join(map(self.dim, shape))})"

    def _fillpad(self, op: Op, args: list[str], made: object) -> str:
        assert isinstance(made, TileType)
        return f'fill_pad({args[0]}, {made.shape[0]}, {made.shape[1]}, "{op.attrs["pad"]}")'

    def _select(self, op: Op, args: list[str], made: object) -> str:
        if self.tile(op.args[0]) is None:
            return f"{args[1]} if {args[0]} else {args[2]}"
        return f"torch.where({', '.join(args[:3])})"

    def _gather_mask(self, op: Op, args: list[str], made: object) -> str:
        period, first = _PATTERNS[op.attrs["pattern"]]
        text = f"{args[0]}[:, {first}::{period}]"
        dtype = op.attrs["dtype"]
        if not dtype or dtype == self.dtype(op.args[0]):
            return text
        signed = {"uint32": "int32", "uint16": "int16"}.get(dtype.torch, dtype.torch)
        return f"{text}.contiguous().view(torch.{signed})"


_Expression = Callable[[_Function, Op, list[str], object], str]


def _plain(form: str) -> _Expression:
    """An expression of the operands alone."""
    return lambda f, op, args, made: form.format(*args)


_CONTROL: dict[str, Callable[[_Function, Op], None]] = {
    "for": _Function._for, "while": _Function._while, "if": _Function._if, "scope": _Function._scope,
    "copy": _Function._copy, "call": _Function._call,
}  # fmt: skip
_EXPRESSIONS: dict[str, _Expression] = {
    "load": _Function._load,
    "store": _Function._store,
    "cast": _Function._cast,
    "extract": _Function._extract,
    "full": _Function._full,
    "create_tile": _Function._create_tile,
    "arange": _Function._arange,
    "reshape": _Function._reshape,
    "fillpad": _Function._fillpad,
    "select": _Function._select,
    "gather_mask": _Function._gather_mask,
    "cmp": lambda f, op, args, made: f"{args[0]} {_COMPARE[op.attrs['mode']]} {args[1]}",
    "create_tensor": lambda f, op, args, made: f"create_tensor({args[0]}, torch.{op.attrs['dtype'].torch})",
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
