"""``pypto-build mcp``: the verbs as tools of the Model Context Protocol (MCP), for agents that debug kernels.

Each row of the table of verbs is a tool, and the verb's options are the tool's arguments. A call runs
``pypto-build VERB PATH NAME=value`` in the directory of the server. While it runs, the client gets each line of its
output as a progress message. A call that is cancelled ends what it started.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pypto_build import __version__
from pypto_build.editor.setup.completion import options_of, values_of
from pypto_build.facts.options import OPTIONS
from pypto_build.facts.run_options import Option
from pypto_build.replay.verdict import EXIT_STATUS
from pypto_build.rules.targets import TARGETS
from pypto_build.toolchain.python import kept, own_environment, own_tool

try:
    import anyio
    import mcp.types as types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
except ImportError:
    print("pypto-build mcp: the MCP SDK is not installed; run pip install 'pypto-build[mcp]'", file=sys.stderr)
    sys.exit(2)

#: Lines of output in a result; all of them are sent as progress.
_LINES = 200
# No tools: they need a terminal, or are about the installation.
_NO_TOOLS = ("debug", "gc", "fetch")
# No arguments: what a tool works on has a name of its own, results are asked for by the server, and a call ends.
_NO_ARGUMENTS = ("JIT", "PROGRAM", "SCENE", "JSON", "SARIF", "JUNIT", "HTML", "WATCH")
# Tools that write files of the user's whatever their arguments are; others do it with WRITE=1 at most.
_WRITES = ("compile", "install")
_OF_SCONS = ("test", "query")
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}
_OUTCOMES = {number: status for status, number in EXIT_STATUS.items()}
_INSTRUCTIONS = """\
Debug compiled NPU kernels. An artifact is a directory with kernel_config.py, named by its path or its name below
build_output/. Begin with `replay`; where it does not pass, `triage` names the file and the line that is wrong.
A result has exit_status and outcome, the last lines of the output, and in `result` what the tool found as data."""


def tools() -> list[types.Tool]:
    """Return a tool for each verb."""
    return [_tool(verb) for verb in TARGETS if verb not in _NO_TOOLS]


def _tool(verb: str) -> types.Tool:
    target = TARGETS[verb]
    names = [name for name in options_of(verb) if name not in _NO_ARGUMENTS]
    required = re.findall(r"(?<!\[)\b([A-Z_]+)=", target.usage)
    properties = {name: _schema(OPTIONS[name], verb) for name in names}
    if subject := _subject(verb):
        properties = {subject: {"type": "string", "description": _SUBJECTS[subject]}, **properties}
        required = [subject if name in ("JIT", "PROGRAM") else name for name in required]
    may_write = "WRITE" in target.options or verb in _WRITES
    return types.Tool(
        name=verb,
        description=target.doc,
        input_schema={
            "type": "object",
            "properties": properties,
            "required": [name for name in required if name in properties],
            "additionalProperties": False,
        },
        annotations=types.ToolAnnotations(read_only_hint=not may_write, destructive_hint=False),
    )


_SUBJECTS = {
    "artifact": "the artifact: a path, a name below build_output/, or a scene test as FILE.py[::CLASS[::CASE]]",
    "program": "the Python file of the program",
    "query": "the question, such as deps(NAME), rdeps(FILE) or somepath(A, B)",
}


def _subject(verb: str) -> str:
    """Return the argument that a tool works on, which has no NAME=; empty for the tests of the workspace."""
    usage = TARGETS[verb].usage
    if verb == "query":
        return "query"
    return "artifact" if "JIT=" in usage else "program" if "PROGRAM=" in usage else ""


def _schema(option: Option, verb: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _TYPES[option.kind.type], "description": option.doc_for(verb)}
    if option.kind.choices:
        schema["enum"] = list(values_of(option.name, verb))
    if option.kind.min is not None:
        schema["minimum"] = option.kind.min
    if option.kind.max is not None:
        schema["maximum"] = option.kind.max
    return schema


def command_of(verb: str, arguments: Mapping[str, Any], results: Path) -> list[str]:
    """Return the command line of a call, which writes its data to ``results`` if the verb has any.

    Raises:
        ValueError: there is no such tool, or it has no such argument. ``str()`` is one line.
    """
    properties = {tool.name: tool.input_schema["properties"] for tool in tools()}
    if verb not in properties:
        raise ValueError(f"there is no tool {verb!r}")
    for name in arguments:
        if name not in properties[verb]:
            raise ValueError(f"{verb} has no argument {name!r}")
    words = [f"{name}={_text(value)}" for name, value in arguments.items() if name not in _SUBJECTS]
    subject = str(arguments.get(_subject(verb), ""))
    if "JSON" in TARGETS[verb].options:
        words.append(f"JSON={results}")
    if verb in _OF_SCONS:
        return [*own_tool("SCons"), "-Q", verb, *([subject] if subject else []), *words]
    path = f"./{subject}" if subject.startswith("-") else subject
    return [*own_tool("pypto_build.resident.client"), verb, *([path] if path else []), *words]


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


async def call(verb: str, arguments: Mapping[str, Any], progress: Any) -> dict[str, Any]:
    """Run a tool and return its result: exit_status, outcome, output and result. ``progress(number, None, line)`` is
    awaited for each line."""
    with tempfile.TemporaryDirectory(prefix="pypto-build-") as directory:
        results = Path(directory, "result.json")
        command = kept(command_of(verb, arguments, results))
        lines: list[str] = []
        async with await anyio.open_process(
            command,
            stdin=subprocess.PIPE,  # when it closes, the command ends
            stderr=subprocess.STDOUT,
            env=own_environment({**os.environ, "TERM": "dumb"}),
            start_new_session=True,
        ) as process:
            assert process.stdout is not None
            rest = ""
            async for piece in process.stdout:
                *whole, rest = (rest + piece.decode(errors="replace")).split("\n")
                for line in whole:
                    lines.append(line)
                    await progress(len(lines), None, line)
            lines += [rest] if rest else []
            status = await process.wait()
        return {
            "exit_status": status,
            "outcome": _OUTCOMES.get(status, "error"),
            "output": lines[-_LINES:],
            "result": json.loads(results.read_bytes()) if results.is_file() else None,
        }


async def _list_tools(context: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=tools())


async def _call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    try:
        result = await call(params.name, params.arguments or {}, context.session.report_progress)
    except ValueError as error:
        return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)
    text = "\n".join(result["output"])
    return types.CallToolResult(
        content=[types.TextContent(text=text)],
        structured_content=result,
        is_error=result["outcome"] in ("usage_error", "error"),
    )


async def _serve() -> None:
    server = Server(
        "pypto-build",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
    )
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main(argv: Sequence[str] | None = None) -> int:
    """Serve on standard input and output until the client closes them."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words:
        print(f"pypto-build mcp: takes no arguments, so {words[0]!r} is refused; leave it out", file=sys.stderr)
        return 2
    anyio.run(_serve)
    return 0


if __name__ == "__main__":
    sys.exit(main())
