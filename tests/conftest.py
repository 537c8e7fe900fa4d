"""What holds for every test process."""

from __future__ import annotations

import os

# Workers share the machine's cores, and a child forked from a process with OpenMP threads can hang in them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
