"""The page on agreement between device, simulator and runtime: `python -m pypto_build.pto.agreement` prints
docs/lookup/agreement.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection

from .ops import INSTRUCTIONS
from .ops.agreement import AGREEMENTS, SOURCES, Agreement, of_instruction
from .torch.followed import FOLLOWED

_INTRODUCTION = """# Agreement with the hardware

The same kernel may give other bits on a device, in upstream's simulator and here. This page says where that is known or
open, what each of the three does, and where each claim is from. An instruction that is not named gives the same
everywhere, as far as anybody has said in public.

- *device*: what public pages and threads say of a2a3 (Ascend 910B, 910C) and a5 (Ascend 950), and which instructions
  the headers for it issue. Nobody here has measured one.
- *simulator*: the CPU implementation of pto-isa at the pinned revision (`third_party/pins.toml`), as one reads it, and
  as g++ compiles it. Two recorded runs of it confirm what is said: a product of two halves of K in float is the same
  bit for bit with `NUMERICS=simulator` (17 % of the elements are, as it is), and a sum of rows that clang had compiled
  is that of eight sums side by side.
- *here*: the embedded runtime, by one of three settings. `NUMERICS=fast`, the default, gives the device's results
  wherever they are known and take no longer to compute; `NUMERICS=device` also where they do (a tree of neighbours for
  sums of rows, sums of halves in half); `NUMERICS=simulator` gives what the simulator gives. Kernels are compiled for
  one of them, in directories of their own, so results of one are never shown as those of another.

A question is *agreed*, *differs* (what the device does is known, and somebody does something else), or *open*: nobody
says what the device does. **Who has a device can settle the open ones by one command**, and the others too:

    pypto-build conformance DIR --run -p a2a3

writes small artifacts with inputs that tell the answers apart, runs them, prints which answer each row has, and leaves
`DIR/results.json`, which is the file to send. Where only simpler is installed, `pypto-build conformance DIR` on any
machine and `python kernel_config_scene_test.py -p a2a3` in each directory of DIR do the same; what comes back is read
by `pypto-build conformance --read DIR` or `--read results.json`. Rows marked *kit* are in it.

The PyTorch reference computes with PyTorch's own functions and order of summation, and converts and compares as the
device; its tolerances allow for orders of sums. With `RUNTIME=torch`, `diverge`, `why`, `step` and `sweep` it follows
`NUMERICS` where that decides, bit by bit:

- `device`: FOLLOWED_DEVICE.
- `simulator`: FOLLOWED_SIMULATOR.

Of the questions that a program asks and `NUMERICS` decides otherwise, a line says that the reference does not follow.
`DATA=reference`, `AGAINST=` a dump and distributed programs have the reference as it is.
"""


def document() -> str:
    """Return the page docs/lookup/agreement.md."""
    followed = {f"FOLLOWED_{numerics.upper()}": _listed(names) for numerics, names in FOLLOWED.items()}
    introduction = re.sub(r"FOLLOWED_[A-Z]+", lambda match: followed[match[0]], _INTRODUCTION)
    lines = [introduction, "## Questions", ""]
    lines += [
        "| question | instructions | state | the device's by | the simulator's by | |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_summary(row) for row in AGREEMENTS.values()]
    lines += ["", "## By instruction", "", "| instruction | where bits may differ |", "|---|---|"]
    for name in INSTRUCTIONS:
        links = [f"{_link(row)} ({row.state})" for row in of_instruction(name)]
        if links:
            lines.append(f"| {name} | {', '.join(links)} |")
    others = [row.name for row in INSTRUCTIONS.values() if not (row.unsupported or any(of_instruction(row.name)))]
    lines += [
        "",
        f"Nothing is known to differ, and nothing is asked, of {', '.join(others[:-1])} and {others[-1]}.",
        "",
    ]
    for row in AGREEMENTS.values():
        lines += _details(row)
    return "\n".join(lines)


def _listed(names: Collection[str]) -> str:
    """Return links to questions, in the order of the table."""
    return ", ".join(_link(row) for row in AGREEMENTS.values() if row.name in names)


def _link(row: Agreement) -> str:
    return f"[{row.name}](#{row.name})"


def _summary(row: Agreement) -> str:
    ways = (_setting_of(row.device_by, row.state), _setting_of(row.simulator_by, "differs"))
    return (
        f"| {_link(row)} | {', '.join(row.names())} | {row.state} | {' | '.join(ways)} | {'kit' if row.kit else ''} |"
    )


def _setting_of(numerics: str, state: str) -> str:
    """Return the NUMERICS= setting that reproduces the answer of the device or simulator."""
    return f"`{numerics}`" if numerics else "?" if state == "open" else "no setting"


def _details(row: Agreement) -> list[str]:
    sources = ", ".join(f"[{SOURCES[key][0]}]({SOURCES[key][1]})" for key in row.sources.split())
    return [
        f"### {row.name}",
        "",
        f"{row.question}: *{row.state}*.",
        "",
        f"- device: {row.device}{f' ({sources})' if sources else ''}",
        f"- simulator: {row.simulator}",
        f"- here: {row.here}",
        "",
    ]


if __name__ == "__main__":
    sys.stdout.write(document())
