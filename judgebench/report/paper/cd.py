"""The contrastive-decoding paper's tables: correlations with the humans by score range, and the
selected lambda and t.

Source: Fujinuma, "Contrastive Decoding Mitigates Score Range Bias in LLM-as-a-Judge", arXiv
2510.18196.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

import pandas as pd

from judgebench.report.paper import tables as paper
from judgebench.report.paper.tables import Declared, Measure, PaperTable, fill_table, grouped
from judgebench.report.render import escape
from judgebench.report.table import records
from judgebench.results.results import Results, setting
from judgebench.stats.clusters import FEWEST
from judgebench.stats.correlation import CORRELATIONS
from judgebench.tuning.learned import EDGE
from judgebench.tuning.tuners import FILE
from judgebench.types import ScoreRange
from judgebench.words.formats import UNKNOWN, general, is_known, short

ROUNDING = 0.001
"""How far a printed average may lie from that of its printed rows: both are rounded to three
decimals. Further off, the two contradict each other."""

_ENDS = ["range_min", "range_max", "range_step"]
_KEYS = ["dimension", "judge_key", *_ENDS]
_FAMILIES = {"llama-3": "Llama-3", "qwen-2.5": "Qwen-2.5"}
_DATA = "SummEval, 1440 texts of 90 articles"
_AVERAGES = "Average across all score ranges"
_LEGEND = (
    r"Max correlation within score range is \underline{underlined}, max across all ranges is \textit{italicized}, max "
    r"average is \textbf{bolded}"
)
_SLIP = "! The paper's own rows give another average, beyond rounding."
_EDGE = "! at the edge of what was tried: the best may lie beyond."
_ALONE = "No run of these {} was given: the paper's figures alone."


def three_printed(value: float | None) -> str:
    """Three decimals as the paper prints them: it keeps the sign of a rounded zero.

    Example:
        >>> three_printed(0.1236), three_printed(-0.0001)
        ('0.124', '-0.000')
    """
    return f"{value:.3f}" if is_known(value) else UNKNOWN


_CORRELATIONS = [
    Measure(name, head, three_printed, short)
    for name, head in zip(CORRELATIONS, ("Pear.", "Spear.", "Kend."), strict=True)
]
_SETTINGS = [
    Measure("lambda", "λ", general),
    Measure("temperature", "t", general),
    Measure("kappa", "κ", general),
]

_CSV_ENDS = {
    "": "",
    "_low": "_low",
    "_high": "_high",
    "_marks": "_signs",
    "_published": "_text",
    "_published_marks": "_published_marks",
    "_recomputed": "_recomputed",
    "_slip": "_slip",
}
_CORRELATION_CSV = {
    "table": "table",
    "dimension": "dimension",
    "system": "label",
    **dict(zip(_ENDS, _ENDS, strict=True)),
    **{
        f"{key}{end}": f"{key}{column}" for key in CORRELATIONS for end, column in _CSV_ENDS.items()
    },
}
"""Columns of a CSV -> those of the rows."""
_SETTING_CSV = [
    "table",
    "dimension",
    "main",
    "assistant",
    *_ENDS,
    *(measure.key for measure in _SETTINGS),
    "edge",
    *(f"{measure.key}_published" for measure in _SETTINGS),
]

# --- the print -----------------------------------------------------------------------------------


@cache
def printed_correlations() -> pd.DataFrame:
    """Tables 1, 2, 6-9 in print order, each table's averages (without a range) after its ranges.

    `<correlation>_published` is the printed figure, `_recomputed` of averages the mean of the
    printed rows, and `_slip` whether rounding cannot explain that the two differ.
    """
    of_ranges = paper.published("cd_correlations.csv")
    averages = paper.published("cd_correlation_averages.csv")
    rows = pd.concat([of_ranges, averages], ignore_index=True)
    rows = rows.sort_values("table", kind="stable", ignore_index=True)
    is_average = rows["range_min"].isna()
    rows["range_step"] = rows["range_min"].where(is_average, 1.0)
    parts = rows.groupby(["table", "system"])
    for name in CORRELATIONS:
        # an average is a system's last row
        means = parts[name].transform(lambda values: fmean(values.iloc[:-1]))
        recomputed = means.where(is_average)
        rows[f"{name}_recomputed"] = recomputed
        rows[f"{name}_slip"] = (rows[name] - recomputed).abs() > ROUNDING + 1e-9
    names = {name: f"{name}_published" for name in CORRELATIONS}
    return rows.rename(columns=names | {"system": "label"})


@cache
def printed_settings() -> pd.DataFrame:
    """Tables 3-5 in print order; `judgebench.tuning` keeps them, for it can take them."""
    rows = paper.published(str(FILE)).assign(range_step=1.0)
    rows["kappa"] = rows["lambda"] / rows["temperature"]
    return rows.rename(columns={measure.key: f"{measure.key}_published" for measure in _SETTINGS})


# --- ours ---------------------------------------------------------------------------------------

_NUMBERS = [
    *(f"{name}{end}" for name in CORRELATIONS for end in ("", "_low", "_high")),
    "lambda",
    "temperature",
]
_CELL_COLUMNS = [*_KEYS, *_NUMBERS, "flags", "n", "groups", "constant", "dataset", "split", "word"]


@dataclass(frozen=True)
class CdCells:
    """The cells of some runs under one rule.

    Attributes:
        rows: records of metrics.json, one decoding a judge; where two runs have the same cell, the
            first's.
        labels: judge -> its name in tables.
        tuned: the pairs whose lambda and t were.
        notes: dimension -> sentences on cells of several runs that differ.
    """

    rows: pd.DataFrame
    labels: dict[str, str]
    tuned: set[str]
    notes: dict[str, list[str]]


def cd_cells(runs: Iterable[Results], rule: str) -> CdCells:
    """The cells at level dataset of the shown split, without attack and defense."""
    rows = []
    labels: dict[str, str] = {}
    tuned = set()
    for run in runs:
        judges = paper.judges_of(run)
        wanted = {"split": run.split, "level": "dataset", "attack": "none", "defense": "none"}
        shown_records = [record for record in run.metrics if wanted.items() <= record.items()]
        labels = dict(judges.values()) | labels
        known = {record["decoding"] for record in run.tuning or ()}
        for record in paper.counted(run, shown_records, [rule]):
            if record["judge"] == "pair" and record["decoding"] in known:
                tuned.add(record["judge_key"])
            # the paper gives failed answers the lowest score
            if record[CORRELATIONS[0]] is not None:
                rows.append({**record, **(record.get("lowest") or {})})
    frame = pd.DataFrame(rows).reindex(columns=_CELL_COLUMNS)
    frame = frame.astype(dict.fromkeys([*_ENDS, *_NUMBERS], float))
    notes: dict[str, list[str]] = {}
    for (dimension, judge, *ends), part in grouped(frame, _KEYS):
        first = part.iloc[0]
        settings = {setting(row) for row in records(part)}
        distances = [(part[name] - first[name]).abs().max() for name in CORRELATIONS]
        if len(settings) > 1 or any(distance > 5e-4 for distance in distances):
            where = f"{labels[judge]}, range {ScoreRange(*ends)}"
            notes.setdefault(dimension, []).append(
                f"{where}: several runs have it and differ; the first is shown."
            )
    return CdCells(frame.drop_duplicates(_KEYS), labels, tuned, notes)


# --- correlations -------------------------------------------------------------------------------


def build(runs: Iterable[Results]) -> list[PaperTable]:
    """The paper's nine tables (1, 2, 6-9; 3-5), filled from the runs.

    Of several decodings that contrast by argmax the one named "contrastive" counts, else the first.
    """
    cells = cd_cells(runs, "argmax")
    correlations = [
        _correlation_table(number, rows, cells)
        for number, rows in grouped(printed_correlations(), "table")
    ]
    settings = [
        _setting_table(number, rows, cells) for number, rows in grouped(printed_settings(), "table")
    ]
    declared = sorted([*correlations, *settings], key=lambda table: table.name)
    tables = [fill_table(table, cells.rows) for table in declared]
    return [table for table in tables if table is not None]


def _table(
    number: int,
    caption: str,
    printed: pd.DataFrame,
    notes: Callable[[pd.DataFrame], list[str]],
    **declared: Any,
) -> Declared:
    """A table of the cells that are printed, whether a run has them or not."""
    printed = printed.drop(columns="table")
    return Declared(
        f"table_{number}",
        f"Table {number}",
        caption,
        keys=_KEYS,
        printed=lambda selected: printed,
        select=lambda rows: printed[_KEYS].merge(rows, on=_KEYS),
        notes=notes,
        all_ours=False,
        alone=True,
        **declared,
    )


def _correlation_table(number: int, printed: pd.DataFrame, cells: CdCells) -> Declared:
    first = printed.iloc[0]
    slips = printed[[f"{name}_slip" for name in CORRELATIONS]].any(axis=None)
    family = _FAMILIES[first["family"]]
    return _table(
        number,
        f"{family} family: correlation with the humans on summary {first['dimension']}.",
        printed,
        lambda rows: [*_provenance(rows, cells), *([_SLIP] if slips else [])],
        labels={"label": "Model", "range": "Range"},
        measures=_CORRELATIONS,
        csv=_CORRELATION_CSV,
        sections=["range"],
        finish=_with_averages,
        legend=_correlation_legend,
    )


def _correlation_legend(rows: pd.DataFrame) -> str:
    return f"{_LEGEND}, ours and the paper's apart." if rows["ours"].any() else f"{_LEGEND}."


def _with_averages(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the averages of ours, of judges that have all ranges; with the signs of the best,
    and with numbers as the CSV has them."""
    # 1. averages
    ranged = rows["range_min"].notna()
    ranges = rows.loc[ranged, _ENDS].drop_duplicates().shape[0]
    for key in CORRELATIONS:
        by_judge = rows[ranged & rows[key].notna()].groupby("judge_key")[key]
        means = {judge: fmean(values) for judge, values in by_judge if len(values) == ranges}
        rows[key] = rows[key].where(ranged, rows["judge_key"].map(means)).astype(float)
    rows["ours"] = rows[CORRELATIONS[0]].notna()
    rows["range"] = _ranges(rows)
    rows["section"] = rows["range"].map(lambda known: "" if known else _AVERAGES)
    # 2. signs, and numbers as the CSV has them
    for key in CORRELATIONS:
        marks = _best_marks(rows, f"{key}_published")
        slipped = rows[f"{key}_slip"]
        rows[f"{key}_signs"] = _best_marks(rows, key)
        rows[f"{key}_published_marks"] = marks
        rows[f"{key}_published_signs"] = marks + slipped.map({True: "!", False: ""})
        rows[f"{key}_slip"] = _truths(slipped).where(rows[f"{key}_recomputed"].notna(), None)
        rows[f"{key}_recomputed"] = _texts(rows[f"{key}_recomputed"], "{:.5f}")
        rows[f"{key}_text"] = _texts(rows[f"{key}_published"], "{:.3f}")
    return rows.assign(**{end: _texts(rows[end], "{:g}") for end in _ENDS})


