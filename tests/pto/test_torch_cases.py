"""Cases of public tests of torch_codegen, and the tests here that cover them.

The cases are known by name; the tests are our own. A case without a counterpart says why.
"""

from __future__ import annotations

import ast
from pathlib import Path

from tests.pto.torch_operations import CASES as OPERATIONS
from tests.rows import every

TESTS = Path(__file__).parents[1]
PTO, CONVERT, MOVES, GROUPS, TILES = (
    f"pto/test_torch_{name}.py" for name in ("codegen", "convert", "moves", "groups", "tiles")
)
#: A case of the table that every element type goes through.
OPERATION = "pto/test_torch_operations.py::test_operation"
PROGRAM, REPLAY = "compiler/test_torch_program.py", "replay/test_reference.py"
KERNEL = f"{PROGRAM}::test_kernel"

#: case -> file::test[parameter]
CASES = {
    # tensors and tiles
    "tensor_add": f"{KERNEL}[add]",
    "tensor_scalar_add": f"{KERNEL}[scalar add]",
    "tensor_unary_ops": f"{KERNEL}[unary]",
    "tensor_cast": f"{KERNEL}[cast]",
    "cast rounding modes": f"{CONVERT}::test_conversion",
    "matmul_with_transpose": f"{KERNEL}[product with a transposed operand]",
    "matmul_respects_out_dtype": f"{KERNEL}[16-bit products are summed in float32]",
    "tile_matmul_acc": f"{MOVES}::test_products",
    "nested_call_arg": f"{KERNEL}[nested calls]",
    "row_reduction": f"{OPERATION}[trowsum]",
    "tile_load_store": f"{KERNEL}[windows]",
    "tile_transpose_view": f"{PTO}::test_boxed_bytes_seen_transposed",
    "tile_compute_ops": f"{OPERATION}[tadd]",
    "bitwise, tensor and tile": f"{OPERATION}[tand]",
    "bitwise, scalar": f"{OPERATION}[tands]",
    "bitwise_not": f"{OPERATION}[tnot]",
    "tile_sels_and_prelu": f"{OPERATION}[tsels]",
    "tile_cmp": f"{OPERATION}[tcmp_lt]",
    "tensor_view, codegen and execution": f"{TILES}::test_strided_views[nd]",
    "tensor_view, shape and layout stride": f"{TILES}::test_strided_views[dn]",
    "tensor_view, explicit valid shape": f"{TILES}::test_parts_whose_extents_change_from_round_to_round",
    "tensor_view, same layout": f"{TILES}::test_windows_of_tiles_and_reinterpreted_tiles_share_bytes",
    "tile write returns its container": f"{TILES}::test_elements_are_read_and_written_in_place",
    "tensor write returns its container": f"{PTO}::test_loops_carry_values_all_at_once",
    "tile assemble": f"{MOVES}::test_insert_and_extract",
    "tensor assemble": f"{KERNEL}[windows]",
    "slice aliases its source": f"{PROGRAM}::test_slices_share_the_tensor_and_elements_are_written",
    "slice out of bounds": f"{PTO}::test_windows_beyond_a_tensor_are_errors",
    "fillpad min": f"{KERNEL}[padding with the lowest]",
    "load valid_shape masks": f"{KERNEL}[valid part]",
    "load with the valid shape as fourth operand": f"{TILES}::test_parts_whose_extents_change_from_round_to_round",
    "atomic store": f"{KERNEL}[added to what is there]",
    "dynamic extents of an orchestration": f"{PROGRAM}::test_dynamic_extents_are_named_once",
    # control and text
    "for loop": f"{KERNEL}[loop]",
    "while loop": f"{PROGRAM}::test_while_loops",
    "if": f"{KERNEL}[branch]",
    "loop yields are simultaneous": f"{KERNEL}[exchange in a loop]",
    "binary_ir_expressions": f"{KERNEL}[numbers]",
    "scope_is_transparent": f"{PTO}::test_branches_and_while_loops",
    "numerical_roundtrip, add": f"{KERNEL}[add]",
    "numerical_roundtrip, for loop": f"{KERNEL}[loop with steps]",
    "system_ops_are_noops": f"{PTO}::test_orders_and_hints_compute_nothing",
    "get_block_idx": f"{GROUPS}::test_blocks_of_a_launch_know_their_number",
    "get_subblock_idx": f"{GROUPS}::test_split_modes_in_both_directions",
    "preamble_included": f"{PTO}::test_a_function_alone_has_no_entry",
    "type_error": f"{PTO}::test_only_modules_and_functions_are_taken",
    "unsupported_op": f"{PTO}::test_all_unsupported_operations_are_named_at_once",
    "name sanitization": f"{PTO}::test_names_are_made_valid",
    "name uniquing": f"{PTO}::test_names_never_collide",
    "helpers and builtins as hints": f"{PTO}::test_helpers_are_not_shadowed_by_values",
    "var identity, two values of one hint": f"{PTO}::test_names_never_collide",
    "var identity, parameters of one hint": f"{TILES}::test_parameters_of_the_entry_are_those_of_the_function",
    "var identity, values without a place": f"{PTO}::test_places_of_lines",
    "var identity, functions apart": f"{GROUPS}::test_two_groups_of_a_module_do_not_mix",
    "check_shapes": f"{PROGRAM}::test_check_shapes_names_what_differs",
    "program_with_multiple_functions": f"{PROGRAM}::test_kernels_come_before_what_calls_them",
    "program_emits_entry_point": f"{PROGRAM}::test_kernels_come_before_what_calls_them",
    "entry_point_sanitizes_parameter_names": f"{TILES}::test_parameters_of_the_entry_are_those_of_the_function",
    "entry_point_prefers_orchestration": f"{TILES}::test_a_function_for_no_core_is_the_entry",
    "entry named run": f"{PROGRAM}::test_a_program_called_run_is_the_entry_itself",
    # pipes and groups
    "program_with_aic_aiv_functions": f"{GROUPS}::test_written_groups_call_their_members_in_order",
    "program_with_group_function": f"{GROUPS}::test_written_groups_call_their_members_in_order",
    "program_with_multiple_group_functions": f"{GROUPS}::test_two_groups_of_a_module_do_not_mix",
    "tpush and tpop, text of each split": f"{GROUPS}::test_split_modes_in_both_directions",
    "numerical_roundtrip_tpush_tpop, each split": f"{GROUPS}::test_split_modes_in_both_directions",
    "c2v x split": f"{GROUPS}::test_split_modes_in_both_directions[1-cube_to_vector]",
    "v2c x split": f"{GROUPS}::test_split_modes_in_both_directions[1-vector_to_cube]",
    "cross_core_matmul_residual": f"{GROUPS}::test_a_product_and_a_residual_meet[0]",
    "cross_core_matmul_residual_updown_split": f"{GROUPS}::test_a_product_and_a_residual_meet[1]",
    "cross_core_matmul_residual_leftright_split": f"{GROUPS}::test_a_product_and_a_residual_meet[2]",
    "bidirectional_pipe_communication": f"{GROUPS}::test_both_directions_with_one_and_with_two_vector_cores",
    "same-side feedback": f"{GROUPS}::test_a_member_that_feeds_itself_is_scheduled",
    "unidirectional stays unscheduled": f"{GROUPS}::test_split_modes_in_both_directions",
    "deadlock": f"{GROUPS}::test_deadlock_names_members_what_they_wait_for_and_the_pipes",
    "pipe_empty_after_balanced_pushpop": f"{GROUPS}::test_both_directions_with_one_and_with_two_vector_cores",
    "pop_from_empty_pipe_raises": f"{GROUPS}::test_popping_from_an_empty_pipe_is_an_error",
    "unbalanced_push_pop_pipe_state": f"{GROUPS}::test_what_is_pushed_and_not_popped_stays_in_its_order",
    "invalid split mode": f"{GROUPS}::test_splits_are_0_to_4",
    "split_merge_preserves_region_attrs": f"{GROUPS}::test_odd_extents_are_split_with_the_larger_half_first",
    "rebalanced split stride": f"{GROUPS}::test_odd_extents_are_split_with_the_larger_half_first",
    "odd splits": f"{GROUPS}::test_odd_extents_are_split_with_the_larger_half_first",
    "valid parts through pipes": f"{GROUPS}::test_what_is_valid_goes_through_a_pipe",
    "dual dispatch, two lanes and one": f"{GROUPS}::test_both_directions_with_one_and_with_two_vector_cores",
    "group return value": f"{GROUPS}::test_groups_return_what_their_last_member_returns",
    "groups in loops start with empty pipes": f"{GROUPS}::test_written_groups_that_take_turns_are_scheduled",
    "leftovers": f"{GROUPS}::test_leftovers_are_reported_and_gone_at_the_next_start",
    "several pipes": f"{GROUPS}::test_pipes_with_ids_are_apart",
    "syncall of a mixed group": f"{GROUPS}::test_all_members_meet_at_a_barrier",
    # whole programs
    "paged_attention": f"{REPLAY}::test_programs_pass_as_compiled_and_as_pytorch",
    "split_aiv fused kernels": f"{REPLAY}::test_programs_pass_as_compiled_and_as_pytorch",
}
#: case -> why it cannot arise
WITHOUT = {
    "break_continue": "neither .pto nor the programs have them",
    "nested_tpop_in_expression": "a pop is a statement in .pto",
    "tpop_from_aiv_split_keeps_full_tile_with_shape_checks": "a popped tile has the type that its pop names",
    "timeout cancels and recovers": "members take turns in one thread: no progress is a deadlock at once",
    "odd split rejection": "odd extents are split",
    "pass-dump validation": "the modules themselves are executed, and compared with the program by diverge",
}


@every("case", CASES)
def test_case_is_tested(case: str) -> None:
    path, _, name = CASES[case].partition("::")
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    function, _, parameter = name.partition("[")
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if name.startswith("test_operation["):
        assert parameter[:-1] in OPERATIONS
    if path == PROGRAM and parameter:
        table = next(n for n in tree.body if isinstance(n, ast.AnnAssign) and getattr(n.target, "id", "") == "KERNELS")
        assert isinstance(table.value, ast.Dict)
        assert parameter[:-1] in {key.value for key in table.value.keys if isinstance(key, ast.Constant)}


def test_nothing_is_in_both_tables() -> None:
    assert not CASES.keys() & WITHOUT.keys()
