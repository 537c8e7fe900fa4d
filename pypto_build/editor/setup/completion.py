"""Completion of `scons` and `pypto-build` in bash, zsh and fish.

The scripts are written from the tables of targets and options, so a new row completes after the next `pypto-build
setup`. They look for artifacts and tests when TAB is pressed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from pypto_build.facts.run_options import Option
from pypto_build.rules.options import GROUP, OPTIONS, Group
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
# Tools of pypto-build besides the targets, and the targets that it lacks.
TOOLS = {
    "wrap": "run a script of PyPTO's and keep what a replay needs",
    "conformance": "a kit that tells what a device does where simulators may differ",
    "scene": "run scene tests with the flags of simpler's runner",
    "setup": "what editors, shells and CI need",
    "init": "a repository to begin with",
    "lsp": "the language server of .pto",
}
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
    """Both commands, as the tables have them now."""
    targets = {name: target.doc for name, target in TARGETS.items()} | _HELP
    own = {name: doc for name, doc in targets.items() if name not in _NOT_OF_THE_COMMAND} | TOOLS
    flags = {flag: option.doc for option in OPTIONS.values() for flag in _flags(option)}
    return Command("scons", targets, _SCONS_FLAGS), Command("pypto-build", own, flags)


def _flags(option: Option) -> tuple[str, ...]:
    if option.name == "JIT":
        return ()
    return option.flags or (f"--{option.name.lower().replace('_', '-')}",)


def options_of(verb: str) -> list[str]:
    """Return the names of the options that a target takes; options of every target come last."""
    if verb not in TARGETS:
        return []
    common = [name for name, group in GROUP.items() if group is Group.COMMON]
    taken = TARGETS[verb].options
    return list(dict.fromkeys([name for name in OPTIONS if name in taken] + common))


def values_of(name: str) -> tuple[str, ...]:
    """The values that an option can have where they can be listed."""
    kind = OPTIONS[name].kind
    if kind.type is bool:
        return ("1",)
    if kind.choices:
        return tuple(filter(None, kind.choices))
    if kind.max is not None:
        return tuple(str(number) for number in range(kind.max + 1))
    return _ALSO.get(name, ())


def script(shell: str) -> str:
    """Return the completion script of a shell."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()


# --- what all of them do ---------------------------------------------------------------------------------------------

_ARTIFACTS_SH = """\
_pypto_build_artifacts() {
  local place
  for place in "${PYPTO_PROG_BUILD_DIR:-build_output}"/*/ examples/artifacts/*/ examples/distributed/*/; do
    [ -e "$place/kernel_config.py" ] || [ -d "$place/ptoas" ] || continue
    place=${place%/}
    printf '%s\\n' "${place##*/}"
  done
}

_pypto_build_tests() {
  [ -f SConstruct ] || return 0
  cat build/.declared_tests 2>/dev/null
  tr '\\n' ' ' < SConstruct | grep -o 'ReplayTest([^)]*' | sed -n "s/.*[(, ]name *= *[\\"']\\([^\\"']*\\).*/\\1/p"
}
"""


def _names_in(*places: str) -> list[str]:
    """Return the options whose values are among these kinds."""
    return [name for name, kind in _LOOKED_FOR.items() if kind in places]


def _cases(indent: str, rows: dict[str, str]) -> str:
    """Branches of a `case`, those that do the same together."""
    same: dict[str, list[str]] = {}
    for name, text in rows.items():
        same.setdefault(text, []).append(name)
    return "\n".join(f"{indent}{'|'.join(names)}) {text} ;;" for text, names in same.items())


# bash takes an inserted name as typed: names are quoted here, since `compopt -o filenames` leaves $ as it is. Its
# `compgen -W` would evaluate them.
_MATCHES_BASH = """\
_pypto_build_matches() {
  local word typed=${1//\\\\/} format=${2:-%s}
  while IFS= read -r word; do
    [[ $word == "$typed"* ]] && printf "$format\\n" "$word"
  done
}

_pypto_build_paths() {
  local path typed=${2//\\\\/}
  [[ $typed == '~/'* ]] && typed=$HOME${typed:1}
  for path in "$typed"*; do
    if [ -d "$path" ]; then
      printf '%q/\\n' "$path"
    elif [ -e "$path" ] && [ "$1" = files ]; then
      printf '%q\\n' "$path"
    fi
  done
}
"""


