"""Translates a program to PyTorch: its kernels on matrices, its orchestration as plain calls.

The `.pto` modules and the orchestration made of the program have to agree with this text. The program is taken after
its types are known and before cores, memories and addresses are decided. So a kernel for both cores is one function,
and a tile is just its valid elements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from pypto_build.pto.ops.functions import COMPARE
from pypto_build.pto.torch.dtypes import UnsupportedTorchType
from pypto_build.pto.torch.module import torch_codegen
from pypto_build.pto.torch.names import PythonNames, function_names
from pypto_build.pto.torch.preamble import helper_names, preamble, taken_names, used_names

from .errors import SourcePosition
from .ir import Block, IrFunction, Op, Program, TensorParam
from .pipeline import PASSES
from .torch_expressions import Expressions
from .values import Ref, ValueKind

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
    """A program as the front end made it, with its types known. Raises CompileError."""
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
    """Kernels, then the orchestration, then `run`, unless the program has a function of that name.

    The program's types are known (see `typed_program`).

    Raises ValueError naming all operations that have no translation.
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
        """Its first line, and the others."""
        for param in self.function.params:
            self.bound[param.name] = self.names.unique(param.value.stem)
        parameters = ", ".join(self.bound[p.name] for p in self.function.params)
        for param in self.function.tensors():
            self._tensor(param)
        self.block(self.function.body)
        head = f"def {self.owner.names[self.function.name]}({parameters}):  # {self.function.position}"
        return head, self.lines or ["    pass"]

    def _tensor(self, param: TensorParam) -> None:
        """Assertions on a tensor, and the extents that are known by a name."""
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
        """A variable for a value: the program's, or one of its own for what a loop or condition passes on."""
        value = self.function.values[name]
        return self.names.unique(value.name if value.kind in _PASSED_ON else value.stem)

    def add(self, line: str, op: Op | None = None) -> None:
        note = ""
        if op is not None and op.position.line:
            note = f"  # {op.position}"
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
                f"{op.name} at {op.position}" + (f" {error}" if isinstance(error, UnsupportedTorchType) else "")
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
