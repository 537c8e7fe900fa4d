"""The command ``pypto-build``: hands its command line to the resident process, or runs it in its own process."""

from __future__ import annotations

import sys

from pypto_build.startup import begin

begin()  # before the other imports, which take longer

from pypto_build.facts.machine import unsupported  # noqa: E402

TYPE_CHECKING = False  # the module of this name takes a millisecond to load
if TYPE_CHECKING:
    from collections.abc import Sequence

# Commands that go on for long by themselves, or start what must not be a fork.
_ALONE = frozenset(
    {
        "wrap",
        "fetch",
        "lsp",
        "mcp",
        "setup",
        "init",
        "scene",
        "shutdown",
        "help",
        "-h",
        "--help",
        "--version",
        "--complete",
    }
)


def _is_alone(word: str) -> bool:
    """Return True for an option of a command that goes on by itself, or that runs SCons more than once."""
    return word in ("WATCH=1", "--watch") or word.startswith("--batch-manifest")


def main() -> int:
    """Run the command line; return the exit status."""
    if reason := unsupported():
        print(reason, file=sys.stderr)
        return 2
    from pypto_build.client.protocol import ask  # they need modules that other systems lack
    from pypto_build.client.socket_address import address, describe_situation, directory, may_use_server
    from pypto_build.toolchain.forks import outlive_readers

    outlive_readers()
    words = sys.argv[1:]
    alone = "--no-server" in words
    if words == ["shutdown"]:
        from pypto_build.client.start import end_servers

        print(f"pypto-build: ended {end_servers()} background process(es)")
        return 0
    if alone:
        words.remove("--no-server")
    if alone or not words or words[0] in _ALONE or any(map(_is_alone, words)) or not may_use_server():
        return _here(words)
    socket_dir = directory()
    if socket_dir is None:
        return _here(words)
    situation = describe_situation()
    socket_path = address(socket_dir, situation)
    status = ask(socket_path, situation, words)
    if status is not None:
        return status
    status = _here(words)
    from pypto_build.client.start import start_server

    start_server(socket_path)
    return status


def _here(words: Sequence[str]) -> int:
    from pypto_build.cli import main as run

    return run(words)


if __name__ == "__main__":
    sys.exit(main())
