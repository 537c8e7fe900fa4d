"""Packed runs: the same bytes each time, every content once, and archives from anywhere that can do no harm."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.diagnose.pack.__main__ import main
from pypto_build.diagnose.pack.opened import Pack, fault, open_pack, read_pack, unpack
from pypto_build.replay.verdict import Verdict, write_verdict

EXAMPLES = Path(__file__).parents[2] / "examples" / "artifacts"
NAME = "_jit_vector_dag"


@dataclass(frozen=True)
class Packed:
    """A copy of an example, its build directory, and the archive that packing it writes."""

    artifact: Path
    out: Path

    @property
    def archive(self) -> Path:
        return self.out / f"{self.artifact.name}.tar.zst"

    def pack(self, *flags: str) -> int:
        """The command line; its exit status."""
        return main([str(self.artifact), "--platform", "a2a3sim", "--build-dir", str(self.out), *flags])


@pytest.fixture
def run(tmp_path: Path) -> Packed:
    """A run that ended with a mismatch."""
    packed = Packed(tmp_path / NAME, tmp_path / "out")
    shutil.copytree(EXAMPLES / NAME, packed.artifact)
    write_verdict(Verdict("mismatch", NAME, "a2a3sim", "embedded"), packed.out / "verdict.json")
    return packed


def members(archive: Path) -> list[str]:
    """Names in the archive, in order."""
    with zstandard.open(archive, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        return tar.getnames()


def test_what_is_packed(run: Packed, capsys: pytest.CaptureFixture[str]) -> None:
    (run.artifact / "data" / "in" / "c.pt").write_bytes((run.artifact / "data" / "in" / "a.pt").read_bytes())
    (run.artifact / "kernels" / "aiv" / "kernel_add.so").write_bytes(b"left out")
    (run.artifact / "dfx_outputs").mkdir()
    (run.artifact / "dfx_outputs" / "deps.json").write_text("{}")
    assert run.pack("--rtol=1e-2", "--shuffle", "--seed", "7", "--kernel-flags=-O1") == 0
    out = capsys.readouterr().out
    assert "data/in                  5  199.0 KiB\n" in out
    assert "65.3 KiB of it are equal files, stored once\n" in out
    assert f"for 297.9 KiB; verdict mismatch)\n[pack] elsewhere: pypto-build replay {NAME}.tar.zst\n" in out
    pack = read_pack(run.archive)
    assert pack.options == {"RTOL": "1e-2", "SEED": "7", "SHUFFLE": "1", "KERNEL_FLAGS": "-O1"}
    assert (pack.artifact, pack.platform, pack.status, pack.own_data) == (NAME, "a2a3sim", "mismatch", True)
    assert dict(pack.environment)["runtime of the artifact"] == "tensormap_and_ringbuffer"
    paths = [file.path for file in pack.files]
    assert f"artifact/{NAME}/ptoas/kernel_add.pto" in paths
    assert not [path for path in paths if path.endswith(".so") or "dfx" in path]
    assert members(run.archive) == ["pack.json", *(f"objects/{digest}" for digest in pack.objects)]
    assert len(pack.objects) == len(pack.files) - 1


def test_the_same_run_gives_the_same_bytes(run: Packed, tmp_path: Path) -> None:
    assert run.pack() == 0
    first = run.archive.read_bytes()
    for path in run.artifact.rglob("*"):
        path.touch()
    other = tmp_path / "other.tar.zst"
    assert run.pack("--output", str(other)) == 0
    assert other.read_bytes() == first


def test_what_was_packed_comes_back(run: Packed, tmp_path: Path) -> None:
    assert run.pack("--atol", "1e-4") == 0
    opened = open_pack(run.archive, tmp_path / "elsewhere")
    assert opened.artifact.name == NAME
    assert opened.options == {"ATOL": "1e-4", "PLATFORM": "a2a3sim"}
    assert opened.notes == (f"unpacked to {opened.artifact.parents[1]}",)
    for path in run.artifact.rglob("*"):
        if path.is_file():
            assert (opened.artifact / path.relative_to(run.artifact)).read_bytes() == path.read_bytes()
    assert open_pack(run.archive, tmp_path / "elsewhere").notes == ()
    (opened.artifact / "kernel_config.py").write_text("# edited\n")
    (note,) = open_pack(run.archive, tmp_path / "elsewhere").notes
    assert note.startswith(f"edited since, and used as they are: artifact/{NAME}/kernel_config.py; in ")


def test_data_of_another_directory_goes_along(run: Packed, tmp_path: Path) -> None:
    shutil.move(run.artifact / "data", tmp_path / "kept")
    assert run.pack("--data", str(tmp_path / "kept")) == 0
    opened = open_pack(run.archive, tmp_path / "elsewhere")
    assert not (opened.artifact / "data").exists()
    data = Path(opened.options["DATA"])
    assert sorted(path.name for path in data.glob("*/*")) == ["a.pt", "alpha.pt", "b.pt", "f.pt", "steps.pt"]


def test_sources_outside_of_the_artifact_go_along(run: Packed, tmp_path: Path) -> None:
    outside = tmp_path / "library" / "mul.cpp"
    outside.parent.mkdir()
    shutil.copy(run.artifact / "kernels" / "aiv" / "kernel_mul.cpp", outside)
    (outside.parent / "mul.h").write_text("// nothing\n")
    manifest = run.artifact / "kernel_config.py"
    inner = 'str(_ROOT_DIR / "kernels" / "aiv" / "kernel_mul.cpp")'
    row = f'"{outside}", "external": True, "extra_include_dirs": ["{outside.parent}"]'
    assert inner in manifest.read_text()
    manifest.write_text(manifest.read_text().replace(inner, row))
    assert run.pack() == 0
    opened = open_pack(run.archive, tmp_path / "elsewhere")
    kernel = next(kernel for kernel in load_artifact(opened.artifact).kernels if kernel.name == "kernel_mul")
    assert kernel.source.is_relative_to(tmp_path / "elsewhere")
    assert kernel.source.read_bytes() == outside.read_bytes()
    assert [sorted(path.name for path in directory.iterdir()) for directory in kernel.extra_include_dirs] == [["mul.h"]]
    assert open_pack(run.archive, tmp_path / "elsewhere").notes == ()


def test_a_link_out_of_the_artifact_is_not_followed(
    run: Packed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret").write_text("secret")
    (run.artifact / "notes.txt").symlink_to(tmp_path / "secret")
    assert run.pack() == 2
    path = run.artifact / "notes.txt"
    assert capsys.readouterr().err == (
        f"pack: {path}: is a symbolic link to a file outside of the artifact; replace the link by a copy of the file\n"
    )
    assert not run.archive.exists()


def test_no_run_no_pack(run: Packed, capsys: pytest.CaptureFixture[str]) -> None:
    (run.out / "verdict.json").unlink()
    assert run.pack() == 2
    assert "verdict.json: is missing; replay the artifact first: scons replay" in capsys.readouterr().err


# -- archives from anywhere ----------------------------------------------------------------------------------------

CONTENT = b"anything"
DIGEST = sha256(CONTENT).hexdigest()


def listing(path: str = f"artifact/{NAME}/kernel_config.py", **changes: Any) -> dict[str, Any]:
    """A `pack.json` of one or two files."""
    file = {"path": path, "sha256": DIGEST, "size": len(CONTENT)}
    manifest = {**file, "path": f"artifact/{NAME}/kernel_config.py"}
    files = [manifest, file] if path != manifest["path"] else [file]
    return {"artifact": NAME, "platform": "a2a3sim", "options": {}, "files": files, "schema": 1} | changes


def archive(path: Path, document: Mapping[str, Any], *entries: tuple[str, bytes, bytes]) -> Path:
    """An archive of that `pack.json` and members of (name, content, type)."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content, kind in [("pack.json", msgspec.json.encode(document), tarfile.REGTYPE), *entries]:
            entry = tarfile.TarInfo(name)
            entry.size, entry.type, entry.linkname = len(content), kind, "/etc/passwd"
            tar.addfile(entry, io.BytesIO(content))
    path.write_bytes(zstandard.compress(stream.getvalue()))
    return path


