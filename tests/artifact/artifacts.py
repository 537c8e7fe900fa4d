"""Small artifacts for the tests: the program of `generated/*.cpp`, one file a vintage, with two kernels."""

from __future__ import annotations

from pathlib import Path

GENERATED = Path(__file__).parent / "generated"
VINTAGE_NAMES = sorted(path.stem for path in GENERATED.glob("*.cpp"))

HEADER = "from pathlib import Path\n\n_ROOT_DIR = Path(__file__).parent\n"
ORCHESTRATION = (
    'ORCHESTRATION = {"source": str(_ROOT_DIR / "orchestration" / "scaled_mm.cpp"), '
    '"function_name": "aicpu_orchestration_entry"}\n'
)
KERNELS = """KERNELS = [
\t{"func_id": 0, "name": "mm", "source": str(_ROOT_DIR / "kernels" / "aic" / "mm.cpp"), "core_type": "aic"},
\t{"func_id": 1, "name": "scale", "source": str(_ROOT_DIR / "kernels" / "aiv" / "scale.cpp"), "core_type": "aiv"},
]
"""
MANIFEST = HEADER + ORCHESTRATION + KERNELS

ENTRY = """extern "C" {{
void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {{
    const ChipTensor& ext_x = orch_args.tensor(0).ref();
    const ChipTensor& ext_w = orch_args.tensor(1).ref();
    const ChipTensor& ext_y = orch_args.tensor(2).ref();
{body}
}}
}}
"""


def write(path: Path, text: str | bytes = "") -> Path:
    """Writes a file, making its directories."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def make_artifact(root: Path, manifest: str | None = MANIFEST, orchestration: str | None = None) -> Path:
    """An artifact with kernels `mm` (func_id 0, aic) and `scale` (func_id 1, aiv) at ``root``."""
    write(root / "orchestration" / "scaled_mm.cpp", orchestration or generated("2026-08"))
    write(root / "kernels" / "aic" / "mm.cpp", "// mm\n")
    write(root / "kernels" / "aiv" / "scale.cpp", "// scale\n")
    if manifest is not None:
        write(root / "kernel_config.py", manifest)
    return root


def generated(vintage: str) -> str:
    """The program's orchestration in the form of one vintage."""
    return (GENERATED / f"{vintage}.cpp").read_text()


def entry(body: str, preamble: str = "") -> str:
    """An orchestration with external tensors x, w, y whose entry does ``body``."""
    return preamble + ENTRY.format(body=body)
