"""The orchestration API as tables: what each method and function means, under its names of every vintage."""

from __future__ import annotations

import re
from collections.abc import Callable

from tree_sitter import Node

from pypto_build.facts.dtypes import torch_name

from ..records import ArgDirection, CoreType
from .findings import WalkState
from .syntax import callee, line_of, source_text, template_arguments
from .values import UNKNOWN, Ref, TaskArgs, Value, join

#: Types whose variables collect a task's arguments.
TASK_ARGS_TYPE = re.compile(r"(Arg|ArgWithDeps|L0TaskArgs\w*|CoreTaskArgs\w*|GraphTaskArgs|PTOParam)\b")

#: Fields of a tensor that are plain numbers.
PLAIN_FIELDS = frozenset(
    {"shapes", "strides", "ndims", "dtype", "buffer", "start_offset", "size", "addr", "launch_spec"}
)

#: Method that adds an argument: its direction in a manifest's signature.
DIRECTIONS = {
    "add_input": ArgDirection.IN,
    "add_output": ArgDirection.OUT,
    "add_inout": ArgDirection.INOUT,
    "add_no_dep": ArgDirection.INOUT,
    "make_input_param": ArgDirection.IN,
    "make_output_param": ArgDirection.OUT,
    "make_inout_param": ArgDirection.INOUT,
    "make_scalar_param": ArgDirection.SCALAR,
}

Method = Callable[[WalkState, Node, Value, list[Value]], Value]
Function = Callable[[WalkState, Node, list[Value]], Value]


# -- methods ----------------------------------------------------------------------------------------------------


def _tensor(walk: WalkState, node: Node, owner: Value, arguments: list[Value]) -> Value:
    if not owner.is_entry or not arguments:
        return owner
    slots = walk.findings.slots(node, arguments[0].numbers)
    walk.findings.tensor_slots |= slots
    return Value(refs=frozenset(Ref(slot) for slot in slots))


def _scalar(walk: WalkState, node: Node, owner: Value, arguments: list[Value]) -> Value:
    if not owner.is_entry or not arguments:
        return UNKNOWN
    slots = walk.findings.slots(node, arguments[0].numbers)
    walk.findings.scalar_slots |= slots
    return Value(scalars=slots)


def _same(walk: WalkState, node: Node, owner: Value, arguments: list[Value]) -> Value:
    return owner


def _part(walk: WalkState, node: Node, owner: Value, arguments: list[Value]) -> Value:
    return owner.as_part()


def _whole(walk: WalkState, node: Node, owner: Value, arguments: list[Value]) -> Value:
    return owner.tensors_only()


def _add_arguments(walk: WalkState, node: Node, owner: Value, arguments: list[Value]) -> Value:
    method = callee(node)[0]
    direction = DIRECTIONS[method]
    for argument in arguments:
        walk.findings.touch(argument, direction)
        if owner.args is not None:
            owner.args.untracked |= {len(owner.args.entries)} if method == "add_no_dep" else set()
            owner.args.extend([(direction, argument.whole)])
    return owner


def _add_scalar(walk: WalkState, node: Node, owner: Value, arguments: list[Value]) -> Value:
    if owner.args is not None:
        owner.args.extend([(ArgDirection.SCALAR, None)] * len(arguments))
    return owner


def _clear(walk: WalkState, node: Node, owner: Value, arguments: list[Value]) -> Value:
    if owner.args is not None:
        owner.args.entries.clear()
        owner.args.untracked.clear()
    return owner


def _push(walk: WalkState, node: Node, owner: Value, arguments: list[Value]) -> Value:
    container = callee(node)[1]
    if container is not None and container.type == "identifier":
        walk.update(source_text(container), join([*arguments, UNKNOWN]))
    return UNKNOWN


def _slot_tensor(walk: WalkState, node: Node, owner: Value, arguments: list[Value]) -> Value:
    return _from_slots(walk, owner)


def _call(walk: WalkState, node: Node, owner: Value, arguments: list[Value]) -> Value:
    """Evaluate a function of the runtime that is called as a method: ``runtime->add_task(...)``."""
    return FUNCTIONS[callee(node)[0]](walk, node, [owner, *arguments])


METHODS: dict[str, Method] = {
    "tensor": _tensor,
    "scalar": _scalar,
    "view": _part,
    "slice": _part,
    "reshape": _whole,
    "transpose": _whole,
    "permute": _whole,
    "to_tensor": _slot_tensor,
    "data": _slot_tensor,
    "reset": _clear,
    "clear": _clear,
    "add_scalar": _add_scalar,
    "push_back": _push,
    "emplace_back": _push,
    **dict.fromkeys(("ref", "at", "front", "back", "get", "value", "data_as"), _same),
    **dict.fromkeys((name for name in DIRECTIONS if name.startswith("add_")), _add_arguments),
    **dict.fromkeys(("add_task", "copy_to_device", "record_tensor_pair"), _call),
}


# -- functions --------------------------------------------------------------------------------------------------


def _make_param(walk: WalkState, node: Node, arguments: list[Value]) -> Value:
    direction = DIRECTIONS[callee(node)[0]]
    if arguments and direction is not ArgDirection.SCALAR:
        walk.findings.touch(arguments[0], direction)
    return Value(args=TaskArgs([(direction, arguments[0].whole if arguments else None)]))


