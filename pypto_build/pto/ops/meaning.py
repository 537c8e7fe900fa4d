"""One-line descriptions of operations: that of the instruction, else that of the family."""

from __future__ import annotations

from .spec import INSTRUCTIONS, Meaning, OpDef, Reduction

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "divu": "/ (unsigned)", "remu": "% (unsigned)",
    "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>", "shru": ">> (unsigned)",
    "floordiv": "/, rounded down", "ceildiv": "/, rounded up", "ceildivu": "/ (unsigned), rounded up",
}  # fmt: skip

# By family and function, else by family.
_TEXTS = {
    "comm": "moves data between chips, or signals that it has moved",
    "async": "communication that goes on while the kernel does other things",
    "control:for": "a loop from lower to upper by step; iter_args are handed from round to round",
    "control:if": "the first region if the condition holds, else the second",
    "control:while": "the second region as long as the first one's condition holds",
    "control:yield": "hands values to the operation around it, or to the next round",
    "control:condition": "goes on with the loop's body if the condition holds",
    "control:call": "calls a function of the module",
    "control:return": "ends the function",
    "control:section": "operations for one kind of core",
    "view:tensor": "a tensor in global memory: pointer, shape and strides",
    "view:partition": "a window of a tensor in global memory, by offsets and sizes",
    "view:dim": "an extent of a tensor in global memory",
    "view:declare": "a tensor in global memory that something else fills",
    "pointer:add": "the pointer, so many elements further",
    "pointer:cast": "the same address as another type",
    "tile:alloc": "a tile in on-chip memory, at an address",
    "tile:alloc_multi": "several tiles in on-chip memory, one behind the other",
    "tile:slot": "one of several tiles",
    "tile:address": "where a tile lies",
    "tile:declare": "a tile that something else gives an address",
    "tile:subview": "a window into a tile: the same bytes",
    "tile:reinterpret": "the same bytes as a tile of another type",
    "tile:assign": "lets the tile lie at an address",
    "tile:set_valid": "sets how many rows and columns of the tile are valid",
    "tile:get_valid": "how many rows and columns of the tile are valid",
    "element:get": "an element of a tile",
    "element:set": "writes an element of a tile",
    "scalar:load": "an element of global memory",
    "scalar:store": "writes an element of global memory",
    "array:declare": "an array in local memory",
    "array:get": "an element of the array",
    "array:set": "writes an element of the array",
    "pipe:open": "opens the pipe between the cube core and its vector cores",
    "pipe:open_l2l": "opens a pipe from on-chip memory to on-chip memory",
    "pipe:open_l2g2l": "opens a pipe by way of global memory",
    "pipe:reserve": "on-chip memory for the slots of a pipe",
    "pipe:import": "where the other core has reserved the slots of a pipe",
    "pipe:push": "sends a tile through the pipe",
    "pipe:acquire": "a free slot of the pipe, to write into",
    "pipe:pop": "the next tile out of the pipe",
    "pipe:free": "gives the slot of a popped tile back",
    "constant": "a constant",
    "arith:max": "the larger of two numbers",
    "arith:min": "the smaller of two numbers",
    "arith:maxu": "the larger of two unsigned numbers",
    "arith:minu": "the smaller of two unsigned numbers",
    "arith:fmax": "the larger of two numbers; a NaN counts for nothing",
    "arith:fmin": "the smaller of two numbers; a NaN counts for nothing",
    "arith_compare": "compares two numbers",
    "arith_select": "one of two values, by a condition",
    "cast": "a number as another type",
    "none:barrier": "waits for the pipes of this core; on the CPU, where operations follow each other, nothing",
    "none:flag": "order between two pipes of this core; on the CPU, where operations follow each other, nothing",
    "none:event": "order between pipes of this core; on the CPU, where operations follow each other, nothing",
    "none:prefetch": "asks for data early; changes no result",
    "none:dealloc": "ends the use of a buffer; changes no result",
    "none": "for hardware only; on the CPU it does nothing",
    "crosscore": "order between the cores of a group",
    "fence": "order between what this core writes and what others read",
    "trap": "ends the run",
    "print": "prints a number in the words of C's printf; changes no result",
    "core_id": "which block or core this is, or how many there are",
    "matmul_mx:set": "a product of matrices in microscaled formats, which have a scale for each block",
    "matmul_mx:accumulate": "a product in microscaled formats, added to what was there",
    "matmul_mx:bias": "a product in microscaled formats, plus a bias",
    "quantize": "values in a narrower type, by scales",
    "scale_address": "where the scales of a tile lie",
}


def what_it_does(row: OpDef) -> str:
    """Return a line for users; empty if the tables have none."""
    instruction = INSTRUCTIONS.get(row.cpp)
    if instruction is not None and instruction.does:
        return instruction.does
    if row.family == "arith" and row.fn in _INFIX:
        return f"lhs {_INFIX[row.fn]} rhs"
    for key in row.keys:
        if key in _TEXTS:
            return _TEXTS[key]
    if isinstance(row.computes, (Meaning, Reduction)):
        return row.computes.name
    return row.fn if row.family == "arith" else ""
