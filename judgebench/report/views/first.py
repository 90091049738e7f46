"""The first screen of a run's page: its subject, the verdict, the setting to take, and texts to
look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import pandas as pd

from judgebench.report.table import labelled_rows, rows_by
from judgebench.report.views.bias import spans
from judgebench.report.views.correlations import advised_rows, cell_scores, of_advised
from judgebench.report.views.decisions import chosen_record
from judgebench.report.views.verdicts import verdict_rows
from judgebench.results.results import Results, cached
from judgebench.stats.folds import cross_fitted
from judgebench.stats.maps import rescale
from judgebench.studies.rules import CARE, NO, YES
from judgebench.studies.scores import CLEAN, ScoreSeries
from judgebench.types import Record, Row, Rows, ScoreRange
from judgebench.words.formats import is_known, say, two

WORST = 6
RANDOM = 3
"""Texts that a page shows: those of the largest disagreement, and some drawn at random."""

CALIBRATED = "calibrated"
"""The column that `calibrated_scores` adds."""

_PLACE = ("dimension", "range", "attack", "defense")
_START = 110  # characters of a text in its line
_KINDS = {YES: ("yes", "✓"), CARE: ("care", "~"), NO: ("no", "✗")}


def strips(results: Results) -> Rows:
    """A strip a dimension: a tile a use, with its verdict, the clause, and its kind (yes, care, no
    or open)."""
    strips = []
    for part in rows_by(verdict_rows(results), ["dimension"]):
        tiles = []
        for row in part:
            kind, sign = _KINDS.get(row["verdict"], ("open", "–"))
            tile = {"title": row["title"], "clause": row["clause"], "kind": kind}
            tiles.append(tile | {"verdict": f"{sign} {row['verdict']}"})
        strips.append({"dimension": part[0]["dimension"], "tiles": tiles})
    return strips


@cached
def calibrated_scores(results: Results) -> pd.DataFrame:
    """The rows of scores.parquet with a column `CALIBRATED`: clean scores of the settings taken on
    the humans' scale, calibrated by other groups, in every range; NaN for others, and where they
    cannot be calibrated."""
    fitted = pd.Series(np.nan, index=results.scores.index)
    clean = labelled_rows(record for record in results.shown if record["attack"] == CLEAN)
    for row in of_advised(results, clean):
        if spans(results.scale.get(row["dimension"])):
            part = cell_scores(results, row)
            fitted[part.index] = cross_fitted(
                part["score"].to_numpy(),
                part["human"].to_numpy(),
                part["group_id"].to_numpy(),
                seed=results.config.get("seed") or 0,
            )
    return results.scores.assign(**{CALIBRATED: fitted})


@cached
def looks(results: Results) -> Rows:
    """The texts where the settings taken and the humans differ most, as a part of the humans'
    scale, and some others at random: what judge and humans say, the judge's raw answer, `how` its
    score was brought to the humans' scale, why, start, the judge's reason, and the address of the example on the
    page.
    Of a judge that says pass or fail: its mistakes farthest from the mark, of both kinds, the
    dearer first. None where texts may not be shown, or were compared."""
    if results.examples is None or results.compares or not len(results.readings):
        return []
    # 1. every text that both have scored
    rows: Rows = []
    scored = replace(results, scores=calibrated_scores(results))
    for lead in advised_rows(results):
        part = cell_scores(scored, lead)
        place = {name: lead[name] for name in _PLACE}
        decision = chosen_record(results, lead["dimension"])
        if is_known(decision.get("pass_mark")):
            texts_of_part = _decided(results, part, decision)
        else:
            texts_of_part = _graded(results, part, lead)
        rows += [place | text for text in texts_of_part]
    counts = Counter(row["why"] for row in rows if row["wrong"])
    # 2. each text once, those of the largest gap first
    examples = results.examples.set_index("example_id")
    texts = examples["output"].to_dict()
    reasons: Any = examples.get("reason", {})
    rows.sort(key=lambda row: -row["gap"])
    distinct = {
        (row["dimension"], texts.get(row["example"], row["example"])): row for row in reversed(rows)
    }
    rows = sorted(distinct.values(), key=lambda row: -row["gap"])
    # 3. the worst, of each kind of mistake as many, and some of the rest
    kinds = rows_by([row for row in rows if row["wrong"]], ["why"])
    kinds.sort(key=lambda part: not part[0]["dear"])
    mistakes = list(filter(None, chain.from_iterable(zip_longest(*kinds))))[:WORST]
    worst = sorted(mistakes, key=lambda row: not row["dear"]) or rows[:WORST]
    rest = [row for row in rows if row not in worst]
    order = np.random.default_rng(0).permutation(len(rest))
    drawn = [rest[number] | {"why": "at random"} for number in order[:RANDOM].tolist()]
    several = len({row["dimension"] for row in rows}) > 1
    shown = [*worst, *drawn]
    for row in shown:
        row["counts"] = counts
        row["address"] = urlencode(
            {name: row[name] for name in ("example", *_PLACE)}, quote_via=quote
        )
        row["why"] += f", {row['dimension']}" if several else ""
        row["start"] = beginning(texts.get(row["example"]) or "")
        row["reason"] = reasons.get(row["example"]) or ""
    return shown


def _graded(results: Results, part: pd.DataFrame, lead: Row) -> Iterator[Record]:
    """The texts that have a score, with the gap between judge and humans."""
    dimension = lead["dimension"]
    scale = results.scale.get(dimension)
    if scale is None or not spans(scale):
        return
    asked = ScoreSeries.of(lead).range
    plain = rescale(part["score"].to_numpy(float), asked.ends, scale)
    part = part.assign(judged=part[CALIBRATED].fillna(pd.Series(plain, part.index)))
    names = ["example_id", "group_id", "score", "human", "judged", CALIBRATED]
    rows: Any = part[names].to_dict("records")
    for row in rows:
        gap = abs(row["judged"] - row["human"]) / (scale[1] - scale[0])
        judge, human = (results.as_rated(dimension, row[name]) for name in ("judged", "human"))
        if is_known(gap):
            yield {
                "example": row["example_id"],
                "group": row["group_id"],
                "gap": gap,
                "wrong": False,
                "judge": two(judge),
                "human": two(human),
                "how": "calibrated" if is_known(row[CALIBRATED]) else "mapped",
                "raw": _raw(asked, row["score"]),
                "why": "judge higher" if judge > human else "judge lower",
            }


def _decided(results: Results, part: pd.DataFrame, decision: Row) -> Iterator[Record]:
    """The texts that people pass or fail in the mean, with the decision by the judge's mark, whether it
    is wrong, and of the `dear` kind; the gap is the way from the mark as a part of the range, below
    0 where it is right."""
    dimension = decision["dimension"]
    mark = decision["pass_mark"]
    asked = ScoreSeries.of(decision).range
    costs = results.config.get("costs") or {}
    dear = costs.get("false_pass", 1.0) >= costs.get("false_fail", 1.0)
    between = results.about["classes"][dimension]["pass_from"] - 0.5  # of two labels, the nearer
    rows: Any = part[part["score"].notna() & part["human"].notna()].to_dict("records")
    for row in rows:
        said = row["score"] >= mark
        passed = row["human"] > between
        way = abs(row["score"] - mark) / (asked.maximum - asked.minimum)
        if row["human"] != between:
            yield {
                "example": row["example_id"],
                "group": row["group_id"],
                "gap": way if said != passed else way - 2,
                "wrong": said != passed,
                "dear": said == dear,
                "judge": decision["classes"][said],
                "human": decision["classes"][passed],
                "how": "",
                "raw": "" if asked.worded else _raw(asked, row["score"]),
                "why": "false pass" if said else "false fail",
            }


def _raw(asked: ScoreRange, score: float) -> str:
    """The judge's answer, and the range that it was asked for."""
    said = asked.text(score) if asked.worded else two(asked.mirrored(score))
    return f"{said} in {asked}"


def look_note(results: Results) -> str:
    """A note on the texts to look at; of a judge that says pass or fail, how many mistakes of each
    kind it makes, texts on which most people agree."""
    rows = looks(results)
    graded = any(row["how"] for row in rows)
    return say("look", results=results, rows=rows, graded=graded) if rows else ""


def beginning(text: str) -> str:
    """The first characters of a text, in one line.

    Example:
        >>> beginning("The council  met")
        'The council met'
    """
    line = " ".join(text.split())
    return line if len(line) <= _START else f"{line[:_START]}…"
