"""Readings as the columns of readings.parquet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judgebench.decoding.scores import key_columns
from judgebench.types import Reading


def reading_columns(readings: Sequence[Reading]) -> dict[str, list[Any]]:
    """One row a reading; judge, decoding, lambda and temperature say how a generated text came about."""
    how = [reading.generation for reading in readings]
    return {
        **key_columns(readings),
        "candidates": [list(reading.prompt.condition.range.candidates) for reading in readings],
        "main_logprobs": [reading.main_logprobs for reading in readings],
        "assistant_logprobs": [reading.assistant_logprobs for reading in readings],
        "text": [reading.text for reading in readings],
        "judge": [h.judge if h else None for h in how],
        "decoding": [h.decoding if h else None for h in how],
        "lambda": [h.lambda_ if h else None for h in how],
        "temperature": [h.temperature if h else None for h in how],
        "prompt": [reading.prompt.text for reading in readings],
        "prompt_tokens": [len(reading.prompt.token_ids) for reading in readings],
        "source_tokens_cut": [reading.prompt.source_tokens_cut for reading in readings],
        "control_tokens": [reading.prompt.control_tokens for reading in readings],
        "seconds": [reading.seconds for reading in readings],
    }
