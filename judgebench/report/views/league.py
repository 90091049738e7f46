"""The league of a judge: what each repair is worth against the plain decoding, what it costs, and
which one to take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from judgebench.report import formats
from judgebench.report.formats import is_known, percent, say, short, signed_three, three, two
from judgebench.report.table import Block, Col, Paragraph, Row, Rows, View, records, rows_by
from judgebench.report.views.correlations import comparison_note, comparison_rows, correlation_frame
from judgebench.report.views.humans import ENDS
from judgebench.results.results import NO_DEFENSE, Results, range_of, ranges_of, setting, unattacked
from judgebench.stats.humans import CALIBRATED
from judgebench.stats.paired import BETTER, LESS, MORE, WORSE
from judgebench.stats.scores import CLEAN
from judgebench.stats.variance import RANGES
from judgebench.types import LABELS, RANGE

_REPAIR = ("dimension", "defense", "judge", "decoding", "lambda", "temperature")
_COMPARED = (*(f"difference{end}" for end in ENDS), "p_holm", "says", "significant")


def choice_rows(results: Results) -> Rows:
    """The records of choice.json with labels: `who`, the repair; `place`, its range or ranges;
    `remark`, whether it is taken or looks best."""
    rows = records(results.choice)
    for row in rows:
        defense = "" if row["defense"] == NO_DEFENSE else f"defense {row['defense']}"
        row["who"] = ", ".join(filter(None, (row["judge"], row["decoding"], setting(row), defense)))
        row["place"] = (
            f"in range {range_of(row)}" if row["ranges"] == 1 else f"over {row['ranges']} ranges"
        )
        row["remark"] = ", ".join(["taken"] * row["taken"] + ["looks best"] * row["best"])
    return rows


def league_rows(results: Results) -> Rows:
    """A row a repair (judge and decoding, under a defense), the mean over its ranges: records of
    choice.json with what other files say of the same setting, those of highest Spearman first.

    Added are `spearman`; `difference`, `p_holm` and `significant`, if the run declares a plain
    decoding; `error` of calibrated scores; `raw` and `calibrated`, the range's share of the
    variance in per cent; `tokens` of all prompts of a score; `change ATTACK`, as part of the range,
    and `differs ATTACK`, True where the plain decoding's is another.
    """
    found = _found(results)
    tokens = dict[tuple[Any, ...], Mapping[Any, float]]()
    # 1. the mean tokens of a prompt, by condition and range
    for names, frame in results.readings.groupby(["attack", "dimension", "defense"], sort=False):
        tokens[tuple(names)] = {
            of: float(texts["prompt_tokens"].mean()) for of, texts in ranges_of(frame)
        }
    # 2. the settings, and their means over ranges
    rows: Rows = []
    for part in rows_by(choice_rows(results), _REPAIR):
        for row in part:
            prompts = tokens.get((CLEAN, row["dimension"], row["defense"]), {})
            length = sum(prompts.values()) if row["ranges"] > 1 else prompts.get(range_of(row), 0.0)
            row |= {"tokens": length * row["readings"] / row["ranges"] or None} | found[_key(row)]
        mean = part[0] | {
            "share": sum(row["share"] for row in part),
            "taken": any(row["taken"] for row in part),
        }
        mean["remark"] = "; ".join(
            f"{row['remark']} {row['place']}" for row in part if row["remark"]
        )
        if len(part) > 1:
            mean |= dict.fromkeys((*_COMPARED, "spearman_low", "spearman_high"))
            for name in (
                "spearman",
                "error",
                "tokens",
                *(name for name in part[0] if name.startswith("change ")),
            ):
                values = [row[name] for row in part if is_known(row.get(name))]
                mean[name] = sum(values) / len(part) if len(values) == len(part) else None
        mean |= found[_key(part[0], mean=True)]
        rows.append(mean)
    dimensions = list(dict.fromkeys(row["dimension"] for row in rows))
    rows.sort(key=lambda row: -row["spearman"] if is_known(row.get("spearman")) else 2.0)
    return sorted(rows, key=lambda row: dimensions.index(row["dimension"]))


def _found(results: Results) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Numbers from files other than choice.json, by `_key`; none of a key that no file has."""
    found: dict[tuple[Any, ...], dict[str, Any]] = defaultdict(dict)
    for row in records(correlation_frame(results, silent=True)):
        if row["range"] != "average":
            found[_key(row)] |= {f"spearman{end}": row[f"spearman{end}"] for end in ENDS}
    for row in compared(results):
        for side in ("first", "second"):
            found[_key(row, f"{side}_")] |= {f"spearman{end}": row[f"{side}{end}"] for end in ENDS}
        found[_key(row, "first_")] |= {name: row[name] for name in _COMPARED}
    for record in results.beside_humans:
        if record["scores"] == CALIBRATED:
            found[_key(record)]["error"] = record["mae"]
    for record in results.variance:
        if record["study"] == RANGES and is_known(record["range_both"]):
            name = "calibrated" if record["calibrated"] else "raw"
            found[_key(record, mean=True)][name] = 100 * record["range_both"]
    for record in results.shown:
        if record["attack"] != CLEAN and is_known(record.get("change")):
            share = record["change"] / (record["range_max"] - record["range_min"])
            found[_key(record)][f"change {record['attack']}"] = share
    for record in results.attack_differences:
        if (record["split"], record["statistic"]) == (results.split, "change"):
            found[_key(record, "first_")][f"differs {record['attack']}"] = record["says"] in (
                MORE,
                LESS,
            )
    return found


