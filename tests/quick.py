"""`pytest -m quick`: a signal over all rooms in one to three minutes. Whole files, or the quick tests of slow ones."""

from __future__ import annotations

#: By file below tests/, the names of its tests that are quick; all of them where none is named.
QUICK: dict[str, tuple[str, ...]] = {
    "artifact/cpp/test_syntax.py": (),
    "artifact/test_derive.py": (),
    "artifact/test_manifest.py": (),
    "artifact/test_meta.py": (),
    "artifact/test_pt.py": (),
    "artifact/test_vintage.py": (),
    "client/test_meeting.py": (),
    "compiler/test_api.py": (),
    "compiler/test_emit.py": (),
    "compiler/test_errors.py": (),
    "compiler/test_passes.py": (),
    "device/test_kernel.py": ("test_flags",),
    "diagnose/test_console.py": (),
    "diagnose/test_lint.py": (),
    "diagnose/test_deps.py": (),
    "editor/test_features.py": (),
    "facts/test_dtypes.py": (),
    "facts/test_run_options.py": (),
    "farm/test_farm.py": ("test_a_verdict_comes_back",),
    "interop/test_scene_test.py": ("test_a_wrong_output_fails",),
    "interop/test_search.py": (),
    "proof/test_digests.py": (),
    "proof/test_locks.py": (),
    "proof/test_store.py": (),
    "pto/test_assemble.py": (),
    "pto/test_check_operands.py": (),
    "pto/test_checks.py": (),
    "pto/test_diff.py": (),
    "pto/test_parse_errors.py": (),
    "pto/test_splice.py": (),
    "pto/test_table.py": (),
    "pto/test_wrapper.py": (),
    "readers/test_readers.py": ("test_a_pipe_in_place_of_a_file_does_not_block",),
    "replay/test_arena.py": (),
    "replay/test_binding.py": (),
    "replay/test_compare.py": (),
    "replay/test_scalars.py": (),
    "replay/test_tolerances.py": (),
    "replay/test_values.py": (),
    "replay/test_verdict.py": (),
    "resident/test_resident.py": ("test_directory_environment_and_umask_travel",),
    "rules/test_docs.py": (),
    "rules/test_incremental.py": ("test_null_build_runs_nothing",),
    "runtime/test_dependencies.py": (),
    "runtime/test_task_args.py": (),
    "runtime/instructions/test_single.py": (),
    "toolchain/test_elf.py": (),
    "toolchain/test_pins.py": (),
    "trust/test_model.py": ("test_digest_of_a_tree_sees_links_and_modes", "test_nothing_outlives_the_tests"),
    "test_cli.py": (),
    "test_imports.py": (
        "test_the_table_is_of_all_parts",
        "test_only_rules_import_scons",
        "test_what_is_done_at_the_end_has_an_owner",
    ),
    "test_terminal.py": (),
}


def is_quick(file: str, test: str) -> bool:
    """Return True for a test of the table; ``test`` is its name without parameters."""
    return file in QUICK and test in (QUICK[file] or (test,))
