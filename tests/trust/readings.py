"""Inputs of compilations, a kernel for each way to read one: its verdict depends on that input alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.trust.space import KERNELS, KERNELS_BESIDE, Space, kernel_text

RIGHT, WRONG = "2.0f", "3.0f"


@dataclass(frozen=True)
class Reading:
    """A kernel, whose output is twice its input only after ``set_right``."""

    name: str
    text: str
    set_right: Callable[[Space], object]
    set_wrong: Callable[[Space], object]


def _artifact(space: Space) -> Path:
    return space.root / "build_output" / KERNELS_BESIDE


def _kernel(name: str, before: str, expression: str = "SCALE * in[i]") -> str:
    return kernel_text(name, expression, before)


def _by_content(name: str, text: str, path: str, content: str = "#define SCALE {}\n") -> Reading:
    """A reading of a file, whose path is the artifact's unless it begins with ``/``, the workspace's."""

    def write(space: Space, factor: str) -> Path:
        text = content.format(factor)
        return space.write(path[1:], text) if path.startswith("/") else space.write_in(path, text)

    return Reading(name, text, lambda space: write(space, RIGHT), lambda space: write(space, WRONG))


def _by_presence(name: str, text: str, file: Path, content: str, there_is_right: bool) -> Reading:
    """A reading of a file that is there or not."""

    def write(_: Space) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")

    def remove(_: Space) -> None:
        file.unlink(missing_ok=True)

    return Reading(name, text, write, remove) if there_is_right else Reading(name, text, remove, write)


def _switched(name: str, text: str, link: Path) -> Reading:
    """A link that leads to one of two files, or to one of the directories that they are in."""

    def switch(space: Space, factor: str) -> None:
        header = space.write(f"pool/{name}/{factor}/scale.h", f"#define SCALE {factor}\n")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(header if link.suffix else header.parent)

    return Reading(name, text, lambda space: switch(space, RIGHT), lambda space: switch(space, WRONG))


_INCLUDES = {
    "plain": '#include "scale.h"',
    "macro": '#define NAME "scale.h"\n#include NAME',
    "macro_of_a_name": "#define TEXT(x) #x\n#define QUOTED(x) TEXT(x)\n#include QUOTED(scale.h)",
    "comment_before": '/* a */ #include "scale.h"',
    "comment_of_two_lines_before": '/* a\nb */ #include "scale.h"',
    "comment_inside": '# /* a */ include /* b */ "scale.h"',
    "comment_for_a_blank": '#include/**/"scale.h"',
    "comment_of_two_lines_inside": '#include /* a\n b */ "scale.h"',
    "continued_before_the_name": '#include \\\n"scale.h"',
    "continued_inside_the_word": '#inc\\\nlude "scale.h"',
    "continued_after_the_sign": '# \\\n include "scale.h"',
    "continued_with_blanks": '#include \\  \n"scale.h"',
    "continued_line_comment": '// a \\\n#include "none.h"\n#include "scale.h"',
    "digraph": '%:include "scale.h"',
    "import": '#import "scale.h"',
    "vertical_tab": '\v#include "scale.h"',
    "form_feed_inside": '#\finclude\f"scale.h"',
    "carriage_returns": '#include "scale.h"\r',
    "raw_string_before": 'static const char* text = R"(\n/*)"; // "\n#include "scale.h"',
    "quote_in_a_character": 'static const char quote = \'"\';\n#include "scale.h" // "',
    "two_directories": '#include "../aiv/scale.h"',
    "old_directory": '#include "./scale.h"',
    "conditional": '#if 1 + 1 == 2 /*\n*/ && defined __cplusplus\n#include "scale.h"\n#endif',
    "continued_by_a_trigraph": '#include ??/\n"scale.h"',
    "sign_as_a_trigraph": '??=include "scale.h"',
}

_PASTED = "#define CAT(a, b) a##b\n#if CAT(__has_, include)"
_CONDITIONS = {
    "has_plain": '#if __has_include("opt.h")',
    "has_or": '#if __has_include(<../aiv/opt.h>) || __has_include("opt.h")',
    "has_macro": '#define NAME "opt.h"\n#if __has_include(NAME)',
    "has_continued": '#if 1 && __has_include(\\\n"opt.h")',
    "has_pasted": f'{_PASTED}("opt.h")',
    "has_function": '#ifdef __has_include\n#define HAS(x) __has_include(x)\n#endif\n#if HAS("opt.h")',
    "has_next": '#if __has_include_next("opt.h") || __has_include("opt.h")',
}


def includes() -> Iterator[Reading]:
    """A header beside the kernel, by every spelling of an include; the trigraphs need ``-trigraphs``."""
    for name, text in _INCLUDES.items():
        yield _by_content(name, _kernel(name, text.replace("scale.h", f"{name}.h")), f"{KERNELS}/{name}.h")
    text = f'\ufeff#include "byte_order_mark.h"\n{_kernel("byte_order_mark", "")}'
    yield _by_content("byte_order_mark", text, f"{KERNELS}/byte_order_mark.h")
    nested = '#define INNER "nested.h"\n#include INNER\n'
    text = _kernel("nested", '#include "outer.h"')
    inner = _by_content("nested", text, f"{KERNELS}/nested.h")

    def set_right(space: Space) -> None:
        space.write_in(f"{KERNELS}/outer.h", nested)
        inner.set_right(space)

    yield Reading("nested", text, set_right, inner.set_wrong)


def appearing(space: Space) -> Iterator[Reading]:
    """A header that is looked for and appears, by every spelling of the question; and one that goes."""
    beside = _artifact(space) / KERNELS
    for name, condition in _CONDITIONS.items():
        condition_of_file = condition.replace("opt.h", f"{name}.h")
        text = _kernel(name, f"{condition_of_file}\n#define SCALE {WRONG}\n#else\n#define SCALE {RIGHT}\n#endif")
        yield _by_presence(name, text, beside / f"{name}.h", "", there_is_right=False)
    goes = _kernel("goes", f'{_PASTED}("goes.h")\n#define SCALE {RIGHT}\n#else\n#define SCALE {WRONG}\n#endif')
    yield _by_presence("goes", goes, beside / "goes.h", "", there_is_right=True)


def assembled(space: Space) -> Iterator[Reading]:
    """Bytes and text that the assembler includes."""

    def kernel(name: str, section: str) -> str:
        declared = f'extern "C" __attribute__((visibility("hidden"))) const float {name}_value;'
        before = f'asm(".pushsection .rodata\\n.balign 4\\n{section}\\n.popsection");\n{declared}'
        return _kernel(name, before, f"{name}_value * in[i]")

    text = kernel("text", f'.include \\"{space.root}/ext/text.s\\"')
    yield _by_content("text", text, "/ext/text.s", "text_value: .float {:.3}\n")
    yield Reading(
        "bytes",
        kernel("bytes", f'bytes_value: .incbin \\"{space.root}/ext/scale.bin\\"'),
        lambda space: space.write("ext/scale.bin", b"\0\0\0\x40"),
        lambda space: space.write("ext/scale.bin", b"\0\0\x40\x40"),
    )


def linked(space: Space) -> Iterator[Reading]:
    """A link to a file or a directory that is switched."""
    for name, path in (("linked_file", "by_file/scale.h"), ("linked_directory", "by_directory")):
        included = path if path.endswith(".h") else f"{path}/scale.h"
        yield _switched(name, _kernel(name, f'#include "{included}"'), _artifact(space) / KERNELS / path)


@dataclass
class Searched:
    """Kernels, and the flags that name the directories in which their headers are."""

    readings: list[Reading] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)


def searched(space: Space) -> Searched:
    """A header in a directory by each flag for one, in another one that comes before, and behind a link."""
    all_searched, root = Searched(), space.root
    for number, flag in enumerate(("-I", "-I ", "-isystem ", "-idirafter ", "-iquote ", "--include-directory=")):
        name = f"flag{number}"
        include = f'"{name}.h"' if "quote" in flag else f"<{name}.h>"
        all_searched.readings.append(_by_content(name, _kernel(name, f"#include {include}"), f"/{name}/{name}.h"))
        all_searched.flags.append(f"{flag}{root}/{name}")
    all_searched.flags += [f"-I{root}/one", f"-I{root}/two", f"-I{root}/linked"]
    beside = _artifact(space) / KERNELS
    text = _kernel("shadows_ours", f"#include <cstdlib>\n#ifndef SCALE\n#define SCALE {RIGHT}\n#endif")
    evil = f"#define SCALE {WRONG}\n#include_next <cstdlib>\n"
    all_searched.readings += [
        _next("next_first", decides="one"),
        _next("next_second", decides="two"),
        _shadowed("shadows_another", "<shadows_another.h>", root / "one"),
        _shadowed("shadows_from_beside", '"shadows_from_beside.h"', beside),
        _by_presence("shadows_ours", text, root / "one" / "cstdlib", evil, there_is_right=False),
        _switched("linked_flag", _kernel("linked_flag", "#define NAME <scale.h>\n#include NAME"), root / "linked"),
    ]
    return all_searched


def _next(name: str, decides: str) -> Reading:
    """A header that includes the next one of its name; ``decides`` is the directory of the one that changes."""
    text, on = _kernel(name, f"#include <{name}.h>"), f"#include_next <{name}.h>\n"

    def write(space: Space, factor: str) -> None:
        changed = f"#define SCALE {factor}\n"
        space.write(f"one/{name}.h", changed if decides == "one" and factor == WRONG else on)
        space.write(f"two/{name}.h", changed if decides == "two" else f"#define SCALE {RIGHT}\n")

    return Reading(name, text, lambda space: write(space, RIGHT), lambda space: write(space, WRONG))


def _shadowed(name: str, include: str, directory: Path) -> Reading:
    """A header in the second directory, and one of its name that is found before as soon as it is there."""
    text = _kernel(name, f"#define NAME {include}\n#include NAME")
    shadow = _by_presence(name, text, directory / f"{name}.h", f"#define SCALE {WRONG}\n", there_is_right=False)

    def set_right(space: Space) -> None:
        space.write(f"two/{name}.h", f"#define SCALE {RIGHT}\n")
        shadow.set_right(space)

    return Reading(name, text, set_right, shadow.set_wrong)