OBJECT = (f"objects/{DIGEST}", CONTENT, tarfile.REGTYPE)


def test_an_archive_by_hand_is_taken(tmp_path: Path) -> None:
    unpack(archive(tmp_path / "x.tar.zst", listing(), OBJECT), tmp_path / "new")
    assert (tmp_path / "new" / "artifact" / NAME / "kernel_config.py").read_bytes() == CONTENT


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../x", "artifact/../../x", "artifact/./x", "artifact//x", "home/x", "artifact", "artifact/a\\b",
     "artifact/a\nb", "", f"artifact/{NAME}/kernel_config.py/x"],
)  # fmt: skip
def test_paths_that_lead_elsewhere(path: str, tmp_path: Path) -> None:
    packed = archive(tmp_path / "x.tar.zst", listing(path), OBJECT)
    with pytest.raises(ArtifactError) as caught:
        unpack(packed, tmp_path / "new")
    assert "pack.json has " in str(caught.value) and "\n" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == [packed]


@pytest.mark.parametrize(
    ("document", "entries", "message"),
    [
        (listing(), [(OBJECT[0], CONTENT, tarfile.SYMTYPE)], "which is not a regular file"),
        (listing(), [(OBJECT[0], b"", tarfile.LNKTYPE)], "which is not a regular file"),
        (listing(), [(OBJECT[0], b"", tarfile.CHRTYPE)], "which is not a regular file"),
        (listing(), [(OBJECT[0], b"something", tarfile.REGTYPE)], "(9 bytes), but"),
        (listing(), [(OBJECT[0], b"anythinG", tarfile.REGTYPE)], "has wrong content for kernel_config.py"),
        (listing(), [("../../x", CONTENT, tarfile.REGTYPE)], "has '../../x' (8 bytes), but objects/"),
        (listing(), [], "but objects/"),
        (listing(), [OBJECT, OBJECT], "contains files that are not in its list"),
        (listing(artifact="../x"), [OBJECT], "pack.json names the artifact '../x'"),
        (listing(artifact=".hidden"), [OBJECT], "pack.json names the artifact '.hidden'"),
        (listing(schema=2), [OBJECT], "pack.json was written by another version (schema 2, this one reads 1)"),
        (listing(files=[]), [], f"pack.json has no artifact/{NAME}/kernel_config.py"),
        (listing(external={"/a": "../b"}), [OBJECT], "pack.json has a file that would lie outside: '../b'"),
        (listing(status="fine"), [OBJECT], "pack.json: Invalid enum value 'fine'"),
        ({"a": 1}, [], "pack.json: Object missing required field `artifact`"),
    ],
)
def test_what_is_no_pack(
    document: dict[str, Any], entries: list[tuple[str, bytes, bytes]], message: str, tmp_path: Path
) -> None:
    packed = archive(tmp_path / "x.tar.zst", document, *entries)
    with pytest.raises(ArtifactError) as caught:
        unpack(packed, tmp_path / "new")
    assert message in str(caught.value)
    assert str(caught.value).endswith("; ask for the archive again")
    assert sorted(tmp_path.iterdir()) == [packed]