def _submit(core_type: CoreType | None) -> Function:
    def submit(walk: WalkState, node: Node, arguments: list[Value]) -> Value:
        words = [argument for argument in arguments if not argument.is_runtime]
        args = next((word.args for word in words if word.args is not None), None)
        worker: CoreType | None = core_type
        text = source_text(node)
        if "PTO2_WORKER_CUBE" in text or "PTO2_WORKER_VECTOR" in text:
            worker = "aic" if "PTO2_WORKER_CUBE" in text else "aiv"
        walk.findings.submit(line_of(node), words[0] if words else UNKNOWN, args, worker)
        return UNKNOWN

    return submit


def _external(walk: WalkState, node: Node, arguments: list[Value]) -> Value:
    value = _from_slots(walk, arguments[0]) if arguments else UNKNOWN
    dtype = re.search(r"DataType::(\w+)", source_text(node))
    name = torch_name(dtype[1]) if dtype else None
    if name is not None:
        for ref in value.refs:
            walk.findings.tensor_dtypes.setdefault(ref.slot, name)
    return value


def _from_slots(walk: WalkState, value: Value) -> Value:
    """Return the tensors in entry argument slots; a value that is already a tensor is returned unchanged."""
    walk.findings.tensor_slots |= value.slots
    return Value(refs=value.refs | frozenset(Ref(slot) for slot in value.slots))


def decoded(walk: WalkState, value: Value, ctype: str) -> Value:
    """Return an entry argument read as C type ``ctype``; the argument slots of pointers hold tensors."""
    if ctype.endswith("*"):
        walk.findings.tensor_slots |= value.slots
    return value.decoded_as(ctype)


def _decode(walk: WalkState, node: Node, arguments: list[Value]) -> Value:
    target = template_arguments(node)
    value = arguments[0] if arguments else UNKNOWN
    return decoded(walk, value, source_text(target[0])) if target else value


def _first(walk: WalkState, node: Node, arguments: list[Value]) -> Value:
    return arguments[0] if arguments else UNKNOWN


def _nothing(walk: WalkState, node: Node, arguments: list[Value]) -> Value:
    return UNKNOWN


def _read_element(walk: WalkState, node: Node, arguments: list[Value]) -> Value:
    if arguments:
        walk.findings.touch(arguments[0], ArgDirection.IN)
    return UNKNOWN


def _write_element(walk: WalkState, node: Node, arguments: list[Value]) -> Value:
    if arguments:
        walk.findings.touch(arguments[0].as_part(), ArgDirection.OUT)
    return UNKNOWN


def _submit_graph(walk: WalkState, node: Node, arguments: list[Value]) -> Value:
    """Follow ``rt_submit_graph([key,] function, args, ...)``: it calls the function with the arguments after
    ``function``.
    """
    for index, argument in enumerate(arguments):
        if argument.functions:
            return walk.call(argument.functions[-1], arguments[index + 1 :], [])
    return UNKNOWN


def _copy_in(walk: WalkState, node: Node, arguments: list[Value]) -> Value:
    """``copy_to_device(rt, device, host, size)``"""
    if len(arguments) > 2:
        walk.findings.touch(_from_slots(walk, arguments[2]), ArgDirection.IN)
    return UNKNOWN


def _copy_out(walk: WalkState, node: Node, arguments: list[Value]) -> Value:
    """``record_tensor_pair(rt, host, device, size)``"""
    if len(arguments) > 1:
        walk.findings.touch(_from_slots(walk, arguments[1]), ArgDirection.OUT)
    return UNKNOWN


def _listed_task(walk: WalkState, node: Node, arguments: list[Value]) -> Value:
    """Evaluate ``add_task(rt, words, count, func_id, core_type)``, whose words do not distinguish tensors from
    scalars.
    """
    if len(arguments) > 3:
        walk.findings.listed |= arguments[3].numbers
    return UNKNOWN


FUNCTIONS: dict[str, Function] = {
    **dict.fromkeys(("rt_submit_aic_task", "pto2_rt_submit_aic_task"), _submit("aic")),
    **dict.fromkeys(("rt_submit_aiv_task", "pto2_rt_submit_aiv_task"), _submit("aiv")),
    **dict.fromkeys(("rt_submit_task", "pto2_rt_submit_task"), _submit(None)),
    **dict.fromkeys((name for name in DIRECTIONS if name.startswith("make_")), _make_param),
    **dict.fromkeys(("make_tensor_external", "make_tensor_strided", "from_tensor_arg", "from_task_arg"), _external),
    **dict.fromkeys(("from_u64", "bit_cast", "static_cast", "reinterpret_cast", "const_cast"), _decode),
    **dict.fromkeys(("move", "ref", "cref", "forward", "addressof"), _first),
    **dict.fromkeys(
        (
            "rt_submit_dummy_task",
            "alloc_tensors",
            "make_tensor",
            "TensorCreateInfo",
            "to_u64",
            "float_to_u64",
            "min",
            "max",
        ),
        _nothing,
    ),
    "get_tensor_data": _read_element,
    "set_tensor_data": _write_element,
    "rt_submit_graph": _submit_graph,
    "copy_to_device": _copy_in,
    "record_tensor_pair": _copy_out,
    **dict.fromkeys(("add_task", "add_task_with_tensor_info"), _listed_task),
}
