"""Does in any directory what ``scons VERB JIT=PATH NAME=value`` does: ``pypto-build VERB PATH [flags] [NAME=value]``.

Examples:
    pypto-build VERB --help                 all flags of a verb
    pypto-build replay _jit_x               build and replay an artifact
    pypto-build replay x.tar.zst            replay an archive of a run
    pypto-build replay test_x.py::TestX     replay a scene test

PATH is a directory, a name, a glob, `latest`, an archive or a scene test. A flag may also be written as an option of
SCons, NAME=value. The flags of PyPTO's and simpler's runners work, by their old names and new.

The exit status is 0 pass, 1 mismatch, 2 usage, 3 build, 4 golden, 5 runtime fault, 6 hang, 7 unchecked, 8 a broken
rule of the device.

A process stays loaded, so that the next command starts at once. It ends by itself. `pypto-build shutdown` ends it now,
and --no-server does without it.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import msgspec

from pypto_build import __version__, terminal
from pypto_build.artifact import MANIFEST_NAME, ArtifactError
from pypto_build.artifact.files import decode_json, read_bytes
from pypto_build.facts.options import GROUP, OPTIONS, Group
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.run_options import SIMPLER
from pypto_build.facts.verbs import VERBS, Needs
from pypto_build.replay.verdict import EXIT_STATUS, Status
from pypto_build.rules.targets import SECTIONS, STATUS_VARIABLE, TARGETS
from pypto_build.startup import begin
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.devices import sign_of_hardware
from pypto_build.toolchain.python import own_environment, own_tool
from pypto_build.toolchain.sandbox import find_sandbox

_SCONSTRUCT = Path(__file__).resolve().parent / "rules" / "SConstruct"

_VERBS = {name: target.doc for name, target in TARGETS.items() if name not in ("fetch", "gc", "test")}
# Verbs that are no targets, and the tools that they are.
_TOOLS = {
    "wrap": "pypto_build.interop.wrap",
    "fetch": "pypto_build.toolchain.fetch",
    "setup": "pypto_build.editor.setup",
    "init": "pypto_build.editor.setup.init",
    "lsp": "pypto_build.editor.server",
    "mcp": "pypto_build.editor.agents",
    "scene": "pypto_build.interop.scene",
    "conformance": "pypto_build.diagnose.conformance",
}

# Flags of a dump in its older form.
_OLD_DUMP = ("--dump-tensor", "--enable-dump-tensor")
# Level of such a flag without a value: these flags were switches, and dumped everything.
_OLD_LEVEL = 2
# Flags of upstream's runners for which there is nothing to do, and why.
_NO_EFFECT = {
    "--validate": "outputs are always compared",
    "--no-recompile": "only what changed is compiled",
    "--log-sync-pypto": "PyPTO takes no part in a replay",
    "--enable-swimlane-overhead": "the cost of the timeline is not measured; --enable-chip-swimlane writes it",
}
# Our options in place of simpler's sanitizers: the compiler's own do not know a kernel's on-chip memories.
_SANITIZERS: dict[str, dict[str, bool | str]] = {
    "asan": {"CHECK": True},
    "ubsan": {"KERNEL_FLAGS": "-fsanitize=undefined -fsanitize-undefined-trap-on-error"},
    "tsan": {},
}
_ASSIGNMENT = re.compile(r"[A-Z][A-Z0-9_]*=")
_OPTIONS = [option for option in OPTIONS.values() if option.name not in ("JIT", "SCENE")]
_SCENE = re.compile(r".*\.py(::.*)?\Z")


#: Runs SCons with the words of a command line in an environment; its exit status.
Scons = Callable[[Sequence[str], dict[str, str]], int]


def main(argv: Sequence[str] | None = None, scons: Scons | None = None) -> int:
    """Run one verb, by ``scons`` or in a process of its own; returns the exit status."""
    begin()
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["--complete"]:
        from pypto_build.editor.setup.completion import main as complete

        return complete(words[1:])
    if not words or words[0] == "help":  # as scons has it
        words = [*words[1:2], "--help"]
    if words and words[0] in _TOOLS:
        return _run([*own_tool(_TOOLS[words[0]]), *words[1:]], os.environ)
    options = parse(words)
    if options.batch_manifest:
        return _batch(options, words, scons)
    optional = options.verb in VERBS and VERBS[options.verb].needs is Needs.FILES
    if (options.path and options.runtime_dir) or not (options.path or options.runtime_dir or optional):
        what = "one program, as PATH" if options.verb == "compile" else "one artifact, as PATH or with --runtime-dir"
        print(f"pypto-build: name {what}", file=sys.stderr)
        return 2
    if options.DEVICE is not None and _is_simulated(options.PLATFORM):
        no_effect = f"--device {options.DEVICE} has no effect: a simulated platform has no devices"
        print(f"pypto-build: {no_effect}", file=sys.stderr)
        options.DEVICE = None
    try:
        packed = _open_pack(options)
    except ArtifactError as error:
        terminal.complain(f"pypto-build: {error}")
        return error.exit_status
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(prefix="pypto-build-") as directory:
        file = Path(directory, "status")
        environment = {**os.environ, STATUS_VARIABLE: str(file)}
        status = (scons or _scons)(scons_words(options), environment)
        status = int(file.read_text(encoding="utf-8")) if status and file.exists() else status
    if packed and options.verb == "replay" and status != EXIT_STATUS[packed]:
        print(f"[pack] the packed run ended otherwise: {packed}")
    return status


def _scons(words: Sequence[str], environment: dict[str, str]) -> int:
    return _run([*own_tool("SCons"), *words], environment)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command and return its exit status, as a shell does. The command gets Ctrl-C too and ends by itself; other
    signals are passed on.
    """
    with subprocess.Popen(command, env=own_environment(environment)) as running, _passed_on(running):
        status = running.wait()
    return status if status >= 0 else 128 - status


