"""A fault unwinds what a kernel or an orchestration has on its stack: destructors run, and nothing stays behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.runtime.rig import Kernel, Rig, entry, floats

#: Objects that count in the first elements of a tensor how many of them were built, and how many are gone.
COUNTED = """
#include <memory>
#include <string>
#include <vector>
struct Counted {
    float *counts;
    std::string text = std::string(4096, 'x');
    explicit Counted(float *place) : counts(place) { counts[0] += 1; }
    Counted(const Counted &other) : counts(other.counts) { counts[0] += 1; }
    ~Counted() { counts[1] += 1; }
};
"""
OWNING = """
    float *counts = orch_args.tensor(0).ref().data_as<float>();
    std::vector<Counted> many(3, Counted(counts));
    auto one = std::make_unique<Counted>(counts);
    PTO2_SCOPE() {
        Counted inner(counts);
        const ChipTensor &x = orch_args.tensor(0).ref();
        CoreTaskArgs p; p.add_inout(x);
        %s
    }
    counts[2] = 1;
"""
FAULTS = {
    "a submission that is refused": (
        "rt_submit_aiv_task(7, p);",
        "task 0 submits func_id 7, but no kernel in the manifest has this func_id",
    ),
    "misuse of a view": ("(void)x.view(x.shapes, x.shapes);", "after 0 tasks: view"),
    "a kernel that faults": (
        "rt_submit_aiv_task(0, p); uint32_t at[1] = {0}; get_tensor_data<float>(x, 1, at);",
        "sorry",
    ),
    "a fault inside of a handler": (
        "try { throw 7; } catch (int) { rt_submit_aiv_task(7, p); }",
        "task 0 submits func_id 7, but no kernel in the manifest has this func_id",
    ),
}
SORRY = Kernel("sorry", 'core->fault(core, "sorry", nullptr, 0);')


def fault(rig: Rig, kernels: list[Kernel], body: str, counts: Any) -> Any:
    """The fault that a run ends with; `counts` is its one tensor."""
    with pytest.raises(rig.module.RuntimeFault) as caught:
        rig.run(kernels, COUNTED + entry(body), [(counts, "INOUT")])
    return caught.value


@pytest.mark.parametrize("name", FAULTS)
def test_orchestration_leaves_nothing_behind(rig: Rig, name: str) -> None:
    call, message = FAULTS[name]
    counts = np.zeros(8, np.float32)
    assert fault(rig, [SORRY], OWNING % call, counts).message.startswith(message)
    assert counts[0] >= 5
    assert counts[0] == counts[1]
    assert counts[2] == 0


def test_kernel_leaves_nothing_behind(rig: Rig) -> None:
    kernel = Kernel("owner", "Counted one(data(args, 0)); " + SORRY.body + " data(args, 0)[2] = 1;", prelude=COUNTED)
    body = "const ChipTensor &x = orch_args.tensor(0).ref(); CoreTaskArgs p; p.add_inout(x); rt_submit_aiv_task(0, p);"
    counts = np.zeros(8, np.float32)
    assert fault(rig, [kernel], body, counts).message == "sorry"
    assert counts[:3].tolist() == [1, 1, 0]


def test_kernel_that_waits_for_a_failed_one_leaves_nothing_behind(rig: Rig) -> None:
    """The cube fails while the vector core waits in a pipe, and owns something."""
    pipe = "static const PyptoPipeSpec kSpec = {0, 256, 2, 1, 0, 1};\n"
    waits = Kernel(
        "waits",
        "Counted one(data(args, 0)); core->pipe_front(core, core->pipe_open(core, &kSpec), 1); data(args, 0)[2] = 1;",
        prelude=COUNTED + pipe.replace("static", '#include "pypto/core_context.h"\nstatic'),
    )
    fails = Kernel("fails", "while (((volatile float *)data(args, 0))[0] == 0) {} " + SORRY.body, "aic")
    body = """
    const ChipTensor &x = orch_args.tensor(0).ref(); CoreTaskArgs p; p.add_inout(x);
    rt_submit_task(MixedKernels{1, 0, -1}, p);
    """
    counts = np.zeros(8, np.float32)
    assert fault(rig, [waits, fails], body, counts).message == "sorry"
    assert counts[:3].tolist() == [1, 1, 0]


def test_catching_everything_keeps_the_first_fault(rig: Rig) -> None:
    body = """
    const ChipTensor &x = orch_args.tensor(0).ref(); CoreTaskArgs p; p.add_inout(x);
    int caught = 0;
    for (int i = 0; i < 3; ++i) {
        try { rt_submit_aiv_task(7 + i, p); } catch (...) { ++caught; }
    }
    x.data_as<float>()[0] = caught;
    """
    x = floats(8)
    assert (
        fault(rig, [SORRY], body, x).message
        == "task 0 submits func_id 7, but no kernel in the manifest has this func_id"
    )
    assert x[0] == 3


def test_fault_of_the_config_function(rig: Rig) -> None:
    text = (
        entry("(void)orch_args;")
        + """
    extern "C" __attribute__((visibility("default")))
    PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs &orch_args) {
        return {static_cast<int>(orch_args.scalar(4))};
    }
    """
    )
    with pytest.raises(rig.module.RuntimeFault, match=r"orch_args\.scalar\(4\) is out of range"):
        rig.run([SORRY], text, [(floats(8), "INOUT")])
