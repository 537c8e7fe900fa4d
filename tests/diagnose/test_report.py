"""The report: its data, and how it shows in a real browser at two widths, light and dark, by mouse and keyboard."""

from __future__ import annotations

import colorsys
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
import numpy as np
import pytest

from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.pt import read_pt, write_pt
from pypto_build.diagnose.deps import __main__ as deps
from pypto_build.diagnose.findings import Edit, Finding, Report, as_json
from pypto_build.diagnose.report import __main__ as report
from pypto_build.diagnose.report.collect import place
from pypto_build.diagnose.report.whole import error_map, maxima
from pypto_build.diagnose.why.kept import KeptChain, Link, keep
from pypto_build.replay.verdict import ErrorInfo, Mismatch, OutputResult, Verdict, write_verdict
from tests.diagnose.browser import Browser, find_browser
from tests.diagnose.runs import graph_document, write_json, write_vector_dag

_EXAMPLE = Path(__file__).parents[2] / "examples" / "artifacts" / "_jit_vector_dag"
_KERNEL = "kernels/aiv/kernel_add.cpp"
needs_browser = pytest.mark.skipif(find_browser() is None, reason="no Chromium on this machine")


def _replayed(out: Path) -> Path:
    """Return a replay of the example with the last 8 rows of f wrong and one element NaN."""
    golden = read_pt(_EXAMPLE / "data" / "out" / "f.pt")
    actual = np.frombuffer(golden.contiguous(), "<f4").reshape(128, 128).copy()
    actual[120:] += 1
    actual[3, 5] = np.nan
    write_pt(out / "actual" / "f.pt", "float32", (128, 128), actual.tobytes())
    output = OutputResult("f", "mismatch", [128, 128], "float32", 16384, 1025, 1.0, 0.5)
    output.first = [
        Mismatch([3, 5], "NaN", 1.25),
        Mismatch([120, 127], -2.0296591173973866e-05, -2.0296791173973866e-05),
        Mismatch([1, 1023, 1023, 1023], -123456789012345.5, -9.887877e-38),
    ]
    output.hints = ["only the last 8 of 128 rows differ"]
    verdict = Verdict("mismatch", "_jit_vector_dag", "a2a3sim", "embedded", "2026-08", tasks=5, outputs=[output])
    write_verdict(verdict, out / "verdict.json")
    write_vector_dag(out / "dfx_outputs")
    edit = Edit(_KERNEL, 60, "a <b", "a > b")
    finding = Finding(
        "lint/x", "a <b>bold</b> claim</script>", _KERNEL, 60, "change line 60", kernel="kernel_add", edits=(edit,)
    )
    write_bytes(out / "findings" / "hazards.json", as_json(Report("hazards", "_jit_vector_dag", (finding,))))
    old = Report("flaky", "_jit_vector_dag", (Finding("flaky/order", "of another text"),), state="0" * 64)
    write_bytes(out / "findings" / "flaky.json", as_json(old))
    return out


