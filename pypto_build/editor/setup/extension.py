"""The extension by which VS Code starts the language server of `.pto`, as a folder of the workspace."""

from __future__ import annotations

from pathlib import Path

from pypto_build.editor.setup.plan import Step, current, json_file, own_file

DIRECTORY = Path(".vscode", "extensions", "pypto-build")

_MANIFEST: dict[str, object] = {
    "name": "pypto-build",
    "publisher": "workspace",
    "version": "0.0.1",
    "description": "The language server of .pto modules: pypto-build lsp",
    "engines": {"vscode": "^1.89.0"},
    "main": "./extension.js",
    "activationEvents": ["onLanguage:pto", "onLanguage:mlir", "workspaceContains:**/kernel_config.py"],
    "contributes": {
        "languages": [{"id": "pto", "aliases": ["PTO"], "extensions": [".pto"]}],
        "configuration": {
            "title": "pypto-build",
            "properties": {
                "pypto-build.command": {
                    "type": "string",
                    "default": "pypto-build",
                    "description": "the command of the environment that has pypto-build[lsp]",
                }
            },
        },
    },
    "dependencies": {"vscode-languageclient": "^9.0.1"},
}
_SOURCE = """\
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const command = workspace.getConfiguration("pypto-build").get("command");
  const patterns = ["**/*.pto", "**/kernel_config.py", "**/orchestration/*.cpp", "**/kernels/**/*.cpp"];
  client = new LanguageClient(
    "pypto-build",
    "pypto-build",
    { command, args: ["lsp"] },
    { documentSelector: patterns.map((pattern) => ({ scheme: "file", pattern })) },
  );
  return client.start();
};

exports.deactivate = () => client && client.stop();
"""


def extension(top: Path) -> list[Step]:
    """Return the steps for the extension's manifest and source."""
    folder = top / DIRECTORY
    manifest = json_file(folder / "package.json", _MANIFEST)
    todo = f"run 'npm install' in {DIRECTORY}, then VS Code offers it under Extensions, Recommended"
    if current(folder / "package.json") is None:
        manifest = Step(manifest.path, manifest.what, manifest.text, todo)
    return [manifest, own_file(folder / "extension.js", _SOURCE, comment="//")]
