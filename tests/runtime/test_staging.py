"""Tensors between their owner and the kernels: poison, guarded inputs, elements nobody wrote."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.runtime.rig import Kernel, Rig, entry, floats, parameter

RUN = entry("""
    const ChipTensor& x = orch_args.tensor(0).ref();
    const ChipTensor& y = orch_args.tensor(1).ref();
    CoreTaskArgs p; p.add_input(x); p.add_output(y); rt_submit_aiv_task(0, p);
""")
COPY = Kernel("copy", "for (uint64_t i = 0; i < count(args, 1); ++i) data(args, 1)[i] = data(args, 0)[i];")
SOME = Kernel(
    "some", "for (uint64_t i = 0; i < count(args, 1); ++i) if (i % 8 != 5) data(args, 1)[i] = data(args, 0)[i];"
)
SCRIBBLE = Kernel("scribble", "data(args, 0)[3] = -1; data(args, 1)[0] = data(args, 0)[3];")
NOTHING = Kernel("nothing", "")


def own_pages(array: NDArray[Any]) -> NDArray[Any]:
    """A copy of an array on pages of its own."""
    memory = mmap.mmap(-1, array.nbytes)
    copy = np.frombuffer(memory, array.dtype).reshape(array.shape)
    copy[:] = array
    return copy


def test_everything_written(rig: Rig) -> None:
    x, y = floats(4, 8), np.ones((4, 8), np.float32)
    result = rig.run([COPY], RUN, [(x, "IN"), (y, "OUT")]).result
    assert (result.unwritten, result.input_writes) == ([], [])


def test_elements_nobody_wrote_are_listed(rig: Rig) -> None:
    x, y = floats(4, 8), np.zeros((4, 8), np.float32)
    (hole,) = rig.run([SOME], RUN, [(x, "IN"), (y, "OUT")]).result.unwritten
    assert (hole.tensor, hole.count, hole.first) == (1, 4, [5, 13, 21, 29])
    assert np.isnan(y[:, 5]).all()
    assert not np.isnan(np.delete(y, 5, axis=1)).any()


def test_a_computed_nan_counts_as_written(rig: Rig) -> None:
    x, y = np.full((4, 8), np.nan, np.float32), np.zeros((4, 8), np.float32)
    assert rig.run([COPY], RUN, [(x, "IN"), (y, "OUT")]).result.unwritten == []


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int16", "int8", "uint8", "int64", "bool"])
def test_poison_of_every_type(rig: Rig, dtype: str) -> None:
    x, y = np.zeros(64, dtype), np.zeros(64, dtype)
    (hole,) = rig.run([NOTHING], RUN, [(x, "IN"), (y, "OUT")]).result.unwritten
    assert (hole.count, hole.first) == (64, list(range(16)))


def test_single_bytes_that_equal_the_pattern_are_not_reported(rig: Rig) -> None:
    bytes_kernel = Kernel(
        "bytes", "for (uint64_t i = 0; i < 64; ++i) tensor(args, 1).data_as<uint8_t>()[i] = i % 8 == 5 ? 0xA5 : 0;"
    )
    x, y = np.zeros(64, np.uint8), np.zeros(64, np.uint8)
    assert rig.run([bytes_kernel], RUN, [(x, "IN"), (y, "OUT")]).result.unwritten == []


def test_without_poison_outputs_keep_what_they_held(rig: Rig) -> None:
    x, y = floats(4, 8), np.full((4, 8), 7, np.float32)
    result = rig.run([SOME], RUN, [(x, "IN"), (y, "OUT")], poison=False).result
    assert result.unwritten == []
    np.testing.assert_array_equal(y[:, 5], [7] * 4)


def test_inout_is_not_poisoned(rig: Rig) -> None:
    x, y = floats(4, 8), np.full((4, 8), 7, np.float32)
    assert rig.run([NOTHING], RUN, [(x, "IN"), (y, "INOUT")]).result.unwritten == []
    assert (y == 7).all()


def test_intermediates_start_as_nan(rig: Rig) -> None:
    body = """
    const ChipTensor& y = orch_args.tensor(1).ref();
    uint32_t shape[2] = {4, 8}; TensorCreateInfo ci(shape, 2); TaskOutputTensors outs = alloc_tensors(ci);
    const ChipTensor& t = outs.get_ref(0);
    CoreTaskArgs p; p.add_input(t); p.add_output(y); rt_submit_aiv_task(0, p);
    """
    x, y = floats(4, 8), np.zeros((4, 8), np.float32)
    rig.run([COPY], entry(body), [(x, "IN"), (y, "OUT")])
    assert np.isnan(y).all()


@pytest.mark.parametrize("guarded_in_place", [True, False])
def test_a_write_to_an_input_is_noticed_and_goes_through(rig: Rig, guarded_in_place: bool) -> None:
    x, y = floats(128, 8), np.zeros((128, 8), np.float32)
    x = own_pages(x) if guarded_in_place else x.copy()[:127]
    result = rig.run([SCRIBBLE], RUN, [(x, "IN"), (y, "OUT")]).result
    (write,) = result.input_writes
    assert (write.tensor, write.offset, write.task, write.kernel) == (0, 12, 0, "scribble")
    assert write.in_copy == (not guarded_in_place)
    assert y[0, 0] == -1  # as on the device, later reads see it
    assert x[0, 3] == (-1 if guarded_in_place else 3)  # a staged copy keeps the owner's data whole


def test_the_same_bytes_again_are_no_change(rig: Rig) -> None:
    x, y = floats(127, 8), np.zeros((127, 8), np.float32)
    same = Kernel("same", "data(args, 0)[3] = 3; data(args, 1)[0] = data(args, 0)[3];")
    result = rig.run([same], RUN, [(x, "IN"), (y, "OUT")]).result
    assert (result.input_writes, y[0, 0]) == ([], 3)


def test_inputs_are_writable_again_after_the_run(rig: Rig) -> None:
    x, y = own_pages(floats(128, 8)), np.zeros((128, 8), np.float32)
    rig.run([COPY], RUN, [(x, "IN"), (y, "OUT")])
    x[0, 0] = 5
    assert x[0, 0] == 5


def test_an_empty_tensor_has_no_address(rig: Rig) -> None:
    kernel = Kernel("empty", "data(args, 1)[0] = tensor(args, 0).buffer.addr == 0 && count(args, 0) == 0;")
    x, y = np.zeros((0, 8), np.float32), np.zeros(1, np.float32)
    rig.run([kernel], RUN, [(x, "IN"), (y, "OUT")])
    assert y[0] == 1


def test_repeated_runs_of_one_runtime(rig: Rig) -> None:
    runtime = rig.runtime([COPY], RUN)
    y = np.zeros((4, 8), np.float32)
    for round_number in range(50):
        x = floats(4, 8) + round_number
        runtime.run([parameter(x, "IN"), parameter(y, "OUT")])
        np.testing.assert_array_equal(y, x)