def _ranges(rows: pd.DataFrame) -> list[str]:
    """The names of ranges; of averages none."""
    ends = rows[_ENDS].itertuples(index=False)
    return ["" if pd.isna(low) else str(ScoreRange(low, *rest)) for low, *rest in ends]


def _truths(values: pd.Series) -> pd.Series:
    return values.map({True: "true", False: "false"}).astype(object)


def _best_marks(rows: pd.DataFrame, name: str) -> pd.Series:
    """The marks of each row, by the rules of the paper's captions: _ best of its range (which it
    underlines), / best of all ranges (italics), * best average (bold).

    Figures compete as printed, so that a reader never sees one of two equal ones marked. None wins
    alone, and none that is not above 0: a judge that always says the same has 0.000.
    """
    values = rows[name].map(lambda value: float(f"{value:.3f}"))
    averages = rows["range"] == ""
    marks = pd.Series("", index=rows.index)
    for mark, contests in (
        ("_", rows["range"].where(~averages)),
        ("/", averages.where(~averages)),
        ("*", averages.where(averages)),
    ):
        by = values.groupby(contests)
        best = values == by.transform("max")
        won = best & (values > 0) & (by.transform("count") > 1)
        marks = marks.where(~won, marks + mark)
    return marks


def _texts(values: pd.Series, form: str) -> pd.Series:
    texts = [form.format(value) if is_known(value) else None for value in values]
    return pd.Series(texts, values.index, dtype=object)


