"""`pypto-build mcp`: a client of the SDK's finds the line that is wrong, cancels, and is told what it did wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pypto_build.editor.agents import command_of, main, tools
from pypto_build.rules.targets import TARGETS
from pypto_build.toolchain.python import own_tool

if TYPE_CHECKING:
    from mcp.client.client import Client

# Loaded by the tests that use it: it takes seconds, which every process of pytest would spend to collect.
pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="needs mcp")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "artifacts"

_KERNEL = "kernels/aiv/kernel_mul.cpp"


@pytest.fixture
def workspace(tmp_path: Path, runtime: Path) -> Path:
    """A directory with an artifact whose kernel multiplies where it should."""
    shutil.copytree(EXAMPLES / "_jit_vector_dag", tmp_path / "build_output" / "_jit_vector_dag")
    return tmp_path


def talk(workspace: Path, conversation: Callable[[Client], Awaitable[None]]) -> None:
    """Start the server in ``workspace`` and have a client talk to it."""
    import anyio
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    command, *words = own_tool("pypto_build.resident.client")
    server = StdioServerParameters(command=command, args=[*words, "mcp"], cwd=workspace, env=dict(os.environ))

    async def run() -> None:
        async with Client(stdio_client(server)) as client:
            await conversation(client)

    anyio.run(run)


def edit(workspace: Path, old: str, new: str) -> None:
    path = workspace / "build_output" / "_jit_vector_dag" / _KERNEL
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_from_a_failing_replay_to_the_line_in_two_calls(workspace: Path) -> None:
    edit(workspace, "TMUL(", "TADD(")
    line = next(
        number
        for number, text in enumerate((workspace / "build_output/_jit_vector_dag" / _KERNEL).read_text().split("\n"), 1)
        if "TADD(" in text
    )

    async def conversation(client: Client) -> None:
        lines: list[str | None] = []

        async def show(progress: float, total: float | None, message: str | None) -> None:
            lines.append(message)

        replay = await client.call_tool("replay", {"artifact": "_jit_vector_dag"}, progress_callback=show)
        assert not replay.is_error
        assert replay.structured_content["outcome"] == "mismatch"
        assert replay.structured_content["exit_status"] == 1
        assert replay.structured_content["result"]["tests"][0]["result"]["status"] == "mismatch"
        assert lines[-len(replay.structured_content["output"]) :] == replay.structured_content["output"]
        triage = await client.call_tool("triage", {"artifact": "_jit_vector_dag"})
        findings = triage.structured_content["result"]["findings"]
        assert (findings[0]["path"], findings[0]["line"]) == (_KERNEL, line)

    talk(workspace, conversation)


def test_what_is_cancelled_ends(workspace: Path) -> None:
    edit(workspace, "TMUL(", "for (volatile int i = 0; i == 0;) {} TMUL(")

    async def conversation(client: Client) -> None:
        import anyio

        began = anyio.Event()
        lines: list[str | None] = []

        async def show(progress: float, total: float | None, message: str | None) -> None:
            lines.append(message)
            began.set()

        async def call() -> None:
            await client.call_tool("replay", {"artifact": "_jit_vector_dag"}, progress_callback=show)
            raise AssertionError(lines)

        async with anyio.create_task_group() as calls:
            calls.start_soon(call)
            await began.wait()
            calls.cancel_scope.cancel()
        while _running(workspace):
            await anyio.sleep(0.05)
        again = await client.call_tool("replay", {"artifact": "_jit_vector_dag", "TIMEOUT": 1})
        assert again.structured_content["outcome"] == "hang"

    talk(workspace, conversation)


def _running(workspace: Path) -> list[str]:
    """The replays of the workspace."""
    running = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may have ended
            words = (process / "cmdline").read_text()
            if os.readlink(process / "cwd") == str(workspace) and "replay" in words:
                running.append(words)
    return running


def test_wrong_calls_are_told_in_one_line(workspace: Path) -> None:
    async def conversation(client: Client) -> None:
        for name, arguments, message in (
            ("replay", {"artifact": "_jit_vector_dag", "NOPE": 1}, "replay has no argument 'NOPE'"),
            ("replai", {}, "there is no tool 'replai'"),
            ("replay", {"artifact": "_jit_vector_dag", "PLATFORM": "a9"}, "PLATFORM=a9: "),
            ("replay", {"artifact": "nowhere"}, "JIT=nowhere: no such artifact in build_output"),
        ):
            answer: Any = await client.call_tool(name, arguments)
            assert answer.is_error and message in answer.content[0].text and "\n" not in answer.content[0].text.strip()

    talk(workspace, conversation)


def test_every_verb_is_a_tool_with_its_options() -> None:
    by_name = {tool.name: tool for tool in tools()}
    assert TARGETS.keys() - by_name.keys() == {"debug", "gc", "fetch"}
    schema = by_name["replay"].input_schema
    assert schema["required"] == ["artifact"]
    assert schema["properties"]["PLATFORM"]["enum"] == ["a2a3", "a5", "a2a3sim", "a5sim"]
    assert schema["properties"]["CHECK"]["type"] == "boolean"
    assert by_name["bisect"].input_schema["required"] == ["artifact", "AXIS", "GOOD", "BAD"]
    assert by_name["hang"].input_schema["required"] == []
    writing = {name for name, tool in by_name.items() if not tool.annotations or not tool.annotations.read_only_hint}
    assert writing == {"compile", "install", "splice"}
    files = {"JSON", "SARIF", "JUNIT", "HTML"}  # a tool that only reads would write what these name
    assert all(files.isdisjoint(tool.input_schema["properties"]) for tool in by_name.values())


def test_arguments_are_words_of_a_command_line(tmp_path: Path) -> None:
    words = command_of("replay", {"artifact": "--help", "CHECK": True, "RTOL": "1e-3; x"}, tmp_path / "r")
    assert words[-5:] == ["replay", "./--help", "CHECK=1", "RTOL=1e-3; x", f"JSON={tmp_path}/r"]
    assert command_of("test", {"NAMES": "a"}, tmp_path / "r")[-4:] == ["-Q", "test", "NAMES=a", f"JSON={tmp_path}/r"]


def test_it_takes_no_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--port"]) == 2
    assert capsys.readouterr().err == "pypto-build mcp: takes no arguments, so '--port' is refused; leave it out\n"
