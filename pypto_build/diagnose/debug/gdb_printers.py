"""Extensions of gdb: printers of tiles, tensors and a task's arguments, and a core after a crash.

gdb's own Python loads this file, so it imports only the standard library and `gdb`. `pypto-tile v17 0:8 0:8` shows
elements, `pypto-args` the arguments of the task.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import struct
from typing import Any

import gdb

#: Memories in the order of pto::TileType.
_SPACES = ("UB", "L1", "L0A", "L0B", "L0C", "BIAS", "FBUF", "SCALE_A", "SCALE_B")
#: The `struct` format of each element type, by the type's name. bfloat16 is missing: it is the upper half of a float32.
_FORMATS = {
    "float": "f", "half": "e", "_Float16": "e", "double": "d", "bool": "?",
    "signed char": "b", "char": "b", "unsigned char": "B", "short": "h", "unsigned short": "H", "int": "i",
    "unsigned int": "I", "long": "q", "unsigned long": "Q", "long long": "q", "unsigned long long": "Q",
    "float32": "f", "float16": "e", "float64": "d", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H",
    "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
}  # fmt: skip
_FEW = 4


def _read(address: int, size: int) -> bytes:
    return bytes(gdb.selected_inferior().read_memory(address, size))


def _decode(data: bytes, name: str, size: int) -> Any:
    """Return one element as a number."""
    name = name.removeprefix("const ")
    if "bfloat16" in name:
        return struct.unpack("<f", b"\0\0" + data)[0]
    code = _FORMATS.get(name)
    if code is None or struct.calcsize(code) != size:
        return "0x" + data[::-1].hex()
    return struct.unpack("<" + code, data)[0]


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class _Tile:
    """A pto::Tile of the program: the arguments of its type, and the layout of its elements in memory."""

    def __init__(self, value: Any) -> None:
        kind = value.type.strip_typedefs()
        arguments = [kind.template_argument(i) for i in range(9)]
        self.space = int(arguments[0])
        element = arguments[1].strip_typedefs()
        self.element, self.size = str(element.unqualified()), element.sizeof
        self.rows, self.cols = int(arguments[2]), int(arguments[3])
        self.row_major, self.inner = int(arguments[4]) == 0, int(arguments[7])
        dynamic = [int(value["RowMaskInternal"]), int(value["ColMaskInternal"])]
        fixed = [int(arguments[5]), int(arguments[6])]
        self.valid = tuple(d if f < 0 else f for f, d in zip(fixed, dynamic, strict=True))
        fractal = int(arguments[8])
        short = 16 if fractal == 1024 else 2 if fractal == 32 else 32 // self.size
        high, wide = (16, short) if self.inner == 1 else (short, 16)
        self.high, self.wide = 1 if self.rows == 1 else high, 1 if self.cols == 1 else wide
        self.address = int(value["pointer_"])

    def offset(self, row: int, col: int) -> int:
        """Return the offset of an element from the tile's address, in elements."""
        if self.inner == 0:
            return row * self.cols + col if self.row_major else col * self.rows + row
        across = self.high * (self.cols if self.row_major else self.wide)
        along = self.wide * (self.high if self.row_major else self.rows)
        r, c = row % self.high, col % self.wide
        inner = r * self.wide + c if self.inner == 1 else c * self.high + r
        return row // self.high * across + col // self.wide * along + inner

    def at(self, row: int, col: int) -> Any:
        """Return the value of an element."""
        data = _read(self.address + self.offset(row, col) * self.size, self.size)
        return _decode(data, self.element, self.size)

    def place(self) -> str:
        """Return memory and offset, such as `UB 0x40`. Without a current core, return the address."""
        if self.address == 0:
            return "without an address"
        try:
            core = gdb.parse_and_eval("pto::detail::bound_core")
            base, size = (int(core["memory"][self.space][name]) for name in ("base", "size"))
        except (gdb.error, TypeError):
            return hex(self.address)
        inside = self.space < len(_SPACES) and base <= self.address < base + size
        return f"{_SPACES[self.space]} 0x{self.address - base:x}" if inside else hex(self.address)


class _Printer:
    def __init__(self, value: Any) -> None:
        self.value = value


class _TilePrinter(_Printer):
    """Prints a tile: `UB 0x0  128x128 float {0.77, -0.58, …}`."""

    def to_string(self) -> str:
        tile = _Tile(self.value)
        valid = "" if tile.valid == (tile.rows, tile.cols) else f", valid {tile.valid[0]}x{tile.valid[1]}"
        text = f"{tile.place()}  {tile.rows}x{tile.cols} {tile.element}{valid}"
        if tile.address == 0:
            return text
        cols = min(tile.cols, _FEW)
        try:
            few = ", ".join(_text(tile.at(0, col)) for col in range(cols))
        except gdb.MemoryError:
            return f"{text} (no such memory)"
        return f"{text} {{{few}{', …' if tile.rows * tile.cols > cols else ''}}}"


