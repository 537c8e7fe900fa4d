"""Operations that compute nothing: control flow, synchronisation, pipes between cores, communication of devices."""

from __future__ import annotations

from .spec import Instruction, define, instruction

# Communication between devices and asynchronous transfers.

ATOMIC = "atomicType=enum(atomic_none|atomic_add)"
CMP = "cmp=enum(eq|ne|gt|ge|lt|le)"
_REDUCE = "reduceOp=enum(sum|max|min)"
_SESSION = "sync_id=int block_bytes=int comm_block_offset=int queue_num=int channel_group_idx=int"

for _name in ("tput", "tget"):
    define(
        f"pto.comm.{_name}", "dst:part=w src:part buffers*:tile@vec=s", formats="P(dst,src,buf(buffers)) {}",
        attrs=ATOMIC, rules="moved(dst,src) staged(buffers,src)", family="comm", fn=_name,
    )  # fmt: skip
define(
    "pto.comm.tnotify", "signal:part=rw value:int", formats="P(signal,value) {}", attrs="notifyOp=enum(atomic_add|set)",
    rules="signal", family="comm", fn="notify",
)  # fmt: skip
for _name, _results in (("wait", 0), ("test", 1)):
    define(
        f"pto.comm.t{_name}", "signal:part value:int", formats=f"P(signal,value) {{}}{' -> T=' * _results}", attrs=CMP,
        rules="signal", results=_results, family="comm", fn=_name,
    )  # fmt: skip
for _name in ("tbroadcast", "tgather", "tscatter"):
    define(
        f"pto.comm.{_name}", f"data:part={'w' if _name == 'tgather' else 'r'} recv*:tile@vec=s group*:part=rw",
        formats="P(data,recv(recv),group(group)) {}", attrs="root=int", rules="group staged(recv,group)", family="comm",
        fn=_name,
    )  # fmt: skip
define(
    "pto.comm.treduce", "data:part=w acc:tile@vec=s recv*:tile@vec=s group*:part",
    formats="P(data,acc,recv(recv),group(group)) {}", attrs=f"root=int {_REDUCE}",
    rules="group staged(recv,group) staged(acc,group)", family="comm", fn="treduce",
)  # fmt: skip
for _prefix in ("pto.", "pto.comm."):
    define(
        f"{_prefix}build_async_session", "scratch:tile workspace:any", formats="P(scratch,workspace) {} -> T=",
        attrs=_SESSION, results=1, family="async", fn="session",
    )  # fmt: skip
    for _name in ("tput_async", "tget_async"):
        define(
            f"{_prefix}{_name}", "dst:any=w src:any session:any", formats="P(dst,src,session) {} -> T=", results=1,
            rules="moved(dst,src) awaited", family="async", fn=_name,
        )  # fmt: skip
    for _name in ("wait_async_event", "test_async_event"):
        define(
            f"{_prefix}{_name}", "event:any session:any", formats="P(event,session) {} -> T=", results=1,
            family="async", fn=_name,
        )  # fmt: skip
define(
    "pto.make_prefetch_async_context", "workspace:ptr", formats="P(workspace) {} -> T=", results=1, family="async",
    fn="context",
)  # fmt: skip
define(
    "pto.get_prefetch_async_session", "context:any", formats="$context : T$context -> T=", results=1, family="async",
    fn="prefetch_session",
)  # fmt: skip
define(
    "pto.tprefetch_async", "src:any context:any", formats="P(src,context) {} -> T=", results=1, family="async",
    fn="prefetch",
)  # fmt: skip

_SHARED = ("TPUT", "TGET", "TNOTIFY", "TWAIT", "TTEST")
for _name, _form, _does in (
    ("TPUT", "global, global, tile, atomic", "copies to another rank's memory; also adds atomically"),
    ("TGET", "global, global, tile", "copies from another rank's memory"),
    ("TNOTIFY", "signal, value, op", "sets or adds to a signal, atomically"),
    ("TWAIT", "signal, value, comparison", "waits until the comparison holds"),
    ("TTEST", "signal, value, comparison", "whether the comparison holds"),
    ("SYNCALL", "", "waits for every core of the task"),
    ("TBROADCAST", "group, global, stage", "copies to every rank"),
    ("TREDUCE", "group, global, stage, stage, op", "the sum, max or min over the ranks, in their order"),
    ("TPUT_ASYNC", "global, global, session, peer", "copies to another rank's memory, when its event is waited for"),
    ("TGET_ASYNC", "global, global, session, peer", "copies from another rank's memory, when its event is waited for"),
    ("TPREFETCH_ASYNC", "global, session", "nothing: the CPU has caches of its own"),
):
    instruction(
        Instruction("should" if _name in _SHARED else "rest", _does, (), _name, "communication", (_form,)),
        types="any; signals: i32", memory="global", pipe="S", writes=(),
    )  # fmt: skip
