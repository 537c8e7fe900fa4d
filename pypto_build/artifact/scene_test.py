"""Prints a scene test: a Python file by which simpler's own test machinery compiles and runs an artifact.

The text works with every version of that machinery: renamed classes (``Tensor`` became ``TensorArg``) and removed
options (``block_dim``) are looked up when it runs. It needs only simpler and torch.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import msgspec

from pypto_build.facts.dtypes import SIMPLER_CARRIERS as _CARRIERS
from pypto_build.facts.dtypes import TORCH

from .interface import Interface, Param
from .manifest_writer import quoted
from .records import Artifact
from .snapshot import Snapshot

SCENE_TEST_NAME = "kernel_config_scene_test.py"
SNAPSHOT_CASE = "snapshot"

_DIGEST = re.compile(r"^# pypto-build digest: ([0-9a-f]{64})$", re.MULTILINE)
#: Types in which scalars are passed; float16 and bfloat16 as their 16 bits, as PyPTO passes them.
_CTYPES = {"float32": "c_float", "float64": "c_double", "float16": "c_uint16", "bfloat16": "c_uint16"} | {
    name: f"c_{name}" for name, row in TORCH.items() if not row.is_float
}
#: dtypes that a snapshot may hold under another name of the same size.
_RETYPED = ("uint16", "uint32")
#: dtypes that torch.allclose does not take.
_NOT_COMPARED = (
    *_RETYPED,
    *(name for name, row in TORCH.items() if row.exponent and row.size == 1 and name not in _CARRIERS),
)


class SceneTest(msgspec.Struct, frozen=True):
    """The inputs of a scene test's text.

    ``platforms`` are the platforms of its cases, ``rtol`` and ``atol`` its tolerances. ``golden`` is a ``golden.py``
    that computes outputs missing in the snapshot. With ``keeps_outputs`` the test compares nothing, and writes the
    outputs to ``actual/`` in its directory.
    """

    artifact: Artifact
    interface: Interface
    data: Snapshot
    platforms: tuple[str, ...]
    rtol: float = 1e-5
    atol: float = 1e-5
    golden: Path | None = None
    keeps_outputs: bool = False


def render_scene_test(test: SceneTest, directory: Path) -> str:
    """Return the text of a scene test that lies in ``directory`` beside the signed manifest."""
    tensors = [param for param in test.interface.params if param.kind == "tensor"]
    scalars = [param for param in test.interface.params if param.kind == "scalar"]
    writer = _Writer(test)
    specs = [*map(writer.tensor, tensors), *map(writer.scalar, scalars)]
    golden = writer.golden(tensors)
    body = "\n".join(
        [
            *_header(test, directory, writer),
            *_class(test, specs, golden),
            "",
            "",
            'if __name__ == "__main__":',
            "    SceneTestCase.run_module(__name__)",
            "",
        ]
    )
    return f"# pypto-build digest: {_digest(body)}\n{body}"


def is_edited(text: str) -> bool:
    """Return whether a scene test was edited after it was written."""
    match = _DIGEST.match(text)
    return match is None or match.group(1) != _digest(text[match.end() + 1 :])


def class_name(artifact: str) -> str:
    """Return the name of the test class of an artifact: ``_jit_vector_dag`` is ``TestVectorDag``."""
    words = re.findall(r"[A-Za-z0-9]+", artifact.removeprefix("_jit_"))
    return "Test" + "".join(word[:1].upper() + word[1:] for word in words)


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _relative(path: Path, directory: Path) -> str:
    return Path(os.path.relpath(os.path.realpath(path), os.path.realpath(directory))).as_posix()


class _Writer:
    """Writes the lines that depend on the source of a parameter's value; records the helpers that they need."""

    def __init__(self, test: SceneTest) -> None:
        self._test = test
        self.helpers: set[str] = set()

    def tensor(self, param: Param) -> str:
        """Return the entry of a tensor in ``generate_args``."""
        value = self._initial(param)
        if value is not None:
            return f'TensorArg("{param.name}", {value}),'
        shape = [max(size, 1) for size in param.shape or (1,)]
        dtype = _CARRIERS.get(param.dtype or "float32", param.dtype or "float32")
        return (
            f'TensorArg("{param.name}", torch.zeros({shape}, dtype=torch.{dtype})),  # TODO: the value of {param.name}'
        )

    def _initial(self, param: Param) -> str | None:
        """Return the expression for a tensor's content before the run; None if unknown."""
        data, dtype = self._test.data, param.dtype
        carrier = f", torch.{dtype}" if dtype in _CARRIERS or dtype in _RETYPED else ""
        if param.name in data.inputs and param.direction != "OUT":
            self.helpers |= {"load", "argument"}
            return f'_argument(_load("in", "{param.name}"){carrier})'
        if param.direction in ("OUT", None):
            if dtype and param.shape is not None and -1 not in param.shape:
                return f"torch.zeros({list(param.shape) or [1]}, dtype=torch.{_CARRIERS.get(dtype, dtype)})"
            if param.name in data.outputs:
                self.helpers |= {"load", "argument"}
                return f'torch.zeros_like(_argument(_load("out", "{param.name}"){carrier}))'
        if self._test.golden is not None:
            self.helpers |= {"golden", "argument"}
            return f'_argument(_golden_inputs(params)["{param.name}"]{carrier})'
        return None

    def scalar(self, param: Param) -> str:
        """Return the entry of a scalar in ``generate_args``."""
        ctype = _CTYPES.get(param.dtype or "int64", "c_int64")
        if param.name in self._test.data.inputs:
            self.helpers.add("load")
            bits = ".view(torch.int16)" if param.dtype in ("float16", "bfloat16") else ""
            return f'Scalar("{param.name}", ctypes.{ctype}(_load("in", "{param.name}"){bits}.item())),'
        if self._test.golden is not None:
            self.helpers |= {"golden"}
            return f'Scalar("{param.name}", _golden_inputs(params)["{param.name}"]),'
        return f'Scalar("{param.name}", ctypes.{ctype}(1)),  # TODO: the value of {param.name}'

    def golden(self, tensors: list[Param]) -> list[str]:
        """Return the body of ``compute_golden``; empty without a golden."""
        outputs = [param for param in tensors if param.direction != "IN"]
        saved = [param for param in outputs if param.name in self._test.data.outputs]
        if saved and len(saved) == len(outputs):
            self.helpers.add("load")
            return [f"args.{param.name}.view(-1)[:] = {self._expected(param)}" for param in outputs]
        if self._test.golden is not None and outputs:
            self.helpers.add("golden")
            names = ", ".join(f'"{param.name}"' for param in tensors)
            return [f"_compute_golden(args, [{names}], params)"]
        return []

    def _expected(self, param: Param) -> str:
        carrier = f".view(torch.{_CARRIERS[param.dtype]})" if param.dtype in _CARRIERS else ""
        typed = f".view(torch.{param.dtype})" if param.dtype in _RETYPED else ""
        return f'_load("out", "{param.name}").contiguous().view(-1){carrier}{typed}'


