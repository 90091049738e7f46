"""The first screen of a run's page: its subject, the verdict, the setting to take, and texts to
look at."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote, urlencode

import numpy as np
import pandas as pd

from judgebench.report.formats import is_known, two
from judgebench.report.table import Rows, records, rows_by
from judgebench.report.views.bias import spans
from judgebench.report.views.correlations import advised_rows, cell_scores, of_advised
from judgebench.results.results import Results, kept, labelled
from judgebench.stats.scores import CLEAN, Cell, cross_fitted, on_scale
from judgebench.stats.verdict import CARE, NO, RULES, YES

WORST = 6
RANDOM = 3
"""Texts that a page shows: those of the largest disagreement, and some drawn at random."""

CALIBRATED = "calibrated"
"""The column that `calibrated_scores` adds."""

_START = 110  # characters of a text in its line
_SIGNS = {YES: "✓", CARE: "~", NO: "✗"}
_KINDS = {YES: "yes", CARE: "care", NO: "no"}


def strips(results: Results) -> Rows:
    """A strip a dimension: a tile a use, with its verdict, the clause, and its kind (yes, care, no
    or open)."""
    found = []
    for part in rows_by([dict(row) for row in results.verdict], ["dimension"]):
        tiles = [
            {
                "title": RULES[row["use"]].title,
                "verdict": f"{_SIGNS.get(row['verdict'], '–')} {row['verdict']}",
                "clause": row["clause"],
                "kind": _KINDS.get(row["verdict"], "open"),
            }
            for row in part
        ]
        found.append({"dimension": part[0]["dimension"], "tiles": tiles})
    return found


@kept
def calibrated_scores(results: Results) -> pd.DataFrame:
    """The rows of scores.parquet with a column `CALIBRATED`: clean scores of the settings taken on
    the humans' scale, calibrated by other groups, in every range; NaN for others, and where they
    cannot be calibrated."""
    fitted = np.full(len(results.scores), np.nan)
    clean = records(labelled(record for record in results.shown if record["attack"] == CLEAN))
    for row in of_advised(results, clean):
        part = cell_scores(results, row)
        if spans(results.scale.get(row["dimension"])):
            scores, human, groups = (
                part[name].to_numpy() for name in ("score", "human", "group_id")
            )
            at = results.scores.index.get_indexer(part.index)
            fitted[at] = cross_fitted(scores, human, groups, seed=results.config.get("seed") or 0)
    return results.scores.assign(**{CALIBRATED: fitted})


@kept
def looks(results: Results) -> Rows:
    """The texts where the settings taken and the humans differ most, as a part of the humans'
    scale, and some others at random: judge (calibrated where `fitted`, else mapped to the scale)
    and its raw score, human, why, start, and the address of the example on the page. None where
    texts may not be shown, or were compared."""
    if results.examples is None or results.compares or not len(results.readings):
        return []
    # 1. every text that both have scored
    rows: Rows = []
    scored = replace(results, scores=calibrated_scores(results))
    for lead in advised_rows(results):
        scale = results.scale.get(lead["dimension"])
        if scale is None or not spans(scale):
            continue
        place = {name: lead[name] for name in ("dimension", "range", "attack", "defense")}
        part = cell_scores(scored, lead)
        part = part.assign(
            plain=on_scale(part["score"].to_numpy(float), Cell.of(lead).range, scale)
        )
        for text in part.to_dict("records"):
            fitted = is_known(text[CALIBRATED])
            judge = text[CALIBRATED] if fitted else text["plain"]
            if is_known(judge) and is_known(text["human"]):
                address = urlencode({"example": text["example_id"]} | place, quote_via=quote)
                gap = abs(judge - text["human"]) / (scale[1] - scale[0])
                said = {
                    "example": text["example_id"],
                    "group": text["group_id"],
                    "human": text["human"],
                }
                raw = f"{two(text['score'])} in {lead['range']}"
                rows.append(
                    place
                    | said
                    | {"gap": gap, "judge": judge, "raw": raw, "fitted": fitted, "address": address}
                )
    # 2. each text once, those of the largest gap first
    texts = dict(zip(results.examples["example_id"], results.examples["output"], strict=True))
    rows.sort(key=lambda row: -row["gap"])
    distinct = {
        (row["dimension"], texts.get(row["example"], row["example"])): row for row in reversed(rows)
    }
    rows = sorted(distinct.values(), key=lambda row: -row["gap"])
    # 3. the worst, and some of the rest
    worst = rows[:WORST]
    rest = rows[WORST:]
    drawn = np.random.default_rng(0).permutation(len(rest))[:RANDOM].tolist()
    shown = [
        row | {"why": "judge higher" if row["judge"] > row["human"] else "judge lower"}
        for row in worst
    ]
    shown += [rest[at] | {"why": "at random"} for at in drawn]
    several = len({row["dimension"] for row in rows}) > 1
    for row in shown:
        row["start"] = beginning(texts.get(row["example"]) or "")
        row |= {"judge": two(row["judge"]), "human": two(row["human"])}
        row["why"] += f", {row['dimension']}" if several else ""
    return shown


def beginning(text: str) -> str:
    """The first characters of a text, in one line.

    Example:
        >>> beginning("The council  met")
        'The council met'
    """
    line = " ".join(text.split())
    return line if len(line) <= _START else f"{line[:_START]}…"
