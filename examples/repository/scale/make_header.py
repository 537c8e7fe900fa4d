"""Prints the header of the factor that a file holds: python make_header.py factor.txt"""

import sys
from pathlib import Path

factor = float(Path(sys.argv[1]).read_text())
print(f"#pragma once\n#define FACTOR {factor}f")
