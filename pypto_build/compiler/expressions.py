"""Reads expressions of a function: constants are evaluated, the rest becomes operations, nested as in the source."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any, NoReturn

from pypto_build.facts.dtypes import DType
from pypto_build.facts.positions import SourcePosition

from . import language
from .collectives import COLLECTIVES, SIGNAL, WrongCollective, builtin, expansion
from .errors import CompileError, similar
from .ir import Block, Const, IrFunction, Launch, Op, Operand, Predicate, Ref, Value, ValueKind, Values, WindowType
from .language import Dynamic, Intrinsic, JitFunction
from .load import definition_of, namespace_of
from .operations import COMPARISONS, MISSING, OPERATIONS, OPERATORS, called

_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge, "eq": operator.eq, "ne": operator.ne, "min": min, "max": max, "shl": operator.lshift,
    "shr": operator.rshift, "bitwise_and": operator.and_, "bitwise_or": operator.or_,
    "cdiv": lambda a, b: -(-a // b),
}  # fmt: skip


# Hints for expressions and operators that Python has and the language lacks.
_HINTS: dict[type, str] = {
    ast.Subscript: "pl.load(tensor, offsets, shape) takes a part of a tensor, pl.extract one of a tile",
    ast.ListComp: "write a loop over pl.unroll(…)",
    ast.Attribute: "a tensor's extents are pl.dim(tensor, axis)",
}
_INSTEAD = {"MatMult": "use pl.matmul", "Pow": "multiply, or use pl.exp and pl.log", "Is": "use ==", "IsNot": "use !="}
_SUBMISSION = ("deps", "dumps", "allow_early_resolve", "predicate")
_ALSO = {"dtype": "target_type"}  # what PyPTO calls it in conversions
_KINDS = {
    "kernel": ("a kernel", "kernels"), "orchestration": ("an orchestration", "orchestrations"),
    "host": ("a host program", "host programs"), "both": ("", "kernels and orchestrations"),
}  # fmt: skip


#: Reads another function of the program; the position is its caller's.
Reach = Callable[[JitFunction, SourcePosition], IrFunction]


def names_in(node: ast.expr) -> list[str]:
    """Return the names that an expression mentions."""
    inner = node.value if isinstance(node, ast.Attribute) else node
    if isinstance(inner, ast.Name):  # most of them; a walk takes longer than all that follows
        return [inner.id]
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]


class ExpressionReader:
    """Reader of one function's expressions, with its names and the block that receives its operations."""

    def __init__(self, reach: Reach, jit: JitFunction) -> None:
        self.reach = reach
        self.jit = jit
        self.file, self.node = definition_of(jit.function)
        self.names = namespace_of(jit.function)
        self.symbols: dict[str, None] = {}
        self.fixed: dict[str, Const] = {}  # variables of unrolled loops
        arguments = {a.arg for a in self.node.args.args}
        self.locals = arguments | {
            n.id for n in ast.walk(self.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        self.values = Values()
        self.outputs: set[str] = set()  # parameters that results are written to
        self.windows: dict[str, WindowType] = {}
        self.chosen = self.made_up("chosen")  # for the values of conditional expressions
        self.block = Block()

    def fail(self, node: ast.AST, message: str, hint: str = "") -> NoReturn:
        raise CompileError(self.position(node), message, hint)

    def position(self, node: ast.AST) -> SourcePosition:
        return SourcePosition(self.file, getattr(node, "lineno", 0), getattr(node, "col_offset", -1) + 1)

    def static(self, node: ast.expr) -> Any:
        """Return the value of an expression that only uses names from outside the function."""
        if isinstance(node, ast.Constant):
            return node.value
        for name in names_in(node):
            if name in self.locals and name not in self.fixed:
                hint = _HINTS.get(type(node), "")
                self.fail(node, f"{ast.unparse(node)}: {name} is not known at compile time", hint)
        fixed = {name: const.value for name, const in self.fixed.items()}
        attribute = node if isinstance(node, ast.Attribute) else None
        root = attribute.value if attribute else node
        if isinstance(root, ast.Name) and root.id in self.names and root.id not in fixed:  # needs no compiling
            value = self.names[root.id]
            if attribute is None:
                return value
            with suppress(Exception):  # what it is, is said below
                return getattr(value, attribute.attr)
        try:
            code = compile(ast.fix_missing_locations(ast.Expression(body=node)), self.file, "eval")
            return eval(code, {**self.names, **fixed})
        except CompileError:
            raise
        except NameError as error:
            near = similar(error.name, {*self.locals, *self.names}) if error.name else ""
            self.fail(node, f"{ast.unparse(node)}: {error}{near}")
        except Exception as error:
            self.fail(node, f"{ast.unparse(node)}: {error}")

    def emit(self, op: Op) -> None:
        self.block.ops.append(op)

    def made_up(self, stem: str) -> Iterator[str]:
        """Yield variable names that the program does not use."""
        return (name for number in count() if (name := f"{stem}{number}") not in self.locals)

    # --- expressions -------------------------------------------------------------------------------------------------

    def operand(self, node: ast.expr) -> Operand:
        handler = getattr(self, f"_x_{type(node).__name__.lower()}", None)
        if handler is not None:
            value: Operand = handler(node)
            return value
        return self.constant(node, self.static(node))

    def constant(self, node: ast.expr, value: Any) -> Operand:
        if isinstance(value, (bool, int, float)):
            return Const(value)
        if isinstance(value, Dynamic):
            if value.name not in self.symbols:
                self.fail(node, f"{value.name} is not an extent of any parameter of {self.jit.name}")
            return Ref(value.name)
        if isinstance(value, (list, tuple)):
            return tuple(self.constant(node, item) for item in value)
        if value is None:
            hint = (
                "write only pl operations: the compiler reads a function without running it"
                if isinstance(node, ast.Call)
                else ""
            )
            self.fail(node, f"{ast.unparse(node)} is not a number", hint)
        self.fail(node, f"{ast.unparse(node)} is a {type(value).__name__}, not a number")

    def _x_name(self, node: ast.Name) -> Operand:
        if node.id in self.fixed:
            return self.fixed[node.id]
        if node.id in self.locals:
            return Ref(node.id)
        return self.constant(node, self.static(node))

    def _x_list(self, node: ast.List | ast.Tuple) -> Operand:
        return tuple(self.operand(item) for item in node.elts)

    _x_tuple = _x_list

    def _x_binop(self, node: ast.BinOp) -> Operand:
        return self.operation(node, type(node.op).__name__, self.operand(node.left), self.operand(node.right))

    def _x_compare(self, node: ast.Compare) -> Operand:
        if len(node.ops) != 1:
            self.fail(node, "a chain of comparisons is not supported", "join single comparisons with `and`")
        return self.operation(
            node, type(node.ops[0]).__name__, self.operand(node.left), self.operand(node.comparators[0])
        )

    def _x_boolop(self, node: ast.BoolOp) -> Operand:
        left = self.operand(node.values[0])
        for value in node.values[1:]:
            if self.reads(value):  # only looked at where the first does not decide, as `i < n and flags[i] > 0` needs
                decided = Const(isinstance(node.op, ast.Or))
                left = self.choose(node, left, *((decided, value) if decided.value else (value, decided)))
            else:
                left = self.operation(node, type(node.op).__name__, left, self.operand(value))
        return left

    def reads(self, node: ast.expr) -> bool:
        """Return whether an expression reads an element of a tensor."""
        calls = (n for n in ast.walk(node) if isinstance(n, ast.Call))
        return any(isinstance(f := self.callee(c.func), Intrinsic) and f.name == "read" for c in calls)

    def _x_unaryop(self, node: ast.UnaryOp) -> Operand:
        value = self.operand(node.operand)
        kind = type(node.op).__name__
        if isinstance(value, Const):
            return Const(not value.value if kind == "Not" else -value.value) if kind != "UAdd" else value
        return self.operation(node, kind, value)

    def _x_ifexp(self, node: ast.IfExp) -> Operand:
        """Read `a if condition else b`, of which only the chosen operand is computed."""
        condition = self.operand(node.test)
        if isinstance(condition, Const):
            return self.operand(node.body if condition.value else node.orelse)
        return self.choose(node, condition, node.body, node.orelse)

    def choose(self, node: ast.expr, condition: Operand, yes: ast.expr | Const, no: ast.expr | Const) -> Operand:
        """Return one of two values by a condition; only the chosen value is computed."""
        name = next(self.chosen)
        self.values.make(name, self.position(node))
        blocks = []
        for value in (yes, no):
            outer, self.block = self.block, Block()
            operand = value if isinstance(value, Const) else self.operand(value)
            position = self.position(node if isinstance(value, Const) else value)
            self.emit(Op("copy", (operand,), results=(name,), position=position))
            branch, self.block = self.block, outer
            blocks.append(branch)
        self.emit(Op("if", (condition,), blocks=tuple(blocks), position=self.position(node)))
        return Ref(name)

    def operation(self, node: ast.expr, kind: str, *operands: Operand) -> Operand:
        name = OPERATORS.get(kind)
        if name is None:
            self.fail(node, f"the operator {kind} is not supported", _INSTEAD.get(kind, ""))
        return self.folded(node, name, operands, {})

    def folded(self, node: ast.expr, name: str, operands: tuple[Operand, ...], attrs: dict[str, Any]) -> Operand:
        """Return the operation, or its value if all its operands are constants."""
        if len(operands) == 2 and isinstance(operands[0], Const) and isinstance(operands[1], Const) and name in _FOLD:
            try:
                return Const(_FOLD[name](operands[0].value, operands[1].value))
            except (ArithmeticError, TypeError) as error:
                self.fail(node, f"{ast.unparse(node)}: {error}")
        return Op(name, operands, attrs, position=self.position(node))

    def callee(self, node: ast.expr) -> Any:
        """Return the called object, if it is known without running the function."""
        return None if any(name in self.locals for name in names_in(node)) else self.static(node)

    def _x_call(self, node: ast.Call) -> Operand:
        launched = self.launched(node.func)
        if launched is not None:
            return self.call(node, *launched)
        callee = self.callee(node.func)
        if isinstance(callee, Intrinsic):
            return self.intrinsic(node, callee.name)
        if isinstance(callee, JitFunction):
            return self.call(node, callee, Launch())
        if callee in (min, max) and len(node.args) == 2:
            return self.intrinsic(node, callee.__name__)
        mentioned = set(names_in(node)) & (self.locals - self.fixed.keys())
        if mentioned:
            self.fail(
                node,
                f"{ast.unparse(node.func)} cannot be called with values of {self.jit.name}",
                self.instead(node.func),
            )
        return self.constant(node, self.static(node))

    def instead(self, function: ast.expr) -> str:
        """Return the hint for a Python function that the language lacks."""
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        name = {"sum": "row_sum", "amax": "row_max", "T": "transpose", "to": "cast", "float": "cast"}.get(name, name)
        hint = f"write pl.{name}(…)" if name in OPERATIONS else "use pl operations, kernels"
        return hint if name in OPERATIONS else f"{hint}, or a @pl.jit.inline function"

    def launched(self, node: ast.expr) -> tuple[JitFunction, Launch] | None:
        """Return kernel and launch of `kernel[blocks]` or `kernel[pl.launch(blocks, sync_start=True)]`; None for
        other expressions.
        """
        if not isinstance(node, ast.Subscript):
            return None
        callee = self.callee(node.value)
        if not isinstance(callee, JitFunction):
            return None
        if callee.kind != "kernel":
            self.fail(node, f"{callee.name} is not a kernel", "launch only kernels on blocks")
        inner = node.slice
        if isinstance(inner, ast.Call) and self.callee(inner.func) == language.launch:
            options = {k.arg: self.static(k.value) for k in inner.keywords}
            if len(inner.args) != 1 or not options.keys() <= {"sync_start"}:
                self.fail(inner, "pl.launch(blocks, sync_start=False)")
            return callee, Launch(self.operand(inner.args[0]), bool(options.get("sync_start")))
        return callee, Launch(self.operand(inner))

    def call(self, node: ast.Call, callee: JitFunction, launch: Launch) -> Op:
        if self.jit.kind == "host" and callee.kind == "kernel":
            self.fail(node, f"{callee.name} is a kernel", "call a @pl.jit function, which then calls the kernel")
        if callee.kind == "host" or (callee.kind == "orchestration" and self.jit.kind != "host"):
            self.fail(
                node, f"{callee.name} is a separate program", "call only kernels and inline functions from a program"
            )
        if callee.kind == "kernel" and self.jit.kind == "kernel":
            self.fail(
                node,
                f"{callee.name} is a kernel, and a kernel cannot call a kernel",
                "decorate the called function with @pl.jit.inline",
            )
        function = self.reach(callee, self.position(node))
        names = [p.variable for p in function.params]
        if callee.kind == "kernel":
            node, launch = self.submission(node, launch, names)
        elif callee.kind == "orchestration":
            node, launch = self.dispatch(node, launch, names)
        args = self.bind(node, callee.name, names, frozenset())
        return Op("call", args, {"callee": callee.name, "launch": launch}, position=self.position(node))

    def submission(self, node: ast.Call, launch: Launch, params: list[str]) -> tuple[ast.Call, Launch]:
        """Take the keywords for the task from a kernel's call; return the call without them and the launch with them.

        They are `deps=[task, …]`, `dumps=[tensor, …]`, `allow_early_resolve=True` and `predicate=pl.read(tensor, [i]) >
        0`.
        """
        marks = {k.arg: k.value for k in node.keywords if k.arg in _SUBMISSION and k.arg not in params}
        if "deps" in marks:
            deps = self.items(marks["deps"], "deps is a list of tasks", "t = kernel(…) is a task")
            launch = replace(launch, deps=deps)
        if "dumps" in marks:
            launch = replace(launch, dumps=self.items(marks["dumps"], "dumps is a list of tensors"))
        if "allow_early_resolve" in marks:
            launch = replace(launch, early_resolve=bool(self.static(marks["allow_early_resolve"])))
        if "predicate" in marks:
            launch = replace(launch, predicate=self.predicate(marks["predicate"]))
        rest = ast.Call(node.func, node.args, [k for k in node.keywords if k.value not in marks.values()])
        return ast.copy_location(rest, node), launch

    def dispatch(self, node: ast.Call, launch: Launch, params: list[str]) -> tuple[ast.Call, Launch]:
        """Take `device=rank` from a chip program's call; without it, ranks take turns."""
        device = next((k for k in node.keywords if k.arg == "device" and k.arg not in params), None)
        if device is None:
            return node, launch
        rest = ast.Call(node.func, node.args, [k for k in node.keywords if k is not device])
        return ast.copy_location(rest, node), replace(launch, device=self.operand(device.value))

    def _x_subscript(self, node: ast.Subscript) -> Operand:
        """Read `x[r]` in a host program: the part of a tensor for one rank."""
        if self.jit.kind != "host" or not isinstance(node.value, ast.Name) or node.value.id not in self.locals:
            return self.constant(node, self.static(node))
        if isinstance(node.slice, ast.Slice) or any(isinstance(part, ast.Slice) for part in ast.walk(node.slice)):
            self.fail(node, f"{ast.unparse(node)} contains a slice", "use pl.slice(tensor, shape, offsets)")
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        indices = tuple(self.operand(item) for item in items)
        return Op("index", (Ref(node.value.id), indices), position=self.position(node))

    def items(self, node: ast.expr, message: str, hint: str = "") -> tuple[Operand, ...]:
        items = self.operand(node)
        if not isinstance(items, tuple):
            self.fail(node, message, hint)
        return items

    def predicate(self, node: ast.expr) -> Predicate:
        """Read a task's predicate. The runtime evaluates it when it dispatches the task, so it does not become an
        operation of the program.
        """
        message = "a predicate must compare one element with an integer, as in pl.read(tensor, [i, …]) > 0"
        if not (isinstance(node, ast.Compare) and len(node.ops) == 1):
            self.fail(node, message)
        op = OPERATORS.get(type(node.ops[0]).__name__, "")
        element, target = self.operand(node.left), self.operand(node.comparators[0])
        if not (isinstance(element, Op) and element.name == "read" and op in COMPARISONS):
            self.fail(node, message)
        if not (isinstance(target, Const) and isinstance(target.value, int)):
            self.fail(node, message)
        tensor, indices = element.args
        return Predicate(tensor, indices if isinstance(indices, tuple) else (indices,), op, int(target.value))

    def collective(self, node: ast.Call, name: str) -> Operand:
        """Call the function of a collective on windows of these types, and return the changed window."""
        windows, means, defaults = COLLECTIVES[name]
        options = dict(defaults)
        rest = []
        for keyword in node.keywords:
            if keyword.arg in options:
                options[keyword.arg] = self.attribute(keyword.value)
            else:
                rest.append(keyword)
        trimmed = ast.copy_location(ast.Call(node.func, node.args, rest), node)
        host = self.jit.kind == "host"
        implied = frozenset({"signal"}) if host and name == "allreduce" else frozenset[str]()
        args = list(self.bind(trimmed, called(name), list(windows), implied))
        if args[-1] == ():
            args[-1] = self.own_signal(node)
        types = [self.windows.get(arg.name) if isinstance(arg, Ref) else None for arg in args]
        for window, type_ in zip(windows, types, strict=True):
            if type_ is None:
                hint = (
                    "create a window with pld.window(…) and constant extents"
                    if host
                    else "pass a window that is a parameter of this function"
                )
                self.fail(node, f"{called(name)}: {window} is not a window of {self.jit.name}", hint)
        window_types, chosen = tuple(t for t in types if t is not None), tuple(sorted(options.items()))
        try:
            function = builtin(name, window_types, chosen) if host else expansion(name, window_types, chosen)
        except WrongCollective as error:
            self.fail(node, f"{called(name)}: {error}")
        self.reach(function, self.position(node))
        if host:
            return self.on_every_rank(node, function, tuple(args), args[means])
        attrs = {"callee": function.name, "launch": Launch(), "gives": means}
        return Op("call", tuple(args), attrs, position=self.position(node))

    def own_signal(self, node: ast.Call) -> Ref:
        """Return a new window of signals, for a collective that was called without one."""
        position = self.position(node)
        buffer = next(name for name in self.made_up("__allreduce_signal_buf_") if name not in self.values)
        window = f"{buffer}_window"
        extents = tuple(Const(extent) for extent in SIGNAL.shape if isinstance(extent, int))
        for name in (buffer, window):
            self.values.make(name, position)
        self.emit(Op("alloc_window_buffer", (extents,), {"dtype": SIGNAL.dtype}, (buffer,), position=position))
        self.emit(Op("window", (Ref(buffer), extents), {"dtype": SIGNAL.dtype}, (window,), position=position))
        self.windows[window] = SIGNAL
        return Ref(window)

    def on_every_rank(self, node: ast.Call, chip: JitFunction, args: tuple[Operand, ...], result: Operand) -> Operand:
        """Dispatch a chip program to all ranks; `result` is the value of the collective."""
        position = self.position(node)
        rank = next(name for name in self.made_up("rank") if name not in self.values)
        self.values.add(Value(rank, rank, ValueKind.INDEX, position, rank))
        attrs = {"callee": chip.name, "launch": Launch(device=Ref(rank))}
        body = Block([Op("call", args, attrs, position=position)], (rank,))
        every = Op("world_size", position=position)
        self.emit(Op("for", (Const(0), every, Const(1)), blocks=(body,), position=position))
        return result

    def intrinsic(self, node: ast.Call, name: str) -> Operand:
        if name in COLLECTIVES:
            return self.collective(node, name)
        spec = OPERATIONS.get(name)
        if spec is None:
            self.fail(node, f"pl.{name} cannot be used here")
        if self.jit.kind != "inline" and not spec.is_for(self.jit.kind):
            users = " and ".join(_KINDS[kind][1] for kind in spec.where.split())
            self.fail(
                node, f"{spec.spelled} is an operation of {users}, but {self.jit.name} is {_KINDS[self.jit.kind][0]}",
                (
                    "move this operation into a @pl.jit.incore function and call "
                    "that function"
                ) if spec.where == "kernel" else "",
            )  # fmt: skip
        attrs: dict[str, Any] = {}
        positional = list(node.args)
        keywords = {k.arg or "**": k.value for k in node.keywords}
        extra = positional[len(spec.operands) :]
        for key, value in zip(spec.attrs, extra, strict=False):
            keywords.setdefault(key, value)
        for key, default in spec.attrs.items():
            if _ALSO.get(key) in keywords:
                keywords.setdefault(key, keywords.pop(_ALSO[key]))
            if key in keywords:
                attrs[key] = self.attribute(keywords.pop(key))
            elif default is MISSING:
                self.fail(node, f"{spec.spelled}: the argument {key} is missing")
            else:
                attrs[key] = default
        trimmed = ast.Call(
            node.func, positional[: len(spec.operands)] if len(extra) <= len(spec.attrs) else positional,
            [ast.keyword(k, v) for k, v in keywords.items()],
        )  # fmt: skip
        args = self.bind(ast.copy_location(trimmed, node), spec.spelled, list(spec.operands), spec.optional)
        return self.folded(node, name, args, attrs)

    def attribute(self, node: ast.expr) -> Any:
        value = self.static(node)
        if not isinstance(value, (DType, str, bool, int, float)):
            self.fail(node, f"{ast.unparse(node)} is not known at compile time")
        return value

    def bind(self, node: ast.Call, name: str, names: list[str], optional: frozenset[str]) -> tuple[Operand, ...]:
        """Return the arguments in parameter order; `()` for omitted ones."""
        if len(node.args) > len(names):
            self.fail(node, f"{name} takes {len(names)} arguments, but {len(node.args)} are passed")
        arguments = dict(zip(names, node.args, strict=False))
        for keyword in node.keywords:
            hint = f"its parameters are {', '.join(names)}"
            if keyword.arg in arguments:
                self.fail(node, f"{name}: {keyword.arg} is given twice", hint)
            if keyword.arg not in names:
                near = similar(keyword.arg or "**", names)
                self.fail(node, f"{name}: there is no parameter '{keyword.arg}'{near}", hint)
            arguments[keyword.arg] = keyword.value
        missing = [n for n in names if n not in arguments and n not in optional]
        if missing:
            self.fail(node, f"{name}: the argument {missing[0]} is missing", f"its parameters are {', '.join(names)}")
        return tuple(self.operand(arguments[n]) if n in arguments else () for n in names)
