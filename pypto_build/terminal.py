"""All output for people: when it is shown, in which colours, and the line of progress.

Text is written plain and coloured on its way out by its content (``_COLOURS``), so no caller deals with colours. The
output of foreign commands keeps its colours. ``redirect`` sends all text elsewhere.

Names and messages may come from an artifact. Control characters in them are escaped, and a line that is not ours cannot
be taken for one of ours.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any

#: Seconds of work without a line of progress.
QUIET_S = 2.0
_EVERY_S = 0.5

_GREEN, _RED, _YELLOW, _DIM, _BOLD, _END = "\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[2m", "\x1b[1m", "\x1b[0m"
_ERASE = "\r\x1b[K"
_CODES = r"\x1b\[[0-9;]*[mK]"
# Places of words that are results, and other coloured text. Groups are coloured, the rest of a line is not. None is
# compiled if nothing is coloured.
_RESULT = r"(?:^\[RUN\] (?:  '[^']*' )?|^  '[^']*' |^\[test\] )"
_COLOURS: tuple[tuple[str, str], ...] = (
    (_RESULT + r"(PASS)\b", _BOLD + _GREEN),
    (_RESULT + r"(FAIL|HANG|ERROR)\b", _BOLD + _RED),
    (_RESULT + r"(UNCHECKED|SKIPPED)\b", _BOLD + _YELLOW),
    (r"^=+ (?:[^=]*, )?([1-9]\d* failed)\b", _BOLD + _RED),
    (r"^=+ (?:[^=]*, )?([1-9]\d* passed)\b", _BOLD + _GREEN),
    (r"^=+ (?:[^=]*, )?([1-9]\d* skipped)\b", _BOLD + _YELLOW),
    (r"^(?:\[RUN\] |    )(why\b.*)$", _BOLD),
    (r"^those that failed, again: (.*)$", _BOLD),
    (r"^(scons: \*\*\*|[\w-]+: error:|error:)", _BOLD + _RED),
    (r"^(scons: (?!\*\*\*).*)$", _DIM),
    (r"^\[[^]]+\] .*?  (\(.*\))$", _DIM),
    (r"^\[test\] .{10}.*?  (\S.*)$", _DIM),
    (r"^(?:\S+: )?(error): ", _BOLD + _RED),
    (r"^(?:\S+: )?(warning): ", _BOLD + _YELLOW),
    (r"^(    (?:hint|do|edit [^:]+:\d+):)", _BOLD),
    (r"^([A-Z][\w ,]*:)(?: |$)", _BOLD),
)

# Lines with a command, which is copied in one piece.
_TO_COPY = r"\b(?:why|next|again|anew|elsewhere): |(?:^|: )(?:scons|pypto-build) "

#: Mark before each line that an artifact's code printed.
MARK = "| "
# Control characters, which move a terminal's cursor or change its display; invisible letters; bytes that are no text.
_OBEYED = re.compile(
    "\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
_OBEYED_BUT_COLOURS = re.compile(f"({_CODES})|{_OBEYED.pattern}")
# Lines of ours, and of what reads the logs of CI.
_LIKE_OURS = re.compile(r"^(?=\[[\w>. -]+\] |scons: |::|##\[)", re.MULTILINE)

#: Takes text, and whether it is error output.
Write = Callable[[str, bool], None]


def takes_colours(stream: IO[str], environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if ``stream`` is shown in colours.

    NO_COLOR disables them and CLICOLOR_FORCE enables them; otherwise a terminal that supports colours gets them.
    """
    if environment.get("NO_COLOR"):
        return False
    if environment.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return _is_terminal(stream) and environment.get("TERM", "dumb") != "dumb" and environment.get("CLICOLOR") != "0"


def escaped(text: str, colours: bool = False) -> str:
    """Return ``text`` with control characters escaped as Python writes them; with ``colours``, colour codes stay."""
    if text.isascii() and text.isprintable():
        return text
    if not colours:
        return _OBEYED.sub(_written_out, text)
    return _OBEYED_BUT_COLOURS.sub(lambda match: match[1] or _written_out(match), text)


def _written_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def marked(line: str) -> str:
    """Return a line that an artifact's code printed, with a mark if it resembles a line of this package."""
    return f"{MARK}{escaped(line)}"