def _data(page: Path) -> dict[str, object]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert match
    data: dict[str, object] = json.loads(match[1])
    return data


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the replay above."""
    out = _replayed(tmp_path_factory.mktemp("run") / "a2a3sim" / "_jit_vector_dag")
    words = [str(_EXAMPLE), "--build-dir", str(out), "--platform", "a2a3sim", "--embedded", "/m.so"]
    assert report.main([*words, "--rtol", "1e-5", "--dump-args", "2", "--dep-gen"]) == 0
    return out / "report.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


def test_the_page_needs_nothing_else(page: Path) -> None:
    text = page.read_text()
    assert not re.findall(r"""(?:src|href)=["'](?!#)[^"']|@import|url\(""", text)
    assert "default-src 'none'" in text
    assert not re.findall(r"@[A-Z]+@", text)


def test_the_commands_repeat_the_run_exactly(page: Path) -> None:
    out = page.parent.resolve()
    assert _data(page)["commands"] == [
        ["The same replay", f"scons replay JIT={_EXAMPLE} PLATFORM=a2a3sim RTOL=1e-5 DUMP=2 DEP_GEN=1"],
        [
            "The run alone, on what is built",
            f"python -m pypto_build.replay {_EXAMPLE} --platform a2a3sim --build-dir {out} --embedded /m.so "
            "--rtol 1e-5 --dump-args 2 --dep-gen",
        ],
        [
            "Why: the instruments in turn, one answer",
            f"scons triage JIT={_EXAMPLE} PLATFORM=a2a3sim RTOL=1e-5 DUMP=2 DEP_GEN=1",
        ],
        [
            "Unordered or misdeclared accesses",
            f"scons hazards JIT={_EXAMPLE} PLATFORM=a2a3sim",
        ],
        [
            "The first task that leaves the reference",
            f"scons diverge JIT={_EXAMPLE} PLATFORM=a2a3sim RTOL=1e-5",
        ],
        [
            "What every task read and wrote",
            f"scons dump JIT={_EXAMPLE} PLATFORM=a2a3sim RTOL=1e-5 DUMP=2 DEP_GEN=1",
        ],
        [
            "All of it in one archive, to replay elsewhere",
            f"scons pack JIT={_EXAMPLE} PLATFORM=a2a3sim RTOL=1e-5 DUMP=2 DEP_GEN=1",
        ],
    ]


def test_digests_and_versions_are_listed(page: Path) -> None:
    environment = dict(_data(page)["environment"])  # type: ignore[call-overload]
    assert environment["vintage of the artifact"] == "2026-08"
    assert environment["compiled for"] == "a2a3sim Ascend910B"
    files = {"kernel_config.py", "orchestration/vector_dag.cpp", _KERNEL, "data/in/a.pt", "data/out/f.pt"}
    assert {f"sha256 of {name}" for name in files} <= set(environment)


def test_largest_errors_are_left_out_where_every_wrong_element_is_nan() -> None:
    output = OutputResult("out", "mismatch", [2], "float32", 2, mismatched=2)
    assert maxima(output) == ""
    assert maxima(msgspec.structs.replace(output, max_abs=0.5, max_rel=2.0)) == " · max abs 0.5 · max rel 2"


@needs_browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (400, False), (400, True)])
def test_it_shows(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width, dark=dark)
    assert browser.errors == []
    assert browser.run("document.documentElement.dataset.ready") == "1"
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.run("[...document.querySelectorAll('main h2')].map((h) => h.textContent)") == [
        "Start here",
        "Verdict",
        "Findings (1)",
        "Task graph (5 tasks)",
        "Timeline",
        "Sources",
        "Environment and revisions",
        "Repeat it",
    ]
    assert browser.run("document.getElementById('status').textContent") == "MISMATCH"
    columns = "[...document.querySelectorAll('.output tbody tr:nth-child(2) td')]"
    assert browser.run(f"{columns}.map((c) => c.textContent)") == [
        "[120, 127]",
        "-2.02965912e-5",
        "-2.02967912e-5",
        "2e-10",
    ]
    inside = "(e) => e.getBoundingClientRect().right <= e.closest('.output').getBoundingClientRect().right"
    assert browser.run(f"[...document.querySelectorAll('.output :is(th, td)')].every({inside})")
    # Something is drawn: more than one colour in the graph, in the timeline and in the map.
    for canvas, least in (("#graph-canvas", 4), ("#timeline-canvas", 4), ("canvas.map", 3)):
        script = f"""(() => {{
            const c = document.querySelector('{canvas}');
            const pixels = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            const seen = new Set();
            for (let i = 0; i < pixels.length; i += 4) seen.add(`${{pixels[i]}},${{pixels[i + 1]}},${{pixels[i + 2]}}`);
            return seen.size;
        }})()"""
        assert browser.run(script) >= least, canvas
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(18, 22, 28)" if dark else "rgb(246, 247, 249)")


@needs_browser
def test_text_keeps_its_contrast(browser: Browser, page: Path) -> None:
    script = """(() => {
        const linear = (x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
        const light = (colour) => {
            const [red, green, blue] = colour.match(/[\\d.]+/g).map((part) => linear(part / 255));
            return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
        };
        const ground = (shown) => {
            for (; shown; shown = shown.parentElement) {
                const colour = getComputedStyle(shown).backgroundColor;
                if (!/, 0\\)$/.test(colour)) return colour;
            }
            return "rgb(255, 255, 255)";
        };
        const contrast = (shown) => {
            const pair = [light(getComputedStyle(shown).color), light(ground(shown))].sort((a, b) => b - a);
            return (pair[0] + 0.05) / (pair[1] + 0.05);
        };
        return [...document.querySelectorAll("h1, h2, h3, p, td, th, dt, dd, summary, button, a, span, .muted")]
            .filter((shown) => shown.checkVisibility() && shown.textContent.trim() && shown.className !== "skip")
            .filter((shown) => contrast(shown) < 4.5)
            .map((shown) => shown.textContent.slice(0, 30));
    })()"""
    for dark in (False, True):
        browser.open(page, dark=dark)
        assert browser.run(script) == []


