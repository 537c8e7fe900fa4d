"""Sources that the model edits: every file it may write, and the texts it may hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.trust.compilers import QUESTIONS
from tests.trust.space import CHAIN, KERNELS, MANIFEST, MODULE, ORCHESTRATION, kernel_text, tensor_bytes

_BASE = f"build_output/{CHAIN}"
_AIV = f"{_BASE}/{KERNELS}"
_HAS = "#define CAT(a, b) a##b\n#if CAT(__has_, include)"
_DEFAULT = "#ifndef SCALE\n#define SCALE 2.0f\n#endif"
_OPTIONAL = "\n#define SCALE 3.0f\n#else\n#define SCALE 2.0f\n#endif"
_SCALED = "SCALE * in[i]"


@dataclass(frozen=True)
class Source:
    """A file, and what it may hold by name; None: it is not there. The first is what it holds at the start."""

    path: str
    variants: dict[str, bytes | None]


def _source(path: str, **variants: str | bytes | None) -> Source:
    held = {name: text.encode() if isinstance(text, str) else text for name, text in variants.items()}
    return Source(path, held)


def _twice(expression: str, before: str = "") -> str:
    return kernel_text("twice", expression, before)


def _plus_one(expression: str, before: str = "") -> str:
    return kernel_text("plus_one", expression, before)


def _header(path: str) -> Source:
    """A header that decides the factor; not there at the start."""
    return _source(
        path,
        absent=None,
        right="#define SCALE 2.0f\n",
        wrong="#define SCALE 3.0f\n",
        same="#define SCALE (1.0f + 1.0f)\n",
        comment="#define SCALE 2.0f // a comment\n",
        next="#include_next <scale.h>\n",
        empty="",
    )


_Y = [2.0 * i + 1.0 for i in range(16)]
_X = [float(i) for i in range(16)]

CHAIN_SOURCES = {
    "twice": _source(
        f"{_AIV}/twice.cpp",
        right=_twice("2.0f * in[i]"),
        wrong=_twice("3.0f * in[i]"),
        same=_twice("in[i] + in[i]"),
        near=_twice("2.0001f * in[i]"),
        comment=_twice("2.0f * in[i]", "// a comment"),
        wrong_comment=_twice("3.0f * in[i]", "// a comment"),
        broken=_twice("nothing * in[i]"),
        extra=_twice("FACTOR * in[i]", "#ifdef EXTRA\n#define FACTOR 3.0f\n#else\n#define FACTOR 2.0f\n#endif"),
        header=_twice(_SCALED, '#include "scale.h"'),
        macro=_twice(_SCALED, '#define NAME "scale.h"\n#include NAME'),
        comment_inside=_twice(_SCALED, '#include/**/"scale.h"'),
        searched=_twice(_SCALED, "#define NAME <scale.h>\n#include NAME"),
        optional=_twice(_SCALED, f'#if __has_include("opt.h"){_OPTIONAL}'),
        pasted=_twice(_SCALED, f'{_HAS}("opt.h"){_OPTIONAL}'),
        default=_twice(_SCALED, _DEFAULT),
        sized=_twice(
            "(length == 0 || length == strlen(getcwd(here, sizeof(here))) ? 2.0f : 3.0f) * in[i]",
            '#include <cstring>\n#include <unistd.h>\n#ifndef ROOT\n#define ROOT ""\n#endif\n'
            "static char here[4096];\nconstexpr size_t length = sizeof(ROOT) - 1;",
        ),
        seeing=_twice(
            '(getenv("HOME") || getenv("TERM") || getenv("PYPTO_X") || getenv("XDG_X") ? 3.0f : 2.0f) * in[i]',
            "#include <cstdlib>",
        ),
        limited=_twice('(getenv("PTO2_RING_HEAP") ? 3.0f : 2.0f) * in[i]', "#include <cstdlib>"),
        linked=_twice(_SCALED, '#import "linked/scale.h"'),
    ),
    "plus_one": _source(
        f"{_AIV}/plus_one.cpp",
        right=_plus_one("in[i] + 1.0f"),
        wrong=_plus_one("in[i] + 2.0f"),
        same=_plus_one("1.0f + in[i]"),
        comment=_plus_one("in[i] + 1.0f", "/* a comment */"),
        header=_plus_one("in[i] + SCALE - 1.0f", '#include "scale.h"'),
        heavy=_plus_one("in[i] + 1.0f", "#include <pto/pto-inst.hpp>"),
    ),
    "chain": _source(
        f"{_BASE}/orchestration/chain.cpp",
        right=ORCHESTRATION,
        wrong=ORCHESTRATION.replace("task(0, params_t0)", "task(1, params_t0)"),
        comment=ORCHESTRATION.replace("// Task 1", "// Task one"),
        larger=ORCHESTRATION.replace("{16}", "{32}"),
    ),
    "manifest": _source(
        f"{_BASE}/kernel_config.py",
        right=MANIFEST,
        comment=MANIFEST.replace("RUNTIME_CONFIG", "# a comment\nRUNTIME_CONFIG"),
        wrong=MANIFEST.replace('"func_id": 0', '"func_id": 9').replace('_id": 1', '_id": 0').replace("9", "1"),
        threads=MANIFEST.replace('"aicpu_thread_num": 0', '"aicpu_thread_num": 4'),
    ),
    "golden": _source(
        f"{_BASE}/data/out/y.pt",
        right=tensor_bytes(_Y),
        wrong=tensor_bytes([value + 1.0 for value in _Y]),
        near=tensor_bytes([value * 1.0003 for value in _Y]),
        absent=None,
    ),
    "input": _source(
        f"{_BASE}/data/in/x.pt", right=tensor_bytes(_X), wrong=tensor_bytes([value + 1.0 for value in _X])
    ),
    "more_input": _source("more/in/x.pt", right=tensor_bytes(_X[::-1])),
    "more_golden": _source("more/out/y.pt", right=tensor_bytes(_Y[::-1]), wrong=tensor_bytes(_Y), absent=None),
    "scale": _header(f"{_AIV}/scale.h"),
    "scale1": _header("inc1/scale.h"),
    "scale2": _header("inc2/scale.h"),
    "optional": _source(f"{_AIV}/opt.h", absent=None, present="", other="// nothing\n"),
    "forced": _header("ext/forced.h"),
    "flags": _source("ext/flags", absent=None, right="-DSCALE=2.0f\n", wrong="-DSCALE=3.0f\n", empty=""),
    "linked_a": _source("ext/a/scale.h", right="#define SCALE 2.0f\n", same="#define SCALE 4.0f / 2.0f\n"),
    "linked_b": _source("ext/b/scale.h", wrong="#define SCALE 3.0f\n", right="#define SCALE 2.0f\n"),
    "question": _source("asked/question", **{name: name for name in QUESTIONS}),
    "compiler": _source("tools/flags", none="", extra="-DEXTRA", scale="-DSCALE=3.0f"),
}

CHAIN_OPTIONS = {
    "plain": (),
    "tolerant": ("RTOL=1e-3",),
    "checked": ("CHECK=1",),
    "shuffled": ("SHUFFLE=1", "SEED=3"),
    "extra": ("KERNEL_FLAGS=-DEXTRA",),
    "searched": ("KERNEL_FLAGS=-I{root}/inc1 -I{root}/inc2",),
    "system": ("KERNEL_FLAGS=-isystem {root}/inc2",),
    "forced": ("KERNEL_FLAGS=-include {root}/ext/forced.h",),
    "flags": ("KERNEL_FLAGS=@{root}/ext/flags",),
    "more": ("DATA={root}/more",),
    "again": ("FORCE=1",),
    "compiler": ("CXX={root}/tools/my-g++",),
    "named": ("KERNEL_FLAGS=-DROOT='\"{root}\"'",),
    "braced": ("KERNEL_FLAGS=-I{here}/inc1",),
    "asking": ("CXX={root}/tools/asking-g++",),
    "weak": ("MEMORY=weak", "SEED=2"),
    "device": ("NUMERICS=device",),
}


def module_sources(module: str, kernel: str) -> dict[str, Source]:
    """The files of the artifact with a module, by what they hold at the start."""
    base = f"build_output/{MODULE}"
    return {
        "module": _source(
            f"{base}/ptoas/add.pto",
            right=module,
            wrong=module.replace("pto.tadd", "pto.tsub"),
            other=module.replace("pto.tadd", "pto.tmul"),
            comment=module.replace("module attributes", "// a comment\nmodule attributes"),
            broken=module.replace("pto.tadd", "pto.taddd"),
        ),
        "kernel": _source(
            f"{base}/{KERNELS}/add.cpp",
            right=kernel,
            wrong=kernel.replace("TADD(", "TSUB("),
            comment=kernel.replace("// Kernel Function", "// a comment\n// Kernel Function"),
        ),
    }


MODULE_OPTIONS = {
    "plain": (),
    "tolerant": ("RTOL=1e-3",),
    "checked": ("CHECK=1",),
    "torch": ("RUNTIME=torch",),
    "preferred": ("PREFER=pto",),
    "again": ("FORCE=1",),
}


def ranks_sources(artifact: Path) -> dict[str, Source]:
    """Files of the artifact for two chips, by what they hold at the start: programs, data, host driver, description."""
    sender, receiver = "next_levels/stage_one", "next_levels/stage_two"
    send, receive = f"{sender}/kernels/aiv/scale_and_send.cpp", f"{receiver}/kernels/aiv/receive_and_shift.cpp"
    driver = "orchestration/host_orch.py"

    def held(path: str, **edits: tuple[str, str]) -> Source:
        right = (artifact / path).read_text(encoding="utf-8")
        changed = {name: right.replace(*edit) for name, edit in edits.items()}
        assert all(text != right for text in changed.values()), path
        return _source(f"build_output/{artifact.name}/{path}", right=right, **changed)

    def data(path: str, **more: bytes | None) -> Source:
        right = (artifact / path).read_bytes()
        return _source(f"build_output/{artifact.name}/{path}", right=right, **more)

    x, y = ((artifact / f"data/{path}").read_bytes() for path in ("in/x.pt", "out/y.pt"))
    return {
        "send": held(
            send,
            wrong=("v3, 2.0f)", "v3, 3.0f)"),
            comment=("// Two slots", "// Two places"),
            broken=("TMULS(", "TMULT("),
            header=("using namespace pto;", '#include "scale.h"\nusing namespace pto;'),
        ),
        "receive": held(receive, wrong=("TADDS(", "TMULS("), comment=("// Kernel Function", "// Kernel function")),
        "scale": _source(
            f"build_output/{artifact.name}/{sender}/kernels/aiv/scale.h",
            absent=None,
            right="",
            wrong="#define TMULS(a, b, c) TMULS(a, b, 5.0f)\n",
        ),
        "sender": held(
            f"{sender}/orchestration/stage_one.cpp",
            wrong=("rt_submit_aiv_task(", "if (false) rt_submit_aiv_task("),
            comment=("// Orchestration Function", "// Orchestration function"),
        ),
        "driver": held(
            driver,
            wrong=('tensors["x"]', 'tensors["y"]'),
            comment=("# Host driver", "# The host driver"),
            broken=("dist_pipeline._pypto", "dist_pipe._pypto"),
        ),
        "manifest": held(
            f"{receiver}/kernel_config.py",
            wrong=('"func_id": 0', '"func_id": 1'),
            comment=("# Runtime configuration", "# Configuration"),
        ),
        "meta": held("distributed_meta.json", spaced=("  ", "   "), wrong=('"y"', '"z"')),
        "input": data("data/in/x.pt", wrong=y),
        "golden": data("data/out/y.pt", wrong=x, absent=None),
    }


RANKS_OPTIONS = {
    "plain": (),
    "tolerant": ("RTOL=1e-3",),
    "checked": ("CHECK=1",),
    "shuffled": ("SHUFFLE=1", "SEED=3"),
    "weak": ("MEMORY=weak",),
    "again": ("FORCE=1",),
}
