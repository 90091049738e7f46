"""The league of a judge: what each repair is worth against the plain decoding, what it costs, and
which one to take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from judgebench.report.table import Block, Col, Paragraph, View, mean_of, rows_by
from judgebench.report.views.advice import choice_rows, recommendations
from judgebench.report.views.correlations import comparison_note, comparison_rows, correlation_rows
from judgebench.results.results import Results, range_of, ranges_of, unattacked
from judgebench.stats.clusters import Estimate, keys_of
from judgebench.studies.humans import CALIBRATED, RAW
from judgebench.studies.paired import BETTER, LESS, MORE, WORSE
from judgebench.studies.scores import CLEAN
from judgebench.studies.variance import RANGES
from judgebench.types import LABELS, RANGE, Key, Record, Row, Rows
from judgebench.words import formats
from judgebench.words.formats import is_known, percent, say, short, signed_three, three, two

_REPAIR = ("dimension", "defense", "judge", "decoding", "lambda", "temperature")
_COMPARED = ("difference", "difference_low", "difference_high", "p_holm", "says", "significant")


def league_rows(results: Results) -> Rows:
    """A row a repair (judge and decoding, under a defense), the mean over its ranges: records of
    choice.json with what other files say of the same setting, those of highest Spearman first.

    Added are `spearman`; `difference`, `p_holm` and `significant`, if the run declares a plain
    decoding; `error` of calibrated scores; `raw` and `calibrated`, the range's share of the
    variance in per cent; `tokens` of all prompts of a score; `change ATTACK`, as part of the range,
    and `differs ATTACK`, True where the plain decoding's is another.
    """
    figures = _figures(results)
    tokens = _prompt_tokens(results)
    rows = []
    for part in rows_by(choice_rows(results), _REPAIR):
        # 1. each range of a repair
        for row in part:
            prompts = tokens[row["dimension"], row["defense"]]
            length = sum(prompts.values())
            if row["ranges"] == 1:
                length = prompts.get(range_of(row), 0.0)
            row["tokens"] = length * row["readings"] / row["ranges"] or None
            row |= figures[_key(row)]
        # 2. their mean
        mean = part[0] if len(part) == 1 else _mean(part)
        remarks = [f"{row['remark']} {row['place']}" for row in part if row["remark"]]
        rows.append(
            {
                **mean,
                "remark": "; ".join(remarks),
                "share": sum(row["share"] for row in part),
                "taken": any(row["taken"] for row in part),
                **figures[_key(part[0], mean=True)],
            }
        )
    # 3. the highest first, dimension by dimension
    rows.sort(key=lambda row: -row["spearman"] if is_known(row.get("spearman")) else 2.0)
    dimensions = list(dict.fromkeys(record["dimension"] for record in results.choice))
    return sorted(rows, key=lambda row: dimensions.index(row["dimension"]))


def _mean(rows: Rows) -> Record:
    """The means of a repair's ranges, where all of them are known; they have no intervals."""
    mean = rows[0] | dict.fromkeys((*_COMPARED, "spearman_low", "spearman_high"))
    changes = [name for name in mean if name.startswith("change ")]
    return mean | {name: mean_of(rows, name) for name in ("spearman", "error", "tokens", *changes)}


def _prompt_tokens(results: Results) -> dict[Any, dict[Any, float]]:
    """Dimension and defense -> range -> the mean tokens of a prompt of clean texts."""
    clean = results.readings[results.readings["attack"] == CLEAN]
    tokens: dict[Any, dict[Any, float]] = defaultdict(dict)
    for names, part in clean.groupby(["dimension", "defense"], sort=False):
        for score_range, texts in ranges_of(part):
            tokens[names][score_range] = float(texts["prompt_tokens"].mean())
    return tokens


def _figures(results: Results) -> dict[Key, Record]:
    """Numbers from files other than choice.json, by `_key`; none of a key that no file has."""
    figures: dict[Key, Record] = defaultdict(dict)
    # 1. agreement, and its difference to the plain decoding
    for row in correlation_rows(results, silent=True):
        if row["range"] != "average":
            figures[_key(row)] |= keys_of("spearman", Estimate.of(row, "spearman"))
    for row in compared(results):
        for side in ("first", "second"):
            figures[_key(row, f"{side}_")] |= keys_of("spearman", Estimate.of(row, side))
        figures[_key(row, "first_")] |= {name: row[name] for name in _COMPARED}
    # 2. error, and the range's share of the variance
    for record in results.beside_humans:
        if record["scores"] == CALIBRATED:
            figures[_key(record)]["error"] = record["mae"]
    for record in results.variance:
        if record["study"] == RANGES and is_known(record["range_both"]):
            name = CALIBRATED if record["calibrated"] else RAW
            figures[_key(record, mean=True)][name] = 100 * record["range_both"]
    # 3. changes by attacks
    for record in results.shown:
        if record["attack"] != CLEAN and is_known(record.get("change")):
            share = record["change"] / (record["range_max"] - record["range_min"])
            figures[_key(record)][f"change {record['attack']}"] = share
    for record in results.attack_differences:
        if (record["split"], record["statistic"]) == (results.split, "change"):
            differs = record["says"] in (MORE, LESS)
            figures[_key(record, "first_")][f"differs {record['attack']}"] = differs
    return figures


