"""Messages of an editor that are too large, or none."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from pypto_build.editor.server import LARGEST, BoundedInput

_MALFORMED = [
    b"[" * 100_000,
    b'[{"jsonrpc": "2.0", "id": 3, "method": "x"}, 1, null]',
    b'{"jsonrpc": "2.0", "id": {"a": 1}, "method": "textDocument/hover", "params": null}',
    b'{"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {"contentChanges": [{"range": {"start": -1}}]}}',
    b'{"jsonrpc": "2.0", "id": 4, "method": "\xff\x1b"}',
    b"nonsense",
]


def _message(body: bytes, size: int | str | None = None) -> bytes:
    return f"Content-Length: {len(body) if size is None else size}\r\n\r\n".encode() + body


@pytest.mark.parametrize("size", [LARGEST + 1, 10**15, "9" * 5000])
@pytest.mark.parametrize("body", [b"", b'{"a": 1}', b'{"a":\n 1}\r\n\r\n'])
def test_a_message_that_is_too_large_is_left_out(
    size: int | str, body: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = BoundedInput(io.BytesIO(_message(body, size) + _message(b"{}")))
    assert (sent.readline(), sent.readline(), sent.read(2), sent.readline()) == (
        b"Content-Length: 2\r\n",
        b"\r\n",
        b"{}",
        b"",
    )
    assert capsys.readouterr().err.count("\n") == 1


def test_the_server_goes_on() -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}}
    end = [{"jsonrpc": "2.0", "id": 2, "method": "shutdown"}, {"jsonrpc": "2.0", "method": "exit"}]
    messages = [_message(b'{"jsonrpc": "2.0"}', "99999999999999999999")]
    messages += map(_message, _MALFORMED)
    messages += [b"X: y\r\n" * 100_000]
    messages += [_message(json.dumps(each).encode()) for each in (request, *end)]
    run = subprocess.run(
        [sys.executable, "-m", "pypto_build.editor.server"],
        input=b"".join(messages),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert b'"id": 1' in run.stdout or b'"id":1' in run.stdout
    assert len(run.stderr.splitlines()) > len(_MALFORMED)
    assert all(line.startswith(b"pypto-build lsp: ") for line in run.stderr.splitlines()), run.stderr.decode()