# --- bash ------------------------------------------------------------------------------------------------------------


def _bash() -> str:
    takes = {verb: _lines(options_of(verb)) for verb in TARGETS}
    both = commands()
    verbs = {command.name: _lines(command.verbs) for command in both}
    flags = {command.name: _lines(command.flags) for command in both}
    return f"""\
{_ARTIFACTS_SH}
{_MATCHES_BASH}
_pypto_build_verbs() {{
  case $1 in
{_cases("    ", verbs)}
  esac
}}

_pypto_build_flags() {{
  case $1 in
{_cases("    ", flags)}
  esac
}}

_pypto_build_options() {{
  case $1 in
{_cases("    ", takes)}
    *) {_lines(OPTIONS)} ;;
  esac
}}

_pypto_build_values() {{
  case $1 in
{_cases("    ", _values_sh())}
  esac
}}

_pypto_build() {{
  local command=${{1##*/}} line=${{COMP_LINE:0:COMP_POINT}} word verb='' known
  local current=${{line//\\\\ /$'\\1'}} reply=() options=()
  current=${{current##*[[:space:]]}}
  current=${{current//$'\\1'/ }}
  COMPREPLY=()
  if [ "$command" = scons ] && ! grep -qs pypto SConstruct; then
    compopt -o default
    return
  fi
  known=" $(_pypto_build_verbs "$command" | tr '\\n' ' ')"
  for word in ${{line% *}}; do
    [[ $known == *" $word "* ]] && verb=$word && break
  done
  case $current in
    [A-Z]*=*)
      local name=${{current%%=*}} value=${{current#*=}}
      mapfile -t reply < <(_pypto_build_values "$name" | _pypto_build_matches "$value" %q)
      case $name in
        {"|".join(_names_in(_DIRECTORIES, _ARTIFACTS))})
          mapfile -t -O "${{#reply[@]}}" reply < <(_pypto_build_paths directories "$value") ;;
        {"|".join(_names_in(_FILES))})
          mapfile -t -O "${{#reply[@]}}" reply < <(_pypto_build_paths files "$value") ;;
      esac
      [[ $COMP_WORDBREAKS == *=* ]] || reply=("${{reply[@]/#/$name=}}")
      COMPREPLY=("${{reply[@]}}") ;;
    -*)
      mapfile -t COMPREPLY < <(_pypto_build_flags "$command" | _pypto_build_matches "$current") ;;
    *)
      if [ -z "$verb" ]; then
        mapfile -t reply < <(_pypto_build_verbs "$command" | _pypto_build_matches "$current")
        [ "$command" = scons ] &&
          mapfile -t -O "${{#reply[@]}}" reply < <(_pypto_build_tests | _pypto_build_matches "$current" %q)
      elif [ "$command" = pypto-build ]; then
        mapfile -t reply < <(_pypto_build_artifacts | _pypto_build_matches "$current" %q)
        mapfile -t -O "${{#reply[@]}}" reply < <(_pypto_build_paths directories "$current")
      fi
      if [ "$verb" = help ]; then
        mapfile -t options < <(_pypto_build_options '' | _pypto_build_matches "$current")
        mapfile -t reply < <(_pypto_build_verbs "$command" | _pypto_build_matches "$current")
        COMPREPLY=("${{reply[@]}}" "${{options[@]}}")
        return
      fi
      mapfile -t options < <(_pypto_build_options "$verb" | _pypto_build_matches "$current" %s=)
      COMPREPLY=("${{reply[@]}}" "${{options[@]}}") ;;
  esac
  [[ ${{#COMPREPLY[@]}} -eq 1 && ${{COMPREPLY[0]}} == *[=/] ]] && compopt -o nospace
}}

complete -F _pypto_build pypto-build scons
"""


def _lines(words: Iterable[str]) -> str:
    """The command that prints each word on a line of its own; empty where there are none."""
    return " ".join(["printf '%s\\n'", *map(shlex.quote, words)]) if (words := list(words)) else ""


def _values_sh() -> dict[str, str]:
    rows = {}
    for name in OPTIONS:
        listed = _lines(values_of(name))
        if _LOOKED_FOR.get(name) == _ARTIFACTS:
            rows[name] = f"_pypto_build_artifacts; {listed}".rstrip("; ")
        elif _LOOKED_FOR.get(name) == _TESTS:
            rows[name] = "_pypto_build_tests"
        elif listed:
            rows[name] = listed
    return rows


