"""Time to parse a .pto module of 1 MB, beside lark and xDSL on the same text.

    python -m benchmarks.pto_parse [--megabytes 1] [--repeat 5]

The budget is one second for 1 MB. lark and xDSL are measured when they are installed (`pip install lark xdsl`), each on
the easiest task that could replace ours:

- lark: LALR over the same tokens, brackets only (no operations, types, roles or messages; a lower bound for it);
- xDSL: the generic form of the same operations, since the pretty form would need a hand-written parser for each one.

Ours reads the pretty form to a model with roles and types. It is quick because lexing is one `findall` of a compiled
regular expression (positions are found again only when an error needs them). A whole type is one token, and types
are cached by their text.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable

from pypto_build.pto import Module, Region, parse, print_module
from pypto_build.pto.checks import check_module
from pypto_build.pto.resolve import Resolved, resolve
from pypto_build.pto.types import tile_type

_BUDGET_S = 1.0


def kernel(name: str, blocks: int) -> str:
    """A vector kernel of `blocks` repeated load, compute, store steps, spelled as PyPTO spells it."""
    tile = str(tile_type("vec", "f32", 16, 64))
    view, part = "!pto.tensor_view<?x?xf32>", "!pto.partition_tensor_view<16x64xf32>"
    kind = "attributes {pto.kernel_kind = #pto.kernel_kind<vector>}"
    lines = [
        f"  func.func @{name}(%arg0: !pto.ptr<f32>, %arg1: !pto.ptr<f32>) {kind} {{",
        "  %c0_i64 = arith.constant 0 : i64",
        "  %c4096_i64 = arith.constant 4096 : i64",
        "  %c0 = arith.constant 0 : index",
        "  %c1 = arith.constant 1 : index",
        "  %c16 = arith.constant 16 : index",
        "  %c64 = arith.constant 64 : index",
        "  %c4096 = arith.constant 4096 : index",
        "  %cst = arith.constant 1.50000000000000000e+00 : f32",
    ]
    lines += [
        f"  %{v} = pto.make_tensor_view %arg{i}, shape = [%c4096, %c64], strides = [%c64, %c1] "
        f"{{layout = #pto.layout<nd>}} : {view}"
        for i, v in enumerate(("x", "y"))
    ]
    for i in range(blocks):
        alloc = "valid_row = %c16 valid_col = %c64"
        lines += [
            f"  scf.for %i{i} = %c0 to %c4096 step %c16 {{",
            f"    %a{i} = pto.alloc_tile addr = %c0_i64 {alloc} : {tile}",
            f"    %o{i} = arith.maxsi %i{i}, %c0 : index",
            f"    %p{i} = pto.partition_view %x, offsets = [%o{i}, %c0], sizes = [%c16, %c64] : {view} -> {part}",
            f"    pto.tload ins(%p{i} : {part}) outs(%a{i} : {tile})",
            f"    %b{i} = pto.alloc_tile addr = %c4096_i64 {alloc} : {tile}",
            f"    pto.tmuls ins(%a{i}, %cst : {tile}, f32) outs(%b{i} : {tile})",
            f"    pto.tadd ins(%a{i}, %b{i} : {tile}, {tile}) outs(%b{i} : {tile})",
            f"    %q{i} = pto.partition_view %y, offsets = [%o{i}, %c0], sizes = [%c16, %c64] : {view} -> {part}",
            f"    pto.tstore ins(%b{i} : {tile}) outs(%q{i} : {part})",
            "  }",
        ]
    return "\n".join([*lines, "  return", "  }"])


def module_text(megabytes: float) -> str:
    """A module of about that size."""
    one = kernel("k0", 20)
    count = max(1, round(megabytes * 1e6 / len(one)))
    functions = "\n".join(kernel(f"k{i}", 20) for i in range(count))
    return f'module attributes {{pto.target_arch = "a2a3"}} {{\n{functions}\n}}\n'


def generic_text(module: Module) -> str:
    """The module in the quoted form, attributes left out: what xDSL reads of dialects it does not know."""
    lines = ['"builtin.module"() ({']
    for function in module.functions():
        assert function.body is not None
        arguments = ", ".join(f"{a.name}: {a.type}" for a in function.args)
        lines += ['"test.func"() ({', f"^bb0({arguments}):"]
        _generic_region(function.body, resolve(function, module), lines)
        lines.append("}) : () -> ()")
    return "\n".join([*lines, "}) : () -> ()", ""])


def _generic_region(region: Region, resolved: Resolved, lines: list[str]) -> None:
    for op in region.ops:
        values = [value for role in op.operands for value in resolved.values(op, role)]
        results = resolved.results(op)
        names = f"{', '.join(op.results)} = " if op.results else ""
        types = ", ".join(str(value.type) for value in values)
        signature = f"({types}) -> ({', '.join(str(value.type) for value in results)})"
        lines.append(f'{names}"{op.name}"({", ".join(value.name for value in values)})')
        for inner in op.regions:
            arguments = ", ".join(f"{value.name}: {value.type}" for value in resolved.region_args[id(inner)])
            lines.append("({" + (f" ^bb0({arguments}):" if arguments else ""))
            _generic_region(inner, resolved, lines)
            lines.append("})")
        lines.append(f": {signature}")


def best(repeat: int, work: Callable[[], object]) -> float:
    """Seconds of the fastest of `repeat` runs."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


_LARK_GRAMMAR = r"""
start: tree*
?tree: TOKEN | "(" tree* ")" | "[" tree* "]" | "{" tree* "}"
TOKEN: /[!#][A-Za-z_][\w.$]*<[^<>]*>/ | /[%@!#^]?[A-Za-z_0-9][\w.$-]*/ | /"[^"\n]*"/ | "->" | /[:,=<>+*-]/
%ignore /[ \t\n]+/
"""


def with_lark(text: str) -> Callable[[], object] | None:
    """Reading the text with lark, None when it is not installed."""
    try:
        lark = importlib.import_module("lark")
    except ImportError:
        return None
    parser = lark.Lark(_LARK_GRAMMAR, parser="lalr")
    return lambda: parser.parse(text)


def with_xdsl(text: str) -> Callable[[], object] | None:
    """Reading the generic form of the text with xDSL, None when it is not installed."""
    try:
        context = importlib.import_module("xdsl.context")
        parser = importlib.import_module("xdsl.parser")
        builtin = importlib.import_module("xdsl.dialects.builtin")
    except ImportError:
        return None
    generic = generic_text(parse(text))

    def read() -> object:
        dialects = context.Context(allow_unregistered=True)
        dialects.load_dialect(builtin.Builtin)
        return parser.Parser(dialects, generic).parse_module()

    return read


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--megabytes", type=float, default=1.0)
    options.add_argument("--repeat", type=int, default=5)
    arguments = options.parse_args()
    text = module_text(arguments.megabytes)
    module = parse(text)
    count = sum(1 for f in module.functions() if f.body is not None for _ in f.body.walk())
    print(f"{len(text) / 1e6:.2f} MB, {count} operations; budget {_BUDGET_S * arguments.megabytes:.1f} s to parse")
    rows: list[tuple[str, Callable[[], object] | None]] = [
        ("parse", lambda: parse(text)),
        ("print", lambda: print_module(module)),
        ("check", lambda: check_module(module)),
        ("lark, brackets only", with_lark(text)),
        ("xDSL, generic form", with_xdsl(text)),
    ]
    for name, work in rows:
        print(f"{name:<22}" + ("not installed" if work is None else f"{best(arguments.repeat, work):8.3f} s"))


if __name__ == "__main__":
    main()
