"""`.pt` files against the real torch, and every file that is refused."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.pt import STORAGES, dump_record, read_pt, write_pt
from pypto_build.facts.dtypes import ITEMSIZE

_RESAVE = "save it again: torch.save(tensor.detach().cpu().contiguous(), path)"
_UNSIGNED = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(tensor: torch.Tensor) -> bytes:
    """The elements' bytes in row-major order, by torch."""
    flat = tensor.detach().contiguous().reshape(-1).view(_UNSIGNED[tensor.element_size()])
    return flat.numpy().tobytes()


def sample(dtype: str, *shape: int) -> torch.Tensor:
    count = torch.Size(shape).numel()
    raw = torch.arange(count * ITEMSIZE[dtype], dtype=torch.int64).mul(37).to(torch.uint8)
    if dtype == "bool":
        raw &= 1
    return raw.view(getattr(torch, dtype)).reshape(shape)


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "whole": lambda t: t,
    "offset": lambda t: t[2:],
    "columns": lambda t: t[:, 1:4],
    "steps": lambda t: t[1::2, ::3],
    "transposed": lambda t: t.t(),
    "expanded": lambda t: t[:1].expand(5, -1),
    "row": lambda t: t[3],
    "element": lambda t: t[3, 4],
    "empty": lambda t: t[:0],
    "cube": lambda t: t.reshape(2, 2, 6).permute(2, 0, 1),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", ITEMSIZE)
def test_reads_what_torch_saves(tmp_path: Path, dtype: str, view: str) -> None:
    tensor = VIEWS[view](sample(dtype, 4, 6))
    torch.save(tensor, tmp_path / "t.pt")
    read = read_pt(tmp_path / "t.pt")
    assert (read.dtype, read.shape, read.strides) == (dtype, tuple(tensor.shape), tensor.stride())
    assert (read.offset, read.numel) == (tensor.storage_offset(), tensor.numel())
    assert read.is_contiguous == tensor.is_contiguous()
    assert bytes(read.contiguous()) == bits(tensor)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (4, 6), (2, 1, 3, 1, 2)])
@pytest.mark.parametrize("dtype", ITEMSIZE)
def test_torch_loads_what_is_written(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    tensor = sample(dtype, *shape)
    path = tmp_path / "t.pt"
    write_pt(path, dtype, shape, bits(tensor))
    for mapped in (False, True):
        loaded = torch.load(path, weights_only=True, mmap=mapped)
        assert (loaded.dtype, tuple(loaded.shape), loaded.stride()) == (tensor.dtype, shape, tensor.stride())
        assert bits(loaded) == bits(tensor)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    dtype=st.sampled_from(sorted(ITEMSIZE)),
    shape=st.lists(st.integers(0, 7), max_size=5),
    order=st.randoms(use_true_random=False),
    start=st.integers(0, 3),
)
def test_round_trip(tmp_path: Path, dtype: str, shape: list[int], order: Any, start: int) -> None:
    axes = list(range(len(shape)))
    order.shuffle(axes)
    tensor = sample(dtype, start + torch.Size(shape).numel())[start:].reshape(shape).permute(axes)
    torch.save(tensor, tmp_path / "saved.pt")
    read = read_pt(tmp_path / "saved.pt")
    write_pt(tmp_path / "written.pt", read.dtype, read.shape, read.contiguous())
    loaded = torch.load(tmp_path / "written.pt", weights_only=True)
    assert (loaded.dtype, loaded.shape) == (tensor.dtype, tensor.shape)
    assert bits(loaded) == bits(tensor)
    again = read_pt(tmp_path / "written.pt")
    assert bytes(again.contiguous()) == bits(tensor)


