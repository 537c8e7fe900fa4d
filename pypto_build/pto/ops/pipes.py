"""Cross-core pipes: a cube core and its vector cores exchange tiles through rings of slots.

`to_aiv` / `from_aic` is cube to vector (dir_mask 1), `to_aic` / `from_aiv` vector to cube (dir_mask 2). `split` is 0
none, 1 rows in halves, 2 columns in halves, 3 and 4 the same with odd extents.
"""

from __future__ import annotations

from .instruction import Instruction, instruction
from .spec import define

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
    """A step of one side; those that take no entry give one."""
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
