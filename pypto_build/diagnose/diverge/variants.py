"""Edits of a program's, a reference's or an orchestration's text that are tried against the golden.

Each edit replaces one operator, call, constant, axis, cast or argument. Replacing names come from the text itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from pypto_build.artifact.cpp.text import without_comments
from pypto_build.artifact.interface import KernelInterface
from pypto_build.diagnose.findings import Edit

# Edits of an orchestration that are tried if only the golden shows that something is wrong.
# An edit after which the outputs match the golden shows the likely mistake. All edits are compiled into one library,
# and a number chooses one. The edits use only names of the text:
# - Two inputs or two scalars of a submission are exchanged.
# - A loop begins or ends a step earlier or later.
# - A submission is left out, or gets another kernel with the same arguments.
# - A submission gets a scalar or an input of another one.

#: The largest number of edits that are tried, because each takes a run.
MOST_TRIALS = 300
#: The variable of the library that chooses an edit; 0 is the original text.
CHOICE = "pypto_trial"

_ADD = re.compile(r"\b(?P<list>\w+)\s*\.\s*add_(?P<method>\w+)\s*\((?P<value>[^;\n]{1,400})\)\s*;")
_SUBMIT = re.compile(r"^[ \t]*(?P<call>(?:pto2_)?rt_submit_\w*task\s*\([^;\n]{1,400}\)\s*;)", re.MULTILINE)
_FOR = re.compile(
    r"\bfor\s*\(\s*\w+\s+(?P<name>\w+)\s*=\s*(?P<first>\d+)\s*;\s*(?P=name)\s*<\s*(?P<end>\d+)\s*;\s*(?P=name)\s*"
    r"(?:\+=\s*(?P<step>\d+)|\+\+)\s*\)"
)
_TENSORS = ("input", "inout", "no_dep")
#: The core type and the number of a kernel that is submitted alone.
_KERNEL = re.compile(r"(?:pto2_)?rt_submit_(?P<core>ai[cv])_task\s*\(\s*(?P<func>\d{1,6})\s*,")
_WHOLE = re.compile(r"[A-Za-z_]\w*")
#: A variable: neither a function nor a type.
_NAME = re.compile(r"\b(?!\w+_t\b|float\b|int\b)[A-Za-z_]\w*\b(?!\s*\()")
_TENSOR = re.compile(r"\bconst\s+(?:ChipTensor|Tensor)\s*&\s*(\w+)\s*=")
_SCALAR = re.compile(r"\b(\w+)\s+(\w+)\s*=\s*from_u64\s*<[^>]*>\s*\(\s*orch_args\s*\.\s*scalar\(")


@dataclass(frozen=True)
class Passage:
    """A part of the text: its offsets, and its content."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Trial:
    """An edit: the passages with their new texts, and its description."""

    what: str
    changes: tuple[tuple[Passage, str], ...]

    def applied(self, text: str) -> str:
        """Return the text with the edit."""
        for span, value in sorted(self.changes, key=lambda change: -change[0].start):
            text = text[: span.start] + value + text[span.end :]
        return text


@dataclass(frozen=True)
class _Argument:
    """A statement that adds an argument to a list."""

    owner: str
    method: str
    value: str
    statement: Passage

    def with_value(self, value: str) -> str:
        """Return the statement with another value."""
        call, _, rest = self.statement.text.partition("(")
        before, _, after = rest.partition(self.value)
        return f"{call}({before}{value}{after}"


def trials(text: str, kernels: Sequence[KernelInterface] = ()) -> list[Trial]:
    """Return the edits of an orchestration's `text` that submits `kernels`. Edits of frequent mistakes come first."""
    plain = without_comments(text)
    arguments = [
        _Argument(match["list"], match["method"], match["value"].strip(), Passage(match.start(), match.end(), match[0]))
        for match in _ADD.finditer(plain)
    ]
    candidates = [*_exchanges(arguments, plain), *_loops(plain), *_omissions(plain)]
    candidates += [*_kernels(plain, kernels), *_replacements(arguments, plain)]
    return candidates[:MOST_TRIALS]


def _span(match: re.Match[str], group: str) -> Passage:
    return Passage(match.start(group), match.end(group), match[group])


def _is_supplied(value: str, at: int, plain: str) -> bool:
    """Return whether all variables of a value occur in the text before an offset."""
    return all(re.search(rf"\b{name}\b", plain[:at]) for name in _NAME.findall(value))


