"""Evaluates the subset of Python that manifests use, from the syntax tree: nothing is executed.

A manifest is a module of assignments whose values are literals, paths built from ``Path(__file__)`` and members of
simpler's ``ArgDirection``. Every other form is an error that names its line.
"""

from __future__ import annotations

import ast
import operator
import posixpath
import warnings
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from .errors import ArtifactError
from .records import ArgDirection

# Values of manifest expressions, and the names, attributes and functions they may use.

#: Characters of a text that a message shows.
_SHOWN = 100
_SHOWN_BITS = 64

#: Names that a module-level import may bind: dotted name -> the marker it stands for.
IMPORTABLE = {
    "pathlib": "pathlib",
    "pathlib.Path": "Path",
    "pathlib.PurePath": "Path",
    "pathlib.PurePosixPath": "Path",
    "os": "os",
    "os.path": "os",
}
#: Packages of simpler, from which a manifest takes ``ArgDirection``.
DIRECTION_ROOTS = ("simpler", "task_interface", "_task_interface", "simpler_setup")


class Entry(dict[str, Any]):
    """A dict of the manifest that remembers the line it starts on, for error messages."""

    line: int = 0


class PathText(str):
    """A path of the manifest as text, with the few path operations that manifests use. A manifest may name thousands
    of paths.
    """

    def __truediv__(self, other: str) -> PathText:
        return PathText(posixpath.join(self, other))

    @property
    def parent(self) -> PathText:
        """Return the parent directory."""
        return PathText(posixpath.dirname(self) or ".")

    @property
    def name(self) -> str:
        """Return the last component."""
        return posixpath.basename(self)

    @property
    def stem(self) -> str:
        """Return the last component without its suffix."""
        return posixpath.splitext(self.name)[0]

    def ancestor(self, index: int) -> PathText:
        """Return `parents[index]`."""
        path = self
        for _ in range(index + 1):
            path = path.parent
        return path


class Symbol:
    """An imported name: a module, ``Path`` or ``ArgDirection``; only members in a fixed list can be used."""

    def __init__(self, name: str) -> None:
        self.name = name


#: simpler's ``ArgDirection``, however it is imported.
ARG_DIRECTION = Symbol("ArgDirection")


#: Functions a manifest may call; strings and paths in, strings or paths out, no file is touched.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "str": lambda value: str(value),
    "fspath": lambda value: str(value),
    "Path": lambda *parts: PathText(posixpath.join(*parts)),
    "join": lambda *parts: posixpath.join(*map(str, parts)),
    "dirname": lambda value: posixpath.dirname(str(value)),
    "abspath": lambda value: posixpath.normpath(str(value)),
    "realpath": lambda value: posixpath.normpath(str(value)),
    "normpath": lambda value: posixpath.normpath(str(value)),
}


def shown(value: object) -> str:
    """Return a value as text for a message.

    Deep nesting is cut off, because lists that contain each other would be endless. Numbers with thousands of digits
    are described, because Python refuses to print them.
    """
    if isinstance(value, (list, tuple, dict, set)):
        import reprlib  # only for a message

        short = reprlib.Repr()
        short.maxlevel = 2
        short.repr_int = lambda x, level: shown(x)  # type: ignore[method-assign]
        return short.repr(value)
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"a number of {value.bit_length()} bits"
    return repr(value) if not isinstance(value, str) or len(value) <= _SHOWN else f"{value[:_SHOWN]!r}..."


def symbol_member(owner: Symbol, attribute: str) -> Any:
    """Return the member ``attribute`` of an imported name; None if manifests may not use it."""
    if owner is ARG_DIRECTION:
        return ArgDirection.__members__.get(attribute)
    if owner.name == "simpler":
        return ARG_DIRECTION if attribute == "ArgDirection" else owner
    if owner.name == "os" and attribute == "path":
        return owner
    return Symbol("Path") if owner.name == "pathlib" and attribute in ("Path", "PurePath") else None


ALLOWED = (
    "a manifest may hold imports, assignments, literals, arithmetic on integers, f-strings, paths made from "
    "Path(__file__) with / .parent .resolve() str() os.path.join(), and ArgDirection members"
)

