"""A judge card of a served judge, as plain data that a test may change."""

import copy
from pathlib import Path
from typing import Any

import yaml

RUBRIC = "Rate {{Summary}} for {{Document}} from {min_range} to {max_range}:"


def served_card(url: str, **judge: Any) -> dict[str, Any]:
    """What a good card of a judge behind `url` holds."""
    return copy.deepcopy(
        {
            "format": "judgebench judge card 1",
            "dimension": "coherence",
            "range": [1.0, 5.0, 1.0],
            "scale": [1.0, 5.0],
            "uses": [],
            "limits": ["It holds for nothing else."],
            "figures": {"dev": {"spearman": 0.5}, "test": {"spearman": 0.25, "spearman_low": None}},
            "estimate": {"kind": "linear", "scores": [1.0, 5.0], "humans": [1.0, 5.0]},
            **dict.fromkeys(("intervals", "decision", "scores")),
            "attacks": [],
            "models": {"main": {"title": "m", "url": url, "model": "m", "served_as": [{"model": "small-1"}]}},
            "series": {"judge": "main", "decoding": "expectation"},
            "parts": {
                "judge": {
                    "_target_": "judgebench.judges.served.settings.ApiSpec",
                    **{"url": url, "model": "m", "retries": 1, "backoff": 0.01, "timeout": 5, "extra_body": {"a": 1}},
                    **judge,
                },
                "assistant": {"_target_": "judgebench.judges.assistants.assistant", "kind": "none"},
                "prompt": {
                    **{"rubrics": "summary", "variants": None, "max_tokens": None, "truncate": "error"},
                    "template_options": {"enable_thinking": False},
                },
                "decoding": {"expectation": {"_target_": "judgebench.decoding.Expectation"}},
                "defenses": ["none"],
                "tutor": None,
            },
            "rubric": {"coherence": RUBRIC},
            "data": {"name": "mine", "sha256": "1" * 64, "texts": []},
            "tried": [{"decoding": "expectation", "dev_spearman": 0.5}],
            "made_with": {"git_commit": None},
            "files": {},
        }
    )


def written(content: Any, folder: Path, name: str = "card.yaml") -> Path:
    """The file of a card."""
    path = folder / name
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), "utf-8")
    return path


def changed(content: dict[str, Any], where: str, value: Any) -> dict[str, Any]:
    """The same with another value at a place such as `parts.judge.url`."""
    node: Any = content
    *inner, last = where.split(".")
    for key in inner:
        node = node[key]
    node[last] = value
    return content
