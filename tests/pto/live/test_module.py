"""A module while it is typed: the findings agree with the check's, and no text is a crash."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from pypto_build.pto import PtoError, parse
from pypto_build.pto.checks import check_module
from pypto_build.pto.live.module import LiveModule
from pypto_build.pto.resolve import resolve

ARTIFACTS = Path(__file__).resolve().parents[3] / "examples" / "artifacts"
SMALL = [
    (ARTIFACTS / path).read_text(encoding="utf-8")
    for path in ("_jit_vector_dag/ptoas/kernel_add.pto", "_jit_accumulate/ptoas/axpy_acc.pto")
]
GROUP = next((ARTIFACTS / "_jit_gemm_silu" / "ptoas").glob("*.pto")).read_text(encoding="utf-8")
NESTED = """\
module attributes {pto.target_arch = "a2a3"} {
  func.func private @twice(%a: index) -> index {
    %r = arith.addi %a, %a : index
    return %r : index
  }
  func.func @k(%arg0: !pto.ptr<f32>, %n: index) attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %true = arith.cmpi sgt, %n, %c0 : index
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0) -> (index) {
      %d = func.call @twice(%i) : (index) -> index  // a comment with a brace {
      %t = arith.addi %s, %d : index
      scf.yield %t : index
    }
    %x = scf.if %true -> (index) {
      scf.yield %sum : index
    } else {
      %y = arith.addi %sum, %c1 : index
      scf.yield %y : index
    }
    %z = scf.while (%w = %x) : (index) -> index {
      %go = arith.cmpi slt, %w, %n : index
      scf.condition(%go) %w : index
    } do {
    ^bb0(%v: index):
      %next = arith.addi %v, %c1 : index
      scf.yield %next : index
    }
    return
  }
}
"""
Found = Counter[tuple[int, int, str, str]]


def checked(text: str) -> tuple[Found | None, bool]:
    """Return the check's findings, None for unreadable text; and whether all names and types agree."""
    try:
        module = parse(text)
    except PtoError:
        return None, False
    agree = all(not resolve(function, module).problems for function in module.functions() if function.body is not None)
    actual = ((e.position.line - 1, e.position.column - 1, e.operation, e.message) for e in check_module(module))
    return Counter(actual), agree


def found_in(live: LiveModule) -> Found:
    return Counter((each.line, each.column, each.name, each.message) for each in live.findings)


def compare(live: LiveModule, text: str) -> None:
    """A wrong name hides nothing here, while the check says no more of a function with one."""
    expected, agree = checked(text)
    actual = found_in(live)
    if expected is None:
        assert any(each.syntax for each in live.findings), text
        return
    if agree:
        assert actual == expected, text
    else:
        assert not expected - actual, text
    anew = LiveModule()
    anew.update(text)
    assert found_in(anew) == actual, text


def edited(rng: random.Random, text: str) -> str:
    """One thing that people do to a text."""
    lines = text.split("\n")
    at, row = rng.randrange(len(text)), rng.randrange(len(lines))
    what = rng.choice(("insert", "delete", "replace", "replace", "drop", "copy", "swap"))
    if what == "insert":
        return text[:at] + rng.choice('%{}()[]<>:=,"\n abc01_.-#/@^!') + text[at:]
    if what == "delete":
        return text[:at] + text[at + 1 :]
    if what == "replace":
        words: list[str] = re.findall(r"\d+|%\w+|vec|mat|f32|f16", text)
        old, new = rng.choice(words), rng.choice(words)
        start = rng.choice([match.start() for match in re.finditer(re.escape(old), text)])
        return text[:start] + new + text[start + len(old) :]
    other = rng.randrange(len(lines))
    if what == "drop":
        del lines[row]
    elif what == "copy":
        lines.insert(row, lines[other])
    else:
        lines[row], lines[other] = lines[other], lines[row]
    return "\n".join(lines)


@pytest.mark.parametrize("text", [*SMALL, GROUP, NESTED], ids=["add", "axpy", "group", "nested"])
def test_random_edits(text: str) -> None:
    rng = random.Random(len(text))
    live = LiveModule()
    now = text
    for step in range(60):
        now = edited(rng, text if step % 3 == 0 else now)
        live.update(now)
        compare(live, now)
    live.update(text)
    assert live.findings == []


@pytest.mark.parametrize(
    "old, new",
    [
        ("%t = arith.addi", "%t =\n arith.addi"),
        ("    return\n  }\n}\n", "    return }\n}\n"),
        ("module attributes", "module @m attributes"),
        ('"a2a3"} {\n  func.func private', '"a2a3"} { func.func private'),
        ("  func.func @k", " // note\n\n\n  func.func @k"),
        ("scf.yield %t : index\n    }", "scf.yield %t : index }"),
        ("    return\n  }\n}\n", "    return\n  } }\n"),
        ("    return\n  }\n}\n", "    return\n  } // the end {\n}\n"),
        ("%x = scf.if %true -> (index) {", "%x = scf.if %true -> (index)\n    {"),
    ],
)
def test_unusual_layouts(old: str, new: str) -> None:
    text = NESTED.replace(old, new)
    assert text != NESTED
    live = LiveModule()
    live.update(NESTED)
    for now in (text, text.replace("%v, %c1", "%v, %c7"), text):
        live.update(now)
        compare(live, now)
    assert live.findings == []


