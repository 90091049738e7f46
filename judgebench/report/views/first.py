"""The first screen of a run's page: its subject, the verdict, the setting to take, and texts to
look at."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import numpy as np

from judgebench.report.formats import bounded, two
from judgebench.report.table import Rows, rows_by
from judgebench.report.views.correlations import cell_scores, taken_rows
from judgebench.report.views.league import choice_rows
from judgebench.results.results import Results
from judgebench.stats.scores import Cell, cross_fitted, on_scale
from judgebench.stats.verdict import CARE, NO, RULES, YES

WORST = 6
RANDOM = 3
"""Texts that a page shows: those of the largest disagreement, and some drawn at random."""

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


def takes(results: Results) -> list[str]:
    """A line a dimension: the setting to take, and what it promises on other groups."""
    rows = [row for row in choice_rows(results) if row["taken"]]
    lines = []
    for row in rows:
        name = f"{row['dimension']}: " if len(rows) > 1 else ""
        promised = f": Spearman {bounded(row, 'promised_spearman', two)} on other {results.groups}"
        lines.append(f"{name}Take {row['who'].removeprefix('main, ')} {row['place']}{promised}")
    return lines


def looks(results: Results) -> Rows:
    """The texts where the settings taken and the humans differ most, as a part of the humans'
    scale, and some others at random: judge (calibrated by other groups, else mapped to the scale),
    human, why, start, and the address of the example on the page. None where texts may not be
    shown, or were compared."""
    rows: Rows = []
    for lead in (
        []
        if results.examples is None or results.compares or not len(results.readings)
        else taken_rows(results)
    ):
        scale = results.scale.get(lead["dimension"])
        part = cell_scores(results, lead)
        if not scale or not scale[0] < scale[1]:
            continue
        scores = part["score"].to_numpy(float)
        human = part["human"].to_numpy(float)
        fitted = cross_fitted(
            scores, human, part["group_id"].to_numpy(), seed=results.config.get("seed") or 0
        )
        plain = on_scale(scores, Cell.of(lead).range, scale)
        judge = fitted if np.isfinite(fitted).any() else plain
        place = {"dimension": lead["dimension"], "range": lead["range"], "attack": lead["attack"]}
        place |= {"defense": lead["defense"]}
        for name, ours, theirs in zip(
            part["example_id"], judge.tolist(), human.tolist(), strict=True
        ):
            if np.isfinite(ours) and np.isfinite(theirs):
                gap = abs(ours - theirs) / (scale[1] - scale[0])
                address = urlencode({"example": name} | place, quote_via=quote)
                rows.append(
                    {
                        "example": name,
                        "gap": gap,
                        "judge": ours,
                        "human": theirs,
                        "address": address,
                    }
                    | place
                )
    rows.sort(key=lambda row: -row["gap"])
    texts: dict[str, Any] = {}
    if rows and results.examples is not None:
        texts = dict(zip(results.examples["example_id"], results.examples["output"], strict=True))
    # each text once
    distinct = {
        (row["dimension"], texts.get(row["example"], row["example"])): row for row in reversed(rows)
    }
    rows = sorted(distinct.values(), key=lambda row: -row["gap"])
    worst = rows[:WORST]
    rest = rows[WORST:]
    drawn = np.random.default_rng(0).permutation(len(rest))[:RANDOM].tolist()
    several = len({row["dimension"] for row in rows}) > 1
    shown = [
        row | {"why": "judge higher" if row["judge"] > row["human"] else "judge lower"}
        for row in worst
    ]
    shown += [rest[at] | {"why": "at random"} for at in drawn]
    for row in shown:
        text = " ".join((texts.get(row["example"]) or "").split())
        row["start"] = text if len(text) <= _START else f"{text[:_START]}…"
        row |= {"judge": two(row["judge"]), "human": two(row["human"])}
        row["why"] += f", {row['dimension']}" if several else ""
    return shown