def _header(test: SceneTest, directory: Path, writer: _Writer) -> list[str]:
    """Return the lines above the class."""
    needs = writer.helpers
    scalars = any(param.kind == "scalar" for param in test.interface.params)
    name = test.artifact.name.replace("\\", "/").replace('"', "'")  # it stands in a docstring
    snapshot = quoted(_relative(test.data.root, directory))
    lines = [
        f'"""Scene test of {name} for simpler: `python {SCENE_TEST_NAME} -p {test.platforms[-1]}`.',
        "",
        "Written by pypto-build, which leaves it alone once it was edited (FORCE=1 writes it anew).",
        '"""',
        "",
        *(["import ctypes"] if scalars else []),
        "import importlib.util",
        *(["import os"] if "load" in needs else []),
        "from pathlib import Path",
        "",
        "import torch",
        f"from simpler_setup import {'Scalar, ' if scalars else ''}SceneTestCase, TaskArgsBuilder, scene_test",
        "",
        "try:",
        "    from simpler_setup import TensorArg",
        "except ImportError:  # its name until August 2026",
        "    from simpler_setup import Tensor as TensorArg",
        "",
        "_HERE = Path(__file__).resolve().parent",
    ]
    if "load" in needs:
        lines += [
            f"_SNAPSHOT = {snapshot}  # pytest --golden-data names another directory",
            '_DATA = (_HERE / (os.environ.get("PYPTO_GOLDEN_DATA") or _SNAPSHOT)).resolve()',
        ]
    if "golden" in needs and test.golden is not None:
        lines.append(f"_GOLDEN = (_HERE / {quoted(_relative(test.golden, directory))}).resolve()")
    lines += _IMPORT_FILE
    lines += _LOAD if "load" in needs else []
    lines += _ARGUMENT if "argument" in needs else []
    lines += _GOLDEN_HELPERS if "golden" in needs else []
    lines += _CONFIG if test.interface.block_dim else []
    return lines


