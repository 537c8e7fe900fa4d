"""Every operation that PyTorch is written for is used by a test of it: by its name in the tests' texts."""

from __future__ import annotations

import re
from pathlib import Path

from pypto_build.pto.model import Operation
from pypto_build.pto.ops import TABLE
from pypto_build.pto.torch.lowering import find_lowering, nothing

#: Without a test of their own so far; nothing else may join them.
UNTESTED = {
    "pto.aic_initialize_pipe",
    "pto.aiv_initialize_pipe",
    "pto.section.cube",
    "pto.section.vector",
    "pto.tcolexpand",
    "pto.tconcatidx",
    "pto.tfree_from_aic",
    "pto.tfree_from_aiv",
    "pto.thistogram",
    "pto.tquant",
    "pto.trandom",
    "pto.trowexpand",
    "pto.ttri",
}


def used_in(text: str, name: str) -> bool:
    """Written out, or as a string that a test puts behind the dialect (or behind `trow` and `tcol`)."""
    short = re.sub(r"^(pto|arith|math)\.", "", name)
    base = re.sub(r"(\.mx)?\.(acc|bias)$", r"\1", short)  # forms of products
    narrow = re.sub(r"^t(row|col)(expand)?(?=.)", "", short)
    written = rf"{re.escape(name)}(?![\w.])"
    return bool(re.search(written, text)) or any(f'"{word}"' in text for word in (short, base, narrow))


def test_every_operation_of_vectors_and_matrices_is_used() -> None:
    here = Path(__file__).parent
    text = "\n".join(p.read_text() for p in sorted(here.glob("test_torch_*.py")) if p != Path(__file__))
    supported = [n for n, d in TABLE.items() if d.core and find_lowering(Operation(n)) not in (None, nothing)]
    missing = {name for name in supported if not used_in(text, name)}
    assert missing == UNTESTED
