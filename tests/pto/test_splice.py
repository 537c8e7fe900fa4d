"""Putting bodies into wrappers: sentinels of every vintage, raw ptoas output, signatures that changed."""

from __future__ import annotations

import pytest

from pypto_build.pto import PtoError, parse
from pypto_build.pto.assemble import assemble
from pypto_build.pto.splice import (
    Parameter,
    body_of,
    compare_signature,
    find_sentinels,
    forwarded_arguments,
    functions_of,
    preprocess,
    replace_body,
    splice_unit,
)
from tests.pto.samples import module

BEGIN = "// --- ptoas-generated code ---"
ENDS = {False: "// --- Kernel entry point ---", True: "// --- CCE-compatible entry point ---"}


def wrapper(
    name: str = "k", *, old: bool = False, body: str = "static __aicore__ void k(__gm__ float* v1) {\n}"
) -> str:
    return (
        f'// Kernel Function: {name}\n#include "tensor.h"\nusing namespace pto;\n\n{BEGIN}\n{body}\n\n{ENDS[old]}\n'
        f'extern "C" __aicore__ __attribute__((always_inline)) void kernel_entry(__gm__ int64_t* args) {{\n'
        "    __gm__ ChipTensor* x_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[0]);\n"
        "    __gm__ float* x = reinterpret_cast<__gm__ float*>(x_tensor->buffer.addr) + x_tensor->start_offset;\n\n"
        "    union { uint64_t u64; float val; } alpha_conv;\n"
        "    float alpha = alpha_conv.val;\n\n"
        "    int64_t M = static_cast<int64_t>(x_tensor->shapes[0]);\n\n"
        f"    // Forward to ptoas-generated function\n    {name}(x, alpha, M);\n}}\n"
    )


NEW = "static __aicore__ void k(__gm__ float* a, float b, int64_t c) {\n    use(a, b, c);\n}\n"


@pytest.mark.parametrize("old", [False, True])
def test_body_is_replaced_and_everything_else_kept(old: bool) -> None:
    text = wrapper(old=old)
    new = replace_body(text, NEW)
    assert body_of(new) == NEW.strip()
    assert new.split(BEGIN)[0] == text.split(BEGIN)[0]
    assert new.split(ENDS[old])[1] == text.split(ENDS[old])[1]
    assert find_sentinels(text).old_style is old
    assert replace_body(new, NEW) == new
    assert replace_body(new, body_of(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int x;\n", "w.cpp: has no '// --- ptoas-generated code ---' line, "),
        (f"{BEGIN}\nint x;\n", "w.cpp: has no line of the entry point after the body, "),
        (f"{ENDS[False]}\n{BEGIN}\n", "w.cpp: has no line of the entry point after the body, "),
    ],
)
def test_missing_sentinels(text: str, message: str) -> None:
    with pytest.raises(PtoError) as raised:
        replace_body(text, NEW, "w.cpp")
    assert str(raised.value) == message + "so no new body can be written into this file; compile the program again"


RAW = """\
#include "pto/pto-inst.hpp"
#include <cstdint>
using namespace pto;

static AICORE inline void helper(int mode) {
}

extern "C" __global__ AICORE void k(__gm__ float* v1, float v2, int64_t v3) {
  set_ffts_base_addr(v9);
  Tensor* t = 0;
  __gm__ float* v7 = (__gm__ float*) v5;
  __ubuf__ int32_t* v8 = v6.data();
  __ubuf__ int32_t* v9 = v6.data();
  use(v9);
  MGATHER<pto::Coalesce::Row>(v4, v7, v8);
  MGATHER(v4, v7, v9);
  return;
}
AICORE void side(int32_t v1) {
}
"""
COOKED = """\

static __aicore__ inline void helper(int mode) {
}

static __aicore__ void k(__gm__ float* v1, float v2, int64_t v3) {
  ChipTensor* t = 0;
  __ubuf__ int32_t* v9 = v6.data();
  use(v9);
  MGATHER<pto::Coalesce::Row>(v4, v5, v6);
  MGATHER(v4, v5, v6);
  return;
}
static __aicore__ void side(int32_t v1) {
}
"""


