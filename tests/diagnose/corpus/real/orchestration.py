"""Wrong orchestrations, modules and data, found without the program: of the golden alone, or of nothing."""

from __future__ import annotations

from tests.diagnose.corpus.real import Recipe, Substitution

_DAG, _DAG_FILE = "e_02_vector_dag-_jit_vector_dag", "orchestration/vector_dag.cpp"
_FFN, _FFN_FILE = "e_01_ffn-_jit_ffn_swiglu", "orchestration/ffn_swiglu.cpp"
_SPLIT, _SPLIT_FILE = "e_01_split_k-_jit_matmul_split_k", "orchestration/matmul_split_k.cpp"
_NORM, _NORM_FILE = "e_03_normalization-_jit_layer_norm", "orchestration/layer_norm.cpp"
_GLU, _GLU_FILE = "e_04_activation-_jit_swiglu", "orchestration/swiglu.cpp"
_MATMUL, _MATMUL_FILE = "e_05_matmul-_jit_matmul_64", "orchestration/matmul_64.cpp"
_EDGE, _EDGE_FILE = "e_07_task_graph-_jit_inferred_edge", "orchestration/inferred_edge.cpp"
_ATTENTION = "e_07_paged_attention_multi_config-PagedAttentionMultiConfigProgram"
_SCALE = "e_03_scalar_ops-_jit_fused_add_scale"
_SCALE_FILE, _SCALE_MODULE = "kernels/aiv/fused_add_scale_incore_0.cpp", "ptoas/fused_add_scale_incore_0.pto"


def _swapped(one: str, other: str) -> str:
    """A pattern for two neighbouring lines that add inputs, with what stands before each name as groups."""
    return rf"^( *params_t\d+\.add_input\(){one}\);\n( *params_t\d+\.add_input\(){other}\);\n"


def _diverge(name: str, artifact: str, edit: Substitution, at: str, says: str, seen: bool = False) -> Recipe:
    rule = "diverge/orchestration" if seen else "diverge/trial"
    return Recipe(name, artifact, (edit,), rule, edit[0], at, says, "diverge", seen=seen)