instruction(
    Instruction("rest", "nothing: what it waits for is complete on the CPU", (), "TSYNC", "communication"),
    forms=("", "event"), types="any", memory="any", pipe="all", writes=(),
)  # fmt: skip


# Cross-core pipes: a cube core and its vector cores exchange tiles through rings of slots.
# `to_aiv` / `from_aic` is cube to vector (dir_mask 1), `to_aic` / `from_aiv` vector to cube (dir_mask 2). `split` is
# 0 none, 1 rows in halves, 2 columns in halves, 3 and 4 the same with odd extents.

PIPE = "id=int dir_mask!=int slot_size!=int slot_num=int local_slot_num=int flag_base=int nosplit=bool"
TRAFFIC = "id=int split!=int lane_stride=int"

for _core in ("aic", "aiv"):
    define(
        f"pto.{_core}_initialize_pipe", "gm_slot_buffer?:any c2v_consumer_buf?:int v2c_consumer_buf?:int",
        formats="{} [? K(gm_slot_buffer,gm_slot_tensor,c2v_consumer_buf,v2c_consumer_buf) ?]",
        attrs=PIPE, family="pipe", fn="open", core="cube" if _core == "aic" else "vector",
    )  # fmt: skip
for _way in ("l2l", "l2g2l"):
    define(
        f"pto.initialize_{_way}_pipe", "args*:any", formats="{} P(args) -> T=", attrs=PIPE, results=1, family="pipe",
        fn=f"open_{_way}",
    )  # fmt: skip
define(
    "pto.reserve_buffer", formats="{} -> T=", results=1, family="pipe", fn="reserve",
    attrs="name!=str size!=int location!=any auto=bool base=int",
)  # fmt: skip
define(
    "pto.import_reserved_buffer", formats="{} -> T=", results=1, family="pipe", fn="import",
    attrs="name!=str peer_func!=symbol",
)  # fmt: skip


def _traffic(name: str, fn: str, core: str, direction: str, ins: str, *formats: str) -> None:
    """Add an operation of one side of a pipe; a form without an entry operand returns the entry."""
    define(
        f"pto.{name}", ins, formats=formats, attrs=TRAFFIC, results=int(formats[0].endswith("T=")), family="pipe",
        fn=fn, core=core, direction=direction,
    )  # fmt: skip


for _to, _from, _producer, _consumer in (("aiv", "aic", "cube", "vector"), ("aic", "aiv", "vector", "cube")):
    _way, _extents = f"to_{_to}", "valid_row?:index valid_col?:index"
    _traffic(f"tpush_to_{_to}", "push", _producer, _way, "tile:entry", "P(tile) {}", "ins P(tile) {}")
    _traffic(f"talloc_to_{_to}", "acquire", _producer, _way, "", "{} -> T=")
    _traffic(f"tpop_from_{_from}", "pop", _consumer, _way, _extents, "[? N(valid_row,valid_col) ?] {} -> T=")
    _traffic(f"tfree_from_{_from}", "free", _consumer, _way, "entry?:entry", "[? P(entry) ?] {}")
# the same with the pipe as a value
define("pto.tpush", "tile:entry pipe:any", formats="P(tile,pipe) {}", attrs=TRAFFIC, family="pipe", fn="push")
define("pto.tpop", "tile:entry=w pipe:any", formats="P(tile,pipe) {}", attrs=TRAFFIC, family="pipe", fn="pop")
define("pto.talloc", "tile:entry=w pipe:any", formats="P(tile,pipe) {}", attrs=TRAFFIC, family="pipe", fn="acquire")
define("pto.tfree", "pipe:any", formats="P(pipe) {}", attrs=TRAFFIC, family="pipe", fn="free")

for _name, _form, _does in (
    ("TALLOC", "pipe, view", "waits for a free slot to write to"),
    ("TPUSH", "pipe, tile", "puts a tile, or the slot allocated, into the pipe; waits while it is full"),
    ("TPOP", "pipe, tile", "takes the oldest slot; waits while there is none"),
    ("TFREE", "pipe", "gives the oldest slot taken back to the producer"),
):
    instruction(
        Instruction("should" if _name != "TALLOC" else "rest", _does, (), _name, "pipes", (_form,), "any"),
        memory="Vec, Mat, Acc", pipe="MTE2, MTE3 or FIX", writes=("tile",) if _name == "TPOP" else (),
    )  # fmt: skip


# Control flow: loops, conditions, calls, returns, and regions for one core.

