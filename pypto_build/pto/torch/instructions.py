"""Tile instructions: for most a row with the expression that the destination is assigned."""

from __future__ import annotations

from ..attributes import EnumAttr, IntAttr, StrAttr, case_of, int_value
from ..model import Operation
from ..ops import TABLE
from ..types import ScalarType, TileType, Type
from . import dtypes
from .scalars import rounded, wrapped
from .writer import Unsupported, Writer

# function -> expression of floats, expression of integers; a and b are what the operands hold
_BINARY: dict[str, tuple[str, str]] = {
    "add": ("{a} + {b}", "{a} + {b}"),
    "sub": ("{a} - {b}", "{a} - {b}"),
    "mul": ("{a} * {b}", "{a} * {b}"),
    "div": ("{a} / {b}", "divide({a}, {b})"),
    "max": ("torch.maximum({a}, {b})",) * 2,
    "min": ("torch.minimum({a}, {b})",) * 2,
    "fmod": ("torch.fmod({a}, {b})", "fmod({a}, {b})"),
    "rem": ("remainder({a}, {b})",) * 2,
    "pow": ("power({a}, {b})",) * 2,
    "and": ("", "{a} & {b}"),
    "or": ("", "{a} | {b}"),
    "xor": ("", "{a} ^ {b}"),
    "shl": ("", "shift_left({a}, {b}, {bits})"),
    "shr": ("", "shift_right({a}, {b}, {bits})"),
    "prelu": ("torch.where({a} > 0, {a}, {a} * {b})",) * 2,
    "expdif": ("torch.exp({a} - {b})", ""),
    "axpy": ("torch.add({d}, {a}, alpha={b})",) * 2,
}  # fmt: skip
# with a number instead of the second tile, where that is written otherwise
_WITH_SCALAR: dict[str, tuple[str, str]] = {
    "max": ("{a}.clamp(min={b})",) * 2,
    "min": ("{a}.clamp(max={b})",) * 2,
    "fmod": ("torch.fmod({a}, {b})", "fmod({a}, torch.tensor({b}))"),
    "div": ("{a} / {b}", "divide({a}, torch.tensor({b}))"),
    "rem": ("remainder({a}, torch.tensor({b}))",) * 2,
    "pow": ("power({a}, torch.tensor({b}))",) * 2,
    "shl": ("", "shift_left({a}, torch.tensor({b}), {bits})"),
    "shr": ("", "shift_right({a}, torch.tensor({b}), {bits})"),
}
_UNARY: dict[str, tuple[str, str]] = {
    "abs": ("torch.abs({a})",) * 2,
    "neg": ("-{a}",) * 2,
    "exp": ("torch.exp({a})", ""),
    "log": ("torch.log({a})", ""),
    "sqrt": ("torch.sqrt({a})", ""),
    "rsqrt": ("torch.rsqrt({a})", ""),
    "recip": ("torch.reciprocal({a})", ""),
    "relu": ("torch.relu({a})",) * 2,
    "not": ("", "~{a}"),
}


def element(w: Writer, op: Operation, role: str = "dst") -> Type:
    return w.tile_type(op, role).dtype


def _form(rows: dict[str, tuple[str, str]], fn: str, type_: Type) -> str:
    """The expression of a function for an element type."""
    name = dtypes.name_of(type_)
    if name not in dtypes.FLOATS and dtypes.is_float(type_):
        raise Unsupported(f"arithmetic on {type_}")
    found = rows[fn][0 if dtypes.is_float(type_) else 1]
    if not found:
        raise Unsupported(f"on elements of type {type_}")
    return found


def scalar(w: Writer, op: Operation, role: str = "scalar", type_: Type | None = None) -> str:
    """A number operand, converted to the tile's element type where it has another."""
    value, text = w.value(op, role), w.operand(op, role)
    type_ = type_ or element(w, op)
    if isinstance(value.type, TileType):
        return f"{text}[1, 1]"
    if value.constant is not None or value.type == type_ or not isinstance(value.type, ScalarType):
        return f"float({text})" if dtypes.is_float(type_) and text.lstrip("-").isdigit() else _fit(text, type_)
    if dtypes.is_float(type_):
        return rounded(text, type_)
    return wrapped(f"int({text})" if dtypes.is_float(value.type) else text, type_)


def _fit(text: str, type_: Type) -> str:
    """A constant within the range of an unsigned type."""
    if dtypes.is_unsigned(type_) and text.startswith("-") and text[1:].isdigit():
        return str(int(text) % (1 << dtypes.bits(type_)))
    return text


