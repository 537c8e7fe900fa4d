"""Does the jobs of an order: the order on standard input, a line of JSON on standard output for each result.

python -m pypto_build.farm
"""

from __future__ import annotations

import signal
import sys
from importlib.util import find_spec

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.facts.jobs import Order


def main() -> int:
    """0 where every job was tried; 2 with a line where there is no cluster; 130 after Ctrl-C."""
    try:
        order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    except msgspec.MsgspecError as error:
        print(f"farm: standard input: is no order: {error}", file=sys.stderr)
        return 2
    if find_spec("distributed") is None:
        print(f"SCHEDULER={order.scheduler}: needs Dask; pip install 'pypto-build[farm]'", file=sys.stderr)
        return 2
    from pypto_build.farm.client import end_quietly, run

    results = run(order, lambda line: print(line, file=sys.stderr, flush=True))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for result in results:
            sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
            sys.stdout.buffer.flush()
    except ArtifactError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        end_quietly(results)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
