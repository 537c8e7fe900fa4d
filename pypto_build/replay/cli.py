"""The command line: `python -m pypto_build.replay ARTIFACT_DIR --platform P --build-dir OUT --embedded PATH …`.

Exit status: 0 pass, 1 mismatch, 2 usage, 3 build, 4 golden, 5 runtime fault, 6 hang, 7 unchecked,
8 a rule of the device is broken (RULES=error).
"""

from __future__ import annotations

import argparse
import functools
import itertools
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from pypto_build.artifact.errors import ArtifactError
from pypto_build.facts.run_options import EMBEDDED, FAST, RULES_OFF, whole
from pypto_build.replay.prestart import PrestartedChild, prestart_child
from pypto_build.replay.request import Request
from pypto_build.replay.results import REPLAYS, hide, show
from pypto_build.replay.run_options import SettingValue, add_run_options, number, settings_of
from pypto_build.replay.scalars import Scalar, parse_scalar
from pypto_build.replay.session import replay
from pypto_build.replay.verdict import EXIT_STATUS, ErrorInfo, Verdict, write_verdict
from pypto_build.startup import begin
from pypto_build.trace import note_start
from pypto_build.turn import await_turn, has_to_wait

#: The exit status of a replay that Ctrl-C ended.
INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are usage errors, reported in one line and in a verdict."""

    def error(self, message: str) -> NoReturn:
        raise ArtifactError("python -m pypto_build.replay", message, "--help lists the options")


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not (name and separator and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _scalar_pair(text: str) -> tuple[str, Scalar]:
    name, value = _pair(text)
    try:
        return name, parse_scalar(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = _Parser(
        prog="python -m pypto_build.replay",
        description="Runs a built artifact, compares its outputs with the golden, writes OUT/verdict.json.",
        allow_abbrev=False,
    )
    add = options.add_argument
    add("artifact", type=Path, metavar="ARTIFACT_DIR", help="the artifact's directory, for its data/ and golden.py")
    add("--platform", required=True, metavar="P", help="a2a3sim or a5sim")
    add("--requested", default="", metavar="P", help="the platform that was asked for, which this machine lacks")
    add("--unproven", default="", metavar="WHY", help="why a pass is not proven; said with the verdict")
    add("--build-dir", type=Path, required=True, metavar="OUT", help="what was built; gets verdict.json and actual/")
    add("--binaries", type=Path, metavar="DIR", help="where kernels/ and orchestration/ are, if not in OUT")
    add("--checked", action="store_true", help="the kernels are those of CHECK=1: also rules that only a run decides")
    add("--results", metavar="NAME", help="they go to OUT/replays/NAME, and OUT links to them")
    add("--embedded", type=Path, required=True, metavar="PATH", help="the embedded runtime's extension module")
    add("--threads", type=number(whole(0)), default=0, metavar="N", help="threads that run kernels (this machine's)")
    add("--memory", type=number(whole(1)), metavar="MB", help="memory limit of the run (3/4 of this machine's)")
    add("--golden", type=Path, metavar="DIR", help="where the goldens are, if not in out/ of the data")
    add("--verbose", action="store_true", help="say what is done at every stage, not only what came of it")
    add("--runtime", default=EMBEDDED, metavar="NAME", help="what executes the replay: embedded, or torch")
    pairs = functools.partial(add, action="append", default=[])
    rule = "rule for output NAME (*: all others): ratio_allclose(max_error_ratio=0.01), or FILE.py; may be given again"
    pairs("--comparator", type=_pair, metavar="NAME=SPEC", help=rule)
    value = "value of a scalar parameter instead of the snapshot's; may be given again"
    pairs("--scalar", type=_scalar_pair, metavar="NAME=VALUE", help=value)
    add_run_options(options, lambda option: EMBEDDED in option.runtimes and option.name != "RUNTIME")
    return options


def request_from(argv: Sequence[str]) -> Request:
    """Return the request of a command line. Raises `ArtifactError` for an invalid one."""
    options = parser().parse_args(argv)
    checked = options.checked and options.rules != RULES_OFF
    of_checked: dict[str, SettingValue] = {"operands": True} if checked else {}
    return Request(
        artifact_dir=options.artifact,
        build_dir=options.build_dir,
        embedded=options.embedded,
        platform=options.platform,
        requested=options.requested,
        unproven=options.unproven,
        verbose=options.verbose,
        runtime=options.runtime,
        rules=options.rules,
        numerics=options.numerics or FAST,
        binaries=options.binaries,
        results=options.build_dir / REPLAYS / options.results if options.results else None,
        data=Path(options.data) if options.data else None,
        golden=options.golden,
        rtol=options.rtol,
        atol=options.atol,
        seed=options.seed,
        timeout_s=options.timeout,
        rounds=options.rounds,
        threads=options.threads,
        world=options.world,
        devices=options.devices or "",
        memory_mb=options.memory,
        comparators=dict(options.comparator),
        scalars=dict(options.scalar),
        options={**settings_of(options), **of_checked},
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    begin()
    words = list(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, terminate)
    note_start("start Python and the replay")
    try:
        request = request_from(words)
    except ArtifactError as error:
        return usage_error(words, error) if await_turn() else INTERRUPTED
    return run_in_turn(request, prestart_child(request) if has_to_wait() else None)


def run_in_turn(
    request: Request,
    prestarted: PrestartedChild | None,
    begin: Callable[[], object] = lambda: None,
    may_run: Callable[[], bool] = lambda: True,
) -> int:
    """Wait for the turn of this process, then replay; return the exit status.

    ``begin`` is called unless `may_run` forbids the replay. A replay that is interrupted before it starts returns
    INTERRUPTED.
    """
    begun = False
    try:
        has_turn = await_turn()
        if has_turn and not may_run():
            return 0
        begun = True
        begin()
        return run(request, prestarted) if has_turn else INTERRUPTED
    except KeyboardInterrupt:
        print("[RUN] interrupted", file=sys.stderr)
        if not begun:
            begin()
        return INTERRUPTED
    finally:
        if prestarted:
            prestarted.cancel()


def run(request: Request, prestarted: PrestartedChild | None = None) -> int:
    """Replay, link the results into OUT, and return the exit status. A ``prestarted`` child, started for this run,
    is used.
    """
    status = INTERRUPTED
    try:
        if request.results:
            hide(request.build_dir)
        try:
            status = replay(request, prestarted=prestarted).exit_status
        except KeyboardInterrupt:
            print("[RUN] interrupted", file=sys.stderr)
        if request.results:
            show(request.results)
    except OSError as error:
        if status in (0, INTERRUPTED):  # other failures have printed a line already
            print(f"[RUN] FAIL: usage_error: {error.filename}: {error.strerror}", file=sys.stderr)
            return EXIT_STATUS["usage_error"]
    return status


def usage_error(words: Sequence[str], error: ArtifactError, runtime: str = EMBEDDED) -> int:
    """Report a command line that cannot be parsed, also in the verdict if its directory is known."""
    print(f"[RUN] FAIL: usage_error: {error}", file=sys.stderr)
    build_dir = _value_of(words, "--build-dir")
    if build_dir:
        info = ErrorInfo("usage_error", error.message, hint=error.hint)
        platform = _value_of(words, "--platform") or ""
        with suppress(OSError):  # the line has been printed
            write_verdict(Verdict("usage_error", "", platform, runtime, error=info), Path(build_dir) / "verdict.json")
    return EXIT_STATUS["usage_error"]


def _value_of(words: Sequence[str], flag: str) -> str:
    for word, following in itertools.zip_longest(words, words[1:], fillvalue=""):
        if word == flag:
            return following
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return ""


def terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Exit through the finally blocks, so that the child process ends too."""
    raise SystemExit(143)
