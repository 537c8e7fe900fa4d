"""A random sequence of steps by one theme, as a state machine of Hypothesis."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from hypothesis.strategies import integers

from tests.trust.model import THEMES, Chooser, script, world_of
from tests.trust.oracle import Oracle
from tests.trust.tested import Tested
from tests.trust.world import Fault, Step

_STEPS = 9  # 171 altogether


def machine_of(tested: Tested, theme: int) -> type[RuleBasedStateMachine]:
    """A state machine whose rule does one random step in a world and compares what a replay says with a fresh build."""

    class Steps(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.resources, self.done = ExitStack(), list[Step]()
            self.chooser = Chooser(f"theme {theme}", THEMES[theme])
            self.world = self.resources.enter_context(world_of(tested, Oracle(tested), self.chooser.kind))

        @rule(seed=integers(0, 1 << 16))
        def step(self, seed: int) -> None:
            self.chooser.reseed(f"{theme} {len(self.done)} {seed}")
            self.done.append(self.chooser.step(self.world, self.done[-1][0] if self.done else ""))
            try:
                self.world.do(self.done[-1])
            except Fault as fault:
                pytest.fail(f"{fault}\n\nsteps, for --script:\n{script(self.chooser.kind, self.done)}", pytrace=False)

        def teardown(self) -> None:
            self.resources.close()

    return Steps


def do_random_steps(tested: Tested, theme: int) -> None:
    """Do random steps of a theme; each replay has to say what a fresh build says."""
    run_state_machine_as_test(
        machine_of(tested, theme),
        settings=settings(
            max_examples=1,
            stateful_step_count=_STEPS,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
