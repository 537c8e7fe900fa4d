"""Pages whose parts hold the marks of the template."""

from __future__ import annotations

import json
import re

import pytest

from pypto_build.diagnose.report.page import page
from pypto_build.diagnose.template import fill


def test_a_mark_within_a_part_stays() -> None:
    assert fill("<@A@> [@B@]", {"@A@": "@B@ \\1", "@B@": "@A@"}) == "<@B@ \\1> [@A@]"


@pytest.mark.parametrize("name", ["_jit_@DATA@", "_jit_@SCRIPT@", "@STYLE@"])
def test_a_report_on_an_artifact_with_the_name_of_a_mark(name: str) -> None:
    text = page(f"Report on {name}", {"artifact": name})
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert data and json.loads(data[1]) == {"artifact": name}
    assert f"<title>Report on {name}</title>" in text
