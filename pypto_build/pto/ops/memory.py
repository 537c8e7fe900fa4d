"""Views of global memory, tiles and their metadata, and the operations that move data between memories."""

from __future__ import annotations

from .spec import define

ADDRESS = "addr?:int valid_row?:index valid_col?:index"

# --- views of global memory
define(
    "pto.make_tensor_view", "ptr:ptr=r shape*:index strides*:index",
    formats="$ptr , shape = [ $shape ] , strides = [ $strides ] {} : T=",
    attrs="layout=enum(nd|dn|nz)", results=1, rule="tensor_view", family="view", fn="tensor",
)  # fmt: skip
define(
    "pto.partition_view", "view:view offsets*:index sizes*:index",
    formats="$view , offsets = [ $offsets ] , sizes = [ $sizes ] {} : T$view [? -> T= ?]",
    results=1, rule="partition", family="view", fn="partition",
)  # fmt: skip
define(
    "pto.get_tensor_view_dim", "view:view dim:index",
    formats="$view , $dim : T$view -> T=", results=1, family="view", fn="dim",
)  # fmt: skip
define(
    "pto.addptr", "ptr:ptr offset:index", formats="$ptr , $offset : T$ptr -> T=", results=1, family="pointer", fn="add"
)
for _name in ("castptr", "inttoptr", "ptrtoint"):
    define(f"pto.{_name}", "src:any", formats="$src : T$src -> T=", results=1, family="pointer", fn="cast")
define("pto.declare_global", formats="-> T=", results=1, family="view", fn="declare")

# --- tiles
define(
    "pto.alloc_tile", ADDRESS,
    formats="[? addr = $addr ?] [? valid_row = $valid_row ?] [? valid_col = $valid_col ?] {} : T=",
    results=1, rule="alloc", family="tile", fn="alloc",
)  # fmt: skip
define("pto.tile_buf_addr", "tile:tile", formats="$tile : T$tile -> T=", results=1, family="tile", fn="address")
define("pto.declare_tile", formats="-> T=", results=1, family="tile", fn="declare")
define(
    "pto.alloc_multi_tile",
    ADDRESS,
    formats="[? addr = $addr ?] [? valid_row = $valid_row ?] [? valid_col = $valid_col ?] {} : T=",
    results=1,
    family="tile",
    fn="alloc_multi",
)
define(
    "pto.multi_tile_get", "tiles:tiles slot:index",
    formats="$tiles ~[ $slot ] : T$tiles -> T=", results=1, family="tile", fn="slot",
)  # fmt: skip
define(
    "pto.subview", ("src:tile offsets*:index valid*:index", "view:view offsets*:index"),
    formats=(
        "$src ~[ $offsets ] sizes I:sizes [? valid [ $valid ] ?] : T$src [? -> T= ?]",
        "$view , offsets = [ $offsets ] , sizes = I:sizes : T$view -> T=",
    ),
    attrs="sizes=any", results=1, result="$src", rule="subview", family="tile", fn="subview",
)  # fmt: skip
define(
    "pto.subset", "src:tile offsets*:index", formats="$src ~[ $offsets ] sizes I:sizes : T$src",
    attrs="sizes=any", results=1, result="$src", family="tile", fn="subview",
)  # fmt: skip
define(
    "pto.treshape", "src:tile", formats="$src : T$src -> T=", results=1, rule="bytes", family="tile", fn="reinterpret"
)
define(
    "pto.bitcast", "src:tile", formats="$src : T$src -> T=", results=1, rule="bytes", family="tile", fn="reinterpret"
)
define("pto.tassign", "src:tile addr:int", formats="$src , $addr : T$src -> T=", results=1, family="tile", fn="assign")
define(
    "pto.set_validshape",
    "tile:tile row:index col:index",
    formats="$tile , $row , $col : T$tile",
    family="tile",
    fn="set_valid",
)
define(
    "pto.get_validshape",
    "tile:tile",
    formats="$tile : T$tile",
    results=2,
    result="index",
    family="tile",
    fn="get_valid",
)
define(
    "pto.tgetval", "tile:tile@vec offset:index", formats="ins ~( $tile , $offset : T$tile,offset ) outs : T=",
    results=1, family="element", fn="get",
)  # fmt: skip
define(
    "pto.tsetval",
    "offset:index value:scalar",
    "tile:tile@vec=rw",
    family="element",
    fn="set",
    cpp="{tile}.SetValue({offset}, {value})",
)

