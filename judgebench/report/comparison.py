"""Several runs on one page: what was different about them, and whether it made a difference."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from judgebench.metrics.cells import COLUMNS
from judgebench.metrics.compare import compare, corrected_together
from judgebench.metrics.levels import shown_level
from judgebench.report import differences
from judgebench.report.browser.data import browse
from judgebench.report.correlation_figure import correlation_figure
from judgebench.report.page import render_page, shown_figure
from judgebench.report.results import Estimate
from judgebench.report.robustness import unattacked
from judgebench.report.run_content import RunContent
from judgebench.report.sections import Section, rendered
from judgebench.report.series import SeriesIndex, number, range_of, setting, shown_split
from judgebench.report.style import MOST_SERIES
from judgebench.runtime.errors import UserError

SECTIONS = (
    Section("compared_answers", "Answers", ("spearman",)),
    Section("compared_configs", "What was different"),
    Section("compared_metrics", "Side by side"),
    Section("compared_differences", "Is one better?"),
    Section("examples", "Examples"),
)
"""Of a comparison."""

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_OF_PLACE = ("run_dir", "store", "logger", "hydra", "report", "examples", "tables")
"""Of a configuration: where results go, not what they are."""


@dataclass(frozen=True)
class NamedRun:
    """A run under the letter that the page calls it by."""

    letter: str
    content: RunContent

    @property
    def title(self) -> str:
        """What was run, in a few words."""
        titles, config = self.content.titles, self.content.config
        assistant = f" with {titles['assistant']}" if titles.get("assistant") else ""
        return f"{titles['main']}{assistant} on {self.content.dataset} ({config.get('name', 'run')})"


@dataclass(frozen=True)
class Cell:
    """One series' correlations and mean score in one run; None where a run has no such record."""

    estimates: Mapping[str, Estimate]
    mean: float | None
    setting: str


@dataclass(frozen=True)
class MetricRow:
    """One condition and series: a cell a run."""

    place: str
    series: str
    cells: Sequence[Cell | None]


@dataclass(frozen=True)
class ConfigRow:
    """A key of the configuration in which the runs differ, and its value in each."""

    key: str
    values: Sequence[str]


def render_comparison(
    runs: Sequence[RunContent], links: Sequence[str] = (), resamples: int = 1000, seed: int = 0
) -> str:
    """The page as text.

    Args:
        links: to the report of each run, as the page is to name it; empty leaves them out.
        resamples, seed: see `compare`.

    Raises:
        UserError: fewer than two runs, or more than there are letters.
    """
    if not 2 <= len(runs) <= len(_LETTERS):
        raise UserError(f"a comparison takes 2 to {len(_LETTERS)} run folders, got {len(runs)}.")
    named = [NamedRun(letter, run) for letter, run in zip(_LETTERS, runs, strict=False)]
    paired = paired_differences(named, resamples, seed)
    shown = differences.arrange_comparisons(paired)
    groups = next(iter({str(run.titles.get("groups") or "articles") for run in runs}))
    browser = browse([run.content.judged(run.letter) for run in named])
    context: dict[str, Any] = {
        "runs": named,
        "links": links,
        "answers": [("Is one better?", comparison_sentences(shown, groups))],
        "metrics": metric_rows(named),
        "split": shown_split(record["split"] for run in runs for record in run.records),
        "configs": config_rows(named),
        "compared": shown,
        "comparison_note": differences.comparison_note(shown, groups, together=True),
        "significance_note": differences.significance_note(shown, together=True),
        "groups": groups,
        "examples": str(runs[0].titles.get("examples") or "examples"),
        "browser": browser,
    }
    figure = correlation_figure(_drawn(unattacked(_lettered_records(named))), {"groups": groups})
    pictures = [shown_figure("spearman", figure)] if figure else []
    page = {name: value for name, value in context.items() if name != "browser"}
    sections = rendered(SECTIONS, pictures, context)
    title = f"{len(named)} runs compared"
    return render_page("comparison.html.j2", browser, title=title, sections=sections, **page)


def paired_differences(runs: Sequence[NamedRun], resamples: int = 1000, seed: int = 0) -> list[dict[str, Any]]:
    """Records of `judgebench.metrics.compare` between each two runs, of every decoding of the main model and of the
    pair that both have, on the examples that both have judged; of test examples where there are such. Nobody asks which
    run's assistant is the better judge, and each comparison more makes Holm's correction stricter: it is over all."""
    records = []
    for one, other in itertools.combinations(runs, 2):
        if one.content.dataset != other.content.dataset:
            continue
        kinds = [dict.fromkeys(_kinds(run.content.scores)) for run in (one, other)]
        # the later run stands first: what was done last is asked whether it is better
        pairs = [((_who(other, kind), kind[1]), (_who(one, kind), kind[1])) for kind in kinds[0] if kind in kinds[1]]
        scores = pd.concat([_lettered(run)[list(COLUMNS)] for run in (one, other)], ignore_index=True)
        split = shown_split(scores["split"])
        scores = scores[(scores["split"] == split) & scores["human"].notna()]
        columns = {name: scores[name].to_numpy() for name in COLUMNS}
        records += compare(columns, pairs, one.content.dataset, ["dataset"], resamples, seed)
    return corrected_together(records)