def _key(row: Row, side: str = "", mean: bool = False) -> Key:
    """The repair that a record, or one side of it, is about, and its range; None of a mean over
    ranges."""
    values = [row.get(f"{side}{name}", row.get(name)) for name in _REPAIR]
    values += [None if mean else row[name] for name in RANGE]
    values.append(None if mean else row.get(LABELS) or None)
    return tuple(value if is_known(value) else None for value in values)


def compared(results: Results) -> Rows:
    """The comparisons of clean texts with the plain decoding; none where the run declares no such
    decoding."""
    plain = results.config.get("baseline")
    return comparison_rows(unattacked(results.comparisons), results.groups) if plain else []


# --- the table ----------------------------------------------------------------------------------


def _note(results: Results, rows: Any) -> str:
    note = f"{results.split.capitalize()} split; what learns is cross-fitted."
    plain = results.config.get("baseline")
    if not plain:
        return note
    # all defenses together
    tested = [row | {"condition": row["dimension"]} for row in compared(results)]
    return f"{note} Difference: to main, {plain}. {comparison_note(tested, results.groups)}"


LEAGUE = View(
    "league",
    "Repairs, means over ranges",
    league_rows,
    (
        Col("judge, decoding", "who", detail="remark", left=True, width=23),
        Col("Spearman", "spearman", three, short),
        Col(
            "difference",
            form=signed_three,
            ends=lambda value: signed_three(value).replace("0.", ".", 1),
            marked="significant",
            optional=True,
        ),
        Col("p, Holm", "p_holm", formats.p_value, optional=True, page=True),
        Col(
            "error",
            form=two,
            optional=True,
            says="distance from the humans' mean, in points of their scale, of scores calibrated "
            "by other {groups}",
        ),
        Col(
            "range %",
            "{raw:.0f}/{calibrated:.0f}",
            optional=True,
            says="share of the variance of scores that the range makes, raw/calibrated",
        ),
        Col(
            "passes",
            "readings",
            formats.whole,
            says="over prompts, of all models and ranges, that a score takes",
        ),
        Col("prompt tokens", "tokens", formats.thousands, optional=True, page=True),
        *(
            Col(
                attack,
                f"change {attack}",
                formats.signed_two,
                marked=f"differs {attack}",
                optional=True,
                says="change of the mean score by this attack, as part of the range",
            )
            for attack in ("dsi", "bed")
        ),
        Col("chosen in folds", "share", percent, page=True),
    ),
    by=["dimension"],
    size="{n} {examples_word} of {groups} {groups_word}",
    note=_note,
    brackets="{groups} resampled",
    marks="significant after Holm's correction; of an attack, that its change is not the plain "
    "decoding's",
)


def league_of_tasks(runs: Mapping[str, Results]) -> list[Block]:
    """Recommendations of several tasks, and their leagues in one table."""
    lines = []
    rows = []
    for run in runs.values():
        lines += [Paragraph(f"{run.dataset}, {sentence}") for sentence in recommendations(run)]
        for row in league_rows(run):
            rows.append(row | {"task": f"{run.dataset}, {row['dimension']}"})
    view = replace(
        LEAGUE,
        name="league_tasks",
        frame=lambda _: rows,
        by=(),
        size="",
        sections=["task"],
        section="{task}",
        note="",
    )
    return lines + view(runs)


# --- sentences ----------------------------------------------------------------------------------


def repair_sentences(results: Results) -> list[str]:
    """A sentence a dimension: the repairs better, or worse, than the plain decoding in the mean
    over ranges."""
    rows = [row for row in league_rows(results) if row.get("says")]
    plain = f"main, {results.config.get('baseline')}"
    facts = {"plain": plain, "BETTER": BETTER, "WORSE": WORSE}
    return [say("repairs", rows=part, **facts) for part in rows_by(rows, ["dimension"])]
