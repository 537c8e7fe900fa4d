"""Writer of an extracted artifact: manifest, kernels with their modules, orchestration, metadata and data."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pypto_build.artifact import Artifact, ArtifactError
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.manifest_writer import quoted
from pypto_build.artifact.modules import function_names
from pypto_build.artifact.pt import write_pt
from pypto_build.artifact.records import Kernel
from pypto_build.compiler.emit_manifest import manifest_text
from pypto_build.compiler.vintages import TODAY, VINTAGES, ApiVintage
from pypto_build.diagnose.extract.orchestration import Text
from pypto_build.diagnose.extract.order import OrderBesides
from pypto_build.diagnose.extract.record import RecordedTask, numbers
from pypto_build.diagnose.extract.tensors import Parameter
from pypto_build.facts.dtypes import DTYPES
from pypto_build.replay.reference.entry import read_entry

#: The file that marks a directory as written by extract, and names its origin. Only such a directory is replaced.
ORIGIN_NAME = "extracted.json"
_HEADERS = (".h", ".hpp", ".inc", ".inl")


@dataclass(frozen=True)
class Extracted:
    """The content of the artifact ``name``. ``golden`` is the source of the outputs, empty if there are none."""

    name: str
    source: Artifact
    platform: str
    vintage: str
    tasks: Sequence[RecordedTask]
    parameters: Sequence[Parameter]
    order: OrderBesides
    golden: str
    raw: Mapping[str, Path] = field(default_factory=dict)  # assembler's output of edited modules, by unit

    @property
    def external(self) -> list[Parameter]:
        """The parameters of the artifact's orchestration."""
        return [one for one in self.parameters if not one.scratch]


def api_of(vintage: str, where: Path) -> ApiVintage:
    """Return the names of an API. Raises ArtifactError if extract does not write that API."""
    if vintage in VINTAGES:
        return VINTAGES[vintage]
    oldest = next(iter(VINTAGES))
    hint = f"compile it again for {TODAY.name}" if vintage < oldest else "update pypto-build"
    raise ArtifactError(where, f"was compiled for the API of {vintage}; extract writes {', '.join(VINTAGES)}", hint)


def write_artifact(given: Extracted, root: Path) -> None:
    """Write the artifact to ``root``, in place of one that was extracted there before.

    Raises ArtifactError if ``root`` holds anything else.
    """
    require_own(root)
    origin = {
        "artifact": str(given.source.root),
        "tasks": [task.number for task in given.tasks],
        "golden": given.golden,
    }
    with replacing(root, origin) as temporary:
        _write(given, temporary)


