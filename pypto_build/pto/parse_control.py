"""Reading regions, and `scf.for`, `scf.if` and `scf.while`, whose regions define values of their own."""

from __future__ import annotations

from collections.abc import Callable

from .model import Operation, Region, Source
from .parse_attributes import AttributeReader
from .types import Type, parse_type

MAX_DEPTH = 64  # nested regions


class RegionReader(AttributeReader):
    """Reads regions of operations; the class below reads the operations (parse_operations)."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.depth = 0

    def region(self, args: tuple[tuple[str, Type | None], ...] = ()) -> Region:
        """`{ operations }`."""
        self.expect("{", "'{' before the body")
        return self.region_body(args)

    def region_body(self, args: tuple[tuple[str, Type | None], ...]) -> Region:
        """`operations }`."""
        if self.depth >= MAX_DEPTH:
            self.fail(f"expected at most {MAX_DEPTH} nested regions", self.at - 1)
        self.depth += 1
        region = Region([], args)
        tokens = self.tokens
        while tokens[self.at] != "}":
            region.ops.append(self.operation())
        self.at += 1
        self.depth -= 1
        return region

    def operation(self) -> Operation:
        """The next operation."""
        raise NotImplementedError


def read_for(reader: RegionReader, op: Operation) -> None:
    """`%i = %a to %b step %c [iter_args(%x = %init) -> (T)] [: type] { … }`."""
    index = reader.value("the loop index")
    reader.expect("=")
    op.operands["lower"] = (reader.value("the lower bound"),)
    reader.expect("to", "'to' and the upper bound")
    op.operands["upper"] = (reader.value("the upper bound"),)
    reader.expect("step", "'step' and the step")
    op.operands["step"] = (reader.value("the step"),)
    names: list[str] = []
    if reader.accept("iter_args"):
        names = _initial_values(reader, op)
        reader.expect("->", "'->' and the types of iter_args")
        op.result_types = _result_types(reader, len(names))
    index_type = parse_type("index")
    if reader.accept(":"):
        index_type = reader.type()
        op.types["lower"] = (index_type,)
    op.regions = (reader.region(((index, index_type), *zip(names, op.result_types, strict=True))),)


def _initial_values(reader: RegionReader, op: Operation) -> list[str]:
    """`(%x = %init, …)`; the initial values become operands, the names are returned."""
    reader.expect("(", "'('")
    names: list[str] = []
    values: list[str] = []
    while reader.tokens[reader.at] != ")":
        names.append(reader.value("the name of a carried value"))
        reader.expect("=", "'=' and its initial value")
        values.append(reader.value("its initial value"))
        if not reader.accept(","):
            break
    reader.expect(")", "',' or ')'")
    if values:
        op.operands["init"] = tuple(values)
    return names


def _result_types(reader: RegionReader, count: int) -> tuple[Type, ...]:
    types = reader.result_types()
    if len(types) != count:
        reader.fail(
            f"expected {count} type{'s' * (count != 1)}, one for each carried value, found {len(types)}",
            reader.at - 1,
        )
    return tuple(types)


def read_if(reader: RegionReader, op: Operation) -> None:
    """`%cond [-> (T)] { … } [else { … }]`."""
    op.operands["cond"] = (reader.value("the condition"),)
    if reader.accept("->"):
        op.result_types = tuple(reader.result_types())
    regions = [reader.region()]
    if reader.accept("else"):
        regions.append(reader.region())
    elif op.result_types:
        reader.fail(f"expected 'else', since the operation has results; found {reader.found()}")
    op.regions = tuple(regions)


def read_while(reader: RegionReader, op: Operation) -> None:
    """`(%x = %init) : (T) -> (R) { … scf.condition } do { ^bb0(%y: R): … }`."""
    names = _initial_values(reader, op)
    reader.expect(":", "':' and the type")
    signature = reader.function_type()
    if len(signature.inputs) != len(names):
        reader.fail(f"expected {len(names)} operand types, found {len(signature.inputs)}", reader.at - 1)
    if names:
        op.types["init"] = signature.inputs
    op.result_types = signature.results
    before = reader.region(tuple(zip(names, signature.inputs, strict=True)))
    reader.expect("do", "'do' and the loop body")
    op.regions = (before, _labelled_region(reader))


def _labelled_region(reader: RegionReader) -> Region:
    """A region that may begin with `^name(%x: T, …):`, which names its arguments."""
    args: list[tuple[str, Type | None]] = []
    if reader.tokens[reader.at] == "{" and reader.tokens[reader.at + 1][:1] == "^":
        reader.at += 2
        if reader.accept("("):
            while reader.tokens[reader.at] != ")":
                name = reader.value("an argument of the block")
                reader.expect(":", "':' and its type")
                args.append((name, reader.type()))
                if not reader.accept(","):
                    break
            reader.expect(")", "',' or ')'")
        reader.expect(":", "':' after the block's arguments")
        return reader.region_body(tuple(args))
    return reader.region()


READERS: dict[str, Callable[[RegionReader, Operation], None]] = {
    "scf.for": read_for,
    "scf.if": read_if,
    "scf.while": read_while,
}