def comparison_sentences(compared: Sequence[differences.Comparison], groups: str) -> list[str]:
    """One sentence a comparison: where the runs differ by more than chance."""
    told = []
    for one in compared:
        rows = [row for row in one.rows if not row.mean] or list(one.rows)
        clear = [row for row in rows if row.told_apart]
        head = f"{one.condition}: {one.first}, against {one.second},"
        if clear:
            changes = "; ".join(f"{_ends(row)} in range {row.place}" for row in clear)
            told.append(
                f"{head} differs in Spearman by more than chance in {len(clear)} of {len(rows)} ranges: {changes}."
            )
            continue
        widest = max(rows, key=lambda row: abs(row.difference))
        why = differences.note(widest, groups)
        more = f"; {why}" if why else ""
        told.append(f"{head} is not told apart from it: at most {_ends(widest)} in range {widest.place}{more}.")
    return told or ["No two of these runs have judged the same examples under the same condition."]


def metric_rows(runs: Sequence[NamedRun]) -> list[MetricRow]:
    """Every condition and series of the shown split, side by side."""
    found: dict[tuple[str, str], list[Cell | None]] = {}
    for place, run in enumerate(runs):
        records = run.content.records
        split, level = shown_split(r["split"] for r in records), shown_level(r["level"] for r in records)
        shown = [record for record in records if (record["split"], record["level"]) == (split, level)]
        index = SeriesIndex(shown)
        for record in shown:
            key = _condition(record), str(index.of(record))
            estimates = {
                name: Estimate(
                    number(record[name]), number(record.get(f"{name}_low")), number(record.get(f"{name}_high"))
                )
                for name in ("spearman", "kendall", "pearson")
            }
            cell = Cell(estimates, number(record.get("mean_score")), setting(record))
            found.setdefault(key, [None] * len(runs))[place] = cell
    return [MetricRow(*key, cells) for key, cells in found.items()]


def config_rows(runs: Sequence[NamedRun]) -> list[ConfigRow]:
    """Keys of which not all runs have the same value, and data sets; where results go does not count."""
    flat = [dict(_flat(run.content.config)) for run in runs]
    keys = dict.fromkeys(key for one in flat for key in one)
    rows = []
    for key in keys:
        values = [one.get(key, "–") for one in flat]
        if key.split(".")[0] not in _OF_PLACE and len(set(values)) > 1:
            rows.append(ConfigRow(key, values))
    return rows


def _flat(node: Any, name: str = "") -> list[tuple[str, str]]:
    if isinstance(node, Mapping) and node:
        return [pair for key, value in node.items() for pair in _flat(value, f"{name}.{key}" if name else str(key))]
    return [(name, "null" if node is None else str(node))]


def _condition(record: Mapping[str, Any]) -> str:
    axes = [f"{axis} {record[axis]}" for axis in ("attack", "defense") if record[axis] != "none"]
    return ", ".join([str(record["dimension"]), str(range_of(record)), *axes])


def _kinds(scores: pd.DataFrame) -> list[tuple[str, str]]:
    kinds = zip(scores["judge"].astype(str), scores["decoding"].astype(str), strict=True)
    return [kind for kind in kinds if kind[0] != "assistant"]


def _who(run: NamedRun, kind: tuple[str, str]) -> str:
    return f"{run.letter} {kind[0]}"


def _lettered(run: NamedRun) -> pd.DataFrame:
    scores = run.content.scores
    return scores.assign(judge=[f"{run.letter} {one}" for one in scores["judge"]])


def _lettered_records(runs: Sequence[NamedRun]) -> list[dict[str, Any]]:
    return [
        dict(record) | {"judge": f"{run.letter} {record['judge']}"} for run in runs for record in run.content.records
    ]


def _drawn(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those of which a figure can tell the lines apart: without assistants, and where that leaves too many, of the main
    models alone."""
    for left_out in (("assistant",), ("assistant", "pair")):
        held = [record for record in records if not str(record["judge"]).endswith(left_out)]
        if len({(record["judge"], record["decoding"]) for record in held}) <= MOST_SERIES:
            break
    return held


def _ends(row: differences.Difference) -> str:
    ends = "" if row.low is None else f" [{row.low:+.3f}, {row.high:+.3f}]"
    return f"{row.difference:+.3f}{ends}"