RECIPES = (
    _diverge("gate and up exchanged", _FFN, (_FFN_FILE, _swapped("gate", "up"), r"\1up);\n\2gate);\n"), r"t2\.add_input\(up\)", "with up and gate exchanged every output matches it"),
    _diverge("weight of another task", _FFN, (_FFN_FILE, r"ext_up_proj_weight\);", "ext_gate_proj_weight);"), r"t1\.add_input\(ext_gate_proj_weight\)", "in place of ext_gate_proj_weight every output matches it"),
    _diverge("output of another task", _FFN, (_FFN_FILE, r"add_input\(activated\)", "add_input(gate)"), r"t3\.add_input\(gate\)", "with activated in place of gate every output matches it"),
    _diverge("left and right matrix exchanged", _MATMUL, (_MATMUL_FILE, _swapped("ext_a", "ext_b"), r"\1ext_b);\n\2ext_a);\n"), r"add_input\(ext_b\)", "with ext_b and ext_a exchanged every output matches it"),
    _diverge("gamma and beta exchanged", _NORM, (_NORM_FILE, _swapped("ext_gamma", "ext_beta"), r"\1ext_beta);\n\2ext_gamma);\n"), r"add_input\(ext_beta\)", "exchanged every output matches it"),
    _diverge("gate and up of one task exchanged", _GLU, (_GLU_FILE, _swapped("ext_gate", "ext_up"), r"\1ext_up);\n\2ext_gate);\n"), r"add_input\(ext_up\)", "exchanged every output matches it"),
    _diverge("scalar of another task", _DAG, (_DAG_FILE, r"to_u64\(2\.0+f\)", "to_u64(1.000000f)"), r"t2\.add_scalar", "with the orchestration as it was first built here every output matches it", True),
    _diverge("scalar that is wrong", _DAG, (_DAG_FILE, r"to_u64\(2\.0+f\)", "to_u64(3.000000f)"), r"t2\.add_scalar", "with the orchestration as it was first built here every output matches it", True),
    _diverge("another task's output as input", _DAG, (_DAG_FILE, r"(add_input\(g\);\n.*)add_input\(c\)", r"\1add_input(d)"), r"t4\.add_input\(d\)", "with c in place of d every output matches it"),
    _diverge("loop a step short", _SPLIT, (_SPLIT_FILE, r"ks < 4", "ks < 3"), r"ks < 3", "with a loop that ends a step later every output matches it"),
    _diverge("loop that starts late", _SPLIT, (_SPLIT_FILE, r"ks = 0", "ks = 1"), r"ks = 1", ""),
    _diverge("task submitted twice", _SPLIT, (_SPLIT_FILE, r"^( *rt_submit_aic_task\(1, params_t1\);\n)", r"\1\1"), r"rt_submit_aic_task\(1", "with this submission left out every output matches it"),
    _diverge("loop over one step again and again", _SPLIT, (_SPLIT_FILE, r"add_scalar\(ks\)", "add_scalar((int64_t)0)"), r"add_scalar\(", "with the orchestration as it was first built here every output matches it", True),
    _diverge("task submitted with another's kernel", _DAG, (_DAG_FILE, r"rt_submit_aiv_task\(2, params_t3\)", "rt_submit_aiv_task(0, params_t3)"), r"rt_submit_aiv_task\(0, params_t3\)", "with kernel kernel_mul_128 in place of kernel_add_128 every output matches it"),
    Recipe(
        "producer that is not submitted", _DAG, ((_DAG_FILE, r"^ *rt_submit_aiv_task\(1, params_t2\);\n", ""),),
        "hazards/unwritten", _DAG_FILE, r"& e = ", "no task writes the tensor 'e'",
    ),
    Recipe(
        "last task not submitted", _DAG, ((_DAG_FILE, r"^ *rt_submit_aiv_task\(0, params_t4\);\n", ""),),
        "hazards/unwritten-output", _DAG_FILE, r"& ext_f = ", "no task writes any of",
    ),
    Recipe(
        "reader that waits for nobody", _EDGE, ((_EDGE_FILE, r"add_input\(ext_scratch\)", "add_no_dep(ext_scratch)"),),
        "hazards/raw", _EDGE_FILE, r"add_no_dep\(ext_scratch\)", "nothing orders",
    ),
    Recipe(
        "output declared as input", _DAG, ((_DAG_FILE, r"add_output\(e\)", "add_input(e)"),),
        "hazards/written-input", _DAG_FILE, r"add_input\(e\)", "writes 'e'",
    ),
    Recipe(
        "accumulator declared as output", _SPLIT, ((_SPLIT_FILE, r"add_inout\(ext_c\)", "add_output(ext_c)"),),
        "hazards/waw", _SPLIT_FILE, r"add_output\(ext_c\)", "nothing orders the two",
    ),
    Recipe(
        "rows of another view", _ATTENTION,
        (("orchestration/paged_attention.cpp", r"qi_offsets\[2\] = \{static_cast<uint32_t>\(cur_offset\), 0\}", "qi_offsets[2] = {0, 0}"),),
        "diverge/orchestration", "orchestration/paged_attention.cpp", r"qi_offsets\[2\] = ", "as it was first built here", "diverge", seen=True,
    ),
    Recipe(
        "constant changed in the kernel alone, which constant inputs hide", _DAG,
        (("kernels/aiv/kernel_mul_128.cpp", r"TMUL\(", "TMAX("),),
        "diverge/kernel", "kernels/aiv/kernel_mul_128.cpp", r"TMAX\(", "TMAX", "diverge", constant=("a", "b"),
    ),
    Recipe(
        "constant of a module that was spliced", _SCALE,
        ((_SCALE_FILE, r"= 2\.0f;", "= 3.0f;"), (_SCALE_MODULE, r"constant 2\.0\S* : f32", "constant 3.0 : f32")),
        "diverge/trial", _SCALE_MODULE, r"constant 3\.0", "edited since it was first built here", "diverge", ("PREFER=cpp",), seen=True,
    ),
)  # fmt: skip
