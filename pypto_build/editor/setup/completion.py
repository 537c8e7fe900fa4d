"""Completion of `scons` and `pypto-build` in bash, zsh and fish.

A short script for each shell asks ``pypto-build --complete`` when TAB is pressed. That prints a line for each word that
can stand there, with a tab and its description. No shell evaluates what it prints.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact import MANIFEST_NAME
from pypto_build.artifact.files import read_text
from pypto_build.facts.options import GROUP, OPTIONS, Group
from pypto_build.facts.run_options import Option
from pypto_build.rules.targets import TARGETS

SHELLS = ("bash", "zsh", "fish")
_ARTIFACTS, _TESTS, _FILES, _DIRECTORIES = "artifacts", "tests", "files", "directories"

# Options whose values are looked for, besides those whose values are a list.
_LOOKED_FOR = {
    "JIT": _ARTIFACTS, "OTHER": _ARTIFACTS, "TEST": _TESTS,
    "DATA": _DIRECTORIES, "BUILD_OUTPUT": _DIRECTORIES, "BUILD_DIR": _DIRECTORIES, "SIMPLER": _DIRECTORIES,
    "PTO_ISA": _DIRECTORIES, "LOG": _DIRECTORIES, "STORE_REMOTE": _DIRECTORIES,
    "SCENE": _FILES, "SCRIPT": _FILES, "JUNIT": _FILES, "HTML": _FILES,
    "PROGRAM": _FILES, "CXX": _FILES, "PTOAS": _FILES, "PYTHON": _FILES, "AGAINST": _FILES, "JSON": _FILES,
    "SARIF": _FILES,
}  # fmt: skip
_ALSO = {"DATA": ("reference",), "PTOAS": ("own",), "JIT": ("latest",)}
#: Options that are offered before the others.
_MOST_USED = ("JIT", "PLATFORM")
# Tools of pypto-build besides the targets, and the targets that it lacks.
TOOLS = {
    "wrap": "run a script of PyPTO's and keep what a replay needs",
    "conformance": "a kit that tells what a device does where simulators may differ",
    "scene": "run scene tests with the flags of simpler's runner",
    "setup": "what editors, shells and CI need",
    "init": "a repository to begin with",
    "lsp": "the language server of .pto",
    "mcp": "the verbs as tools for agents (Model Context Protocol)",
}
#: Bytes of a file that is looked at when TAB is pressed.
_LARGEST = 16 << 20
_HELP = {"help": "what a verb or an option does and takes"}
_NOT_OF_THE_COMMAND = ("gc", "test")
_SCONS_FLAGS = {"-c": "remove what was built", "-j": "jobs at a time", "-k": "go on after a failure", "-n": "no action"}


@dataclass(frozen=True)
class Command:
    """`scons` or `pypto-build`: its verbs, and its flags besides NAME=value."""

    name: str
    verbs: dict[str, str]
    flags: dict[str, str]


def commands() -> tuple[Command, Command]:
    """Return both commands, as the tables currently define them."""
    targets = {name: target.doc for name, target in TARGETS.items()} | _HELP
    own = {name: doc for name, doc in targets.items() if name not in _NOT_OF_THE_COMMAND} | TOOLS
    flags = {flag: option.doc for option in OPTIONS.values() for flag in _flags(option)}
    return Command("scons", targets, _SCONS_FLAGS), Command("pypto-build", own, flags)


def _flags(option: Option) -> tuple[str, ...]:
    if option.name == "JIT":
        return ()
    return option.flags or (f"--{option.name.lower().replace('_', '-')}",)


def options_of(verb: str) -> list[str]:
    """Return the names of a target's options; options common to every target come last."""
    if verb not in TARGETS:
        return []
    common = [name for name, group in GROUP.items() if group is Group.COMMON]
    taken = TARGETS[verb].options
    return list(dict.fromkeys([name for name in OPTIONS if name in taken] + common))


def values_of(name: str, verb: str = "") -> tuple[str, ...]:
    """Return the values of an option for a verb; empty if they cannot be listed."""
    kind = OPTIONS[name].kind
    if kind.type is bool:
        return ("1",)
    if choices := OPTIONS[name].choices_for(verb):
        return tuple(filter(None, choices))
    if kind.max is not None:
        return tuple(str(number) for number in range(kind.max + 1))
    return _ALSO.get(name, ())


