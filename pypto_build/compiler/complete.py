"""Completes an artifact that has only `.pto` modules: adds kernels, manifest and assembled units.

    python -m pypto_build.compiler.complete DIR --platform P --output OUT [--ptoas EXE] [--key TEXT]

PyPTO and `scons compile SKIP_PTOAS=1` write `kernels/{aic,aiv}/<kernel>.pto`, `kernels/<group>.pto` and the
orchestration. OUT becomes the complete artifact. func_ids and signatures come from the orchestration's submissions,
names from the comment above each; an existing manifest has precedence. Units with an unchanged module are not assembled
again. Where ptoas refused single modules, the other kernels are taken as they are; `ptoas/` has the modules of the
missing ones.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact import (
    MANIFEST_NAME,
    META_NAME,
    Artifact,
    ArtifactError,
    CoreType,
    Kernel,
    Orchestration,
    detect_vintage,
    read_meta,
)
from pypto_build.artifact.cpp.findings import Submission
from pypto_build.artifact.derive import submissions
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.interface import sign
from pypto_build.artifact.layout import CODEGEN_ERRORS
from pypto_build.artifact.manifest_eval import evaluate
from pypto_build.artifact.manifest_writer import render_manifest
from pypto_build.artifact.records import CORE_TYPES, DEFAULT_RUNTIME
from pypto_build.pto import Function, Module, PtoError, parse_file
from pypto_build.pto.assemble import assemble, require_names
from pypto_build.pto.wrapper import Payload, bridges_subblock, plan_arguments, write_wrapper

from .assembler import assemble_unit, body_of
from .errors import CompileError
from .vintages import VINTAGES, ApiVintage

RECORD = ".completed.json"
_OWN = ("kernels", "ptoas", "orchestration", MANIFEST_NAME)
_TITLE = re.compile(r"^\s*//\s*(Task \d+|Spmd [^:]*|Group [^:]+):\s*(.+?)\s*$")
_LANES = re.compile(r"\bMixedKernels\s+\w+\s*=\s*\{([^}]*)\}")
_CORES: dict[str, CoreType] = {"cube": "aic", "vector": "aiv"}


@dataclass(frozen=True)
class Member:
    """One kernel: its function, its unit, and its submission by the orchestration."""

    func_id: int
    function: Function
    unit: str
    core_type: CoreType
    submission: Submission | None

    @property
    def payload(self) -> Payload | None:
        """Return the arguments that the orchestration passes to the kernel; None if it is never submitted."""
        return Payload(len(self.submission.signature), self.submission.scalars) if self.submission else None


class Completion:
    """One artifact to be completed; raises ArtifactError, PtoError or CompileError."""

    def __init__(self, root: Path, output: Path, platform: str, ptoas: Path | None, key: str) -> None:
        self.root, self.output, self.platform, self.ptoas, self.key = root, output, platform, ptoas, key
        modules = [*sorted((root / "ptoas").glob("*.pto")), *sorted((root / "kernels").rglob("*.pto"))]
        self.paths = {path.stem: path for path in modules}
        self.modules: dict[str, Module] = {}
        sources = sorted((root / "orchestration").glob("*.cpp"))
        if len(sources) != 1:
            raise ArtifactError(
                root / "orchestration",
                f"must contain exactly one C++ file, but contains {len(sources)}",
                "compile the program again",
            )
        self.orchestration = sources[0]
        self.vintage = _api(self.orchestration)

    def run(self) -> None:
        self.modules = {unit: parse_file(path) for unit, path in self.paths.items()}
        for module in self.modules.values():
            require_names(module)  # kernels' files are named after them
        members = self.members()
        before = self._record()
        written: dict[str, str] = {}
        for unit in dict.fromkeys(member.unit for member in members):
            mine = [member for member in members if member.unit == unit]
            if self._take(unit, [self._wrapper(member).relative_to(self.output) for member in mine]):
                continue
            key = self._digest(unit, mine)
            if before.get(unit) != f"{key} {self._content(unit, mine)}":
                self._assemble(unit, mine)
            written[unit] = f"{key} {self._content(unit, mine)}"
        self._link()
        self._write(f"orchestration/{self.orchestration.name}", self.orchestration.read_text(encoding="utf-8"))
        self._write(MANIFEST_NAME, self._manifest(members))
        self._write(RECORD, json.dumps(written, indent=1) + "\n")  # last: all else is there

    # --- who is who ----------------------------------------------------------------------------------------------

    def members(self) -> list[Member]:
        """Return the kernels by func_id: the manifest's, else the kernels that the orchestration submits."""
        if (self.root / MANIFEST_NAME).is_file():
            return sorted(self._declared(self.root / MANIFEST_NAME), key=lambda member: member.func_id)
        members_by_id: dict[int, Member] = {}
        lines = self.orchestration.read_text(encoding="utf-8").split("\n")
        for submission in submissions(self.orchestration):
            for func_id, unit, function in self._submitted(submission, lines):
                core = _CORES.get(function.kernel_kind) or submission.core_type or self._folder(unit)
                members_by_id.setdefault(func_id, Member(func_id, function, unit, core, submission))
        return [members_by_id[func_id] for func_id in sorted(members_by_id)]

    def _declared(self, manifest: Path) -> Iterator[Member]:
        calls = submissions(self.orchestration)
        for entry in evaluate(manifest, manifest.read_text(encoding="utf-8")).get("KERNELS", ()):
            source, core, func_id = Path(str(entry.get("source"))), entry.get("core_type"), entry.get("func_id")
            if entry.get("external") or core not in CORE_TYPES or not isinstance(func_id, int):
                continue  # the reader of the manifest reports it
            unit, function = self._function(source.stem)
            call = next((c for c in calls if func_id in c.func_ids), None)
            if function is None and self._take("", [Path("kernels", str(core), source.name)]):
                continue
            if function is None:
                hint = f"the modules in ptoas/ are: {', '.join(self.paths) or 'none'}"
                hint += f"; {CODEGEN_ERRORS} says why it was not made" if (self.root / CODEGEN_ERRORS).is_file() else ""
                raise ArtifactError(manifest, f"kernel {func_id}: no module defines the function {source.stem}", hint)
            yield Member(func_id, function, unit, core, call)

    def _function(self, name: str) -> tuple[str, Function | None]:
        """Return the unit that defines a function, and the function."""
        for unit, module in self.modules.items():
            for function in module.functions():
                if function.name == name and function.body is not None:
                    return unit, function
        return "", None

    def _submitted(self, submission: Submission, lines: list[str]) -> Iterator[tuple[int, str, Function]]:
        above = lines[: submission.line]
        title = next((m for m in map(_TITLE.match, reversed(above)) if m), None)
        lanes = next((m for m in map(_LANES.search, reversed(above)) if m), None)
        group = title[1].removeprefix("Group ") if title and title[1].startswith("Group ") else ""
        if group in self.modules:
            ids = [int(word) for word in lanes[1].split(",") if word.strip().isdigit()] if lanes else []
            ids = [i for i in ids if i in submission.func_ids] or sorted(submission.func_ids)
            functions = [f for f in self.modules[group].functions() if f.body is not None]
            functions.sort(key=lambda f: f.kernel_kind != "cube")
            distinct = list(dict.fromkeys(ids))
            if len(distinct) <= len(functions):
                members = [f for f in functions if len(distinct) > 1 or self._is_on(f, submission.core_type)]
                yield from ((i, group, f) for i, f in zip(distinct, members, strict=False))
                return
        name = title[2] if title else ""
        unit, function = self._function(name)
        if function is not None and len(submission.func_ids) == 1:
            yield next(iter(submission.func_ids)), unit, function
            return
        numbers = ", ".join(map(str, sorted(submission.func_ids))) or "(computed)"
        raise ArtifactError(
            f"{self.orchestration}:{submission.line}",
            f"cannot determine which module defines the kernel with func_id {numbers}"
            + (f": kernels/ has no function {name}" if name else ""),
            "write a comment '// Task N: <kernel>' above the submission",
        )

    def _is_on(self, function: Function, core_type: CoreType | None) -> bool:
        return core_type is None or _CORES.get(function.kernel_kind, core_type) == core_type

    def _folder(self, unit: str) -> CoreType:
        return "aic" if self.paths[unit].parent.name == "aic" else "aiv"

    # --- files ---------------------------------------------------------------------------------------------------

    def _take(self, unit: str, kernels: list[Path]) -> bool:
        """Copy the files that the compiler wrote for a unit; return False if one is missing."""
        if not all((self.root / path).is_file() for path in kernels):
            return False
        modules = [Path("ptoas", f"{unit}{suffix}") for suffix in (".pto", ".cpp")]
        for path in [*kernels, *modules]:
            if (self.root / path).is_file():
                self._write(str(path), (self.root / path).read_text(encoding="utf-8"))
        return True

    def _assemble(self, unit: str, members: list[Member]) -> None:
        path = self.paths[unit]
        print(f"[pto->cpp] regenerating from {path.relative_to(self.root)}", flush=True)
        module, text = self.modules[unit], path.read_text(encoding="utf-8")
        if self.ptoas:
            raw = assemble_unit(module, text, unit, self.platform, self.ptoas)
        else:  # directly: its errors name the line
            raw = assemble(module, self.platform).text + "\n"
        body = body_of(raw, self.vintage.tensor)
        for member in members:
            passed = plan_arguments(member.function, module, member.payload)
            bridge = bridges_subblock(member.function, module)
            file = write_wrapper(member.function.name, body, passed, self.vintage.tensor, bridge=bridge)
            self._write(str(self._wrapper(member).relative_to(self.output)), file)
        self._write(f"ptoas/{unit}.pto", text)
        self._write(f"ptoas/{unit}.cpp", raw)

    def _wrapper(self, member: Member) -> Path:
        return self.output / "kernels" / member.core_type / f"{member.function.name}.cpp"

    def _manifest(self, members: list[Member]) -> str:
        if (self.root / MANIFEST_NAME).is_file():
            return (self.root / MANIFEST_NAME).read_text(encoding="utf-8")
        artifact = Artifact(
            root=self.output,
            name=self.root.name,
            kernels=tuple(
                Kernel(m.func_id, m.function.name, self._wrapper(m), m.core_type, m.submission.signature or None)
                for m in members
                if m.submission is not None
            ),
            orchestration=Orchestration(self.output / "orchestration" / self.orchestration.name),
            runtime_config={"runtime": DEFAULT_RUNTIME, **dict(self.vintage.runtime_config)},
            meta=read_meta(self.root / META_NAME),
        )
        return render_manifest(sign(artifact).artifact, self.output)

    def _link(self) -> None:
        """Link data and metadata of the artifact into the output."""
        self.output.mkdir(parents=True, exist_ok=True)
        for path in self.root.iterdir():
            link = self.output / path.name
            if path.name not in _OWN and not path.name.startswith(".") and not link.exists():
                link.unlink(missing_ok=True)
                link.symlink_to(path, target_is_directory=path.is_dir())

    def _write(self, name: str, text: str) -> None:
        """Write a file only if its text changed."""
        path = self.output / name
        data = text.encode()
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, data)

    def _record(self) -> dict[str, str]:
        try:
            value = json.loads((self.output / RECORD).read_bytes())
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def _content(self, unit: str, members: list[Member]) -> str:
        """Return the digest of the files made from a unit; an edited file changes it."""
        digest = hashlib.sha256()
        for path in (self.output / "ptoas" / f"{unit}.cpp", *map(self._wrapper, members)):
            digest.update(path.read_bytes() if path.is_file() else b"\0")
        return digest.hexdigest()

    def _digest(self, unit: str, members: list[Member]) -> str:
        facts = [(m.func_id, m.core_type, m.payload) for m in members]
        key = f"{self.platform} {self.ptoas} {self.key} {facts} {self.vintage.name}\n"
        return hashlib.sha256(key.encode() + self.paths[unit].read_bytes()).hexdigest()


