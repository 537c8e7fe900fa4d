"""Parts of programs in PyTorch: tiles as the matrices of their valid elements, and launches."""

from __future__ import annotations

from typing import Any

import torch

from .special import _records


def load_tile(tensor: torch.Tensor, offsets: tuple[int, ...], shape: tuple[int, ...]) -> torch.Tensor:
    """Return a copy of a part of a tensor as a matrix; all dimensions but the last become rows."""
    part = tensor[tuple(slice(o, o + n) for o, n in zip(offsets, shape, strict=True))]
    return part.reshape(-1, part.shape[-1]).clone()


def store_tile(tensor: torch.Tensor, offsets: tuple[int, ...], tile: torch.Tensor, *, add: bool = False) -> None:
    """Write a matrix into a tensor, beginning at an element."""
    rows, cols = tile.shape
    shape = [1] * (tensor.dim() - 2) + [rows, cols]
    if tensor.dim() == 1:
        shape = [cols]
    elif rows > tensor.shape[-2] and tensor.dim() > 2:
        inner = tensor.shape[-2]
        shape = [1] * (tensor.dim() - 3) + [rows // inner, inner, cols]
    part = tensor[tuple(slice(o, o + n) for o, n in zip(offsets, shape, strict=True))]
    value = tile.reshape(shape)
    part.copy_(part + value if add else value)


def fill_pad(tile: torch.Tensor, rows: int, cols: int, pad: str) -> torch.Tensor:
    """Return the tile enlarged by the pad value."""
    limits = torch.finfo(tile.dtype) if tile.dtype.is_floating_point else torch.iinfo(tile.dtype)
    infinite = tile.dtype.is_floating_point
    values: dict[str, Any] = {
        "max": float("inf") if infinite else limits.max, "min": float("-inf") if infinite else limits.min,
    }  # fmt: skip
    result = torch.full((rows, cols), values.get(pad, 0), dtype=tile.dtype)
    result[: tile.shape[0], : tile.shape[1]] = tile
    return result


def sorted_groups(values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Sort every 32 values of a row in descending order; each is followed by its index as the bits of a value."""
    rows, cols = values.shape
    parts = []
    for start in range(0, cols, 32):
        group = values[:, start : start + 32]
        order = _records(group, group)
        names = indices[:, start : start + 32].expand(rows, -1).to(torch.int32).gather(1, order)
        chosen = group.gather(1, order).float().view(torch.int32)
        parts.append(torch.stack((chosen, names), dim=2).reshape(rows, -1))
    return torch.cat(parts, dim=1).view(torch.float32)


def merged_blocks(records: torch.Tensor, length: int) -> torch.Tensor:
    """Merge every four sorted blocks of `length` elements of a row into one."""
    rows = []
    for row in records:
        words = row.contiguous().view(torch.int32).reshape(-1, 2)
        count = length // 2
        merged = []
        for start in range(0, len(words), 4 * count):
            part = words[start : start + 4 * count]
            values = part[:, 0].contiguous().view(torch.float32)
            merged.append(part[_records(values[None], values)[0]])
        rows.append(torch.cat(merged).reshape(-1).view(torch.float32))
    return torch.stack(rows)


def slice_tensor(tensor: torch.Tensor, shape: tuple[int, ...], offsets: tuple[int, ...]) -> torch.Tensor:
    """Return a part of a tensor that shares its memory."""
    return tensor[tuple(slice(o, o + n) for o, n in zip(offsets, shape, strict=True))]


def create_tensor(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return memory for a tensor that belongs to the program."""
    return torch.zeros(shape, dtype=dtype)


_program_block = [0, 1]  # number of the block, how many there are


def spmd(blocks: int, kernel: Any, *arguments: Any) -> None:
    """Run a kernel on `blocks` blocks."""
    for number in range(blocks):
        _program_block[:] = [number, blocks]
        kernel(*arguments)
    _program_block[:] = [0, 1]
