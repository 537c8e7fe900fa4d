"""`pypto-build setup [PART ...] [WRITE=1]`: files for editors, shells and CI, merged into what is there.

Without WRITE=1 it says what it would write. Nothing that a user wrote is overwritten. Files in JSON and .editorconfig
get missing entries and keep their comments. A file that is not ours is left alone, with a line on what to do. Without a
PART: the workspace's files, and completion for the shell in $SHELL.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from pypto_build.artifact.files import write_bytes
from pypto_build.editor.setup.completion import script
from pypto_build.editor.setup.plan import Step, current, json_file, own_file, sections_file
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.rules.targets import TARGETS

# The extension by which VS Code starts the language server of `.pto`, as a folder of the workspace.

DIRECTORY = Path(".vscode", "extensions", "pypto-build")

_MANIFEST: dict[str, object] = {
    "name": "pypto-build",
    "publisher": "workspace",
    "version": "0.0.1",
    "description": "The language server of .pto modules: pypto-build lsp",
    "engines": {"vscode": "^1.89.0"},
    "main": "./extension.js",
    "activationEvents": ["onLanguage:pto", "onLanguage:mlir", "workspaceContains:**/kernel_config.py"],
    "contributes": {
        "languages": [{"id": "pto", "aliases": ["PTO"], "extensions": [".pto"]}],
        "configuration": {
            "title": "pypto-build",
            "properties": {
                "pypto-build.command": {
                    "type": "string",
                    "default": "pypto-build",
                    "description": "the command of the environment that has pypto-build[lsp]",
                }
            },
        },
    },
    "dependencies": {"vscode-languageclient": "^9.0.1"},
}
_SOURCE = """\
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const command = workspace.getConfiguration("pypto-build").get("command");
  const patterns = ["**/*.pto", "**/kernel_config.py", "**/orchestration/*.cpp", "**/kernels/**/*.cpp"];
  client = new LanguageClient(
    "pypto-build",
    "pypto-build",
    { command, args: ["lsp"] },
    { documentSelector: patterns.map((pattern) => ({ scheme: "file", pattern })) },
  );
  return client.start();
};

exports.deactivate = () => client && client.stop();
"""


def extension(top: Path) -> list[Step]:
    """Return the steps for the extension's manifest and source."""
    folder = top / DIRECTORY
    manifest = json_file(folder / "package.json", _MANIFEST)
    todo = f"run 'npm install' in {DIRECTORY}, then VS Code offers it under Extensions, Recommended"
    if current(folder / "package.json") is None:
        manifest = Step(manifest.path, manifest.what, manifest.text, todo)
    return [manifest, own_file(folder / "extension.js", _SOURCE, comment="//")]


# The files of a workspace: VS Code's tasks and settings, clangd's, `.editorconfig`, a workflow for GitHub Actions.

BUILD_DIR = "build"

#: `file:line[:column]: error: message`: g++, clang++, the checks of modules, and the findings of our instruments,
#: whose files are relative to the artifact.
MATCHER_PATTERN = r"^\s*([^\s:\[][^:]*):(\d+):(?:(\d+):)?\s+(?:fatal )?(error|warning|note):\s+(.*)$"
#: `file.pto:line:column: operation: message`: the check of modules by itself, and what a replay says of an edited one.
MODULE_PATTERN = r"^(?:error: )?([^\s:][^:]*\.pto):(\d+):(\d+): (?!error|warning|note)(.*)$"

# Targets that become tasks, for an artifact that the user picks.
_TASKS = ("replay", "hazards", "lint", "diverge", "pto_check", "report")


def _matchers() -> list[dict[str, object]]:
    # relative to the artifact where it is a finding's, to the workspace where it is the compiler's: it is looked for
    places = ["${workspaceFolder}/build_output", "${workspaceFolder}/examples/artifacts"]
    located = {
        "owner": "pypto-build",
        "source": "pypto-build",
        "fileLocation": [
            "search",
            {"include": ["${workspaceFolder}", *places], "exclude": ["**/build/**", "**/.git/**"]},
        ],
    }
    finding = {"regexp": MATCHER_PATTERN, "file": 1, "line": 2, "column": 3, "severity": 4, "message": 5}
    module = {"regexp": MODULE_PATTERN, "file": 1, "line": 2, "column": 3, "message": 4}
    return [{**located, "pattern": finding}, {**located, "severity": "error", "pattern": module}]


def _task(target: str, words: list[str], doc: str, **more: object) -> dict[str, object]:
    return {
        "label": f"pypto: {target}",
        "type": "process",
        "command": "scons",
        "args": words,
        "detail": doc,
        "problemMatcher": _matchers(),
        **more,
    }


