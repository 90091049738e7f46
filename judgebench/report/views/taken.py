"""The setting that is taken, question by question: one sentence and one table of what decides,
range by range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from judgebench.report.formats import (
    bounded,
    is_known,
    percent,
    points,
    say,
    short,
    signed_two,
    three,
    two,
)
from judgebench.report.table import Block, Col, Facts, Paragraph, Rows, View, records, rows_by
from judgebench.report.views import attacks, defenses, pairwise
from judgebench.report.views.beside import judge_rows
from judgebench.report.views.bias import favorite_text, favorites, variance_frame
from judgebench.report.views.correlations import correlation_frame, of_taken, taken_rows
from judgebench.report.views.forecasts import error_rows, few_labels_rows, forecast_frame, is_sure
from judgebench.report.views.humans import ENDS, RATERS, human_figures
from judgebench.report.views.league import choice_rows
from judgebench.report.views.systems import system_rows
from judgebench.results.results import Results
from judgebench.stats.humans import CALIBRATED, RAW
from judgebench.stats.verdict import CARE, NO, RULES, YES, rules_of

UNITS: Mapping[str, tuple[Any, Any]] = {
    "order_texts": (percent, points),
    "compare_systems": (percent, points),
    "report_scores": (two, two),
    "replace_rater": (two, two),
    "resist_attacks": (percent, points),
}
"""Use -> the formats of its number and of the ends of its interval: shares, or points of the
humans' scale."""


def _sentences(
    results: Results, question: str, facts: Mapping[str, Mapping[str, Any]]
) -> list[Block]:
    """The answer to a question of each dimension, which only several of them are named by."""
    lines = {name: say(question, results=results, **of) for name, of in facts.items()}
    return _named(results, {name: line for name, line in lines.items() if line}.items())


def _named(results: Results, lines: Iterable[tuple[str, str]]) -> list[Block]:
    several = _several(results)
    return [
        Paragraph(f"{name}: {line}" if several else f"{line[:1].upper()}{line[1:]}")
        for name, line in lines
    ]


def _several(results: Results) -> bool:
    return len({row["dimension"] for row in results.metrics}) > 1


def _headed(results: Results, rows: Rows) -> Rows:
    """The rows with a `head`, their dimension where there are several."""
    return [row | {"head": row["dimension"] if _several(results) else ""} for row in rows]


def _bare(results: Results, sentences: Iterable[str]) -> list[Block]:
    """Sentences that begin with their condition, without it where it is the only dimension."""
    names = {str(row["dimension"]) for row in results.metrics}
    prefix = f"{names.pop()}: " if len(names) == 1 else ""
    return [Paragraph(sentence.removeprefix(prefix)) for sentence in sentences]


def _by_range(rows: Rows) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["dimension"], row["range"]): row for row in rows}


def of_setting(view: View) -> View:
    """The view without what the settings taken are not about: its rows of single raters stay."""

    def rows(results: Results) -> Rows:
        every = records(view.frame(results))
        ours = set(map(id, of_taken(results, [row for row in every if "series" in row])))
        return [row for row in every if "series" not in row or id(row) in ours]

    return replace(view, frame=rows)


def of_judges(view: View) -> View:
    """The view of distributions without those of judges that are not taken."""
    keys = ("dimension", "defense", "judge")

    def rows(results: Results) -> Rows:
        ours = {(*(lead[key] for key in keys), lead["decoding"]) for lead in taken_rows(results)}
        return [
            row
            for row in records(view.frame(results))
            if any((*(row[key] for key in keys), name) in ours for name in row["decodings"])
        ]

    return replace(view, frame=rows)


# --- may I use it -------------------------------------------------------------------------------


def use_lines(results: Results) -> list[Block]:
    """Uses that are allowed, with care, and not."""
    facts = {}
    for part in rows_by([dict(row) for row in results.verdict], ["dimension"]):
        of = {
            word: [RULES[row["use"]].title for row in part if row["verdict"] == word]
            for word in (YES, CARE, NO)
        }
        others = [RULES[row["use"]].title for row in part if row["verdict"] not in of]
        facts[part[0]["dimension"]] = {
            "yes": of[YES],
            "care": of[CARE],
            "no": of[NO],
            "others": others,
        }
    return _sentences(results, "use", facts)