def test_declared_sizes_that_do_not_fit_the_disk(tmp_path: Path) -> None:
    file = {"path": f"artifact/{NAME}/kernel_config.py", "sha256": DIGEST, "size": 1 << 60}
    with pytest.raises(ArtifactError, match=r"unpacks to 1099511627776 MiB, .* MiB free; free disk space"):
        unpack(archive(tmp_path / "x.tar.zst", listing(files=[file]), OBJECT), tmp_path / "new")


def test_a_list_of_files_without_end(tmp_path: Path) -> None:
    """A few bytes that decompress to gigabytes of `pack.json` are not read."""
    entry = tarfile.TarInfo("pack.json")
    entry.size = 1 << 40
    (tmp_path / "x.tar.zst").write_bytes(zstandard.compress(entry.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)))
    with pytest.raises(ArtifactError, match=r"does not start with pack\.json"):
        read_pack(tmp_path / "x.tar.zst")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is truncated"),
        (b"no archive", "is damaged: zstd decompressor error: Unknown frame descriptor"),
        (zstandard.compress(b"x" * 600), "does not contain a tar archive"),
        (zstandard.compress(bytes(10)), "is truncated"),
    ],
)
def test_damaged_archives(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tar.zst"
    path.write_bytes(data)
    with pytest.raises(ArtifactError) as caught:
        read_pack(path)
    assert str(caught.value) == f"{path}: {message}; ask for the archive again"


def test_no_cut_and_no_flipped_bit_passes_for_the_archive(run: Packed, tmp_path: Path) -> None:
    shutil.rmtree(run.artifact / "data")
    assert run.pack() == 0
    whole, path, new = run.archive.read_bytes(), tmp_path / "x.tar.zst", tmp_path / "new"
    unpack(run.archive, new)
    right = _contents(new)
    places = [*range(7, len(whole), len(whole) // 23), *range(len(whole) - 6, len(whole))]
    for damaged in [*(whole[:at] for at in places), whole + b"x"]:
        path.write_bytes(damaged)
        with pytest.raises(ArtifactError):
            unpack(path, new)
        assert not new.exists()
    noticed = 0
    for at in places:
        path.write_bytes(_flipped(whole, at))
        try:
            unpack(path, new)
        except ArtifactError:
            noticed += 1
            assert not new.exists()
        else:  # a bit of the compressed form that says nothing
            assert _contents(new) == right
    assert noticed >= len(places) - 2


def _contents(directory: Path) -> dict[str, bytes]:
    """The files of a directory, which goes."""
    contents = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    shutil.rmtree(directory)
    return contents


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_a_sound_list_has_no_fault() -> None:
    assert fault(msgspec.convert(listing(f"artifact/{NAME}/b.cpp"), Pack)) == ""
