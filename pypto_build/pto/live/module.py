"""A module with changing text: call `update` with each text, and read `findings` and `functions`."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from ..checks import check_function, check_operation, check_pipes, module_arch
from ..errors import DeviceRule, PtoError
from ..model import END, Function, Module, Region, Source
from ..parser import ModuleReader, parse
from ..resolve import Problem, Resolved
from .outline import FunctionOutline, outline
from .values import LiveResolver, Node, NodeReader, UnknownValue, calls

# Before a look at a function as a whole that takes as long as many keys.
_LONG, _DONE = object(), object()
_LARGE = 1000  # statements
_PLACEHOLDER = "__pypto_function_"
#: Characters up to which a function that cannot be read statement by statement is read as a whole.
_WHOLE = 1 << 16


#: Number of collected findings: more of them have one cause.
MOST_FINDINGS = 500


@dataclass(frozen=True)
class LiveFinding:
    """A fault in the text: line and columns count from 0, `end` is exclusive; `name` is the value that the message
    is about. `syntax`: the text cannot be parsed there. `is_rule`: the assembler accepts it.
    """

    line: int
    column: int
    end: int
    name: str
    message: str
    syntax: bool = False

    @property
    def is_rule(self) -> bool:
        return isinstance(self.message, DeviceRule)


class LiveFunction:
    """One function of the text; `model` is its content, with `nodes` for the statements of its body."""

    def __init__(self) -> None:
        self.model = Function("")
        self.header = Node(0, "", (0,), Source("", ""), [], None)
        self.nodes: list[Node] = []
        self.names: LiveResolver | None = None
        self.outline = FunctionOutline(0, 0, 0)
        self.whole = False  # read as a whole: its text is laid out in an unusual way
        self.error: PtoError | None = None
        self.problems: list[Problem] = []
        self.every: list[Node] = []  # the header, and all statements
        self.unchecked = True
        self.dropped: list[Node] = []
        self.checked_for: object = None  # core and platform

    @property
    def resolved(self) -> Resolved:
        """Return the resolved names of the function."""
        assert self.names is not None
        return self.names.resolved

    def read_as_a_whole(self, model: Function, start: int, source: Source) -> None:
        """Set the content of a function, parsed as one statement from text that begins at line `start`."""
        rows = tuple(range(source.text.count("\n") + 1))
        operations = model.body.ops if model.body is not None else []
        body = Node(start, source.text, rows, source, operations, None)
        body.find_names()
        self.model, self.whole, self.error, self.names = model, True, None, None
        self.header, self.nodes = Node(start, source.text, rows, source, [], None), [body]
        self.list_nodes()

    def list_nodes(self) -> None:
        """Collect the nodes after a change."""
        self.every = [self.header]
        pending = self.nodes[::-1]
        while pending:
            node = pending.pop()
            self.every.append(node)
            for region in reversed(node.regions):
                pending += reversed(region)

    @property
    def is_broken(self) -> bool:
        """Return whether a part of the function cannot be parsed."""
        return self.error is not None or any(node.error is not None for node in self.every)

    @property
    def is_clean(self) -> bool:
        """Return whether the whole function can be parsed, and its names and types agree."""
        return not self.is_broken and not any(node.problems for node in self.every)


class LiveModule:
    """A document. `platform` decides capacities; without it, the module's own text does."""

    def __init__(self, path: str = "<pto>", platform: str = "") -> None:
        self.path, self.platform = path, platform
        self.lines: list[str] = []
        self.model = Module([])
        self.functions: list[LiveFunction] = []
        self.findings: list[LiveFinding] = []
        self._around = Module([])  # the module as it stands around its functions
        self._context: object = None
        self._pipes: list[Problem] = []
        self._pipes_unchecked = True
        self._error: PtoError | None = None
        self._checking: Iterator[object] = iter(())
        self.is_pending = False

    def update(self, text: str, seconds: float = math.inf) -> None:
        """Set the document's new text.

        Resolving and checking the changes takes at most `seconds`. `go_on` finishes the work, for instance after a key
        that changes a value with thousands of uses.
        """
        self.lines = text.split("\n")
        outlines = outline(self.lines)
        before = self.functions
        error = self._read_module(outlines)
        self.functions = [
            self._function(each, self._partner(before, number, each, len(outlines)))
            for number, each in enumerate(outlines)
        ]
        self._read_rest()
        for function in self.functions:
            self._read_whole(function)
        error = self._as_the_parser_reads_it(text, error or self._hidden_error(text))
        self.model = Module([function.model for function in self.functions], attrs=self._around.attrs)
        until = time.perf_counter() + seconds
        self._resolve(until)
        self._error = error
        self._checking = self._check()
        self._go_on_until(until)

    def go_on(self, seconds: float = math.inf) -> bool:
        """Continue to resolve and check for at most `seconds`, and collect the findings; return whether work is
        left.
        """
        until = time.perf_counter() + seconds
        self._resolve_rest(until)
        self._go_on_until(until, at_least=1)
        return self.is_pending

    def _go_on_until(self, until: float, at_least: int = 0) -> None:
        self.is_pending = True
        while self.is_pending and not self._names_are_pending and (at_least or time.perf_counter() < until):
            at_least = 0
            step = next(self._checking, _DONE)
            self.is_pending = step is not _DONE
            if step is _LONG and until < math.inf:
                break
        findings = islice(self._findings(self._error), MOST_FINDINGS)
        self.findings = sorted(findings, key=lambda each: (each.line, each.column, each.message))

    # --- reading -------------------------------------------------------------------------------------------------

    def _read_module(self, outlines: list[FunctionOutline]) -> PtoError | None:
        """Parse the text around the functions, which are replaced by declarations; line numbers stay the same."""
        lines = list(self.lines)
        for number, each in enumerate(outlines):
            lines[each.start : each.end] = [""] * (each.end - each.start)
            lines[each.start] = f"func.func private @{_PLACEHOLDER}{number}()"
        try:
            self._around = parse("\n".join(lines), self.path)
        except PtoError as error:
            self._around.items = []
            return error
        return None

    def _as_the_parser_reads_it(self, text: str, error: PtoError | None) -> PtoError | None:
        """Parse a text of moderate size as a whole, because an unusual layout may be the only reason for an error."""
        is_broken = error is not None or any(function.is_broken for function in self.functions)
        if not is_broken or len(text) > _WHOLE:
            return error
        try:
            self._around = parse(text, self.path)
        except PtoError:
            return error
        self.functions = []
        self._read_rest()
        return None

    def _hidden_error(self, text: str) -> PtoError | None:
        """Return the error in a text whose statements are all valid: a brace that ends none of them."""
        if all(each.outline.matched for each in self.functions) or any(each.is_broken for each in self.functions):
            return None
        try:
            parse(text, self.path)
        except PtoError as error:
            return error
        return None

    def _read_rest(self) -> None:
        """Read functions that do not begin on a line of their own."""
        for model in self._around.functions():
            if model.name.startswith(_PLACEHOLDER):
                continue
            function = LiveFunction()
            function.read_as_a_whole(model, 0, self._around.source)
            self.functions.append(function)

    @staticmethod
    def _partner(before: list[LiveFunction], number: int, outline: FunctionOutline, count: int) -> LiveFunction | None:
        """Return the old version of a function: the function at the same index from the beginning or from the end."""
        number = number if len(before) == count else number + len(before) - count if number else number
        return before[number] if 0 <= number < len(before) and not before[number].whole else None

    def _function(self, outline: FunctionOutline, old: LiveFunction | None) -> LiveFunction:
        function = LiveFunction()
        if old is not None and old.names is not None:
            function.model, function.names, function.nodes = old.model, old.names, old.nodes
            function.header, function.problems, function.checked_for = old.header, old.problems, old.checked_for
            function.every, function.unchecked = old.every, old.unchecked
            old.names = None  # each is taken once
        function.outline = outline
        end = outline.header if outline.body is not None else outline.end
        self._read_header(function, "\n".join(self.lines[outline.start : end]), outline)
        reader = NodeReader(self.path, self.lines)
        function.nodes = reader.nodes(outline.body or [], function.nodes, 0)
        function.dropped = reader.dropped
        if reader.changed or function.names is None:
            function.unchecked = True
            function.list_nodes()
        is_declared = outline.body is None
        function.model.body = None if is_declared else Region([op for node in function.nodes for op in node.operations])
        if not outline.closed:
            function.error = PtoError(Source(self.path, "").position(0), "expected '}' to close the function")
        return function

    def _read_header(self, function: LiveFunction, text: str, outline: FunctionOutline) -> None:
        """Parse the text before the body; if it is invalid, keep the last valid version."""
        header = function.header
        header.start, header.rows = outline.start, tuple(range(text.count("\n") + 1))
        if outline.body is not None:
            text = f"{text}\n{self.lines[outline.end - 1] if outline.closed and outline.matched else '}'}"
            header.rows = (*header.rows, outline.end - 1 - outline.start)
        if header.text == text:
            return
        source = Source(self.path, text)
        header.text, header.source, header.error = text, source, None
        reader = ModuleReader(source)
        try:
            model = reader.function()
            if reader.tokens[reader.at] != END:
                reader.fail(f"expected the end of the function, found {reader.shown_token()}")
        except PtoError as error:
            header.error = error
            return
        model.body = function.model.body
        function.model, function.unchecked = model, True

    def _read_whole(self, function: LiveFunction) -> None:
        """Parse a function as a whole if its statements cannot be parsed separately."""
        outline = function.outline
        if function.whole or not function.is_broken:
            return
        text = "\n".join(self.lines[outline.start : outline.end])
        if len(text) > _WHOLE:
            return
        reader = ModuleReader(Source(self.path, text))
        try:
            model = reader.function()
            if reader.tokens[reader.at] != END:
                return
        except PtoError:
            return
        function.read_as_a_whole(model, outline.start, reader.source)

    # --- names and checks ----------------------------------------------------------------------------------------

    @property
    def _names_are_pending(self) -> bool:
        return any(function.names is not None and function.names.is_pending for function in self.functions)

    def _resolve_rest(self, until: float) -> None:
        for function in self.functions:
            if function.names is not None and function.names.is_pending:
                function.names.run(function.nodes, (), until)
                function.unchecked = True

    def _resolve(self, until: float) -> None:
        context = [function.header.text for function in self.functions]
        for function in self.functions:
            if function.names is None:
                function.names = LiveResolver(function.model, self.model)
            names = function.names
            names.of(function.model, self.model)
            if context != self._context:
                for node in function.every:
                    node.fresh = node.fresh or calls(node)
            names.run(function.nodes, function.dropped, until)
            function.dropped = []
            function.unchecked = function.unchecked or names.resolved_anew > 0
        self._context = context

    def _check(self) -> Iterator[object]:
        """Check the changes; yield after each step, where the check may be paused or abandoned."""
        arch = module_arch(self.model, self.platform)
        functions = [function for function in self.functions if function.model.body is not None]
        for function in functions:
            self._prepare(function, arch)
            for node in function.every:
                if node.unchecked:
                    self._check_node(function, node, arch)
                    yield None
        for function in functions:
            if function.unchecked:
                if len(function.every) > _LARGE:
                    yield _LONG
                function.problems = []
                if function.is_clean:
                    function.problems = list(check_function(function.resolved))
                function.unchecked, self._pipes_unchecked = False, True
                yield None
        if self._pipes_unchecked:
            is_clean = all(
                function.is_clean and not function.problems and not any(node.broken for node in function.every)
                for function in functions
            )
            resolved = [function.resolved for function in functions]
            self._pipes = list(check_pipes(resolved, arch)) if is_clean else []
            self._pipes_unchecked = False

    @staticmethod
    def _prepare(function: LiveFunction, arch: str) -> None:
        """Prepare the data that all checks of a function use."""
        resized = {value for node in function.every for value in node.resized}
        context = (function.model.kernel_kind, arch)
        if resized != function.resolved.resized or function.checked_for != context:
            for node in function.every:
                node.unchecked = True
            function.unchecked = True
        function.resolved.resized, function.checked_for = resized, context

    def _check_node(self, function: LiveFunction, node: Node, arch: str) -> None:
        node.broken = []
        if not node.problems and not any(isinstance(value, UnknownValue) for value in node.uses.values()):
            for op in node.own():
                node.broken += check_operation(function.resolved, op, self.model, arch)
        node.unchecked, function.unchecked = False, True

    # --- findings ------------------------------------------------------------------------------------------------

    def _findings(self, error: PtoError | None) -> Iterator[LiveFinding]:
        if error is not None:
            yield self._at(error.position.line - 1, error.position.column - 1, error.operation, error.message)
        for function in self.functions:
            yield from self._of(function)

    def _of(self, function: LiveFunction) -> Iterator[LiveFinding]:
        if function.error is not None:
            yield self._at(function.outline.start, 0, "func.func", function.error.message)
        for node in function.every:
            if node.error is not None:
                position = node.error.position
                line = node.line(position.line - 1)
                yield self._at(line, position.column - 1, node.error.operation, node.error.message)
            for problem in (*node.problems, *node.broken):
                yield self._problem(function, node, problem)
        assert function.names is not None
        others = [*function.names.argument_problems, *function.problems]
        others += [problem for problem in self._pipes if problem.function is function.model]
        for problem in others:
            yield self._problem(function, function.header, problem)

    def _problem(self, function: LiveFunction, node: Node, problem: Problem) -> LiveFinding:
        assert function.names is not None
        token = problem.op.token if problem.op is not None else function.model.token
        node = function.names.owner.get(id(problem.op), node)
        row, column = node.place(token)
        return self._at(node.line(row), column, problem.subject, problem.message, syntax=False)

    def _at(self, line: int, column: int, name: str, message: str, syntax: bool = True) -> LiveFinding:
        line = min(line, len(self.lines) - 1)
        text = self.lines[line]
        column = min(column, len(text))
        return LiveFinding(line, column, max(len(text.rstrip()), column), name, message, syntax)