@contextmanager
def _passed_on(running: subprocess.Popen[bytes]) -> Iterator[None]:
    """While the block runs, forward SIGTERM and SIGHUP to ``running``, which ends its children; ignored signals stay
    ignored.

    Ctrl-C does nothing here: an exception just after the command has ended would lose its status.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    signals = [number for number, handler in before.items() if handler != signal.SIG_IGN]
    signals = signals if threading.current_thread() is threading.main_thread() else []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGINT:
            running.send_signal(number)

    for number in signals:
        signal.signal(number, pass_on)
    try:
        yield
    finally:
        for number in signals:
            signal.signal(number, before[number])


def _is_simulated(platform: str | None) -> bool:
    """Return True for a run on a simulated platform. An unknown platform is not; SCons refuses it later."""
    named = PLATFORMS.get(platform or str(OPTIONS["PLATFORM"].default))
    return named is not None and named.simulated


@terminal.escaping()
def _open_pack(options: argparse.Namespace) -> Status | None:
    """Unpack an archive, set ``options`` to its content, and return the status of the packed run."""
    from pypto_build.diagnose.pack.opened import is_pack, open_pack

    if not options.path or options.scene or not is_pack(options.path):
        return None
    opened = open_pack(Path(options.path), Path(options.BUILD_DIR or "build"))
    for note in opened.notes:
        print(f"[pack] {note}")
    options.path = str(opened.artifact)
    taken = {"PLATFORM", *TARGETS[options.verb].options}
    for name, value in opened.options.items():
        if name in taken and not getattr(options, name):
            setattr(options, name, value)
    _choose_sandbox(options)
    return opened.pack.status


def _choose_sandbox(options: argparse.Namespace) -> None:
    """Select a sandbox for the content of an archive, if the machine has one and the user has not chosen."""
    if "SANDBOX" not in TARGETS[options.verb].options or options.SANDBOX:
        return
    if any(word.startswith("SANDBOX=") for word in options.assigned):
        return
    try:
        find_sandbox()
        options.SANDBOX = True
    except ToolchainError as error:
        print(f"[pack] {error}: what is in the archive runs with your rights")


def scons_words(arguments: argparse.Namespace) -> list[str]:
    """Return the SCons command line for the flags in ``arguments``."""
    options = {option.name: getattr(arguments, option.name) for option in _OPTIONS}
    if arguments.old_dump:
        here = not (arguments.DEVICE or arguments.HARDWARE or sign_of_hardware())  # rules.platform_choice
        ours = arguments.RUNTIME != SIMPLER and (_is_simulated(arguments.PLATFORM) or here)
        options |= {"DUMP": arguments.old_dump, "DUMP_FORMAT": "tensor" if ours else ""}
    words = [f"{name}={int(value) if value is True else value}" for name, value in options.items() if value]
    jobs = [*([f"-j{arguments.jobs}"] if arguments.jobs else []), *(["-k"] if arguments.keep_going else [])]
    path = arguments.path or arguments.runtime_dir or ""
    named = "PROGRAM" if arguments.verb == "compile" else "SCENE" if arguments.scene or _is_scene(path) else "JIT"
    what = [f"{named}={path}"] if path else []
    words += _beside_artifact(arguments) if not options["BUILD_DIR"] else []
    return ["--no-site-dir", "-Q", "-f", str(_SCONSTRUCT), *jobs, arguments.verb, *what, *words, *arguments.assigned]


def _beside_artifact(options: argparse.Namespace) -> list[str]:
    """Return a BUILD_DIR= beside the artifact if the working directory lies in the artifact, which is never written
    to.
    """
    named = options.path or options.runtime_dir
    is_root = named and options.verb != "compile" and not options.scene
    root = Path(os.path.abspath(named)) if named and is_root else None
    if root is None or not root.is_dir() or not Path.cwd().is_relative_to(root):
        return []
    if any(word.startswith("BUILD_DIR=") for word in options.assigned):
        return []
    base = root.parent.parent if root.parent.name == "build_output" else root.parent
    return [f"BUILD_DIR={base / 'build'}"]


def _is_scene(path: str) -> bool:
    """Return True if PATH is a scene test; a manifest stands for its artifact."""
    return bool(_SCENE.match(path)) and Path(path).name != MANIFEST_NAME


@terminal.escaping()
def parse(words: Sequence[str]) -> argparse.Namespace:
    """Return the verb, its artifact and its flags. Options may also be written ``NAME=value``, as for SCons.

    Ends with status 2 and one line for an unknown verb or flag.
    """
    asks = any(word in ("-h", "--help") for word in words)
    flags = parser(words[0] if asks and words[0] in _VERBS else "")
    options, rest = flags.parse_known_args(_levelled(words))
    if options.verb not in _VERBS:
        flags.error(f"there is no verb {options.verb}{_meant(options.verb, [*_VERBS, *_TOOLS])}")
    others = [word for word in rest if not (word.startswith("-") or _ASSIGNMENT.match(word))]
    if options.path is None and len(others) == 1:  # after a flag, where argparse expects it no more
        options.path = rest.pop(rest.index(others[0]))
    if options.path and _ASSIGNMENT.match(options.path):
        rest, options.path = [options.path, *rest], None
    what = ("PROGRAM",) if options.verb == "compile" else ("JIT", "SCENE")
    options.assigned, options.scene = [word for word in rest if _ASSIGNMENT.match(word)], False
    for name, _, value in (word.partition("=") for word in options.assigned):
        if name in what:
            options.path, options.scene = value, name == "SCENE"
    options.assigned = [word for word in options.assigned if word.partition("=")[0] not in what]
    _take_upstreams(options, flags)
    if wrong := [word for word in rest if not _ASSIGNMENT.match(word)]:
        flags.error(f"{wrong[0]}: no such flag{_meant(wrong[0], flags.all_flags)}")
    return options


def _take_upstreams(options: argparse.Namespace, flags: _Parser) -> None:
    """Report flags of upstream's without effect, and convert its sanitizer flags into options."""
    for name in options.no_effect or ():
        print(f"pypto-build: {name} has no effect: {_NO_EFFECT[name]}", file=sys.stderr)
    names = [name for name in (options.sanitizer or "none").split(",") if name != "none"]
    for name in names:
        if name not in _SANITIZERS:
            flags.error(
                f"--sanitizer {name}: is not one of none, {', '.join(_SANITIZERS)}; give some of them, with commas"
            )
        if name == "tsan" and options.verb != "hazards":
            flags.error("--sanitizer tsan: what is not ordered is found by another verb; use pypto-build hazards")
        for option, value in _SANITIZERS[name].items():
            setattr(options, option, value if value is True else f"{getattr(options, option) or ''} {value}".strip())