def _exchanges(arguments: Sequence[_Argument], plain: str) -> Iterator[Trial]:
    """Yield edits that exchange two inputs, or two scalars, of one submission."""
    for number, one in enumerate(arguments):
        for other in arguments[number + 1 :]:
            alike = one.method == other.method == "scalar" or {one.method, other.method} <= {*_TENSORS}
            if other.owner != one.owner or one.value == other.value or not alike:
                continue
            if _is_supplied(other.value, one.statement.start, plain):
                changes = (
                    (one.statement, one.with_value(other.value)),
                    (other.statement, other.with_value(one.value)),
                )
                yield Trial(f"{one.value} and {other.value} exchanged", changes)


def _loops(plain: str) -> Iterator[Trial]:
    """Yield edits that begin or end a loop one step earlier or later."""
    for match in _FOR.finditer(plain):
        step = int(match["step"] or 1)
        first, end = int(match["first"]), int(match["end"])
        for words, group, value in (
            ("ends a step later", "end", end + step),
            ("ends a step earlier", "end", end - step),
            ("begins a step earlier", "first", first - step),
            ("begins a step later", "first", first + step),
        ):
            if value >= 0:
                yield Trial(f"a loop that {words}", ((_span(match, group), str(value)),))


def _omissions(plain: str) -> Iterator[Trial]:
    """Yield edits that leave out one submission, which may be there twice by mistake."""
    for match in _SUBMIT.finditer(plain):
        yield Trial("this submission left out", ((_span(match, "call"), ""),))


def _kernels(plain: str, kernels: Sequence[KernelInterface]) -> Iterator[Trial]:
    """Yield edits that submit another kernel of the same core type and signature."""
    by_id = {kernel.func_id: kernel for kernel in kernels}
    for match in _SUBMIT.finditer(plain):
        alone = _KERNEL.match(match["call"])
        kernel = by_id.get(int(alone["func"])) if alone else None
        if alone is None or kernel is None or kernel.core_type != alone["core"]:
            continue
        before, after = match["call"][: alone.start("func")], match["call"][alone.end("func") :]
        for other in kernels:
            if other is not kernel and (other.core_type, other.signature) == (kernel.core_type, kernel.signature):
                words = f"kernel {other.name} in place of {kernel.name}"
                yield Trial(words, ((_span(match, "call"), f"{before}{other.func_id}{after}"),))


def _replacements(arguments: Sequence[_Argument], plain: str) -> Iterator[Trial]:
    """Yield edits that replace a scalar or an input by another of the orchestration's values or arguments."""
    scalars = [f"to_u64({name})" if kind == "float" else name for kind, name in _SCALAR.findall(plain)]
    scalars += [argument.value for argument in arguments if argument.method == "scalar"]
    # Only whole tensors are used: a view may belong to another block.
    tensors = [item.value for item in arguments if item.method in _TENSORS and _WHOLE.fullmatch(item.value)]
    tensors += _TENSOR.findall(plain)
    for kinds, values in ((("scalar",), dict.fromkeys(scalars)), (_TENSORS, dict.fromkeys(tensors))):
        for argument in arguments:
            for value in values if argument.method in kinds else ():
                if value != argument.value and _is_supplied(value, argument.statement.start, plain):
                    change = (argument.statement, argument.with_value(value))
                    yield Trial(f"{value} in place of {argument.value}", (change,))


def with_choice(text: str, tried: Sequence[Trial]) -> str:
    """Return the text with all trials in it. The number n, counted from 1, chooses the n-th trial."""
    alternatives: dict[Passage, list[tuple[int, str]]] = {}
    for number, trial in enumerate(tried, 1):
        for span, value in trial.changes:
            alternatives.setdefault(span, []).append((number, value))
    for span in sorted(alternatives, key=lambda span: -span.start):
        chosen = alternatives[span]
        if span.text.endswith(";"):
            cases = "".join(f"if ({CHOICE} == {number}) {{ {value} }} else " for number, value in chosen)
            new = f"{{ {cases}{{ {span.text} }} }}"
        else:
            choices = "".join(f"{CHOICE} == {number} ? ({value}) : " for number, value in chosen)
            new = f"({choices}({span.text}))"
        text = text[: span.start] + new + text[span.end :]
    return f'extern "C" {{ __attribute__((visibility("default"))) volatile int {CHOICE} = 0; }}\n{text}'


def edits_of(trial: Trial, text: str, path: str) -> tuple[Edit, ...]:
    """Return a trial as edits of lines, or nothing if it changes the number of lines."""
    before, after = text.splitlines(), trial.applied(text).splitlines()
    pairs = enumerate(zip(before, after, strict=True), 1) if len(before) == len(after) else ()
    return tuple(Edit(path, line, old.strip(), new.strip()) for line, (old, new) in pairs if old != new)


