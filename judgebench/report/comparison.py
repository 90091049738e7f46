"""Several runs on one page: what was different about them, and whether it made a difference."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from judgebench.report.browser.data import browse
from judgebench.report.figures.scores import correlation_figure
from judgebench.report.figures.style import MOST_SERIES
from judgebench.report.formats import short, three, two
from judgebench.report.html import browser_part, render_page, rendered, shown_figure
from judgebench.report.layout import EXAMPLES, Drawn, PageSection
from judgebench.report.table import Block, Col, Facts, Paragraph, Rows, View, records
from judgebench.report.views.beside import BESIDE_RUNS
from judgebench.report.views.comparisons import (
    COMPARISONS,
    comparison_note,
    comparison_rows,
    comparison_sentences,
)
from judgebench.report.views.humans import ceilings
from judgebench.report.views.tasks import TASKS_TABLE
from judgebench.results.results import Results, unattacked
from judgebench.results.series import condition_text, labelled, with_labels
from judgebench.runtime.errors import UserError
from judgebench.stats.paired import compare, corrected_together
from judgebench.stats.scores import COLUMNS, Scores, shown_split

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_OF_PLACE = ("run_dir", "store", "logger", "hydra", "report", "worth", "examples", "tables")
"""Of a configuration: where results go, not what they are."""


@dataclass(frozen=True)
class NamedRun:
    """A run under the letter that the page calls it by."""

    letter: str
    content: Results

    @property
    def title(self) -> str:
        """The run in a few words."""
        titles, config = self.content.titles, self.content.config
        assistant = f" with {titles['assistant']}" if titles.get("assistant") else ""
        return f"{titles['main']}{assistant} on {self.content.dataset} ({config.get('name', 'run')})"


@dataclass(frozen=True)
class Compared:
    """Several runs, and the paired differences between each two."""

    runs: Sequence[NamedRun]
    differences: Sequence[Mapping[str, Any]]

    @property
    def groups(self) -> str:
        """The word for groups of examples."""
        return self.runs[0].content.groups


def render_comparison(runs: Sequence[Results], links: Sequence[str] = (), resamples: int = 1000, seed: int = 0) -> str:
    """The page as text; of runs on several data sets that of `render_tasks`.

    Args:
        links: to the report of each run, as the page is to name it; empty leaves them out.
        resamples, seed: see `compare`.

    Raises:
        UserError: fewer than two runs, or more than there are letters.
    """
    if not 2 <= len(runs) <= len(_LETTERS):
        raise UserError(f"a comparison takes 2 to {len(_LETTERS)} run folders, got {len(runs)}.")
    if len({run.dataset for run in runs}) > 1:
        return render_tasks(runs, links)
    named = [NamedRun(letter, run) for letter, run in lettered(runs).items()]
    compared = Compared(named, paired_differences(named, resamples, seed))
    browser = browse({run.letter: run.content for run in named})
    records_of_all = _drawn(unattacked(_lettered_records(named)))
    figure = correlation_figure(records_of_all, {"groups": compared.groups}, ceilings(runs[0]))
    pictures = [shown_figure("spearman", figure)] if figure else []
    sections = rendered(SECTIONS, compared, pictures, browser_part(browser, runs[0].examples_word))
    title = f"{len(named)} runs compared"
    return render_page("comparison.html.j2", browser, title=title, sections=sections, runs=named, links=links)


def render_tasks(runs: Sequence[Results], links: Sequence[str] = ()) -> str:
    """The page of runs on several data sets as text. Nothing on it sets one data set against another: neither tests,
    which take the same texts, nor figures in which equal names of dimensions meet.

    Args:
        links: see `render_comparison`.

    Raises:
        UserError: no run, or more than there are letters.
    """
    if not 1 <= len(runs) <= len(_LETTERS):
        raise UserError(f"a page of tasks takes 1 to {len(_LETTERS)} run folders, got {len(runs)}.")
    named = [NamedRun(letter, run) for letter, run in lettered(runs).items()]
    sections = rendered(TASK_SECTIONS, Compared(named, ()), [], {})
    title = f"{len(named)} tasks"
    return render_page("comparison.html.j2", None, title=title, sections=sections, runs=named, links=links)


def lettered(runs: Sequence[Results]) -> dict[str, Results]:
    """Runs by the letters that a page calls them by."""
    return dict(zip(_LETTERS, runs, strict=False))


def paired_differences(runs: Sequence[NamedRun], resamples: int = 1000, seed: int = 0) -> list[dict[str, Any]]:
    """Records of `judgebench.stats.paired.compare` between each two runs, of every decoding of the main model and of
    the pair that both have, on the examples that both have judged; of test examples where there are such. Nobody asks
    which run's assistant is the better judge, and each comparison more makes Holm's correction stricter: it is over
    all."""
    records = []
    for one, other in itertools.combinations(runs, 2):
        if one.content.dataset != other.content.dataset:
            continue
        kinds = [dict.fromkeys(_kinds(run.content.scores)) for run in (one, other)]
        # the later run stands first: what was done last is asked whether it is better
        pairs = [((_who(other, kind), kind[1]), (_who(one, kind), kind[1])) for kind in kinds[0] if kind in kinds[1]]
        both = [_lettered(run)[with_labels(COLUMNS, run.content.scores)] for run in (one, other)]
        scores = pd.concat(both, ignore_index=True)
        split = shown_split(scores["split"])
        scores = scores[(scores["split"] == split) & scores["human"].notna()]
        records += compare(Scores.of(scores), pairs, one.content.dataset, ["dataset"], resamples, seed)
    return corrected_together(records)


def _answers(compared: Compared) -> list[Block]:
    frame = comparison_rows(compared.differences, compared.groups)
    return [Facts([("Is one better?", comparison_sentences(frame))], answers=True)]


def _config_frame(compared: Compared) -> pd.DataFrame:
    """Keys of which not all runs have the same value, and data sets; where results go does not count."""
    flat = {run.letter: dict(_flat(run.content.config)) for run in compared.runs}
    rows = []
    for key in dict.fromkeys(key for one in flat.values() for key in one):
        values = {letter: one.get(key, "–") for letter, one in flat.items()}
        if key.split(".")[0] not in _OF_PLACE and len(set(values.values())) > 1:
            rows.append({"key": key, **values})
    return pd.DataFrame(rows)


def _configs(compared: Compared) -> list[Block]:
    columns = (Col("key", "key", left=True), *(Col(run.letter, run.letter, left=True) for run in compared.runs))
    note = "Keys of the configuration in which the runs differ; where results go is left out."
    tables = View("configs", "What was different", _config_frame, columns, note=note).tables(compared)
    return [*tables] if tables else [Paragraph("The configurations say the same.")]


def _metric_frame(compared: Compared) -> pd.DataFrame:
    """Every condition and series of the reported split, the runs side by side."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for run in compared.runs:
        letter = run.letter
        for row in records(labelled(run.content.shown)):
            place = condition_text(row | {"dimension": f"{row['dimension']}, {row['range']}"})
            key = place, row["series"]
            own = {f"{letter}{end}": row.get(f"spearman{end}") for end in ("", "_low", "_high")}
            own |= {f"{letter} mean": row.get("mean_score"), f"{letter} setting": row["setting"]}
            found.setdefault(key, {"place": key[0], "series": key[1]}).update(own)
    return pd.DataFrame(list(found.values()))


