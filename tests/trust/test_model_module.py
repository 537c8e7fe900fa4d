"""Random steps of an artifact with a .pto module, each replay of which says what a fresh build says."""

from __future__ import annotations

import pytest

from tests.trust.machine import do_random_steps
from tests.trust.model import themes_of
from tests.trust.tested import Tested


@pytest.mark.parametrize("theme", themes_of("module"))
def test_random_steps(tested: Tested, theme: int) -> None:
    do_random_steps(tested, theme)