def tasks() -> dict[str, object]:
    """Return the content of `.vscode/tasks.json`."""
    selection = ["JIT=${input:pyptoArtifact}", "PLATFORM=${input:pyptoPlatform}"]
    rows = [_task(name, [name, *selection], TARGETS[name].doc) for name in _TASKS if name in TARGETS]
    rows[0]["group"] = {"kind": "build", "isDefault": True}
    rows.append(_task("test", ["-k", "test"], TARGETS["test"].doc, group={"kind": "test", "isDefault": True}))
    return {
        "version": "2.0.0",
        "tasks": rows,
        "inputs": [
            {"id": "pyptoArtifact", "type": "promptString", "description": "Artifact: a name, a path, a glob, latest",
             "default": "latest"},
            {"id": "pyptoPlatform", "type": "pickString", "description": "Platform", "options": list(PLATFORMS),
             "default": "a2a3sim"},
        ],
    }  # fmt: skip


def vscode(top: Path) -> list[Step]:
    """Return the steps for VS Code: tasks with problem matchers, the type of `.pto` files, clangd's directory."""
    settings: dict[str, object] = {
        "files.associations": {"*.pto": "mlir"},
        "clangd.arguments": [f"--compile-commands-dir=${{workspaceFolder}}/{BUILD_DIR}"],
    }
    extensions: dict[str, object] = {"recommendations": ["llvm-vs-code-extensions.vscode-clangd"]}
    files = {"tasks": tasks(), "settings": settings, "extensions": extensions}
    return [json_file(top / ".vscode" / f"{name}.json", members) for name, members in files.items()]


def clangd(top: Path) -> list[Step]:
    """Return the step for `.clangd`, for editors without settings of their own."""
    path = top / ".clangd"
    body = f"CompileFlags:\n  CompilationDatabase: {BUILD_DIR}\n"
    if "CompilationDatabase" in (current(path) or "") and "written by pypto-build" not in (current(path) or ""):
        return [Step(path, "up to date")]
    return [own_file(path, body, otherwise=f"add 'CompilationDatabase: {BUILD_DIR}' below its CompileFlags")]


def editorconfig(top: Path) -> list[Step]:
    """Return the step for `.editorconfig`: modules are indented by two blanks."""
    rows = {"indent_style": "space", "indent_size": "2", "trim_trailing_whitespace": "true"}
    return [sections_file(top / ".editorconfig", {"*.pto": rows})]


_WORKFLOW = """\
# Replays the declared tests at every push. The store of results is kept between runs: what did not change is not built.
name: replay
on: [push, pull_request]
jobs:
  replay:
    runs-on: ubuntu-latest
    env:
      PYPTO_BUILD: {package}
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.11"
      - uses: actions/cache@v4
        with:
          path: ~/.cache/pypto-build
          key: pypto-build-${{{{ runner.os }}}}-${{{{ github.sha }}}}
          restore-keys: pypto-build-${{{{ runner.os }}}}-
      - run: pip install "$PYPTO_BUILD"
      - run: scons -k test PLATFORM={platform}
      - uses: actions/upload-artifact@v4
        if: failure()
        with:
          name: verdicts
          path: |
            build/**/verdict.json
            build/**/report.html
            build/**/findings/*.sarif
"""


def github(top: Path) -> list[Step]:
    """Return the step for a workflow that runs `scons test`."""
    is_ours = (top / "pypto_build" / "rules").is_dir()
    package = "." if is_ours else "path/to/pypto-build  # a clone, a wheel, or the name that your index has it under"
    body = _WORKFLOW.format(package=package, platform="a2a3sim")
    step = own_file(top / ".github" / "workflows" / "pypto-replay.yml", body)
    return [
        step
        if is_ours or step.text is None
        else Step(step.path, step.what, step.text, "say there where pypto-build is installed from (PYPTO_BUILD)")
    ]


def quiet(top: Path) -> list[Step]:
    """Return the step for `site_scons/site_init.py`, which SCons reads before it prints anything."""
    body = "from SCons.Script.Main import progress_display\n\nprogress_display.set_mode(0)\n"
    path = top / "site_scons" / "site_init.py"
    if "progress_display.set_mode(0)" in (current(path) or "") and "written by pypto-build" not in (
        current(path) or ""
    ):
        return [Step(path, "up to date")]
    return [own_file(path, body, otherwise="add 'SCons.Script.Main.progress_display.set_mode(0)'")]


