"""Writes a candidate as an artifact: kernels with the fault, modules and data without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pypto_build.artifact.files import write_bytes
from pypto_build.diagnose.extract.write import write_data, write_texts
from pypto_build.diagnose.reduce.case import Case


def write_case(case: Case, root: Path, golden: Sequence[bytes]) -> None:
    """Write it to ``root``; ``golden`` are the contents of its parameters after a run without the fault, if known."""
    places = [(code.kernel, code.place) for code in case.used]
    write_texts(root, replace(case.frame, program="reduced"), case.orchestration, places, case.external)
    for code in case.used:
        write_bytes(root / code.place, code.text(faulty=True).encode())
        unit = case.units.get(code.unit)
        if unit is not None:
            write_bytes(root / unit.where.with_suffix(".pto"), ("\n".join(unit.faulty) + "\n").encode())
            if unit.raw:
                write_bytes(root / unit.where.with_suffix(".cpp"), unit.raw.encode())
    known = case.external
    if golden:
        known = [
            replace(one, final=np.frombuffer(content, one.initial.dtype))
            for one, content in zip(case.external, golden, strict=True)
        ]
    write_data(known, root / "data", golden=bool(golden))