def line_of(trial: Trial, text: str) -> int:
    """Return the first line that a trial edits."""
    return text.count("\n", 0, min(span.start for span, _ in trial.changes)) + 1


#: The largest number of edits that are tried.
MOST = 600

_OPERATORS: dict[type, tuple[str, ...]] = {
    ast.Add: ("-", "*"),
    ast.Sub: ("+", "*"),
    ast.Mult: ("/", "+", "-"),
    ast.Div: ("*",),
    ast.FloorDiv: ("*", "%"),
    ast.Mod: ("//",),
    ast.MatMult: ("*",),
}
_SYMBOLS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.MatMult: "@",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_EXCHANGED = (ast.Sub, ast.Div, ast.MatMult, ast.FloorDiv, ast.Mod)
#: Calls of the language and of PyTorch that take the same arguments.
_ALIKE = (
    ("add", "sub", "mul", "div", "maximum", "minimum"),
    ("max", "min"),
    ("exp", "log", "sqrt", "rsqrt", "recip", "reciprocal", "neg", "abs", "relu", "sigmoid", "tanh"),
    ("row_sum", "row_max", "row_min", "col_sum", "col_max", "col_min"),
    ("row_expand_add", "row_expand_sub", "row_expand_mul", "row_expand_div", "row_expand_max", "row_expand_min"),
    ("col_expand_add", "col_expand_sub", "col_expand_mul", "col_expand_div", "col_expand_max", "col_expand_min"),
    ("sum", "mean", "prod", "amax", "amin"),
    ("floor", "ceil", "round", "trunc"),
)
_OTHERS = {name: tuple(other for other in names if other != name) for names in _ALIKE for name in names}
#: Element types of 16 bits, and rounding modes.
_TYPES = ("BF16", "FP16", "bfloat16", "float16", "half")
_ROUNDINGS = ("round", "rint", "floor", "ceil", "trunc")
_COMPARISONS = {"==": ("!=",), "!=": ("==",), "<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<=")}


def python_trials(text: str, functions: Collection[str], rounding: str = "") -> list[Trial]:
    """Return the edits of these functions and of the module's constants. Edits of frequent mistakes come first.

    ``rounding`` is the element type whose rounding explains the difference. Casts to it are tried first of all.
    """
    source = _Source(text)
    tree = ast.parse(text)
    bodies = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in functions]
    nodes = [inner for body in bodies for statement in body.body for inner in ast.walk(statement)]
    numbers = [value for line in tree.body if isinstance(line, ast.Assign) for value in ast.walk(line.value)]
    candidates: list[Trial] = []
    alias = next((name.asname for line in tree.body for name in getattr(line, "names", ()) if name.asname), "")
    if rounding:
        first = sorted(nodes, key=lambda node: not _multiplies_matrices(node))
        candidates += [trial for node in first for trial in _rounded(source, node, rounding, alias)]
    for kind in _KINDS:
        candidates += [trial for node in nodes for trial in kind(source, node)]
    constants = [name.id for line in tree.body if isinstance(line, ast.Assign) for target in line.targets
                 for name in ast.walk(target) if isinstance(name, ast.Name)]  # fmt: skip
    candidates += [trial for body in bodies for trial in _offsets(source, body, constants)]
    candidates += [trial for node in [*nodes, *numbers] for trial in _constants(source, node)]
    for body in bodies:
        candidates += _names(source, body, constants)
    for body in bodies:
        candidates += _added(source, body, alias or "torch")
    return list({(trial.changes): trial for trial in candidates}.values())[:MOST]


class _Source:
    """The text, addressed by positions of the syntax tree. Their columns count bytes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        """Return the offset of a position."""
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode(errors="replace"))

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> Passage:
        """Return a node's passage."""
        start = self.at(node.lineno, node.col_offset)
        end = self.at(node.end_lineno or node.lineno, node.end_col_offset or 0)
        return Passage(start, end, self.text[start:end])

    def between(self, left: ast.expr, right: ast.expr, symbol: str) -> Passage | None:
        """Return the passage of an operator between two operands, or None if it is not in the text."""
        start, end = self.span(left).end, self.span(right).start
        at = self.text.find(symbol, start, end)
        return Passage(at, at + len(symbol), symbol) if at >= 0 else None


def _trial(span: Passage, new: str, what: str = "") -> Trial:
    return Trial(what or f"'{new}' in place of '{span.text}'", ((span, new),))