def script(shell: str) -> str:
    """Return the completion script of a shell."""
    return {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[shell]


def main(argv: Sequence[str]) -> int:
    """Print completions for the end of ``line TEXT`` or ``words WORD...``, where TEXT is not yet split into words.

    Returns 1 if the shell should offer files: for SCons without our rules, and for a path that begins with ~.
    """
    if len(argv) < 2:
        return 1
    form, *words = argv
    offers = offers_of(_split(words[0]) if form == "line" else words)
    if offers is None:
        return 1
    for word, doc in offers:
        if word.isprintable():
            print(f"{word}\t{doc}")
    return 0


def offers_of(words: Sequence[str]) -> list[tuple[str, str]] | None:
    """Return completions of the last word, each with its description; None for the shell's own file completion."""
    program, *before, current = words if len(words) > 1 else [*words, ""]
    command = next((each for each in commands() if each.name == Path(program).name), None)
    name, assigned, value = current.partition("=")
    if command is None or (value if assigned else current).startswith("~"):
        return None
    if command.name == "scons" and "pypto" not in _text("SConstruct"):
        return None
    verb = next((word for word in before if word in command.verbs), "")
    if current.startswith("-"):
        offers: Iterator[tuple[str, str]] = iter(command.flags.items())
    elif assigned and name in OPTIONS:
        offers = ((f"{name}={each}", "") for each in _values(name, verb, value))
    else:
        offers = _words(command, verb, current)
    return [(word, doc) for word, doc in dict(offers).items() if word.startswith(current)]


def _words(command: Command, verb: str, current: str) -> Iterator[tuple[str, str]]:
    """Yield verbs, tests, artifacts and options; options without a verb only after a capital letter."""
    if not verb or verb == "help":
        yield from command.verbs.items()
    if verb == "help":
        yield from ((name, option.doc) for name, option in OPTIONS.items())
        return
    if not verb and command.name == "scons":
        yield from ((name, "test") for name in _tests())
    if verb and command.name == "pypto-build":
        yield from ((name, "artifact") for name in (*_artifacts(), "latest"))
        yield from ((path, "") for path in _paths(current, _DIRECTORIES))
    if verb or current[:1].isupper():
        names = sorted(options_of(verb) or OPTIONS, key=lambda name: name not in _MOST_USED)
        yield from ((f"{name}=", OPTIONS[name].doc_for(verb)) for name in names)


def _values(name: str, verb: str, typed: str) -> Iterator[str]:
    kind = _LOOKED_FOR.get(name)
    if kind == _ARTIFACTS:
        yield from _artifacts()
    yield from values_of(name, verb)
    if kind == _TESTS:
        yield from _tests()
    elif kind:
        yield from _paths(typed, kind)


def _artifacts() -> Iterator[str]:
    """Yield the names of artifacts below the directories where a replay searches."""
    for directory in (
        os.environ.get("PYPTO_PROG_BUILD_DIR") or "build_output",
        "examples/artifacts",
        "examples/distributed",
    ):
        for path in _entries(Path(directory)):
            if (path / MANIFEST_NAME).exists() or (path / "ptoas").is_dir():
                yield path.name


def _tests() -> list[str]:
    """Return the names of tests that the last run declared, and of those in the SConstruct."""
    rules = re.findall(r"ReplayTest\([^)]*", _text("SConstruct"))
    named = [re.search(r"""[(,\s]name\s*=\s*["']([^"']*)""", rule) for rule in rules]
    return [*_text("build/.declared_tests").splitlines(), *(name[1] for name in named if name)]


def _paths(typed: str, kind: str) -> Iterator[str]:
    """Yield the directories in the directory of the path ``typed``, and its files if ``kind`` allows files."""
    directory, _, start = typed.rpartition("/")
    for path in _entries(Path(f"{directory}/" if "/" in typed else ".")):
        if path.name.startswith(".") and not start.startswith("."):
            continue
        name = typed.removesuffix(start) + path.name
        if path.is_dir():
            yield f"{name}/"
        elif kind == _FILES:
            yield name


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _text(path: str) -> str:
    try:
        return read_text(path, _LARGEST, errors="replace")
    except OSError:
        return ""


def _split(line: str) -> list[str]:
    """Split a command line up to the cursor as a shell does; the last word, which may be empty, is at the cursor."""
    for quote in ("", "'", '"'):  # one may be open
        try:
            *words, current = shlex.split(f"{line}\1{quote}")
        except ValueError:
            continue
        return [*words, current.removesuffix("\1")]
    return [line]


# bash inserts what is left of a word behind the last of COMP_WORDBREAKS, and takes it as typed: so names are quoted.
_BASH = """\
_pypto_build() {
  local tool=pypto-build answer word
  [[ $1 == */* ]] && tool=${1%/*}/pypto-build
  COMPREPLY=()
  if ! answer=$(command "$tool" --complete line "${COMP_LINE:0:COMP_POINT}" 2>/dev/null); then
    compopt -o default
    return
  fi
  while IFS=$'\\t' read -r word _; do
    [[ $COMP_WORDBREAKS == *=* && $word == [A-Z]*=?* ]] && word=${word#*=}
    [[ -n $word ]] && COMPREPLY+=("$(printf %q "$word")")
  done <<< "$answer"
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace
}

complete -o nosort -F _pypto_build pypto-build scons
"""

_ZSH = """\
#compdef pypto-build scons

_pypto_build() {
  local tool=pypto-build answer line word
  local -a closed closed_shown open open_shown
  [[ $words[1] == */* ]] && tool=${${(Q)words[1]}:h}/pypto-build
  answer=$(command $tool --complete words "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null) || answer=none
  compset -P '[A-Z][A-Z0-9_]#='
  if [[ $answer == none ]]; then
    _files
    return
  fi
  for line in ${(f)answer}; do
    word=${line%%$'\\t'*}
    [[ -n $IPREFIX ]] && word=${word#*=}
    if [[ $word == *[=/] ]]; then
      open+=($word) open_shown+=("${word}  ${line#*$'\\t'}")
    else
      closed+=($word) closed_shown+=("${word}  ${line#*$'\\t'}")
    fi
  done
  compadd -V words -l -d closed_shown -a closed
  compadd -V words -S '' -l -d open_shown -a open
}

if [[ $funcstack[1] == _pypto* ]]; then
  _pypto_build "$@"
else
  compdef _pypto_build pypto-build scons
fi
"""

_FISH = """\
function __pypto_build_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l tool pypto-build
    string match -q '*/*' -- $words[1]; and set tool (string replace -r '[^/]*$' pypto-build -- $words[1])
    string unescape -- $current | read -l -z plain; or set plain $current
    command $tool --complete words $words (string trim -r -c \\n -- "$plain") 2>/dev/null
    or __fish_complete_path $current
end

complete -k -c scons -c pypto-build -f -a '(__pypto_build_complete)'
"""
