"""The advised settings, question by question: how far from a human, what can fool or shift them,
where they are wrong, and how sure that is. One sentence a dimension, and one table, range by
range."""

from __future__ import annotations

from dataclasses import replace

from judgebench.report.table import Block, Col, View, records, rows_by, values, with_records
from judgebench.report.views import attacks, defenses, pairwise
from judgebench.report.views.advice import advices
from judgebench.report.views.beside import judge_rows
from judgebench.report.views.bias import favorite_text, favorites, variance_frame
from judgebench.report.views.correlations import advised_rows, correlation_rows, of_advised
from judgebench.report.views.dimensions import answers, bare, headed, sentences
from judgebench.report.views.forecasts import (
    by_decoding,
    error_rows,
    few_labels_rows,
    forecast_rows,
    is_sure,
)
from judgebench.report.views.humans import human_figures
from judgebench.report.views.systems import system_rows
from judgebench.results.results import Results
from judgebench.stats.clusters import Estimate
from judgebench.studies.humans import CALIBRATED, RAW
from judgebench.studies.scores import CLEAN
from judgebench.types import Record, Rows
from judgebench.words.formats import is_known, percent, points, short, signed_two, three, two

_PLACE = ("dimension", "range")
_FORECAST = ("dimension", "defense", "range", "judge", "decoding")


def of_setting(view: View) -> View:
    """The view without rows of other settings than the advised; those of single raters stay."""

    def rows(results: Results) -> Rows:
        every = records(view.frame(results))
        advised = set(map(id, of_advised(results, every)))
        return [row for row in every if "series" not in row or id(row) in advised]

    return replace(view, frame=rows)


def of_judges(view: View) -> View:
    """The view of distributions without those of judges that are not advised."""
    keys = ("dimension", "defense", "judge", "decoding")

    def rows(results: Results) -> Rows:
        advised = {values(row, keys) for row in advised_rows(results)}
        return [
            row
            for row in records(view.frame(results))
            if any(values(one, keys) in advised for one in by_decoding([row]))
        ]

    return replace(view, frame=rows)


def _metrics(results: Results, level: str) -> Rows:
    """The correlations of the advised settings at a level, range by range."""
    rows = correlation_rows(results, level, silent=True)
    return of_advised(results, [row for row in rows if row["range"] != "average"])


def _with_humans(results: Results, scores: str) -> Rows:
    """The records of the advised settings compared with the humans, by RAW or CALIBRATED scores."""
    return [row for row in of_advised(results, judge_rows(results)) if row["scores"] == scores]


# --- how far from a human -----------------------------------------------------------------------


def distance_rows(results: Results) -> Rows:
    """A row a range of the advised setting, and one of a single rater.

    Each has its records: over all `texts` and `within` groups; of `raw` and of `calibrated` scores
    compared with the humans; and estimates over systems: `pairs`, and the error of their means and
    the `largest`, calibrated by other systems where these are known.
    """
    metrics = _metrics(results, results.level)
    places: Rows = [{name: row.get(name) for name in (*_PLACE, "flags")} for row in metrics]
    rows = with_records(
        places,
        _PLACE,
        texts=metrics,
        within=_metrics(results, "document"),
        raw=_with_humans(results, RAW),
        calibrated=_with_humans(results, CALIBRATED),
        systems=of_advised(results, system_rows(results)),
    )
    table = []
    for part in rows_by(rows, ["dimension"]):
        # 1. the judge in each range
        for row in part:
            systems = row["systems"]
            pairs = Estimate.of(systems, "pairwise_others")
            error = "unseen_error" if is_known(systems.get("unseen_error")) else "calibrated_error"
            row |= {
                "pairs": pairs or Estimate.of(systems, "pairwise_accuracy"),
                "error": systems.get(error),
                "largest": systems.get(f"{error}_largest"),
            }
            table.append(row)
        # 2. one rater
        dimension = part[0]["dimension"]
        human = human_figures(results).get(dimension, {})
        systems = part[0]["systems"]
        figures = {
            "pairs": Estimate.of(systems, "pairwise_ceiling"),
            "error": systems.get("rater_error"),
            "largest": systems.get("rater_error_largest"),
        }
        ceiling = Estimate.of(human, "ceiling")
        single = Estimate.of(human, "single_mae")
        if any(map(is_known, (*figures.values(), ceiling, single))):
            rater = {"dimension": dimension, "range": "one rater"} | figures
            texts = {"texts": {"spearman_others": ceiling}, "raw": {"single_mae": single}}
            table.append(rater | texts)
    return headed(results, table)


