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
from judgebench.report.html import render_page, rendered
from judgebench.report.layout import EXAMPLES, PageSection
from judgebench.report.table import Block, Col, Facts, Paragraph, Rows, View, records
from judgebench.report.views.beside import BESIDE_RUNS
from judgebench.report.views.correlations import COMPARISONS, comparison_note, comparison_rows, comparison_sentences
from judgebench.report.views.humans import ceilings
from judgebench.report.views.league import league_of_tasks
from judgebench.report.views.tuning import TASKS_TABLE
from judgebench.results.results import Results, condition_text, labelled, unattacked, with_labels
from judgebench.runtime.errors import UserError
from judgebench.stats.paired import compare, corrected_together
from judgebench.stats.scores import COLUMNS, Scores, shown_split

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_OF_PLACE = ("run_dir", "store", "logger", "hydra", "report", "worth", "examples", "tables")
"""Of a configuration: where results go, not what they are."""


@dataclass(frozen=True)
class Compared:
    """Several runs by the letters that a page calls them by, and the paired differences between each two."""

    runs: Mapping[str, Results]
    differences: Sequence[Mapping[str, Any]] = ()

    @property
    def groups(self) -> str:
        """The word for groups of examples."""
        return next(iter(self.runs.values())).groups


def lettered(runs: Sequence[Results]) -> dict[str, Results]:
    """Runs by the letters that a page calls them by; a `UserError` where there are too many."""
    if not 1 <= len(runs) <= len(_LETTERS):
        raise UserError(f"a page of several runs takes up to {len(_LETTERS)} run folders, got {len(runs)}.")
    return dict(zip(_LETTERS, runs, strict=False))


def render_comparison(runs: Sequence[Results], links: Sequence[str] = (), resamples: int = 1000, seed: int = 0) -> str:
    """The page as text; of runs on several data sets that of `render_tasks`.

    Args:
        links: to the report of each run, as the page is to name it; empty leaves them out.
        resamples, seed: see `compare`.
    """
    if len({run.dataset for run in runs}) > 1:
        return render_tasks(runs, links)
    letters = lettered(runs)
    compared = Compared(letters, paired_differences(letters, resamples, seed))
    # Series that a figure can show apart: without assistants, and where that leaves too many, of the main models alone.
    metrics = [dict(record) | {"judge": f"{letter} {record['judge']}"}
               for letter, run in letters.items() for record in run.metrics]  # fmt: skip
    for left_out in (("assistant",), ("assistant", "pair")):
        drawn = [record for record in unattacked(metrics) if not str(record["judge"]).endswith(left_out)]
        if len({(record["judge"], record["decoding"]) for record in drawn}) <= MOST_SERIES:
            break
    figure = correlation_figure(drawn, {"groups": compared.groups}, ceilings(runs[0]))
    figures = {"spearman": figure} if figure else {}
    browser = browse(letters)
    sections = rendered(SECTIONS, compared, figures, browser, runs[0].examples_word)
    facts = {"title": f"{len(letters)} runs compared", "titles": _titles(letters), "links": links}
    return render_page("comparison.html.j2", browser, sections=sections, runs=letters, **facts)


def render_tasks(runs: Sequence[Results], links: Sequence[str] = ()) -> str:
    """The page of runs on several data sets as text. Nothing on it sets one data set against another: neither tests,
    which take the same texts, nor figures in which equal names of dimensions meet."""
    letters = lettered(runs)
    sections = rendered(TASK_SECTIONS, Compared(letters), {}, None, "")
    facts = {"title": f"{len(letters)} tasks", "titles": _titles(letters), "links": links}
    return render_page("comparison.html.j2", None, sections=sections, runs=letters, **facts)


def _titles(runs: Mapping[str, Results]) -> dict[str, str]:
    """Each run in a few words."""
    models = {letter: [run.titles["main"], run.titles.get("assistant")] for letter, run in runs.items()}
    return {
        letter: f"{' with '.join(filter(None, models[letter]))} on {run.dataset} ({run.config.get('name', 'run')})"
        for letter, run in runs.items()
    }


