"""Changes of a run whose effect is predicted before anyone makes them (`WHATIF=`).

A change alters the rates, the costs or the flags of the same recording, and the model runs again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.speed.rates import Rates
from pypto_build.diagnose.speed.record import FIX, MTE1, MTE2, MTE3, M, V

#: What each change supposes.
CHANGES: Mapping[str, str] = {
    "double": "each buffer that a pipe waits for is there twice",
    "nobanks": "no two operands lie in one bank",
    "nodispatch": "tasks start as soon as those before them are over",
    "cores=N": "the chip has N cube cores and twice as many vector cores",
    "l2=all": "all loads and stores hit in L2",
}
#: Flags by which a pipe is told that its buffer is free.
BUFFER_FLAGS = frozenset({(V, MTE2), (MTE3, MTE2), (MTE1, MTE2), (M, MTE1), (MTE3, V), (FIX, M)})


@dataclass(frozen=True)
class WhatIf:
    """The changes. `cores` is 0 where the chip keeps its own."""

    double: bool = False
    nobanks: bool = False
    nodispatch: bool = False
    l2: bool = False
    cores: int = 0

    def rates(self, rates: Rates) -> Rates:
        """Return the rates with the changes that are some of theirs."""
        changed = {}
        if self.nodispatch:
            changed = {name: 0.0 for name in rates.rows if name.startswith("dispatch.")}
        if self.cores:
            changed["cores.aic"] = float(self.cores)
        return rates.with_values(**changed)


def read_what_if(text: str) -> dict[str, WhatIf]:
    """Return each change of the option by itself, and all together where there are several. Raises a usage error."""
    words = list(dict.fromkeys(filter(None, (word.strip() for word in text.split(",")))))
    changes: dict[str, WhatIf] = {}
    together: dict[str, bool | int] = {}
    for word in words:
        name, _, value = word.partition("=")
        if word in ("double", "nobanks", "nodispatch"):
            change: dict[str, bool | int] = {name: True}
        elif word == "l2=all":
            change = {"l2": True}
        elif name == "cores" and value.isdigit() and 0 < int(value) <= 1024:
            change = {"cores": int(value)}
        else:
            raise ArtifactError(
                f"WHATIF={text}", f"there is no change named '{word}'", f"use one of {', '.join(CHANGES)}"
            )
        changes[word] = _of(change)
        together |= change
    if len(changes) > 1:
        changes["all of these"] = _of(together)
    return changes


def _of(change: Mapping[str, bool | int]) -> WhatIf:
    return WhatIf(
        bool(change.get("double")),
        bool(change.get("nobanks")),
        bool(change.get("nodispatch")),
        bool(change.get("l2")),
        int(change.get("cores", 0)),
    )
