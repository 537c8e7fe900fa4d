"""Infers types: element type and extents of every value; each operation is checked against its operands.

Operators are resolved here: on tiles they become the tile operation, on numbers `s.<name>`, with conversions between
different element types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pypto_build.facts.dtypes import BOOL, INDEX, DType

from .errors import CompileError
from .ir import (
    TASK,
    Block,
    Const,
    Direction,
    IrFunction,
    IrParam,
    Op,
    Operand,
    Predicate,
    Program,
    Ref,
    ScalarType,
    TensorType,
    TileType,
    Type,
    WindowType,
)
from .operations import COMPARISONS, OPERATIONS, called
from .rules_kernel import KERNEL_RULES, TENSOR_RULES, Rule, RuleContext, kind_text
from .rules_ranks import RANK_RULES

# The tensors that an operation reads and writes, and the directions of a function's parameters.


# Checks that the declared directions of a program's tensors match its reads and writes.

#: By operation of a kernel: the operand that is a written tensor, here or on another rank; and the read one.
WRITTEN = {"store": 2, "write": 0, "notify": 0, "put": 0, "get": 0}
READ = {"load": 0, "read": 0, "wait": 0, "put": 2, "get": 2}
_VIEWS = ("slice", "reshape", "index")


def written_tensors(function: IrFunction, callees: Mapping[str, IrFunction]) -> dict[str, Op]:
    """Return the parameters of an orchestration or host program that a call writes, directly or through views, with
    the operation.
    """
    return _written((p.name for p in function.tensors()), function.body, callees)


def _written(params: Iterable[str], body: Block, callees: Mapping[str, IrFunction]) -> dict[str, Op]:
    source: dict[str, str] = {name: name for name in params}
    writers: dict[str, Op] = {}
    for op in body.walk():
        operands = [op.args[WRITTEN[op.name]]] if op.name in WRITTEN else []
        if op.name in _VIEWS and isinstance(op.args[0], Ref) and op.args[0].name in source:
            source[op.result] = source[op.args[0].name]
        if op.name == "call" and op.callee in callees:
            pairs = zip(callees[op.callee].params, op.args, strict=True)
            operands = [arg for param, arg in pairs if param.direction is not Direction.IN]
        for operand in operands:
            if isinstance(operand, Ref) and operand.name in source:
                writers.setdefault(source[operand.name], op)
    return writers


def with_directions(function: IrFunction, body: Block, callees: Mapping[str, IrFunction]) -> tuple[IrParam, ...]:
    """Return the function's parameters. Tensors in windows without a declared direction count as written if an
    operation writes them.
    """
    names = (p.name for p in function.windows() if p.direction is Direction.IN)
    written = _written(names, body, callees)
    return tuple(
        replace(p, direction=Direction.INOUT) if isinstance(p.type, WindowType) and p.name in written else p
        for p in function.params
    )


def check_program(program: Program) -> None:
    """Raise CompileError for a kernel that writes an In parameter, an output that is never written, and the like."""
    for kernel in program.kernels:
        _check_kernel(kernel)
    for entry in program.entries:
        check_entry(entry, program.functions)


def _check_kernel(kernel: IrFunction) -> None:
    read: dict[str, bool] = {}
    written: dict[str, bool] = {}
    for op in kernel.body.walk():
        for table, accesses in ((WRITTEN, written), (READ, read)):
            operand = op.args[table[op.name]] if op.name in table else None
            if isinstance(operand, Ref):
                accesses[operand.name] = True
                param = next((p for p in kernel.params if p.name == operand.name), None)
                if accesses is written and param is not None and param.direction is Direction.IN:
                    name = param.variable
                    raise CompileError(
                        op.position,
                        f"{kernel.name} writes {name}, which is declared as an input",
                        "declare the parameter pl.Out or pl.InOut",
                    )
    for param in kernel.tensors():
        name = param.variable
        if param.direction is not Direction.IN and param.name not in written:
            raise CompileError(
                kernel.position,
                f"{kernel.name} never writes its output {name}",
                "store to the output, or declare it as an input",
            )
        if param.direction is Direction.OUT and param.name in read:
            raise CompileError(
                kernel.position,
                f"{kernel.name} reads {name}, which is declared pl.Out",
                "declare the parameter pl.InOut",
            )


def check_entry(entry: IrFunction, callees: Mapping[str, IrFunction]) -> None:
    """Raise CompileError for an input that a task or dispatch writes, and for an output that none writes."""
    written = written_tensors(entry, callees)
    for param in entry.tensors():
        name = param.variable
        if param.direction is Direction.IN and param.name in written:
            raise CompileError(
                written[param.name].position,
                f"{entry.name}: {name} is declared as an input, but is written here",
                "declare the parameter pl.InOut",
            )
        if param.direction is not Direction.IN and param.name not in written:
            raise CompileError(entry.position, f"{entry.name}: no kernel writes its output {name}")


_ARITHMETIC = ("add", "sub", "mul", "div", "floordiv", "mod", "min", "max", "cdiv")
_BITS = ("bitwise_and", "bitwise_or", "shl", "shr")


def infer_types(program: Program) -> Program:
    typed: dict[str, IrFunction] = {}
    for name, function in program.functions.items():
        typed[name] = Inference(function, typed).run()
    return replace(program, functions=typed)


class Inference(RuleContext):
    """Types the values of one function, operation by operation."""

    def __init__(self, function: IrFunction, callees: dict[str, IrFunction]) -> None:
        super().__init__(function.values.copy())
        self.function = function
        self.callees = callees
        self.types |= {name: ScalarType(INDEX) for name in function.symbols}
        self.types |= {p.name: p.type for p in function.params}

    def run(self) -> IrFunction:
        body = self.block(self.function.body)
        params = with_directions(self.function, body, self.callees)
        return replace(self.function, params=params, body=body, values=self.values)

    # --- walking -----------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> Block:
        outer, self.out = self.out, []
        for op in block.ops:
            self.op(op)
        typed = Block(self.out, block.params, block.yields)
        self.out = outer
        return typed

    def op(self, op: Op) -> None:
        if op.name in ("for", "while", "if", "scope"):
            getattr(self, f"_{op.name}")(op)
            return
        if op.name == "call":
            self.call(op)
            return
        kinds = [self.type_of(a) for a in op.args]
        if op.name in OPERATIONS and OPERATIONS[op.name].rule in RANK_RULES:
            self.rule(op, RANK_RULES)
        elif any(isinstance(k, TileType) for k in kinds):
            self.rule(op, KERNEL_RULES)
        elif op.name in _ARITHMETIC or op.name in COMPARISONS or op.name in (*_BITS, "and", "or", "not", "neg"):
            self.scalar(op)
        elif op.name == "select":
            self.select(op)
        elif op.name == "cast":
            type_ = op.attrs["dtype"]
            self.keep(replace(op, name="s.cast", attrs={"dtype": type_}), ScalarType(type_))
        else:
            self.rule(op, TENSOR_RULES if op.name in TENSOR_RULES else KERNEL_RULES)

    def rule(self, op: Op, rules: Mapping[str, Rule]) -> None:
        spec = OPERATIONS.get(op.name)
        rule = rules.get(spec.rule) if spec else None
        if rule is None:
            mode = f'use pl.cmp(a, b, "{op.name}")' if op.name in COMPARISONS else ""
            self.fail(op, f"{op.name} does not take tiles", mode)
        self.keep(*rule(self, op))

    def keep(self, op: Op, type_: Type | None) -> None:
        if type_ is None:
            if op.results:
                self.fail(op, f"{called(op.name)} returns no value")
        elif not op.results:
            return  # computed and not used
        else:
            self.types |= dict.fromkeys(op.results, type_)
        self.out.append(op)

    def scalar(self, op: Op) -> None:
        """Type an operation on numbers: the common element type of its operands; comparisons give a BOOL."""
        if op.name == "cdiv":
            a, b = (self.number(op, x, INDEX) for x in op.args)
            less = self.emit(Op("s.sub", (b, Const(1)), {"dtype": INDEX}, position=op.position), ScalarType(INDEX))
            total = self.emit(Op("s.add", (a, less), {"dtype": INDEX}, position=op.position), ScalarType(INDEX))
            self.keep(replace(op, name="s.floordiv", args=(total, b), attrs={"dtype": INDEX}), ScalarType(INDEX))
            return
        dtype = BOOL if op.name in ("and", "or", "not") else self.common(op)
        if dtype.is_float and op.name in (*_BITS, "floordiv", "mod"):
            self.fail(op, f"{op.name} takes only integers, found {dtype}")
        if not dtype.is_float and op.name == "div":
            self.fail(op, "the operator / takes only floats", "divide integers with //")
        args = tuple(self.number(op, a, dtype) for a in op.args)
        result = BOOL if op.name in COMPARISONS else dtype
        self.keep(replace(op, name=f"s.{op.name}", args=args, attrs={"dtype": dtype}), ScalarType(result))

    def common(self, op: Op) -> DType:
        dtypes: list[DType] = []
        for arg in op.args:
            type_ = self.type_of(arg)
            if not isinstance(type_, ScalarType):
                hint = "load a tile from it with pl.load" if isinstance(type_, TensorType) else ""
                self.fail(op, f"{op.name} takes numbers or tiles, found {kind_text(type_)}", hint)
            if not isinstance(arg, Const) or isinstance(arg.value, float):
                dtypes.append(type_.dtype)
        if not dtypes:
            return INDEX
        if any(d.is_float for d in dtypes):
            return next(d for d in dtypes if d.is_float)
        return dtypes[0] if all(d == dtypes[0] for d in dtypes) else INDEX

    def select(self, op: Op) -> None:
        pair = replace(op, args=op.args[1:])
        dtype = self.common(pair)
        args = (self.number(op, op.args[0], BOOL), *(self.number(op, a, dtype) for a in op.args[1:]))
        self.keep(replace(op, name="s.select", args=args, attrs={"dtype": dtype}), ScalarType(dtype))

    def _for(self, op: Op) -> None:
        bounds = tuple(self.number(op, a, INDEX) for a in op.args[:3])
        body = op.blocks[0]
        self.types[body.params[0]] = ScalarType(INDEX)
        inits = op.args[3:]
        for param, init in zip(body.params[1:], inits, strict=True):
            self.types[param] = self.carried(op, init)
        typed = self.round(op, body.params[1:], body)
        self.out.append(replace(op, args=(*bounds, *inits), blocks=(typed,)))

    def _while(self, op: Op) -> None:
        test, body = op.blocks
        for name, init in zip(test.params, op.args, strict=True):
            self.types[name] = self.carried(op, init)
        condition = self.block(test)
        outer, self.out = self.out, condition.ops
        condition.yields = (self.number(op, condition.yields[0], BOOL),)
        self.out = outer
        self.out.append(replace(op, blocks=(condition, self.round(op, test.params, body))))

    def round(self, op: Op, params: tuple[str, ...], body: Block) -> Block:
        """Type the body of a loop: carried values and results keep the type of their initial values."""
        typed = self.block(body)
        for param, value, name in zip(params, typed.yields, op.results, strict=True):
            self.same(op, self.types[param], self.carried(op, value), param)
            self.types[name] = self.types[param]
        return typed

    def _if(self, op: Op) -> None:
        condition = self.number(op, op.args[0], BOOL)
        blocks = tuple(self.block(b) for b in op.blocks)
        for number, name in enumerate(op.results):
            first, second = (self.carried(op, b.yields[number]) for b in blocks)
            self.same(op, first, second, name)
            self.types[name] = first
        self.out.append(replace(op, args=(condition,), blocks=blocks))

    def _scope(self, op: Op) -> None:
        self.out.append(replace(op, blocks=tuple(self.block(b) for b in op.blocks)))

    def carried(self, op: Op, operand: Operand) -> Type:
        type_ = self.type_of(operand)
        if type_ is None:
            self.fail(op, "a list cannot be used as a loop or branch variable")
        return type_

    def same(self, op: Op, a: Type, b: Type, name: str) -> None:
        if _unpadded(a) != _unpadded(b):
            variable = self.values[name].variable
            self.fail(
                op,
                f"{variable} has the type {a} in one branch and {b} in the other",
                "use the same type in both branches",
            )

    # --- calls -------------------------------------------------------------------------------------------------------

    def call(self, op: Op) -> None:
        callee = self.callees[op.callee]
        args: list[Operand] = []
        for param, arg in zip(callee.params, op.args, strict=True):
            type_, variable = self.type_of(arg), param.variable
            if isinstance(param.type, ScalarType):
                args.append(self.number(op, arg, param.type.dtype))
                continue
            if not isinstance(type_, TensorType):
                hint = "pass the tensor that the kernel writes" if type_ == TASK else ""
                self.fail(op, f"{callee.name}: {variable} must be a tensor, found {kind_text(type_)}", hint)
            if type_.dtype != param.type.dtype:
                self.fail(op, f"{callee.name}: {variable} must be {param.type.dtype}, found {type_.dtype}")
            if isinstance(type_, WindowType) != isinstance(param.type, WindowType):
                self.fail(
                    op, f"{callee.name}: {variable} must be {kind_text(param.type)}, found {kind_text(type_)}",
                    "declare a tensor in a window as pld.DistributedTensor, and create it with pld.window",
                )  # fmt: skip
            self.fits(op, callee.name, variable, type_, param.type)
            args.append(arg)
        launch = op.launch
        if launch.blocks is not None:
            launch = replace(launch, blocks=self.number(op, launch.blocks, INDEX))
        if launch.device is not None:
            launch = replace(launch, device=self.number(op, launch.device, INDEX))
        self.tasks(op, f"{callee.name}: ", launch.deps)
        for dump in launch.dumps:
            if dump not in args:
                self.fail(op, f"{callee.name}: dumps= takes only tensors that the task takes as arguments")
        if launch.predicate is not None:
            launch = replace(launch, predicate=self.predicate(op, launch.predicate))
        if op.results and callee.kind == "orchestration":
            self.fail(
                op,
                f"{callee.name} has no value",
                "remove the assignment; dispatches are ordered by the tensors that they share",
            )
        for name in op.results:
            self.types[name] = TASK
        self.out.append(replace(op, args=tuple(args), attrs={**op.attrs, "launch": launch}))

    def predicate(self, op: Op, predicate: Predicate) -> Predicate:
        type_ = self.type_of(predicate.tensor)
        if not isinstance(type_, TensorType) or type_.dtype.is_float:
            self.fail(op, f"a predicate must read a tensor of integers, found {kind_text(type_)}")
        if len(predicate.indices) != len(type_.shape):
            self.fail(
                op,
                f"the predicate has {len(predicate.indices)} indices, but the tensor has {len(type_.shape)} extents",
            )
        return replace(predicate, indices=tuple(self.number(op, index, INDEX) for index in predicate.indices))

    def fits(self, op: Op, callee: str, name: str, actual: TensorType, declared: TensorType) -> None:
        equal = [
            isinstance(w, Ref) or isinstance(g, Ref) or g == w
            for g, w in zip(actual.shape, declared.shape, strict=False)
        ]
        if len(actual.shape) != len(declared.shape) or not all(equal):
            self.fail(op, f"{callee}: {name} must be {declared}, found {actual}")


def _unpadded(type_: Type) -> Type:
    return replace(type_, pad="null") if isinstance(type_, TileType) else type_


def verify_types(function: IrFunction) -> None:
    """Verify that every value has a type, and that a block's yields have the types of their receivers."""
    for op in function.body.walk():
        for name in op.defines:
            if name not in function.types:
                raise CompileError(op.position, f"{op.name}: {name} has no type")
