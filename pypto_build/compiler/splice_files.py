"""Splices an assembled unit into kernel files.

    python -m pypto_build.compiler.splice_files BODY --into FUNC_ID WRAPPER OUTPUT … [--module PTO] [--orchestration C]

A wrapper takes the body of the function that it is named after, else of the one that its `kernel_entry` calls.
If the function's arguments changed, its `kernel_entry` is made anew from the module and the orchestration's arguments;
an argument without a value is an error. Either all outputs are written or none.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pypto_build.facts.positions import SourcePosition
from pypto_build.pto.atomic import write_atomically
from pypto_build.pto.errors import PtoError
from pypto_build.pto.splice import (
    BODY_SENTINEL,
    called_function,
    find_sentinels,
    forwarded_arguments,
    functions_of,
    has_signature,
    preprocess,
    replace_body,
    splice_unit,
)

if TYPE_CHECKING:
    from pypto_build.pto.wrapper import Passed, Payload


class Unit:
    """One assembled unit and the sources of its arguments."""

    def __init__(self, body: Path, module: Path | None, orchestration: Path | None) -> None:
        self.raw = body.read_text(encoding="utf-8")
        self.module, self.orchestration = module, orchestration

    def splice(self, func_id: int, wrapper: Path) -> str:
        """Return the wrapper with the unit's body; raises PtoError when they do not fit."""
        text = wrapper.read_text(encoding="utf-8")
        body = preprocess(self.raw, text)
        functions = functions_of(body)
        name = wrapper.stem
        if name not in functions:  # a file of another name, as PtoModule makes one
            name = called_function(text, functions) or name
        if name in functions and self.module and not has_signature(text, name, functions[name], str(wrapper)):
            return self._refit(text, name, func_id, wrapper, body)
        return splice_unit(body, {name: (str(wrapper), text)})[name].text

    def _refit(self, text: str, name: str, func_id: int, wrapper: Path, body: str) -> str:
        """Return the wrapper with a new `kernel_entry`."""
        # only here, since a body alone is spliced in a third of the time it takes to import them
        from pypto_build.pto import parse_file
        from pypto_build.pto.wrapper import bridges_subblock, refit_arguments, write_entry

        assert self.module is not None
        module = parse_file(self.module)
        function = next((f for f in module.functions() if f.name == name and f.body is not None), None)
        entry = find_sentinels(text, str(wrapper)).end
        old = passed_values(text[entry:], [p.name for p in forwarded_arguments(text, name, str(wrapper))])
        if function is None or old is None:
            return splice_unit(body, {name: (str(wrapper), text)})[name].text  # which says what does not fit
        passed = refit_arguments(function, module, old, self._payload(func_id))
        tensor_class = "ChipTensor" if re.search(r"\bChipTensor\b", text[entry:]) else "Tensor"
        bridge = bridges_subblock(function, module) and "pypto_runtime_subblock_id" in text[:entry]
        print(f"[pto->cpp]   {name} takes other arguments than before: kernel_entry is generated again")
        head = replace_body(text, body, str(wrapper))
        head = head[: find_sentinels(head).end] + write_entry(name, passed, tensor_class, bridge=bridge)
        needs_ids = any(p.kind == "launch" or p.shared for p in passed)
        if needs_ids and '#include "intrinsic.h"' not in head.partition("#include <pto/pto-inst.hpp>")[2]:
            head = head.replace(BODY_SENTINEL, f'#include "intrinsic.h"\n\n{BODY_SENTINEL}', 1)
        return head

    def _payload(self, func_id: int) -> Payload | None:
        """Return the numbers of tensors and scalars that the orchestration passes to a kernel; None if it is never
        submitted.
        """
        from pypto_build.artifact import ArtifactError
        from pypto_build.artifact.derive import submissions
        from pypto_build.pto.wrapper import Payload

        try:
            calls = submissions(self.orchestration) if self.orchestration else ()
        except ArtifactError as error:
            raise PtoError(
                SourcePosition(str(self.orchestration)), str(error).removeprefix(f"{self.orchestration}: ")
            ) from None
        call = next((c for c in calls if func_id in c.func_ids), None)
        return Payload(len(call.signature), call.scalars) if call else None


def passed_values(entry: str, names: Sequence[str]) -> tuple[Passed, ...] | None:
    """Return the values that an existing `kernel_entry` passes as `names`; None for an unsupported expression."""
    from pypto_build.artifact.cpp.wrapper import KernelFile
    from pypto_build.pto.wrapper import Passed

    variables = {each.name: each for each in KernelFile(entry).variables}
    passed = []
    for name in names:
        if (each := variables.get(name)) is None:
            return None
        kind = {"block": "launch", "blocks": "launch", "lane": "launch"}.get(each.kind, each.kind)
        if kind == "scalar" and not each.source:
            kind = "context"
        value = each.value if kind in ("launch", "extent") else ""
        shared = kind == "tensor" and "+" in each.value.partition("start_offset")[2]
        passed.append(Passed(kind, name, each.ctype, 0 if value else each.slot, value, shared))
    return tuple(passed)


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0, 1 when the body does not fit a wrapper, 2 for wrong usage."""
    parser = argparse.ArgumentParser(
        prog="python -m pypto_build.compiler.splice_files", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("body", type=Path, help="the unit as assembled, by ptoas or by pypto_build.pto.assemble")
    parser.add_argument("--into", nargs=3, action="append", required=True, metavar=("FUNC_ID", "WRAPPER", "OUTPUT"))
    parser.add_argument("--module", type=Path, help="the .pto module, for functions whose arguments changed")
    parser.add_argument("--orchestration", type=Path, help="the C++ that says what kernels are passed")
    arguments = parser.parse_args(argv)
    try:
        unit = Unit(arguments.body, arguments.module, arguments.orchestration)
        written = [
            (Path(output), unit.splice(int(number), Path(wrapper))) for number, wrapper, output in arguments.into
        ]
        for output, text in written:
            write_atomically(output, text)
    except PtoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