def _operators(source: _Source, node: ast.AST) -> Iterator[Trial]:
    if isinstance(node, ast.BinOp) and (symbol := _SYMBOLS.get(type(node.op))):
        passage = source.between(node.left, node.right, symbol)
        for other in _OPERATORS.get(type(node.op), ()) if passage else ():
            assert passage is not None
            yield _trial(passage, other)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield _trial(source.span(node), source.span(node.operand).text)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and (symbol := _SYMBOLS.get(type(node.ops[0]))):
        passage = source.between(node.left, node.comparators[0], symbol)
        for other in _COMPARISONS[symbol] if passage else ():
            assert passage is not None
            yield _trial(passage, other)


def _exchanged(source: _Source, node: ast.AST) -> Iterator[Trial]:
    """Yield edits that exchange two operands, or two arguments of a call."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, _EXCHANGED):
        pairs = [(node.left, node.right)]
    elif isinstance(node, ast.Call):
        pairs = [(a, b) for i, a in enumerate(node.args) for b in node.args[i + 1 :] if type(a) is type(b)]
    elif isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) == 2:
        pairs = [(node.elts[0], node.elts[1])]
    for left, right in pairs:
        one, other = source.span(left), source.span(right)
        if one.text != other.text:
            yield Trial(f"'{one.text}' and '{other.text}' exchanged", ((one, other.text), (other, one.text)))


def _calls(source: _Source, node: ast.AST) -> Iterator[Trial]:
    """Yield edits that call another function with the same arguments, or leave out a function of one argument."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    end = source.span(node.func).end
    name = node.func.attr
    passage = Passage(end - len(name), end, name)
    for other in _OTHERS.get(name, ()):
        yield _trial(passage, other)
    for axis, across in (("row_", "col_"), ("col_", "row_")):
        if name.startswith(axis):
            yield _trial(passage, across + name.removeprefix(axis))
    inner = node.args[0] if node.args else node.func.value
    if len(node.args) == 1 or name in ("cast", "to", "bfloat16", "half", "float"):
        kept = node.func.value if name in ("to", "bfloat16", "half", "float") else inner
        yield _trial(source.span(node), source.span(kept).text, f"'{name}' left out")


def _axes(source: _Source, node: ast.AST) -> Iterator[Trial]:
    if isinstance(node, ast.keyword) and node.arg in ("dim", "axis"):
        value = source.span(node.value)
        for other in ("0", "1", "-1"):
            if other != value.text:
                yield Trial(f"{node.arg}={other} in place of {node.arg}={value.text}", ((value, other),))


def _casts(source: _Source, node: ast.AST) -> Iterator[Trial]:
    """Yield edits with another element type in place of a 16-bit one, or another rounding mode."""
    if isinstance(node, ast.Attribute) and node.attr in _TYPES:
        end = source.span(node).end
        others = ("BF16", "FP16", "FP32") if node.attr.isupper() else ("bfloat16", "float16", "float32")
        yield from (_trial(Passage(end - len(node.attr), end, node.attr), o) for o in others if o != node.attr)
    if isinstance(node, ast.Constant) and node.value in _ROUNDINGS and isinstance(node.value, str):
        yield from (_trial(source.span(node), f'"{other}"') for other in _ROUNDINGS if other != node.value)


