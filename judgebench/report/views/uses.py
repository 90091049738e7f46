"""Uses of a judge, and whether it may be put to them: the report's last word, a sentence a use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from judgebench.report.formats import bounded, is_known, percent, points, signed_two, three, two
from judgebench.report.table import records
from judgebench.report.views.beside import best_pairs, correlated, judge_name, rival, rivalled, series_key
from judgebench.report.views.correlations import best_of
from judgebench.report.views.humans import human_figures
from judgebench.report.views.systems import means_are_off, misleads, systems_frame
from judgebench.results.results import Results
from judgebench.results.series import labelled
from judgebench.stats.alternative import FEWEST_RATERS
from judgebench.stats.clusters import FEWEST
from judgebench.stats.evaluate import CONSTANT, CONSTANT_HUMANS
from judgebench.stats.humans import RAW

_CHANCE = 0.5  # of pairs of systems
_MANY = 0.05  # of answers: more that could not be read are told

Row = Mapping[str, Any]


def use_sentences(results: Results) -> list[str]:
    """A dimension's verdicts on the judge and range that agree best with the humans there: may it order texts, stand in
    for a rater, rank systems, and may its scores be reported as the humans'? Each with the figure that decides it."""
    orders = {series_key(row): row for row in correlated(results)}
    systems = {series_key(row): row for row in records(systems_frame(results))}
    found = []
    for condition, raw, fitted in best_pairs(results):
        key, human = series_key(raw), human_figures(results).get(str(raw["dimension"]), {})
        head = f"{condition}, {judge_name(results, raw)}:"
        if max(raw["groups"], fitted["groups"]) < FEWEST:  # raw scores without a scale have none
            found.append(f"{head} unknown. Fewer than {FEWEST} {results.groups} are too few for any of it.")
            continue
        order = orders.get(key)
        failed = 0.0 if order is None else order.get("failed_share") or 0.0
        if failed == 1:
            found.append(f"{head} no. None of its answers could be read.")
            continue
        verdicts = [
            ("To order texts", _order(order, human)),
            ("To stand in for a rater", _stand_in(raw, fitted)),
            ("To rank systems", _rank(systems.get(key), order)),
            ("To report its scores as human ones", _report(raw, systems.get(key))),
        ]
        told = [f"{use}: {verdict}." for use, verdict in verdicts if verdict]
        if failed > _MANY:
            told.append(f"All of it with the lowest score for the {percent(failed)} of answers that could not be read.")
        found.append(" ".join([head, *told, *_picked(results, raw)]))
    return found


def _flag(row: Row | None, flag: str) -> bool:
    return row is not None and flag in (row.get("flags") or ())


def _picked(results: Results, raw: Row) -> list[str]:
    """A sentence where the judge and range are the best of several by the same texts."""
    same = ("dimension", "defense")
    tried = labelled(row for row in results.beside_humans if row["scores"] == RAW)
    rows = [row for row in records(tried) if all(row[name] == raw[name] for name in same)]
    return [f"This is {best_of(rows)} on these texts, so all of it is optimistic."] if len(rows) > 1 else []


def _order(row: Row | None, human: Row) -> str:
    if row is None or not is_known(row["spearman_low"]):
        return "unknown, as its Spearman has no interval"
    if _flag(row, CONSTANT_HUMANS):
        return "unknown, as the humans gave all texts one score"
    if _flag(row, CONSTANT):
        return "no, for it gives all texts one score"
    if row["spearman_high"] < 0:
        return f"no, it orders them against the humans (Spearman {bounded(row, 'spearman', three)})"
    if row["spearman_low"] <= 0:
        return f"not shown; its order may be chance (Spearman {bounded(row, 'spearman', three)})"
    low, high = row.get("humans_difference_low"), row.get("humans_difference_high")
    if low is None or high is None or not is_known(human.get("ceiling")):
        return (
            f"better than chance (Spearman {bounded(row, 'spearman', three)}); how well a person would do it is unknown"
        )
    figures = f"Spearman {bounded(row, 'spearman_others', three)}, one person {bounded(human, 'ceiling', three)}"
    if high < 0:
        return f"better than chance, but worse than a person ({figures})"
    if low > 0:
        return f"yes, better than a person ({figures})"
    return f"yes, better than chance, and no difference from a person is shown ({figures})"