def test_elements_are_mapped_and_aligned(tmp_path: Path) -> None:
    path = tmp_path / "t.pt"
    write_pt(path, "float32", (1000,), bytes(4000))
    read = read_pt(path)
    assert read.contiguous().obj is read.data.obj
    assert read.data.readonly
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("archive/data/0")
        assert info.compress_type == zipfile.ZIP_STORED
        name_size, extra_size = struct.unpack_from("<HH", path.read_bytes(), info.header_offset + 26)
    assert (info.header_offset + 30 + name_size + extra_size) % 64 == 0


def test_writing_is_deterministic_and_atomic(tmp_path: Path) -> None:
    for name in ("a/t.pt", "b/other.pt"):
        write_pt(tmp_path / name, "int32", [2], struct.pack("<2i", 1, 2))
    assert (tmp_path / "a/t.pt").read_bytes() == (tmp_path / "b/other.pt").read_bytes()
    assert os.listdir(tmp_path / "a") == ["t.pt"]


def test_faulty_arguments_write_nothing(tmp_path: Path) -> None:
    for dtype, shape in (("int32", (3,)), ("complex64", (1,))):
        with pytest.raises(ValueError, match=r"a tensor of dtype .* cannot have 8 bytes"):
            write_pt(tmp_path / "t.pt", dtype, shape, bytes(8))
    assert os.listdir(tmp_path) == []


def complaint(path: Path) -> str:
    with pytest.raises(ArtifactError) as caught:
        read_pt(path, kind="golden_error")
    assert caught.value.kind == "golden_error"
    return str(caught.value).removeprefix(f"{path}: ")


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("victim",)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ({"x": torch.zeros(1)}, "holds a dict, not a tensor"),
        ([torch.zeros(1)], "holds a list, not a tensor"),
        ((torch.zeros(1), 1), "holds a tuple, not a tensor"),
        (1.5, "holds a float, not a tensor"),
        (None, "holds a NoneType, not a tensor"),
        (torch.nn.Parameter(torch.zeros(2)), "holds torch._utils._rebuild_parameter, not a plain tensor"),
        (torch.zeros(2, dtype=torch.complex64), "holds torch.ComplexFloatStorage, not a plain tensor"),
        (torch.zeros(2).to_sparse(), "holds torch._utils._rebuild_sparse_tensor, not a plain tensor"),
        (torch.float32, "holds a dtype, not a tensor"),
        (torch.nn.Linear(1, 1), "holds torch.nn.modules.linear.Linear, not a plain tensor (pickle opcode NEWOBJ)"),
        (_Evil(), "holds posix.mkdir, not a plain tensor"),
    ],
)
def test_refuses_other_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: object, what: str) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(content, tmp_path / "t.pt")
    assert complaint(tmp_path / "t.pt") == f"{what}; {_RESAVE}"
    assert not (tmp_path / "victim").exists()


def test_refuses_a_conjugated_or_negated_view(tmp_path: Path) -> None:
    torch.save(torch.ones(2, dtype=torch.complex64).conj().imag, tmp_path / "t.pt")
    assert complaint(tmp_path / "t.pt").startswith("holds ")


def test_refuses_the_format_before_torch_1_6(tmp_path: Path) -> None:
    torch.save(torch.zeros(4), tmp_path / "t.pt", _use_new_zipfile_serialization=False)
    assert complaint(tmp_path / "t.pt") == (
        f"was written by a torch older than 1.6, whose format is not supported; {_RESAVE}"
    )


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"hello", "is not a file written by torch.save"),
        (b"PK\x03\x04", "is truncated or damaged: it is not a readable zip archive"),
    ],
)
def test_refuses_other_files(tmp_path: Path, content: bytes, what: str) -> None:
    (tmp_path / "t.pt").write_bytes(content)
    assert complaint(tmp_path / "t.pt") == f"{what}; {_RESAVE}"


def test_missing_file_and_directory(tmp_path: Path) -> None:
    assert complaint(tmp_path / "t.pt") == "no such file; save the tensor there"
    assert complaint(tmp_path) == "cannot be read: Is a directory"


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    whole = io.BytesIO()
    torch.save(torch.zeros(64), whole)
    for size in range(1, len(whole.getvalue()), 23):
        (tmp_path / "t.pt").write_bytes(whole.getvalue()[:size])
        assert complaint(tmp_path / "t.pt").endswith(_RESAVE)


