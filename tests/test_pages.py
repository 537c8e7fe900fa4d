"""Checks the pages of docs/: commands print what is shown, texts are short, easy, and about the tool as it is."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest

from pypto_build import cli
from pypto_build.rules.options import parse_options
from pypto_build.rules.targets import TARGETS, check_taken
from tests.pages import DOCS, PAGES, ROOT, difference, not_run, run
from tests.rows import every

_WORDS = runpy.run_path(str(DOCS / "dev" / "words.py"))
_FOR_USERS = [*_WORDS["pages"](), ROOT / "README.md"]
#: The only reasons for which a command of a page is not run.
_REASONS = frozenset(
    f"needs {what}"
    for what in ("hardware", "the network", "another package", "another machine", "an editor", "a terminal")
)
#: Words by which a page tells of its past, or of what was tried, in place of what the tool does.
_PAST = re.compile(
    r"\b(no longer|used to|mended|did not pay|the last run (of|found|was)|as of \w+ 20\d\d|faults found)\b",
    re.IGNORECASE,
)
_TYPED = re.compile(r"`((?:scons|pypto-build) [^`\n]+)`")
#: Words of a command that stand for others.
_OPEN = ("…", "...", "NAME", "VERB", "OPTION", "EXPRESSION", "TOPIC", "PATH", "PAGE")


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store that the pages share, so that a kernel of the example is compiled once."""
    return tmp_path_factory.mktemp("pages") / "store"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_print_what_the_page_shows(page: Path, store: Path, tmp_path: Path, runtime: Path) -> None:
    pytest.importorskip("torch")
    for command, output in run(page, tmp_path, store):
        message = difference(command, output)
        assert not message, f"$ {command.text}\n{output}\n{message}"


@every("page", _FOR_USERS)
def test_what_is_not_run_has_its_reason(page: Path) -> None:
    if page.name != "README.md":
        assert set(not_run(page.read_text(encoding="utf-8"))) <= _REASONS


@pytest.mark.parametrize("page", _FOR_USERS, ids=_name)
def test_commands_in_the_text_exist(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in _TYPED.findall(page.read_text(encoding="utf-8").replace("\\|", "|")):
        if any(word in command for word in _OPEN):
            continue
        program, *words = shlex.split(command, comments=True)
        targets = [word for word in words if word[:1] != "-" and "=" not in word]
        if program == "scons" and targets[:1] not in (["help"], ["query"]) and set(targets) <= TARGETS.keys():
            options = dict(word.split("=", 1) for word in words if "=" in word and word[:1] != "-")
            parse_options(options)
            check_taken(options, targets)
        elif program == "scons":
            assert targets[0] in ("help", "query") or targets[0].endswith("_test"), f"{command}: no such target"
        elif words[0] in TARGETS:
            assert cli.parse(words).verb == words[0]
        else:
            assert words[0] in {*cli._TOOLS, "shutdown"}, f"{command}: no such verb"


@every("page", _FOR_USERS)
def test_pages_tell_of_the_tool_as_it_is(page: Path) -> None:
    assert not _PAST.findall(page.read_text(encoding="utf-8"))


@every("page", _FOR_USERS)
def test_pages_are_easy_to_read(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert _WORDS["ease"](text) >= _WORDS["LEAST_EASE"]
    long = [one for one in _WORDS["sentences"](text) if _WORDS["length"](one) > _WORDS["MOST_WORDS_OF_A_SENTENCE"]]
    assert long == []


def test_pages_are_short() -> None:
    counts = {_name(page): _WORDS["words"](page.read_text(encoding="utf-8")) for page in _FOR_USERS}
    assert sum(counts.values()) <= _WORDS["MOST_WORDS"]
    recipes = {name: count for name, count in counts.items() if name.startswith("docs/do/")}
    assert {name: count for name, count in recipes.items() if count > _WORDS["MOST_WORDS_OF_A_RECIPE"]} == {}


def test_links_and_pictures_are_there() -> None:
    for page in [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"]:
        text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        names = re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text) + re.findall(r'(?:src|srcset|href)="([^"#]+)"', text)
        for name in names:
            assert "://" in name or (page.parent / name).exists(), f"{_name(page)}: {name}"


def test_the_menu_has_every_page() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"[\w/-]+\.md", menu.partition("\nnav:")[2])
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
