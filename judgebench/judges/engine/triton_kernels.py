"""Kernels for a GPU, in Triton: a gated activation, a rotary embedding, a merge of attention.

Each does at once what PyTorch does in several passes over memory, and rounds where PyTorch rounds.
All of them take rows that lie behind one another, [rows, width], some rows a program. Triton
compiles a kernel once for a dtype and a width, whatever the number of rows, and keeps it on disk.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_TILE = 2048
"""Numbers of a result that one program makes, where a row is not longer."""

_compiled_once = triton.jit(
    # how many rows there are, and where a normalizer lies, differs from batch to batch
    do_not_specialize=["count", "distance"],
    do_not_specialize_on_alignment=["normalizers"],
)


def launch(kernel: Any, out: Tensor, *args: Any, **constants: Any) -> None:
    """Runs a kernel that fills `out`, [rows, width], on its device."""
    count, width = out.shape
    block = triton.next_power_of_2(width)
    rows = max(1, _TILE // block)
    # Triton launches on the current device, whatever device the tensors are on
    with torch.cuda.device(out.device) if out.is_cuda else nullcontext():
        kernel[triton.cdiv(count, rows),](
            out,
            *args,
            count=count,
            **constants,
            WIDTH=width,
            ROWS=rows,
            BLOCK=block,
            num_warps=4 if block <= 2 * _TILE else 8,
            # a product and a sum are rounded one after the other, as PyTorch does
            enable_fp_fusion=False,
        )


@triton.jit
def _places(count, WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of a program [rows, 1] and their columns [1, block]; the places of both together, and
    which of them there are."""
    # 64 bits: long batches have more numbers than 32 can count
    first = tl.program_id(0).to(tl.int64) * ROWS
    row = (first + tl.arange(0, ROWS))[:, None]
    column = tl.arange(0, BLOCK)[None]
    there = (row < count) & (column < WIDTH)
    return row, column, row * WIDTH + column, there


@triton.jit
def _wide(numbers, places, there):
    """Numbers in float32, and 0 where there are none."""
    return tl.load(numbers + places, mask=there, other=0.0).to(tl.float32)


@triton.jit
def _rounded(numbers, out):
    """Numbers in float32 as the dtype of `out` has them."""
    return numbers.to(out.dtype.element_ty).to(tl.float32)


def gated(gate: Tensor, up: Tensor, activation: str) -> Tensor:
    """activation(gate) * up, [..., width] each, both alike in memory; `activation`: swish, or gelu
    in its form by tanh."""
    out = torch.empty_like(gate, memory_format=torch.contiguous_format)
    # numbers by themselves may be cut anywhere: into rows of a power of 2, without a rest
    width = out.shape[-1]
    piece = min(width & -width, _TILE)
    launch(
        _gated,
        out.view(-1, piece),
        gate,
        up,
        SWISH=activation == "swish",
        PIECES=width // piece,
        # of a layer that makes both, each lies between rows of the other
        STRIDE=gate.stride(-2),
    )
    return out


@_compiled_once
def _gated(
    out,
    gate,
    up,
    count,
    SWISH: tl.constexpr,
    PIECES: tl.constexpr,
    STRIDE: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, column, places, there = _places(count, WIDTH, ROWS, BLOCK)
    token = row // PIECES
    piece = row % PIECES
    own = token * STRIDE + piece * WIDTH + column
    wide = _wide(gate, own, there)
    factor = _wide(up, own, there)
    inner = wide
    if not SWISH:
        # 1 + tanh(y) = 2 sigmoid(2 y)
        cube = wide * wide * wide
        inner = 2 * 0.7978845608028654 * (wide + 0.044715 * cube)
    active = wide * tl.sigmoid(inner)
    rounded = _rounded(active, out)
    tl.store(out + places, rounded * factor, mask=there)


def rotated(states: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary embedding of queries or keys [1, heads, tokens, dim] whose halves are rotated into
    each other, by tables [1, tokens, dim]."""
    states = states.transpose(1, 2).contiguous()
    out = torch.empty_like(states)
    tables = cosine.contiguous(), sine.contiguous()
    launch(_rotated, out.flatten(0, 2), states, *tables, HEADS=states.shape[2])
    return out.transpose(1, 2)


@_compiled_once
def _rotated(
    out,
    states,
    cosine,
    sine,
    count,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, column, places, there = _places(count, WIDTH, ROWS, BLOCK)
    half = WIDTH // 2
    token = row // HEADS
    table = token * WIDTH + column
    straight = _wide(states, places, there)
    straight *= _wide(cosine, table, there)
    # by the sine each number of a half with its partner in the other
    partner = (column + half) % WIDTH
    across = _wide(states, row * WIDTH + partner, there)
    across *= _wide(sine, table, there)
    across *= tl.where(column < half, -1.0, 1.0)
    # each product is rounded before the sum
    turned = _rounded(straight, out)
    turned += _rounded(across, out)
    tl.store(out + places, turned, mask=there)


def merge(
    out: Tensor, parts: Sequence[Tensor], normalizers: Sequence[Tensor], sinks: Tensor | None
) -> None:
    """`kernels.merge_into` of rows [tokens * heads, dim] and normalizers [1, heads,
    tokens] float32."""
    launch(
        _merge,
        out,
        tuple(parts),
        tuple(normalizers),
        # [1, heads, tokens]: numbers between those of a head and the next, and of a token
        tuple(lse.stride()[1:] for lse in normalizers),
        sinks,
        HEADS=normalizers[0].shape[1],
    )


@_compiled_once
def _merge(
    out,
    parts,
    normalizers,
    distance,
    sinks,
    count,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, _, places, there = _places(count, WIDTH, ROWS, BLOCK)
    real = row < count
    head = row % HEADS
    token = row // HEADS
    top = tl.full([ROWS, 1], float("-inf"), tl.float32)
    if sinks is not None:
        top = _wide(sinks, head, real)
    sink = top
    # 1. the largest normalizer: no exponential of a large number
    for i in tl.static_range(len(parts)):
        at = head * distance[i][0] + token * distance[i][1]
        lse = _wide(normalizers[i], at, real)
        top = tl.maximum(top, lse)
    # 2. the mean of the parts by their normalizers; a sink takes its share and gives nothing
    total = tl.exp(sink - top)
    merged = tl.zeros([ROWS, BLOCK], tl.float32)
    for i in tl.static_range(len(parts)):
        at = head * distance[i][0] + token * distance[i][1]
        lse = _wide(normalizers[i], at, real)
        weight = tl.exp(lse - top)
        total += weight
        merged += weight * _wide(parts[i], places, there)
    tl.store(out + places, merged / total, mask=there)
