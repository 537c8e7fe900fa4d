"""Prefork server of one tool: it loads what the tool's next command needs, and is forked for each command.

python -m pypto_build.toolchain.prefork DESCRIPTOR LOG_VARIABLE STARTED MODULE WORDS...

``MODULE`` has three functions. ``load(words, started)`` is called once. ``is_whole()`` returns whether the files that
were loaded are unchanged. ``run(begin)`` is called in each fork: it waits for its turn, calls ``begin`` when it starts
the work proper, and returns the exit status.

The server ends with the process that started it, or when a loaded file has changed. The files that its
commands read are recorded, as by ``forked``.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from pypto_build.toolchain import forks
from pypto_build.toolchain.forked import become, open_log

#: Bytes that a fork sends through its pipe: it has started, it is at work; its exit status follows.
THERE, AT_WORK = b"+", b"!"
#: Descriptors that a request comes with: the three streams, the pipe of the turn, that for what is told.
DESCRIPTORS = 5


def main(argv: Sequence[str]) -> int:
    """Serve until the other end closes."""
    connection = socket.socket(fileno=int(argv[0]))
    log_variable, started, name, words = argv[1], int(argv[2]), argv[3], list(argv[4:])
    for number in (signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    module = importlib.import_module(name)
    try:
        module.load(words, started)
        log = open_log(log_variable)
        while True:
            with forks.request(connection, DESCRIPTORS) as (request, descriptors):
                if not request or not module.is_whole():
                    return 0
                if descriptors and os.fork() == 0:
                    connection.close()
                    _work(module, words, json.loads(request), descriptors, log_variable, log)
    finally:  # the process that started it may be gone
        shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)


def _work(
    module: Any, words: list[str], request: dict[str, Any], descriptors: list[int], log_variable: str, log: int
) -> NoReturn:
    """Run the command in this process, which ends with it."""
    *streams, turn, report = descriptors
    with suppress(OSError):
        os.setpgid(0, request["group"])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until its turn comes
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def command() -> object:
        os.write(report, THERE)
        forks.take_streams(streams)
        for output in (sys.stdout, sys.stderr):
            output.reconfigure(line_buffering=output is sys.stderr or os.isatty(1))  # type: ignore[union-attr]
        environment = request["environment"] | {request["turn"]: str(turn)}
        become(words, environment, request["directory"], log_variable, log)
        return module.run(lambda: os.write(report, AT_WORK))

    forks.do(command, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