def _extents(value: Any) -> list[int]:
    """Return the five numbers of a pto::Shape or pto::Stride.

    Fixed numbers are arguments of its type (negative if dynamic); dynamic ones are stored in the object.
    """
    kind = value.type.strip_typedefs()
    fixed = [int(kind.template_argument(i)) for i in range(5)]
    base = next(field for field in kind.fields() if field.is_base_class)
    extents = value.cast(base.type)["value"]
    open_ = iter(range(5))
    return [int(extents[next(open_)]) if one < 0 else one for one in fixed]


class _GlobalTensorPrinter(_Printer):
    """Prints a global tensor: `0x7f…  [1, 1, 1, 128, 128] strides [16384, 16384, 16384, 128, 1] float {…}`."""

    def to_string(self) -> str:
        element = self.value.type.strip_typedefs().template_argument(0).strip_typedefs()
        name, address = str(element.unqualified()), int(self.value["pointer_"])
        shape, strides = _extents(self.value["shape_"]), _extents(self.value["stride_"])
        few = _few(address, name, element.sizeof, shape[-1], strides[-1])
        return f"{hex(address)}  {shape} strides {strides} {name} {few}"


def _few(address: int, name: str, size: int, count: int, stride: int) -> str:
    """Return the text of the first elements, such as `{0.77, -0.58, …}`."""
    try:
        elements = [_decode(_read(address + i * stride * size, size), name, size) for i in range(min(count, _FEW))]
    except gdb.MemoryError:
        return "(no such memory)"
    return f"{{{', '.join(map(_text, elements))}{', …' if count > _FEW else ''}}}"


_DTYPES = {
    0: ("float32", 4), 1: ("float16", 2), 2: ("int32", 4), 3: ("int16", 2), 4: ("int8", 1), 5: ("uint8", 1),
    6: ("bfloat16", 2), 7: ("int64", 8), 8: ("uint64", 8), 9: ("uint16", 2), 10: ("uint32", 4), 11: ("bool", 1),
}  # fmt: skip


class _ChipTensorPrinter(_Printer):
    """Prints a task's tensor: `[128, 128] strides [128, 1] float32 at 0x7f… of a buffer of 65536 bytes {…}`."""

    def to_string(self) -> str:
        value = self.value
        dims = min(int(value["ndims"]), 5)
        shape = [int(value["shapes"][i]) for i in range(dims)]
        strides = [int(value["strides"][i]) for i in range(dims)]
        name, size = _DTYPES.get(int(value["dtype"]), ("?", 1))
        address = int(value["buffer"]["addr"]) + int(value["start_offset"]) * size
        few = _few(address, name, size, shape[-1], strides[-1]) if shape else ""
        buffer = f"of a buffer of {int(value['buffer']['size'])} bytes"
        return f"{shape} strides {strides} {name} at {hex(address)} {buffer} {few}"


_PRINTERS = (
    (re.compile(r"^(?:const )?pto::Tile<"), _TilePrinter),
    (re.compile(r"^(?:const )?pto::GlobalTensor<"), _GlobalTensorPrinter),
    (re.compile(r"^(?:const )?ChipTensor$"), _ChipTensorPrinter),
)


def _printer(value: Any) -> Any:
    kind = value.type.strip_typedefs()
    name = str(kind.unqualified())
    return next((printer(value) for pattern, printer in _PRINTERS if pattern.match(name)), None)


class _TileCommand(gdb.Command):  # type: ignore[misc]
    """pypto-tile NAME [ROWS [COLS]]: elements of a tile; ROWS and COLS are I or I:J, the first eight by default."""

    def __init__(self) -> None:
        super().__init__("pypto-tile", gdb.COMMAND_DATA)

    def invoke(self, argument: str, _: bool) -> None:
        words = argument.split()
        if not 1 <= len(words) <= 3:
            raise gdb.GdbError("usage: pypto-tile NAME [ROWS [COLS]], such as pypto-tile v17 0:8 0:8")
        tile = _Tile(gdb.parse_and_eval(words[0]))
        rows = _range(words[1] if len(words) > 1 else "0:8", tile.rows)
        cols = _range(words[2] if len(words) > 2 else "0:8", tile.cols)
        cells = [[_text(tile.at(row, col)) for col in cols] for row in rows]
        width = max(map(len, itertools.chain(*cells)), default=1)
        print(f"{words[0]}  {tile.place()}  {tile.rows}x{tile.cols} {tile.element}")
        for row, line in zip(rows, cells, strict=True):
            print(f"{f'[{row}]':<7}" + "  ".join(cell.rjust(width) for cell in line))


def _range(text: str, extent: int) -> range:
    match = re.fullmatch(r"(\d{0,9})(?:(:)(\d{0,9}))?", text)
    if match is None or not text:
        raise gdb.GdbError(f"'{text}' is neither an index nor a range; write I or I:J")
    first = int(match[1] or 0)
    return range(first, min(int(match[3] or extent) if match[2] else first + 1, extent))