def _stand_in(raw: Row, fitted: Row) -> str:
    if not is_known(raw["passes"]) and not is_known(fitted["passes"]):
        return "unknown, as too few raters are known, or too few of their texts"
    if raw["passes"] and not raw["by_favorite"]:
        return f"yes by the alternative annotator test, {_as_close(raw)}{_but(raw)}"
    if fitted["passes"] and not fitted["by_favorite"]:
        return f"only calibrated by the humans' ratings; then {_as_close(fitted)}{_but(fitted)}"
    if raw["passes"]:
        return f"no; it passes the alternative annotator test, but so would {rival(raw)}"
    if not is_known(raw["passes"]):
        return f"no, calibrated by the humans' ratings {_as_close(fitted)}; its raw scores cannot be tested"
    won = f"{round(raw['winning_rate'] * raw['tested'])} of {raw['tested']:.0f} raters"
    # A test that is not passed may lack texts: "no" is for a judge that loses by more than the test allows.
    verdict = "not shown by the alternative annotator test" if _loses_little(raw) else "no"
    return f"{verdict}, {_as_close(raw)}, and wins over {won}"


def _loses_little(row: Row) -> bool:
    lost = [one["advantage_rater"] - one["advantage_judge"] for one in row["raters"]]
    return bool(np.mean(lost) < row["epsilon"]) if lost else False


def _but(row: Row) -> str:
    """Weaknesses of a test that is passed."""
    said = ""
    if rivalled(row):
        share = percent(row["favorite_advantage"])
        said = (
            f"; but a judge that always says {row['favorite']:g} passes, too, with {share}: the test asks little here"
        )
    if row["tested"] < FEWEST_RATERS:
        said += f"; the test is meant for {FEWEST_RATERS} raters or more, and here are {row['tested']:.0f}"
    return said


def _as_close(row: Row) -> str:
    share = bounded(row, "advantage", points, percent)
    return f"it lies at least as close to the other raters as the rater left out on {share} of texts"


def _rank(row: Row | None, order: Row | None) -> str:
    if row is None or not is_known(row["pairwise_accuracy"]):
        return ""
    if _flag(order, CONSTANT):
        return "no, for it gives all texts one score"
    share = f"{bounded(row, 'pairwise_accuracy', points, percent)} of pairs as humans do"
    if not is_known(row["pairwise_accuracy_low"]):
        return f"unknown; it orders {share}, without an interval"
    if row["pairwise_accuracy_high"] < _CHANCE:
        return f"no; it orders {share}, fewer than by chance"
    if row["pairwise_accuracy_low"] <= _CHANCE:
        return f"not shown; it orders {share}, which may be chance"
    if not is_known(row.get("pairwise_difference_low")):
        return f"better than chance, for these systems: it orders {share}"
    figures = f"it orders {bounded(row, 'pairwise_others', points, percent)} of pairs as the other raters do, one "
    figures += f"rater {bounded(row, 'pairwise_ceiling', points, percent)}"
    if row["pairwise_difference_high"] < 0:
        return f"better than chance, but worse than one rater, for these systems: {figures}"
    if row["pairwise_difference_low"] > 0:
        return f"yes, better than one rater, for these systems: {figures}"
    return f"yes, better than chance, and no difference from one rater is shown, for these systems: {figures}"


def _report(row: Row, systems: Row | None) -> str:
    low, high = row["bias_low"], row["bias_high"]
    if not is_known(low):
        return "unknown, as its bias in points has no interval"
    off = None if systems is None else means_are_off(systems)
    lost = systems is not None and misleads(systems)
    bias = f"bias {bounded(row, 'bias', signed_two)} points"
    means = f", and its means of systems are {off}" if off else ""
    if lost or not low <= 0 <= high:
        return f"no, not as they are ({bias}{means}); calibrate them by your own labels first"
    return f"no clear bias on average ({bias}{means}); a single score is off by {two(row['mae'])} points"
