"""Communication between devices and asynchronous transfers."""

from __future__ import annotations

from .instruction import Instruction, instruction
from .spec import define

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
