"""A program as text: what `--dump-passes` writes."""

from __future__ import annotations

from .dtypes import DType
from .ir import Block, IrFunction, Launch, Op, Operand, Program
from .values import Const, Ref, TileType


def program_text(program: Program) -> str:
    return "\n".join(function_text(f) for f in program.functions.values())


def function_text(function: IrFunction) -> str:
    params = ", ".join(f"{p.name}: {p.direction.value} {p.type}" for p in function.params)
    words = [w for w in (function.kind, function.core, function.group and f"group={function.group}") if w]
    lines = [f"# {' '.join(words)}, {function.position}", f"def {function.name}({params}):"]
    if function.pipe is not None:
        p = function.pipe
        lines.append(f"    # pipe: directions {p.mask}, {p.slots} slots of {p.slot_size} bytes")
    _block(function.body, function, "    ", lines)
    return "\n".join(lines) + "\n"


def _block(block: Block, function: IrFunction, indent: str, lines: list[str]) -> None:
    if not block.ops and not block.yields:
        lines.append(f"{indent}pass")
    for op in block.ops:
        _op(op, function, indent, lines)
    if block.yields:
        lines.append(f"{indent}yield {', '.join(map(operand_text, block.yields))}")


def _op(op: Op, function: IrFunction, indent: str, lines: list[str]) -> None:
    results = ", ".join(_typed(name, function) for name in op.results)
    left = f"{results} = " if results else ""
    if op.name == "for":
        start, stop, step, *inits = map(operand_text, op.args)
        carried = ", ".join(f"{p} = {i}" for p, i in zip(op.blocks[0].params[1:], inits, strict=True))
        note = f" carrying {carried}" if carried else ""
        lines.append(f"{indent}{left}for {op.blocks[0].params[0]} in range({start}, {stop}, {step}){note}:")
        _block(op.blocks[0], function, indent + "    ", lines)
        return
    if op.name == "while":
        carried = ", ".join(
            f"{p} = {operand_text(i)}" for p, i in zip(op.blocks[0].params, op.args, strict=bool(op.args))
        )
        lines.append(f"{indent}{left}while{f' carrying {carried}' if carried else ''}:")
        _block(op.blocks[0], function, indent + "    ", lines)
        lines.append(f"{indent}do:")
        _block(op.blocks[1], function, indent + "    ", lines)
        return
    if op.name == "if":
        lines.append(f"{indent}{left}if {operand_text(op.args[0])}:")
        _block(op.blocks[0], function, indent + "    ", lines)
        if op.blocks[1].ops or op.blocks[1].yields:
            lines.append(f"{indent}else:")
            _block(op.blocks[1], function, indent + "    ", lines)
        return
    lines.append(f"{indent}{left}{_call_text(op)}{':' if op.blocks else ''}")
    for block in op.blocks:
        _block(block, function, indent + "    ", lines)


def _call_text(op: Op) -> str:
    name = op.attrs.get("callee", op.name)
    marks = []
    if "launch" in op.attrs:
        launch, marks = op.launch, _marks(op.launch)
        if launch.blocks is not None:
            name += f"[{operand_text(launch.blocks)}{', sync_start' if launch.sync_start else ''}]"
    attrs = [f"{k}={_attr(v)}" for k, v in op.attrs.items() if k not in ("callee", "launch") and v not in ("", None)]
    return f"{name}({', '.join([*map(operand_text, op.args), *attrs, *marks])})"


def _marks(launch: Launch) -> list[str]:
    """Return the marks of a task beside its arguments."""
    marks = [f"deps={operand_text(launch.deps)}"] if launch.deps else []
    marks += [f"dumps={operand_text(launch.dumps)}"] if launch.dumps else []
    marks += ["allow_early_resolve"] if launch.early_resolve else []
    if launch.predicate is not None:
        p = launch.predicate
        marks.append(f"predicate={operand_text(p.tensor)}{operand_text(p.indices)} {p.op} {p.target}")
    return marks


def _attr(value: object) -> str:
    return str(value) if isinstance(value, DType) else repr(value)


def _typed(name: str, function: IrFunction) -> str:
    type_ = function.types.get(name)
    if type_ is None:
        return name
    address = f" @{function.addresses[name]}" if name in function.addresses and isinstance(type_, TileType) else ""
    return f"{name}: {type_}{address}"


def operand_text(operand: Operand) -> str:
    match operand:
        case Ref(name):
            return name
        case Const(value):
            return repr(value)
        case tuple():
            return f"[{', '.join(map(operand_text, operand))}]"
        case Op():
            return _call_text(operand)
