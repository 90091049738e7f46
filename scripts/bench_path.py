"""How long the exact path of kappa takes: 1440 examples (90 articles x 16 summaries, as SummEval's test split).

    python scripts/bench_path.py --json path.json

Log-probabilities are made up: a judge that leans on the score that its assistant favors, and sees some of the quality
that the humans see. Beside the path stand the decodings that it replaces: one at each of as many kappas.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from judgebench.decoding.rules import Contrastive
from judgebench.metrics.correlation import spearman
from judgebench.tuning.cells import Grid
from judgebench.tuning.optimum import kappa_path, optimum, spearman_along

EXAMPLES = 1440
CANDIDATES = (5, 10, 41)
REPEATS = 5


def exact_section(examples: int = EXAMPLES) -> dict[str, Any]:
    """Seconds, the best of `REPEATS`, for several numbers of candidates; and how far the paper's grid falls short."""
    return {
        "examples": examples,
        "threads": torch.get_num_threads(),
        "by_candidates": {str(count): _measured(examples, count) for count in CANDIDATES},
    }


def _measured(examples: int, candidates: int) -> dict[str, Any]:
    main, assistant, human = _made_up(examples, candidates)
    values = np.arange(candidates) + 1.0
    path_s, path = _timed(lambda: kappa_path(main, assistant, values))
    spearman_s, _ = _timed(lambda: spearman_along(path, human))
    optimum_s, best = _timed(lambda: optimum(main, assistant, values, human))

    def at(kappa: float) -> float:
        return spearman(Contrastive(kappa).scores(main, assistant, values), human)

    one_s, _ = _timed(lambda: at(0.1))
    on_grid = max(at(setting.kappa) for setting in Grid().settings)
    return {
        "changes": len(path.kappa),
        "pieces": len(path),
        "path_s": path_s,
        "spearman_s": spearman_s,
        "path_and_spearman_s": path_s + spearman_s,
        "optimum_s": optimum_s,
        "decoding_every_piece_anew_s": one_s * len(path),
        "optimum": {"kappa": best.kappa, "spearman": best.value, "width": best.width},
        "grid_falls_short_by": best.value - on_grid,
    }


def _made_up(examples: int, candidates: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    quality = rng.normal(0.6, 0.2, (examples, 1)).clip(0, 1)
    place = np.linspace(0, 1, candidates)
    sides = []
    for favored, seen in ((0.6, 0.3), (0.95, 0.05)):
        center = favored * 0.75 + seen * (quality + rng.normal(0, 0.25, (examples, 1)))
        logits = -9 * np.abs(place - center) + rng.normal(0, 0.3, (examples, candidates))
        sides.append((logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))).astype(np.float32))
    human = np.round((1 + 4 * quality[:, 0]) * 3) / 3  # the mean of three experts
    return sides[0], sides[1], human


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - began)
    return min(seconds), result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file that takes the figures")
    arguments = parser.parse_args()
    section = exact_section()
    for count, found in section["by_candidates"].items():
        print(
            f"{section['examples']} examples, {count} candidates, {found['pieces']} pieces: path and correlation "
            f"{found['path_and_spearman_s']:.4f} s; exact optimum {found['optimum_s']:.4f} s; decoding every piece "
            f"anew {found['decoding_every_piece_anew_s']:.2f} s; grid {found['grid_falls_short_by']:.4f} below it"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps({"exact path": section}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