# scf.for, scf.if and scf.while have readers of their own; their roles and effects are defined here.
define(
    "scf.for", "lower:index upper:index step:index init*:any", formats="scf.for", results=-1, family="control", fn="for"
)
define("scf.if", "cond:bool", formats="scf.if", results=-1, family="control", fn="if")
define("scf.while", "init*:any", formats="scf.while", results=-1, family="control", fn="while")
define("scf.yield", "args*:any", formats="V:args", family="control", fn="yield")
define("scf.condition", "cond:bool args*:any", formats="~( $cond ) V:args", family="control", fn="condition")
for _name in ("func.call", "call"):
    define(
        _name, "args*:any", formats="A:callee ~( $args ) [? : F ?]", attrs="callee!=symbol", results=-1,
        family="control", fn="call",
    )  # fmt: skip
for _name in ("return", "func.return"):
    define(_name, "args*:any", formats="V:args", family="control", fn="return")
for _core in ("cube", "vector"):
    define(f"pto.section.{_core}", formats="R", family="control", fn="section", core=_core)


define("pto.barrier", formats="A:pipe", attrs="pipe=any", family="none", fn="barrier", cpp="pipe_barrier({pipe})")
define("pto.barrier_sync", formats="~[ A:op ]", attrs="op=any", family="none", fn="barrier")
for _name in ("set_flag", "wait_flag"):
    define(
        f"pto.{_name}", formats="~[ A:src , A:dst , A:event ]", attrs="src=any dst=any event=any",
        family="none", fn="flag", cpp=f"{_name}({{src}}, {{dst}}, {{event}})",
    )  # fmt: skip
    define(
        f"pto.{_name}_dyn", "event_id:index", formats="~[ A:src , A:dst , $event_id ]", attrs="src=any dst=any",
        family="none", fn="flag", cpp=f"{_name}({{src}}, {{dst}}, (event_t){{event_id}})",
    )  # fmt: skip
for _name in ("record_event", "wait_event"):
    define(
        f"pto.{_name}", formats="~[ A:src , A:dst , A:event ]", attrs="src=any dst=any event=any", family="none",
        fn="event",
    )  # fmt: skip
for _name in ("get_buf", "rls_buf"):
    define(
        f"pto.{_name}", formats="~[ A:op , A:buffer ]", attrs="op=any buffer=any mode=any", family="none", fn="buffer"
    )
define("pto.tsync", "values*:any", family="none", fn="barrier")
define("pto.auto_sync_tail_hint", formats="{}", attrs="mode=any", family="none", fn="hint")
define("pto.set_ffts", "addr:any", formats="$addr : T$addr", family="none", fn="ffts")
for _name in ("sync.set", "sync.wait"):
    define(
        f"pto.{_name}", ("", "event_id:index"), formats=("A:pipe , A:event {}", "A:pipe , $event_id {}"),
        attrs="pipe=any event=any mode=any ffts_mode=any", family="crosscore", fn=_name[5:],
    )  # fmt: skip
define(
    "pto.syncall", "operands*:any", formats="P(operands) mode = A:mode , core_type = A:core_type",
    attrs="mode=enum(hard|soft) core_type=enum(mix|aiv_only|aic_only)", family="crosscore", fn="all",
)  # fmt: skip
define("pto.fence.barrier_all", formats="[? A:scope ?] {}", attrs="scope=any", family="fence", fn="all")
define(
    "pto.cmo.cacheinvalid", ("", "addr:any", "addr:any"),
    formats=("all A:space {}", "$addr W:range : T$addr {}", "$addr : T$addr {}"),
    attrs="space=any range=enum(single_cache_line)", family="fence", fn="cache",
)  # fmt: skip
define("pto.trap", formats="{}", family="trap", cpp="trap()")
define("pto.declare_eventid_array", formats="-> T=", results=1, family="array", fn="declare")
define(
    "pto.eventid_array_get", "array:array index:index", formats="$array ~[ $index ] : T$array", results=1,
    result="index", family="array", fn="get",
)  # fmt: skip
define(
    "pto.eventid_array_set", "array:array=w index:index value:index", formats="$array ~[ $index ] , $value : T$array",
    family="array", fn="set",
)  # fmt: skip
for _name, _cpp in (
    ("get_block_idx", "get_block_idx()"), ("get_block_num", "get_block_num()"),
    ("get_subblock_idx", "get_subblockid()"), ("get_subblock_num", "get_subblockdim()"),
):  # fmt: skip
    define(f"pto.{_name}", formats="[? -> T= ?]", results=1, result="i64", family="core_id", fn=_name[4:], cpp=_cpp)