def test_raw_ptoas_output_is_prepared() -> None:
    assert preprocess(RAW) == COOKED


def test_a_wrapper_older_than_chip_tensor_keeps_tensor() -> None:
    assert preprocess(RAW, "Tensor* x") == COOKED.replace("ChipTensor", "Tensor")
    assert preprocess(RAW, "ChipTensor* x") == COOKED


def test_functions_and_their_parameters() -> None:
    assert functions_of(COOKED) == {
        "helper": (Parameter("int", "mode"),),
        "k": (Parameter("float*", "v1"), Parameter("float", "v2"), Parameter("int64_t", "v3")),
        "side": (Parameter("int32_t", "v1"),),
    }


def test_arguments_that_the_entry_forwards() -> None:
    assert forwarded_arguments(wrapper(), "k") == (
        Parameter("float*", "x"),
        Parameter("float", "alpha"),
        Parameter("int64_t", "M"),
    )


MISFITS = {
    "__gm__ float* a, int32_t b, int64_t c": (
        "w.cpp: argument 1 of k no longer fits: kernel_entry passes float alpha, the new function takes int32_t b; "
        "compile the program again"
    ),
    "__gm__ half* a, float b, int64_t c": (
        "w.cpp: argument 0 of k no longer fits: kernel_entry passes float* x, the new function takes half* a; "
        "compile the program again"
    ),
    "__gm__ float* a, float b, int64_t c, int32_t d": (
        "w.cpp: argument 3 (int32_t d) has no value: kernel_entry passes 3 arguments to k, the new function takes 4; "
        "compile the program again"
    ),
    "__gm__ float* a, float b": (
        "w.cpp: argument 2 (M) is no longer taken: kernel_entry passes 3 arguments to k, the new function takes 2; "
        "compile the program again"
    ),
}


@pytest.mark.parametrize("parameters", MISFITS)
def test_signature_that_no_longer_fits(parameters: str) -> None:
    functions = functions_of(f"static __aicore__ void k({parameters}) {{\n}}\n")
    with pytest.raises(PtoError) as raised:
        compare_signature(wrapper(), "k", functions["k"], "w.cpp")
    assert str(raised.value) == MISFITS[parameters]


def test_wrapper_that_does_not_call_the_function() -> None:
    with pytest.raises(PtoError) as raised:
        forwarded_arguments(wrapper("other"), "k", "w.cpp")
    assert str(raised.value) == "w.cpp: kernel_entry does not call k"


def test_unit_of_two_functions() -> None:
    """Wrappers of all functions get the whole unit's body; helpers have none."""
    body = NEW + NEW.replace("void k(", "void j(") + "static __aicore__ void helper() {\n}\n"
    done = splice_unit(body, {"k": ("aic/k.cpp", wrapper("k")), "j": ("aiv/j.cpp", wrapper("j"))})
    assert {name: (s.path, s.changed) for name, s in done.items()} == {
        "k": ("aic/k.cpp", True),
        "j": ("aiv/j.cpp", True),
    }
    assert all(body_of(s.text) == body.strip() for s in done.values())
    again = splice_unit(body, {name: (s.path, s.text) for name, s in done.items()})
    assert [s.changed for s in again.values()] == [False, False]


def test_unit_that_lost_a_function() -> None:
    with pytest.raises(PtoError) as raised:
        splice_unit(NEW, {"k": ("k.cpp", wrapper("k")), "j": ("j.cpp", wrapper("j"))})
    assert str(raised.value) == "j.cpp: the unit no longer defines j (it defines k); compile the program again"


def test_assembled_body_fits_its_wrapper() -> None:
    text = module("", "%arg0: !pto.ptr<f32>, %arg1: f32, %arg2: index")
    body = assemble(parse(text), "a2a3sim").text
    assert body_of(splice_unit(body, {"k": ("k.cpp", wrapper())})["k"].text) == body.strip("\n")