#: Parts by name, and what each is for.
PARTS = {
    "vscode": (vscode, "tasks with problem matchers, settings"),
    "extension": (extension, "an extension of VS Code that starts the language server"),
    "clangd": (clangd, "how files are compiled, for clangd"),
    "editorconfig": (editorconfig, "indentation of modules"),
    "quiet": (quiet, "SCons without its line 'Reading SConscript files'"),
    "github": (github, "a workflow that replays the declared tests"),
}


# Directories in which shells look for completions, and the files there.


def _data() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")


def _config() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def bash(top: Path) -> list[Step]:
    """Return the steps for bash. bash-completion loads a file by the name of the command."""
    directory = _data() / "bash-completion" / "completions"
    return [_completion("bash", directory / name) for name in ("pypto-build", "scons")]


def zsh(top: Path) -> list[Step]:
    """Return the steps for zsh, which loads a function from `fpath`; one function serves both commands."""
    directory = _data() / "zsh" / "site-functions"
    step = own_file(directory / "_pypto-build", script("zsh"), head="#compdef pypto-build scons\n")
    if step.text is None:
        return [step]
    line = f"fpath=({shlex.quote(str(directory))} $fpath)"
    return [Step(step.path, step.what, step.text, f"'{line}' has to stand in ~/.zshrc before compinit")]


def fish(top: Path) -> list[Step]:
    """Return the steps for fish, which loads a file by the name of the command."""
    directory = _config() / "fish" / "completions"
    return [_completion("fish", directory / f"{name}.fish") for name in ("pypto-build", "scons")]


def _completion(shell: str, path: Path) -> Step:
    other = f"to have ours too: pypto-build setup {shell} --print > FILE, and source it"
    return own_file(path, script(shell), otherwise=other)


#: Shells by name, and what each is for.
SHELL_PARTS = {
    "bash": (bash, "completion of scons and pypto-build"),
    "zsh": (zsh, "completion of scons and pypto-build"),
    "fish": (fish, "completion of scons and pypto-build"),
}


_ALL = {**SHELL_PARTS, **PARTS}
_ASSIGNED = re.compile(r"([A-Z][A-Z_]*)=(.*)\Z")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = argparse.ArgumentParser(
        prog="pypto-build setup",
        description=(__doc__ or "").split("\n\n", 1)[1],
        epilog="parts: " + "; ".join(f"{name}: {doc}" for name, (_, doc) in _ALL.items()),
    )
    options.add_argument("parts", nargs="*", metavar="PART")
    options.add_argument("--write", action="store_true", help="write it (WRITE=1)")
    options.add_argument("--dry-run", action="store_true", help="only say what would be written, which is the default")
    options.add_argument("--print", action="store_true", help="print the completion of one shell")
    options.add_argument("--directory", type=Path, default=Path(), metavar="DIR", help="the workspace (here)")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0, or 2 for wrong usage and for files that cannot be written."""
    options = parser()
    arguments = options.parse_args(argv)
    parts = []
    for word in arguments.parts:
        assigned = _ASSIGNED.match(word)
        if assigned and assigned[1] == "WRITE" and assigned[2] in ("0", "1", ""):
            arguments.write = assigned[2] == "1"
        elif word in _ALL:
            parts.append(word)
        else:
            return _wrong(f"{word}: no such part; there are {', '.join(_ALL)}")
    if arguments.print:
        if len(parts) != 1 or parts[0] not in SHELL_PARTS:
            return _wrong(f"--print: name one of {', '.join(SHELL_PARTS)}")
        print(script(parts[0]), end="")
        return 0
    if arguments.write and arguments.dry_run:
        return _wrong("--dry-run and WRITE=1: say one of them")
    if not arguments.directory.is_dir():
        return _wrong(f"{arguments.directory}: no such directory")
    shell = Path(os.environ.get("SHELL", "")).name
    parts = parts or [*([shell] if shell in SHELL_PARTS else []), *PARTS]
    try:
        steps = [step for part in parts for step in _ALL[part][0](arguments.directory)]
        perform(steps, arguments.write)
    except OSError as error:
        return _wrong(f"{error.filename}: {error.strerror or error}")
    if not arguments.write and any(step.text is not None for step in steps):
        print("nothing was written; WRITE=1 writes these files")
    return 0


def perform(steps: Iterable[Step], write: bool) -> None:
    """Print the change of each file, and write it if ``write`` is set."""
    for step in steps:
        if write and step.text is not None:
            step.path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(step.path, step.text.encode())
        print(f"{step.path}: {step.what}")
        if step.todo:
            print(f"    do: {step.todo}")


def _wrong(message: str) -> int:
    print(f"pypto-build setup: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
