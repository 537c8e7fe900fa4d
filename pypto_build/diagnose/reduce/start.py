"""The kernels of an artifact, with the fault and without: where the fault-free ones come from."""

from __future__ import annotations

from contextlib import suppress
from difflib import SequenceMatcher
from pathlib import Path

from pypto_build.artifact import Artifact, ArtifactError, Kernel, load_artifact
from pypto_build.artifact.modules import function_names
from pypto_build.compiler.assembler import body_of
from pypto_build.compiler.vintages import ApiVintage
from pypto_build.diagnose.reduce.case import Invalid, KernelCode, Unit, assembled
from pypto_build.pto import PtoError
from pypto_build.pto.splice import body_of as body_in
from pypto_build.replay.reference.entry import read_entry


class Sources:
    """The texts of an artifact. ``against`` is one without the fault, of the same kernels; without it, a kernel's
    module says what it should be."""

    def __init__(self, artifact: Artifact, against: Path | None, api: ApiVintage, platform: str) -> None:
        self.artifact, self.api, self.platform = artifact, api, platform
        self.good = load_artifact(against) if against else None
        self.modules = {
            path: function_names(path.read_text("utf-8", "replace"))
            for path in sorted(artifact.root.glob("ptoas/**/*.pto"))
        }
        self.units: dict[str, Unit] = {}

    def codes(self) -> dict[int, KernelCode]:
        """Every kernel by func_id."""
        return {kernel.func_id: self._code(kernel) for kernel in self.artifact.kernels}

    def _code(self, kernel: Kernel) -> KernelCode:
        root = self.artifact.root
        inside = kernel.source.is_relative_to(root)
        place = kernel.source.relative_to(root) if inside else Path("kernels", kernel.core_type, f"{kernel.name}.cpp")
        text = _read(kernel.source)
        good = text if self.good is None else _read(self._counterpart(kernel).source)
        unit = self._unit(kernel, text)
        try:
            faulty, clean = body_in(text).splitlines(), body_in(good).splitlines()
        except PtoError:
            return KernelCode(
                kernel, place, "", good, text, tuple(good.splitlines()), tuple(text.splitlines()), sliced=False
            )
        if self.good is None and unit:
            clean = self._made_of(unit, faulty)
        return KernelCode(kernel, place, unit, good, text, tuple(clean), tuple(faulty))

    def _counterpart(self, kernel: Kernel) -> Kernel:
        assert self.good is not None
        found = next((one for one in self.good.kernels if one.name == kernel.name), None)
        if found is None:
            raise ArtifactError(
                f"AGAINST={self.good.root}", f"has no kernel '{kernel.name}'", "name an artifact of the same program"
            )
        return found

    def _unit(self, kernel: Kernel, text: str) -> str:
        """The module that a kernel was made from, by its path in the artifact; empty where there is none."""
        read = read_entry(text, [name for names in self.modules.values() for name in names])
        name = read[0] if read is not None else kernel.name
        path = next((path for path, names in self.modules.items() if name in names), None)
        if path is None:
            return ""
        where = path.relative_to(self.artifact.root).with_suffix("")
        if where.name not in self.units:
            faulty = tuple(_read(path).rstrip("\n").splitlines())
            clean = faulty
            if self.good is not None and (self.good.root / where.with_suffix(".pto")).is_file():
                clean = tuple(_read(self.good.root / where.with_suffix(".pto")).rstrip("\n").splitlines())
            raw = path.with_suffix(".cpp")
            self.units[where.name] = Unit(where, clean, faulty, _read(raw) if raw.is_file() else "")
        return where.name

    def _made_of(self, name: str, faulty: list[str]) -> list[str]:
        """The body that the kernel's module makes: as it was written beside it, or assembled now, which is nearer."""
        unit = self.units[name]
        bodies = []
        raw = self.artifact.root / unit.where.with_suffix(".cpp")
        if raw.is_file():
            bodies.append(body_of(_read(raw), self.api.tensor).splitlines())
        with suppress(Invalid):
            bodies.append(body_of(assembled(unit.clean, name, self.platform), self.api.tensor).splitlines())
        return max(bodies, key=lambda body: SequenceMatcher(None, body, faulty, autojunk=False).ratio(), default=faulty)


def _read(path: Path) -> str:
    return path.read_text("utf-8", "replace")
