"""`scons hazards` on a distributed artifact: accesses to windows that nothing orders between ranks.

Each rank has a vector clock of all ranks' progress. A notification passes the clock on, and a wait takes it over. Two
accesses to the same bytes by different ranks, one of them a write, conflict if neither happens before the other. On a
device, they may happen in any order.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from pypto_build.artifact import MANIFEST_NAME, ArtifactError, load_artifact
from pypto_build.artifact.distributed import load_distributed, read_chips
from pypto_build.artifact.files import read_record, read_source
from pypto_build.artifact.interface import relative_source
from pypto_build.artifact.layout import DRIVER
from pypto_build.artifact.outputs import local_source
from pypto_build.diagnose.findings import Finding, Related, below, deliver
from pypto_build.diagnose.hazards import record as checked
from pypto_build.diagnose.hazards.analysis import analyse
from pypto_build.diagnose.hazards.conflicts import CLEAN, LINE_BYTES, after_store, edits_beside
from pypto_build.diagnose.recorded.ranks import NO_RECORD, read_ranks
from pypto_build.replay.chips.memory import Domain
from pypto_build.replay.chips.records import DispatchRow, RanksRecord, SignalRow, WindowsRecord
from pypto_build.replay.verdict import ErrorInfo, Verdict

# Checks of dispatches across ranks: skipped collectives, and calls in another order or with other shapes.
# Dispatches of one rank that may overtake each other, because a token is missing, are reported too.

#: Programs that the compiler makes of collectives of a host program: all members of a domain call them alike.
_COLLECTIVE = ("builtin.", "builtin_tensor_")

_TOKEN = "give both an ordering token: one INOUT host tensor for each rank, as the compiler does (__comm_d<n>_ord)"
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
    reported: set[tuple[int, int]] = set()
    for rank in dict.fromkeys(row.rank for row in dispatches):
        own = [row for row in sorted(dispatches, key=lambda row: row.number) if row.rank == rank and row.domains]
        for earlier, second in enumerate(own):
            for first in own[:earlier]:
                ordered = first.number in ancestors[second.number]
                held_up = ancestors[first.number] - ancestors[second.number]
                shared = set(first.domains) & set(second.domains)
                if ordered or not held_up or not shared or (first.line, second.line) in reported:
                    continue
                reported.add((first.line, second.line))
                yield _token(first, second, sorted(shared)[0])


def _token(first: DispatchRow, second: DispatchRow, domain: str) -> Finding:
    return Finding(
        rule="hazards/missing-token",
        message=(
            f"{_title(second)} can start before {_title(first)}, which waits for other ranks: both use "
            f"domain {domain}, and nothing orders these two dispatches"
        ),
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
        message=f"'{name}' on domain {domain} is dispatched {most} times by some ranks, but by {times}",
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


# Finding on ranks that wait for each other, at the line of a waiting kernel.

_WAIT = re.compile(r"\bTWAIT\s*(?:<[^;>]{0,400}>)?\s*\(\s*[^,;]{1,400},\s*(?P<expected>[^,;]{1,200}?)\s*,")
_CAST = re.compile(r"^static_cast<\w+>\((\w+)\)$")
_CONSTANT = r"\bconst\s+\w+\s+{}\s*=\s*(-?\d{{1,10}})\s*;"


def ended_finding(artifact: Path, error: ErrorInfo) -> Finding:
    """Return the finding on the end of a run of several ranks. For a wait, it has the lines where the kernel waits."""
    path, lines = _waits(artifact, error)
    more = tuple(Related(path, line, "this kernel waits here too") for line in lines[1:])
    return Finding(
        f"hazards/{error.kind}", error.message, path, lines[0] if lines else 0, error.hint, related=more,
        kernel=error.kernel or "",
    )  # fmt: skip


def _waits(artifact: Path, error: ErrorInfo) -> tuple[str, list[int]]:
    """Return the kernel in which the first rank waits, and its lines that wait for this value, else all waits."""
    fields = error.fault.fields if error.fault is not None else {}
    program, kernel, expected = (fields.get(name) for name in ("program", "kernel", "expected"))
    try:
        chip = load_distributed(artifact).chips[str(program)]
        source = next(kernel_row.source for kernel_row in load_artifact(chip).kernels if kernel_row.name == kernel)
        text = read_source(source)
    except (ArtifactError, KeyError, StopIteration):
        return "", []
    expected_words = {text.count("\n", 0, match.start()) + 1: match["expected"] for match in _WAIT.finditer(text)}
    values = {line: _value(text, word) for line, word in expected_words.items()}
    matching = [line for line, value in values.items() if value == expected] or list(expected_words)
    return relative_source(source, artifact), matching


def _value(text: str, word: str) -> int | None:
    """Return the value of a word: a number, or a constant that the text defines. None if it is neither."""
    word = _CAST.sub(r"\1", word)
    if word.isdigit():
        return int(word)
    constant = re.search(_CONSTANT.format(re.escape(word)), text)
    return int(constant[1]) if constant else None


_WRITE, _ATOMIC = 2, 4
_AGAIN = "run the tool again"


class Access(msgspec.Struct, frozen=True):
    """One access: bytes `start` to `stop` of a window of `owner` in `domain`, by a task of a dispatch.

    `visible` is the clock at which other ranks see a write, None if they never do. For a read, it is the clock of the
    data cache line that it reads from.
    """

    domain: int
    owner: int
    start: int
    stop: int
    kind: int
    clock: tuple[int, ...]
    dispatch: DispatchRow
    task: int
    kernel: str
    instruction: str
    position: str
    visible: tuple[int, ...] | None = None

    @property
    def writes(self) -> bool:
        return bool(self.kind & _WRITE)

    def known_to(self, other: Access) -> bool:
        """Return whether this access happens before `other` in every schedule."""
        return other.clock[self.dispatch.rank] >= self.clock[self.dispatch.rank]

    def unseen_by(self, other: Access) -> bool:
        """Return whether `other` happens after this write, but may still read the old bytes."""
        if not self.writes or other.writes or self.dispatch.rank == other.dispatch.rank or not self.known_to(other):
            return False
        rank = self.dispatch.rank
        return self.visible is None or other.visible is None or other.visible[rank] < self.visible[rank]

    def conflicts(self, other: Access) -> bool:
        """Return whether both access the same bytes from different ranks, unordered, and one writes."""
        return (
            self.dispatch.rank != other.dispatch.rank
            and (self.writes or other.writes)
            and not self.kind & other.kind & _ATOMIC
            and self.start < other.stop
            and other.start < self.stop
            and not self.known_to(other)
            and not other.known_to(self)
        )


def _by_window(accesses: Iterable[Access]) -> dict[tuple[int, int], list[Access]]:
    """Return the accesses by domain and owner of the window, sorted by their first byte."""
    windows: dict[tuple[int, int], list[Access]] = {}
    for access in accesses:
        windows.setdefault((access.domain, access.owner), []).append(access)
    for group in windows.values():
        group.sort(key=lambda access: access.start)
    return windows


def unordered(accesses: Iterable[Access], domains: Sequence[Domain]) -> Iterator[Finding]:
    """Yield a finding for each pair of instructions with unordered accesses."""
    seen: set[tuple[str, str, str, str]] = set()
    for (domain, _), group in _by_window(accesses).items():
        for number, one in enumerate(group):
            for other in group[number + 1 :]:
                if other.start >= one.stop:
                    break
                if not one.conflicts(other):
                    continue
                first, second = _roles(one, other, group)
                key = (first.position, first.instruction, second.position, second.instruction)
                if key not in seen:
                    seen.add(key)
                    yield _finding(first, second, domains[domain])


def _roles(one: Access, other: Access, group: Sequence[Access]) -> tuple[Access, Access]:
    """Return two accesses in the order that they should have.

    A read comes first if its bytes are from an earlier write of the writing rank. Otherwise the access of the earlier
    dispatch comes first.
    """
    for read, write in ((one, other), (other, one)):
        if read.writes or not write.writes:
            continue
        for earlier in group:
            if earlier.start >= read.stop:
                break
            same_rank = earlier.dispatch.rank == write.dispatch.rank and earlier.writes and earlier is not write
            if same_rank and earlier.stop > read.start and earlier.known_to(read):
                return read, write
    first, second = sorted((one, other), key=lambda access: (access.dispatch.number, not access.writes))
    return first, second


def _finding(first: Access, second: Access, domain: Domain) -> Finding:
    """Return the finding on two unordered accesses. `first` is the one that should come first."""
    window = _window_bytes(first, second, domain)
    reads_first = second.writes and not first.writes
    a, b = first.dispatch.rank, second.dispatch.rank
    if reads_first:
        hint = (
            f"rank {a} has to notify a signal after its read, and rank {b} has to wait for this signal before it writes"
        )
    else:
        hint = (
            f"rank {a} has to notify a signal after its write, and rank {b} has to wait for this signal "
            "before this access"
        )
    path, line = _split(second)
    other_path, other_line = _split(first)
    return Finding(
        rule="hazards/window-reused-early" if reads_first else "hazards/unordered-ranks",
        message=(
            f"{_who(second)} {_does(second)} {window}, and {_who(first)} {_does(first)} the same bytes: "
            "no notify and wait order these two accesses"
        ),
        path=path,
        line=line,
        hint=hint,
        tasks=(second.task,),
        kernel=second.kernel,
        related=(Related(other_path, other_line, f"{_who(first)} {_does(first)} the bytes here"),)
        if other_line
        else (),
    )


def _who(access: Access) -> str:
    dispatch = access.dispatch
    return f"rank {dispatch.rank} d{dispatch.index} '{dispatch.program}' kernel '{access.kernel}' {access.instruction}"


def _does(access: Access) -> str:
    return "writes" if access.writes else "reads"


def _split(access: Access) -> tuple[str, int]:
    """Return file and line of an access, relative to the distributed artifact.

    A spliced kernel is not a file of the artifact, so its own path is used.
    """
    path, _, line = access.position.rpartition(":")
    below = f"next_levels/{access.dispatch.program}/"
    return (
        (posixpath.normpath(posixpath.join(below, path.rpartition(below)[2])), int(line))
        if line.isdecimal()
        else ("", 0)
    )


def unseen(accesses: Iterable[Access], domains: Sequence[Domain], root: Path) -> Iterator[Finding]:
    """Yield a finding for each store that another rank reads after a notification, but before it must be visible."""
    reported: set[tuple[str, str]] = set()
    for (domain, _), group in sorted(_by_window(accesses).items()):
        writes = sorted((access for access in group if access.writes), key=lambda one: (one.dispatch.number, one.start))
        for write in writes:
            for read in group:
                if read.start >= write.stop:
                    break
                if read.stop <= write.start or not write.unseen_by(read):
                    continue
                at_fault = read if _is_stale(write, read) else write
                key = (at_fault.position, at_fault.instruction)
                if key not in reported:
                    reported.add(key)
                    yield _unseen_finding(write, read, domains[domain], root)


def _is_stale(write: Access, read: Access) -> bool:
    """Return whether the store was visible in time, so that the reading core's data cache is stale."""
    rank = write.dispatch.rank
    return write.visible is not None and read.clock[rank] >= write.visible[rank]


