"""Bugs planted in the example programs for several chips: an edit of a program, the command that finds it, and where.

``python -m tests.diagnose.corpus.ranks`` plants all of them, prints those that are not found, and writes the table into
docs/dev/distributed.md. The tests plant a part of them.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pypto_build.compiler import compile_file
from pypto_build.compiler.golden import compute
from pypto_build.compiler.write import write_files
from tests.rules.project import Project

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "distributed"
PAGE = ROOT / "docs" / "dev" / "distributed.md"
BEGIN, END = "<!-- planted: begin -->", "<!-- planted: end -->"


@dataclass(frozen=True)
class RankBug:
    """In `examples/distributed/dist_<program>.py`, each (old, new) of `edits` is applied once.

    `tool` is a target. `said` is a part of what it says; of a finding, `at` is in the line of the kernel it names.
    """

    name: str
    program: str
    edits: tuple[tuple[str, str], ...]
    says: str
    at: str = ""
    tool: str = "hazards"


UNORDERED, REUSED = "[hazards/unordered-ranks]", "[hazards/window-reused-early]"
SEVERAL, SHARED = "[hazards/signal-set-by-several]", "[hazards/signals-share-a-line]"

_ARRIVED = "    pld.system.wait(arrived, offsets=[0, peer], expected=1, cmp=pld.WaitCmp.Ge)"
_TELL = "        pld.system.notify(arrived, peer=peer, offsets=[0, me], value=1, op=pld.NotifyOp.AtomicAdd)"
_FULL = "pld.system.wait(full, offsets=[0, 0], expected=row + 1, cmp=pld.WaitCmp.Ge)"
_FREE = "pld.system.wait(free, offsets=[0, 0], expected=row - 1, cmp=pld.WaitCmp.Ge)"
_SEND = "        pld.tile.remote_store(scaled, slots, peer=1, offsets=[row % 2, 0])\n"
_SENT = "        pld.system.notify(full, peer=1, offsets=[0, 0], value=1, op=pld.NotifyOp.AtomicAdd)\n"
_TAKE = "        pl.store(pl.load(slots, [row % 2, 0], [1, N]) + 1.0, [row, 0], y)\n"
_TAKEN = "        pld.system.notify(free, peer=0, offsets=[0, 0], value=1, op=pld.NotifyOp.AtomicAdd)\n"
_ROUND = "pld.system.wait(arrived, offsets=[0, 0], expected=step + 1, cmp=pld.WaitCmp.Ge)"
_PUT = "        pld.tensor.put(inbox, next, data, dst_offsets=[step, 0], src_offsets=[chunk, 0], shape=[1, C])\n"
_NEXT = "        pld.system.notify(arrived, peer=next, offsets=[0, 0], value=1, op=pld.NotifyOp.AtomicAdd)\n"
_BARRIER = "    signal = pld.tensor.barrier(signal)\n"
_PART = "        pld.tensor.put(gathered, peer, x, dst_offsets=[me * M, 0], src_offsets=[0, 0], shape=[M, K])\n"
_HERE = "        pld.system.notify(arrived, peer=peer, offsets=[me, 0], value=1, op=pld.NotifyOp.Set)\n"
_WAITS = "pld.system.wait(arrived, offsets=[part, 0], expected=1, cmp=pld.WaitCmp.Ge)"
_CHIP = "stage_one(x, slots, full, free, device=0)"

# fmt: off
BUGS = (
    # --- reads and writes that no wait orders
    RankBug("no wait for the other ranks", "allreduce", ((_ARRIVED, "    pass"),), UNORDERED, "TLOAD(acc"),
    RankBug("a wait for what holds from the start", "allreduce", ((_ARRIVED, _ARRIVED.replace("expected=1", "expected=0")),), UNORDERED, "TLOAD(acc"),
    RankBug("a wait for the own cell instead of each peer's", "allreduce", ((_ARRIVED, _ARRIVED.replace("[0, peer]", "[0, me]")),), UNORDERED, "TLOAD("),
    RankBug("a comparison the wrong way round", "allreduce", ((_ARRIVED, _ARRIVED.replace("Ge", "Le")),), UNORDERED, "TLOAD("),
    RankBug("the first rank is not waited for", "allreduce", ((f"range(ranks):\n    {_ARRIVED}", f"range(1, ranks):\n    {_ARRIVED}"),), UNORDERED, "TLOAD(acc"),
    RankBug("the part is published after it was summed", "allreduce", (("        publish(x[r], partial, scale, device=r)", "        arrived = pld.window(arrived_buf, [1, 64], dtype=pl.INT32)\n        reduce(partial, arrived, total[r], device=r)"), ("        arrived = pld.window(arrived_buf, [1, 64], dtype=pl.INT32)\n        reduce(partial, arrived, total[r], device=r)\n\n", "        publish(x[r], partial, scale, device=r)\n\n")), REUSED, "TSTORE("),
    RankBug("a row is taken before it is there", "pipeline", ((_FULL, _FULL.replace("row + 1", "row")),), UNORDERED, "TLOAD("),
    RankBug("the slot that is being filled is read", "pipeline", ((_TAKE, _TAKE.replace("row % 2", "(row + 1) % 2")),), UNORDERED, "TLOAD("),
    RankBug("the signal goes before the row", "pipeline", ((_SEND + _SENT, _SENT + _SEND),), UNORDERED, "TLOAD("),
    RankBug("a wait in a ring that holds from the start", "allreduce_ring", ((_ROUND, _ROUND.replace("step + 1", "0")),), UNORDERED, "TLOAD("),
    RankBug("a ring's second round waits for one step too few", "allreduce_ring", (("expected=NR + step", "expected=NR + step - 1"),), UNORDERED, "TLOAD("),
    RankBug("a ring's signal goes before the share", "allreduce_ring", ((_PUT + _NEXT, _NEXT + _PUT),), UNORDERED, "TLOAD("),
    RankBug("the rank before is told, not the next one", "allreduce_ring", ((_PUT + _NEXT, _PUT + _NEXT.replace("peer=next", "peer=(me + NR - 1) % NR")),), UNORDERED, "TLOAD("),
    RankBug("all steps of a ring use one slot", "allreduce_ring", ((_PUT, _PUT.replace("dst_offsets=[step, 0]", "dst_offsets=[0, 0]")),), REUSED, "TPUT("),
    RankBug("no barrier before the shares are read", "allreduce_two_shot", (("    me = pld.rank(pld.get_comm_ctx(parts))\n" + _BARRIER, "    me = pld.rank(pld.get_comm_ctx(parts))\n"),), UNORDERED, "TLOAD("),
    RankBug("no barrier before the sums are read", "allreduce_two_shot", ((_BARRIER + "    pl.store(pl.load(sums", "    pl.store(pl.load(sums"),), UNORDERED, "TLOAD("),
    RankBug("the shares are staged after the exchange", "allreduce_two_shot", (("    stage(x, parts)\n    two_shots(parts, sums, signal, y)", "    two_shots(parts, sums, signal, y)\n    stage(x, parts)"),), REUSED, "TSTORE("),
    RankBug("every product waits for the first part", "allgather_matmul", ((_WAITS, _WAITS.replace("[part, 0]", "[0, 0]")),), UNORDERED, "TLOAD("),
    RankBug("a part's signal goes before the part", "allgather_matmul", ((_PART + _HERE, _HERE + _PART),), UNORDERED, "TLOAD("),
    RankBug("parts of all ranks go to one place", "allgather_matmul", ((_PART, _PART.replace("[me * M, 0], src", "[0, 0], src")),), UNORDERED, "TPUT("),
    RankBug("the row of the receiver, not of the sender", "all_to_all", (("dst_offsets=[me, 0]", "dst_offsets=[peer, 0]"),), UNORDERED, "TPUT("),
    RankBug("no barrier behind dispatch", "experts", ((_BARRIER + "\n\n@pl.jit.incore\ndef expert", "\n\n@pl.jit.incore\ndef expert"), ), UNORDERED, "TLOAD("),
    RankBug("no barrier before combine", "experts", (("    me = pld.rank(pld.get_comm_ctx(outbox))\n" + _BARRIER, "    me = pld.rank(pld.get_comm_ctx(outbox))\n"),), UNORDERED, "TLOAD("),
    RankBug("tokens of all ranks in one place", "experts", (("dst_offsets=[me * T + t, 0]", "dst_offsets=[t, 0]"),), UNORDERED, "TPUT("),
    # --- windows written again too early
    RankBug("a slot is filled again without a wait", "pipeline", (("if row >= 2:", "if row >= 20:"),), REUSED, "TSTORE("),
    RankBug("a slot is filled again one row too early", "pipeline", ((_FREE, _FREE.replace("row - 1", "row - 2")),), REUSED, "TSTORE("),
    RankBug("a slot is given back before it is read", "pipeline", ((_TAKE + _TAKEN, _TAKEN + _TAKE),), REUSED, "TSTORE("),
    RankBug("two rounds without a wait between them", "allreduce", (("    for r in pl.range(pld.world_size()):\n        partial = pld.window(partial_buf, [1, N], dtype=pl.FP32)\n        arrived", "    for r in pl.range(pld.world_size()):\n        partial = pld.window(partial_buf, [1, N], dtype=pl.FP32)\n        arrived = pld.window(arrived_buf, [1, 64], dtype=pl.INT32)\n        reduce(partial, arrived, total[r], device=r)\n    for r in pl.range(pld.world_size()):\n        publish(x[r], pld.window(partial_buf, [1, N], dtype=pl.FP32), scale, device=r)\n    for r in pl.range(pld.world_size()):\n        partial = pld.window(partial_buf, [1, N], dtype=pl.FP32)\n        arrived"),), REUSED, "TSTORE("),
    # --- signals
    RankBug("Set where ranks share a cell", "allreduce", ((_TELL, _TELL.replace("[0, me]", "[0, 0]").replace("AtomicAdd", "Set")), (_ARRIVED, _ARRIVED.replace("[0, peer]", "[0, 0]"))), SEVERAL),
    RankBug("Set in neighbouring cells", "allreduce", ((_TELL, _TELL.replace("AtomicAdd", "Set")),), SHARED),
    RankBug("Set in cells of one line, one a part", "allgather_matmul", (("Arrived = pld.DistributedTensor[[NR, 16], pl.INT32]", "Arrived = pld.DistributedTensor[[NR, 1], pl.INT32]"), ("arrived_buf = pld.alloc_window_buffer([NR, 16], dtype=pl.INT32)", "arrived_buf = pld.alloc_window_buffer([NR, 1], dtype=pl.INT32)"), ("pld.window(arrived_buf, [NR, 16], dtype=pl.INT32)", "pld.window(arrived_buf, [NR, 1], dtype=pl.INT32)")), SHARED),
    # --- what never ends
    RankBug("more is waited for than is sent", "pipeline", ((_FULL, _FULL.replace("row + 1", "row + 2")),), "rank 1 d0 'stage_two' kernel 'receive_and_shift' (task 0) waits for comm_d0.full_buf+0 >= 5, it is 4 (notified 4 times by rank 0 'scale_and_send'", tool="replay"),
    RankBug("the sender tells itself that a slot is full", "pipeline", ((_SENT, _SENT.replace("peer=1", "peer=0")),), "waits for comm_d0.full_buf+0 >= 1, it is 0 (no rank has notified it)", tool="replay"),
    RankBug("both stages on one rank", "pipeline", (("free, y, device=1)", "free, y, device=0)"),), "rank 0, d0 'stage_one': kernel 'scale_and_send' crashed at", tool="replay"),
    RankBug("no order between dispatches of one rank is enough", "pipeline", ((f"    {_CHIP}\n    stage_two(slots, full, free, y, device=1)", f"    stage_two(slots, full, free, y, device=0)\n    {_CHIP}"),), "rank 0 d0 'stage_two' kernel 'receive_and_shift' (task 0) waits for comm_d0.full_buf+0 >= 1", tool="replay"),
    RankBug("a collective that one rank leaves out", "allreduce_two_shot", (("    me = pld.rank(pld.get_comm_ctx(parts))\n" + _BARRIER, "    me = pld.rank(pld.get_comm_ctx(parts))\n    if me != 3:\n    " + _BARRIER),), "waits for comm_d0.signal_buf+12 >= 1, it is 0", tool="replay"),
    RankBug("ranks call collectives in another order", "feed_forward", (("    partial = pld.tensor.allreduce(partial, signal, op=pld.ReduceOp.Sum)\n", "    me = pld.rank(pld.get_comm_ctx(partial))\n    if me == 0:\n        signal = pld.tensor.barrier(signal)\n    partial = pld.tensor.allreduce(partial, signal, op=pld.ReduceOp.Sum)\n"),), "rank 0 d0 'feed_forward' kernel 'sum_up'", tool="replay"),
    RankBug("a ring waits for one step too many", "allreduce_ring", ((_ROUND, _ROUND.replace("step + 1", "step + 2")),), "waits for comm_d0.arrived_buf+0 >= 2, it is 1", tool="replay"),
    RankBug("a cell beside the one that is waited for", "all_to_all", (("peer=peer, offsets=[0, me], value=1", "peer=peer, offsets=[0, me + 1], value=1"),), "waits for comm_d0.arrived_buf+0 >= 1, it is 0 (no rank has notified it)", tool="replay"),
    RankBug("a credit that is never given", "all_to_all", (("offsets=[0, me], value=1, op", "offsets=[0, me], value=0, op"),), "waits for comm_d0.arrived_buf+0 >= 1, it is 0", tool="replay"),
    # --- what is written where nothing is
    RankBug("a share far behind the window", "allreduce_ring", ((_PUT, _PUT.replace("dst_offsets=[step, 0]", "dst_offsets=[step + 4096, 0]")),), "TPUT: writes 1024 bytes of global memory that belong to no argument of the task"),
    RankBug("a share one row further, on top of the signals", "allreduce_ring", ((_PUT, _PUT.replace("dst_offsets=[step, 0]", "dst_offsets=[step + 1, 0]")),), "waits for comm_d0.arrived_buf+0 >= ", tool="replay"),
)
# fmt: on


def plant(bug: RankBug, project: Project) -> str:
    """Compile a program with a bug; what the tool says of it."""
    text = (EXAMPLES / f"dist_{bug.program}.py").read_text(encoding="utf-8")
    for old, new in bug.edits:
        assert text.count(old) == 1, f"{bug.name}: {old!r} stands there {text.count(old)} times"
        text = text.replace(old, new)
    program = project.root / f"dist_{bug.program}.py"
    program.write_text(text, encoding="utf-8")
    root = project.root / "build_output" / f"_jit_dist_{bug.program}"
    write_files(root, compile_file(str(program), root, "a2a3sim").files)
    compute(root)
    run = project.quiet(bug.tool, f"JIT={root.name}", "TIMEOUT=40")
    return run.output if run.status else f"status 0: {run.output}"


def found(bug: RankBug, output: str, project: Project) -> bool:
    """Return whether the output has the expected message at a line with the expected text."""
    root = project.root / "build_output" / f"_jit_dist_{bug.program}"
    for line in output.splitlines():
        if bug.says in line:
            if not bug.at:
                return True
            position = re.match(r"([^:\s]+):(\d+):", line)
            if (
                position
                and bug.at in (root / position[1]).read_text(encoding="utf-8").splitlines()[int(position[2]) - 1]
            ):
                return True
    return False


def table() -> str:
    """One row a bug."""
    rows = ["| planted bug | program | command | what is said |", "|---|---|---|---|"]
    for bug in BUGS:
        message = f"`{bug.says.strip('[]')}` at `{bug.at}`" if bug.at else f"`{bug.says.strip('[]')}`"
        rows.append(f"| {bug.name} | `dist_{bug.program}` | `scons {bug.tool}` | {message} |")
    return "\n".join(rows) + "\n"


def page(text: str) -> str:
    """The page with the table that it should have."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n{table()}{END}{rest.partition(END)[2]}"


def main() -> int:
    """Plant all; write the table if all are found."""
    missed = 0
    directory = Path(tempfile.mkdtemp())
    try:
        project = Project(directory)
        for program in dict.fromkeys(bug.program for bug in BUGS):
            first_output = plant(RankBug("", program, (), ""), project)
            if not first_output.startswith("status 0") or "[hazards/" in first_output:
                missed += 1
                print(f"--- {program} as it is: something is found\n{first_output}")
        for bug in BUGS:
            output = plant(bug, project)
            if not found(bug, output, project):
                missed += 1
                print(f"--- {bug.name}: not found\n{output}")
            else:
                print(f"found: {bug.name}")
    finally:
        shutil.rmtree(directory)
    if not missed:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"{len(BUGS) - missed} of {len(BUGS)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