def assign(w: Writer, op: Operation, expression: str, role: str = "dst") -> None:
    w.add(op, f"{w.operand(op, role)}[:] = {expression}")


def _within(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def elementwise(w: Writer, op: Operation) -> None:
    """Of one tile, two tiles, or a tile and a number, over the destination's valid region."""
    fn, type_ = TABLE[op.name].fn, element(w, op)
    more = {"bits": str(dtypes.bits(type_)), "dtype": dtypes.torch_dtype(type_)}
    if "scalar" in op.operands:
        number, src = _within(scalar(w, op)), w.read(op, "src")
        if fn == "axpy":
            form = _form(_BINARY, fn, type_).format(d=f"{w.operand(op, 'dst')}[:]", a=src, b=number, **more)
        elif next(iter(op.operands)) == "scalar":  # number / tile
            form = _form(_BINARY, fn, type_).format(a=_tensor(number, type_), b=src, **more)
        else:
            rows = _WITH_SCALAR if fn in _WITH_SCALAR else _BINARY
            form = _form(rows, fn, type_).format(a=src, b=number, **more)
        assign(w, op, form)
        return
    if "src1" in op.operands:
        a, b = w.read(op, "src0"), w.read(op, "src1")
        assign(w, op, _form(_BINARY, fn, type_).format(a=a, b=b, **more))
        return
    assign(w, op, _form(_UNARY, fn, type_).format(a=w.read(op, "src")))


def _tensor(number: str, type_: Type) -> str:
    """A number as the left operand: dividing it by a tile of integers needs a tensor."""
    return number if dtypes.is_float(type_) else f"torch.tensor({number})"


def ternary(w: Writer, op: Operation) -> None:
    """src0 + src1 + src2, or src0 - src1 + src2; the second one may be a number."""
    first = "-" if TABLE[op.name].fn.startswith("sub") else "+"
    middle = _within(scalar(w, op)) if "scalar" in op.operands else w.read(op, "src1")
    last = w.read(op, "src1" if "scalar" in op.operands else "src2")
    assign(w, op, f"{w.read(op, 'src0')} {first} {middle} + {last}")


def fill(w: Writer, op: Operation) -> None:
    assign(w, op, scalar(w, op))


def sequence(w: Writer, op: Operation) -> None:
    start, type_ = w.operand(op, "start"), w.tile_type(op, "dst")
    sign = "-" if int_value(op.attrs.get("descending")) else "+"
    count = f"{w.operand(op, 'dst')}.valid[1]"
    known = w.resolved.extents(w.value(op, "dst"))[1]
    steps = f"torch.arange({count if known is None else known})"
    if type_.rows > 1 and type_.blayout == "row_major":
        w.add(op, f"{w.operand(op, 'dst')}[:] = ({start} {sign} {steps})[None]")
        return
    assign(w, op, f"({start} {sign} {steps})[None]")


def triangle(w: Writer, op: Operation) -> None:
    dst = w.operand(op, "dst")
    function = "triu" if int_value(op.attrs.get("upperOrLower")) else "tril"
    diagonal = w.operand(op, "diagonal")
    assign(w, op, f"torch.ones({dst}.valid).{function}({diagonal})")


def random(w: Writer, op: Operation) -> None:
    words = [f"natural({w.operand(op, role)}, 32)" for role in ("key0", "key1", "ctr0", "ctr1", "ctr2", "ctr3")]
    dst, rounds = w.operand(op, "dst"), int_value(op.attrs.get("rounds"), 10)
    key, counter = ", ".join(words[:2]), ", ".join(words[2:])
    assign(w, op, f"random_words({dst}.valid, ({key}), ({counter}), {rounds})")


_ROUND = {"RINT": "rint", "CAST_RINT": "rint", "ROUND": "round", "FLOOR": "floor", "CEIL": "ceil", "TRUNC": "trunc",
          "ODD": "odd", "NONE": ""}  # fmt: skip


def convert(w: Writer, op: Operation) -> None:
    """Over the valid region of the source. Without a mode, conversions to integers truncate and others round to the
    nearest."""
    source, target = element(w, op, "src"), element(w, op)
    mode = _ROUND[_mode(op.attrs.get("rmode"))]
    saturate = "ON" in (case_of(op.attrs.get("sat_mode")), case_of(op.attrs.get("satmode")))
    assign(w, op, converted(f"{w.operand(op, 'src')}[:]", source, target, mode, saturate))


def _mode(attribute: object) -> str:
    if isinstance(attribute, IntAttr):
        return ("NONE", "RINT", "ROUND", "FLOOR", "CEIL", "TRUNC", "ODD", "CAST_RINT")[attribute.value]
    return case_of(attribute, "NONE") if isinstance(attribute, (EnumAttr, StrAttr)) else "NONE"


def converted(text: str, source: Type, target: Type, mode: str, saturate: bool) -> str:
    """An expression in another element type."""
    name, to = dtypes.name_of(target), dtypes.torch_dtype(target)
    dtypes.torch_dtype(source)
    if dtypes.is_float(source) and not dtypes.is_float(target):
        return f'to_integer({text}, {to}, "{mode or "trunc"}", {saturate})'
    if not dtypes.is_float(target):
        return f"saturated({text}, {to})" if saturate else text
    if name.startswith("f8"):
        return f"to_float8({text}, {to}, {saturate})"
    if source == target:
        return text if not mode else f'integral({text}, "{mode}")' if name == "f32" else text
    exact = dtypes.bits(source) < dtypes.bits(target) or (name == "f32" and dtypes.bits(source) <= 16)
    if exact or (mode in ("", "rint") and dtypes.name_of(source) == "f32"):
        return f"{text}.to({to})"
    return f'round_to({text}, {to}, "{mode or "rint"}")'


_REDUCE = {
    "sum": "{a}.sum(dim={dim}, keepdim=True)", "max": "{a}.amax(dim={dim}, keepdim=True)",
    "min": "{a}.amin(dim={dim}, keepdim=True)", "prod": "{a}.prod(dim={dim}, keepdim=True)",
}  # fmt: skip
_REDUCE_MAYBE_EMPTY = {"max": "highest({a}, {dim})", "min": "lowest({a}, {dim})"}


def reduce(w: Writer, op: Operation) -> None:
    """Along the rows or columns of the source's valid region."""
    definition = TABLE[op.name]
    fn, dim = definition.fn, 1 if definition.family == "rowreduce" else 0
    source = f"{w.operand(op, 'src')}[:]"
    extents = w.resolved.extents(w.value(op, "src"))
    if 0 in extents:
        w.add(op, "pass")  # nothing of the source is valid
        return
    if fn.startswith("arg"):
        greatest = fn == "argmax"
        index = "dstidx" if "dstidx" in op.operands else "dst"
        name = w.names.unique("where_extreme")
        w.add(op, f"{name} = first_extreme({source}, {dim}, greatest={greatest})")
        if "dstidx" in op.operands:
            w.add(op, f"{w.operand(op, 'dst')}[:] = {source}.gather({dim}, {name})")
        w.add(op, f"{w.operand(op, index)}[:] = {name}")
        return
    if fn == "prod" and dtypes.name_of(element(w, op, "src")) in ("f16", "bf16"):
        source += ".float()"
    forms = _REDUCE if None not in extents else _REDUCE | _REDUCE_MAYBE_EMPTY
    assign(w, op, forms[fn].format(a=source, dim=dim))


def row_expand(w: Writer, op: Operation) -> None:
    fn, type_, dst = TABLE[op.name].fn, element(w, op), w.operand(op, "dst")
    if fn == "copy":
        assign(w, op, f"{w.operand(op, 'src')}[{dst}.valid[0], 1].expand({dst}.valid)")
        return
    first, second = w.tile_type(op, "src0"), w.tile_type(op, "src1")
    narrow = (
        "src1"
        if _is_column(second) or not (_is_column(first) or (_is_block(first) and not _is_block(second)))
        else "src0"
    )
    texts = {role: w.read(op, role) for role in ("src0", "src1")}
    tile = w.tile_type(op, narrow)
    if (
        _is_column(tile)
        and tile.cols == 1
        and w.resolved.extents(w.value(op, narrow))[1] == 1
        and _same_rows(w, op, narrow)
    ):
        texts[narrow] = f"{w.operand(op, narrow)}[:]"
    else:
        texts[narrow] = f"per_row({w.operand(op, narrow)}, {dst}.valid)"
    assign(w, op, _form(_BINARY, fn, type_).format(a=texts["src0"], b=texts["src1"]))


def _same_rows(w: Writer, op: Operation, role: str) -> bool:
    rows = w.resolved.extents(w.value(op, role))[0]
    return rows is not None and rows == w.resolved.extents(w.value(op, "dst"))[0]


def _is_column(type_: TileType) -> bool:
    return type_.blayout == "col_major" and type_.slayout == "none_box"


def _is_block(type_: TileType) -> bool:
    return type_.blayout == "row_major" and type_.cols * dtypes.bits(type_.dtype) == 256


def col_expand(w: Writer, op: Operation) -> None:
    fn, dst = TABLE[op.name].fn, w.operand(op, "dst")
    if fn == "copy":
        assign(w, op, f"{w.operand(op, 'src')}[1, {dst}.valid[1]].expand({dst}.valid)")
        return
    row = f"{w.operand(op, 'src1')}[1, {dst}.valid[1]]"
    known, wanted = (w.resolved.extents(w.value(op, role)) for role in ("src1", "dst"))
    if known == (1, wanted[1]):
        row = f"{w.operand(op, 'src1')}[:]"
    assign(w, op, _form(_BINARY, fn, element(w, op)).format(a=w.read(op, "src0"), b=row))


def partial(w: Writer, op: Operation) -> None:
    function = {"add": "torch.add", "mul": "torch.mul", "max": "torch.maximum", "min": "torch.minimum"}
    a, b, d = (w.operand(op, role) for role in ("src0", "src1", "dst"))
    assign(w, op, f"partial({function[TABLE[op.name].fn]}, {a}, {b}, {d}.valid, {d}[:])")


def partial_arg(w: Writer, op: Operation) -> None:
    tiles = [w.operand(op, role) for role in ("dst", "dstidx", "src0", "src1", "idx0", "idx1")]
    w.add(op, f"partial_arg({', '.join(tiles)}, greatest={TABLE[op.name].fn == 'max'})")


_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def compare(w: Writer, op: Operation) -> None:
    """To bits of a mask, over the valid region of the first operand."""
    mode = case_of(op.attrs.get("cmpMode"), "eq")
    if "scalar" in op.operands:
        a, b = f"{w.operand(op, 'src')}[:]", _within(scalar(w, op, type_=element(w, op, "src")))
    else:
        a, b = f"{w.operand(op, 'src0')}[:]", w.read(op, "src1", "src0")
        if w.arch == "a2a3" and dtypes.name_of(element(w, op, "src0")) == "i32" and mode != "eq":
            w.out.add("# the vector unit of a2a3 compares int32 tiles for equality only, whatever the mode")
            mode = "eq"
    w.add(op, f"put_mask({w.operand(op, 'dst')}, {a} {_COMPARE[mode]} {b})")


def select(w: Writer, op: Operation) -> None:
    mask = f"mask_of({w.operand(op, 'mask')}, {w.operand(op, 'dst')}.valid)"
    if "scalar" in op.operands:
        dtype = dtypes.torch_dtype(element(w, op))
        assign(w, op, f"torch.where({mask}, {w.read(op, 'src')}, torch.tensor({scalar(w, op)}).to({dtype}))")
    else:
        assign(w, op, f"torch.where({mask}, {w.read(op, 'src0')}, {w.read(op, 'src1')})")


def transpose(w: Writer, op: Operation) -> None:
    assign(w, op, f"{w.operand(op, 'src')}[:].T")


def concat(w: Writer, op: Operation) -> None:
    if "idx0" in op.operands:
        raise Unsupported("with indices")
    assign(w, op, f"torch.cat(({w.operand(op, 'src0')}[:], {w.operand(op, 'src1')}[:]), dim=1)")


def fillpad(w: Writer, op: Operation) -> None:
    if w.tile_type(op, "dst").pad == "0":
        raise Unsupported("the destination names no pad value")
    w.add(op, f"fillpad({w.operand(op, 'dst')}, {w.operand(op, 'src')})")


def load(w: Writer, op: Operation) -> None:
    w.add(op, f"load({w.operand(op, 'dst')}, {w.operand(op, 'src')})")


def _scale(w: Writer, op: Operation) -> str:
    """The factor of the accumulator's way out."""
    if "fp" in op.operands:
        return f"column_scales({w.operand(op, 'fp')}, {w.operand(op, 'src')}.valid[1])"
    return f"bits_float({w.operand(op, 'pre_quant')})" if "pre_quant" in op.operands else "1.0"


def _rescales(op: Operation) -> bool:
    return bool({"fp", "pre_quant"} & op.operands.keys()) or case_of(op.attrs.get("reluPreMode")) == "normal_relu"


def _rescaled(w: Writer, op: Operation, text: str, target: Type) -> str:
    relu = case_of(op.attrs.get("reluPreMode")) == "normal_relu"
    return f"scaled({text}, {_scale(w, op)}, {dtypes.torch_dtype(target)}, relu={relu})"


def store(w: Writer, op: Operation) -> None:
    add = case_of(op.attrs.get("atomicType")) == "atomic_add"
    src, dst = w.operand(op, "src"), w.operand(op, "dst")
    if _rescales(op):
        target = getattr(w.value(op, "dst").type, "element", None)
        assert isinstance(target, Type)
        w.add(op, f"{dst}.put({_rescaled(w, op, f'{src}[:]', target)}{', add=True' if add else ''})")
        return
    w.add(op, f"store({dst}, {src}{', add=True' if add else ''})")


def move(w: Writer, op: Operation) -> None:
    """A copy, an extract from, or an insert into a tile; elements are converted where the tiles' types differ."""
    fn = TABLE[op.name].fn
    src, dst = w.operand(op, "src"), w.operand(op, "dst")
    row, col = (w.operand(op, role, "0") for role in ("row", "col"))
    mode = case_of(op.attrs.get("accToVecMode"))
    if fn.startswith("insert"):
        text, target = f"{src}[:]", f"insert({dst}, {row}, {col}, {{}})"
    elif mode.startswith("dual_mode_split"):
        lane = f"_current_sb[0] * {dst}.valid[{0 if mode.endswith('m') else 1}]"
        row, col = (lane, col) if mode.endswith("m") else (row, lane)
        text, target = f"extract({src}, {row}, {col}, {dst}.valid)", f"{dst}[:] = {{}}"
    elif (row, col) == ("0", "0"):
        text, target = w.read(op, "src"), f"{dst}[:] = {{}}"
    else:
        text, target = f"extract({src}, {row}, {col}, {dst}.valid)", f"{dst}[:] = {{}}"
    source_type, target_type = element(w, op, "src"), element(w, op)
    if _rescales(op):
        text = _rescaled(w, op, text, target_type)
    elif source_type != target_type and dtypes.is_float(source_type) != dtypes.is_float(target_type):
        raise Unsupported(f"from {source_type} to {target_type} needs a scale")
    w.add(op, target.format(text))


def matmul(w: Writer, op: Operation) -> None:
    """Rows and columns of a, columns of b as they are valid. 16-bit operands are multiplied in float32."""
    fn = TABLE[op.name].fn
    a, b = (f"{w.operand(op, role)}[:]" for role in ("a", "b"))
    for role in ("a", "b"):
        dtypes.torch_dtype(element(w, op, role))
    product = f"matmul({a}, {b})" if not _same_columns(w, op) else f"multiply({a}, {b})"
    if fn == "accumulate":
        acc = w.operand(op, "acc")
        region = f"{acc}[{w.operand(op, 'a')}.valid[0], {w.operand(op, 'b')}.valid[1]]"
        assign(w, op, f"{f'{acc}[:]' if _result_known(w, op) else region} + {product}")
    elif fn == "bias":
        assign(w, op, f"{product} + {w.operand(op, 'bias')}[1, {w.operand(op, 'b')}.valid[1]]")
    else:
        assign(w, op, product)


def matmul_mx(w: Writer, op: Operation) -> None:
    """The product of elements that a power of two scales, one for every 32 along k."""
    fn = TABLE[op.name].fn
    a, b = (f"{w.operand(op, role)}[:].float()" for role in ("a", "b"))
    dtypes.torch_dtype(element(w, op, "a"))
    dtypes.torch_dtype(element(w, op, "b"))
    scales = [
        f"{w.operand(op, role)}[:].float().repeat_interleave(32, dim={d})"
        for role, d in (("a_scale", 1), ("b_scale", 0))
    ]
    product = f"matmul({a} * {scales[0]}, {b} * {scales[1]})"
    if fn == "accumulate":
        product = f"{w.operand(op, 'acc')}[{w.operand(op, 'dst')}.valid] + {product}"
    elif fn == "bias":
        product = f"{product} + {w.operand(op, 'bias')}[1, {w.operand(op, 'b')}.valid[1]]"
    assign(w, op, product)


def _same_columns(w: Writer, op: Operation) -> bool:
    """Whether the columns of a are certainly the rows of b."""
    a, b = w.resolved.extents(w.value(op, "a")), w.resolved.extents(w.value(op, "b"))
    return a[1] is not None and a[1] == b[0]


def _result_known(w: Writer, op: Operation) -> bool:
    a, b, acc = (w.resolved.extents(w.value(op, role)) for role in ("a", "b", "acc"))
    return None not in acc and (a[0], b[1]) == acc
