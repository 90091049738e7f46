"""The advised settings, question by question: how far from a human, what can fool or shift them,
where they are wrong, and how sure that is. One sentence a dimension, and one table, range by
range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from judgebench.report.formats import is_known, percent, points, short, signed_two, three, two
from judgebench.report.table import Block, Col, Row, Rows, View, records, rows_by
from judgebench.report.views import attacks, defenses, pairwise
from judgebench.report.views.advice import advices
from judgebench.report.views.beside import judge_rows
from judgebench.report.views.bias import favorite_text, favorites, variance_frame
from judgebench.report.views.correlations import advised_rows, correlation_frame, of_advised
from judgebench.report.views.dimensions import answers, bare, headed, sentences
from judgebench.report.views.forecasts import error_rows, few_labels_rows, forecast_frame, is_sure
from judgebench.report.views.humans import RATERS, human_figures
from judgebench.report.views.systems import system_rows
from judgebench.results.results import Results
from judgebench.stats.clusters import Estimate
from judgebench.stats.humans import CALIBRATED, RAW
from judgebench.stats.scores import CLEAN

Place = tuple[str, str]
"""A dimension and a range."""


def of_setting(view: View) -> View:
    """The view without rows of other settings than the advised; those of single raters stay."""

    def rows(results: Results) -> Rows:
        every = records(view.frame(results))
        advised = of_advised(results, [row for row in every if "series" in row])
        places = set(map(id, advised))
        return [row for row in every if "series" not in row or id(row) in places]

    return replace(view, frame=rows)


def of_judges(view: View) -> View:
    """The view of distributions without those of judges that are not advised."""
    keys = ("dimension", "defense", "judge")

    def rows(results: Results) -> Rows:
        advised = {(*_values(row, keys), row["decoding"]) for row in advised_rows(results)}
        shown = []
        for row in records(view.frame(results)):
            series = {(*_values(row, keys), decoding) for decoding in row["decodings"]}
            if series & advised:
                shown.append(row)
        return shown

    return replace(view, frame=rows)


def _values(row: Row, keys: Iterable[str]) -> tuple[Any, ...]:
    return tuple(row[key] for key in keys)


def _by_place(rows: Rows) -> dict[Place, dict[str, Any]]:
    return {(row["dimension"], row["range"]): row for row in rows}


def _metrics(results: Results, level: str) -> Rows:
    """The correlations of the advised settings at a level, range by range."""
    rows = records(correlation_frame(results, level, silent=True))
    return of_advised(results, [row for row in rows if row["range"] != "average"])


def _with_humans(results: Results, scores: str) -> dict[Place, dict[str, Any]]:
    """The records of the advised settings compared with the humans, by RAW or CALIBRATED scores."""
    rows = of_advised(results, judge_rows(results))
    return _by_place([row for row in rows if row["scores"] == scores])


# --- how far from a human -----------------------------------------------------------------------


def distance_rows(results: Results) -> Rows:
    """A row a range of the advised setting, and one of a single rater. Estimates: agreement over
    all texts, within groups and over systems; bias and error in points; error and R2 after
    calibration by other groups, and the error of systems' means, calibrated by other systems where
    these are known."""
    within = _by_place(_metrics(results, "document"))
    raw = _with_humans(results, RAW)
    calibrated = _with_humans(results, CALIBRATED)
    systems = _by_place(of_advised(results, system_rows(results)))
    table: Rows = []
    for part in rows_by(_metrics(results, results.level), ["dimension"]):
        # 1. the judge in each range
        for row in part:
            place = (row["dimension"], row["range"])
            texts = raw.get(place, {})
            fitted = calibrated.get(place, {})
            system = systems.get(place, {})
            error = "unseen_error" if is_known(system.get("unseen_error")) else "calibrated_error"
            distance = {
                "spearman": Estimate.of(row, "spearman"),
                "others": Estimate.of(row, "spearman_others"),
                "within": Estimate.of(within.get(place, {}), "spearman"),
                "pairs": Estimate.of(system, "pairwise_others")
                or Estimate.of(system, "pairwise_accuracy"),
                "bias": Estimate.of(texts, "bias"),
                "single": Estimate.of(texts, "single_mae"),
                "mae": Estimate.of(fitted, "mae"),
                "r2": Estimate.of(fitted, "r2"),
                "error": Estimate.of(system, error),
                "largest": Estimate.of(system, f"{error}_largest"),
            }
            names = {name: row.get(name) for name in ("dimension", "range", "flags")}
            table.append(names | distance)
        # 2. one rater
        dimension = part[0]["dimension"]
        human = human_figures(results).get(dimension, {})
        system = systems.get((dimension, part[0]["range"]), {})
        distance = {
            "others": Estimate.of(human, "ceiling"),
            "pairs": Estimate.of(system, "pairwise_ceiling"),
            "single": Estimate.of(human, "single_mae"),
            "error": Estimate.of(system, "rater_error"),
            "largest": Estimate.of(system, "rater_error_largest"),
        }
        if any(distance.values()):
            table.append({"dimension": dimension, "range": "one rater"} | distance)
    return headed(results, table)


DISTANCE = View(
    "distance",
    "Distance from the humans",
    distance_rows,
    (
        Col("range", "range", left=True, flags="flags"),
        Col("Spearman", "spearman", three, short, says="with the mean of all raters"),
        Col(
            "with the others",
            "others",
            three,
            short,
            optional=True,
            says="Spearman with the mean of all raters but one, mean over raters, as for one rater",
        ),
        Col(
            "within",
            "within",
            three,
            short,
            optional=True,
            says="Spearman within each of the {groups}, their mean",
        ),
        Col(
            "pairs of systems",
            "pairs",
            percent,
            points,
            optional=True,
            says="share of pairs of systems that are ordered as the other raters do",
        ),
        Col(
            "bias",
            "bias",
            signed_two,
            signed_two,
            optional=True,
            says="mean of judge less human in points of the humans' scale; above 0 the judge is "
            "too lenient",
        ),
        Col(
            "off one rater",
            "single",
            two,
            two,
            optional=True,
            says="mean distance from one rater, mean over raters",
        ),
        Col(
            "calibrated",
            "mae",
            two,
            two,
            optional=True,
            says="mean distance from the mean of all raters, calibrated by the ratings of other "
            "{groups}",
        ),
        Col(
            "R²",
            "r2",
            two,
            two,
            optional=True,
            says="of calibrated scores, compared with always saying the mean: 1 is best, 0 is no "
            "better",
        ),
        Col(
            "of a system",
            "error",
            two,
            optional=True,
            says="mean distance of the means of systems, calibrated by other systems where there "
            "are several",
        ),
        Col("largest", "largest", two, optional=True, says="the largest of these distances"),
    ),
    sections=["head"],
    section="{head}",
    brackets="{groups} resampled",
)


def distance_lines(results: Results) -> list[Block]:
    """The distance from the humans in points, and one rater's; or the correlation where there are
    none."""
    raw = _with_humans(results, RAW)
    calibrated = _with_humans(results, CALIBRATED)
    facts: dict[str, dict[str, Any]] = {}
    for lead in advised_rows(results):
        dimension = lead["dimension"]
        place = (dimension, lead["range"])
        score = calibrated.get(place, {})
        better = RAW if score.get("better_scores") == RAW else CALIBRATED
        facts[dimension] = {
            "lead": lead,
            "human": human_figures(results).get(dimension, {}),
            "score": raw[place] if better == RAW else score,
            "better": better,
            "scale": results.scale.get(dimension),
        }
    return answers(results, "distance", facts)


# --- which setting ------------------------------------------------------------------------------


def setting_lines(results: Results) -> list[Block]:
    """The setting to take, what it promises, and how many folds agreed."""
    lines = {}
    for advice in advices(results):
        lines[advice.dimension] = advice.say("section", results.groups)
    return sentences(results, lines)


def pair_lines(results: Results) -> list[Block]:
    """Judges that compare two texts: whether they are to be believed, and the first system."""
    return bare(results, [*pairwise.pair_sentences(results), *pairwise.ranking_sentences(results)])


# --- what can fool or shift it ------------------------------------------------------------------


def shift_rows(results: Results) -> Rows:
    """A row a range of the advised setting: its favorite score, the humans', its shift, answers
    that failed, and the probability on scores."""
    if results.compares:
        return []
    humans = _by_place([row for row in favorites(results) if row["who"] == RATERS])
    keys = ("dimension", "defense", "range", "judge")
    masses = {}
    for row in records(forecast_frame(results)):
        for decoding in row["decodings"]:
            masses[*_values(row, keys), decoding] = row.get("mass")
    rows = _metrics(results, results.level)
    for row in rows:
        human = humans.get((row["dimension"], row["range"]))
        row["favorite"] = favorite_text(row)
        row["human"] = None
        if human:
            row["human"] = f"{human['score']} ({percent(human['share'])})"
        row["mass"] = masses.get((*_values(row, keys), row["decoding"]))
    return headed(results, rows)


SHIFT = View(
    "shift",
    "Favorite scores",
    shift_rows,
    (
        Col("range", "range", left=True, flags="flags"),
        Col(
            "favorite score",
            "favorite",
            left=True,
            optional=True,
            says="the score given most often, and its share",
        ),
        Col(
            "the humans'",
            "human",
            left=True,
            optional=True,
            says="the same of the humans' scores, mapped linearly to the range",
        ),
        Col(
            "shift",
            "bias_shift",
            signed_two,
            optional=True,
            says="the judge's mean less the humans', as a share of the range",
        ),
        Col(
            "failed",
            "failed_share",
            percent,
            says="answers that could not be read, which agreement leaves out",
        ),
        Col(
            "on scores",
            "mass",
            percent,
            optional=True,
            says="the probability that lies on scores at all",
        ),
    ),
    sections=["head"],
    section="{head}",
)


ATTACKED = replace(of_setting(attacks.ATTACKS), name="attacked")
"""Attacks on the advised setting."""


def shift_lines(results: Results) -> list[Block]:
    """The range's share of the variance, raw and calibrated; and what attacks do."""
    # 1. what attacks do
    lines = defenses.defense_sentences(results)
    if not lines:
        lines = attacks.attack_sentences(results)
    clean = all(row["attack"] == CLEAN for row in results.metrics)
    if clean and results.metrics and not results.compares:
        lines = ["No attack was run."]
    # 2. the range's shares
    shares: dict[str, dict[str, float]] = {}
    for row in of_advised(results, records(variance_frame(results))):
        if is_known(row["range_both"]):
            scores = CALIBRATED if row["calibrated"] else RAW
            of_dimension = shares.setdefault(row["dimension"], {})
            of_dimension[scores] = row["range_both"]
    return [*bare(results, lines), *answers(results, "shift", shares)]


