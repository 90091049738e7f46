"""The first screen of a run's page: its subject, the verdict, the setting to take, and texts to
look at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import pandas as pd

from judgebench.report.formats import is_known, two
from judgebench.report.table import labelled_rows, rows_by
from judgebench.report.views.bias import spans
from judgebench.report.views.correlations import advised_rows, cell_scores, of_advised
from judgebench.results.results import Results, kept
from judgebench.stats.scores import CLEAN, Cell, cross_fitted, on_scale
from judgebench.stats.verdict import CARE, NO, RULES, YES
from judgebench.types import Rows

WORST = 6
RANDOM = 3
"""Texts that a page shows: those of the largest disagreement, and some drawn at random."""

CALIBRATED = "calibrated"
"""The column that `calibrated_scores` adds."""

_START = 110  # characters of a text in its line
_KINDS = {YES: ("yes", "✓"), CARE: ("care", "~"), NO: ("no", "✗")}


def strips(results: Results) -> Rows:
    """A strip a dimension: a tile a use, with its verdict, the clause, and its kind (yes, care, no
    or open)."""
    strips = []
    for part in rows_by(map(dict, results.verdict), ["dimension"]):
        tiles = []
        for row in part:
            kind, sign = _KINDS.get(row["verdict"], ("open", "–"))
            tile = {"title": RULES[row["use"]].title, "clause": row["clause"], "kind": kind}
            tiles.append(tile | {"verdict": f"{sign} {row['verdict']}"})
        strips.append({"dimension": part[0]["dimension"], "tiles": tiles})
    return strips


@kept
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


@kept
def looks(results: Results) -> Rows:
    """The texts where the settings taken and the humans differ most, as a part of the humans'
    scale, and some others at random: judge (calibrated where `fitted`, else mapped to the scale)
    and its raw score, human, why, start, the judge's reason, and the address of the example on the page. None where
    texts may not be shown, or were compared."""
    if results.examples is None or results.compares or not len(results.readings):
        return []
    # 1. every text that both have scored
    rows = []
    scored = replace(results, scores=calibrated_scores(results))
    for lead in advised_rows(results):
        scale = results.scale.get(lead["dimension"])
        if scale is None or not spans(scale):
            continue
        place = {name: lead[name] for name in ("dimension", "range", "attack", "defense")}
        part = cell_scores(scored, lead)
        asked = Cell.of(lead).range
        plain = on_scale(part["score"].to_numpy(float), asked, scale)
        part["judge"] = part[CALIBRATED].fillna(pd.Series(plain, part.index))
        part["gap"] = (part["judge"] - part["human"]).abs() / (scale[1] - scale[0])
        called = {
            "example_id": "example",
            "group_id": "group",
            "score": "raw",
            CALIBRATED: "fitted",
        }
        part = part.rename(columns=called)[[*called.values(), "judge", "human", "gap"]]
        texts_of_part: Any = part[part["gap"].notna()].to_dict("records")
        rows += [{"place": place, "asked": asked, **text} for text in texts_of_part]
    # 2. each text once, those of the largest gap first
    texts = dict(zip(results.examples["example_id"], results.examples["output"], strict=True))
    reasons = dict[str, str]()
    if "reason" in results.examples:
        reasons.update(zip(results.examples["example_id"], results.examples["reason"], strict=True))
    rows.sort(key=lambda row: -row["gap"])
    distinct = {
        (row["place"]["dimension"], texts.get(row["example"], row["example"])): row
        for row in reversed(rows)
    }
    rows = sorted(distinct.values(), key=lambda row: -row["gap"])
    # 3. the worst, and some of the rest
    rest = rows[WORST:]
    drawn = np.random.default_rng(0).permutation(len(rest))[:RANDOM].tolist()
    several = len({row["place"]["dimension"] for row in rows}) > 1
    shown = [*rows[:WORST], *(rest[place] for place in drawn)]
    for position, row in enumerate(shown):
        place = row.pop("place")
        row |= {**place, "fitted": is_known(row["fitted"])}
        row["raw"] = f"{two(row.pop('asked').mirrored(row['raw']))} in {row['range']}"
        row["address"] = urlencode({"example": row["example"]} | place, quote_via=quote)
        for name in ("judge", "human"):
            row[name] = results.as_rated(row["dimension"], row[name])
        row["why"] = "judge higher" if row["judge"] > row["human"] else "judge lower"
        if position >= WORST:
            row["why"] = "at random"
        row["why"] += f", {row['dimension']}" if several else ""
        row["start"] = beginning(texts.get(row["example"]) or "")
        row["reason"] = reasons.get(row["example"]) or ""
        row |= {name: two(row[name]) for name in ("judge", "human")}
    return shown


def beginning(text: str) -> str:
    """The first characters of a text, in one line.

    Example:
        >>> beginning("The council  met")
        'The council met'
    """
    line = " ".join(text.split())
    return line if len(line) <= _START else f"{line[:_START]}…"
