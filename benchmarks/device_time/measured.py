"""Times measured on devices, and the split into rows that fit rates and rows that are held out.

The split was written down before any rate was fitted. Within a family of rows, in the order of their source, the
first, third and so on fit, and the others are held out. A row's pipe times are means over the cores, in microseconds.
`bound` is the pipe with the longest time where the source gives several.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

FIT, HELD = "fit", "held"


@dataclass(frozen=True)
class Measured:
    """One row: chip, kernel and variant, microseconds in all and by pipe. `regime` says what feeds the kernel."""

    family: str
    variant: str
    chip: str
    task: float
    pipes: Mapping[str, float] = field(default_factory=dict)
    regime: str = "HBM"
    half: str = ""

    @property
    def name(self) -> str:
        """Return the name of the row."""
        return f"{self.family}/{self.variant}"

    @property
    def bound(self) -> str:
        """Return the pipe that takes most time, or an empty text where fewer than two were measured."""
        return max(self.pipes, key=lambda pipe: self.pipes[pipe]) if len(self.pipes) > 1 else ""


def _family(family: str, chip: str, regime: str, *rows: tuple[str, float, dict[str, float]]) -> tuple[Measured, ...]:
    return tuple(
        Measured(family, variant, chip, task, pipes, regime, HELD if number % 2 else FIT)
        for number, (variant, task, pipes) in enumerate(rows)
    )


def _cube(m: float, mte1: float, mte2: float, fix: float) -> dict[str, float]:
    return {"M": m, "MTE1": mte1, "MTE2": mte2, "FIX": fix}


def _vector(v: float, mte2: float, mte3: float) -> dict[str, float]:
    return {"V": v, "MTE2": mte2, "MTE3": mte3}


def _shares(task: float, *percent: float) -> dict[str, float]:
    return _cube(*(task * share / 100 for share in percent))


MEASURED: tuple[Measured, ...] = (
    *_family(
        "matmul 8192 fp16 a2", "910B1", "L2",
        ("naive", 12284, _cube(3395, 2167, 8617, 489)),
        ("large packets", 5040, _cube(3116, 2333, 4051, 45)),
        ("L1 full", 4157, _cube(3352, 2750, 3779, 48)),
        ("constants", 4053, _cube(3164, 2610, 3514, 46)),
        ("unit flag", 4012, _cube(3076, 2534, 3436, 273)),
        ("static tensors", 4121, _cube(3082, 2538, 3552, 160)),
        ("static tensors, L2 split", 4082, _cube(3082, 2553, 3487, 162)),
        ("2 x 12 cores", 12541, {}),
    ),
    *_family(
        "matmul 8192 fp16 a5", "950PR", "cube",
        ("naive", 4295, {}),
        ("large packets", 2668, {}),
        ("L1 full", 2591, {}),
        ("unit flag", 2558, _cube(2550, 836, 1900, 214)),
        ("static tensors", 2572, _cube(2565, 828, 1874, 222)),
    ),
    *_family(
        "matmul 8192 fp16 one core a2", "910B1", "latency",
        ("base 64 x 64 x 64", 759364, _cube(141699, 162104, 582516, 34303)),
        ("base 128 x 256 x 64", 249467, _cube(81477, 52004, 195613, 11314)),
    ),
    *_family(
        "matmul 8192 fp16 one core a5", "950PR", "latency",
        ("base 64 x 64 x 64", 1096626, {}),
        ("base 128 x 256 x 64", 130560, {}),
    ),
    *_family(
        "GEMM fp16 a3", "910B1", "L2",
        ("1536", 38.8, _shares(38.8, 54.5, 42.2, 72.2, 7.7)),
        ("3072", 206.7, _shares(206.7, 79.0, 62.0, 90.9, 5.8)),
        ("6144", 1506.0, _shares(1506.0, 86.7, 68.1, 95.2, 3.1)),
        ("7680", 3168.0, _shares(3168.0, 80.6, 63.0, 98.4, 2.4)),
    ),
    *_family(
        "GEMM fp8 a5", "950PR", "cube",
        ("2048", 38.3, {"M": 0.58 * 38.3}),
        ("4096", 187.9, {"M": 0.88 * 187.9}),
        ("6144", 602.0, {"M": 0.92 * 602.0}),
        ("8192", 1474.9, {"M": 0.90 * 1474.9}),
    ),
    *_family(
        "mmad 1024 fp16 a5", "950PR", "L2",
        ("single buffer", 36.6, _cube(7.07, 3.17, 20.2, 1.28)),
        ("double buffer", 21.2, _cube(7.07, 4.15, 14.4, 1.27)),
    ),
    *_family(
        "add 8192 x 8192 fp16 a2", "910B1", "HBM",
        ("one core", 6910, _vector(762, 6209, 2613)),
        ("8 KB", 306.6, _vector(15.9, 215, 54)),
        ("32 KB", 268.5, _vector(12.8, 184, 57)),
        ("double buffer", 264.0, _vector(12.8, 251, 85)),
        ("L2 bypass", 187.7, _vector(12.8, 176, 160)),
        ("no bank conflict", 184.5, _vector(6.95, 172, 121)),
        ("scalar loop", 1.24e6, {}),
    ),
    *_family(
        "add 8192 x 8192 fp16 a5", "950PR", "HBM",
        ("one core", 8924, {"V": 943}),
        ("8 KB", 310.5, {"V": 15.5}),
        ("32 KB", 251.7, {"V": 11.1}),
        ("double buffer", 247.7, {}),
        ("L2 bypass", 182.0, {}),
    ),
    *_family(
        "read 302 MB to UB a2", "910B1", "HBM",
        ("calls of 128 B", 565, {}),
        ("64 x 128 B", 234, {}),
        ("64 x 2 KB", 216, {}),
        ("unaligned", 275, {}),
    ),
    *_family(
        "read 302 MB to UB a5", "950PR", "HBM",
        ("calls of 128 B", 884, {}),
        ("64 x 128 B", 209, {}),
        ("64 x 2 KB", 189, {}),
        ("unaligned", 192, {}),
    ),
    *_family(
        "read 302 MB to L1 a2", "910B1", "HBM",
        ("64 x 128 B", 301, {}),
        ("64 x 512 B", 230, {}),
        ("unaligned", 439, {}),
    ),
    *_family(
        "read 302 MB to L1 a5", "950PR", "HBM",
        ("64 x 128 B", 245, {}),
        ("64 x 512 B", 191, {}),
        ("unaligned", 207, {}),
    ),
    *_family("read four times to UB a2", "910B1", "HBM", ("whole", 828, {}), ("in quarters", 366, {})),
    *_family("read four times to UB a5", "950PR", "HBM", ("whole", 742, {}), ("in quarters", 355, {})),
    *_family("read four times to L1 a2", "910B1", "HBM", ("whole", 899, {}), ("in quarters", 415, {})),
    *_family("read four times to L1 a5", "950PR", "HBM", ("whole", 733, {}), ("in quarters", 390, {})),
    *_family("all read 6.3 MB to UB a2", "910B1", "L2", ("same order", 539, {}), ("staggered", 329, {})),
    *_family("all read 6.3 MB to UB a5", "950PR", "L2", ("same order", 342, {}), ("staggered", 336, {})),
    *_family("all read 6.3 MB to L1 a2", "910B1", "L2", ("same order", 279, {}), ("staggered", 221, {})),
    *_family("all read 6.3 MB to L1 a5", "950PR", "L2", ("same order", 370, {}), ("staggered", 187, {})),
    *_family(
        "ND to NZ 8192 x 8192 a2", "910B1", "HBM",
        ("stride 144", 151.4, _vector(47.8, 114, 77)),
        ("stride 145", 144.0, _vector(7.13, 115, 77)),
    ),
    *_family(
        "ND to NZ 8192 x 8192 a5", "950PR", "HBM",
        ("stride 144", 141.7, {"V": 45.3}),
        ("stride 145", 140.4, {"V": 9.14}),
    ),
    *_family("GELU 8192 x 8192 fp32 a5", "950PR", "HBM", ("unfused", 351.5, _vector(148, 320, 304))),
)  # fmt: skip

#: Measured rows of the sources that are not rebuilt here, and why.
LEFT_OUT: Mapping[str, str] = {
    "mxfp4 matmul": "the runtime has no microscaled products",
    "int8 grouped GEMM with GELU": "its tile sizes and schedule are not stated",
    "GEMM with GELU, fused": "how its blocks alternate is not stated",
    "conv2d": "the runtime has no convolution",
    "GELU as one vector function": "fused vector functions are no instructions of PTO",
    "TopK": "the sequence of its sorts is not stated",
    "flash attention": "its sequence of instructions is not stated",
}
