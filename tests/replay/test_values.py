"""Element types: decoding and encoding agree with torch, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pypto_build.replay.values import STORAGE, decode, encode, storage

_EIGHT_BIT = ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]


@pytest.mark.parametrize("dtype", _EIGHT_BIT)
def test_every_8_bit_float_decodes_as_torch_does(dtype: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    expected = torch.from_numpy(codes.copy()).view(getattr(torch, dtype)).float().numpy()
    np.testing.assert_array_equal(decode(codes, dtype), expected)


def test_every_bfloat16_decodes_as_torch_does() -> None:
    codes = np.arange(1 << 16, dtype=np.uint16)
    expected = torch.from_numpy(codes.view(np.int16).copy()).view(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(decode(codes, "bfloat16"), expected)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", *_EIGHT_BIT])
def test_encoding_rounds_as_torch_does(dtype: str) -> None:
    values = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    if dtype == "float8_e8m0fnu":
        values = np.exp2(np.arange(-20, 20)).astype(np.float32)
    expected = torch.from_numpy(values).to(getattr(torch, dtype)).float().numpy()
    np.testing.assert_array_equal(decode(encode(values, dtype), dtype).astype(np.float32), expected)


@pytest.mark.parametrize("dtype", STORAGE)
def test_stored_elements_keep_their_size(dtype: str) -> None:
    size = torch.empty(0, dtype=getattr(torch, dtype)).element_size()
    assert storage(bytes(6 * size), dtype, (2, 3)).shape == (2, 3)
    assert encode(np.ones(3, dtype=np.float32), dtype).nbytes == 3 * size
