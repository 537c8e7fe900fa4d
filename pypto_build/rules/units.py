"""Compiles and links: the steps of a kernel or an orchestration."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from SCons.Scanner import Classic
from SCons.Scanner.C import CScanner

from pypto_build import terminal
from pypto_build.artifact import Kernel, Orchestration
from pypto_build.facts import places
from pypto_build.proof import Action, OutputDir
from pypto_build.proof.action import Helper
from pypto_build.proof.output_dir import Spawn
from pypto_build.rules.machinery.environment import search_paths
from pypto_build.rules.machinery.inputs import makers_above
from pypto_build.rules.machinery.scons_types import Environment, Node, Nodes
from pypto_build.rules.machinery.steps import Refused, Step, declare_step, perform
from pypto_build.rules.machinery.workspace import Workspace, escape, workspace_of
from pypto_build.rules.precompiled import Precompiled
from pypto_build.rules.variants import FOR_SIMPLER
from pypto_build.toolchain.host import Recipe, UnitRecipe
from pypto_build.toolchain.own_text import (
    declares_names_of,
    has_markers,
    is_about_global_types,
    leaves_templates_alone,
    own_text,
)

if TYPE_CHECKING:
    from pypto_build.rules.instances import Instances

# Variables of the caller's environment that compilers get.
_PASSED = ("PATH", "LD_LIBRARY_PATH", "LC_ALL")
# Prefixes of further variables for launchers, which are responsible for their own caches.
_OF_LAUNCHERS = ("CCACHE_", "SCCACHE_", "DISTCC_", "ICECC", "XDG_", "PYPTO_", "HOME")
_HARMLESS = r"#\s*(include\s*<\w+(\.h)?>|pragma\s+once|if(n?def)?\b.*|else|endif|define\s+__(gm|aicore)__\b.*)"
# A comment behind a directive.
_REMARK = r"[ \t]*(?://[^\n]*[^\\\n]|//)?"
# Lines that only a compiler for devices sees.
_FOR_DEVICES = r"(?m)^[ \t]*#if !defined\(__CPU_SIM\)\n(?:[ \t]*(?!#[ \t]*(?:if|el|endif)).*\n)*[ \t]*#endif"
# Bytes of a file in which SCons looks for lines that include others.
_MOST_SCANNED = 64 << 20
# The error of compilers for a missing file.
_MISSING = re.compile(r"fatal error: .*(No such file|file not found)")
# A file that includes itself without end: the compiler prints thousands of lines.
_ENDLESS = re.compile("#include nested (depth|too deeply)")
# `__DATE__` and `__TIME__` are those of the first second of 2000 in every compilation.
_EPOCH = {"SOURCE_DATE_EPOCH": "946684800"}


@dataclass(frozen=True)
class Plan:
    """Build plan of one unit: its recipe, and its additions to it.

    ``name`` is the path of its binary below the directory of binaries, without a suffix.
    """

    name: str
    source: Path
    recipe: UnitRecipe
    extra_dirs: tuple[Path, ...] = ()
    extra_flags: tuple[str, ...] = ()
    spliced: Path | None = None  # what is compiled instead of the unit's own source

    @property
    def binary(self) -> str:
        """Return the file name of the binary that a runtime loads."""
        return f"{self.name}{self.recipe.suffix}"

    def with_splice(self, file: Path) -> Plan:
        """Return the plan for compiling ``file``, a new version of the source."""
        flags = (*self.extra_flags, "-iquote", str(self.source.parent))
        return replace(self, extra_flags=flags, spliced=file)

    @property
    def compiled(self) -> Path:
        """Return the file that is compiled."""
        return self.spliced or self.source

    def compile_argv(self, source: str, target: str) -> list[str]:
        """Return the command that compiles a unit with all its template instances, for these file names."""
        return self.recipe.compile_argv(source, target, self.extra_dirs, self.extra_flags)

    def calling_argv(self, source: str, target: str) -> list[str]:
        """Return the command that leaves instances to be linked, if the recipe supports it."""
        return self.recipe.compile_argv(source, target, self.extra_dirs, (*self.recipe.calling, *self.extra_flags))


class Compilation:
    """The common part of all compilations of one artifact for one platform.

    Binaries go to ``variant`` below the place. ``root`` is the artifact, whose path no binary contains unless it has
    to.
    """

    def __init__(self, workspace: Workspace, recipe: Recipe, output_dir: OutputDir, variant: str, root: Path) -> None:
        self._workspace = workspace
        self._recipe = recipe
        self._output_dir = output_dir
        self._variant = f"{variant}/" if variant else ""
        self._root = root
        self._hushed = variant == FOR_SIMPLER.directory  # simpler's own headers warn in every unit
        variables = tuple(dict.fromkeys(name for unit in recipe.values() for name in unit.variables))
        self._environment = compile_environment(workspace, variables)
        self._precompiled: dict[tuple[str, ...], Precompiled] = {}
        self._instances: dict[tuple[str, ...], Instances] = {}
        self._searched = search_paths(self._environment, variables)
        self._settings: dict[tuple[str, str, str], dict[str, str]] = {}
        self._instances_by: dict[int, str] = {}  # what decides about them, by recipe
        self._maps = {kind: self._mapped(unit) for kind, unit in recipe.items()}
        for unit in recipe.values():
            workspace.include_dirs |= set(unit.include_dirs)

    def kernel(self, kernel: Kernel) -> Plan:
        """Return the build plan of a kernel."""
        return self._plan(kernel.binary, kernel.core_type, kernel.source, kernel.extra_include_dirs)

    def orchestration(self, orchestration: Orchestration) -> Plan:
        """Return the build plan of an orchestration."""
        return self._plan(orchestration.binary, "orchestration", orchestration.source)

    def _plan(self, name: str, kind: str, source: Path, extra_dirs: tuple[Path, ...] = ()) -> Plan:
        recipe = self._recipe[kind]
        return Plan(name, source, recipe, extra_dirs, self._maps[kind])

    def _mapped(self, recipe: UnitRecipe) -> tuple[str, ...]:
        """Return the flags that keep the paths of workspace and artifact out of the output.

        In output with line numbers, directories get names that are the same on every machine.
        """
        named = (
            (self._workspace.top, places.WORKSPACE),
            (self._output_dir.directory, places.OUTPUT),
            *recipe.named,
            (self._root, places.ARTIFACT),
        )
        return recipe.names(*((path, name if recipe.located else os.curdir) for path, name in named))

    def steps(self, plan: Plan) -> list[Step]:
        """Return the steps of a unit: its compilation, and the steps after it."""
        base = f"{self._variant}{plan.name}"
        steps = [self._compile(plan, f"{base}.o")]
        for step in plan.recipe.steps:
            before, name = steps[-1].action.outputs[0], f"{base}{step.suffix}"
            source = self._output_dir.word(before)
            argv = step.argv(source, f"{self._output_dir.word(name)}.tmp")
            also = tuple(map(str, plan.recipe.also)) if len(steps) == 1 else ()
            argv += plan.extra_flags if also else ()  # these are compiled
            calls = plan.recipe.calling and len(steps) == 1
            action = self._action(plan, name, argv, (source, *also), source, self._called(plan) if calls else "")
            action = replace(action, python=step.python)
            subject = f"{plan.name}{step.suffix}"
            back = f"[cpp->.so] restored {subject}  (as it was made before)"
            steps.append(
                Step(
                    self._output_dir,
                    action,
                    f"[cpp->.so] {step.label}",
                    subject,
                    spawn=self._workspace.compile,
                    helpers=partial(self._callees, plan, before) if calls else None,
                    restored=back if step.suffix == plan.recipe.suffix else "",
                    hushed=self._hushed,
                )
            )
        return steps

    def _compile(self, plan: Plan, name: str) -> Step:
        source = str(plan.compiled)
        argv = plan.calling_argv(source, f"{self._output_dir.word(name)}.tmp")
        action = self._action(plan, name, argv, (source,), main=source)
        if launcher := self._workspace.launcher:
            action = replace(action, prefix=(launcher.path,), private=launcher.private)
        return Step(
            self._output_dir,
            action,
            "[cpp->.so] compile",
            self._workspace.short(plan.source),
            spawn=partial(
                _compile_by_name,
                partial(self._compile_calling, plan) if plan.recipe.calling else self._workspace.compile,
            ),
            helpers=lambda: self._helpers(plan),
            hushed=self._hushed,
        )

    def _action(
        self, plan: Plan, name: str, argv: list[str], inputs: tuple[str, ...], main: str, called: str = ""
    ) -> Action:
        return Action(
            name=name,
            argv=tuple(argv),
            inputs=inputs,
            outputs=(name,),
            settings=self._settings_of(plan.recipe, called),
            environment=self._environment,
            main=main,
        )

    def _settings_of(self, recipe: UnitRecipe, called: str) -> dict[str, str]:
        """Return the settings that decide besides the command; all units of a kind share them."""
        key = (recipe.identity, recipe.processor, called)
        if key not in self._settings:
            self._settings[key] = recipe.settings | self._searched
            self._settings[key] |= {"the instructions": called} if called else {}
        return self._settings[key]

    def _called(self, plan: Plan) -> str:
        """Return the text that decides about the linked instances, besides the object's symbols."""
        number = id(plan.recipe)  # one of those that the artifact's units share
        if number not in self._instances_by:
            self._instances_by[number] = " ".join(plan.recipe.compile_argv("", ""))
        return self._instances_by[number]

    def _instances_for(self, recipe: UnitRecipe) -> Instances:
        from pypto_build.rules.instances import Instances  # a null replay needs none

        key = tuple(recipe.compile_argv("", ""))
        if key not in self._instances:
            helpers = partial(self._header, recipe)
            self._instances[key] = Instances(self._workspace, recipe, self._environment, helpers)
        return self._instances[key]

    def _compile_calling(self, plan: Plan, command: list[str], env: dict[str, str]) -> tuple[int, str]:
        """Compile a unit that calls instances. If these cannot be built, the unit is compiled with its own."""
        command = in_colours(command)
        status, output = self._workspace.compile(command, env)
        if status or self._has_instances(plan, Path(command[-1]), env):
            return status, output
        return self._workspace.compile([word for word in command if word not in plan.recipe.calling], env)

    def _has_instances(self, plan: Plan, file: Path, env: dict[str, str]) -> bool:
        from pypto_build.rules.instances import missing_instances

        ours, others = missing_instances(file)
        if others or not ours or not self._only_calls(plan, ours, env):
            return not (ours or others)
        return self._instances_for(plan.recipe).of(ours) is not None

    def _only_calls(self, plan: Plan, symbols: list[str], env: dict[str, str]) -> bool:
        """Return True if a unit cannot change the meaning of our templates, by a specialisation or an overload.

        In case of doubt the answer is False.
        """
        if not begins_with(plan.compiled, plan.recipe.main_header):
            return False
        of_global_types = is_about_global_types(symbols)
        source, headers = str(plan.compiled), plan.recipe.include_dirs[0]
        if _is_plain(plan):
            if not of_global_types:
                return True
            defines = re.search(r"#[ \t]*define(?![ \t]+__(gm|aicore)__)", _text(plan))
            if not defines and not declares_names_of(headers, _text(plan)):
                return True
        *words, _, _, _, _ = plan.compile_argv(source, "")
        status, expanded = self._workspace.compile([*words, "-E", source], env)
        own = None if status or has_markers(_text(plan)) else own_text(expanded, headers)
        if own is None or not leaves_templates_alone(own):
            return False
        return not (of_global_types and declares_names_of(headers, own))

    def _callees(self, plan: Plan, compiled: str) -> tuple[Helper, ...]:
        """Return the instances that an object calls."""
        from pypto_build.rules.instances import missing_instances

        ours, _ = missing_instances(self._output_dir.path(compiled))
        instances = self._instances_for(plan.recipe).of(ours) if ours else ()
        if instances is None:
            terminal.complain(f"scons: {plan.name}: the instructions that it calls could not be compiled; try again")
            raise Refused(1)
        return instances

    def _helpers(self, plan: Plan) -> tuple[Helper, ...]:
        """Return the precompiled main header if the unit begins with that header: g++ then does not read its text."""
        if self._workspace.launcher or not begins_with(plan.compiled, plan.recipe.main_header):
            return ()
        return self._header(plan.recipe)

    def _header(self, recipe: UnitRecipe) -> tuple[Helper, ...]:
        if not recipe.main_header:
            return ()
        key = tuple(recipe.precompile_argv("", ""))
        if key not in self._precompiled:
            self._precompiled[key] = Precompiled(self._workspace, recipe, self._environment)
        helper = self._precompiled[key].ready()
        return (helper,) if helper else ()


