"""A scene test whose cases are computed, of a level that needs several machines."""

import simpler_setup
from simpler.task_interface import ArgDirection as D
from simpler.worker import Worker
from simpler_setup import SceneTestCase
from simpler_setup.scene_test import _sanitize_for_filename


def two_machines(orch, callables, task_args, config):
    """Create the worker of this level."""
    orch.worker = Worker(level=4)


@simpler_setup.scene_test(level=4, runtime="tensormap_and_ringbuffer")
class TestPairs(SceneTestCase):
    """Needs two machines."""

    CALLABLE = {"orchestration": two_machines, "callables": [{"name": "one", "signature": [D.IN]}]}
    CASES = [{"name": _sanitize_for_filename(f"pairs {n}"), "platforms": ["a2a3sim"]} for n in (1, 2)]