def _omitted(source: _Source, node: ast.AST) -> Iterator[Trial]:
    """Yield edits that leave out a call whose result is unused, or one operand of an operator."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield _trial(source.span(node), "pass", f"'{_short(source.span(node).text)}' left out")
    if isinstance(node, ast.BinOp):
        for kept, left_out in ((node.left, node.right), (node.right, node.left)):
            text = source.span(kept).text
            yield _trial(source.span(node), f"({text})", f"'{_short(source.span(left_out).text)}' left out")


_KINDS: Sequence[Callable[[_Source, ast.AST], Iterator[Trial]]] = (
    _operators, _exchanged, _calls, _axes, _casts, _omitted,
)  # fmt: skip


def _constants(source: _Source, node: ast.AST) -> Iterator[Trial]:
    if not isinstance(node, ast.Constant) or isinstance(node.value, (bool, str)) or node.value is None:
        return
    value, span = node.value, source.span(node)
    if isinstance(value, int):
        others: set[object] = {value + 1, value - 1, 2 * value, value // 2, 0, 1}
        others = {other for other in others if isinstance(other, int) and other >= 0}
    elif isinstance(value, float):
        others = {2 * value, value / 2, 0.0, 1.0, value + 1, value - 1, 10 * value, value / 10, value * value}
        others |= {1 / value, abs(value) ** 0.5} if value else {-1.0}
        if not source.text[: span.start].rstrip().endswith("-"):
            others |= {-value}
    else:
        return
    for other in sorted(others - {value}, key=repr):
        yield _trial(span, repr(other))


def _names(source: _Source, body: ast.FunctionDef, constants: Sequence[str]) -> Iterator[Trial]:
    """Yield edits that replace a name by another local name or another constant, or shift a loop by one step."""
    variables = [argument.arg for argument in body.args.args]
    inside = [node for statement in body.body for node in ast.walk(statement) if isinstance(node, ast.Name)]
    for node in sorted(inside, key=lambda n: (n.lineno, n.col_offset)):
        if isinstance(node.ctx, ast.Store):
            variables.append(node.id)
            continue
        for names in (variables, constants):
            if node.id in names:
                yield from (_trial(source.span(node), name) for name in dict.fromkeys(names) if name != node.id)
    calls = (node for node in ast.walk(body) if isinstance(node, ast.Call) and len(node.args) == 3)
    for call in calls:  # the loop ends or begins a step earlier or later
        if source.span(call.func).text.rpartition(".")[2] != "range":
            continue
        step = source.span(call.args[2]).text
        for part, words in ((call.args[1], "ends"), (call.args[0], "begins")):
            text = source.span(part).text
            yield _trial(source.span(part), f"{text} - {step}", f"a loop that {words} a step earlier")
            yield _trial(source.span(part), f"{text} + {step}", f"a loop that {words} a step later")


def _offsets(source: _Source, body: ast.FunctionDef, constants: Sequence[str]) -> Iterator[Trial]:
    """Yield edits that count a zero in a list, such as an offset, by the loop around it."""
    for loop in (node for node in ast.walk(body) if isinstance(node, ast.For)):
        lists = [node for node in ast.walk(loop) if isinstance(node, (ast.List, ast.Tuple))]
        zeros = [item for one in lists for item in one.elts if isinstance(item, ast.Constant) and item.value == 0]
        counter = source.span(loop.target).text
        for zero in zeros:
            yield from (_trial(source.span(zero), new) for new in (counter, *(f"{counter} * {c}" for c in constants)))


_ADDED = ("abs", "exp", "neg", "relu", "sqrt", "rsqrt", "recip", "log", "reciprocal")
_PLAIN = (ast.Constant, ast.List, ast.Tuple)


def _added(source: _Source, body: ast.FunctionDef, alias: str) -> Iterator[Trial]:
    """Yield edits that add a function of one argument, or an operand, to a value."""
    names = [argument.arg for argument in body.args.args]
    for node in (inner for statement in body.body for inner in ast.walk(statement)):
        inner = [arg for arg in node.args if not isinstance(arg, _PLAIN)] if isinstance(node, ast.Call) else []
        for span in map(source.span, inner):
            yield from (
                _trial(span, f"{alias}.{name}({span.text})", f"'{name}' of '{_short(span.text)}'") for name in _ADDED
            )
        value = node.value if isinstance(node, (ast.Assign, ast.AugAssign)) else None
        if isinstance(node, ast.Call) and source.span(node.func).text.endswith(".store") and node.args:
            value = node.args[0]
        if value is None:
            continue
        span = source.span(value)
        for name in _ADDED if not isinstance(node, ast.Call) else ():
            yield _trial(span, f"{alias}.{name}({span.text})", f"'{name}' of '{_short(span.text)}'")
        for name in names:
            for operator in "*+-":
                words = f"'{operator} {name}' after '{_short(span.text)}'"
                yield _trial(span, f"({span.text}) {operator} {name}", words)
        names += [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]


def _multiplies_matrices(node: ast.AST) -> bool:
    """Return whether this is a product of matrices: the cube takes operands of 16 bits, so casts stand there."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "attr", "") in ("matmul", "mm", "bmm")
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)


def _rounded(source: _Source, node: ast.AST, dtype: str, alias: str) -> Iterator[Trial]:
    """Yield edits that round a value to a 16-bit type."""
    values: list[ast.expr] = []
    if isinstance(node, ast.Call):
        values = [value for value in node.args if not isinstance(value, (ast.Constant, ast.List, ast.Tuple))]
    elif isinstance(node, (ast.Assign, ast.AugAssign)):
        values = [node.value]
    elif isinstance(node, ast.BinOp):
        values = [node.left, node.right]
    short = {"bfloat16": "BF16", "float16": "FP16"}[dtype]
    for value in values:
        span = source.span(value)
        new = f"{alias}.cast({alias}.cast({span.text}, {alias}.{short}), {alias}.FP32)" if alias else (
            f"({span.text}).to(torch.{dtype}).float()"
        )  # fmt: skip
        yield _trial(span, new, f"'{_short(span.text)}' rounded to {dtype}")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 40 else f"{line[:37]}..."
