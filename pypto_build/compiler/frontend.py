"""The front end: converts the source of functions to operations on the program's variables.

An expression without a parameter or variable of the function is evaluated as Python; the rest becomes operations,
nested as in the source. Types are not known here.
"""

from __future__ import annotations

import ast

from pypto_build.facts.positions import SourcePosition

from . import language
from .cpp_scalars import RESERVED
from .errors import CompileError
from .expressions import ExpressionReader, Reach
from .ir import (
    Block,
    Const,
    Direction,
    IrFunction,
    IrParam,
    Op,
    Operand,
    Program,
    Ref,
    ScalarParam,
    TensorParam,
    TensorType,
    Value,
    ValueKind,
    WindowType,
)
from .language import Annotation, JitFunction
from .operations import OPERATIONS


def build_program(entry: JitFunction, platform: str = "a2a3sim") -> Program:
    """Return the program of one orchestration, with all kernels and inline functions that it calls."""
    builder = ProgramBuilder()
    function = builder.function(entry)
    return Program(entry.name, builder.functions, platform, function.position, entry.accepted)


def read_function(jit: JitFunction, reach: Reach) -> IrFunction:
    """Return the operations of one function; `reach` reads the functions that it calls."""
    return _Reader(reach, jit).read()


class ProgramBuilder:
    def __init__(self) -> None:
        self.functions: dict[str, IrFunction] = {}
        self.sources: dict[str, JitFunction] = {}

    def function(self, jit: JitFunction, caller: SourcePosition | None = None) -> IrFunction:
        """Return the function's operations; callees come first, so a program lists kernels before their users."""
        previous = self.sources.get(jit.name)
        if previous is jit:
            if jit.name not in self.functions:
                raise CompileError(caller or SourcePosition(), f"{jit.name} calls itself, which is not supported")
            return self.functions[jit.name]
        reader = _Reader(self.function, jit)
        if previous is not None:
            reader.fail(reader.node, f"two functions have the name {jit.name}", "give one of them another name")
        if jit.kind == "kernel" and jit.name in RESERVED:
            reader.fail(
                reader.node,
                f"{jit.name} is a word of C++ and cannot be the name of a kernel",
                "give the kernel another name",
            )
        self.sources[jit.name] = jit
        self.functions[jit.name] = reader.read()
        return self.functions[jit.name]


# Statements of Python that the language does not have: their names, and what to write instead.
_STATEMENTS: dict[type, tuple[str, str]] = {
    ast.Break: ("break", "put what follows under an if"),
    ast.Continue: ("continue", "put what follows under an if"),
    ast.Import: ("import", "import at the top of the file"),
    ast.ImportFrom: ("import", "import at the top of the file"),
    ast.FunctionDef: ("def", "put it outside, decorated with @pl.jit.inline"),
    ast.AsyncFor: ("async", ""),
    ast.Assert: ("assert", "check what is known when compiling outside of the function"),
}