@contextmanager
def replacing(root: Path, origin: Mapping[str, object]) -> Iterator[Path]:
    """Yield a temporary directory for an artifact, which replaces ``root`` at the end of the block.

    ``origin`` describes where the artifact comes from, and is written into it.
    """
    temporary = root.with_name(f".{root.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    yield temporary
    write_bytes(temporary / ORIGIN_NAME, json.dumps({"schema": 1, **origin}, indent=2).encode() + b"\n")
    shutil.rmtree(root, ignore_errors=True)
    temporary.rename(root)


def require_own(root: Path) -> None:
    """Raise ArtifactError if ``root`` holds something that extract or reduce did not write."""
    if root.exists() and any(root.iterdir()) and not (root / ORIGIN_NAME).is_file():
        hint = "move it away, or name another place with BUILD_OUTPUT="
        raise ArtifactError(root, "is there, and nothing here wrote it", hint)


def _write(given: Extracted, root: Path) -> None:
    used = {func_id for task in given.tasks for _, func_id, _ in task.kernels}
    kernels = [kernel for kernel in given.source.kernels if kernel.func_id in used]
    places = [(kernel, _copy_kernel(kernel, given.source.root, root)) for kernel in kernels]
    copy_modules(kernels, given.source.root, root, given.raw)
    frame = frame_of(given.source, given.platform, given.name)
    text = Text(
        given.tasks,
        given.parameters,
        api_of(given.vintage, given.source.orchestration.source),
        after=given.order.after,
        manual=given.order.manual,
        a5=frame.a5,
    )
    origin = f"{given.source.name}: task {numbers(given.tasks)}"
    write_texts(root, frame, text.render(frame.program, origin), places, given.external)
    write_data(given.external, root / "data", golden=bool(given.golden))


@dataclass(frozen=True)
class Frame:
    """Properties of an artifact besides its tasks: its name, platform, backend, and the runtime's configuration."""

    program: str
    platform: str
    runtime_config: Mapping[str, Any]
    backend: str | None = None

    @property
    def a5(self) -> bool:
        """True if the artifact is for a5, whose API has some other names."""
        return self.platform.startswith("a5")


def frame_of(source: Artifact, platform: str, name: str) -> Frame:
    """Return the frame of an artifact called ``name``, with the properties of ``source``."""
    meta = source.meta
    declared = (meta.platform if meta else None) or platform
    return Frame(name.removeprefix("_jit_"), declared, source.runtime_config, meta.backend_type if meta else None)


def write_texts(
    root: Path,
    frame: Frame,
    orchestration: str,
    kernels: Sequence[tuple[Kernel, Path]],
    external: Sequence[Parameter],
) -> None:
    """Write orchestration, manifest and metadata. ``kernels`` have their paths relative to ``root``."""
    write_bytes(root / "orchestration" / f"{frame.program}.cpp", orchestration.encode())
    write_bytes(root / "kernel_config.py", _manifest(frame, kernels, external).encode())
    write_bytes(root / "compiled_meta.json", _meta(frame, external).encode())


def write_data(parameters: Sequence[Parameter], data: Path, *, golden: bool) -> None:
    """Write the snapshot: the content before the tasks to in/, and the content after them to out/."""
    for one in parameters:
        if one.direction != "OUT":
            write_pt(data / "in" / f"{one.name}.pt", one.dtype, one.shape, one.initial.tobytes())
        if one.direction != "IN" and golden:
            write_pt(data / "out" / f"{one.name}.pt", one.dtype, one.shape, one.final.tobytes())


def _copy_kernel(kernel: Kernel, source: Path, root: Path) -> Path:
    """Copy a kernel's C++ and the headers beside it. Returns its path relative to ``root``."""
    inside = kernel.source.is_relative_to(source)
    place = kernel.source.relative_to(source) if inside else Path("kernels", kernel.core_type, f"{kernel.name}.cpp")
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(kernel.source, root / place)
    for header in kernel.source.parent.iterdir():
        if header.suffix in _HEADERS and header.is_file():
            shutil.copyfile(header, (root / place).with_name(header.name))
    return place


def copy_modules(kernels: Sequence[Kernel], source: Path, root: Path, raw: Mapping[str, Path]) -> None:
    """Copy the .pto modules that the kernels were made from, and the assembler's output.

    ``raw`` has the output of modules, by unit, if it is not beside the module.
    """
    paths = sorted(source.glob("ptoas/**/*.pto"))
    modules = {path: function_names(path.read_text("utf-8", "replace")) for path in paths}
    functions = [name for names in modules.values() for name in names]
    for kernel in kernels:
        text = kernel.source.read_text("utf-8", "replace") if kernel.source.is_file() else ""
        read = read_entry(text, functions)
        name = read[0] if read is not None else kernel.name
        for path in (path for path, names in modules.items() if name in names):
            target = root / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            output = raw.get(path.stem, path.with_suffix(".cpp"))
            if output.is_file():
                shutil.copyfile(output, target.with_suffix(".cpp"))


def _manifest(frame: Frame, kernels: Sequence[tuple[Kernel, Path]], external: Sequence[Parameter]) -> str:
    config = "".join(f"\t{quoted(key)}: {value!r},\n" for key, value in frame.runtime_config.items())
    directions = ", ".join(f"_D.{one.direction}" for one in external)
    rows = "".join(_kernel(kernel, place) for kernel, place in kernels)
    return manifest_text(frame.program, config, directions, rows)


def _kernel(kernel: Kernel, place: Path) -> str:
    source = " / ".join(["_ROOT_DIR", *map(quoted, place.parts)])
    words = [f'"func_id": {kernel.func_id}', f'"name": {quoted(kernel.name)}', f'"source": str({source})']
    words.append(f'"core_type": {quoted(kernel.core_type)}')
    if kernel.signature is not None:
        words.append(f'"signature": [{", ".join(f"_D.{one.name}" for one in kernel.signature)}]')
    if kernel.extra_include_dirs:
        words.append(f'"extra_include_dirs": [{", ".join(quoted(str(path)) for path in kernel.extra_include_dirs)}]')
    return f"\t{{{', '.join(words)}}},\n"


def _meta(frame: Frame, external: Sequence[Parameter]) -> str:
    words = {"IN": "In", "OUT": "Out", "INOUT": "InOut"}
    names = {row.torch: row.meta for row in DTYPES.values()}
    params = [
        {
            "name": one.name,
            "direction": words[one.direction],
            "shape": list(one.shape),
            "dtype": names.get(one.dtype, one.dtype),
        }
        for one in external
    ]
    document = {
        "schema": 1,
        "params": params,
        "num_return_types": sum(one.direction != "IN" for one in external),
        "platform": frame.platform,
        "backend_type": frame.backend,
    }
    return json.dumps(document, indent=2) + "\n"
