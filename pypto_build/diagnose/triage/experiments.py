"""The same replay in other orders: what gives other bits depends on the order, and what does not excludes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pypto_build.artifact.files import file_digest
from pypto_build.diagnose.requests import once_more
from pypto_build.replay import Request, replay
from pypto_build.replay.run_options import SettingValue

# What each run is called, and what it is told.
_ORDERS: tuple[tuple[str, Mapping[str, SettingValue]], ...] = (
    ("in a second run", {}),
    ("one by one in submission order", {"serial": True}),
    ("in a random legal order", {"shuffle": True, "seed": 1}),
    ("in another random legal order", {"shuffle": True, "seed": 2}),
    ("with the dependencies that STRICT=1 adds", {"strict": True}),
)


@dataclass(frozen=True)
class Orders:
    """Runs with other task orders: their number, and those with other outputs or another result."""

    runs: int = 0
    varied: str = ""


def try_orders(request: Request) -> Orders:
    """Run ``request`` in other orders, up to the first that gives something else than the run as it is."""
    base = _bits(request)
    for number, (name, options) in enumerate(_ORDERS, 1):
        again = replace(once_more(request), options={**request.options, **options})
        if _bits(again) != base:
            return Orders(number, name)
    return Orders(len(_ORDERS))


def _bits(request: Request) -> tuple[str, dict[str, str]]:
    """Replay a request and return its status and a digest of each output."""
    verdict = replay(request, write=None)
    actual = sorted((request.results_dir / "actual").glob("*.pt"))
    return verdict.status, {path.stem: file_digest(path) for path in actual}