# --- zsh -------------------------------------------------------------------------------------------------------------


def _described(rows: dict[str, str], suffix: str = "") -> str:
    """Return the words of an array, each with its description."""
    return " ".join(shlex.quote(f"{name.replace(':', chr(92) + ':')}{suffix}:{doc}") for name, doc in rows.items())


def _zsh() -> str:
    takes = {verb: f"names=({' '.join(options_of(verb))})" for verb in TARGETS}
    verbs = {command.name: f"verbs=({_described(command.verbs)})" for command in commands()}
    flags = {command.name: f"flags=({_described(command.flags)})" for command in commands()}
    docs = "\n".join(f"    {name} {shlex.quote(option.doc)}" for name, option in OPTIONS.items())
    return f"""\
#compdef pypto-build scons
{_ARTIFACTS_SH}
_pypto_build_values() {{
  case $1 in
{_cases("    ", _values_sh())}
  esac
}}

_pypto_build() {{
  local command=${{service:t}} current=$words[CURRENT] verb='' name word
  local -a verbs flags names offered found
  local -A docs=(
{docs}
  )
  if [[ $command == scons ]] && ! grep -qs pypto SConstruct; then
    _files
    return
  fi
  case $command in
{_cases("    ", verbs)}
  esac
  case $command in
{_cases("    ", flags)}
  esac
  for word in ${{words[2,CURRENT-1]}}; do
    if (( ${{verbs[(I)$word:*]}} )); then verb=$word; break; fi
  done
  if [[ $current == [A-Z]*=* ]]; then
    name=${{current%%=*}}
    compset -P '*='
    found=(${{(f)"$(_pypto_build_values $name)"}})
    (( $#found )) && compadd -a found
    case $name in
      {"|".join(_names_in(_DIRECTORIES, _ARTIFACTS))}) _files -/ ;;
      {"|".join(_names_in(_FILES))}) _files ;;
    esac
    return
  fi
  if [[ $current == -* ]]; then
    _describe -o flag flags
    return
  fi
  case $verb in
{_cases("    ", takes)}
    *) names=(${{(k)docs}}) ;;
  esac
  if [[ $verb == help ]]; then
    _describe -t targets target verbs
    compadd -X option -a names
    return
  fi
  for name in $names; do offered+=("$name=:${{docs[$name]}}"); done
  if [[ -z $verb ]]; then
    _describe -t targets target verbs
    if [[ $command == scons ]]; then
      found=(${{(f)"$(_pypto_build_tests)"}})
      (( $#found )) && compadd -X test -a found
    fi
  elif [[ $command == pypto-build ]]; then
    found=(${{(f)"$(_pypto_build_artifacts)"}} latest)
    compadd -X artifact -a found
    _files -/
  fi
  _describe -t settings option offered -S ''
}}

if [[ $funcstack[1] == _pypto* ]]; then
  _pypto_build "$@"
else
  compdef _pypto_build pypto-build scons
fi
"""


# --- fish ------------------------------------------------------------------------------------------------------------