def _class(test: SceneTest, specs: list[str], golden: list[str]) -> list[str]:
    interface = test.interface
    outputs = [param for param in interface.params if param.kind == "tensor" and param.direction != "IN"]
    threads = interface.aicpu_thread_num
    config = f'{{"aicpu_thread_num": {threads}}}' if threads else "{}"
    config = f"_config({threads or 0}, {interface.block_dim})" if interface.block_dim else config
    skip = [] if golden else ['            "skip_golden": True,  # until compute_golden is there']
    platforms = ", ".join(f'"{platform}"' for platform in test.platforms)
    return [
        "",
        "",
        f"@scene_test(level=2, runtime={quoted(interface.runtime)})",
        f"class {class_name(test.artifact.name)}(SceneTestCase):",
        '    CALLABLE = _import_file("kernel_config.py").CALLABLE',
        f"    RTOL, ATOL = {test.rtol:g}, {test.atol:g}",
        "    CASES = [",
        "        {",
        f'            "name": "{SNAPSHOT_CASE}",',
        f'            "platforms": [{platforms}],',
        f'            "config": {config},',
        f'            "params": {{"name": "{SNAPSHOT_CASE}"}},',
        *skip,
        "        },",
        "    ]",
        "",
        "    def generate_args(self, params):",
        "        return TaskArgsBuilder(",
        *(f"            {spec}" for spec in specs),
        "        )",
        "",
        "    def compute_golden(self, args, params):",
        *(
            f"        {line}"
            for line in golden or ["pass  # TODO: what the outputs should be, in place: args.y[:] = ..."]
        ),
        *(_KEEP if test.keeps_outputs else _COMPARE if any(param.dtype in _NOT_COMPARED for param in outputs) else []),
    ]


def _lines(text: str, blank: int = 2) -> list[str]:
    """Return the lines of a definition, after ``blank`` empty lines."""
    return [""] * blank + text.strip("\n").split("\n")


_IMPORT_FILE = _lines(
    """
def _import_file(name):
    spec = importlib.util.spec_from_file_location(f"{_HERE.name}_{Path(name).stem}", _HERE / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
"""
)

_LOAD = _lines(
    """
def _load(part, name):
    return torch.load(_DATA / part / f"{name}.pt", weights_only=True)
"""
)

_ARGUMENT = _lines(
    """
def _argument(tensor, dtype=None):
    \"\"\"The tensor as simpler takes it: contiguous, of rank one or more, in a dtype it has a name for.\"\"\"
    tensor = tensor.contiguous().clone()
    tensor = tensor.reshape(1) if tensor.dim() == 0 else tensor
    carriers = {@CARRIERS@}
    dtype = carriers.get(dtype or tensor.dtype, dtype or tensor.dtype)
    return tensor if tensor.dtype == dtype else tensor.view(dtype)
""".replace("@CARRIERS@", ", ".join(f"torch.{name}: torch.{carrier}" for name, carrier in _CARRIERS.items()))
)

_GOLDEN_HELPERS = _lines(
    """
def _golden_inputs(params):
    return dict(_import_file(_GOLDEN).generate_inputs(params))


def _compute_golden(args, names, params):
    tensors = {name: getattr(args, name) for name in names}
    computed = _import_file(_GOLDEN).compute_golden(tensors, params)
    for name, value in (computed or tensors).items():
        if isinstance(value, torch.Tensor):
            getattr(args, name).copy_(value.reshape(getattr(args, name).shape))
"""
)

_CONFIG = _lines(
    """
def _config(threads, block_dim):
    \"\"\"`block_dim` was an option of runs until July 2026.\"\"\"
    from simpler import task_interface

    config = {"aicpu_thread_num": threads} if threads else {}
    known = getattr(task_interface, "CallConfig", None) or task_interface.ChipCallConfig
    return {**config, "block_dim": block_dim} if hasattr(known(), "block_dim") else config
"""
)

_COMPARE = _lines(
    """
    def compare_outputs(self, test_args, golden_args, output_names, params):
        for name in output_names:
            actual, expected = getattr(test_args, name), getattr(golden_args, name)
            exact = not actual.dtype.is_floating_point
            actual, expected = actual.to(torch.float64), expected.to(torch.float64)
            tolerances = {"rtol": 0.0, "atol": 0.0} if exact else {"rtol": self.RTOL, "atol": self.ATOL}
            difference = (actual - expected).abs().max().item()
            assert torch.allclose(actual, expected, **tolerances), f"Golden mismatch on '{name}': {difference}"
""",
    blank=1,
)

_KEEP = _lines(
    """
    def compare_outputs(self, test_args, golden_args, output_names, params):
        (_HERE / "actual").mkdir(exist_ok=True)
        for name in output_names:
            torch.save(getattr(test_args, name).cpu().clone(), _HERE / "actual" / f"{name}.pt")
""",
    blank=1,
)
