"""Attention where parts cannot be merged: under windows that cut a prompt, and soft caps that bend its products.

Every query then sees its whole context under an explicit mask. Stretches of queries and their contexts are gathered
from the row into padded blocks of bounded memory, as many stretches together as fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from judgebench.judges.engine.kernels import CHUNK_BYTES, AttentionOptions, KeysValues, attend_masked, to_device

_NOWHERE = 2**40
"""Position of padding among keys, which no query sees."""


@dataclass(frozen=True)
class Context:
    """A stretch of queries and all that any of them may see.

    Attributes:
        queries: which of the queries they are.
        query_at: [queries] their positions.
        keys: which of the keys they may see, in order.
        key_at: [keys] their positions.
        query_branches, key_branches: for each the candidate trie's inner branch that it is, from 1; 0 is none.
    """

    queries: np.ndarray
    query_at: np.ndarray
    keys: np.ndarray
    key_at: np.ndarray
    query_branches: np.ndarray | None = None
    key_branches: np.ndarray | None = None


@dataclass(frozen=True)
class PaddedBlock:
    """Contexts padded to each other.

    Attributes:
        queries, query_at, query_branches: [contexts, width] int64, padded by repeating the first.
        keys, key_at, key_branches: [contexts, reach] int64.
        real, row: [queries] int64: which of the flattened block are no padding, and which queries those are.
    """

    queries: torch.Tensor
    query_at: torch.Tensor
    query_branches: torch.Tensor
    keys: torch.Tensor
    key_at: torch.Tensor
    key_branches: torch.Tensor
    real: torch.Tensor
    row: torch.Tensor


def blocks_of(
    contexts: Sequence[Context], query: torch.Tensor, key: torch.Tensor, window: int | None
) -> list[PaddedBlock]:
    """Blocks whose float32 products, and whose keys and values, take about `kernels.CHUNK_BYTES` each.

    Args:
        query, key: of a layer; what is wanted of them are heads, features and device.
        window: a query sees only so many positions, its own included; None is all.
    """
    max_products = CHUNK_BYTES // (4 * query.shape[1])
    max_keys = CHUNK_BYTES // (2 * key.shape[1] * key.shape[3] * key.element_size())
    pieces = [piece for context in contexts for piece in _pieces(context, max_products, window)]
    pieces.sort(key=lambda piece: (len(piece.keys), len(piece.queries)))
    blocks: list[PaddedBlock] = []
    together: list[Context] = []
    for piece in pieces:
        width = max(len(each.queries) for each in [*together, piece])
        keys = (len(together) + 1) * len(piece.keys)
        if together and (width * keys > max_products or keys > max_keys):
            blocks.append(_block(together, query.device))
            together = []
        together.append(piece)
    return [*blocks, *([_block(together, query.device)] if together else [])]


def attend_blocks(
    query: torch.Tensor,
    seen: KeysValues,
    blocks: Sequence[PaddedBlock],
    ancestry: torch.Tensor | None,
    how: AttentionOptions,
) -> torch.Tensor:
    """Attention of the blocks' queries; [1, heads, queries, dim] as the query.

    Args:
        seen: [1, kv heads, keys, dim] all keys and values that the blocks number.
        ancestry: [branches, branches] bool, see `Packed`; None where no branch is a query.
    """
    out = torch.empty_like(query)
    for block in blocks:
        q, k, v = (x[0][:, at].transpose(0, 1) for x, at in ((query, block.queries), *((x, block.keys) for x in seen)))
        behind = block.query_at[:, :, None] - block.key_at[:, None]
        allowed = behind >= 0
        if how.window is not None:
            allowed = allowed & (behind < how.window)
        if ancestry is not None and len(ancestry):
            related = torch.nn.functional.pad(ancestry, (1, 0, 1, 0), value=True)
            allowed = allowed & related[block.query_branches[:, :, None], block.key_branches[:, None]]
        each = attend_masked(q, k, v, how, allowed[:, None])
        out[:, :, block.row] = each.transpose(1, 2).flatten(0, 1)[block.real].transpose(0, 1)[None]
    return out


def _pieces(context: Context, max_products: int, window: int | None) -> list[Context]:
    """A context in pieces of at most `max_products` products, each with the keys that its queries may see."""
    pieces, start = [], 0
    while start < len(context.queries):
        stop = min(len(context.queries), start + max(1, max_products // max(1, len(context.keys))))
        at = context.query_at[start:stop]
        near = context.key_at <= at.max()
        if window is not None:
            near &= context.key_at > at.min() - window
        pieces.append(
            Context(
                context.queries[start:stop],
                at,
                context.keys[near],
                context.key_at[near],
                None if context.query_branches is None else context.query_branches[start:stop],
                None if context.key_branches is None else context.key_branches[near],
            )
        )
        start = stop
    return pieces


def _block(contexts: Sequence[Context], device: torch.device) -> PaddedBlock:
    width, reach = max(len(each.queries) for each in contexts), max(len(each.keys) for each in contexts)

    def padded(rows: Sequence[np.ndarray], length: int, filling: int | None) -> np.ndarray:
        table = np.empty((len(rows), length), np.int64)
        for line, row in zip(table, rows, strict=True):
            line[: len(row)], line[len(row) :] = row, row[0] if filling is None else filling
        return table

    def branches(given: np.ndarray | None, like: np.ndarray) -> np.ndarray:
        return np.zeros(len(like), np.int64) if given is None else given

    real = np.concatenate([np.arange(len(each.queries)) + i * width for i, each in enumerate(contexts)])
    tables = (
        padded([each.queries for each in contexts], width, None),
        padded([each.query_at for each in contexts], width, None),
        padded([branches(each.query_branches, each.queries) for each in contexts], width, None),
        padded([each.keys for each in contexts], reach, 0),
        padded([each.key_at for each in contexts], reach, _NOWHERE),
        padded([branches(each.key_branches, each.keys) for each in contexts], reach, 0),
        real,
        np.concatenate([each.queries for each in contexts]),
    )
    return PaddedBlock(*(to_device(torch.from_numpy(table), device) for table in tables))
