"""Names in each generation of the upstream C++ API; one row for each generation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ApiVintage:
    """Names of one generation of the API.

    - `tensor`: the tensor class
    - `entry_args`, `task_args`: classes of the orchestration's and a task's arguments
    - `external`: an external tensor, with its position as {i}
    - `max_tensors`, `max_scalars`: the numbers that a task takes
    - `runtime_config`: entries beside the runtime's name
    - `predicate`: the class of a task's condition, or empty; only with it can tasks have early resolution and dumps
    """

    name: str
    tensor: str
    entry_args: str
    task_args: str
    external: str
    max_tensors: int
    max_scalars: int
    runtime_config: tuple[tuple[str, int], ...]
    predicate: str = ""

    @property
    def by_value(self) -> bool:
        """Return whether an external tensor is a copy, made from the argument."""
        return "from_tensor_arg" in self.external


VINTAGES = {
    row.name: row
    for row in (
        ApiVintage(
            "2026-05", "Tensor", "ChipStorageTaskArgs", "Arg", "from_tensor_arg(orch_args.tensor({i}))",
            16, 32, (("aicpu_thread_num", 4), ("block_dim", 24)),
        ),
        ApiVintage(
            "2026-06", "Tensor", "L2TaskArgs", "L0TaskArgs", "orch_args.tensor({i}).ref()",
            32, 16, (("aicpu_thread_num", 4),), "L0TaskPredicate",
        ),
        ApiVintage(
            "2026-08", "ChipTensor", "ChipTaskArgs", "CoreTaskArgs", "orch_args.tensor({i}).ref()",
            32, 16, (("aicpu_thread_num", 0),), "CoreTaskPredicate",
        ),
    )
}  # fmt: skip
TODAY = VINTAGES["2026-08"]
