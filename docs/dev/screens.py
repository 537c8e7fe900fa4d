"""Draws docs/pictures/screen-*.svg: what people see first, in a terminal of 80 columns, dark and light.

`python docs/dev/screens.py` runs the commands below in a workspace of its own, in a pseudo-terminal, and draws what
they print: `scons` alone, a pass, a failure, its cause, three tests. It takes the `scons` that is on the PATH, with
colours as on any terminal. Look at the pictures before you commit them.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import tempfile
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

DOCS = Path(__file__).resolve().parents[1]
PICTURES = DOCS / "pictures"
_ARTIFACTS = DOCS.parent / "examples" / "artifacts"

_COLUMNS, _LINES = 80, 24
_SIZE, _WIDTH, _HEIGHT, _MARGIN = 14, 8.43, 19, 12  # of a character, and around all, in pixels
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_CODE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")

# Ground, text, and the colours of codes 31 to 36.
_THEMES = {
    "light": ("#ffffff", "#1f2328", ("#cf222e", "#1a7f37", "#9a6700", "#0969da", "#8250df", "#1b7c83")),
    "dark": ("#0d1117", "#e6edf3", ("#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf")),
}

_SCONSTRUCT = """from pypto_build.rules import pypto

env = Environment(tools=[pypto])
env.ReplayTest(name="softmax", artifact="build_output/_jit_softmax", rtol=1e-3)
env.ReplayTest(name="vector_dag", artifact="build_output/_jit_vector_dag", signature=["IN", "IN", "OUT"])
env.ReplayTest(name="vector_dag_a5", artifact="build_output/_jit_vector_dag", platform="a5")
"""
_KERNEL = "build_output/_jit_vector_dag/kernels/aiv/kernel_add.cpp"
_REPLAY = "scons replay JIT=_jit_vector_dag"


@dataclass(frozen=True)
class Style:
    """Look of characters; `colour` is 1 to 6, 0 for that of all text."""

    colour: int = 0
    bold: bool = False
    dim: bool = False

    def after(self, codes: str) -> Style:
        """The style after an escape sequence with these codes."""
        style = self
        for code in map(int, filter(None, codes.split(";") or ["0"])):
            if code == 0:
                style = Style()
            elif code in (1, 2, 22):
                style = Style(style.colour, code == 1 or (code == 2 and style.bold), code == 2)
            elif 30 <= code <= 37 or code == 39:
                style = Style(code - 30 if code in range(31, 37) else 0, style.bold, style.dim)
        return style if codes else Style()


Row = list[tuple[str, Style]]


def rows_of(printed: str) -> list[Row]:
    """The lines that a terminal shows, a character and its style for each column."""
    rows: list[Row] = [[]]
    column, style, at = 0, Style(), 0
    while at < len(printed):
        code = _CODE.match(printed, at)
        if code:
            if code[2] == "m":
                style = style.after(code[1])
            elif code[2] == "K":
                del rows[-1][column:]
            at = code.end()
            continue
        letter = printed[at]
        at += 1
        if letter == "\r":
            column = 0
        elif letter == "\n":
            rows.append([])
            column = 0
        else:
            if column == _COLUMNS:
                rows.append([])
                column = 0
            rows[-1][column : column + 1] = [(letter, style)]
            column += 1
    return rows


def picture(rows: list[Row], theme: str) -> str:
    """The lines as SVG."""
    ground, text, colours = _THEMES[theme]
    width, height = _COLUMNS * _WIDTH + 2 * _MARGIN, max(len(rows), 4) * _HEIGHT + 2 * _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}">',
        f'<rect width="100%" height="100%" rx="8" fill="{ground}" stroke="{text}" stroke-opacity=".18"/>',
        f'<g font-family="{_FONT}" font-size="{_SIZE}" fill="{text}">',
    ]
    for number, row in enumerate(rows):
        y = _MARGIN + _HEIGHT * number + _SIZE
        for column, letters, style in _runs(row):
            x, length = _MARGIN + column * _WIDTH, len(letters) * _WIDTH
            look = f' fill="{colours[style.colour - 1]}"' if style.colour else ""
            look += ' font-weight="bold"' if style.bold else ""
            look += ' fill-opacity=".6"' if style.dim else ""
            position = f'x="{x:.1f}" y="{y}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs"'
            kept = escape(letters).replace(" ", "\u00a0")  # browsers would draw several spaces as one
            lines.append(f"<text {position}{look}>{kept}</text>")
    return "\n".join([*lines, "</g>", "</svg>", ""])


def _runs(row: Row) -> Iterator[tuple[int, str, Style]]:
    """Yield the runs of characters of one style, without the space around."""
    begin = 0
    while begin < len(row):
        end = begin
        while end < len(row) and row[end][1] == row[begin][1]:
            end += 1
        letters = "".join(letter for letter, _ in row[begin:end])
        if letters.strip():
            column = begin + len(letters) - len(letters.lstrip())
            yield column, letters.strip(), row[begin][1]
        begin = end


def typed(command: str, root: Path) -> str:
    """Return the terminal's content after the command is typed in `root`, with the prompts around it."""
    terminal, program = pty.openpty()
    fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
    hidden = ("NO_COLOR", "CLICOLOR_FORCE", "PYTHONUNBUFFERED", "COLUMNS", "LINES", "CI", "GITHUB_ACTIONS", "GITLAB_CI")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"TERM": "xterm", "PYPTO_BUILD_STORE": str(root.with_name("store"))}  # nothing from earlier days
    with subprocess.Popen(command.split(), cwd=root, stdin=program, stdout=program, stderr=program, env=environment):
        os.close(program)
        printed = b""
        try:
            while data := os.read(terminal, 65536):
                printed += data
        except OSError:  # it has ended
            pass
    os.close(terminal)
    return f"$ {command}\n{printed.decode(errors='replace')}$ "


def edit(path: Path, old: str, new: str) -> None:
    """Replace a text that is there once."""
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise SystemExit(f"{path}: {old!r} is not there once; the screens need another edit")
    path.write_text(text.replace(old, new), encoding="utf-8")


def screens(root: Path) -> Iterator[tuple[str, str]]:
    """Return each screen's content by its name."""
    shutil.copytree(_ARTIFACTS, root / "build_output")
    (root / "SConstruct").write_text(_SCONSTRUCT, encoding="utf-8")
    yield "scons", typed("scons", root)
    typed(f"{_REPLAY} PLATFORM=a2a3", root)  # as for who has used it before: nothing is built for the first time
    edit(root / _KERNEL, "TADD(v17, v7, v13);", "TADD(v17, v13, v7);")
    yield "pass", typed(f"{_REPLAY} PLATFORM=a2a3", root)
    edit(root / _KERNEL, "TADD(v17, v13, v7);", "TADD(v17, v7, v7);")
    yield "fail", typed(_REPLAY, root)
    yield "triage", typed(_REPLAY.replace("replay", "triage"), root)
    yield "test", typed("scons test", root)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="pypto-build-screens-") as directory:
        root = Path(directory, "kernels")
        root.mkdir()
        for name, printed in screens(root):
            if directory in printed:
                raise SystemExit(f"{name}: it shows a path of this machine:\n{printed}")
            for theme in _THEMES:
                path = PICTURES / f"screen-{name}-{theme}.svg"
                path.write_text(picture(rows_of(printed), theme), encoding="utf-8")
                print(f"wrote {path.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
