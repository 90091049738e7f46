"""A synthetic run: what the pipeline hands to report and tracking, small and realistic."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy import stats

from judgebench.decoding import Contrastive
from judgebench.report.html import render_report
from judgebench.report.layout import terminal_blocks
from judgebench.report.render import to_terminal
from judgebench.results.results import Results
from judgebench.stats.paired import compare, default_pairs
from judgebench.stats.scores import Scores
from judgebench.tuning.tune import tune
from judgebench.tuning.tuners import Dev, Tuner
from judgebench.types import Condition, Example, Prompt, Reading, ScoreRange

ALL_RANGES = (ScoreRange(0, 4), ScoreRange(1, 5), ScoreRange(2, 6), ScoreRange(3, 7))
SCALE = (1.0, 5.0)
RULES = {"greedy": "argmax", "contrastive": "argmax", "expectation": "expectation"}


ENVIRONMENT = {
    **{"packages": {"torch": "2.13.0", "optuna": None}, "python": "3.11.7", "platform": "Linux"},
    **{"git_commit": "abc123", "git_changed": True, "device": "cpu", "model_fingerprints": {"main": "sha256:abc"}},
    **{"seconds": {"load": 1.25, "read": 300.0}, "tokens": {"total": 123456, "unique": 23456}},
}


@dataclass(frozen=True)
class Run:
    """What a run has read, scored and measured."""

    readings: pd.DataFrame
    scores: pd.DataFrame
    records: list[dict]
    scale: dict[str, tuple[float, float]]
    titles: dict[str, str | None]


def build_run(
    dimensions: Sequence[str] = ("coherence",),
    ranges: Sequence[ScoreRange] = ALL_RANGES,
    articles: int = 20,
    systems: int = 8,
    assistant: bool = True,
    grid: Sequence[tuple[float, float]] | None = None,
    generated: bool = False,
    decodings: Sequence[str] = ("greedy", "expectation"),
    dev_articles: int = 2,
    seed: int = 0,
) -> Run:
    """A main judge that favours one score, an assistant that favours it more, and their contrast.

    Args:
        grid: several (lambda, t) side by side; None: one per range, as tuning on the dev split gives.
        generated: free generation: text instead of log-probabilities.
    """
    rng = np.random.default_rng(seed)
    readings, scores = [], []
    for dimension in dimensions:
        quality = np.clip(rng.normal(0.6, 0.22, (articles, systems)), 0, 1)
        human = np.round((SCALE[0] + quality * (SCALE[1] - SCALE[0])) * 3) / 3
        for which, score_range in enumerate(ranges):
            values = np.asarray(score_range.values)
            size = len(values)
            place = np.arange(size) / (size - 1)
            favoured = (0.5, 0.75, 0.25, 0.5, 0.6, 0.3, 0.7, 0.4)[which % 8]
            for a in range(articles):
                for s in range(systems):
                    seen = quality[a, s] + rng.normal(0, 0.25)
                    main = -9 * np.abs(place - 0.6 * favoured - 0.4 * seen) + rng.normal(0, 0.2, size)
                    other = -9 * np.abs(place - 0.95 * favoured - 0.05 * seen) + rng.normal(0, 0.2, size)
                    main_logprobs, other_logprobs = _log_softmax(main) - 0.1, _log_softmax(other) - 0.6
                    key = {
                        "example_id": f"article-{a}/system-{s}",
                        "group_id": f"article-{a}",
                        "system_id": f"system-{s}",
                        "split": "dev" if a < dev_articles else "test",
                        "dimension": dimension,
                        "range_min": score_range.minimum,
                        "range_max": score_range.maximum,
                        "range_step": score_range.step,
                        "attack": "none",
                        "defense": "none",
                    }
                    how = {"judge": None, "decoding": None, "lambda": None, "temperature": None}
                    readings.append(
                        key
                        | {
                            "candidates": list(score_range.candidates),
                            "main_logprobs": None if generated else [float(x) for x in main_logprobs],
                            "assistant_logprobs": [float(x) for x in other_logprobs]
                            if assistant and not generated
                            else None,
                            "text": f"I say {values[np.argmax(main)]:g}." if generated else None,
                        }
                        | (how | {"judge": "main", "decoding": "greedy"} if generated else how)
                        | {
                            "prompt": f"Article {a}. " + "A sentence of the article. " * 20 + f"Summary {s}.",
                            "prompt_tokens": 130,
                            "source_tokens_cut": 0,
                            "control_tokens": 0,
                            "seconds": 0.01,
                        }
                    )
                    given: list[tuple[str, str, float, float, float]] = []
                    for judge, logprobs in [("main", main_logprobs), ("assistant", other_logprobs)][: 1 + assistant]:
                        for decoding in decodings:
                            score = (
                                values[np.argmax(logprobs)]
                                if decoding == "greedy"
                                else float(np.exp(_log_softmax(logprobs)) @ values)
                            )
                            given.append((judge, decoding, np.nan, np.nan, float(score)))
                    if assistant:
                        tuned = [((0.5, 1.0), (0.1, 0.5), (1.0, 2.0), (0.5, 5.0))[which % 4]]
                        for lambda_, t in grid or tuned:
                            contrast = main_logprobs - lambda_ * _log_softmax(other / t)
                            given.append(("pair", "contrastive", lambda_, t, float(values[np.argmax(contrast)])))
                    for judge, decoding, lambda_, t, score in given:
                        failed = rng.random() < 0.02
                        scores.append(
                            key
                            | {"judge": judge, "decoding": decoding, "lambda": lambda_, "temperature": t}
                            | {"score": values[0] if failed else score, "status": "failed" if failed else "parsed"}
                            | {"human": human[a, s]}
                        )
    frame = pd.DataFrame(scores)
    titles = {"main": "SmolLM2-135M-Instruct", "assistant": "early exit at layer 20" if assistant else None}
    return Run(pd.DataFrame(readings), frame, _records(frame), dict.fromkeys(dimensions, SCALE), titles)


def _log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max()
    return x - np.log(np.exp(x).sum())


def _records(scores: pd.DataFrame) -> list[dict]:
    keys = ["split", "dimension", "range_min", "range_max", "range_step", "attack", "defense"]
    keys += ["judge", "decoding", "lambda", "temperature"]
    records = []
    for values, part in scores.groupby(keys, dropna=False, sort=False):
        record = dict(zip(keys, values, strict=True))
        record = {name: None if isinstance(v, float) and np.isnan(v) else v for name, v in record.items()}
        constant = part["score"].nunique() == 1
        found = {}
        for name, correlate in (
            ("pearson", stats.pearsonr),
            ("spearman", stats.spearmanr),
            ("kendall", stats.kendalltau),
        ):
            value = 0.0 if constant else float(correlate(part["score"], part["human"])[0])
            found |= {name: value, f"{name}_low": value - 0.06, f"{name}_high": value + 0.05}
        flags = (["constant"] if constant else []) + (["inverted"] if found["spearman"] < 0 else [])
        records.append(
            {"dataset": "summeval", "level": "dataset"}
            | record
            | {"n": len(part), "groups": part["group_id"].nunique()}
            | found
            | {
                "constant": constant,
                "constant_groups": 0,
                "failed_share": float((part["status"] == "failed").mean()),
                "clamped_share": float((part["status"] == "clamped").mean()),
                "mean_score": float(part["score"].mean()),
                "flags": flags,
            }
        )
    return records


def columns(scores: pd.DataFrame) -> dict[str, np.ndarray]:
    """A frame of scores as `evaluate` takes it."""
    return {name: scores[name].to_numpy() for name in scores}


def comparisons_of(run: Run, **settings) -> list[dict]:
    """comparisons.json of a run."""
    given = columns(run.scores)
    return compare(given, default_pairs(Scores.of(given).cells, RULES), "summeval", **{"resamples": 200} | settings)


def tuning_of(run: Run, tuner: Tuner | None = None, rule: str = "argmax") -> list[dict]:
    """tuning.json of a run whose decoding `contrastive` was tuned; run.scores stay as they are."""
    human = {(row.example_id, row.dimension): row.human for row in run.scores.itertuples()}
    readings = []
    for row in run.readings.itertuples():
        condition = Condition(row.dimension, ScoreRange(row.range_min, row.range_max, row.range_step))
        rated = {row.dimension: human[row.example_id, row.dimension]}
        example = Example(row.example_id, row.group_id, row.system_id, "source", "output", rated)
        prompt = Prompt(example, condition, "prefix", "tail", np.zeros(0, np.int32))
        readings.append(Reading(prompt, row.split, tuple(row.main_logprobs), tuple(row.assistant_logprobs)))
    decodings = {"contrastive": Contrastive(0.5, rule=rule)}
    return [dict(record) for record in tune(readings, decodings, tuner or Dev()).records]


def results_of(run: Run, **more) -> Results:
    """The results of a run."""
    about = {"titles": run.titles, "scale": run.scale, "agreement": {}}
    frames = {"readings": run.readings, "scores": run.scores, "metrics": run.records}
    return Results(**{"config": {"seed": 1}, "environment": ENVIRONMENT, "about": about} | frames | more)


def texts_of(table) -> list[list[str]]:
    """The cells of a table, a list a row."""
    return [[str(cell) for cell in row] for section in table.sections for row in section.rows]


def in_terminal(results: Results, width: int = 100) -> str:
    """The end of a run's output; no line is wider than the terminal."""
    file = io.StringIO()
    Console(file=file, width=width).print(to_terminal(terminal_blocks(results)))
    assert max(map(len, file.getvalue().splitlines())) <= width
    return file.getvalue()


def on_page(results: Results, figures=None) -> str:
    """The page's markup, without its examples."""
    return render_report(replace(results, readings=results.readings.head(0)), figures or {})


def words_of(text: str) -> str:
    """A text without markup, its white space single."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


MIXED = [
    (ScoreRange(1, 5), ScoreRange(1, 10)),
    (ScoreRange(1, 5), ScoreRange(1, 5, 0.5)),
    (ScoreRange(0, 1), ScoreRange(1, 5, 0.1), ScoreRange(0, 100)),
]
"""Ranges with different numbers of candidates."""


@pytest.fixture(scope="session")
def run() -> Run:
    """One dimension, four ranges, main and assistant."""
    return build_run()


@pytest.fixture(scope="session")
def builder() -> Callable[..., Run]:
    """`build_run`, for runs of other shapes."""
    return build_run