class _Reader(ExpressionReader):
    # --- the function ----------------------------------------------------------------------------------------------

    def read(self) -> IrFunction:
        position = self.position(self.node)
        params = tuple(self.parameters(position))
        for statement in self.node.body:
            self.statement(statement)
        for symbol in self.symbols:
            self.variable(symbol, ValueKind.EXTENT, position)
        return IrFunction(
            self.jit.name, self.jit.kind, params, self.block, position, split=self.jit.split,
            symbols=tuple(self.symbols), values=self.values,
        )  # fmt: skip

    def variable(self, name: str, kind: ValueKind, position: SourcePosition) -> Value:
        """Return the value of the program's variable `name`, which exists from its first definition on."""
        if name not in self.values:
            self.values.add(Value(name, name, kind, position, name))
        return self.values[name]

    def parameters(self, position: SourcePosition) -> list[IrParam]:
        arguments = self.node.args
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
            self.fail(
                self.node,
                f"{self.jit.name}: this kind of parameter is not supported",
                "write plain parameters, without *, / or **",
            )
        defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + list(arguments.defaults)
        params: list[IrParam] = []
        for argument, default in zip(arguments.args, defaults, strict=True):
            value_of_name = self.variable(argument.arg, ValueKind.PARAMETER, position)
            if self.jit.kind == "inline":
                params.append(TensorParam(value_of_name, TensorType((), language.FP32)))
                continue
            annotation = self.annotation(argument)
            for extent in annotation.extents:
                self.symbols.setdefault(extent.name)
            value = None
            if default is not None:
                constant = self.static(default)
                if isinstance(annotation.type, TensorType) or not isinstance(constant, (int, float)):
                    self.fail(
                        default, f"{argument.arg}: only a scalar parameter can have a default, which must be a number"
                    )
                value = constant
            if annotation.direction is not Direction.IN or isinstance(annotation.type, WindowType):
                self.outputs.add(argument.arg)
            if isinstance(annotation.type, WindowType):
                self.windows[argument.arg] = annotation.type
            if isinstance(annotation.type, TensorType):
                params.append(TensorParam(value_of_name, annotation.type, annotation.direction))
            else:
                params.append(ScalarParam(value_of_name, annotation.type, annotation.direction, value))
        return params

    def annotation(self, argument: ast.arg) -> Annotation:
        if argument.annotation is None:
            self.fail(argument, f"parameter {argument.arg} has no type", "annotate it: pl.Tensor[[64, 64], pl.FP32]")
        text = argument.annotation
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            text = ast.parse(text.value, mode="eval").body
        value = self.static(text)
        if not isinstance(value, Annotation):
            self.fail(argument, f"parameter {argument.arg}: {ast.unparse(text)} is not pl.Tensor, pl.Out or pl.Scalar")
        return value

    # --- statements --------------------------------------------------------------------------------------------------

    def statement(self, node: ast.stmt) -> None:
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is None:
            word, hint = _STATEMENTS.get(type(node), (type(node).__name__.lower(), ""))
            self.fail(node, f"{word} statements are not supported", hint)
        handler(node)

    def _pass(self, node: ast.Pass) -> None:
        pass

    def _expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):  # a docstring
            return
        value = self.operand(node.value)
        if isinstance(value, Ref) and isinstance(node.value, ast.Call):
            return  # a collective of a host program, whose dispatches are there
        if not isinstance(value, Op):
            self.fail(node, "the value of this expression is not used", "assign the value, or remove the line")
        self.emit(value)

    def _assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            self.fail(node, "an assignment must have exactly one variable", "write one line for each variable")
        self.assign(node, node.targets[0], node.value)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node, node.target, node.value)

    def _augassign(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            self.fail(node, "only a variable can be assigned to")
        current = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        self.assign(node, node.target, ast.copy_location(ast.BinOp(current, node.op, node.value), node))

    def assign(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            held, names = list[Ref](), self.made_up("t")
            for item in value.elts:
                name = next(names)
                self.values.make(name, self.position(node))
                self.define(node, name, self.operand(item))
                held.append(Ref(name))
            for one, ref in zip(target.elts, held, strict=True):
                if not isinstance(one, ast.Name):
                    self.fail(node, "only a variable can be assigned to")
                self.define(node, one.id, ref)
            return
        if isinstance(target, ast.Tuple):
            self.fail(node, f"{len(target.elts)} variables cannot take one value", "write one value for each variable")
        if not isinstance(target, ast.Name):
            self.fail(node, "only a variable can be assigned to", "use pl.store or pl.write to write into a tensor")
        self.define(node, target.id, self.operand(value))

    def define(self, node: ast.stmt, name: str, value: Operand) -> None:
        if isinstance(value, tuple):
            self.fail(
                node, f"{name} would be a list, and a variable cannot hold a list", "write the list where it is used"
            )
        if isinstance(value, Op) and (meaning := self.meaning(value)) is not None:
            self.emit(value)
            if meaning == Ref(name):
                return
            value = meaning
        if isinstance(value, Op) and value.name == "window":
            self.remember(name, value)
        elif isinstance(value, Ref) and value.name in self.windows:
            self.windows[name] = self.windows[value.name]
        self.variable(name, ValueKind.VARIABLE, self.position(node))
        self.emit(Op("copy", (value,), results=(name,), position=self.position(node)))

    def remember(self, name: str, window: Op) -> None:
        """Record the type of a host program's window, if its extents are constant."""
        extents, dtype = window.args[1], window.attrs["dtype"]
        shape = tuple(int(e.value) for e in extents if isinstance(e, Const)) if isinstance(extents, tuple) else ()
        self.windows.pop(name, None)
        if isinstance(extents, tuple) and len(shape) == len(extents) and shape:
            self.windows[name] = WindowType(shape, dtype)

    def meaning(self, op: Op) -> Operand | None:
        """Return the value of a statement like `x = pl.store(…, tensor)`: the tensor after the store."""
        spec = OPERATIONS.get(op.name)
        if "gives" in op.attrs:
            return op.args[int(op.attrs["gives"])]
        return op.args[spec.operands.index(spec.gives)] if spec and spec.gives else None

    def _return(self, node: ast.Return) -> None:
        if self.block is not self.body_of_function or node is not self.node.body[-1]:
            self.fail(
                node,
                "return must be the last statement of a function",
                "put the statements after it into an if statement",
            )
        if node.value is None:
            return
        items = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        if self.jit.kind != "inline":
            self.returned(node, items)
            return
        self.block.yields = tuple(self.operand(item) for item in items)

    def returned(self, node: ast.Return, items: list[ast.expr]) -> None:
        """Check a return statement. Results are written to parameters, so it may only return those, or the call that
        writes them.
        """
        values = [self.operand(item) for item in items]
        for value in values:
            if isinstance(value, Op) and (value.name == "call" or self.meaning(value) is not None):
                self.emit(value)
            elif not (isinstance(value, Ref) and value.name in self.outputs):
                self.fail(
                    node,
                    f"{self.jit.name} returns a value, which is not supported here",
                    "write results to Out parameters",
                )

    @property
    def body_of_function(self) -> Block:
        return self._outer[0] if self._outer else self.block

    _outer: tuple[Block, ...] = ()

    def nested(self, statements: list[ast.stmt], params: tuple[str, ...] = ()) -> Block:
        outer, held = self.block, self._outer
        self._outer = (*held, outer)
        self.block = Block(params=params)
        for statement in statements:
            self.statement(statement)
        block, self.block, self._outer = self.block, outer, held
        return block

    def _for(self, node: ast.For) -> None:
        if node.orelse or not isinstance(node.target, ast.Name):
            self.fail(node, "write the loop as `for i in pl.range(…)`")
        call = node.iter
        kind = self.callee(call.func) if isinstance(call, ast.Call) else None
        name = "range" if kind is range or kind == language.range else "unroll"
        if not isinstance(call, ast.Call) or (name == "unroll" and kind != language.unroll):
            self.fail(node.iter, "a for loop must run over pl.range(…) or pl.unroll(…)")
        bounds = [self.operand(a) for a in call.args]
        if not 1 <= len(bounds) <= 3 or call.keywords:
            self.fail(call, f"write pl.{name}(stop), pl.{name}(start, stop) or pl.{name}(start, stop, step)")
        start, stop, step = (
            (Const(0), bounds[0], Const(1)) if len(bounds) == 1 else (*bounds, Const(1)) if len(bounds) == 2 else bounds
        )
        if not isinstance(step, Const) or not isinstance(step.value, int) or step.value <= 0:
            self.fail(call, "the step must be a positive number")
        if name == "range":
            self.variable(node.target.id, ValueKind.INDEX, self.position(node))
            body = self.nested(node.body, (node.target.id,))
            self.emit(Op("for", (start, stop, step), blocks=(body,), position=self.position(node)))
            return
        if not isinstance(start, Const) or not isinstance(stop, Const):
            self.fail(call, "the bounds of pl.unroll must be known at compile time")
        for value in range(int(start.value), int(stop.value), int(step.value)):
            self.fixed[node.target.id] = Const(value)
            for statement in node.body:
                self.statement(statement)
        self.fixed.pop(node.target.id, None)

    def _if(self, node: ast.If) -> None:
        condition = self.operand(node.test)
        if isinstance(condition, Const):
            for statement in node.body if condition.value else node.orelse:
                self.statement(statement)
            return
        blocks = (self.nested(node.body), self.nested(node.orelse))
        self.emit(Op("if", (condition,), blocks=blocks, position=self.position(node)))

    def _while(self, node: ast.While) -> None:
        if self.jit.kind != "orchestration":
            self.fail(
                node, "while loops are supported only in orchestrations", "write `for i in pl.range(…)` in a kernel"
            )
        if node.orelse:
            self.fail(node, "a loop cannot have an else branch")
        outer, self.block = self.block, Block()
        condition = self.operand(node.test)
        test, self.block = self.block, outer
        if isinstance(condition, Const) and condition.value:
            self.fail(node, "the loop never ends", "use a condition that depends on something the loop changes")
        test.yields = (condition,)
        self.emit(Op("while", blocks=(test, self.nested(node.body)), position=self.position(node)))

    def _with(self, node: ast.With) -> None:
        call = node.items[0].context_expr
        kind = self.callee(call.func) if isinstance(call, ast.Call) else None
        manual = kind == language.manual_scope
        if len(node.items) != 1 or not (manual or kind == language.scope):
            self.fail(
                node,
                "a with statement takes only pl.scope() or pl.manual_scope()",
                "write one with statement for each scope",
            )
        if self.jit.kind != "orchestration":
            self.fail(node, f"pl.{'manual_scope' if manual else 'scope'}() can be used only in orchestrations")
        attrs = {"manual": True} if manual else {}
        self.emit(Op("scope", (), attrs, blocks=(self.nested(node.body),), position=self.position(node)))
