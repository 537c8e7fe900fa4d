"""Commands that are typed on a machine, and their expected results."""

from __future__ import annotations

from dataclasses import dataclass

ARTIFACT = "_jit_vector_dag"
KERNEL = f"examples/artifacts/{ARTIFACT}/kernels/aiv/kernel_add.cpp"
#: Where the edits go: the instruction of that kernel.
INSTRUCTION = "TADD(v17, v7, v13);"


@dataclass(frozen=True)
class Step:
    """A command line behind `pypto-build`, with its exit status and the texts that its output holds.

    Before it, `INSTRUCTION` is replaced by `edit`, or is as it was. With `digests`, the outputs that it leaves count.
    """

    name: str
    words: str
    status: int
    holds: tuple[str, ...]
    edit: str = INSTRUCTION
    digests: str = ""


#: Every cell.
LOOP = (
    Step("first", f"replay {ARTIFACT} -p a2a3", 0, ("[RUN] PASS on the CPU, as a2a3sim (",), digests=ARTIFACT),
    Step("null", f"replay {ARTIFACT} -p a2a3", 0, ("[RUN] PASS on the CPU, as a2a3sim (cached)",)),
    Step("edit", f"replay {ARTIFACT}", 1, ("kernel_add.cpp; rebuilding", "'f' FAIL"), "TSUB(v17, v7, v13);"),
    Step("undone", f"replay {ARTIFACT}", 0, ("[RUN] PASS (cached)",)),
    Step("broken", f"replay {ARTIFACT}", 3, ("kernel_add.cpp:61", "nonsense"), "nonsense;"),
    Step("hazards", f"hazards {ARTIFACT}", 0, ()),
    Step("matmul", "replay _jit_matmul", 0, ("[RUN] PASS (",), digests="_jit_matmul"),  # of halves, on a cube core
    Step("softmax", "replay _jit_softmax", 0, ("[RUN] PASS (",), digests="_jit_softmax"),
)
#: Another kind of processor: the instruments that look into processes, too. The pack is replayed on this machine.
WHOLE = (
    *LOOP,
    Step("crash", f"replay {ARTIFACT}", 5, ("kernel 'kernel_add'",), "*(volatile int *)8 = 1;"),
    Step("hang", f"replay {ARTIFACT} TIMEOUT=5", 6, ("kernel_add",), "for (volatile int i = 0; i < 1;) ;"),
    Step("checked", f"replay {ARTIFACT} CHECK=1", 0, ("[RUN] PASS (",)),
    Step("sandbox", f"replay {ARTIFACT} SANDBOX=1 FORCE=1", 0, ("[RUN] PASS (",)),
    Step("diverge", f"diverge {ARTIFACT}", 0, ()),
    Step("lint", f"lint {ARTIFACT}", 0, ()),
    Step("flaky", f"flaky {ARTIFACT} ROUNDS=3", 0, ()),
    Step("pack", f"pack {ARTIFACT}", 0, (".tar.zst",)),
)