def test_no_damaged_byte_gets_through(tmp_path: Path) -> None:
    whole = io.BytesIO()
    torch.save(torch.arange(8, dtype=torch.int8), whole)
    for position in range(0, len(whole.getvalue()), 5):
        damaged = bytearray(whole.getvalue())
        damaged[position] ^= 0xFF
        (tmp_path / "t.pt").write_bytes(damaged)
        try:
            read = read_pt(tmp_path / "t.pt")
        except ArtifactError as error:
            assert "\n" not in str(error)
        else:
            assert len(read.contiguous()) == read.numel * read.itemsize


def archive(path: Path, entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in entries.items():
            file.writestr(f"t/{name}", data)
    return path


PLAIN = {"data.pkl": dump_record("float32", (2, 3)), "byteorder": b"little", "data/0": bytes(24)}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"byteorder": b"big"}, "is big-endian; save it on a little-endian machine"),
        ({"data/0": bytes(20)}, "is damaged: t/data/0 has 20 bytes instead of 24"),
        ({"data/0": None}, "is damaged: the entry t/data/0 is missing"),
        ({"data.pkl": None}, "is a zip archive without data.pkl, so torch.save did not write it"),
        ({"data.pkl": b"\x80\x02"}, "is damaged: its pickle cannot be read (pickle exhausted before seeing STOP)"),
        ({"data.pkl": b"\x80\x02."}, "is damaged: its pickle cannot be read (unpickling stack underflow)"),
        ({"data.pkl": b"\x80\x02Nr\xff\xff\xff\x7f."}, "is damaged: its pickle memo is too large"),
        ({"data.pkl": pickle.dumps(_Evil(), 0)}, "holds posix.mkdir, not a plain tensor (pickle opcode PUT)"),
        ({"data.pkl": pickle.dumps({"a": b"x" * 70000}, 2)}, "holds more than one tensor: its pickle is too long"),
        ({"data.pkl": PLAIN["data.pkl"].replace(b"storage", b"garbage")}, None),
        ({"data.pkl": PLAIN["data.pkl"].replace(b"X\x01\x00\x00\x000", b"X\x03\x00\x00\x00../")}, None),
    ],
)
def test_refuses_damaged_archives(tmp_path: Path, change: dict[str, bytes | None], what: str | None) -> None:
    entries = {name: data for name, data in (PLAIN | change).items() if data is not None}
    what = what or "is damaged: its pickle refers to something that is not a storage"
    assert complaint(archive(tmp_path / "t.pt", entries)) == f"{what}; {_RESAVE}"


def test_refuses_shapes_beyond_the_storage(tmp_path: Path) -> None:
    short = PLAIN["data.pkl"].replace(b"J\x06\x00\x00\x00tQ", b"J\x05\x00\x00\x00tQ")
    assert short != PLAIN["data.pkl"]
    assert complaint(archive(tmp_path / "t.pt", PLAIN | {"data.pkl": short, "data/0": bytes(20)})) == (
        f"is damaged: its shape [2, 3] needs more than the 20 bytes that are stored; {_RESAVE}"
    )


def test_refuses_compression_and_accepts_a_missing_byteorder(tmp_path: Path) -> None:
    assert complaint(archive(tmp_path / "t.pt", PLAIN, zipfile.ZIP_DEFLATED)) == (
        f"is a compressed zip archive; save it with torch.save; {_RESAVE}"
    )
    bare = {name: data for name, data in PLAIN.items() if name != "byteorder"}
    assert read_pt(archive(tmp_path / "u.pt", bare)).shape == (2, 3)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storage_types_match_torch() -> None:
    assert {name: str(getattr(torch, name)(0).dtype).removeprefix("torch.") for name in STORAGES} == STORAGES