def _included_names(self: Classic, node: Any) -> list[tuple[str, ...]]:
    """Do as SCons' scanners do, but leave out devices and pipes, which they would read without end."""
    status = node.stat()
    is_text = status is not None and stat.S_ISREG(status.st_mode) and status.st_size <= _MOST_SCANNED
    return _NAMES(self, node) if is_text else []


_NAMES = Classic.find_include_names
Classic.find_include_names = _included_names


def _compile_by_name(compile_: Spawn, command: list[str], env: dict[str, str]) -> tuple[int, str]:
    """Compile a unit; again, with its real paths, if it may include a file as ``__FILE__``.

    The object then contains the directories' paths, and is recorded to hold for them alone.
    """
    status, output = compile_(command, env)
    if not status or not _MISSING.search(output):
        return status, output
    roots = [word[len(places.FLAG) :].rpartition("=")[0] for word in command if word.startswith(places.FLAG)]
    note = Path(env["TMPDIR"], "paths.h")
    note.write_text("".join(f"asm({json.dumps(f'.ident {json.dumps(root)}')});\n" for root in roots), encoding="utf-8")
    words = [word.replace(places.FLAG, places.OLD_FLAG) if word.startswith(places.FLAG) else word for word in command]
    end = len(words) - 1 - words[::-1].index("-c")
    words[end:end] = ["-include", str(note)]
    again, said_again = compile_(words, env)
    return (status, output) if again and _ENDLESS.search(said_again) else (again, said_again)