def _verdicts(results: Results) -> Rows:
    rows = [dict(row) for row in results.verdict if is_known(row["value"])]
    for row in rows:
        form, ends = UNITS[row["use"]]
        row["title"] = RULES[row["use"]].title
        row |= {
            side: bounded(row, side, ends, form) if is_known(row[side]) else None
            for side in ("value", "rater")
        }
    return _headed(results, rows)


VERDICTS = View(
    "verdict",
    "Verdict",
    _verdicts,
    (
        Col("use", "title", left=True),
        Col("verdict", "verdict", left=True),
        Col("judge", "value", left=True, says="with its 95 % interval, {groups} resampled"),
        Col(
            "one rater",
            "rater",
            left=True,
            optional=True,
            says="the same of one rater, compared with the others",
        ),
    ),
    sections=["head"],
    section="{head}",
)


def rules(results: Results) -> list[Block]:
    """The measure of each verdict and what earns it, with this run's margins."""
    rows = [
        (
            rule.title,
            [
                f"{rule.measured_by}.",
                f"Yes: {rule.yes}.",
                f"With care: {rule.with_care}.",
                f"No: {rule.no}.",
            ],
        )
        for rule in rules_of(results.config).values()
    ]
    return [Facts(rows)] if results.verdict else []


# --- how far from a human -----------------------------------------------------------------------


def distance_rows(results: Results) -> Rows:
    """A row a range of the setting taken, and one of a single rater: agreement over all texts,
    within groups and over systems; bias and error in points; error and R2 after calibration by
    other groups, and the error of systems' means, calibrated by other systems where these are
    known."""
    document = _by_range(of_taken(results, _level(results, "document")))
    systems = system_rows(results)
    judged = of_taken(results, judge_rows(results))
    raw, fitted = (
        _by_range([row for row in judged if row["scores"] == kind]) for kind in (RAW, CALIBRATED)
    )
    over = _by_range(of_taken(results, systems))
    table = []
    for part in rows_by(of_taken(results, _level(results, results.level)), ["dimension"]):
        dimension = part[0]["dimension"]
        for row in part:
            key = (dimension, row["range"])
            system = over.get(key, {})
            unseen = "unseen_error" if is_known(system.get("unseen_error")) else "calibrated_error"
            pairs = (
                "pairwise_others"
                if is_known(system.get("pairwise_others"))
                else "pairwise_accuracy"
            )
            columns = {
                "spearman": (row, "spearman"),
                "others": (row, "spearman_others"),
                "within": (document.get(key, {}), "spearman"),
                "pairs": (system, pairs),
                "bias": (raw.get(key, {}), "bias"),
                "single": (raw.get(key, {}), "single_mae"),
                "mae": (fitted.get(key, {}), "mae"),
                "r2": (fitted.get(key, {}), "r2"),
                "error": (system, unseen),
                "largest": (system, f"{unseen}_largest"),
            }
            cells = {
                f"{name}{end}": of.get(f"{key}{end}")
                for name, (of, key) in columns.items()
                for end in ENDS
            }
            table.append(
                {"dimension": dimension, "range": row["range"], "flags": row.get("flags")} | cells
            )
        human = dict(human_figures(results).get(dimension, {}))
        system = over.get((dimension, part[0]["range"]), {})
        columns = {
            "others": (human, "ceiling"),
            "pairs": (system, "pairwise_ceiling"),
            "single": (human, "single_mae"),
            "error": (system, "rater_error"),
            "largest": (system, "rater_error_largest"),
        }
        cells = {
            f"{name}{end}": of.get(f"{key}{end}")
            for name, (of, key) in columns.items()
            for end in ENDS
        }
        if any(map(is_known, cells.values())):
            table.append({"dimension": dimension, "range": "one rater"} | cells)
    return _headed(results, table)


