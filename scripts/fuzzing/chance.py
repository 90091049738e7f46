"""Odd texts, values and files, made from a source of chance."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

SHORT = 400
"""Pieces of the longest texts; what any of them may cost is bounded."""


# fmt: off
_PIECES = [
    "score", "rating", "Score:", "Final rating:", "Overall:", "coherence", "I rate this", "I'd give it a", "Answer",
    "out of", "of", "/", "/5", "/10", "5", "4", "4.5", "4,5", "10", "0", "-1", "−2", "3rd", "1e5", "1,000", "½",
    "100", "four", "one", "three and a half", "zero", "ten", "stars", "★★★☆☆", "⭐", "🌟", "4️⃣", "４", "\u0664", "²",
    "四", "分", "점", "not", "cannot", "between", "and", "to", "or", "-", "–", "~", "1-5", "[1, 5]",
    "(1 = worst, 5 = best)", "%", "<think>", "</think>", "<score>", "</score>", "<|im_end|>", "◁think▷", "{", "}",
    "{\"score\": ", "\"", "'", "`", "```", "\\boxed{", "\\frac{4}{5}", "\\text{", "$", "|", "| Score |", "|---|", "#",
    "**", "\n", "\n\n", "\r", "\t", " ", ".", ":", ";", ",", "!", "?", "=", "→", "(", ")", "[", "]", "[[", "]]", "A",
    "b)", "(C)", "option B", "[RESULT]", "⟦", "⟧", "Summary 1", "Response 2", "because", "2 of the 3 facts",
    "on a scale of 1 to 5", "5-point scale", "GPT-4", "\ud800", "1.", "2.", "3)", "Step 1:", "Summary 3:", "sur",
    "von", "de", "Note:", "评分：", "✅", "👍", "\u200b", "\ufeff", "\x00",
]
# fmt: on


# fmt: off
FIELDS = [
    "source", "output", "human", "scores", "example_id", "group_id", "system_id", "context", "id", "text", "decoded",
    "expert_annotations", "model_id", "machine_summaries", "coherence", "consistency", "fluency", "relevance",
    "range", "doc_id", "system_output", "answer", "dimension", "overall", "phrase", "by_length", "contexts",
    "learned",
]
# fmt: on


def odd_text(chance: random.Random) -> str:
    kind = chance.random()
    if kind < 0.75:
        joint = chance.choice(["", " ", " ", "\n"])
        return joint.join(chance.choices(_PIECES, k=chance.randrange(14)))
    if kind < 0.9:
        return "".join(_character(chance) for _ in range(chance.randrange(40)))
    piece = "".join(chance.choices(_PIECES, k=chance.randint(1, 3)))
    return chance.choice(_PIECES) + piece * chance.randrange(SHORT // 4) + chance.choice(_PIECES)


def _character(chance: random.Random) -> str:
    return chr(chance.choice([chance.randrange(32, 127), chance.randrange(0x3000), chance.randrange(0x110000)]))


def odd_value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(9 if depth < 3 else 7)
    simple: list[Callable[[], Any]] = [
        lambda: None,
        lambda: chance.choice([True, False]),
        lambda: chance.choice([0, 1, 5, -1, 10**6, 10**400, chance.randrange(10)]),
        lambda: chance.choice([0.5, 1.0, 4.25, -0.0, 1e300, 1e-300, math.nan, math.inf, chance.random() * 5]),
        lambda: chance.choice(
            ["", " ", "a", "coherence", "\ud800", "x" * 300, "../../etc/passwd", "{{ source }}", "4"]
        ),
        lambda: odd_text(chance),
        lambda: chance.choice(["1-5", "none", "main", "system-1", "doc"]),
    ]
    if kind < 7:
        return simple[kind]()
    many = [odd_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return many if kind == 7 else {chance.choice(FIELDS): one for one in many}


def change(chance: random.Random, node: Any) -> None:
    """Another value, or none, at one place of a nest."""
    while True:
        keys: list[Any] = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = chance.choice(keys)
        if isinstance(node[key], dict | list) and chance.random() < 0.7:
            node = node[key]
            continue
        if chance.random() < 0.2:
            del node[key]
        else:
            node[key] = odd_value(chance)
        return


def damaged(chance: random.Random, data: bytes) -> bytes:
    kind = chance.random()
    if kind < 0.45 or not data:
        return data
    at = chance.randrange(len(data))
    if kind < 0.6:
        return data[:at]
    if kind < 0.8:
        return data[:at] + bytes(chance.randrange(256) for _ in range(chance.randrange(1, 6))) + data[at + 1 :]
    if kind < 0.85:
        return b"\xef\xbb\xbf" + data
    if kind < 0.9:
        return (
            data[:at]
            + chance.choice([b"[" * 3000, b'{"a":' * 3000, b"9" * 5000, b"\x00", b"\\u0000", b"\\ud800"])
            + data[at:]
        )
    return data[:at] + data[chance.randrange(len(data)) :]
