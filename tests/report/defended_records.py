"""What a run with CAP leaves in `defense/`, small and with every part."""

import pandas as pd

from judgebench.results.results import Results
from judgebench.results.schema import REFERENCES_SCHEMA

TUTOR = "Some-Tutor-1B"

RECORD = {
    "defense": "perplexity",
    "dataset": "mini",
    "helper": "tiny-main",
    "helper_sha256": "ab",
    "threshold": 3.5,
    "training": {"groups": ["a", "b"], "attacks": ["dsi", "bed"], "n_clean": 6, "n_attacked": 12, "precision": 0.75}
    | {"recall": 0.9, "f1": 0.818, "false_positive_rate": 0.3},
    "curve": {"thresholds": [1.0, 3.5, 4.5], "precision": [0.5, 0.75, 0.8], "recall": [1.0, 0.9, 0.2]},
    "test": {"dataset": "mini", "n_clean": 6, "n_attacked": 12, "precision": 0.6, "recall": 0.7, "f1": 0.646}
    | {"false_positive_rate": 0.47},
}
"""A record of detectors.json."""


def standard(**more):
    """A record of standards.json: five candidates have scores, layer 2 of 3 separates best."""
    found = {"dimension": "joint", "range_min": 1.0, "range_max": 5.0, "tutor": TUTOR, "tutor_fingerprint": "a"}
    found |= {"judge": "Some-Judge", "judge_fingerprint": "b", "dataset": "mini", "groups": ["a", "b"], "seed": 0}
    found |= {"candidates": 3, "best_layer": 2, "layer": 2, "low_threshold": 1.5, "high_threshold": 3.5}
    found |= {"high_count": 2, "low_count": 2, "separability": [0.4, 0.9, 0.6], "chance": [0.5, 0.6, 0.7]}
    found |= {"norms": [10.0, 20.0, 40.0], "scores": [1.0, 1.5, 2.0, 3.5, 4.0]}
    found |= {"low_points": [[-1.0, 0.0], [-3.0, 2.0]], "high_points": [[1.0, 0.0], [3.0, 2.0]], "shares": [0.5, 0.25]}
    return found | {"file": "vectors_joint.safetensors"} | more


def strength(side, alpha, mean, chosen=False, **more):
    """A record of strengths.json, alpha a multiple of 20."""
    target = 3.5 if side == "high" else 1.5
    found = {"dataset": "mini", "dimension": "joint", "scale": 20.0, "side": side, "alpha": 20.0 * alpha, "n": 4}
    found |= {"empty": 0, "mean": mean, "variance": 0.25, "low": mean - 0.5, "high": mean + 0.5, "target": target}
    return found | {"chosen": chosen} | more


STRENGTHS = [
    *(strength("high", alpha, mean, alpha == 0.2) for alpha, mean in ((0.0, 2.0), (0.1, 2.5), (0.2, 3.25))),
    *(strength("low", alpha, mean, alpha == 0.1) for alpha, mean in ((0.0, 2.0), (0.1, 1.5), (0.2, 0.75))),
]


def references(defense, pairs, split="test", alphas=(None, None)):
    """Rows of references.parquet: a pair a group of (good, poor) scores."""
    return [
        {
            "defense": defense,
            "dimension": "joint",
            "group_id": f"{split}-{i}",
            "split": split,
            "high": "Good.",
            "low": "Poor.",
        }
        | {"score_high": high, "score_low": low, "high_cut": i == 0, "low_cut": False}
        | {"alpha_high": alphas[0], "alpha_low": alphas[1], "seconds": 1.0}
        for i, (high, low) in enumerate(pairs)
    ]


def frame(rows):
    """references.parquet of such rows."""
    return pd.DataFrame(rows, columns=REFERENCES_SCHEMA.names)


def cost(defense, reading, context=0.0, text=0.0, once=0.0, dataset="mini"):
    """A record of costs.json."""
    found = {"dataset": dataset, "defense": defense, "n": 12, "reading_seconds": reading, "text_seconds": text}
    return found | {"context_seconds": context, "once_seconds": once, "seconds": reading + text}


def defense_records(**more):
    """All of it."""
    rows = references("cap", [(3.0, 2.0), (4.0, 1.0), (3.5, 3.0)], alphas=(4.0, 2.0))
    rows += references("cap", [(2.5, 2.0)], "dev", (4.0, 2.0))
    rows += references("w_cap", [(2.0, 2.0), (2.5, 3.0)])
    costs = [cost("cap", 0.5, context=3.0, text=0.25, once=9.0), cost("none", 0.4), cost("w_cap", 0.5, 2.0, 0.2)]
    return Results(
        **{"standards": [standard()], "strengths": STRENGTHS, "references": frame(rows), "costs": costs} | more
    )