def _metrics(compared: Compared) -> list[Block]:
    columns = [Col("condition", "place", left=True), Col("judge, decoding", "series", left=True)]
    for run in compared.runs:
        letter = run.letter
        columns.append(Col(f"{letter}: Spearman", letter, three, ends=short, detail=f"{letter} setting"))
        columns.append(Col("mean score", f"{letter} mean", two))
    split = compared.runs[0].content.split.capitalize()
    note = (
        f"{split} split. In brackets: 95 % interval, {compared.groups} resampled. Intervals of two runs may overlap "
        "and the runs differ all the same, for they judged the same texts: the next section compares them text by text."
    )
    view = View("metrics", "Side by side", _metric_frame, columns, sections=["place"], once=["place"], note=note)
    return [*view.tables(compared)]


def _difference_note(compared: Compared, rows: Rows) -> str:
    return f"{comparison_note(rows, compared.groups, together=True)} On the examples that both runs have judged."


_DIFFERENCES = replace(
    COMPARISONS,
    frame=lambda compared: comparison_rows(compared.differences, compared.groups),
    note=_difference_note,
)


def _beside(compared: Compared) -> list[Block]:
    return [*BESIDE_RUNS.tables({run.letter: run.content for run in compared.runs})]


SECTIONS = (
    PageSection("compared_answers", "Answers", (_answers, Drawn("spearman"))),
    PageSection("compared_configs", "What was different", (_configs,)),
    PageSection("compared_metrics", "Side by side", (_metrics,)),
    PageSection("compared_beside", "Beside humans", (_beside,)),
    PageSection("compared_differences", "Is one better?", (_DIFFERENCES.tables,)),
    EXAMPLES,
)
"""Of a comparison."""


def _tasks(compared: Compared) -> list[Block]:
    return TASKS_TABLE({run.letter: run.content for run in compared.runs})


TASK_SECTIONS = (
    PageSection("tasks", "Tasks", (_tasks,)),
    PageSection("compared_configs", "What was different", (_configs,)),
)
"""Of runs on several data sets."""


def _flat(node: Any, name: str = "") -> list[tuple[str, str]]:
    if isinstance(node, Mapping) and node:
        return [pair for key, value in node.items() for pair in _flat(value, f"{name}.{key}" if name else str(key))]
    return [(name, "null" if node is None else str(node))]


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
        dict(record) | {"judge": f"{run.letter} {record['judge']}"} for run in runs for record in run.content.metrics
    ]


def _drawn(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Series that a figure can show apart: without assistants, and where that leaves too many, of the main
    models alone."""
    for left_out in (("assistant",), ("assistant", "pair")):
        held = [record for record in records if not str(record["judge"]).endswith(left_out)]
        if len({(record["judge"], record["decoding"]) for record in held}) <= MOST_SERIES:
            break
    return held