# --- scalars in memory
define(
    "pto.load_scalar", "ptr:ptr=r index:index",
    formats="$ptr ~[ $index ] : T$ptr -> T=", results=1, family="scalar", fn="load",
)  # fmt: skip
define(
    "pto.store_scalar", "value:scalar ptr:ptr=w index:index",
    formats="$value , $ptr ~[ $index ] : T$ptr , T$value", family="scalar", fn="store",
)  # fmt: skip
define("pto.declare_local_array", formats="-> T=", results=1, family="array", fn="declare")
define(
    "pto.local_array_get", "array:array indices*:index",
    formats="$array ~[ $indices ] : T$array -> T=", results=1, family="array", fn="get",
)  # fmt: skip
define(
    "pto.local_array_set", "array:array=w indices*:index value:scalar",
    formats="$array ~[ $indices ] , $value : T$array , T$value", family="array", fn="set",
)  # fmt: skip

# --- data movement
STORE = (
    "stPhase=enum(unspecified|partial|final) atomicType=enum(atomic_none|atomic_add) "
    "reluPreMode=enum(no_relu|normal_relu) layout=enum(nd|dn|nz) pto.inferred_layout=bool"
)
ACC_TO_VEC = "accToVecMode=enum(single_mode_vec0|single_mode_vec1|dual_mode_split_m|dual_mode_split_n)"
RELU = "reluPreMode=enum(no_relu|normal_relu)"
define(
    "pto.tload", "src:part", "dst:tile@vec|mat|bias|scaling",
    attrs="layout=enum(nd|dn|nz) pto.inferred_layout=bool", rule="transfer", family="transfer", fn="load", cpp="TLOAD",
)  # fmt: skip
define(
    "pto.tstore", ("src:tile@vec|acc|mat", "src:tile@vec|acc|mat pre_quant:int"), "dst:part",
    attrs=STORE, rule="transfer", family="transfer", fn="store", cpp="TSTORE",
)  # fmt: skip
for _name in ("tstore_fp", "tstore.fp"):
    define(
        f"pto.{_name}", "src:tile@acc fp:tile@scaling", "dst:part",
        attrs=STORE, family="transfer", fn="store_fp", cpp="TSTORE_FP", core="cube",
    )  # fmt: skip
define("pto.tprefetch", "src:part", "dst:tile", family="none", fn="prefetch")
define(
    "pto.mgather", ("src:part idx:any", "src:part idx:any scratch:part"), "dst:tile@vec|mat",
    attrs="coalesce=enum(row|elem) gatherOob=enum(undefined|clamp|wrap|zero)", family="gather", fn="gm", cpp="MGATHER",
)  # fmt: skip
define(
    "pto.mscatter", "src:tile@vec idx:tile@vec", "dst:part",
    attrs=(
        "coalesce=enum(row|elem) scatterAtomicOp=enum(none|add|max|min) scatterOob=enum(undefined|skip|clamp|wrap) "
        "scatterConflict=enum(last|default)"
    ),
    family="scatter", fn="gm", cpp="MSCATTER",
)  # fmt: skip
define(
    "pto.tmov",
    ("src:tile", "src:tile pre_quant:any", "src:tile"),
    ("dst:tile", "dst:tile", "dst:tile pre_quant:int=r"),
    attrs=f"{ACC_TO_VEC} {RELU}",
    rule="move",
    family="move",
    fn="copy",
    cpp="TMOV",
)
define(
    "pto.tmov.fp",
    "src:tile@acc fp:tile@scaling",
    "dst:tile",
    attrs=RELU,
    family="move",
    fn="copy_fp",
    cpp="TMOV_FP",
    core="cube",
)
define(
    "pto.textract", ("src:tile row:index col:index", "src:tile row:index col:index pre_quant:int"), "dst:tile",
    attrs=f"{RELU} {ACC_TO_VEC}", rule="extract", family="move", fn="extract", cpp="TEXTRACT",
)  # fmt: skip
define(
    "pto.tinsert", "src:tile row:index col:index", "dst:tile=rw",
    attrs=f"{RELU} {ACC_TO_VEC} mode=any tinsertMode=any", rule="insert", family="move", fn="insert", cpp="TINSERT",
)  # fmt: skip
for _name, _cpp in (("textract_fp", "TEXTRACT_FP"), ("tinsert_fp", "TINSERT_FP")):
    _access = "" if _name[1] == "e" else "=rw"
    define(
        f"pto.{_name}", "src:tile fp:tile@scaling row:index col:index", f"dst:tile{_access}",
        attrs=f"{RELU} {ACC_TO_VEC}", family="move", fn=_name[1:], cpp=_cpp, core="cube",
    )  # fmt: skip
define(
    "pto.tprint",
    ("src:shaped", "src:shaped tmp:part"),
    attrs="printFormat=any",
    family="none",
    fn="print",
    cpp="TPRINT",
)
define("memref.alloc", formats="~( ) {} : T=", results=1, family="tile", fn="alloc")
define("memref.dealloc", "src:any", formats="$src : T$src", family="none", fn="dealloc")