def _provenance(rows: pd.DataFrame, cells: CdCells) -> list[str]:
    if not len(rows):
        return [_ALONE.format("models")]
    notes = paper.sizes(rows, "n", f"; the paper's: {_DATA}")
    if (rows["spearman_low"].notna() & (rows["groups"] < FEWEST)).any():
        word = " or ".join(rows["word"].unique())
        notes.append(
            f"Fewer than {FEWEST} {word}: the intervals are too narrow, and nothing is "
            "distinguishable from chance."
        )
    if (rows["constant"] == True).any():  # noqa: E712  # unknown is not constant
        notes.append(
            "A judge that gives every text the same score has no correlation; 0.000 stands for it."
        )
    return notes + cells.notes.get(rows["dimension"].iloc[0], [])


# --- lambda and t -------------------------------------------------------------------------------


def _setting_table(number: int, printed: pd.DataFrame, cells: CdCells) -> Declared:
    roles = {role: printed[role].str.split("/").str[-1] for role in ("main", "assistant")}
    printed = printed.assign(**roles)
    return _table(
        number,
        f"Hyper-parameters of contrastive decoding for summary {printed['dimension'].iloc[0]}.",
        printed,
        lambda rows: _setting_notes(rows, cells),
        labels={"main": "Main", "assistant": "Asst", "range": "Range"},
        measures=_SETTINGS,
        csv=dict(zip(_SETTING_CSV, _SETTING_CSV, strict=True)),
        sections=["main"],
        once=["main", "assistant"],
        finish=_with_edges,
        legend=lambda rows: escape(_EDGE) if rows["kappa_signs"].ne("").any() else "",
        digits=None,
    )


def _with_edges(rows: pd.DataFrame) -> pd.DataFrame:
    rows["kappa"] = rows["lambda"] / rows["temperature"]
    rows["ours"] = rows["kappa"].notna()
    edge = pd.Series(
        [isinstance(flags, list | tuple) and EDGE in flags for flags in rows["flags"]], rows.index
    )
    rows["kappa_signs"] = edge.map({True: "!", False: ""})
    rows["edge"] = _truths(edge).where(rows["ours"], None)
    rows["range"] = _ranges(rows)
    return rows.assign(**{end: _texts(rows[end], "{:g}") for end in _ENDS})


def _setting_notes(rows: pd.DataFrame, cells: CdCells) -> list[str]:
    if not len(rows):
        return [_ALONE.format("pairs")]
    pairs = rows["judge_key"].unique()
    untuned = [cells.labels[pair] for pair in pairs if pair not in cells.tuned]
    notes = ["Only kappa = lambda / t matters to a score: equal kappas are one decoding."]
    if untuned:
        notes.append(f"Of ours, not tuned but as configured: {', '.join(untuned)}.")
    return notes
