"""What a candidate is built and run from, apart from how it came about: it travels to other machines."""

from __future__ import annotations

import msgspec

from pypto_build.diagnose.reduce.case import Case


class CandidateKernel(msgspec.Struct, frozen=True):
    """A kernel: its C++ with the fault and without."""

    func_id: int
    name: str
    core_type: str
    binary: str
    faulty: str
    clean: str


class Passed(msgspec.Struct, frozen=True):
    """A parameter of the orchestration and its bytes before the run; an OUT one has none."""

    name: str
    direction: str
    dtype: str
    shape: tuple[int, ...]
    initial: bytes


class Candidate(msgspec.Struct, frozen=True):
    """All that decides how a candidate ends."""

    platform: str
    orchestration: str
    kernels: list[CandidateKernel]
    arguments: list[Passed]


def candidate_of(case: Case) -> Candidate:
    """What ``case`` is built and run from."""
    kernels = [
        CandidateKernel(
            code.kernel.func_id,
            code.kernel.name,
            code.kernel.core_type,
            code.kernel.binary,
            code.text(faulty=True),
            code.text(faulty=False),
        )
        for code in case.used
    ]
    arguments = [
        Passed(
            one.name,
            one.direction,
            one.dtype,
            tuple(one.shape),
            b"" if one.direction == "OUT" else one.initial.tobytes(),
        )
        for one in case.external
    ]
    return Candidate(case.platform, case.orchestration, kernels, arguments)