def declare_unit(
    env: Environment, steps: list[Step], source: Node | None = None, include_dirs: Sequence[Node] = ()
) -> Node:
    """Declare the nodes of a unit's steps; return that of its binary.

    SCons searches the directory of ``source`` and ``include_dirs`` for included files: generated files are built first.
    """
    first, *others = steps
    nodes: Nodes = [env.File(escape(path)) for path in first.action.inputs] if source is None else [source]
    scanned = {"source_scanner": CScanner(), "CPPPATH": list(include_dirs)} if source else {}
    nodes = declare_step(env, first, nodes, **scanned)
    if include_dirs:
        wait = partial(_wait_for_directories, env, nodes, include_dirs)
        wait()
        workspace_of(env).at_start.append(wait)  # a rule below may make one
    for step in others:
        nodes = declare_step(env, step, nodes)
    return nodes[0]


def _wait_for_directories(env: Environment, nodes: Nodes, directories: Sequence[Node]) -> None:
    """Make ``nodes`` wait for header directories that builders make as a whole, whose files SCons does not know."""
    env.Depends(nodes, [maker for directory in directories for maker in makers_above(directory)])


def includes_made(env: Environment, plan: Plan, made: Collection[Node]) -> tuple[Node, tuple[Node, ...]] | None:
    """Return the source of a unit, and the directories in which its headers are looked for.

    Return None unless the source includes a file that is ``made``, or looks for headers in such a directory.
    """
    source = env.File(escape(str(plan.compiled)))
    dirs = tuple(env.Dir(escape(str(path))) for path in plan.extra_dirs)
    path = (env.Dir(escape(str(plan.source.parent))), *dirs)
    included = source.get_implicit_deps(env, CScanner(), lambda _scanner: path)
    if set(included).isdisjoint(made) and not any(map(makers_above, path)):
        return None
    return source, path


