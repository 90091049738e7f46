"""The paper's own figures, as if judgebench's runs had found them."""

from __future__ import annotations

import pytest

from judgebench.metrics.correlation import CORRELATIONS
from judgebench.report.paper.published import model_key, printed_rows, printed_settings
from judgebench.results.results import Results
from judgebench.types import ScoreRange


def run_of(records, main="J", assistant=None, groups="articles", tutor=None, **more) -> Results:
    """A run that found these records of metrics.json, by the names of its models."""
    titles = {"main": main, "assistant": assistant, "groups": groups}
    config = {"tutor": {"path": tutor}} if tutor else {}
    return Results(config=config, about={"titles": titles}, metrics=list(records), **more)


def record(judge, decoding, score_range=None, value=0.5, **more):
    """A record of metrics.json; `value` is one figure for all correlations, or a mapping."""
    values = value if isinstance(value, dict) else dict.fromkeys(CORRELATIONS, value)
    found = {}
    for name in CORRELATIONS:
        found |= {name: values[name], f"{name}_low": values[name] - 0.05, f"{name}_high": values[name] + 0.05}
    at = score_range or ScoreRange(1, 5)
    base = {"dataset": "summeval", "split": "test", "level": "dataset", "dimension": "coherence"}
    base |= {"range_min": at.minimum, "range_max": at.maximum, "range_step": at.step}
    base |= {"attack": "none", "defense": "none", "judge": judge, "decoding": decoding, "lambda": None}
    return base | {"temperature": None, "n": 1440, "groups": 90, "constant": False, "flags": []} | found | more


def as_run(main: str, assistant: str) -> Results:
    """The run of one pair that finds exactly what the paper prints."""
    settings = {(s.dimension, s.system, s.range): s for s in printed_settings()}
    roles = {(model_key(main), None): ("main", "greedy"), (model_key(assistant), None): ("assistant", "greedy")}
    roles[model_key(main), model_key(assistant)] = ("pair", "contrastive")
    records = []
    for row in printed_rows():
        if row.range is not None and row.system in roles:
            chosen = settings.get((row.dimension, row.system, row.range))
            tuned = {"lambda": chosen.lambda_, "temperature": chosen.temperature} if chosen else {}
            records.append(record(*roles[row.system], row.range, dict(row.values), dimension=row.dimension, **tuned))
    names = (main.split("/")[-1], assistant.split("/")[-1])
    return run_of(records, *names, tuning=[{"tune": "dev", "decoding": "contrastive"}])


@pytest.fixture(scope="session")
def paper_runs() -> list[Results]:
    """One run a pair of the paper."""
    return [as_run(*pair) for pair in dict.fromkeys((s.main, s.assistant) for s in printed_settings())]
