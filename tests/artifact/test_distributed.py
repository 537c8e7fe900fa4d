"""Devices of the ranks, as DEVICES= names them."""

from __future__ import annotations

import pytest

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.distributed import read_devices


@pytest.mark.parametrize(
    ("text", "world", "devices"),
    [("", 0, ()), ("", 3, ()), ("0", 0, (0,)), ("4,2", 2, (4, 2)), ("0-3", 4, (0, 1, 2, 3)), ("7, 1-2", 0, (7, 1, 2))],
)
def test_devices(text: str, world: int, devices: tuple[int, ...]) -> None:
    assert read_devices(text, world) == devices


@pytest.mark.parametrize(
    ("text", "world", "message"),
    [
        ("0,x", 0, "DEVICES=0,x: 'x' is not a device or a range of devices; write 0,1 or 0-3"),
        ("-1", 0, "DEVICES=-1: '-1' is not a device or a range of devices; write 0,1 or 0-3"),
        (",", 0, "DEVICES=,: names no device; write 0,1 or 0-3"),
        ("0-2,1", 0, "DEVICES=0-2,1: names device 1 twice; give each rank a different device"),
        ("3-1", 0, "DEVICES=3-1: names no device; write 0,1 or 0-3"),
        ("0-99999", 0, "DEVICES=0-99999: at most 64 ranks; name fewer"),
        ("0-63,64", 0, "DEVICES=0-63,64: at most 64 ranks; name fewer"),
        ("0,1", 3, "DEVICES=0,1: names 2 devices, WORLD= 3 ranks; leave WORLD= out"),
    ],
)
def test_devices_that_cannot_be(text: str, world: int, message: str) -> None:
    with pytest.raises(ArtifactError) as raised:
        read_devices(text, world)
    assert str(raised.value) == message
