"""Signatures and parameters read from orchestration C++."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pypto_build.artifact import ArgDirection, ArtifactError, load_artifact
from pypto_build.artifact.derive import Derived, derive

from .artifacts import MANIFEST, VINTAGE_NAMES, entry, generated, make_artifact

IN, OUT, INOUT = ArgDirection.IN, ArgDirection.OUT, ArgDirection.INOUT


def derived(root: Path, orchestration: str, manifest: str = MANIFEST) -> Derived:
    return derive(load_artifact(make_artifact(root, manifest, orchestration)))


def directions(facts: Derived) -> str:
    return " ".join(f"{a.name}:{a.direction.name}" for a in facts.tensors)


def task(func_id: str, adds: str) -> str:
    return f"CoreTaskArgs p; {adds} rt_submit_aiv_task({func_id}, p);"


@pytest.mark.parametrize("vintage", VINTAGE_NAMES)
def test_every_vintage(tmp_path: Path, vintage: str) -> None:
    facts = derived(tmp_path, generated(vintage))
    assert facts.signatures == {0: (IN, IN, OUT), 1: (IN, OUT)}
    assert [(a.index, a.name, a.direction) for a in facts.tensors] == [(0, "x", IN), (1, "w", IN), (2, "y", OUT)]
    assert [(a.index, a.name, a.dtype) for a in facts.scalars] == [(0, "alpha", "float32")]
    assert facts.notes == ()


def test_order_of_a_shared_argument_array(tmp_path: Path) -> None:
    text = generated("2026-03-11").replace("ARG_PTR_Y 2", "ARG_PTR_Y 4").replace("ARG_ALPHA 3", "ARG_ALPHA 2")
    assert derived(tmp_path, text).order == "tts-t"
    assert derived(tmp_path / "new", generated("2026-04")).order == ""


GRAPH = """
int build_graph(OrchestrationRuntime* rt, const ChipStorageTaskArgs& orch_args) {
    void* x = device_malloc(rt, 64);
    copy_to_device(rt, x, orch_args.tensor(0).data_as<void>(), 64);
    void* y = device_malloc(rt, 64);
    record_tensor_pair(rt, orch_args.tensor(1).data_as<void>(), y, 64);
    uint64_t words[3] = {(uint64_t)x, (uint64_t)y, orch_args.scalar(0)};
    int first = add_task(rt, words, 3, 0, CoreType::AIV);
    int second = add_task(rt, words, 3, 1, CoreType::AIV);
    add_successor(rt, first, second);
    return 0;
}
"""


def test_listed_graph(tmp_path: Path) -> None:
    facts = derived(tmp_path, GRAPH, MANIFEST.replace("aicpu_orchestration_entry", "build_graph"))
    assert [(a.index, a.direction) for a in facts.tensors] == [(0, IN), (1, OUT)]
    assert (len(facts.scalars), facts.signatures, facts.notes) == (1, {}, ())


METHODS = """
int build_graph(Runtime* runtime, ENTRY, int arg_count) {
    void* host_x = POINTER0;
    int64_t* host_config = POINTER3;
    void* x = runtime->host_api.device_malloc(64);
    runtime->host_api.copy_to_device(x, host_x, 64);
    void* y = runtime->host_api.device_malloc(64);
    runtime->record_tensor_pair(POINTER1, y, 64);
    uint64_t words[3] = {(uint64_t)x, (uint64_t)y, SCALAR};
    int first = runtime->add_task(words, 3, 0, CoreType::AIV);
    runtime->add_successor(first, runtime->add_task(words, host_config[0], 1));
    return 0;
}
"""


@pytest.mark.parametrize(
    ("declaration", "pointer", "scalar"),
    [
        ("uint64_t* args", r"reinterpret_cast<void*>(args[\1])", "args[2]"),
        ("const TaskArg* args", r"args[\1].data<void>()", "args[2].scalar"),
    ],
)
def test_listed_graph_by_methods(tmp_path: Path, declaration: str, pointer: str, scalar: str) -> None:
    text = re.sub(r"POINTER(\d)", pointer, METHODS.replace("ENTRY", declaration).replace("SCALAR", scalar))
    facts = derived(tmp_path, text, MANIFEST.replace("aicpu_orchestration_entry", "build_graph"))
    assert [(a.name, a.direction) for a in facts.tensors] == [("host_x", IN), ("", OUT), ("host_config", IN)]
    assert (len(facts.scalars), facts.order, facts.notes) == (1, "ttst", ())


def test_dtypes_of_external_tensors_in_the_older_api(tmp_path: Path) -> None:
    facts = derived(tmp_path, generated("2026-03-22"))
    assert [a.dtype for a in facts.tensors] == ["float32", "float16", "float32"]


@pytest.mark.parametrize(
    ("adds", "signature"),
    [
        ("p.add_input(ext_x, ext_w); p.add_output(ext_y);", (IN, IN, OUT)),
        ("p.add_inout(ext_y);", (INOUT,)),
        ("p.add_no_dep(ext_x); p.add_output(ext_y);", (INOUT, OUT)),
        ("p.add_scalar(1, 2); p.add_scalars(s, 3); p.copy_scalars_from(q, 0, 1);", ()),
        ("p.add_input(ext_x); p.dump(ext_x); p.set_dependencies(d, 1); p.add_dep(t);", (IN,)),
        ("p.add_input(ext_x); p.reset(); p.add_output(ext_y);", (OUT,)),
    ],
)
def test_add_methods(tmp_path: Path, adds: str, signature: tuple[ArgDirection, ...]) -> None:
    assert derived(tmp_path, entry(task("1", adds))).signatures == {1: signature}


def test_first_submission_wins(tmp_path: Path) -> None:
    body = (
        "{ " + task("1", "p.add_input(ext_x); p.add_output(ext_y);") + " } { " + task("1", "p.add_inout(ext_y);") + " }"
    )
    assert derived(tmp_path, entry(body)).signatures == {1: (IN, OUT)}


@pytest.mark.parametrize(
    ("preamble", "declaration", "func_id"),
    [
        ("", "", "1"),
        ("", "const int id = 1;", "id"),
        ("", "constexpr int32_t id = 2 - 1;", "id"),
        ("static const int kScale = 0x1u;\n", "", "kScale"),
        ("#define FUNC_SCALE (1)  // the second\n", "", "FUNC_SCALE"),
        ("#define ONE 1\n#define FUNC_SCALE ONE\n", "", "FUNC_SCALE"),
        ("enum Kernels { MM, SCALE };\n", "", "SCALE"),
        ("enum class Kernels : int { MM = 0, SCALE = 1 };\n", "", "static_cast<int>(Kernels::SCALE)"),
        ("namespace ids { constexpr int SCALE = 1; }\n", "", "ids::SCALE"),
        ("", "const int ids[2] = {0, 1};", "ids[1]"),
        ("", "struct { int scale; } ids = {.scale = 1};", "ids.scale"),
    ],
)
def test_forms_of_a_kernel_id(tmp_path: Path, preamble: str, declaration: str, func_id: str) -> None:
    text = entry(declaration + task(func_id, "p.add_input(ext_x); p.add_output(ext_y);"), preamble)
    assert derived(tmp_path, text).signatures == {1: (IN, OUT)}


@pytest.mark.parametrize(
    "mixed",
    [
        "MixedKernels m = {0, 1, INVALID_KERNEL_ID}; rt_submit_task(m, p);",
        "MixedKernels m{0, 1, 1}; rt_submit_task(m, p);",
        "rt_submit_task(MixedKernels{0, 1, -1}, p);",
        "rt_submit_task({0, 1, -1}, p);",
        "MixedKernels m; m.aic_kernel_id = 0; m.aiv0_kernel_id = 1; rt_submit_task(m, p);",
        "MixedKernels m = {.aic_kernel_id = 0, .aiv0_kernel_id = 1}; rt_submit_task(m, p);",
    ],
)
def test_mixed_kernels_share_a_signature(tmp_path: Path, mixed: str) -> None:
    text = entry(f"CoreTaskArgs p; p.add_input(ext_x); p.add_output(ext_y); {mixed}")
    assert derived(tmp_path, text).signatures == {0: (IN, OUT), 1: (IN, OUT)}


def test_kernel_id_counted_by_a_loop(tmp_path: Path) -> None:
    text = entry("for (int k = 0; k < 2; ++k) { " + task("k", "p.add_input(ext_x);") + " }")
    assert derived(tmp_path, text).signatures == {0: (IN,), 1: (IN,)}


def test_kernel_id_that_is_computed(tmp_path: Path) -> None:
    facts = derived(tmp_path, entry(task("pick(ext_x)", "p.add_input(ext_x);")))
    assert facts.signatures == {1: (IN,)}
    source = tmp_path / "orchestration" / "scaled_mm.cpp"
    assert facts.notes == (
        f"{source}: kernel 0 'mm' is never submitted",
        f"{source}: kernel 1 'scale' is assumed to be submitted where the func_id is computed",
    )


@pytest.mark.parametrize(
    ("preamble", "body"),
    [
        (
            "static void run(int id, const ChipTensor& a, const ChipTensor& b) {"
            " CoreTaskArgs q; q.add_input(a); q.add_output(b); rt_submit_aiv_task(id, q); }\n",
            "run(1, ext_x, ext_y);",
        ),
        (
            "template <int ID> void run(const ChipTensor& a, const ChipTensor& b) {"
            " CoreTaskArgs q; q.add_input(a); q.add_output(b); rt_submit_aiv_task(ID, q); }\n",
            "run<1>(ext_x, ext_y);",
        ),
        (
            "",
            "auto run = [&](int id, const ChipTensor& b) { CoreTaskArgs q; q.add_input(ext_x); q.add_output(b);"
            " rt_submit_aiv_task(id, q); }; run(1, ext_y);",
        ),
        (
            "static void fill(CoreTaskArgs& q, const ChipTensor& a) { q.add_input(a); }\n",
            "CoreTaskArgs p; fill(p, ext_x); p.add_output(ext_y); rt_submit_aiv_task(1, p);",
        ),
        (
            "static void run(const ChipTensor& a, const ChipTensor& b, int id = 1) {"
            " CoreTaskArgs q; q.add_input(a); q.add_output(b); rt_submit_aiv_task(id, q); }\n",
            "run(ext_x, ext_y);",
        ),
    ],
)
def test_helpers_are_followed(tmp_path: Path, preamble: str, body: str) -> None:
    facts = derived(tmp_path, entry(body, preamble))
    assert (facts.signatures, directions(facts)) == ({1: (IN, OUT)}, "x:IN w:IN y:OUT")


def test_recursion_ends(tmp_path: Path) -> None:
    preamble = "static void again(const ChipTensor& t, int n) { if (n > 0) again(t, n - 1); }\n"
    assert derived(tmp_path, entry("again(ext_x, 3);", preamble)).signatures == {}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("p.add_output(ext_y);", "x:IN w:IN y:OUT"),
        ("p.add_inout(ext_y);", "x:IN w:IN y:INOUT"),
        ("p.add_no_dep(ext_y);", "x:IN w:IN y:INOUT"),
        ("p.add_output(ext_y); p.add_input(ext_y);", "x:IN w:IN y:INOUT"),
        ("ChipTensor v = ext_y.view(s, o); p.add_output(v);", "x:IN w:IN y:INOUT"),
        ("ChipTensor v = ext_y.slice(0, 0, 4, 1); p.add_output(v);", "x:IN w:IN y:INOUT"),
        ("ChipTensor v = ext_x.view(s, o); p.add_input(v);", "x:IN w:IN y:IN"),
        ("ChipTensor v = ext_y.reshape(s, 1); p.add_output(v);", "x:IN w:IN y:OUT"),
        ("ChipTensor v = ext_y.transpose(0, 1).reshape(s, 2); p.add_output(v);", "x:IN w:IN y:OUT"),
        ("const ChipTensor& a = ext_y; auto b = a; const ChipTensor* c = &b; p.add_output(*c);", "x:IN w:IN y:OUT"),
        ("ChipTensor v(ext_y); p.add_output(v);", "x:IN w:IN y:OUT"),
        ("const ChipTensor& v = n ? ext_x : ext_y; p.add_output(v);", "x:INOUT w:IN y:INOUT"),
        ("ChipTensor c = t; for (int i = 0; i < n; ++i) { p.add_output(c); c = ext_y; }", "x:IN w:IN y:OUT"),
        ("ChipTensor r; if (n) { r = ext_x; } else { r = ext_y; } p.add_inout(r);", "x:INOUT w:IN y:INOUT"),
        ("const ChipTensor* a[2] = {&ext_x, &ext_y}; p.add_output(*a[1]);", "x:IN w:IN y:OUT"),
        ("const ChipTensor* a[2] = {&ext_x, &ext_y}; p.add_output(*a[n]);", "x:INOUT w:IN y:INOUT"),
        ("std::vector<ChipTensor> v; v.push_back(ext_y); p.add_output(v[0]);", "x:IN w:IN y:OUT"),
        ("Both b{ext_x, ext_y}; p.add_output(b.second);", "x:INOUT w:IN y:INOUT"),
        ("switch (n) { case 0: { p.add_output(ext_y); break; } default: p.add_inout(ext_w); }", "x:IN w:INOUT y:OUT"),
        ("do { p.add_output(ext_y); } while (n); while (n) { p.add_inout(ext_x); }", "x:INOUT w:IN y:OUT"),
        ("p.add_output(elsewhere(ext_y));", "x:IN w:IN y:INOUT"),
        ("set_tensor_data<float>(ext_y, 2, idx, 1.0f);", "x:IN w:IN y:INOUT"),
        ("float v = get_tensor_data<float>(ext_w, 2, idx);", "x:IN w:IN y:IN"),
        ("p.add_output(orch_args.tensor(2).ref());", "x:IN w:IN y:OUT"),
        ("TaskOutputTensors o = rt_submit_aiv_task(1, p); q.add_inout(o.get_ref(0));", "x:IN w:IN y:IN"),
    ],
)
def test_directions_of_arguments(tmp_path: Path, body: str, expected: str) -> None:
    assert directions(derived(tmp_path, entry(f"CoreTaskArgs p; CoreTaskArgs q; {body}"))) == expected


def test_tensor_that_is_never_named(tmp_path: Path) -> None:
    facts = derived(tmp_path, entry("CoreTaskArgs p; p.add_output(orch_args.tensor(4).ref());"))
    assert directions(facts) == "x:IN w:IN y:IN :IN :OUT"


@pytest.mark.parametrize(
    ("declaration", "dtype"),
    [
        ("float n = from_u64<float>(orch_args.scalar(0));", "float32"),
        ("auto n = from_u64<int32_t>(orch_args.scalar(0));", "int32"),
        ("int64_t n = static_cast<int64_t>(orch_args.scalar(0));", "int64"),
        ("const uint64_t n = (uint64_t)orch_args.scalar(0);", "uint64"),
        ("uint32_t n = orch_args.scalar(0);", "uint32"),
        ("bool n = from_u64<bool>(orch_args.scalar(0));", "bool"),
        ("half n = from_u64<half>(orch_args.scalar(0));", "float16"),
        ("union { uint64_t u64; float val; } c; c.u64 = orch_args.scalar(0); float n = c.val;", "float32"),
        ("Strange n = from_u64<Strange>(orch_args.scalar(0));", None),
    ],
)
def test_scalars(tmp_path: Path, declaration: str, dtype: str | None) -> None:
    (scalar,) = derived(tmp_path, entry(declaration)).scalars
    assert (scalar.name, scalar.dtype) == ("n", dtype)


@pytest.mark.parametrize(
    "submit", ["rt_submit_aiv_task(7, p);", "rt_submit_task({0, 7, -1}, p);", "int k = 7; rt_submit_aic_task(k, p);"]
)
def test_func_id_without_kernel(tmp_path: Path, submit: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        derived(tmp_path, entry(f"    CoreTaskArgs p;\n    {submit}"))
    assert str(caught.value) == (
        f"{tmp_path}/orchestration/scaled_mm.cpp:7: submits func_id 7, but no kernel in the manifest has this func_id; "
        "use one of the manifest's func_ids: 0, 1"
    )


def test_func_id_that_only_may_be_wrong(tmp_path: Path) -> None:
    text = entry("int k = 1; if (n) { k = 7; } " + task("k", "p.add_input(ext_x);"))
    assert derived(tmp_path, text).signatures == {1: (IN,)}


def test_missing_entry(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as caught:
        derived(tmp_path, "void other(const ChipTaskArgs& a) {}\n")
    assert str(caught.value) == (
        f"{tmp_path}/orchestration/scaled_mm.cpp: does not define the function 'aicpu_orchestration_entry'; "
        "correct ORCHESTRATION.function_name or ORCHESTRATION.source in the manifest"
    )


def test_notes(tmp_path: Path) -> None:
    manifest = MANIFEST.replace('"core_type": "aiv"', '"core_type": "aiv", "signature": [_D.IN]').replace(
        "from pathlib", "from simpler.task_interface import ArgDirection as _D\nfrom pathlib"
    )
    text = entry("CoreTaskArgs p; p.add_input(ext_x); p.add_output(ext_y); rt_submit_aic_task(1, p);")
    facts = derived(tmp_path, text, manifest)
    source = tmp_path / "orchestration" / "scaled_mm.cpp"
    assert facts.notes == (
        f"{source}: kernel 0 'mm' is never submitted",
        f"{source}:6: kernel 1 'scale' is submitted to aic, not to its aiv",
        f"{source}: kernel 1 'scale' is submitted with 2 tensors, its signature has 1",
    )


def test_damaged_cpp_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    text = entry("@@ ((( \n" + task("1", "p.add_input(ext_x);"))
    assert derived(tmp_path, text).tensors[0].name == "x"
