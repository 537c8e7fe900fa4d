"""Runs a module as ``python -m`` does, but without the working directory on its path: see ``own_tool``.

``python -P`` does the same from Python 3.11 on. What is run is the copy of this package that this file is part of.
"""

import os
import sys


def main() -> None:
    """Run the module that the first argument names with the arguments after it."""
    here = os.path.dirname(os.path.abspath(__file__))
    package = os.path.dirname(os.path.dirname(here))
    sys.path[:] = [path for path in sys.path if os.path.isabs(path) and path != here]
    if package not in sys.path:
        sys.path.insert(0, package)  # before another copy that is installed
    from pypto_build.startup import begin

    begin()  # before the other imports, which take longer
    import runpy

    from pypto_build.toolchain.forks import outlive_readers

    outlive_readers()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
