"""The operations a program can use: one row each, from which parsing, typing and emission follow.

A signature lists operands, `name=?` for those that may be left out, and behind `/` what must be known when compiling.
`rule` names the typing rule (rules_*.py); `pto` the operation of .pto it becomes, `scalar` the one for a tile and a
number. `tmp` is the kind of scratch tile that the instruction needs (`row`: one block a row, `same`: as the operand).
`inplace` operations may write where they read, unless a rule of the devices forbids it (in_place.py). `side` is the
core that has it: cube, vector, or empty for both.
`prefix` is what stands before the name in a program; operations between ranks are `pld.system.notify` and the like.
`gives` is the operand that a statement `x = pl.store(…, tensor)` means.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class OpSpec:
    name: str
    operands: tuple[str, ...]
    optional: frozenset[str]
    attrs: dict[str, object] = field(default_factory=dict)  # name -> default; MISSING when it must be given
    rule: str = ""
    pto: str = ""
    scalar: str = ""
    tmp: str = ""
    inplace: bool = False
    side: str = ""
    where: str = "kernel"  # kernel, orchestration, host, or several of them
    prefix: str = "pl"
    gives: str = ""
    word: str = ""  # what stands behind the prefix, where another operation has the name

    @property
    def spelled(self) -> str:
        """Return the operation's name in a program."""
        return f"{self.prefix}.{self.word or self.name}" if self.prefix else self.name

    def is_for(self, kind: str) -> bool:
        """Return whether functions of a kind may use the operation."""
        return kind in self.where.split() or (self.where == "both" and kind in ("kernel", "orchestration"))


MISSING = object()
OPERATIONS: dict[str, OpSpec] = {}


def _define(name: str, signature: str, rule: str, **fields: object) -> None:
    operands, _, compile_time = signature.partition("/")
    names = operands.split()
    attrs: dict[str, object] = {}
    for word in compile_time.split():
        key, equals, default = word.partition("=")
        attrs[key] = default if equals else MISSING
    OPERATIONS[name] = OpSpec(
        name,
        tuple(word.partition("=")[0] for word in names),
        frozenset(word.partition("=")[0] for word in names if "=" in word),
        attrs,
        rule,
        **fields,  # type: ignore[arg-type]
    )


def called(name: str) -> str:
    """Return the name of an operation in a program."""
    spec = OPERATIONS.get(name)
    return spec.spelled if spec else name


V = {"side": "vector"}
IN_PLACE = {**V, "inplace": True}

# --- moving data
_define("load", "tensor offsets shape valid_shape=? / target=", "load", pto="pto.tload")
_define("store", "tile offsets tensor / atomic=", "store", pto="pto.tstore", gives="tensor")
_define("move", "tile / target", "move", pto="pto.tmov")
_define("extract", "tile offsets shape", "extract", pto="pto.textract")
_define("read", "tensor indices", "read", where="both")
_define("write", "tensor indices value", "write", where="both", side="vector")
_define("create_tile", "shape / dtype target", "create_tile")

# --- elementwise; the second operand of the first group may be a number
for _name, _pto in (
    ("add", "tadd"), ("sub", "tsub"), ("mul", "tmul"), ("div", "tdiv"), ("maximum", "tmax"), ("minimum", "tmin"),
    ("bitwise_and", "tand"), ("bitwise_or", "tor"), ("shl", "tshl"), ("shr", "tshr"),
):  # fmt: skip
    _define(_name, "a b", "binary", pto=f"pto.{_pto}", scalar=f"pto.{_pto}s", **IN_PLACE)
for _name in ("exp", "log", "sqrt", "recip", "neg", "abs", "relu"):
    _define(_name, "x", "unary", pto=f"pto.t{_name}", **IN_PLACE)
_define("rsqrt", "x", "unary", pto="pto.trsqrt", **IN_PLACE)
_define("cast", "x / dtype mode=rint", "cast", pto="pto.tcvt", where="both", **IN_PLACE)
_define("full", "shape value / dtype", "full", pto="pto.texpands", **V)
_define("arange", "size start=? / dtype", "arange", pto="pto.tci", **V)

# --- rows and columns
for _fn in ("sum", "max", "min"):
    _define(f"row_{_fn}", "x", "row_reduce", pto=f"pto.trow{_fn}", tmp="same", **V)
    _define(f"col_{_fn}", "x", "col_reduce", pto=f"pto.tcol{_fn}", **V)
for _fn in ("add", "sub", "mul", "div", "max", "min"):
    _define(f"row_expand_{_fn}", "x rows", "row_expand", pto=f"pto.trowexpand{_fn}", **V)
    _define(f"col_expand_{_fn}", "x cols", "col_expand", pto=f"pto.tcolexpand{_fn}", **V)
