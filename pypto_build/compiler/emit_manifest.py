"""`kernel_config.py` and `compiled_meta.json`: what the artifact consists of, and the program's parameters."""

from __future__ import annotations

import json
from typing import Any

from .ir import IrFunction, Program
from .orchestration_text import OrchestrationResult
from .values import Ref, TensorType
from .vintages import TODAY, ApiVintage

BACKENDS = {"a2a3": "Ascend910B", "a5": "Ascend950"}


def generate_manifest(entry: IrFunction, result: OrchestrationResult, vintage: ApiVintage = TODAY) -> str:
    """Importing it needs simpler, for `ArgDirection`, as it does upstream."""
    config = "".join(f'\t"{key}": {value},\n' for key, value in vintage.runtime_config)
    tensors = ", ".join(f"_D.{p.direction.name}" for p in entry.tensors())
    kernels = "".join(
        _kernel(name, result) for name in sorted(result.func_name_to_id, key=result.func_name_to_id.__getitem__)
    )
    runtime = f'\t"runtime": "tensormap_and_ringbuffer",\n{config}'
    return manifest_text(
        entry.name, runtime, tensors, kernels, "# Runtime configuration for tensormap_and_ringbuffer\n"
    )


def manifest_text(program: str, config: str, signature: str, kernels: str, about: str = "") -> str:
    """A manifest around rows of its configuration and of its kernels; ``about`` is a comment on the former."""
    return f"""\
# Kernel and Orchestration Configuration

from pathlib import Path

from simpler.task_interface import ArgDirection as _D

_ROOT_DIR = Path(__file__).parent

{about}RUNTIME_CONFIG = {{
{config}}}

ORCHESTRATION = {{
	"source": str(_ROOT_DIR / "orchestration" / "{program}.cpp"),
	"function_name": "aicpu_orchestration_entry",
	"signature": [{signature}],
}}

KERNELS = [
{kernels}]

CALLABLE = {{
	"orchestration": ORCHESTRATION,
	"incores": KERNELS,
}}
"""


def _kernel(name: str, result: OrchestrationResult) -> str:
    core = result.func_name_to_core_type[name]
    signature = ", ".join(f"_D.{word}" for word in result.func_name_to_signature[name])
    return (
        f'\t{{"func_id": {result.func_name_to_id[name]}, "name": "{name}", '
        f'"source": str(_ROOT_DIR / "kernels" / "{core}" / "{name}.cpp"), "core_type": "{core}", '
        f'"signature": [{signature}]}},\n'
    )


def generate_meta(program: Program, entry: IrFunction) -> str:
    """Schema 1; a dynamic extent is -1, a scalar has no shape."""
    outputs = sum(p.direction.value != "In" for p in entry.tensors())
    document = {
        "schema": 1,
        "params": params_document(entry),
        "num_return_types": outputs,
        "platform": program.platform,
        "backend_type": BACKENDS[program.arch],
    }
    return json.dumps(document, indent=2) + "\n"


def params_document(entry: IrFunction) -> list[dict[str, Any]]:
    """The parameters of a program as its metadata lists them."""
    params = []
    for param in entry.params:
        shape = None
        if isinstance(param.type, TensorType):
            shape = [-1 if isinstance(d, Ref) else d for d in param.type.shape]
        params.append(
            {"name": param.variable, "direction": param.direction.value, "shape": shape, "dtype": param.type.dtype.meta}
        )
    return params