def paired_differences(runs: Mapping[str, Results], resamples: int = 1000, seed: int = 0) -> list[dict[str, Any]]:
    """Records of `judgebench.stats.paired.compare` between each two runs, of every decoding of the main model and of
    the pair that both have, on the examples that both have judged; of test examples where there are such. No question
    asks which run's assistant is the better judge, and each comparison more makes Holm's correction stricter: it is
    over all."""
    differences = []
    for (letter, run), (later, other) in itertools.combinations(runs.items(), 2):
        if run.dataset != other.dataset:
            continue
        kinds = []
        for each in (run, other):
            pairs = zip(each.scores["judge"].astype(str), each.scores["decoding"].astype(str), strict=True)
            kinds.append(dict.fromkeys(pair for pair in pairs if pair[0] != "assistant"))
        # The later run stands first: the question is whether what was done last is better.
        asked = [((f"{later} {judge}", decoding), (f"{letter} {judge}", decoding))
                 for judge, decoding in kinds[0] if (judge, decoding) in kinds[1]]  # fmt: skip
        both = [
            each.scores.assign(judge=f"{name} " + each.scores["judge"].astype(str))[with_labels(COLUMNS, each.scores)]
            for name, each in ((letter, run), (later, other))
        ]
        scores = pd.concat(both, ignore_index=True)
        scores = scores[(scores["split"] == shown_split(scores["split"])) & scores["human"].notna()]
        differences += compare(Scores.of(scores), asked, run.dataset, ["dataset"], resamples, seed)
    return corrected_together(differences)


# --- sections ---------------------------------------------------------------------------------------------------------


def _answers(compared: Compared) -> list[Block]:
    rows = comparison_rows(compared.differences, compared.groups)
    return [Facts([("Is one better?", comparison_sentences(rows))], answers=True)]


def _configs(compared: Compared) -> list[Block]:
    """Keys of which not all runs have the same value, and data sets."""

    def flat(node: Any, name: str = "") -> dict[str, str]:
        if isinstance(node, Mapping) and node:
            parts = (flat(value, f"{name}.{key}" if name else str(key)) for key, value in node.items())
            return {key: value for part in parts for key, value in part.items()}
        return {name: "null" if node is None else str(node)}

    configs = {letter: flat(run.config) for letter, run in compared.runs.items()}
    rows = [
        {"key": key, **{letter: config.get(key, "–") for letter, config in configs.items()}}
        for key in dict.fromkeys(key for config in configs.values() for key in config)
    ]
    rows = [row for row in rows if row["key"].split(".")[0] not in _OF_PLACE and len(set(row.values())) > 2]
    columns = (Col("key", "key", left=True), *(Col(letter, letter, left=True) for letter in configs))
    note = "Keys of the configuration in which the runs differ; where results go is left out."
    tables = View("configs", "What was different", lambda _: rows, columns, note=note).tables(compared)
    return [*tables] or [Paragraph("The configurations say the same.")]


def _metrics(compared: Compared) -> list[Block]:
    """Every condition and series of the reported split, the runs side by side."""
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    columns = [Col("condition", "place", left=True), Col("judge, decoding", "series", left=True)]
    for letter, run in compared.runs.items():
        columns.append(Col(f"{letter}: Spearman", letter, three, short, detail=f"{letter} setting"))
        columns.append(Col("mean score", f"{letter} mean", two))
        for row in records(labelled(run.shown)):
            place = condition_text(row | {"dimension": f"{row['dimension']}, {row['range']}"})
            cell = cells.setdefault((place, row["series"]), {"place": place, "series": row["series"]})
            cell |= {f"{letter}{end}": row.get(f"spearman{end}") for end in ("", "_low", "_high")}
            cell |= {f"{letter} mean": row.get("mean_score"), f"{letter} setting": row["setting"]}
    split = next(iter(compared.runs.values())).split.capitalize()
    note = (
        f"{split} split. Intervals of two runs may overlap and the runs differ all the same, for they judged the same "
        "texts: the next section compares them text by text."
    )
    how: dict[str, Any] = {"sections": ["place"], "once": ["place"], "note": note, "brackets": "{groups} resampled"}
    return [*View("metrics", "Side by side", lambda _: list(cells.values()), columns, **how).tables(compared)]


def _difference_note(compared: Compared, rows: Rows) -> str:
    return f"{comparison_note(rows, compared.groups, together=True)} On the examples that both runs have judged."


_DIFFERENCES = replace(
    COMPARISONS,
    frame=lambda compared: comparison_rows(compared.differences, compared.groups),
    note=_difference_note,
)
_CONFIGS = PageSection("compared_configs", "What was different", (_configs,))

SECTIONS = (
    PageSection("compared_answers", "Answers", (_answers, "spearman")),
    _CONFIGS,
    PageSection("compared_metrics", "Side by side", (_metrics,)),
    PageSection("compared_beside", "Beside humans", (lambda compared: BESIDE_RUNS.tables(compared.runs),)),
    PageSection("compared_differences", "Is one better?", (_DIFFERENCES.tables,)),
    PageSection("examples", "Examples", (EXAMPLES,)),
)
"""Of a comparison."""

TASK_SECTIONS = (
    PageSection("league", "Which repair helps?", (lambda compared: league_of_tasks(compared.runs),)),
    PageSection("tasks", "Tasks", (lambda compared: TASKS_TABLE(compared.runs),)),
    _CONFIGS,
)
"""Of runs on several data sets."""