#: No real manifest has a longer string or list; repeated addition could make one that fills the memory.
_LONGEST = 1 << 16
#: Characters and elements that all its expressions together may copy.
_MOST_WORK = 1 << 26
_LARGEST_BITS = 64
#: Python takes the square of their number for an f-string; each kernel has two or three.
_MOST_BRACES = 30_000
#: Parts of an expression up to which a message quotes it.
_SHOWN_NODES = 200


def evaluate(path: Path, text: str) -> dict[str, Any]:
    """Return the module globals of the manifest ``text``. Paths become `PathText`; ``__file__`` is ``path``."""
    if text.count("{") > _MOST_BRACES:
        raise ArtifactError(path, f"has more than {_MOST_BRACES:,} braces, so it is not a manifest", "compile again")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the style of a generated file
            tree = ast.parse(text, filename=str(path))
    except SyntaxError as error:
        raise ArtifactError(
            f"{path}:{error.lineno or 1}", f"syntax error: {error.msg}", "correct the line, or compile again"
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        reason = str(error) or "an expression is nested too deeply"  # a MemoryError of the parser has no text
        raise ArtifactError(path, f"is not Python source: {reason}", "compile again to get a new manifest") from None
    evaluator = Evaluator(path)
    try:
        for statement in tree.body:
            evaluator.statement(statement)
    except RecursionError:
        raise ArtifactError(path, "an expression is nested too deeply to read", ALLOWED) from None
    return evaluator.names


class Evaluator:
    """Evaluates expressions with the names that were assigned and imported so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = 0
        self.names: dict[str, Any] = {}
        self.symbols: dict[str, Any] = {"str": Symbol("str"), "__file__": PathText(path)}

    def refuse(self, node: ast.AST, what: str) -> ArtifactError:
        return ArtifactError(f"{self.path}:{getattr(node, 'lineno', 1)}", what, ALLOWED)

    # -- statements ---------------------------------------------------------------------------------------------

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.bind_import(node, alias.name, alias.asname, whole_module=True)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self.bind_import(node, f"{node.module or ''}.{alias.name}", alias.asname or alias.name)
        elif isinstance(node, ast.Assign):
            value = self.value(node.value)
            for target in node.targets:
                self.assign(target, value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.assign(node.target, self.value(node.value))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring or a lone `...`
        elif not isinstance(node, ast.Pass):
            raise self.refuse(
                node, f"statement {_excerpt(node)!r} is not allowed here: the manifest is read without executing it"
            )

    def bind_import(self, node: ast.stmt, dotted: str, name: str | None, *, whole_module: bool = False) -> None:
        root = dotted.partition(".")[0]
        if root in ("__future__", "typing"):
            return
        if root in DIRECTION_ROOTS:
            is_direction = dotted.endswith(".ArgDirection") and not whole_module
            self.symbols[name or root] = ARG_DIRECTION if is_direction else Symbol("simpler")
        elif dotted in IMPORTABLE:
            self.symbols[name or root] = Symbol(IMPORTABLE[dotted])
        elif dotted.startswith(("os.", "os.path.")) and dotted.rpartition(".")[2] in FUNCTIONS:
            self.symbols[name or root] = Symbol(dotted.rpartition(".")[2])
        else:
            raise self.refuse(
                node, f"import of {dotted!r} is not allowed here: the manifest is read without executing it"
            )

    def assign(self, target: ast.expr, value: Any) -> None:
        if not isinstance(target, ast.Name):
            raise self.refuse(target, f"assignment to {_excerpt(target)!r} is not allowed here: assign to a plain name")
        self.names[target.id] = value

    # -- expressions --------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Any:
        """Return the value of ``node``. Raises a usage error for an imported symbol that stands alone."""
        result = self.expression(node)
        if isinstance(result, Symbol):
            raise self.refuse(node, f"{_excerpt(node)!r} is not allowed as a value here: use literals and names")
        return result

    def expression(self, node: ast.expr) -> Any:
        handler = _EXPRESSIONS.get(type(node))
        if handler is None:
            raise self.refuse(node, f"{_excerpt(node)!r} is not supported in a manifest")
        result = handler(self, node)
        if isinstance(result, (str, list, tuple, dict)) and not isinstance(node, ast.Name):
            self.spend(node, len(result), len(result))
        return result

    def spend(self, node: ast.expr, length: int, work: int) -> None:
        """Count ``work`` for ``node``. Raises a usage error for a result that is too large or an expression that is
        too costly.
        """
        self.work += work
        if length > _LONGEST or self.work > _MOST_WORK:
            raise self.refuse(node, f"{_excerpt(node)!r} is too long to be evaluated")

    def constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, int) and node.value.bit_length() > _LARGEST_BITS:
            raise self.refuse(node, f"a number of {node.value.bit_length()} bits is too large to be evaluated")
        return node.value

    def name(self, node: ast.Name) -> Any:
        for scope in (self.names, self.symbols):
            if node.id in scope:
                return scope[node.id]
        raise self.refuse(node, f"name {node.id!r} is not defined")

    def sequence(self, node: ast.List | ast.Tuple) -> Any:
        items: list[Any] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                value = self.value(element.value)
                if not isinstance(value, (list, tuple)):
                    raise self.refuse(element, f"{_excerpt(element)!r} is not supported in a manifest")
                items.extend(value)
                self.spend(node, len(items), len(value))
            else:
                items.append(self.value(element))
        return items if isinstance(node, ast.List) else tuple(items)

    def dictionary(self, node: ast.Dict) -> Entry:
        entry = Entry()
        entry.line = node.lineno
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.value(value_node)
            if key_node is None:
                if not isinstance(value, dict):
                    raise self.refuse(value_node, f"{_excerpt(value_node)!r} is not a dict")
                entry.update(value)
                self.spend(node, len(entry), len(value))
                continue
            key = self.value(key_node)
            if not isinstance(key, str):
                raise self.refuse(key_node, f"dict key {_excerpt(key_node)!r} is not a string")
            entry[key] = value
        return entry

    def unary(self, node: ast.UnaryOp) -> Any:
        operand = self.value(node.operand)
        if isinstance(node.op, ast.USub) and isinstance(operand, (int, float)):
            return -operand
        raise self.refuse(node, f"{_excerpt(node)!r} is not supported in a manifest")

    def binary(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Div) and isinstance(left, PathText) and isinstance(right, str):
            return left / right
        if isinstance(node.op, ast.Add) and type(left) is type(right) and type(left) in (str, list, tuple):
            return left + right
        if type(right) is int and (operation := _ARITHMETIC.get(type(node.op))):
            if type(left) is int:
                return self.number(node, operation, left, right)
            if isinstance(node.op, ast.Mult) and isinstance(left, list):
                self.spend(node, len(left) * max(right, 0), 0)
                return left * right
        raise self.refuse(node, f"{_excerpt(node)!r} is not supported in a manifest")

    def number(self, node: ast.BinOp, operation: Callable[[int, int], int], left: int, right: int) -> int:
        """Return the result of an operation on two integers. Raises a usage error if it has too many bits."""
        try:
            result = operation(left, right)
        except (ArithmeticError, ValueError):
            raise self.refuse(node, f"{_excerpt(node)!r} cannot be evaluated") from None
        if result.bit_length() > _LARGEST_BITS:
            raise self.refuse(node, f"a number of {result.bit_length()} bits is too large to be evaluated")
        return result

    def fstring(self, node: ast.JoinedStr) -> str:
        parts: list[str] = []
        length = 0
        for piece in node.values:
            if isinstance(piece, ast.FormattedValue):
                value = self.value(piece.value)
                if piece.format_spec is not None or not isinstance(value, (str, int)):
                    raise self.refuse(node, f"{_excerpt(node)!r} is not supported in a manifest")
                parts.append(str(value))
            else:
                parts.append(str(self.value(piece)))
            length += len(parts[-1])
            self.spend(node, length, len(parts[-1]))
        return "".join(parts)

    def subscript(self, node: ast.Subscript) -> Any:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "parents":
            owner, index = self.value(node.value.value), self.value(node.slice)
            if isinstance(owner, PathText) and isinstance(index, int) and 0 <= index < owner.count("/"):
                return owner.ancestor(index)
        owner, index = self.value(node.value), self.value(node.slice)
        try:
            if isinstance(index, (int, str)):
                return owner[index]
        except (LookupError, TypeError):
            pass
        raise self.refuse(node, f"{_excerpt(node)!r} is not supported in a manifest")

    def attribute(self, node: ast.Attribute) -> Any:
        owner = self.expression(node.value)
        if isinstance(owner, Symbol):
            member = symbol_member(owner, node.attr)
            if member is not None:
                return member
        elif isinstance(owner, PathText) and node.attr in ("parent", "name", "stem"):
            return getattr(owner, node.attr)
        if owner is ARG_DIRECTION:
            members = ", ".join(d.name for d in ArgDirection)
            raise ArtifactError(
                f"{self.path}:{node.lineno}", f"{_excerpt(node)!r} is not an ArgDirection", f"use one of {members}"
            )
        raise self.refuse(node, f"{_excerpt(node)!r} is not supported in a manifest")

    def call(self, node: ast.Call) -> Any:
        if node.keywords:
            raise self.refuse(node, f"{_excerpt(node)!r} is not supported in a manifest")
        arguments = [self.value(argument) for argument in node.args]
        function = node.func
        if isinstance(function, ast.Attribute):
            owner = self.expression(function.value)
            if isinstance(owner, PathText):
                return self.path_method(node, owner, function.attr, arguments)
            if isinstance(owner, Symbol) and owner.name in ("os", "pathlib"):
                return self.function(node, "Path" if owner.name == "pathlib" else function.attr, arguments)
        elif isinstance(function, ast.Name):
            symbol = self.expression(function)
            if isinstance(symbol, Symbol):
                return self.function(node, symbol.name, arguments)
        raise self.refuse(node, f"{_excerpt(node)!r} is not supported in a manifest")

    def path_method(self, node: ast.Call, owner: PathText, method: str, arguments: list[Any]) -> Any:
        if method in ("resolve", "absolute", "expanduser") and not arguments:
            return PathText(posixpath.normpath(owner))
        if method in ("as_posix", "__str__") and not arguments:
            return str(owner)
        if method == "joinpath" and all(isinstance(a, str) for a in arguments):
            return PathText(posixpath.join(owner, *arguments))
        if method == "with_name" and len(arguments) == 1 and isinstance(arguments[0], str):
            return owner.parent / arguments[0]
        raise self.refuse(node, f"{_excerpt(node)!r} is not supported in a manifest")

    def function(self, node: ast.Call, name: str, arguments: list[Any]) -> Any:
        function = FUNCTIONS.get(name)
        if function is None or not arguments or not all(isinstance(a, str) for a in arguments):
            raise self.refuse(node, f"{_excerpt(node)!r} is not supported in a manifest")
        try:
            return function(*arguments)
        except TypeError:
            raise self.refuse(node, f"{_excerpt(node)!r} is not supported in a manifest") from None


#: None of them makes a large number of two small ones.
_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_EXPRESSIONS: dict[type[ast.expr], Callable[[Evaluator, Any], Any]] = {
    ast.Constant: Evaluator.constant,
    ast.Name: Evaluator.name,
    ast.List: Evaluator.sequence,
    ast.Tuple: Evaluator.sequence,
    ast.Dict: Evaluator.dictionary,
    ast.UnaryOp: Evaluator.unary,
    ast.BinOp: Evaluator.binary,
    ast.JoinedStr: Evaluator.fstring,
    ast.Subscript: Evaluator.subscript,
    ast.Attribute: Evaluator.attribute,
    ast.Call: Evaluator.call,
}


def _excerpt(node: ast.AST, limit: int = 60) -> str:
    try:
        is_small = sum(1 for _ in islice(ast.walk(node), _SHOWN_NODES)) < _SHOWN_NODES
        text = " ".join(ast.unparse(node).split()) if is_small else f"{type(node).__name__} of many parts"
    except (ValueError, RecursionError):  # a number of thousands of digits, or endless nesting
        return type(node).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."
