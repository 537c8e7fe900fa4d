"""Programs that a pass got wrong: edits of the dumps of a small compilation, in PyPTO's form.

An edit of a dump is also made in all later ones that have the text: what a pass leaves wrong, the next ones keep.
"""

from __future__ import annotations

from tests.diagnose.corpus import Bug

_TILE = "pl.Tile[[64, 64], pl.FP32"
_PARAMS = "x: pl.Tensor[[64, 64], pl.FP32], y: pl.Out[pl.Tensor[[64, 64], pl.FP32]]"
_HEAD = """# pypto.program: Doubled
import pypto.language as pl

@pl.program
class Doubled:
"""
_KERNEL = f"""    @pl.function(type=pl.FunctionType.AIV)
    def double_rows({_PARAMS}) -> pl.Tensor[[64, 64], pl.FP32]:
"""
_ENTRY = f"""    @pl.function(type=pl.FunctionType.Orchestration)
    def doubled(self, {_PARAMS}) -> pl.Tensor[[64, 64], pl.FP32]:
        made = pl.tensor.create([64, 64], dtype=pl.FP32)
        for row, (made_iter,) in pl.range(2, init_values=(made,)):
            made_next = self.double_rows(x, made_iter)
            made_last = pl.yield_(made_next)
        return self.double_rows(made_last, y)
"""
_BODY = """        tile{a} = pl.tile.load(x, [0, 0], [64, 64], [64, 64], target_memory=pl.Mem.Vec)
        largest{b} = pl.tile.row_max(tile)
        shifted{c} = pl.tile.row_expand_sub(tile, largest)
        total{d} = pl.tile.add(shifted, tile)
        stored = pl.tile.store(total, [0, 0], y)
        return y
"""


def _program(body: str) -> str:
    return _HEAD + _KERNEL + body + _ENTRY


def _placed(*places: tuple[str, int]) -> str:
    types = [f": {_TILE}, pl.MemRef({base}, pl.const({at}, pl.INT64), 16384), pl.Mem.Vec]" for base, at in places]
    return _program(_BODY.format(**dict(zip("abcd", types, strict=True))))


#: The dumps of the compilation without a bug.
CLEAN = {
    "passes_dump/00_frontend.py": _program(_BODY.format(a="", b="", c="", d="")),
    "passes_dump/01_after_ConvertToSSA.py": _program(_BODY.format(a="", b="", c="", d="")),
    "passes_dump/02_after_InitMemRef.py": _placed(("mem_0", 0), ("mem_1", 0), ("mem_2", 0), ("mem_3", 0)),
    "passes_dump/03_after_MemoryReuse.py": _placed(("mem_0", 0), ("mem_1", 0), ("mem_2", 0), ("mem_1", 0)),
    "passes_dump/04_after_AllocateMemoryAddr.py": _placed(
        ("mem_0", 0), ("mem_1", 16384), ("mem_2", 32768), ("mem_1", 16384)
    ),
}
_SSA, _MEM, _REUSE, _ADDRESS = list(CLEAN)[1:]
_PLACE = "pl.MemRef({}, pl.const({}, pl.INT64), 16384), pl.Mem.Vec] = pl.tile.{}("
_SHIFTED = ("row_expand_sub", "'shifted' lies on 'tile' (line 8), which is still read")


def _bug(name: str, rule: str, file: str, at: str, says: str, old: str, new: str) -> Bug:
    return Bug(name, "", ((file, old, new),), f"passes/{rule}", file, at, says, tool="passes")


# fmt: off
BUGS = (
    _bug(
        "definition lost", "undefined-name", _SSA, "row_expand_sub(tile, largest)",
        "after pass 01 ConvertToSSA of 'double_rows': 'largest' is used and not defined before",
        "        largest = pl.tile.row_max(tile)\n", "",
    ),
    _bug(
        "name assigned twice", "assigned-twice", _SSA, "tile = pl.tile.row_max(tile)",
        "'tile' is assigned again (first in line 8)", "largest = pl.tile.row_max(tile)\n        shifted = pl.tile.row_expand_sub(tile, largest)",
        "tile = pl.tile.row_max(tile)\n        shifted = pl.tile.row_expand_sub(tile, tile)",
    ),
    _bug(
        "kernel renamed, its call not", "call", _MEM, "made_next = self.double_rows(x, made_iter)",
        "'double_rows' is called, and no function has this name", "def double_rows(", "def double_rows_aiv(",
    ),
    _bug(
        "argument dropped from a call", "call", _MEM, "made_next = self.double_rows(made_iter)",
        "'double_rows' takes 2 arguments, 1 are passed", "double_rows(x, made_iter)", "double_rows(made_iter)",
    ),
    _bug(
        "memory reused too early", "overlap", _REUSE, *_SHIFTED,
        _PLACE.format("mem_2", 0, "row_expand_sub"), _PLACE.format("mem_0", 0, "row_expand_sub"),
    ),
    _bug(
        "addresses that overlap", "overlap", _ADDRESS, *_SHIFTED,
        _PLACE.format("mem_2", 32768, "row_expand_sub"), _PLACE.format("mem_2", 8192, "row_expand_sub"),
    ),
    _bug(
        "tile past the end of its memory", "capacity", _ADDRESS, "row_expand_sub",
        "'shifted' ends at byte 196640 of vec, which has 196608 on a2a3",
        _PLACE.format("mem_2", 32768, "row_expand_sub"), _PLACE.format("mem_2", 180256, "row_expand_sub"),
    ),
    _bug(
        "dump cut off", "unreadable", _ADDRESS, "made_next = self.double_rows(x, made_it",
        "after pass 04 AllocateMemoryAddr: '(' was never closed", _ENTRY[_ENTRY.index("er)\n"):], "",
    ),
    _bug(
        "warning of a pass", "log", "passes_dump/03_after_MemoryReuse.log", "warning",
        "after 03_after_MemoryReuse: two values in one place [MR-7]",
        "", "    tile = x\nbuild/passes_dump/03_after_MemoryReuse.py: warning: two values in one place [MR-7]\n",
    ),
    _bug(
        "function without code", "codegen", "report/codegen_errors.txt", "[double_rows]",
        "the compiler could not generate code for function 'double_rows': ptoas: no such operation",
        "", "1 function(s) failed to compile:\n\n  Function | Error\n\n  [double_rows]\nptoas: no such operation\n",
    ),
)
# fmt: on
