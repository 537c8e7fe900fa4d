"""Reads literal classes of a scene test's file from its syntax tree, without executing it.

Computed cases, classes made by functions and user-defined base classes are not literal. A file with one of these must
be executed, which other modules do in a separate process.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from .errors import ArtifactError
from .files import read_text
from .manifest_eval import Evaluator
from .records import ArgDirection
from .scenes import CHIP_LEVEL, NODE_LEVEL, Scene, SceneCase, SceneEntry, SceneKernel, Scenes, scene_tolerance

_LARGEST = 1 << 20
_HARNESS = "simpler_setup"
_PACKAGES = ("simpler", _HARNESS)
_BASE, _DECORATOR = "SceneTestCase", "scene_test"
_DECORATED = re.compile(rf"(?m)^@(\w+\.)?{_DECORATOR}\(")
_IMPORTED = re.compile(rf"(?m)^(from|import)\s+{_HARNESS}\b")
_MENTIONED = re.compile(rf"(?m)^\s*(from|import)\s+(simpler|{_HARNESS})\b")
_BESIDE = re.compile(r"(?m)^\s*from\s+\.(\w+)\s+import\b")
#: Methods by which a class decides itself whether a case passed.
JUDGING = ("compare_outputs", "test_run")
#: Methods by which a class does itself what a runner does for it.
_OWN_WAYS = ("build_callable", "compile_chip_callable")
#: Arguments of the runner for `test_run`.
_GIVEN = ("self", "st_platform", "st_worker", "request")
#: Statements of a module that change none of its names.
_PLAIN = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class NotLiteral(Exception):
    """The file's declarations are computed: the file has to be executed."""


def is_scene_test(path: Path) -> bool:
    """Return whether a file's text may declare scene tests."""
    text = _text_of(path)
    return bool(_DECORATED.search(text) and _IMPORTED.search(text))


def scene_files(path: Path) -> list[Path]:
    """Return the files of scene tests at or below ``path``."""
    return [file for file in ([path] if path.is_file() else sorted(path.rglob("*.py"))) if is_scene_test(file)]


def mentions_simpler(path: Path) -> bool:
    """Return whether the text of a file, or of a module beside it that it imports, imports simpler's packages."""
    text = _text_of(path)
    beside = (path.with_name(f"{name}.py") for name in _BESIDE.findall(text))
    return bool(_MENTIONED.search(text)) or any(_MENTIONED.search(_text_of(module)) for module in beside)


def _text_of(path: Path) -> str:
    try:
        return read_text(path, _LARGEST, errors="replace")
    except (OSError, ArtifactError):
        return ""


def imports_simpler(path: Path) -> bool:
    """Return whether a Python file imports one of simpler's packages."""
    try:
        tree = ast.parse(read_text(path, _LARGEST, errors="replace"))
    except (OSError, ArtifactError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level]
    return any(name.partition(".")[0] in _PACKAGES for name in names)