class _ArgsCommand(gdb.Command):  # type: ignore[misc]
    """pypto-args: print the task and its arguments."""

    def __init__(self, path: str) -> None:
        super().__init__("pypto-args", gdb.COMMAND_DATA)
        self.path = path

    def invoke(self, argument: str, _: bool) -> None:
        try:
            with open(self.path, encoding="utf-8") as file:
                task = json.load(file)
        except (OSError, ValueError):
            raise gdb.GdbError("no task has started yet") from None
        block = f", block {task['block']} of {task['blocks']}" if task["blocks"] > 1 else ""
        print(f"task {task['task']} {'+'.join(task['kernels'])}{block}")
        for one in task["arguments"]:
            if not one["dtype"]:
                print(f"  {one['name']:<12} {one['text']}")
                continue
            size = next((size for name, size in _DTYPES.values() if name == one["dtype"]), 1)
            shape, strides = one["shape"], one["strides"]
            few = _few(one["address"], one["dtype"], size, shape[-1], strides[-1]) if shape else ""
            print(f"  {one['name']:<12} {one['direction']:<6} {shape} {one['dtype']} at {hex(one['address'])} {few}")


_CRASHES = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT")


class _Session:
    """A gdb session, which writes a core if the program crashes."""

    def __init__(self, core: str) -> None:
        self.core = core
        self.crashed = False
        if core:
            gdb.events.stop.connect(self.stopped)

    def stopped(self, event: Any) -> None:
        if not isinstance(event, gdb.SignalEvent) or event.stop_signal not in _CRASHES:
            return
        self.crashed = True
        temporary = f"{self.core}.tmp"
        gdb.execute(f"generate-core-file {temporary}", to_string=True)
        os.replace(temporary, self.core)
        print(f"[debug] {event.stop_signal}: the core file is {self.core}; CORE=1 opens it again")

    def prepare(self, skipped: list[str], breakpoints: list[str]) -> None:
        """Skip headers in `step`, and set breakpoints. Their libraries need not be loaded yet."""
        for pattern in skipped:
            gdb.execute(f"skip -gfi {pattern}", to_string=True)
        for where in breakpoints:
            gdb.execute(f"break {where}", to_string=True)

    def over(self) -> None:
        """End a batch with an exit status: 5 after a crash, else that of the ended program, else 0."""
        code = gdb.convenience_variable("_exitcode")
        status = 5 if self.crashed else int(code) if code is not None else 0
        gdb.execute(f"quit {status}")


class _RunCommand(gdb.Command):  # type: ignore[misc]
    """pypto-run: runs the program, and says so if it ends before a breakpoint."""

    def __init__(self) -> None:
        super().__init__("pypto-run", gdb.COMMAND_RUNNING)

    def invoke(self, argument: str, _: bool) -> None:
        gdb.execute("run")
        if not gdb.selected_inferior().pid:
            code = gdb.convenience_variable("_exitcode")
            print("[debug] the run ended before it reached a breakpoint; set one with TASK= and BREAK=")
            if argument == "batch":
                gdb.execute(f"quit {int(code) if code else 1}")


class _OwnFrames:
    """A frame filter that shows the frames of the artifact and the frames that they call.

    It hides the runtime and Python, which call the artifact. `bt -no-filters` shows all frames. gdb requires the
    attributes `name`, `enabled` and `priority`.
    """

    name, enabled, priority = "pypto-frames", True, 100

    def filter(self, frames: Any) -> Any:
        """Return the innermost frame of the artifact, its callees, and the other frames of the artifact."""
        seen = list(frames)
        own = [number for number, frame in enumerate(seen) if _is_of_artifact(frame.inferior_frame())]
        return iter([*seen[: own[0]], *(seen[number] for number in own)] if own else seen)


def _is_of_artifact(frame: Any) -> bool:
    name = gdb.solib_name(frame.pc()) or ""
    return "/kernels/" in name or "/orchestration/" in name


class _LocalsCommand(gdb.Command):  # type: ignore[misc]
    """info locals: the variables of the frame whose definitions were already executed."""

    def __init__(self) -> None:
        super().__init__("info locals", gdb.COMMAND_STACK)

    def invoke(self, _argument: str, _: bool) -> None:
        frame = gdb.selected_frame()
        line, block, shown = frame.find_sal().line, frame.block(), set()
        while block is not None:
            for symbol in block:
                if symbol.is_variable and not symbol.is_argument and symbol.line < line and symbol.name not in shown:
                    shown.add(symbol.name)
                    print(f"{symbol.name} = {symbol.value(frame)}")
            if block.function is not None:
                break
            block = block.superblock
        if not shown:
            print("No locals yet.")


def begin(task_file: str, core: str) -> _Session:
    """Register printers, filters and commands, and return the session. gdb calls it after loading this file."""
    gdb.pretty_printers.append(_printer)
    gdb.frame_filters[_OwnFrames.name] = _OwnFrames()
    _LocalsCommand()
    _TileCommand()
    _ArgsCommand(task_file)
    _RunCommand()
    return _Session(core)