def _fish_word(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _fish_cases(indent: str, rows: dict[str, str]) -> str:
    same: dict[str, list[str]] = {}
    for name, text in rows.items():
        same.setdefault(text, []).append(name)
    return "\n".join(f"{indent}case {' '.join(names)}\n{indent}    {text}" for text, names in same.items())


def _fish() -> str:
    scons, own = commands()
    return f"{_fish_lookups(scons, own)}{_fish_words(scons, own)}"


def _fish_values() -> dict[str, str]:
    """Return, by option, the fish command that prints its values."""
    values: dict[str, str] = {}
    for name in OPTIONS:
        listed = " ".join(values_of(name))
        if _LOOKED_FOR.get(name) == _ARTIFACTS:
            values[name] = "__pypto_build_artifacts" + (f"; printf '%s\\n' {listed}" if listed else "")
        elif _LOOKED_FOR.get(name) == _TESTS:
            values[name] = "__pypto_build_tests"
        elif listed:
            values[name] = f"printf '%s\\n' {listed}"
    return values


def _fish_completions(scons: Command, own: Command) -> list[str]:
    """Return the lines that declare the completions to fish."""
    lines = []
    for command in (scons, own):
        here = "; and __pypto_build_here" if command is scons else ""
        for verb, doc in command.verbs.items():
            when = f"not __pypto_build_verb {command.name}{here}"
            lines.append(f"complete -c {command.name} -n '{when}' -f -a {verb} -d {_fish_word(doc)}")
        for flag, doc in command.flags.items():
            long, word = ("-l", flag[2:]) if flag.startswith("--") else ("-s", flag[1:])
            lines.append(f"complete -c {command.name} {long} {word} -d {_fish_word(doc)}")
        lines.append(f"complete -c {command.name} -f -a '(__pypto_build_words {command.name})'")
    return lines


def _fish_lookups(scons: Command, own: Command) -> str:
    """Functions that look up one thing each."""
    takes = {verb: f"printf '%s\\n' {' '.join(options_of(verb))}" for verb in TARGETS}
    docs = {name: f"echo {_fish_word(option.doc)}" for name, option in OPTIONS.items()}
    return f"""\
function __pypto_build_here
    grep -qs pypto SConstruct
end

function __pypto_build_artifacts
    set -l place build_output
    set -q PYPTO_PROG_BUILD_DIR; and set place $PYPTO_PROG_BUILD_DIR
    for each in $place/*/ examples/artifacts/*/ examples/distributed/*/
        if test -e $each/kernel_config.py; or test -d $each/ptoas
            string replace -r '.*/([^/]+)/$' '$1' $each
        end
    end
end

function __pypto_build_tests
    test -f SConstruct; or return
    cat build/.declared_tests 2>/dev/null
    tr '\\n' ' ' < SConstruct | grep -o 'ReplayTest([^)]*' | sed -n "s/.*[(, ]name *= *[\\"']\\([^\\"']*\\).*/\\1/p"
end

function __pypto_build_verb --description 'the verb that was typed'
    set -l verbs {" ".join(own.verbs)}
    test $argv[1] = scons; and set verbs {" ".join(scons.verbs)}
    for word in (commandline -opc)[2..]
        if contains -- $word $verbs
            echo $word
            return 0
        end
    end
    return 1
end

function __pypto_build_options
    switch "$argv[1]"
{_fish_cases("        ", takes)}
        case '*'
            printf '%s\\n' {" ".join(OPTIONS)}
    end
end

function __pypto_build_doc
    switch $argv[1]
{_fish_cases("        ", docs)}
    end
end

function __pypto_build_values
    switch $argv[1]
{_fish_cases("        ", _fish_values())}
    end
end

"""


def _fish_words(scons: Command, own: Command) -> str:
    """The function that offers words, and what calls it."""
    return f"""\
function __pypto_build_words --description 'tests, artifacts, NAME= and values'
    set -l command $argv[1]
    test $command = scons; and not __pypto_build_here; and __fish_complete_path (commandline -ct); and return
    set -l verb (__pypto_build_verb $command)
    set -l current (commandline -ct)
    if string match -qr '^[A-Z][A-Z_]*=' -- $current
        set -l name (string replace -r '=.*' '' -- $current)
        for value in (__pypto_build_values $name)
            echo $name=$value
        end
        set -l typed (string replace -r '^[^=]*=' '' -- $current)
        if contains -- $name {" ".join(_names_in(_FILES))}
            for path in (__fish_complete_path $typed)
                echo $name=$path
            end
        else if contains -- $name {" ".join(_names_in(_DIRECTORIES, _ARTIFACTS))}
            for path in (__fish_complete_directories $typed '')
                echo $name=$path
            end
        end
        return
    end
    if test "$verb" = help
        set -l verbs {" ".join(own.verbs)}
        test $command = scons; and set verbs {" ".join(scons.verbs)}
        printf '%s\n' $verbs (__pypto_build_options '')
        return
    end
    if test -z "$verb"
        test $command = scons; and printf '%s\\ttest\\n' (__pypto_build_tests)
    else if test $command = pypto-build
        printf '%s\\tartifact\\n' (__pypto_build_artifacts) latest
        __fish_complete_directories (commandline -ct)
    end
    # verbs come before options
    test -z "$verb"; and not string match -qr '^[A-Z]' -- $current; and return
    for name in (__pypto_build_options $verb)
        printf '%s=\\t%s\\n' $name (__pypto_build_doc $name)
    end
end

{chr(10).join(_fish_completions(scons, own))}
"""
