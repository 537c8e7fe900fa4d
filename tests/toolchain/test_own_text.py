"""Changes that a text may make to templates of other headers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pypto_build.toolchain.host import INCLUDE_DIR
from pypto_build.toolchain.own_text import (
    FOREIGN,
    GLOBAL_TYPES,
    OPEN,
    declares_names_of,
    has_markers,
    is_about_global_types,
    leaves_templates_alone,
    own_text,
)
from tests.rows import every

HARMLESS = [
    "int f() { return 2; }",
    "namespace own { inline int f() { return 1; } }",
    "namespace own::detail { int g(); }",
    "namespace { int x; }",
    "namespace cache_line_t { constexpr int ENTIRE_DATA_CACHE = 0; }",
    "template <typename Chip> static inline auto data_of(Chip &chip) -> decltype(chip.data()) { return chip.data(); }",
    "using namespace pto; using pto::Tile; namespace p = pto;",
    "template <typename T> T clamp(T x, T lo) { return x < lo ? lo : x; }",
    "template <class T, int N = 3> struct V { T x[N]; };",
    "template <class T> struct W : V<T> { T operator()(int) const; explicit operator bool() const; };",
    "template <class T> struct alignas(16) A { T x; };",
    "template <class T> constexpr bool big = sizeof(T) > 4;",
    "template <class T> __attribute__((noinline)) V<T> make(T a) { return {}; }",
    "template <template <class> class C> struct K {};",
    "template <class T> void g() { T::template f<int>(); x.template h<3>(); }",
    "template <class T, class = decltype(f(1) > 2)> int z(T);",
    "#pragma once\nint x;",
    "#pragma GCC unroll 4\nfor (;;) {}",
    "const char *s = \"namespace pto {\"; char c = '\"'; int n = 1'000;",
]

DOUBTFUL = [
    "namespace pto { int f(); }",
    "namespace pto::detail {}",
    "namespace std {}",
    "inline namespace __gnu {}",
    "namespace own { namespace pto {} }",
    "namespace [[deprecated]] own {}",
    "template <> struct pto::X<int> {};",
    "template < > int f<int>();",
    "template <class T> struct pto::X<T*> {};",
    "template <class T> struct X<T*> {};",
    "template <class T> struct alignas(16) X<T*> {};",
    "template <class T> struct pto::Y {};",
    "template <class T> constexpr bool v<T*> = true;",
    "template <class T> __attribute__((unused)) constexpr bool v<T*> = true;",
    "template <class T> void pto::X<T>::f() {}",
    "template <class T> pto::X<T>::~X() {}",
    "template <class T> int (*pto::X<T>::f())(int) { return 0; }",
    "template class pto::X<int>;",
    "extern template struct pto::X<int>;",
    "bfloat16_t operator+(bfloat16_t, bfloat16_t);",
    "void *operator new(unsigned long);",
    'float operator""_x(long double);',
    '#pragma GCC optimize("O3")',
    "#pragma pack(1)",
    'auto s = R"(x)";',
    "void f() <% %>",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_leaves_templates_alone(text: str) -> None:
    assert leaves_templates_alone(text)


@every("text", DOUBTFUL)
def test_what_may_change_them(text: str) -> None:
    assert not leaves_templates_alone(text)
    assert not leaves_templates_alone(f"int before;\n{text}\nint after;")


def test_the_users_part_of_a_preprocessed_unit(tmp_path: Path) -> None:
    own = tmp_path / "own.h"
    own.write_text("#pragma GCC system_header\nint own;\n")
    lines = [
        '# 0 "k.cpp"',
        f'# 1 "{INCLUDE_DIR}/pto/pto-inst.hpp" 1',
        "int ours;",
        '# 1 "/usr/include/c++/12/vector" 1 3',
        "int of_the_system;",
        f'# 9 "{INCLUDE_DIR}/pto/pto-inst.hpp" 2',
        "int ours_too;",
        '# 2 "k.cpp" 2',
        f'# 1 "{own}" 1',
        f'# 2 "{own}" 3',
        "int own;",
        '# 3 "k.cpp" 2',
        "int last;",
    ]
    assert own_text("\n".join(lines), INCLUDE_DIR) == "int own;\nint last;"
    own.write_text('# 1 "/usr/include/vector" 1 3\nint hidden;\n')
    assert own_text("\n".join(lines), INCLUDE_DIR) is None


@pytest.mark.parametrize("line", ['# 1 "x" 1 3', '  #\t7 "x"', '#\\\n 1 "x"', '%: 1 "x"'])
def test_lines_that_say_where_a_text_is_from(line: str) -> None:
    assert has_markers(f"int x;\n{line}\n")
    assert not has_markers("#define N 1\n#if 1\n#endif\n")


def _all() -> str:
    """Our headers without comments and directives."""
    texts = (path.read_text() for path in sorted(INCLUDE_DIR.glob("pto/**/*.hpp")))
    unread = re.compile(r"//[^\n]*|/\*.*?\*/|\\\n|^[ \t]*#[^\n]*$", re.DOTALL | re.MULTILINE)
    return "\n".join(unread.sub("", text) for text in texts)


def _outermost() -> str:
    """Return the declarations of our headers outside of all braces."""
    kept, depth = "", 0
    for piece in re.split(r"([{}])", _all()):
        depth += {"{": 1, "}": -1}.get(piece, 0)
        kept += "" if depth else piece
    assert depth == 0
    return kept


def test_names_that_are_known_are_those_of_the_headers() -> None:
    text = _outermost()
    assert set(re.findall(r"\bnamespace (\w+)", text)) <= FOREIGN | OPEN
    for name in OPEN:  # only a using-directive
        assert re.findall(rf"namespace {name} {{([^}}]*)}}", _all()) == [
            "\nusing namespace pto::detail::cache_lines;\n"
        ]
    for name in ("dcci", "dsb", "get_subblockid"):  # declared once, and not called
        assert len(re.findall(rf"\b{name}\(", _all())) == 1
    assert set(re.findall(r"\b(?:struct|union|enum(?: class)?) (\w+)", text)) <= {*GLOBAL_TYPES}


def test_functions_that_may_be_found_for_a_global_type() -> None:
    assert is_about_global_types(["_ZN3pto6detail3mapI10bfloat16_tEEvT_"])
    assert not is_about_global_types(["_ZN3pto6detail3mapIfEEvT_"])
    assert declares_names_of(INCLUDE_DIR, "static float narrow_bf16(bfloat16_t) { return 0; }")
    assert declares_names_of(INCLUDE_DIR, 'extern "C" { namespace { float narrow_bf16(bfloat16_t); } }')
    assert not declares_names_of(INCLUDE_DIR, "static void step_1(bfloat16_t *x) { narrow_bf16(x); }")