def _unseen_finding(write: Access, read: Access, domain: Domain, root: Path) -> Finding:
    window = _window_bytes(write, read, domain)
    path, line = _split(write)
    other_path, other_line = _split(read)
    if _is_stale(write, read):
        return Finding(
            rule="memory/stale-read",
            message=(
                f"{_who(read)} of {window} returns the value from before {_who(write)}: its data cache "
                "loaded the line before the wait and still holds it"
            ),
            path=other_path,
            line=other_line,
            hint=f"invalidate the cache line after the wait: {CLEAN}",
            tasks=(read.task,),
            kernel=read.kernel,
            related=(Related(path, line, f"{_who(write)} writes the value here"),) if line else (),
            edits=edits_beside(root, other_path, other_line, CLEAN, before=True),
        )
    plain = write.instruction == "plain write"
    markers = after_store(plain, "MTE3")
    cleaned = "it stays in the core's data cache" if plain else "its pipe may still be busy, or no dsb waits for it"
    return Finding(
        rule="memory/unfenced-notify",
        message=(
            f"{_who(write)} stores {window} and notifies before the store is visible: {cleaned}; {_who(read)} "
            "reads it after the wait and may get the old value"
        ),
        path=path,
        line=line,
        hint=f"insert between this store and the TNOTIFY: {markers}",
        tasks=(write.task,),
        kernel=write.kernel,
        related=(Related(other_path, other_line, f"{_who(read)} reads the value here"),) if other_line else (),
        edits=edits_beside(root, path, line, markers),
    )