@needs_browser
def test_the_map_shows_where(browser: Browser, page: Path) -> None:
    browser.open(page)
    script = """(() => {
        const c = document.querySelector('canvas.map');
        const at = (x, y) => [...c.getContext('2d').getImageData(x, y, 1, 1).data].slice(0, 3);
        return [at(0, 0), at(5, 3), at(64, 125)];
    })()"""
    equal, not_a_number, wrong = browser.run(script)
    assert equal == [236, 240, 244]
    assert not_a_number == [150, 0, 150]
    assert wrong[0] > 150 and wrong[2] == 20
    browser.run("document.querySelector('canvas.map').focus()")
    for _ in range(3):
        browser.press("ArrowDown")
    for _ in range(5):
        browser.press("ArrowRight")
    readout = "document.querySelector('.output .readout').textContent"
    assert browser.run(readout) == "[3, 5]: NaN, expected -1.56955636, not a number or not finite on one side"


@needs_browser
def test_tasks_are_searched_and_followed(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.run("document.getElementById('graph-search').focus()")
    for letter in "shift":
        browser.press(letter)
    assert browser.run("[...document.querySelectorAll('.results button')].map((b) => b.textContent)") == [
        "1 kernel_shift",
        "2 kernel_shift",
    ]
    browser.press("Enter")
    details = "document.querySelector('#details h2').textContent"
    assert browser.run(details) == "task 1 kernel_shift"
    text = browser.run("document.getElementById('details').textContent")
    assert "through c: arg 0 'x' float32[16] bytes 0..64 (that task was passed all of it to write)" in text
    assert "orchestration/vector_dag.cpp:59" in text
    browser.run("document.getElementById('graph-canvas').focus()")
    browser.press("ArrowDown")
    assert browser.run(details) == "task 3 kernel_mul"
    browser.press("ArrowUp")
    assert browser.run(details) == "task 1 kernel_shift"
    browser.press("Escape")
    assert browser.run("document.getElementById('details').hidden") is True


@needs_browser
def test_a_click_selects_the_task_below_it(browser: Browser, page: Path) -> None:
    browser.open(page)
    x, y = browser.run(
        "(() => { const c = document.getElementById('graph-canvas');"
        " c.scrollIntoView({block: 'center', behavior: 'instant'});"
        " const r = c.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
    )
    browser.click(x, y + 35)
    assert browser.run("document.querySelector('#details h2').textContent") == "task 3 kernel_mul"


@needs_browser
def test_findings_lead_to_their_line(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.run("document.querySelector('.finding b').textContent") == "a <b>bold</b> claim</script>"
    assert browser.run("document.querySelector('.finding .edit').textContent") == f"{_KERNEL}:60\n- a <b\n+ a > b"
    assert browser.run("document.querySelector('#findings .muted').textContent") == (
        "Looked at by hazards, lint. flaky looked before the last edit: run again."
    )
    assert browser.run("document.querySelectorAll('.finding').length") == 1
    browser.run("document.querySelector('.finding button').click()")
    marked = browser.run("document.querySelector('#sources .mark').textContent")
    assert marked == (_EXAMPLE / _KERNEL).read_text().splitlines()[59]
    assert browser.run("document.querySelector('.source .why').textContent") == "\u2191 a <b>bold</b> claim</script>"
    assert browser.run("document.querySelectorAll('#sources .mark').length") == 1


@needs_browser
def test_the_cause_comes_first_with_five_lines_of_its_source(browser: Browser, page: Path) -> None:
    browser.open(page)
    lines = (_EXAMPLE / _KERNEL).read_text().splitlines()
    row = "(l) => [+l.dataset.n, l.className, l.textContent]"
    shown = browser.run(f"[...document.querySelectorAll('#cause .source span')].map({row})")
    excerpt = dedent("\n".join(lines[57:62])).split("\n")  # without the indentation that its lines share
    assert excerpt != lines[57:62]
    assert shown == [[n, "mark" if n == 60 else "", text or " "] for n, text in enumerate(excerpt, 58)]
    assert browser.run("document.querySelector('#cause .cause').textContent") == "a <b>bold</b> claim</script>"


@needs_browser
def test_sources_are_folded_to_eight_lines_around_the_mark(browser: Browser, page: Path) -> None:
    browser.open(page)
    script = "[...document.querySelectorAll('#sources details[open] .source > span[data-n]')].map((l) => +l.dataset.n)"
    last = len((_EXAMPLE / _KERNEL).read_text().split("\n"))
    assert browser.run(script) == list(range(52, min(68, last) + 1))
    browser.run("document.querySelector('#sources .source .fold').click()")
    assert browser.run("document.querySelector('#sources .source [data-n=\"1\"]').offsetParent !== null")


@needs_browser
@pytest.mark.parametrize("width", [1280, 400])
def test_the_graph_marks_the_task_of_the_finding(browser: Browser, tmp_path: Path, width: int) -> None:
    out = _replayed(tmp_path / "_jit_vector_dag")
    edit = Edit(_KERNEL, 60, "pipe_barrier(PIPE_V);", "pipe_barrier(PIPE_V);  // and " + "a long line " * 20)
    finding = Finding("diverge/kernel", "computes something else", _KERNEL, 60, tasks=(3,), edits=(edit,))
    write_bytes(out / "findings" / "triage.json", as_json(Report("triage", "_jit_vector_dag", (finding,))))
    words = [str(_EXAMPLE), "--build-dir", str(out), "--platform", "a2a3sim", "--embedded", "/m.so"]
    assert report.main(words) == 0
    graph: Any = _data(out / "report.html")["graph"]
    assert [task["label"] for task in graph["tasks"] if task["wrong"]] == ["3"]
    browser.open(out / "report.html", width)
    assert browser.run("document.querySelector('#cause h2').textContent") == "Triage's answer"
    cut = "[...document.querySelectorAll('#cause .edit, #cause .mark')].map((e) => e.scrollWidth > e.clientWidth)"
    assert browser.run(cut) == [False, False]
    assert 90 <= browser.run("document.getElementById('graph-canvas').clientHeight") <= 540


def test_a_finding_without_tasks_marks_those_of_its_kernel(tmp_path: Path) -> None:
    out = _replayed(tmp_path / "_jit_vector_dag")
    finding = Finding("triage/edited", "edited", _KERNEL, 60)
    write_bytes(out / "findings" / "triage.json", as_json(Report("triage", "_jit_vector_dag", (finding,))))
    words = [str(_EXAMPLE), "--build-dir", str(out), "--platform", "a2a3sim", "--embedded", "/m.so"]
    assert report.main(words) == 0
    graph: Any = _data(out / "report.html")["graph"]
    kernels = {graph["kernels"][task["kernel"]]["name"] for task in graph["tasks"] if task["wrong"]}
    assert kernels == {Path(_KERNEL).stem}


@needs_browser
def test_no_colour_of_a_kernel_is_red(browser: Browser, tmp_path: Path) -> None:
    out = _replayed(tmp_path / "_jit_vector_dag")
    words = [str(_EXAMPLE), "--build-dir", str(out), "--platform", "a2a3sim", "--embedded", "/m.so"]
    assert report.main(words) == 0
    browser.open(out / "report.html")
    script = "[...document.querySelectorAll('#graph .legend i')].map((i) => getComputedStyle(i).backgroundColor)"
    colours = [tuple(int(part) / 255 for part in re.findall(r"\d+", text)[:3]) for text in browser.run(script)[:3]]
    hues = [360 * colorsys.rgb_to_hls(*colour)[0] for colour in colours]
    assert 40 <= min(hues) <= max(hues) <= 290, hues


@needs_browser
def test_five_thousand_tasks(browser: Browser, tmp_path: Path) -> None:
    count = 5000
    kernels = [number % 7 for number in range(count)]
    edges = [(number - back, number, 0) for number in range(64, count) for back in (64, 63)]
    args = {number: (("INPUT", number), ("OUTPUT_EXISTING", number + 64)) for number in range(count)}
    write_json(tmp_path / "deps.json", graph_document(kernels, edges, args))
    assert deps.main([str(tmp_path), "--export", "html"]) == 0
    browser.open(tmp_path / "deps.html")
    assert browser.errors == []
    assert browser.run("document.querySelector('#graph h2').textContent") == "Task graph (5,000 tasks)"
    browser.run("document.getElementById('graph-search').focus()")
    for digit in "4321":
        browser.press(digit)
    browser.press("Enter")
    assert browser.run("document.querySelector('#details h2').textContent") == "task 4321 func 2"
    browser.run("document.getElementById('graph-canvas').focus()")
    for key in ("+", "+", "-", "0", "ArrowUp"):
        browser.press(key)
    assert browser.run("document.querySelector('#details h2').textContent") == "task 4257 func 1"
    assert browser.errors == []


@needs_browser
def test_a_crash_is_told_with_its_stack(browser: Browser, tmp_path: Path) -> None:
    source = _EXAMPLE / _KERNEL
    error = ErrorInfo("crash", "kernel 'kernel_add' crashed: SIGSEGV", "0", "kernel_add", "look at its offsets")
    error.detail = ["a: float32[128, 128]", f"#0 kernel_add(float*) ({source}:60)"]
    write_verdict(Verdict("runtime_error", "x", "a2a3sim", "embedded", error=error), tmp_path / "verdict.json")
    assert report.main([str(_EXAMPLE), "--build-dir", str(tmp_path)]) == 0
    browser.open(tmp_path / "report.html", 400)
    assert browser.errors == []
    assert browser.run("document.querySelector('#verdict .notice').innerText.split('\\n').filter(Boolean)") == [
        "kernel 'kernel_add' crashed: SIGSEGV",
        "task 0, kernel kernel_add",
        "What to do: look at its offsets",
    ]
    assert browser.run("document.querySelector('.why').textContent") == "\u2191 kernel_add(float*): crash"


def test_nothing_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main([str(_EXAMPLE), "--build-dir", str(tmp_path)]) == 2
    message = f"report: {tmp_path / 'verdict.json'}: is missing; replay the artifact first: scons replay\n"
    assert capsys.readouterr().err == message


def test_maps_keep_the_worst_of_a_cell() -> None:
    expected = np.ones((1000, 300), np.float32)
    actual = expected.copy()
    actual[999, 299] = 2
    actual[0, 1] += 5e-6
    picture = error_map(actual, expected, "float32", 1e-5, 1e-5)
    assert picture is not None
    assert (picture.row_step, picture.column_step, picture.levels.shape) == (6, 2, (167, 150))
    assert np.flatnonzero(picture.levels).tolist() == [0, 167 * 150 - 1]
    assert (picture.levels[0, 0], picture.levels[-1, -1]) == (16, 212)


@pytest.mark.parametrize(("shape", "step"), [((1,), 1), ((7,), 1), ((2, 3, 4), 1), ((5, 0), None), ((), 1)])
def test_maps_of_any_shape(shape: tuple[int, ...], step: int | None) -> None:
    values = np.zeros(shape, np.int32)
    picture = error_map(values + 1, values, "int32", 0, 0)
    assert (picture.row_step if picture else None) == step
    if picture:
        assert np.count_nonzero(picture.levels) == max(values.size, 1)


def test_wide_levels_are_wrapped() -> None:
    points = place(dict.fromkeys(range(100), 0), [])
    assert {y for _, y in points.values()} == set(range(8))
    assert len(set(points.values())) == 100


@needs_browser
def test_a_click_on_the_map_shows_the_chain(browser: Browser, tmp_path: Path) -> None:
    """The chain that `why` has kept of an element of the cell; for another cell the nearest, and what to type."""
    out = _replayed(tmp_path)
    link = Link("'f' [120, 0]", 1.0, 2.0, "TADD", 4, 0, "kernel_add", f"{_KERNEL}:61", differs=True, parts=True)
    keep(out, _EXAMPLE, [KeptChain("f", [120, 0], link)])
    assert report.main([str(_EXAMPLE), "--build-dir", str(out)]) == 0
    browser.open(out / "report.html")
    canvas = "document.querySelector('canvas.map')"
    browser.run(f"{canvas}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    box = f"{canvas}.getBoundingClientRect()"
    left, top = browser.run(f"{box}.left"), browser.run(f"{box}.top")
    across, down = browser.run(f"{box}.width") / 128, browser.run(f"{box}.height") / 128
    chain = "document.querySelector('.chain').textContent"
    browser.click(left + 0.5 * across, top + 120.5 * down)
    if keep_pictures := os.environ.get("PYPTO_BUILD_TEST_PICTURES"):
        browser.screenshot(Path(keep_pictures, "why-report.png"), whole=False)
    assert "How [120, 0] was made" in browser.run(chain) and "<-- parts from the reference" in browser.run(chain)
    assert browser.run("document.querySelector('.chain .bad').textContent").startswith("'f' [120, 0]")
    browser.click(left + 50.5 * across, top + 125.5 * down)
    assert "How the nearest, [120, 0]" in browser.run(chain)
    assert "OUT=f AT=125,50" in browser.run(chain)
    assert browser.errors == []