def plain(text: str) -> str:
    """Return ``text`` without colours."""
    return re.sub(_CODES, "", text) if "\x1b" in text else text


def paint(line: str) -> str:
    """Return ``line`` with the colours that its content asks for."""
    if "\x1b" in line:
        return line
    spans: dict[tuple[int, int], str] = {}
    for pattern, colour in _COLOURS:
        match = re.search(pattern, line)
        if match and not any(start < match.end(1) and match.start(1) < end for start, end in spans):
            spans[match.span(1)] = colour
    for (start, end), colour in sorted(spans.items(), reverse=True):
        line = f"{line[:start]}{colour}{line[start:end]}{_END}{line[end:]}"
    return line


class _Painted:
    """A stream for output of foreign code.

    It removes the progress line first, escapes control characters, and colours SCons's own lines.
    """

    def __init__(self, stream: IO[str], coloured: bool) -> None:
        self._stream, self._coloured = stream, coloured

    def write(self, text: str) -> int:
        with _SHOWN.lock:
            _SHOWN.erase()
            shown = escaped(text, colours=True)
            self._stream.write(_painted(shown) if self._coloured and text.startswith("scons: ") else shown)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def share_streams() -> None:
    """Show foreign output of this process like our own: with control characters escaped, SCons's lines in colours,
    and the progress line removed first.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, _Painted):
            setattr(sys, name, _Painted(stream, takes_colours(stream)))


def _is_terminal(stream: IO[str]) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


class _Shown:
    """State of this process's output: its destination, whether details are shown, and the progress line."""

    def __init__(self) -> None:
        self.verbose = False
        self.write: Write | None = None
        self.lock = threading.RLock()
        self.doing: Callable[[], str] | None = None  # what the line of progress says; None: there is none
        self.since = 0.0
        self.drawn = False
        self.thread: threading.Thread | None = None

    def send(self, text: str, error: bool, colour: bool) -> None:
        """Write ``text`` in one piece: our lines in their colours, or all without colours if the stream takes none."""
        with self.lock:
            self.erase()
            if self.write is not None:
                self.write(text, error)
                return
            stream = sys.stderr if error else sys.stdout
            if colour and _is_terminal(stream):
                text = "".join(_wrapped(line, _columns()) for line in text.splitlines(keepends=True))
            if not takes_colours(stream):
                text = plain(text)
            elif colour:
                text = "".join(map(_painted, text.splitlines(keepends=True)))
            (sys.stdout if error else sys.stderr).flush()
            stream.write(text)
            stream.flush()

    def erase(self) -> None:
        if self.drawn:
            self.drawn = False
            _draw(_ERASE)

    def tick(self) -> None:
        while True:
            time.sleep(_EVERY_S)
            with self.lock:
                if self.thread is not threading.current_thread():
                    return
                waited = time.monotonic() - self.since
                if self.doing is None or waited < QUIET_S:
                    continue
                text = f"{escaped(self.doing())}, {waited:.0f} s"
                self.drawn = True
                _draw(f"{_ERASE}{_DIM}{text[: _columns() - 1]}{_END}" if takes_colours(sys.stderr) else _ERASE + text)


_SHOWN = _Shown()


def _after_fork() -> None:
    """Reset the lock and the thread in a child process, which has none of our threads."""
    _SHOWN.lock, _SHOWN.thread, _SHOWN.doing, _SHOWN.drawn = threading.RLock(), None, None, False


os.register_at_fork(after_in_child=_after_fork)


def _wrapped(line: str, width: int) -> str:
    """Return a line that is broken between words to fit; what follows is indented."""
    if len(line.rstrip("\n")) <= width or "\x1b" in line or re.search(_TO_COPY, line):
        return line
    import textwrap  # few lines are that long

    indent = " " * (len(line) - len(line.lstrip(" ")))
    lines = textwrap.wrap(
        line.strip(), max(width, 40), initial_indent=indent, subsequent_indent=f"{indent}    ",
        break_long_words=False, break_on_hyphens=False, replace_whitespace=False,
    )  # fmt: skip
    return "\n".join(lines) + "\n" * line.endswith("\n")