def preparation_lines(results: Results) -> list[Block]:
    """References and detectors in sentences."""
    return bare(results, defenses.preparation_sentences(results))


# --- where is it wrong --------------------------------------------------------------------------


def error_lines(results: Results) -> list[Block]:
    """The systems or lengths of texts that the advised setting scores farthest above the humans,
    and farthest below."""
    facts = {}
    for row in error_rows(results):
        sure = sorted(filter(is_sure, row["slices"]), key=lambda part: part["error"])
        ends = [sure[-1], sure[0]] if len(sure) > 1 else sure
        facts[row["dimension"]] = {"ends": ends}
    return answers(results, "wrong", facts)


# --- how sure -----------------------------------------------------------------------------------


def certainty_lines(results: Results) -> list[Block]:
    """The half width of the interval of Spearman, or of systems' means where humans rated a
    part."""
    few = {row["dimension"]: row for row in few_labels_rows(results)}
    facts: dict[str, Mapping[str, Any]] = {}
    for lead in advised_rows(results):
        dimension = lead["dimension"]
        low = lead.get("spearman_low")
        high = lead.get("spearman_high")
        half = None
        if low is not None and high is not None:
            half = (high - low) / 2
        facts[dimension] = {
            "lead": lead,
            "half": half,
            "few": few.get(dimension),
        }
    return answers(results, "sure", facts)