class _BatchEntry(msgspec.Struct):
    """An artifact of a batch manifest."""

    work_dir: str
    platform: str


def _batch(options: argparse.Namespace, words: Sequence[str], scons: Scons | None) -> int:
    """Run the verb for every artifact of a manifest, grouped by platform; return the first status that is not 0."""
    try:
        entries = decode_json(read_bytes(Path(options.batch_manifest)), list[_BatchEntry])
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else f"is not a list of {{work_dir, platform}}: {error}"
        terminal.complain(f"pypto-build: {options.batch_manifest}: {what}")
        return EXIT_STATUS["usage_error"]
    index = next(index for index, word in enumerate(words) if word.startswith("--batch-manifest"))
    rest = [*words[:index], *words[index + (1 if "=" in words[index] else 2) :]]
    statuses = []
    for platform in dict.fromkeys(entry.platform for entry in entries):
        named = ",".join(entry.work_dir for entry in entries if entry.platform == platform)
        statuses.append(main([*rest, f"--runtime-dir={named}", f"--platform={platform}"], scons))
    return next(filter(None, statuses), 0)


def _levelled(words: Sequence[str]) -> list[str]:
    """Return the words with an explicit level for every flag without a value, so that the next word is not taken as
    the level.
    """
    bare = {flag: option.bare for option in _OPTIONS if option.bare is not None for flag in option.flags}
    bare |= dict.fromkeys(_OLD_DUMP, _OLD_LEVEL)
    following = [*words[1:], ""] if words else []
    return [
        f"{word}={bare[word]}" if word in bare and not after.isdecimal() else word
        for word, after in zip(words, following, strict=True)
    ]


