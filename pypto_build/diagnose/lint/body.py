"""Rules on what a kernel does: its output drained, its flags paired, its intrinsics those that a task may use."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from pypto_build.artifact import Kernel
from pypto_build.diagnose.findings import Finding
from pypto_build.diagnose.lint.subject import Subject
from pypto_build.diagnose.lint.wrapper import Wrapper, WrapperFunction

_STORE = re.compile(r"\b(?:TSTORE\w*|MSCATTER|TSCATTER_GM)\s*(?:<[^;]{0,400}?>)?\s*\(")
_DRAIN = re.compile(
    r"\bpipe_barrier\s*\(\s*PIPE_ALL\s*\)|\bpipe_sync\s*\(|\bdcci\s*\(|"
    r"\bwait_flag\s*\(\s*PIPE_(?:MTE3|FIX)\s*,\s*PIPE_S\s*,"
)
_SYNCHRONIZED = re.compile(r"\b(?:set_flag|wait_flag|pipe_barrier|pipe_sync|ptoas_auto_sync_tail)\b")
_FLAG = re.compile(r"\b(set|wait)_flag\s*\(\s*(PIPE_\w+)\s*,\s*(PIPE_\w+)\s*,\s*(EVENT_ID\d)\s*\)")
_NO_ARGUMENT = re.compile(r"\b(get_block_idx|get_block_num|get_subblockid|get_sub_block_id)\s*\(\s*\)")
_SECTION = re.compile(r"#\s*if(?:def\s+|\s+defined\s*\(?\s*)(__DAV_(?:VEC|CUBE)__)")
_CORE_MACRO = {"aiv": "__DAV_VEC__", "aic": "__DAV_CUBE__"}


def check_drain(subject: Subject) -> Iterator[Finding]:
    """After the last store to global memory a kernel waits for its output pipe; else a consumer may read old bytes."""
    for kernel, wrapper in _kernels(subject):
        for function in _reached(wrapper):
            if not _SYNCHRONIZED.search(wrapper.code.code, function.start, function.end):
                yield from _unsynchronized(subject, kernel, wrapper, function)
                continue
            last = max(
                (m.start() for m in _STORE.finditer(wrapper.code.code, function.start, function.end)), default=-1
            )
            if last < 0 or _drained(wrapper, function, last):
                continue
            line = wrapper.code.line(last)
            yield subject.in_kernel(
                kernel,
                line,
                "no-drain",
                f"kernel '{kernel.name}' ends without waiting for this store: the next task may read old bytes",
                f"end '{function.name}' with pipe_barrier(PIPE_ALL), or pipe_sync() of pipe_sync.h",
            )


def _unsynchronized(subject: Subject, kernel: Kernel, wrapper: Wrapper, function: WrapperFunction) -> Iterator[Finding]:
    """A body without a single flag or barrier is made for simulated platforms, where instructions run in order."""
    store = _STORE.search(wrapper.code.code, function.start, function.end)
    if store is not None and not subject.platform.endswith("sim"):
        yield subject.in_kernel(
            kernel,
            wrapper.code.line(store.start()),
            "no-synchronization",
            f"'{function.name}' has no flag and no barrier: on {subject.platform} its pipes would run into each other",
            "assemble its module with ptoas, which inserts them",
        )


def _drained(wrapper: Wrapper, function: WrapperFunction, last: int) -> bool:
    """Return whether a drain follows the store.

    It may be in the same function, in a helper called there, or in the entry after the call.
    """
    code = wrapper.code.code
    tail = code[last : function.end]
    if wrapper.entry is not None and wrapper.called is not None:
        called = code.find(wrapper.called.name, wrapper.entry[0])
        tail += code[called : wrapper.entry[1]] if called >= 0 else ""
    if _DRAIN.search(tail):
        return True
    helpers = [f for f in wrapper.functions if f is not function and re.search(rf"\b{f.name}\s*\(", tail)]
    return any(_DRAIN.search(code, helper.start, helper.end) for helper in helpers)


def check_flags(subject: Subject) -> Iterator[Finding]:
    """Report a `set_flag` without a `wait_flag` and the reverse: a wait without its set blocks the pipe for ever."""
    for kernel, wrapper in _kernels(subject):
        for function in _reached(wrapper):
            counts: dict[tuple[str, str, str], Counter[str]] = {}
            lines: dict[tuple[str, str, str], int] = {}
            for match in _FLAG.finditer(wrapper.code.code, function.start, function.end):
                key = (match[2], match[3], match[4])
                counts.setdefault(key, Counter())[match[1]] += 1
                lines[key] = wrapper.code.line(match.start())
            for key, found in counts.items():
                if not found["set"] or not found["wait"]:
                    present, missing = ("set", "wait") if found["set"] else ("wait", "set")
                    effect = "nothing waits for it" if missing == "wait" else "the pipe waits for ever"
                    yield subject.in_kernel(
                        kernel,
                        lines[key],
                        "unpaired-flag",
                        f"{present}_flag({', '.join(key)}) has no {missing}_flag: {effect}",
                        f"add {missing}_flag({', '.join(key)}), or take this one out",
                    )


def check_intrinsics(subject: Subject) -> Iterator[Finding]:
    """Block numbers come from `args`; the intrinsics without arguments read registers that the scheduler never set."""
    for kernel, wrapper in _kernels(subject):
        if re.search(r"#\s*define\s+(get_\w+|PYPTO_FIXED_SUBBLOCK_ID)", wrapper.code.code):
            continue
        for match in _NO_ARGUMENT.finditer(wrapper.code.code):
            yield subject.in_kernel(
                kernel,
                wrapper.code.line(match.start()),
                "intrinsic-without-args",
                f"{match[1]}() reads a register that is not set for tasks",
                f"call {match[1]}(args) of intrinsic.h in kernel_entry and pass its value on",
            )


def check_core_section(subject: Subject) -> Iterator[Finding]:
    """Code for one kind of core, compiled for the other, is compiled away."""
    for kernel, wrapper in _kernels(subject):
        if wrapper.called is None:
            continue
        code, function = wrapper.code.code, wrapper.called
        sections = [(m[1], m.start()) for m in _SECTION.finditer(code, function.start, function.end)]
        if sections and all(macro != _CORE_MACRO[kernel.core_type] for macro, _ in sections):
            macro, at = sections[0]
            yield subject.in_kernel(
                kernel,
                wrapper.code.line(at),
                "core-section",
                f"'{function.name}' is for {macro}, but kernel '{kernel.name}' is compiled for {kernel.core_type}: "
                "it would do nothing",
                "correct core_type in the manifest and the directory, or compile again",
            )


def check_entry(subject: Subject) -> Iterator[Finding]:
    """A kernel's library is entered at `kernel_entry`, which calls the function with all it takes."""
    for kernel, wrapper in _kernels(subject):
        if wrapper.entry is None:
            yield subject.in_kernel(
                kernel, 0, "no-entry", f"kernel '{kernel.name}' defines no kernel_entry", "compile it again"
            )
        elif wrapper.called and len(wrapper.called.parameters) != len(wrapper.call_arguments):
            yield subject.in_kernel(
                kernel,
                wrapper.call_line,
                "call-count",
                f"'{wrapper.called.name}' takes {len(wrapper.called.parameters)} arguments, "
                f"{len(wrapper.call_arguments)} are passed",
                "pass what the function takes, in its order",
            )


def _kernels(subject: Subject) -> Iterator[tuple[Kernel, Wrapper]]:
    for kernel in subject.artifact.kernels:
        if not kernel.external:
            yield kernel, subject.wrappers[kernel.func_id]


def _reached(wrapper: Wrapper) -> list[WrapperFunction]:
    """The functions that do this kernel's work; the others of its group lie in the same file and are not called."""
    return [wrapper.called] if wrapper.called is not None else []