def read_literal(path: Path) -> Scenes:
    """Return the scene tests of ``path``. Raises `NotLiteral`, and a usage error for invalid Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(read_text(path, _LARGEST), filename=str(path))
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", "name the file of a scene test") from None
    except SyntaxError as error:
        raise ArtifactError(f"{path}:{error.lineno or 1}", f"syntax error: {error.msg}", "correct the line") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ArtifactError(path, f"is not Python source: {error}", "name the file of a scene test") from None
    try:
        return Scenes(tuple(_Reader(path, tree).classes()))
    except (ArtifactError, RecursionError, KeyError, TypeError, AttributeError, msgspec.ValidationError) as error:
        raise NotLiteral(str(error)) from None


class _Reader:
    """Reads one file. Raises `NotLiteral`, or an equivalent error of the evaluator, for code that is not literal."""

    def __init__(self, path: Path, tree: ast.Module) -> None:
        self._path, self._tree = path, tree
        self._names = Evaluator(path)

    def classes(self) -> Iterator[Scene]:
        for statement in self._tree.body:
            if isinstance(statement, ast.ClassDef):
                decorator = next(
                    (expression for expression in statement.decorator_list if _calls(expression, _DECORATOR)), None
                )
                if isinstance(decorator, ast.Call):
                    yield self._scene(statement, decorator)
            elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)):
                self._bind(statement)
            elif not isinstance(statement, _PLAIN) and not _is_harmless(statement):
                raise NotLiteral(f"{self._path}:{statement.lineno}: this statement may change what the file declares")

    def _bind(self, statement: ast.stmt) -> None:
        """Record names with literal values; using a name with an unknown value is an error."""
        try:
            self._names.statement(statement)
        except ArtifactError:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self._names.names.pop(node.id, None)

    def _scene(self, node: ast.ClassDef, decorator: ast.Call) -> Scene:
        if [getattr(base, "id", "") for base in node.bases] != [_BASE] or node.keywords:
            raise NotLiteral(f"the class {node.name} has an unsupported base class")
        arguments = {str(word.arg): self._names.value(word.value) for word in decorator.keywords}
        for name, argument in zip(("level", "runtime"), decorator.args):  # noqa: B905
            arguments[name] = self._names.value(argument)
        outside = dict(self._names.names)
        methods = [each.name for each in node.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
        values: dict[str, Any] = {"name": node.name, "line": node.lineno, **arguments}
        reason = method_reason(methods) or fixture_reason(_parameters(node)) or self._marked(node)
        for statement in node.body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = getattr(statement.targets[0], "id", "")
                reason = reason or (self._mark(statement.value) if target == "pytestmark" else "")
                values |= self._attribute(target, statement.value, int(values["level"]))
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                values |= self._attribute(getattr(statement.target, "id", ""), statement.value, int(values["level"]))
        self._names.names = outside
        values["reason"] = reason or level_reason(int(values["level"]), methods)
        values["judged"] = any(name in JUDGING for name in methods)
        values["others"] = other_tests(methods)
        return msgspec.convert(values, Scene)

    def _attribute(self, name: str, value: ast.expr, level: int) -> dict[str, Any]:
        """Return the record fields that an attribute of the class sets."""
        if name == "CASES":
            read = CASE_FIELDS if level == CHIP_LEVEL else CASE_FIELDS[:-1]  # how many chips: others' business
            return {"cases": [self._case(case, read) for case in self._elements(value)]}
        if name == "CALLABLE":
            return callable_fields(self._names.value(value)) if level == CHIP_LEVEL else {}
        if name in ("RTOL", "ATOL"):
            return {name.lower(): scene_tolerance(f"{self._path}:{value.lineno}", name, self._names.value(value))}
        if name == "SKIP_GOLDEN":
            return {"skip_golden": self._names.value(value)}
        if name == "RUNTIME_ENV":
            return {"environment": {key: str(text) for key, text in self._names.value(value).items()}}
        try:
            self._names.names[name] = self._names.value(value)
        except ArtifactError:
            self._names.names.pop(name, None)
        return {}

    def _elements(self, node: ast.expr) -> list[ast.expr]:
        if not isinstance(node, (ast.List, ast.Tuple)):
            raise NotLiteral("CASES is not written as a literal list")
        return node.elts

    def _case(self, node: ast.expr, read: Sequence[str]) -> SceneCase:
        """Return a case from its fields named in ``read``."""
        if not isinstance(node, ast.Dict) or None in node.keys:
            raise NotLiteral("a case is not written as a literal dictionary")
        keys = [getattr(key, "value", None) for key in node.keys]
        nodes = {key: value for key, value in zip(keys, node.values, strict=True) if key in read}
        return case_of({str(key): self._names.value(value) for key, value in nodes.items()})

    def _marked(self, node: ast.ClassDef) -> str:
        return next(filter(None, map(self._mark, node.decorator_list)), "")

    def _mark(self, node: ast.expr) -> str:
        """Return the reason why a pytest mark prevents a class from running here; empty if it can run."""
        for mark in node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]:
            call = mark if isinstance(mark, ast.Call) else None
            named = call.func if call else mark
            if isinstance(named, ast.Attribute) and ast.unparse(named.value) == "pytest.mark":
                words = [ast.literal_eval(word) for word in call.args] if call and named.attr != "skipif" else []
                if reason := mark_reason(named.attr, words):
                    return reason
        return ""


#: Fields that are read of a case.
CASE_FIELDS = ("name", "platforms", "manual", "skip_golden", "config")


def case_of(fields_of_case: dict[str, Any]) -> SceneCase:
    """Return a case from its dictionary."""
    platforms = tuple(fields_of_case.get("platforms", ()))
    manual = fields_of_case.get("manual", False)
    names = platforms if manual is True else (manual,) if isinstance(manual, str) else tuple(manual or ())
    fields: dict[str, Any] = {
        key: fields_of_case[key] for key in ("name", "skip_golden", "config") if key in fields_of_case
    }
    return msgspec.convert({**fields, "platforms": platforms, "manual": names}, SceneCase)


def callable_fields(declared: dict[str, Any]) -> dict[str, Any]:
    """Return the record fields for the ``CALLABLE`` of a chip-level class."""
    fields: dict[str, Any] = {"kernels": [_plain(entry, SceneKernel) for entry in declared.get("incores", ())]}
    if "orchestration" in declared:
        fields["orchestration"] = _plain(declared["orchestration"], SceneEntry)
    return fields


def _plain(entry: dict[str, Any], kind: type[Any]) -> Any:
    fields = {key: value for key, value in entry.items() if key in kind.__struct_fields__ and value is not None}
    if "signature" in fields:
        fields["signature"] = [ArgDirection(direction).name for direction in fields["signature"]]
    return msgspec.convert({key: str(value) if key == "source" else value for key, value in fields.items()}, kind)


def level_reason(level: int, methods: Collection[str]) -> str:
    """Return why a class of this level and with these methods cannot run here; empty if it can."""
    if level == NODE_LEVEL and "test_run" in methods:
        return "it drives a worker of several chips itself (test_run), which needs simpler"
    here = level in (CHIP_LEVEL, NODE_LEVEL)
    return "" if here else f"level {level}: it needs several machines, and simpler's workers"


def mark_reason(name: str, words: list[Any]) -> str:
    """Return why a pytest mark of this name prevents a class from running on a simulated platform; empty if it can
    run.
    """
    if name == "requires_hardware":
        return f"needs hardware{': ' + ', '.join(map(str, words)) if words else ''}"
    if name == "skip":
        return f"marked to be skipped{': ' + str(words[0]) if words else ''}"
    return ""


def other_tests(methods: list[str]) -> list[str]:
    """Return the test methods of a class that do not run its cases."""
    return [name for name in methods if name.startswith("test_") and name not in JUDGING]


def fixture_reason(parameters: Sequence[str]) -> str:
    """Return why a class whose `test_run` has these parameters cannot run here; empty if it can."""
    more = [name for name in parameters if name not in _GIVEN]
    return f"its test_run takes the fixture {more[0]}" if more else ""


def method_reason(methods: list[str]) -> str:
    """Return why a class that defines these methods cannot run here; empty if it can."""
    own = [name for name in methods if name in _OWN_WAYS]
    return f"it compiles by itself ({own[0]}), which needs simpler" if own else ""


def _parameters(scene: ast.ClassDef) -> list[str]:
    """Return the parameter names of the class's own `test_run`."""
    methods = (each for each in scene.body if isinstance(each, ast.FunctionDef) and each.name == "test_run")
    return [argument.arg for method in methods for argument in (*method.args.args, *method.args.kwonlyargs)]


def _calls(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == name


def _is_harmless(statement: ast.stmt) -> bool:
    """Return whether a statement is a docstring, an addition to sys.path, or a block for use as a script."""
    if isinstance(statement, ast.Pass):
        return True
    if isinstance(statement, ast.If):
        return ast.unparse(statement.test) in ("__name__ == '__main__'", "TYPE_CHECKING")
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    return isinstance(value, ast.Constant) or ast.unparse(value).startswith(("sys.path.", "torch."))