def test_every_key_of_a_module_typed_from_nothing() -> None:
    live = LiveModule()
    for end in range(0, len(NESTED), 7):
        live.update(NESTED[:end])
        assert bool(live.findings) == (checked(NESTED[:end])[0] is None)
    live.update(NESTED)
    assert live.findings == []


def test_text_that_is_no_module() -> None:
    live = LiveModule()
    for text in ("", "\0", "func.func", "module {", "}" * 50, "{\n" * 300, "%" * 9999, "func.func @f() {\n" * 200):
        live.update(text)
        assert live.findings


@pytest.mark.parametrize(
    "old, new, line, message",
    [
        ("%t = arith.addi", "%t = arith.addi %oops,", 11, ""),
        ("iter_args(%s = %c0)", "iter_args(%s = %c9)", 9, "%c9 is used but not defined before"),
        ("      scf.yield %t : index\n", "", 11, "the body does not end with scf.yield"),
        ("func.call @twice(%i)", "func.call @thrice(%i)", 10, "there is no function @thrice in the module"),
    ],
)
def test_a_mistake_is_one_finding(old: str, new: str, line: int, message: str) -> None:
    live = LiveModule()
    live.update(NESTED)
    live.update(NESTED.replace(old, new))
    assert [finding.line for finding in live.findings] == [line]
    assert message in live.findings[0].message


def test_what_stands_behind_the_last_brace_is_seen() -> None:
    live = LiveModule()
    live.update(NESTED)
    live.update(NESTED.replace("    return\n  }\n}", "    return\n  }/\n}"))
    assert [(finding.line, finding.syntax) for finding in live.findings] == [(29, True)]


def test_an_open_brace_does_not_hide_what_follows() -> None:
    live = LiveModule()
    live.update(NESTED)
    text = NESTED.replace("iter_args(%s = %c0) -> (index) {", "iter_args(%s = %c0) -> (index)")
    live.update(text.replace("arith.addi %v, %c1", "arith.addi %v, %c2"))
    assert [(finding.line, finding.syntax) for finding in live.findings] == [(10, True), (13, True), (25, False)]


@pytest.mark.parametrize("indent", range(0, 12, 2))
def test_a_brace_too_many_is_found(indent: int) -> None:
    lines = NESTED.split("\n")
    live = LiveModule()
    live.update(NESTED)
    for row in range(7, len(lines) - 1):
        text = "\n".join([*lines[:row], " " * indent + "}", *lines[row:]])
        live.update(text)
        assert any(finding.syntax for finding in live.findings), text
        text = "\n".join([*lines[:row], " " * indent + "scf.if %true {", *lines[row:]])
        live.update(text)
        assert any(finding.syntax for finding in live.findings), text


def test_only_what_changed_is_resolved_again() -> None:
    live = LiveModule()
    live.update(NESTED)
    kernel = live.functions[1]
    before = {id(node) for node in kernel.every}
    live.update(NESTED.replace("arith.addi %v, %c1", "arith.addi %v, %v"))
    names = live.functions[1].names
    assert names is not None and names.resolved_anew == 1
    assert len({id(node) for node in live.functions[1].every} - before) == 1


def test_a_constant_that_changes_is_seen_where_it_counts() -> None:
    text = SMALL[0]
    live = LiveModule()
    live.update(text)
    live.update(text.replace("arith.constant 65536 : i64", "arith.constant 65537 : i64"))
    assert [(finding.name, finding.message) for finding in live.findings] == [
        ("pto.alloc_tile", "address 65537 is not a multiple of 32")
    ]


def test_work_that_takes_long_goes_on_later() -> None:
    live = LiveModule()
    live.update(SMALL[0].replace("65536 : i64", "65537 : i64"), seconds=0)
    assert live.is_pending and live.findings == []
    while live.go_on(seconds=0.0001):
        pass
    assert [finding.message for finding in live.findings] == ["address 65537 is not a multiple of 32"]


def test_names_that_change_for_all_are_resolved_piece_by_piece() -> None:
    """And come out as at once, also when a key comes in between."""
    text = NESTED.replace(
        "    return\n", "".join(f"    %u{n} = arith.addi %c1, %n : index\n" for n in range(40)) + "    return\n"
    )
    gone = text.replace("%c1 = ", "%c2 = ")
    live = LiveModule()
    live.update(text)
    live.update(gone, seconds=0)
    assert live.is_pending and live.findings == []
    live.update(gone.replace("%c0 = ", "%c3 = "), seconds=0)
    slices = 0
    while live.go_on(seconds=1e-6):
        slices += 1
    assert slices > 3
    compare(live, gone.replace("%c0 = ", "%c3 = "))
    live.update(text, seconds=0)
    while live.go_on(seconds=1e-6):
        pass
    compare(live, text)
    assert live.findings == []


def test_findings_are_bounded() -> None:
    live = LiveModule()
    rows = "\n".join(f"    %v{number} = arith.addi %gone, %gone : index" for number in range(2000))
    live.update(f"module {{\n  func.func @f() {{\n{rows}\n    return\n  }}\n}}\n")
    assert len(live.findings) == 500
