"""Writes x and FACTOR * x: python make_data.py --output DIR --seed N"""

import argparse
import random
import struct
from pathlib import Path

from pypto_build.artifact.pt import write_pt

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--output", type=Path, required=True)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()

factor = float(Path(__file__).with_name("factor.txt").read_text())
numbers = random.Random(options.seed)
x = [float(numbers.randint(-100, 100)) for _ in range(16)]
for name, values in {"in/x": x, "out/y": [factor * value for value in x]}.items():
    write_pt(options.output / f"{name}.pt", "float32", (16,), struct.pack("16f", *values))
