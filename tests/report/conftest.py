"""A synthetic run: what the pipeline hands to report and tracking, small and realistic."""

import html
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from judgebench.decoding import Contrastive
from judgebench.report.html import render_report
from judgebench.report.layout import terminal_blocks
from judgebench.report.render import to_terminal
from judgebench.results.results import Results
from judgebench.studies.evaluate import evaluate
from judgebench.studies.paired import compare, default_pairs
from judgebench.studies.scores import Scores
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
        for (which, score_range), a, s in product(enumerate(ranges), range(articles), range(systems)):
            values = np.asarray(score_range.values)
            size, favoured = len(values), (0.5, 0.75, 0.25, 0.5, 0.6, 0.3, 0.7, 0.4)[which % 8]
            place, seen = np.arange(size) / (size - 1), quality[a, s] + rng.normal(0, 0.25)
            main = -9 * np.abs(place - 0.6 * favoured - 0.4 * seen) + rng.normal(0, 0.2, size)
            other = -9 * np.abs(place - 0.95 * favoured - 0.05 * seen) + rng.normal(0, 0.2, size)
            logprobs = {"main": log_softmax(main) - 0.1, "assistant": log_softmax(other) - 0.6}
            text = {"example_id": f"article-{a}/system-{s}", "group_id": f"article-{a}", "system_id": f"system-{s}"}
            condition = {"split": "dev" if a < dev_articles else "test", "dimension": dimension}
            key = text | condition | score_range.columns | {"attack": "none", "defense": "none"}
            read = {"main_logprobs": logprobs["main"].tolist(), "assistant_logprobs": None, "text": None}
            if assistant:
                read["assistant_logprobs"] = logprobs["assistant"].tolist()
            read |= {"judge": None, "decoding": None, "lambda": None, "temperature": None}
            if generated:
                read |= {"main_logprobs": None, "assistant_logprobs": None, "judge": "main", "decoding": "greedy"}
                read["text"] = f"I say {values[np.argmax(main)]:g}."
            prompt = f"Article {a}. " + "A sentence of the article. " * 20 + f"Summary {s}."
            read |= {"candidates": list(score_range.candidates), "prompt": prompt, "prompt_tokens": 130}
            readings.append(key | read | {"source_tokens_cut": 0, "control_tokens": 0, "seconds": 0.01})
            given: list[tuple[str, str, float, float, float]] = []
            for judge in ("main", "assistant")[: 1 + assistant]:
                mean = float(np.exp(log_softmax(logprobs[judge])) @ values)
                best = float(values[np.argmax(logprobs[judge])])
                given += [(judge, name, np.nan, np.nan, best if name == "greedy" else mean) for name in decodings]
            tuned = [((0.5, 1.0), (0.1, 0.5), (1.0, 2.0), (0.5, 5.0))[which % 4]]
            for lambda_, t in (grid or tuned) if assistant else ():
                contrast = logprobs["main"] - lambda_ * log_softmax(other / t)
                given.append(("pair", "contrastive", lambda_, t, float(values[np.argmax(contrast)])))
            for judge, decoding, lambda_, t, score in given:
                failed = rng.random() < 0.02
                how = {"judge": judge, "decoding": decoding, "lambda": lambda_, "temperature": t}
                how |= {"score": values[0] if failed else score, "status": "failed" if failed else "parsed"}
                scores.append(key | how | {"human": human[a, s]})
    frame = pd.DataFrame(scores)
    records = evaluate(columns(frame), "summeval", ["dataset"], resamples=20)
    titles = {"main": "SmolLM2-135M-Instruct", "assistant": "early exit at layer 20" if assistant else None}
    return Run(pd.DataFrame(readings), frame, records, dict.fromkeys(dimensions, SCALE), titles)


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x).sum())  # of small numbers; scipy's takes a millisecond


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
    Console(file=file, width=width).print(to_terminal(terminal_blocks(results, tables=True)))
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
    """`build_run`, for runs of other shapes, each made once: none may be changed in place."""
    made: dict[str, Run] = {}

    def built(**shape) -> Run:
        key = repr(sorted(shape.items()))
        if key not in made:
            made[key] = build_run(**shape)
        return made[key]

    return built