def _window_bytes(one: Access, other: Access, domain: Domain) -> str:
    """Return the bytes that both access, such as `d.part+0..63 of rank 1`."""
    bytes_of_both = domain.label(max(one.start, other.start), min(one.stop, other.stop))
    return f"{bytes_of_both} of rank {other.owner}"


def of_signals(signals: Sequence[SignalRow]) -> Iterator[Finding]:
    """Yield findings on signals that lose notifications.

    That happens if a signal is set and notified by others, or set in a cache line that other ranks notify.
    """
    for signal in signals:
        setting = [note for note in signal.notes if note.sets]
        if setting and len(signal.notes) > 1:
            ranks = ", ".join(f"rank {note.rank} '{note.kernel}'" for note in signal.notes)
            yield Finding(
                rule="hazards/signal-set-by-several",
                message=(
                    f"{signal.label} is notified by {ranks}, and rank {setting[0].rank} sets it: "
                    "setting a signal overwrites the notifications of other ranks"
                ),
                hint="use AtomicAdd to notify, or give each rank its own signal",
                kernel=setting[0].kernel,
            )
    lines: dict[tuple[str, int, int], list[SignalRow]] = {}
    for signal in signals:
        lines.setdefault((signal.domain, signal.owner, signal.offset // LINE_BYTES), []).append(signal)
    for cells in lines.values():
        notifying = {note.rank for signal in cells for note in signal.notes}
        setter = next((note for signal in cells for note in signal.notes if note.sets), None)
        if len(cells) > 1 and len(notifying) > 1 and setter is not None:
            yield Finding(
                rule="hazards/signals-share-a-line",
                level="warning",
                message=(
                    f"{cells[0].label} and {cells[1].label} share one 64-byte line: ranks "
                    f"{', '.join(map(str, sorted(notifying)))} "
                    f"notify signals in it, and rank {setter.rank} sets one"
                ),
                hint="place signals of different ranks 64 bytes apart, or use AtomicAdd to notify",
                kernel=setter.kernel,
            )


def read_accesses(directory: Path, record: RanksRecord, outputs: Mapping[str, Path]) -> list[Access]:
    """Read all accesses to windows that a run recorded in `directory`. The programs are built in `outputs`."""
    accesses: list[Access] = []
    for dispatch in record.dispatches:
        path = directory / f"rank{dispatch.rank}" / f"d{dispatch.index}" / "windows.json"
        if not path.is_file():
            continue
        windows = read_record(path, WindowsRecord, NO_RECORD, _AGAIN)
        built = outputs.get(dispatch.program, Path()) / MANIFEST_NAME
        sites = [(kernel, name, local_source(location, built)) for kernel, name, location in windows.sites]
        for base, stride, length, rows, kind, site, clock, visible, task in windows.accesses:
            owners = ((number, one.place(base)) for number, one in enumerate(record.domains))
            domain, owned = next((pair for pair in owners if pair[1]), (0, None))
            if owned is None:
                continue
            owner, start = owned
            kernel, instruction, position = sites[site]
            for row in range(rows):
                at = start + row * stride
                accesses.append(
                    Access(
                        domain, owner, at, at + length, kind, windows.clocks[clock], dispatch, task, kernel,
                        instruction, position, windows.clocks[visible] if visible >= 0 else None,
                    )
                )  # fmt: skip
    return accesses


def findings_within(artifact: Path, directory: Path, record: RanksRecord, arch: str) -> Iterator[Finding]:
    """Yield the findings within each dispatch that a run recorded in `directory`, which do not depend on other ranks.
    `arch` has the device's rules.

    The same finding on several ranks is yielded once, with the ranks in its details.
    """
    chips = load_distributed(artifact).chips
    reported: dict[tuple[object, ...], tuple[Finding, set[int]]] = {}
    for dispatch in record.dispatches:
        of_rank = directory / f"rank{dispatch.rank}" / f"d{dispatch.index}"
        if dispatch.program not in chips or not (of_rank / "accesses.json").is_file():
            continue
        chip = chips[dispatch.program]
        root = PurePosixPath(chip.relative_to(artifact) if chip.is_relative_to(artifact) else chip)
        for one in analyse(load_artifact(chip), checked.read_record(of_rank), (), of_chip=True, arch=arch):
            key = (one.rule, dispatch.program, one.path, one.line, one.kernel, one.related)
            reported.setdefault(key, (below(one, root), set()))[1].add(dispatch.rank)
    for finding, ranks in reported.values():
        where = f"on rank{'s' * (len(ranks) > 1)} {', '.join(map(str, sorted(ranks)))}"
        yield msgspec.structs.replace(finding, detail=(*finding.detail, where))


def examine_ranks(options: argparse.Namespace, verdict: Verdict, records: Path) -> int:
    """Report the findings on a run of all ranks with `records`.

    Returns 0 for none, 1 for findings, or the exit status of a replay that could not run.
    """
    if not (records / "ranks.json").is_file():
        if verdict.error is not None:
            print(f"hazards: {verdict.error.message}; {verdict.error.hint}", file=sys.stderr)
        return verdict.exit_status
    record = read_ranks(records / "ranks.json", _AGAIN)
    accesses = read_accesses(records, record, read_chips(options.chip))
    findings = [*unordered(accesses, record.domains), *of_signals(record.signals)]
    if options.memory_model:
        findings += unseen(accesses, record.domains, options.artifact)
    reported = {(finding.path, finding.line) for finding in findings}  # an unclean store is also an unseen one
    for one in findings_within(options.artifact, records, record, options.platform.removesuffix("sim")):
        findings += [] if one.rule == "memory/unclean-store" and (one.path, one.line) in reported else [one]
    findings += dispatched(record, verdict.status not in ("pass", "unchecked"))
    if verdict.error is not None:
        findings.append(ended_finding(options.artifact, verdict.error))
    return deliver("hazards", options.artifact, findings, options, options.build_dir)