def ensure(workspace: Workspace, steps: Sequence[Step], speculative: bool = False) -> int:
    """Run the steps of a unit that are not up to date; return the status of the first that fails.

    With ``speculative``, failures are not reported.
    """
    return next((status for step in steps if (status := perform(workspace, step, speculative).status)), 0)


def _is_plain(plan: Plan) -> bool:
    """Return True if the text of a unit cannot change the meaning of our templates.

    It then includes only our headers and those of the system, and has no declaration that could.
    """
    text = _text(plan).replace("\\\n", "")
    headers = plan.recipe.include_dirs[0]
    for match in re.finditer(rf'(?m)^[ \t]*#[ \t]*include[ \t]*(?:<([\w./-]+)>|"([\w./-]+)"){_REMARK}$', text):
        name, beside = match[1] or match[2], match[2] and (plan.source.parent / match[2]).exists()
        if beside or not ((headers / name).is_file() or (match[1] and re.fullmatch(r"\w+(\.h)?", name))):
            return False
        text = text.replace(match[0], "", 1)
    return not re.search(r"\b(include\w*|import|template|operator|_?pragma)\b|(?<!using )\bnamespace\b", text, re.I)


def _text(plan: Plan) -> str:
    return plan.compiled.read_text(encoding="utf-8", errors="replace")


