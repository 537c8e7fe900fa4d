"""Makes the file: template, style, scripts of this directory and the data, all in one; nothing is loaded elsewhere."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pypto_build.diagnose.recorded.evidence import Evidence
from pypto_build.diagnose.report.collect import graph_data, timeline_data
from pypto_build.diagnose.template import fill

_HERE = Path(__file__).resolve().parent
#: In the order in which they use each other.
_SCRIPTS = ("dom.js", "plane.js", "graph.js", "timeline.js", "ranks.js", "maps.js", "main.js")


def page(title: str, data: Mapping[str, Any]) -> str:
    """The whole file for `data` (see `collect`)."""
    parts = {
        "@TITLE@": html.escape(title),
        "@STYLE@": _read("page.css"),
        "@SCRIPT@": "\n".join(_read(name) for name in _SCRIPTS),
        # "<" never stands in it, so no text of the data can end the element.
        "@DATA@": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    return fill(_read("page.html"), parts)


def graph_page(evidence: Evidence) -> str:
    """A page with graph and timeline only."""
    name = evidence.artifact.name if evidence.artifact else evidence.root.name
    data = {
        "artifact": name,
        "facts": [["platform", evidence.platform]],
        "graph": graph_data(evidence),
        "timeline": timeline_data(evidence),
    }
    return page(f"Task graph of {name}", data)


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