def _level(results: Results, level: str) -> Rows:
    rows = records(correlation_frame(results, level, silent=True))
    return [row for row in rows if row["range"] != "average"]


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
    judged = of_taken(results, judge_rows(results))
    raw, fitted = (
        _by_range([row for row in judged if row["scores"] == kind]) for kind in (RAW, CALIBRATED)
    )
    facts: dict[str, dict[str, Any]] = {}
    for lead in taken_rows(results):
        human = human_figures(results).get(lead["dimension"], {})
        place = (lead["dimension"], lead["range"])
        score = fitted.get(place, {})
        better = RAW if score.get("better_scores") == RAW else CALIBRATED
        score = raw[place] if better == RAW else score
        facts[lead["dimension"]] = {"lead": lead, "human": human, "score": score, "better": better}
        facts[lead["dimension"]]["scale"] = results.scale.get(lead["dimension"])
    return _sentences(results, "distance", facts)


# --- which setting ------------------------------------------------------------------------------


def setting_lines(results: Results) -> list[Block]:
    """The setting to take, what it promises, and how many folds agreed."""
    facts = {}
    for part in rows_by(choice_rows(results), ["dimension"]):
        taken = next(row for row in part if row["taken"])
        best = next((row for row in part if row["best"]), taken)
        facts[taken["dimension"]] = {"taken": taken, "settings": len(part), "best": best}
    return _sentences(results, "setting", facts)


def pair_lines(results: Results) -> list[Block]:
    """Judges that compare two texts: whether they are to be believed, and the first system."""
    return _bare(results, [*pairwise.pair_sentences(results), *pairwise.ranking_sentences(results)])


# --- what can fool or shift it ------------------------------------------------------------------


def shift_rows(results: Results) -> Rows:
    """A row a range of the setting taken: its favorite score, the humans', its shift, answers that
    failed, and the probability on scores."""
    humans = {
        (row["dimension"], row["range"]): row for row in favorites(results) if row["who"] == RATERS
    }
    masses = {
        (row["dimension"], row["defense"], row["range"], row["judge"], name): row
        for row in records(forecast_frame(results))
        for name in row["decodings"]
    }
    rows = [] if results.compares else of_taken(results, _level(results, results.level))
    for row in rows:
        human = humans.get((row["dimension"], row["range"]))
        of = masses.get(
            tuple(row[name] for name in ("dimension", "defense", "range", "judge", "decoding")), {}
        )
        row |= {"favorite": favorite_text(row), "mass": of.get("mass")}
        row["human"] = f"{human['score']} ({percent(human['share'])})" if human else None
    return _headed(results, rows)


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
"""Attacks on the setting taken."""


def shift_lines(results: Results) -> list[Block]:
    """The range's share of the variance, raw and calibrated; and what attacks do."""
    facts: dict[str, dict[str, Any]] = {}
    for row in of_taken(results, records(variance_frame(results))):
        if is_known(row["range_both"]):
            facts.setdefault(row["dimension"], {})["calibrated" if row["calibrated"] else "raw"] = (
                row["range_both"]
            )
    attacked = defenses.defense_sentences(results) or attacks.attack_sentences(results)
    if (
        results.metrics
        and not results.compares
        and all(row["attack"] == "none" for row in results.metrics)
    ):
        attacked = ["No attack was run."]
    return [*_bare(results, attacked), *_sentences(results, "shift", facts)]


def preparation_lines(results: Results) -> list[Block]:
    """References and detectors in sentences."""
    return _bare(results, defenses.preparation_sentences(results))


# --- where is it wrong --------------------------------------------------------------------------


def error_lines(results: Results) -> list[Block]:
    """The systems or lengths of texts that the setting taken scores farthest above the humans, and
    farthest below."""
    facts = {}
    for row in error_rows(results):
        sure = sorted(filter(is_sure, row["slices"]), key=lambda part: part["error"])
        facts[row["dimension"]] = {"ends": [*sure[-1:], *sure[:1]] if len(sure) > 1 else sure}
    return _sentences(results, "wrong", facts)


# --- how sure -----------------------------------------------------------------------------------


def certainty_lines(results: Results) -> list[Block]:
    """The half width of the interval of Spearman, or of systems' means where humans rated a
    part."""
    few = {row["dimension"]: row for row in few_labels_rows(results)}
    facts = {}
    for lead in taken_rows(results):
        low = lead.get("spearman_low")
        high = lead.get("spearman_high")
        half = None if low is None or high is None else (high - low) / 2
        facts[lead["dimension"]] = {"lead": lead, "half": half, "few": few.get(lead["dimension"])}
    return _sentences(results, "sure", facts)