def begins_with(source: Path, header: str) -> bool:
    """Return True if ``source`` includes ``header`` first, so that including it before everything else changes nothing.

    Standard headers may come before it, and so may definitions of qualifiers that our headers make too. Other
    definitions may not. A header of this name beside the source is another one.
    """
    if not header:
        return False
    try:
        text = source.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    match = re.search(rf'^[ \t]*#[ \t]*include[ \t]*(["<]){re.escape(header)}[">]{_REMARK}$', text, re.MULTILINE)
    if match is None or (match[1] == '"' and (source.parent / header).exists()):
        return False
    before = re.sub(r"//[^\n]*|/\*.*?\*/", "", text[: match.start()], flags=re.DOTALL)
    before = re.sub(_FOR_DEVICES, "", before)
    lines = [line.strip() for line in before.split("\n") if line.strip()]
    return all(re.fullmatch(_HARMLESS, line) for line in lines)


def in_colours(command: list[str]) -> list[str]:
    """Return the command line of g++ or clang++ with flags that keep colours for a terminal; these flags are in no
    key.
    """
    number = next((number for number, word in enumerate(command) if re.search(r"(g\+\+|clang)[^/]*$", word)), None)
    if number is None or not terminal.colours_of_commands():
        return command
    return [*command[: number + 1], "-fdiagnostics-color=always", *command[number + 1 :]]


def compile_environment(workspace: Workspace, variables: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the caller's environment for compilers: variables that find programs, without those that change the
    output.

    Variables that begin with one of ``variables`` are passed too.
    """
    prefixes = (*variables, *(_OF_LAUNCHERS if workspace.launcher else ()))
    passed = {key: value for key, value in workspace.environment.items() if key in _PASSED or key.startswith(prefixes)}
    return passed | _EPOCH
