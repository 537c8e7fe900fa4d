"""Does the jobs of an order: the order on standard input, a line of JSON on standard output for each result.

python -m pypto_build.farm

The order is a line of JSON; further lines are more jobs, where it is an open one.
"""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Iterator
from importlib.util import find_spec

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.facts.jobs import LOCAL, Order, OrderLine
from pypto_build.farm import worker


def main() -> int:
    """Return 0 if every job was attempted, 2 (with one line of error) without a cluster, 130 after Ctrl-C."""
    interrupted = _Interrupted()
    try:
        return _main()
    except BaseException:  # modules that are still loading fail in their own ways
        if interrupted:
            return 130
        raise


def _main() -> int:
    lines = _lines()
    try:
        order = msgspec.json.decode(next(lines, b""), type=Order)
    except msgspec.MsgspecError as error:
        print(f"farm: standard input: is not a valid job order: {error}", file=sys.stderr)
        return 2
    if find_spec("distributed") is None:
        print(f"SCHEDULER={order.scheduler}: needs Dask; run pip install 'pypto-build[farm]'", file=sys.stderr)
        return 2
    batch = uuid.uuid4().hex
    if order.scheduler == LOCAL:
        worker.prepare(batch)  # it loads while this process loads Dask
    from pypto_build.farm.client import end_quietly, run

    more = (msgspec.json.decode(line, type=OrderLine) for line in lines) if order.open else None
    results = run(order, batch, lambda line: print(line, file=sys.stderr, flush=True), more)
    try:
        for result in results:
            sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
            sys.stdout.buffer.flush()
    except ArtifactError as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader is gone
        end_quietly(results)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except KeyboardInterrupt:
        end_quietly(results)
        raise
    return 0


def _lines() -> Iterator[bytes]:
    """Yield the lines of standard input without Python's buffers, because a thread may wait here when the process
    ends.
    """
    rest = b""
    while data := os.read(0, 1 << 20):
        *lines, rest = (rest + data).split(b"\n")
        yield from lines
    if rest:
        yield rest


class _Interrupted:
    """Flag that is true after Ctrl-C or SIGTERM; from then on Dask's messages are dropped."""

    def __init__(self) -> None:
        self._come = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._take)

    def __bool__(self) -> bool:
        return self._come

    def _take(self, *_: object) -> None:
        self._come = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        raise KeyboardInterrupt


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # nothing is open any more; that Python forgets what Dask has loaded takes 0.3 s
