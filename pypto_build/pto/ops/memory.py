"""Views of global memory, tiles and their metadata, and the operations that move data between memories."""

from __future__ import annotations

from .spec import ANY, Instruction, define, instruction

_INTERNAL = "is a form that only ptoas itself makes between its passes; write"
ADDRESS = "addr?:int valid_row?:index valid_col?:index"

# --- views of global memory
define(
    "pto.make_tensor_view", "ptr:ptr=r shape*:index strides*:index",
    formats="$ptr , shape = [ $shape ] , strides = [ $strides ] {} : T=",
    attrs="layout=enum(nd|dn|nz)", results=1, rules="tensor_view", family="view", fn="tensor",
)  # fmt: skip
define(
    "pto.partition_view", "view:view offsets*:index sizes*:index",
    formats="$view , offsets = [ $offsets ] , sizes = [ $sizes ] {} : T$view [? -> T= ?]",
    results=1, rules="partition", family="view", fn="partition",
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

_ADDRESSES = {"group": "addresses", "pipe": "none", "writes": ()}
instruction(
    Instruction("must", "places a tile or a global tensor at an address", (), "TASSIGN", forms=("dst, address", "dst")),
    types="any", memory="any", **_ADDRESSES,
)  # fmt: skip
instruction(
    Instruction("should", "the bytes of src under another type or shape", (), "TRESHAPE", forms=("dst, src",)),
    types="any", memory="any", **_ADDRESSES,
)  # fmt: skip
instruction(
    Instruction("rest", "dst is the part of src that starts at (row, col)", (), "TSUBVIEW"),
    forms=("dst, src, row, col",), types="equal", memory="any, both in one", **_ADDRESSES,
)  # fmt: skip

# --- tiles
define(
    "pto.alloc_tile", ADDRESS,
    formats="[? addr = $addr ?] [? valid_row = $valid_row ?] [? valid_col = $valid_col ?] {} : T=",
    results=1, rules="alloc fractal not_empty", family="tile", fn="alloc",
)  # fmt: skip
define(
    "pto.tile_buf_addr", "tile:tile", formats="$tile : T$tile -> T=", results=1, family="tile", fn="address",
    refused=f"{_INTERNAL} the operation on the tile",
)  # fmt: skip
define("pto.declare_tile", formats="-> T=", results=1, family="tile", fn="declare")
define(
    "pto.alloc_multi_tile", ADDRESS,
    formats="[? addr = $addr ?] [? valid_row = $valid_row ?] [? valid_col = $valid_col ?] {} : T=", results=1,
    rules="several_tiles", family="tile", fn="alloc_multi",
)  # fmt: skip
define(
    "pto.multi_tile_get", "tiles:tiles slot:index",
    formats="$tiles ~[ $slot ] : T$tiles -> T=", results=1, rules="slot_there", family="tile", fn="slot",
)  # fmt: skip
define(
    "pto.subview", ("src:tile offsets*:index valid*:index", "view:view offsets*:index"),
    formats=(
        "$src ~[ $offsets ] sizes I:sizes [? valid [ $valid ] ?] : T$src [? -> T= ?]",
        "$view , offsets = [ $offsets ] , sizes = I:sizes : T$view -> T=",
    ),
    attrs="sizes=any", results=1, result="$src", rules="subview window_valid", family="tile", fn="subview",
)  # fmt: skip
define(
    "pto.subset", "src:tile offsets*:index", formats="$src ~[ $offsets ] sizes I:sizes : T$src",
    attrs="sizes=any", results=1, result="$src", family="tile", fn="subview",
)  # fmt: skip
for _name in ("treshape", "bitcast"):
    define(
        f"pto.{_name}", "src:tile", formats="$src : T$src -> T=", results=1, rules="bytes", family="tile",
        fn="reinterpret",
    )  # fmt: skip
define("pto.tassign", "src:tile addr:int", formats="$src , $addr : T$src -> T=", results=1, family="tile", fn="assign")
define(
    "pto.set_validshape", "tile:tile row:index col:index", formats="$tile , $row , $col : T$tile", rules="resized",
    family="tile", fn="set_valid",
)  # fmt: skip
define(
    "pto.get_validshape", "tile:tile", formats="$tile : T$tile", results=2, result="index", family="tile",
    fn="get_valid",
)  # fmt: skip
define(
    "pto.tgetval", "tile:tile@vec offset:index", formats="ins ~( $tile , $offset : T$tile,offset ) outs : T=",
    results=1, rules="element", family="element", fn="get",
)  # fmt: skip
define(
    "pto.tsetval", "offset:index value:scalar", "tile:tile@vec=rw", family="element", fn="set",
    cpp="{tile}.SetValue({offset}, {value})",
)  # fmt: skip

# --- scalars in memory
define(
    "pto.load_scalar", "ptr:ptr=r index:index",
    formats="$ptr ~[ $index ] : T$ptr -> T=", results=1, family="scalar", fn="load",
)  # fmt: skip
define(
    "pto.store_scalar", "value:scalar ptr:ptr=w index:index",
    formats="$value , $ptr ~[ $index ] : T$ptr , T$value", rules="stored_scalar", family="scalar", fn="store",
)  # fmt: skip
define("pto.declare_local_array", formats="-> T=", results=1, family="array", fn="declare")
define(
    "pto.local_array_get", "array:array indices*:index",
    formats="$array ~[ $indices ] : T$array -> T=", results=1, family="array", fn="get",
)  # fmt: skip
define(
    "pto.local_array_set", "array:array=w indices*:index value:scalar",
    formats="$array ~[ $indices ] , $value : T$array , T$value", rules="stored_scalar", family="array", fn="set",
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
    attrs="layout=enum(nd|dn|nz) pto.inferred_layout=bool", rules="transfer", family="transfer", fn="load", cpp="TLOAD",
    runs=Instruction(
        "must", "the valid region from global memory; the rest is padded", ANY, group="global memory",
        forms=("dst, global",), types="any, of one size; fp4 to Vec", memory="Vec, Mat", pipe="MTE2",
    ),
)  # fmt: skip
define(
    "pto.tstore", ("src:tile@vec|acc|mat", "src:tile@vec|acc|mat pre_quant:int"), "dst:part",
    attrs=STORE, rules="transfer a5:not_from_mat stored", family="transfer", fn="store", cpp="TSTORE",
    runs=Instruction(
        "must",
        "the valid region to global memory; AtomicAdd adds atomically; the accumulator is converted on the way", ANY,
        group="global memory", forms=("global, src", "global, src, scale"), memory="Vec, Mat, Acc",
        types="any, of one size; fp4 from Vec; Acc: floats to floats, i32 or float to 8 and 16 bits with a scale",
        pipe="MTE3 (Acc: FIX)", writes=(),
    ),
)  # fmt: skip
for _name, _runs in (
    ("tstore_fp", Instruction("rest", "TSTORE with a scale for each column", group="global memory",
                              forms=("global, src, scales",), types="Acc to 8 or 16 bits", memory="Acc", pipe="FIX",
                              writes=())),
    ("tstore.fp", None),
):  # fmt: skip
    define(
        f"pto.{_name}", "src:tile@acc fp:tile@scaling", "dst:part",
        attrs=STORE, family="transfer", fn="store_fp", cpp="TSTORE_FP", core="cube", runs=_runs,
    )  # fmt: skip
define("pto.tprefetch", "src:part", "dst:tile", family="none", fn="prefetch")
instruction(
    Instruction("rest", "TLOAD, without padding", ANY, "TPREFETCH", "global memory", ("dst, global",)),
    types="any, of one size", memory="Vec, Mat", pipe="MTE2",
)  # fmt: skip


def _moves(rank: str, does: str, places: str = "") -> Instruction:
    """Add an instruction that moves data between memories, with or without a scale."""
    return Instruction(
        rank, does, ANY, group="moves", forms=(f"dst, src{places}", f"dst, src, scale{places}"),
        types="equal; from Acc: floats among each other, i32 or float to 8 and 16 bits with a scale",
        memory="Vec, Mat, Left, Right, Acc, Bias, Scaling", pipe="V, MTE1 or FIX",
    )  # fmt: skip


def _scales(does: str, places: str = "") -> Instruction:
    """Add an instruction that moves data from the accumulator, with a scale for each column."""
    return Instruction(
        "rest", f"{does} with a scale for each column", group="moves", forms=(f"dst, src, scales{places}",),
        types="Acc to 8 or 16 bits", memory="Acc", pipe="FIX",
    )  # fmt: skip


define(
    "pto.tmov", ("src:tile", "src:tile pre_quant:any", "src:tile"),
    ("dst:tile", "dst:tile", "dst:tile pre_quant:int=r"),
    attrs=f"{ACC_TO_VEC} {RELU}", rules="move", family="move", fn="copy", cpp="TMOV",
    runs=_moves("must", "dst = src, between memories and layouts; from Acc with conversion"),
)  # fmt: skip
define(
    "pto.tmov.fp", "src:tile@acc fp:tile@scaling", "dst:tile",
    attrs=RELU, family="move", fn="copy_fp", cpp="TMOV_FP", core="cube", runs=_scales("TMOV"),
)  # fmt: skip
define(
    "pto.textract", ("src:tile row:index col:index", "src:tile row:index col:index pre_quant:int"), "dst:tile",
    attrs=f"{RELU} {ACC_TO_VEC}", rules="extract extracted", family="move", fn="extract", cpp="TEXTRACT",
    runs=_moves(
        "must", "dst = the part of src that starts at (row, col), between memories and layouts", ", row, col"
    ),
)  # fmt: skip
define(
    "pto.textract_fp", "src:tile fp:tile@scaling row:index col:index", "dst:tile",
    attrs=f"{RELU} {ACC_TO_VEC}", family="move", fn="extract_fp", cpp="TEXTRACT_FP", core="cube",
    runs=_scales("TEXTRACT", ", row, col"),
)  # fmt: skip
define(
    "pto.tinsert", "src:tile row:index col:index", "dst:tile=rw",
    attrs=f"{RELU} {ACC_TO_VEC} mode=any tinsertMode=any", rules="insert", family="move", fn="insert", cpp="TINSERT",
    runs=_moves("should", "puts src into dst, starting at (row, col)", ", row, col"),
)  # fmt: skip
define(
    "pto.tinsert_fp", "src:tile fp:tile@scaling row:index col:index", "dst:tile=rw",
    attrs=f"{RELU} {ACC_TO_VEC}", family="move", fn="insert_fp", cpp="TINSERT_FP", core="cube",
    runs=_scales("TINSERT", ", row, col"),
)  # fmt: skip
define(
    "pto.tprint",
    ("src:shaped", "src:shaped tmp:part"),
    attrs="printFormat=any",
    family="none",
    fn="print",
    cpp="TPRINT",
    runs=Instruction(
        "rest",
        "prints a matrix",
        group="communication",
        forms=("tile", "tile, tmp", "global"),
        types="any",
        pipe="S",
        writes=(),
    ),
)

define(
    "pto.print", "scalar:scalar", formats="ins ( A:format , $scalar : T$scalar )", attrs="format!=any",
    family="print", fn="print",
)  # fmt: skip

# --- tiles as MLIR has them
define("memref.alloc", formats="~( ) {} : T=", results=1, family="tile", fn="alloc")
define("memref.dealloc", "src:any", formats="$src : T$src", family="none", fn="dealloc")