def _key(row: Row, side: str = "", mean: bool = False) -> tuple[Any, ...]:
    """The repair that a record, or one side of it, is about, and its range; None of a mean over
    ranges."""
    values = [row[f"{side}{name}" if f"{side}{name}" in row else name] for name in _REPAIR]
    values += [None if mean else row[name] for name in RANGE] + [
        None if mean else row.get(LABELS) or None
    ]
    return tuple(value if is_known(value) else None for value in values)


def compared(results: Results) -> Rows:
    """The comparisons of clean texts with the plain decoding; none where the run declares no such
    decoding."""
    plain = results.config.get("compare_with")
    return comparison_rows(unattacked(results.comparisons), results.groups) if plain else []


# --- the table ----------------------------------------------------------------------------------


def _note(results: Results, rows: Any) -> str:
    plain = results.config.get("compare_with")
    # all defenses together
    tested = [row | {"condition": row["dimension"]} for row in compared(results)]
    against = (
        f" Difference: to main, {plain}. {comparison_note(tested, results.groups)}" if plain else ""
    )
    return f"{results.split.capitalize()} split; what learns is cross-fitted.{against}"


LEAGUE = View(
    "league",
    "Repairs, means over ranges",
    league_rows,
    (
        Col("judge, decoding", "who", detail="remark", left=True, width=23),
        Col("Spearman", "spearman", three, short),
        Col(
            "difference",
            "difference",
            signed_three,
            lambda value: signed_three(value).replace("0.", ".", 1),
            marked="significant",
            optional=True,
        ),
        Col("p, Holm", "p_holm", formats.p_value, optional=True, page=True),
        Col(
            "error",
            "error",
            two,
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
    lines = [
        Paragraph(f"{run.dataset}, {sentence}")
        for run in runs.values()
        for sentence in recommendations(run)
    ]
    rows = [
        row | {"task": f"{run.dataset}, {row['dimension']}"}
        for run in runs.values()
        for row in league_rows(run)
    ]
    how: dict[str, Any] = {"by": (), "sections": ["task"], "section": "{task}"} | dict.fromkeys(
        ("size", "note"), ""
    )
    return [*lines, *replace(LEAGUE, name="league_tasks", frame=lambda _: rows, **how)(runs)]


# --- sentences ----------------------------------------------------------------------------------


def recommendations(results: Results) -> list[str]:
    """A sentence a dimension: the setting to take, what it promises, how many folds agreed, what
    the best-looking one would have promised."""
    sentences = []
    for part in rows_by(choice_rows(results), ["dimension"]):
        taken, best = (next(row for row in part if row[name]) for name in ("taken", "best"))
        others = sorted(
            (row for row in part if row["share"] and row is not taken),
            key=lambda row: -row["share"],
        )
        # the one that all others are measured by gains nothing, for certain
        plain = min(part, key=lambda row: abs(row["gain"]) + (row["gain_se"] or 0.0))
        facts: dict[str, Any] = {"taken": taken, "best": best, "plain": plain, "others": others}
        kappas = sorted(taken["kappas"] or ())
        facts["kappas"] = " to ".join(
            dict.fromkeys(map(formats.general, [*kappas[:1], *kappas[-1:]]))
        )
        sentences.append(say("league", groups=results.groups, settings=len(part), **facts))
    return sentences


def repair_sentences(results: Results) -> list[str]:
    """A sentence a dimension: the repairs better, or worse, than the plain decoding in the mean
    over ranges."""
    sentences = []
    for part in rows_by([row for row in league_rows(results) if row.get("says")], ["dimension"]):
        better, worse = ([row for row in part if row["says"] == says] for says in (BETTER, WORSE))
        plain = f"main, {results.config['compare_with']}"
        sentences.append(say("repairs", rows=part, plain=plain, better=better, worse=worse))
    return sentences