_define("row_expand", "like rows", "expand_row", pto="pto.trowexpand", **V)
_define("col_expand", "like cols", "expand_col", pto="pto.tcolexpand", **V)
_define("reshape", "x shape", "reshape", where="both", **V)
_define("transpose", "x", "transpose", pto="pto.ttrans", tmp="same", where="both", **V)
_define("concat", "a b", "concat", pto="pto.tconcat", **V)
_define("fillpad", "x / pad", "fillpad", pto="pto.tfillpad", **V)

# --- comparing, choosing, sorting
_define("cmp", "a b / mode", "cmp", pto="pto.tcmp", scalar="pto.tcmps", **V)
_define("select", "mask a b", "select", pto="pto.tsel", tmp="same", where="both", **V)
_define("gather", "x indices", "gather", pto="pto.tgather", tmp="index", **V)
_define("gather_mask", "x / pattern dtype=", "gather_mask", pto="pto.tgather", **V)
_define("sort32", "x indices", "sort32", pto="pto.tsort32", **V)
_define("mrgsort", "x block_len", "mrgsort", pto="pto.tmrgsort", **V)

# --- the cube core
C = {"side": "cube"}
_define("matmul", "a b", "matmul", pto="pto.tmatmul", **C)
_define("matmul_acc", "acc a b", "matmul_acc", pto="pto.tmatmul.acc", **C)

# --- where a kernel runs
for _name in ("get_block_idx", "get_block_num", "get_subblock_idx"):
    _define(_name, "", "launch_id")

# --- numbers
EVERYWHERE = "kernel orchestration host"
_define("min", "a b", "scalar", where=EVERYWHERE)
_define("max", "a b", "scalar", where=EVERYWHERE)
_define("cdiv", "a b", "scalar", where=EVERYWHERE)
_define("dim", "tensor axis", "dim", where=EVERYWHERE)

# --- tensors of an orchestration
_define("create_tensor", "shape / dtype", "create_tensor", where="orchestration host")
_define("slice", "tensor shape offsets", "slice", where="orchestration host")
_define("no_task", "", "no_task", where="orchestration")
_define("dummy_task", "deps", "dummy_task", where="orchestration")

# --- ranks: what `pypto_build.compiler.language.distributed` calls pld
SYSTEM, TENSOR, TILE = ({"prefix": f"pld.{part}"} for part in ("system", "tensor", "tile"))
_define("get_comm_ctx", "window", "get_comm_ctx", **SYSTEM)
_define("rank", "ctx", "rank", **SYSTEM)
_define("nranks", "ctx", "rank", **SYSTEM)
_define("notify", "target peer offsets value / op", "notify", **SYSTEM)
_define("wait", "signal offsets expected / cmp", "wait", **SYSTEM)
_define("remote_load", "target peer offsets shape valid_shape=? / space=", "remote_load", **TILE)
_define("remote_store", "src_tile target peer offsets / atomic=", "remote_store", **TILE)
_define(
    "tensor_remote_store", "src target peer offsets / atomic=", "tensor_remote_store", word="remote_store", **TENSOR
)
_STAGED = "chunk_rows=0 chunk_cols=0 pipeline=0"
for _name, _more in (("put", "atomic="), ("get", "")):
    _define(
        _name, f"dst peer src dst_offsets=? src_offsets=? shape=? / {_more} {_STAGED}", "transfer",
        pto=f"pto.comm.t{_name}", **V, **TENSOR,
    )  # fmt: skip
#: Operations that must wait until the other cores of a task have come so far.
TO_RANKS = ("notify", "put", "get")
for _name in ("barrier", "allreduce", "reduce_scatter", "broadcast", "allgather", "all_to_all", "all_to_all_v"):
    _define(_name, "", "", where="kernel host", **TENSOR)  # see collectives.py
_define("world_size", "", "world_size", where="host", **SYSTEM)
_define("alloc_window_buffer", "shape / dtype=", "alloc_window_buffer", where="host", **TENSOR)
_define("window", "buffer shape / dtype", "window", where="host", **TENSOR)
_define("index", "tensor indices", "index", where="host", prefix="")

# operators of the language, by the names the front end gives them
OPERATORS = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "div", "FloorDiv": "floordiv", "Mod": "mod",
    "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge", "Eq": "eq", "NotEq": "ne", "And": "and", "Or": "or",
    "Not": "not", "USub": "neg", "BitAnd": "bitwise_and", "BitOr": "bitwise_or", "LShift": "shl", "RShift": "shr",
}  # fmt: skip
#: Infix operators of C++ and Python alike.
INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "eq": "==", "ne": "!=", "bitwise_and": "&", "bitwise_or": "|", "shl": "<<", "shr": ">>",
}  # fmt: skip
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
