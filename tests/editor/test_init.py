"""`pypto-build init` makes a repository whose tests pass, and leaves what is there; the extension starts the server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build import cli
from pypto_build.editor.setup.__main__ import DIRECTORY
from pypto_build.editor.setup.__main__ import main as setup
from tests.rules.project import Project

_VSCODE = """
exports.workspace = { getConfiguration: () => ({ get: () => "/env/bin/pypto-build" }) };
"""
_CLIENT = """
exports.LanguageClient = class {
  constructor(id, name, server, client) { this.started = { server, client }; }
  start() { console.log(JSON.stringify(this.started)); }
  stop() { console.log('"stopped"'); }
};
"""


@pytest.fixture
def repository(tmp_path: Path) -> Project:
    project = Project.__new__(Project)
    project.root = tmp_path / "new"
    return project


def test_the_tests_of_a_new_repository_pass(
    repository: Project, capfd: pytest.CaptureFixture[str], runtime: Path
) -> None:
    pytest.importorskip("torch")
    assert cli.main(["init", str(repository.root)]) == 0
    printed = capfd.readouterr().out.splitlines()
    assert printed[0] == f"{repository.root}/SConstruct: new"
    assert printed[-1] == f"next: cd {repository.root}; scons test"
    run = repository.scons("test")
    assert (run.status, sorted(re.findall(r"\[test\] PASS +(\S+)", run.output))) == (
        0,
        ["scaled_add_test.a2a3sim", "scaled_add_test.a5sim"],
    )
    assert "Reading SConscript" not in run.output
    again = repository.scons("test")
    assert (again.status, again.actions) == (0, [])


def test_what_is_there_stays(repository: Project, capfd: pytest.CaptureFixture[str]) -> None:
    repository.root.mkdir()
    repository.write("SConstruct", "# mine\n")
    repository.write(".gitignore", "mine\n")
    assert cli.main(["init", str(repository.root)]) == 0
    printed = capfd.readouterr().out
    assert f"{repository.root}/SConstruct: yours, left alone\n" in printed
    assert (repository.root / "SConstruct").read_text(encoding="utf-8") == "# mine\n"
    assert (repository.root / ".gitignore").read_text(encoding="utf-8") == "mine\n"
    assert (repository.root / "programs/scaled_add.py").is_file()


def test_a_directory_that_cannot_be_written_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert cli.main(["init", str(tmp_path / "file")]) == 2
    assert capfd.readouterr().err == f"pypto-build init: {tmp_path}/file/SConstruct: Not a directory\n"


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_the_extension_starts_the_language_server(tmp_path: Path) -> None:
    assert setup(["extension", "WRITE=1", "--directory", str(tmp_path)]) == 0
    folder = tmp_path / DIRECTORY
    manifest = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    modules = {"vscode/index.js": _VSCODE, "vscode-languageclient/node.js": _CLIENT}
    for name, text in modules.items():
        path = folder / "node_modules" / name
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    script = f"const e = require({json.dumps(str(folder / manifest['main']))}); e.activate(); e.deactivate();"
    run = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    started, stopped = map(json.loads, run.stdout.splitlines())
    assert started["server"] == {"command": "/env/bin/pypto-build", "args": ["lsp"]}
    assert {"scheme": "file", "pattern": "**/*.pto"} in started["client"]["documentSelector"]
    assert stopped == "stopped"
    for path in tmp_path.glob(".vscode/**/*.json"):
        assert isinstance(json.loads(path.read_text(encoding="utf-8")), dict), path
    assert _capabilities([sys.executable, "-m", "pypto_build.resident.client", *started["server"]["args"]]) >= {
        "completionProvider",
        "definitionProvider",
        "hoverProvider",
    }


def _capabilities(command: list[str]) -> set[str]:
    """Start a language server, and return what it offers over its standard streams."""
    texts = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}},
        {"jsonrpc": "2.0", "id": 2, "method": "shutdown"},
        {"jsonrpc": "2.0", "method": "exit"},
    ]
    bodies = [json.dumps(text).encode() for text in texts]
    sent = b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies)
    run = subprocess.run(command, input=sent, capture_output=True, timeout=120, check=True)
    head, _, rest = run.stdout.partition(b"\r\n\r\n")
    size = int(re.findall(rb"Content-Length: (\d+)", head)[0])
    return set(json.loads(rest[:size])["result"]["capabilities"])