def _api(orchestration: Path) -> ApiVintage:
    """Return the generation of the API that an orchestration was written for."""
    name = detect_vintage(orchestration.read_text(encoding="utf-8"), orchestration).name
    return next((row for key, row in sorted(VINTAGES.items(), reverse=True) if key <= name), VINTAGES["2026-05"])


def complete(root: Path, output: Path, platform: str, ptoas: Path | None = None, key: str = "") -> None:
    """Make `output` the complete artifact; `key` stands for other inputs, such as the assembler's version."""
    Completion(root, output, platform, ptoas, key).run()


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0, 2 for an error of the artifact or the command line, 3 when a module cannot be assembled."""
    parser = argparse.ArgumentParser(
        prog="python -m pypto_build.compiler.complete", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("directory", metavar="DIR", type=Path, help="an artifact compiled without ptoas")
    parser.add_argument("--platform", required=True, help="a2a3sim, a5sim; a2a3 and a5 need ptoas")
    parser.add_argument("--output", metavar="OUT", type=Path, required=True, help="where the complete artifact goes")
    parser.add_argument("--ptoas", metavar="EXE", type=Path, help="assemble with ptoas, not with our own assembler")
    parser.add_argument("--key", default="", metavar="TEXT", help="another one assembles all units again")
    arguments = parser.parse_args(argv)
    try:
        complete(
            arguments.directory.absolute(),
            arguments.output.absolute(),
            arguments.platform,
            arguments.ptoas,
            arguments.key,
        )
    except ArtifactError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    except (PtoError, CompileError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