DISTANCE = View(
    "distance",
    "Distance from the humans",
    distance_rows,
    (
        Col("range", left=True, flags="flags"),
        Col("Spearman", "texts.spearman", three, short, says="with the mean of all raters"),
        Col(
            "with the others",
            "texts.spearman_others",
            three,
            short,
            optional=True,
            says="Spearman with the mean of all raters but one, mean over raters, as for one rater",
        ),
        Col(
            "within",
            "within.spearman",
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
            "raw.bias",
            signed_two,
            signed_two,
            optional=True,
            says="mean of judge less human in points of the humans' scale; above 0 the judge is "
            "too lenient",
        ),
        Col(
            "off one rater",
            "raw.single_mae",
            two,
            two,
            optional=True,
            says="mean distance from one rater, mean over raters",
        ),
        Col(
            "calibrated",
            "calibrated.mae",
            two,
            two,
            optional=True,
            says="mean distance from the mean of all raters, calibrated by the ratings of other "
            "{groups}",
        ),
        Col(
            "R²",
            "calibrated.r2",
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
        Col("largest", form=two, optional=True, says="the largest of these distances"),
    ),
    sections=["head"],
    section="{head}",
    brackets="{groups} resampled",
)


def distance_lines(results: Results) -> list[Block]:
    """The distance from the humans in points, and one rater's; or the correlation where there are
    none."""
    raw, calibrated = (_with_humans(results, scores) for scores in (RAW, CALIBRATED))
    facts: dict[str, Record] = {}
    for lead in with_records(advised_rows(results), _PLACE, raw=raw, calibrated=calibrated):
        dimension = lead["dimension"]
        better = RAW if lead[CALIBRATED].get("better_scores") == RAW else CALIBRATED
        facts[dimension] = {
            "lead": lead,
            "human": human_figures(results).get(dimension, {}),
            "score": lead[better],
            "better": better,
            "scale": results.scale.get(dimension),
        }
    return answers(results, "distance", facts)


# --- which setting ------------------------------------------------------------------------------


def setting_lines(results: Results) -> list[Block]:
    """The setting to take, what it promises, and how many folds agreed."""
    every = advices(results).items()
    lines = {name: advice.say("section", results) for name, advice in every}
    return sentences(results, lines)


def pair_lines(results: Results) -> list[Block]:
    """Judges that compare two texts: whether they are to be believed, and the first system."""
    return bare(results, [*pairwise.pair_sentences(results), *pairwise.ranking_sentences(results)])


# --- what can fool or shift it ------------------------------------------------------------------


def shift_rows(results: Results) -> Rows:
    """A row a range of the advised setting, with the humans' `favorite` score, and its `forecast`,
    the record of its probabilities."""
    if results.compares:
        return []
    rows = with_records(_metrics(results, results.level), _PLACE, favorite=favorites(results))
    rows = with_records(rows, _FORECAST, forecast=by_decoding(forecast_rows(results)))
    return headed(results, rows)


SHIFT = View(
    "shift",
    "Favorite scores",
    shift_rows,
    (
        Col("range", left=True, flags="flags"),
        Col(
            "favorite score",
            favorite_text,
            left=True,
            optional=True,
            says="the score given most often, and its share",
        ),
        Col(
            "the humans'",
            "{favorite.score} ({favorite.share:percent})",
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
            "forecast.mass",
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
    lines = defenses.defense_sentences(results) or attacks.attack_sentences(results)
    clean = all(row["attack"] == CLEAN for row in results.metrics)
    if clean and results.metrics and not results.compares:
        lines = ["No attack was run."]
    return [*bare(results, lines), *answers(results, "shift", range_shares(results))]


def range_shares(results: Results) -> dict[str, dict[str, float]]:
    """Dimension -> RAW or CALIBRATED -> the range's share of the variance of the advised setting's
    scores; where it is known."""
    shares: dict[str, dict[str, float]] = {}
    for row in of_advised(results, records(variance_frame(results))):
        if is_known(row["range_both"]):
            scores = CALIBRATED if row["calibrated"] else RAW
            shares.setdefault(row["dimension"], {})[scores] = row["range_both"]
    return shares


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
    facts = {
        lead["dimension"]: {"lead": lead, "few": few.get(lead["dimension"])}
        for lead in advised_rows(results)
    }
    return answers(results, "sure", facts)
