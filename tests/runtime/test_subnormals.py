"""Kernels compiled for the device's results compute with zeros in the place of subnormal numbers; nobody else does."""

from __future__ import annotations

import numpy as np
import pytest

from pypto_build.facts.run_options import NUMERICS
from pypto_build.toolchain.host import kernel_numerics
from tests.runtime.rig import Kernel, Rig, entry

# y = x / 2, z = 2 x, in the task's thread; volatile, so that nothing is computed by the compiler.
HALVE = """
    volatile float two = 2.0f;
    float *x = data(args, 0);
    x[1] = x[0] / two;
    x[2] = x[0] * two;
"""
TWO_TASKS = entry("""
    const ChipTensor& x = orch_args.tensor(0).ref();
    const ChipTensor& y = orch_args.tensor(1).ref();
    CoreTaskArgs first; first.add_inout(x); rt_submit_aiv_task(0, first);
    CoreTaskArgs second; second.add_inout(y); rt_submit_aiv_task(1, second);
""")


def kernel(name: str, numerics: str) -> Kernel:
    flags = kernel_numerics(numerics)
    return Kernel(name, HALVE, prelude="#include <pto/detail/numerics.hpp>\n", flags=flags)


@pytest.mark.parametrize("numerics", NUMERICS)
def test_whose_kernels_flush_and_that_others_do_not(rig: Rig, numerics: str) -> None:
    least = 2.0**-126
    x, y = (np.array([value, 1, 1, 1], np.float32) for value in (1.5 * least, 0.75 * least))
    plain = kernel("plain", "fast")
    rig.run([kernel("flushed", numerics), plain], TWO_TASKS, [(x, "INOUT"), (y, "INOUT")], serial=True)
    assert x[1] == (0 if numerics == "device" else np.float32(0.75 * least))
    assert x[2] == np.float32(3 * least)
    assert (y[1], y[2]) == (np.float32(0.375 * least), np.float32(1.5 * least))  # in the thread that ran the other
