"""Synchronisation of a core's own pipelines, between cores, and with caches; and the numbers that identify a core."""

from __future__ import annotations

from .spec import define

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
