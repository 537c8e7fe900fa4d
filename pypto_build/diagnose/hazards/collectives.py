"""Checks of dispatches across ranks: skipped collectives, and calls in another order or with other shapes.

Dispatches of one rank that may overtake each other, because a token is missing, are reported too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pypto_build.artifact.layout import DRIVER
from pypto_build.diagnose.findings import Finding, Related
from pypto_build.replay.chips.records import DispatchRow, RanksRecord

#: Programs that the compiler makes of collectives of a host program: all members of a domain call them alike.
_COLLECTIVE = ("builtin.", "builtin_tensor_")

_TOKEN = "give both an ordering token: one INOUT host tensor a rank, as the compiler does (__comm_d<n>_ord)"
_ALIKE = "let every member of the domain dispatch it, equally often, in one order and with the same shapes"


def dispatched(record: RanksRecord, failed: bool) -> Iterator[Finding]:
    """Findings on the dispatches of a run. Of programs that are no collectives of the compiler's, ranks may make
    different use; that theirs differs counts where the run `failed`.
    """
    submitted = [*record.dispatches, *record.pending]
    yield from missing_tokens(submitted)
    for domain in record.domains:
        using = [row for row in submitted if domain.name in row.domains and row.rank in domain.ranks]
        using.sort(key=lambda row: row.number)
        sequences = {rank: [row for row in using if row.rank == rank] for rank in domain.ranks}
        yield from _unlike(domain.name, sequences, failed)


def missing_tokens(dispatches: Sequence[DispatchRow]) -> Iterator[Finding]:
    """Dispatches of one rank in one domain of which the second does not wait for the first, which waits for others."""
    ancestors: dict[int, frozenset[int]] = {}
    for row in sorted(dispatches, key=lambda row: row.number):
        before = [ancestors.get(number, frozenset()) | {number} for number in row.producers]
        ancestors[row.number] = frozenset().union(*before)
    told: set[tuple[int, int]] = set()
    for rank in dict.fromkeys(row.rank for row in dispatches):
        own = [row for row in sorted(dispatches, key=lambda row: row.number) if row.rank == rank and row.domains]
        for place, second in enumerate(own):
            for first in own[:place]:
                ordered = first.number in ancestors[second.number]
                held_up = ancestors[first.number] - ancestors[second.number]
                shared = set(first.domains) & set(second.domains)
                if ordered or not held_up or not shared or (first.line, second.line) in told:
                    continue
                told.add((first.line, second.line))
                yield _token(first, second, sorted(shared)[0])


def _token(first: DispatchRow, second: DispatchRow, domain: str) -> Finding:
    return Finding(
        rule="hazards/missing-token",
        message=f"{_title(second)} may begin before {_title(first)}, which waits for others: both use domain {domain}, "
        "and nothing orders the two",
        path=DRIVER,
        line=second.line,
        hint=_TOKEN,
        related=(Related(DRIVER, first.line, f"{_title(first)} is submitted here"),),
    )


def _title(row: DispatchRow) -> str:
    return f"rank {row.rank} d{row.index} '{row.program}'"


def _unlike(domain: str, sequences: Mapping[int, Sequence[DispatchRow]], failed: bool) -> Iterator[Finding]:
    """Report the first call in which members of a domain differ; it shifts all later ones."""
    programs = dict.fromkeys(row.program for rows in sequences.values() for row in rows)
    common = [
        name
        for name in programs
        if name.startswith(_COLLECTIVE)
        or (failed and sum(any(row.program == name for row in rows) for rows in sequences.values()) > 1)
    ]
    for name in common:
        counts = {rank: sum(row.program == name for row in rows) for rank, rows in sequences.items()}
        if len(set(counts.values())) > 1:
            yield _skipped(domain, name, counts, sequences)
            return
    calls = {rank: [row for row in rows if row.program in common] for rank, rows in sequences.items()}
    (base, expected), *others = calls.items()
    for number, first in enumerate(expected):
        for _, rows in others:
            other = rows[number]
            if other.program != first.program:
                yield _differs(
                    "order", domain, first, other, f"'{other.program}' where rank {base} has '{first.program}'"
                )
                return
            if other.shapes != first.shapes:
                shapes = f"{_shapes(other)} where rank {base} gives {_shapes(first)}"
                yield _differs("shape", domain, first, other, shapes)
                return


def _shapes(row: DispatchRow) -> str:
    return ", ".join(row.shapes)


def _skipped(
    domain: str, name: str, counts: Mapping[int, int], sequences: Mapping[int, Sequence[DispatchRow]]
) -> Finding:
    most = max(counts.values())
    fewer = [rank for rank, count in counts.items() if count < most]
    line = next(row.line for rows in sequences.values() for row in rows if row.program == name)
    times = ", ".join(f"rank {rank} {counts[rank]} times" for rank in fewer)
    return Finding(
        rule="hazards/collective-skipped",
        message=f"'{name}' on domain {domain} is dispatched {most} times by some members, and by {times}",
        path=DRIVER,
        line=line,
        hint=_ALIKE,
    )


def _differs(what: str, domain: str, first: DispatchRow, other: DispatchRow, text: str) -> Finding:
    return Finding(
        rule=f"hazards/collective-{what}",
        message=f"domain {domain}: rank {other.rank} d{other.index} is {text}"
        if what == "order"
        else f"domain {domain}: {_title(other)} gives {text}",
        path=DRIVER,
        line=other.line,
        hint=_ALIKE,
        related=(Related(DRIVER, first.line, f"{_title(first)} is submitted here"),),
    )