def _meant(word: str, names: Sequence[str]) -> str:
    begun = [name for name in names if len(word) > 2 and name.startswith(word.partition("=")[0])]
    near = begun or difflib.get_close_matches(word, names, n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""


class _Parser(argparse.ArgumentParser):
    """An argument parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        print(f"pypto-build: {message if ';' in message else f'{message}; see pypto-build --help'}", file=sys.stderr)
        raise SystemExit(EXIT_STATUS["usage_error"])

    @property
    def all_flags(self) -> list[str]:
        """Return all flags, under all of their names."""
        return [flag for action in self._actions for flag in action.option_strings]


class _Help(argparse.RawDescriptionHelpFormatter):
    """Wraps paragraphs to the terminal's width; continuation lines of table rows are indented to their column."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return super()._format_action_invocation(action)
        value = self._format_args(action, action.dest.upper()) if action.nargs != 0 else ""
        names = f"{', '.join(action.option_strings)} {value}".rstrip()
        return "\n  ".join(textwrap.wrap(names, self._width - 2, break_on_hyphens=False))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines: list[str] = []
        for part in text.split("\n\n"):
            for line in part.splitlines() if "\n " in part else [part.replace("\n", " ")]:
                row = re.match(r" +\S+ {2,}", line)
                under = " " * len(row[0] if row else "")
                lines += textwrap.wrap(line, width, subsequent_indent=under, break_on_hyphens=False)
            lines.append("")
        return "\n".join(lines)


@cache
def parser(verb: str = "") -> _Parser:
    """Return the command line's flags, or those that a verb takes. Without a verb, the help is one page of verbs."""
    flags = _Parser(
        prog="pypto-build",
        usage=f"pypto-build {verb or 'VERB'} PATH [flags] [NAME=value ...]",
        description=_plain(TARGETS[verb].doc) if verb else _verbs_text(),
        epilog=_plain(__doc__.partition("\n\n")[2]),
        formatter_class=_Help,
        allow_abbrev=False,
    )

    def with_verb(text: str) -> str:
        return text if verb else argparse.SUPPRESS

    add = flags.add_argument
    add("--version", action="version", version=f"pypto-build {__version__}")
    add("verb", metavar="VERB", help=argparse.SUPPRESS)
    add("path", metavar="PATH", nargs="?", help=with_verb("the artifact: a directory, a name, a glob or 'latest'"))
    add("--runtime-dir", "--work-dir", metavar="DIR", help=with_verb("the artifact, as upstream's flags name it"))
    add("--batch-manifest", metavar="JSON", help=with_verb("artifacts: a list of {work_dir, platform}"))
    jobs, go_on = "compilations at a time (default: this machine's processors)", "go on with others after a failure"
    add("-j", dest="jobs", type=int, metavar="N", help=with_verb(jobs))
    add("-k", dest="keep_going", action="store_true", help=with_verb(go_on))
    taken = [option for option in _OPTIONS if not verb or _takes(verb, option.name)]
    headings = dict.fromkeys(GROUP[option.name] for option in taken)
    groups = {group: flags.add_argument_group(group.value[:1].lower() + group.value[1:]) for group in headings}
    for option in taken:
        names = option.flags or (f"--{option.name.lower().replace('_', '-')}",)
        group, switch = groups[GROUP[option.name]], option.default is False
        doc = _plain(option.doc_for(verb).removeprefix("1: "))
        shown = f"{doc} ({option.name}={'1' if switch else ''})" if verb else argparse.SUPPRESS
        about: dict[str, Any] = {"dest": option.name, "help": shown}
        if switch:
            group.add_argument(*names, action="store_true", **about)
        elif option.bare is not None:
            group.add_argument(*names, nargs="?", const=option.bare, metavar="LEVEL", **about)
        else:
            group.add_argument(*names, metavar="VALUE", **about)
    if not verb or _takes(verb, "PREFER"):
        about = {"dest": "PREFER", "action": "store_const", "const": "cpp", "help": with_verb("as --prefer cpp")}
        groups[GROUP["PREFER"]].add_argument("--no-rebuild-from-pto", **about)
    if not verb or _takes(verb, "CHECK"):
        about = {"metavar": "LIST", "help": with_verb(f"none, or of {', '.join(_SANITIZERS)} several with commas")}
        groups[GROUP["CHECK"]].add_argument("--sanitizer", **about)
    for name in _NO_EFFECT if not verb else ():
        flags.add_argument(name, action="append_const", dest="no_effect", const=name, help=argparse.SUPPRESS)
    older = "dump arguments in the form before 2026-06-18 (DUMP= with DUMP_FORMAT=tensor, where simpler does not dump)"
    about = {"dest": "old_dump", "metavar": "LEVEL", "help": with_verb(older)}
    if not verb or _takes(verb, "DUMP"):
        groups[GROUP["DUMP"]].add_argument(*_OLD_DUMP, nargs="?", const=_OLD_LEVEL, **about)
    return flags


def _takes(verb: str, option: str) -> bool:
    return GROUP[option] is Group.COMMON or option in TARGETS[verb].options


def _verbs_text() -> str:
    """Return the verbs as `scons` alone lists its targets."""
    wrap = {"wrap": "run a script with 'wrap -- COMMAND' and keep what a replay needs"}
    ours = {
        "init": "begin a repository: SConstruct, a program, CI, editor files",
        "setup": "show files for editors, shells and CI; WRITE=1 writes them",
        "lsp": "serve .pto modules to an editor, on standard input and output",
        "mcp": "serve the verbs to an agent, on standard input and output",
    }
    scene = {"scene": "run scene tests, with the flags of simpler's runner"}
    kit = {"conformance": "find out what a device does where simulators may differ"}
    lines = []
    for section, names in SECTIONS.items():
        rows = {name: TARGETS[name].doc for name in names if name not in ("gc", "test")}
        rows |= wrap if "fetch" in rows else {}
        rows |= scene if "replay" in rows else {}
        rows |= kit if "scene_test" in rows else {}
        if not rows:
            continue
        lines += [f"{section}:", *(f"  {name:<11} {doc}" for name, doc in rows.items()), ""]
    lines += ["For editors and shells:", *(f"  {name:<11} {doc}" for name, doc in ours.items()), ""]
    return _plain("\n".join(lines))


def _plain(text: str) -> str:
    """Return a text escaped for argparse, which would format it."""
    return text.replace("%", "%%")


if __name__ == "__main__":
    sys.exit(main())
