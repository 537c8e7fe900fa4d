"""From a unit's .pto to the C++ its kernels contain: by our own assembler, or by ptoas where one is given."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.positions import SourcePosition
from pypto_build.pto import Module, PtoError
from pypto_build.pto.assemble import assemble
from pypto_build.pto.splice import preprocess
from pypto_build.toolchain.ptoas import Ptoas, ptoas_argv

from .errors import CompileError

_HEAD = '#include "pto/pto-inst.hpp"\nusing namespace pto;\n\n'
TIMEOUT_S = 60


def assemble_unit(module: Module, text: str, unit: str, platform: str, ptoas: Path | None) -> str:
    """Return the raw C++ of a unit, as ptoas writes it; `preprocess` turns it into a wrapper's body."""
    if ptoas is not None:
        return _run_ptoas(text, unit, platform, ptoas)
    try:
        body = assemble(module, platform).text
    except PtoError as error:
        raise CompileError(SourcePosition(f"ptoas/{unit}.pto"), str(error).partition(": ")[2] or str(error)) from None
    return _HEAD + re.sub(r"^static __aicore__ void", "__global__ AICORE void", body, flags=re.M) + "\n"


def body_of(raw: str, wrapper_class: str) -> str:
    """Return the text between a wrapper's sentinels; `wrapper_class` is the vintage's class of tensors."""
    return preprocess(raw, wrapper_class).strip("\n")


def _run_ptoas(text: str, unit: str, platform: str, ptoas: Path) -> str:
    with tempfile.TemporaryDirectory() as directory:
        source, target = Path(directory, f"{unit}.pto"), Path(directory, f"{unit}.cpp")
        source.write_text(text, encoding="utf-8")
        command = ptoas_argv(Ptoas(str(ptoas), ""), PLATFORMS[platform], text, str(source), str(target))
        try:
            process = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except OSError as error:
            raise CompileError(SourcePosition(str(ptoas)), f"cannot be run: {error.strerror or error}") from None
        except subprocess.TimeoutExpired:
            raise CompileError(
                SourcePosition(f"ptoas/{unit}.pto"), f"ptoas did not finish within {TIMEOUT_S} s"
            ) from None
        if process.returncode or not target.exists():
            lines = (process.stderr or process.stdout).strip().splitlines()[:10]
            raise CompileError(
                SourcePosition(f"ptoas/{unit}.pto"), "ptoas does not accept the unit", notes=tuple(lines)
            )
        return target.read_text(encoding="utf-8")