def _painted(line: str) -> str:
    text = line.rstrip("\n")
    return paint(text) + line[len(text) :]


def _draw(text: str) -> None:
    """Write without Python's buffers, because a child that is forked meanwhile must not find them locked."""
    with suppress(OSError):
        os.write(2, text.encode())


def fitting(text: str, before: int, least: int = 24) -> str:
    """Return ``text`` cut to the terminal's width after ``before`` columns; uncut if there is no terminal."""
    if not _is_terminal(sys.stdout) or _SHOWN.write is not None:
        return text
    room = max(_columns() - before, least)
    return text if len(text) <= room else f"{text[: room - 3]}..."


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns or 80  # a terminal may not know
    except OSError:
        return 80


def redirect(write: Write | None) -> None:
    """Send all text to ``write`` from now on, without colours; None restores this process's own output."""
    _SHOWN.write = write


def show_details(shown: bool) -> None:
    """Set whether ``detail`` shows its text."""
    _SHOWN.verbose = shown


def shows_details() -> bool:
    """Return True if ``detail`` shows its text."""
    return _SHOWN.verbose


def say(*lines: str) -> None:
    """Print lines of output in one piece."""
    if lines:
        _SHOWN.send("".join(f"{escaped(line)}\n" for line in lines), False, True)


def detail(*lines: str) -> None:
    """Print lines of output, in one piece, if details are shown."""
    if _SHOWN.verbose:
        say(*lines)


def complain(line: str) -> None:
    """Print a line of error output in one piece."""
    _SHOWN.send(f"{escaped(line)}\n", True, True)


def pass_on(text: str, error: bool = True, ours: bool = False) -> None:
    """Print a command's output. Output of a command of ``ours`` gets our colours; foreign lines that resemble ours
    are marked.
    """
    if text:
        text = escaped(text, colours=True)
        text = text if ours else _LIKE_OURS.sub(MARK, text)
        _SHOWN.send(text if text.endswith("\n") else f"{text}\n", error, ours)


class _Escaped:
    """A stream that escapes control characters in its text."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(escaped(text, colours=True))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def escaping() -> Iterator[None]:
    """Escape control characters in all printed text while the block runs."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Escaped(sys.stdout), _Escaped(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def step_aside() -> None:
    """Remove the progress line before other code writes to the terminal."""
    with _SHOWN.lock:
        _SHOWN.erase()
    sys.stdout.flush()


def colours_of_commands() -> bool:
    """Return True if commands whose error output is shown may colour it."""
    return _SHOWN.write is None and takes_colours(sys.stderr)


@contextmanager
def progress(doing: Callable[[], str] | None) -> Iterator[bool]:
    """Show a line of progress on the terminal while the block runs, once it takes longer than two seconds.

    None hides the line of an outer block, for a block in which other code writes. If output is piped there is no line,
    and the block gets False.
    """
    if not (_is_terminal(sys.stdout) and _is_terminal(sys.stderr)) or _SHOWN.write is not None:
        yield False
        return
    before = _SHOWN.doing, _SHOWN.since
    _begin(doing, before[1] if before[0] is not None else time.monotonic())
    try:
        yield True
    finally:
        with _SHOWN.lock:
            _SHOWN.erase()
            _SHOWN.doing, _SHOWN.since = before


def show_progress(doing: Callable[[], str]) -> None:
    """Show a line of progress, as ``progress`` does, from now to the end of this process."""
    if _SHOWN.doing is None and _is_terminal(sys.stdout) and _is_terminal(sys.stderr) and _SHOWN.write is None:
        _begin(doing, time.monotonic())


def _begin(doing: Callable[[], str] | None, since: float) -> None:
    with _SHOWN.lock:
        _SHOWN.erase()
        _SHOWN.doing, _SHOWN.since = doing, since
        if _SHOWN.thread is None:
            share_streams()
            atexit.register(_end)  # an interrupted process says nothing more that would erase it
            _SHOWN.thread = threading.Thread(target=_SHOWN.tick, daemon=True)
            _SHOWN.thread.start()


def _end() -> None:
    with _SHOWN.lock:
        _SHOWN.erase()
        _SHOWN.doing = None
