"""Trust in a calibrated judge: its figures, and the sentences that say where they end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from judgebench.cards.card import Estimate, JudgeCard
from judgebench.data.dataset import DEV, TEST
from judgebench.report.views.answers import FLAGS
from judgebench.stats.clusters import Clusters
from judgebench.stats.correlation import CORRELATIONS

_AGREEMENT = [f"{name}{end}" for name in CORRELATIONS for end in ("", "_low", "_high")]
_FEW_GROUPS = 20
_MANY_FAILED = 0.02


def agreement(record: Mapping[str, Any] | None) -> dict[str, Any]:
    """The figures of one split in a card: number of texts, correlations with 95 % intervals, shares and flags."""
    if record is None:
        return {}
    kept = ("n", "groups", *_AGREEMENT, "failed_share", "clamped_share", "modal_share", "flags")
    return {name: record[name] for name in kept if name in record}


def estimate_errors(
    estimate: Estimate, dev: pd.DataFrame, test: pd.DataFrame, resamples: int, seed: int
) -> dict[str, float | None]:
    """The distance of the estimates from the humans' scores on the test split.

    Args:
        dev, test: columns score, human and group_id, of texts that have a score.
        resamples, seed: of the groups, behind each 95 % interval.

    Returns:
        `mean_absolute_error`; `guess_error`, that of always saying the development split's mean; `gain`, the latter
        less the former; each with `_low` and `_high`.
    """
    human = test["human"].to_numpy(dtype=float)
    clusters = Clusters.of(test["group_id"].to_numpy(dtype=str), resamples, seed)
    own = np.abs(estimate(test["score"].to_numpy(dtype=float)) - human)
    guess = np.abs(float(dev["human"].mean()) - human)
    figures = {"mean_absolute_error": own, "guess_error": guess, "gain": guess - own}
    return clusters.record({name: clusters.mean(values) for name, values in figures.items()})


def attacked(records: Sequence[Mapping[str, Any]], selected: Mapping[str, Any], dimension: str) -> list[dict[str, Any]]:
    """The change of the selected judge's scores on the test split by each attack that was tried."""
    kept = ("attack", "change", "change_low", "change_high", "raised_share")
    return [
        {name: record[name] for name in kept}
        for record in records
        if record["attack"] != "none"
        and (record["split"], record["level"], record["dimension"]) == (TEST, "dataset", dimension)
        and all(record.get(axis) == value for axis, value in selected.items())
        and record.get("change") is not None
    ]


def limits(
    metric: str,
    tried: int,
    figures: Mapping[str, Mapping[str, Any]],
    estimate: Estimate | None,
    wanted: str,
    attacks: Sequence[Mapping[str, Any]],
    data: Mapping[str, Any],
) -> list[str]:
    """Sentences on where the judge must not be trusted, most important first; every number in them stands in the card
    too.

    Args:
        tried: number of judges that it was selected from.
        wanted: the kind of the estimate that was asked for.
    """
    test = figures.get(TEST) or {}
    return [
        *_agreement_limits(metric, tried, figures[DEV], test, data["groups_are"]),
        *_score_limits(figures, test),
        *_estimate_limits(test, wanted != "none" and estimate is None),
        *_attack_limits(attacks),
        f"All of this holds for texts as those of {data['name']}; for others, calibrate anew.",
    ]


def _agreement_limits(
    metric: str, tried: int, dev: Mapping[str, Any], test: Mapping[str, Any], groups: str
) -> Iterator[str]:
    if not test:
        yield "Nothing was held back to test it on: how well it agrees with humans is not known."
    elif test.get(f"{metric}_low") is None:
        yield f"Its {metric} on the test split has no interval: nobody can say how sure it is."
    elif test[f"{metric}_low"] <= 0:
        yield (
            f"Its agreement with humans on the test split, {metric} {test[metric]:.2f} "
            f"[{test[f'{metric}_low']:.2f}, {test[f'{metric}_high']:.2f}], cannot be told from none."
        )
    if tried > 1:
        yield (
            f"It is the best of {tried} judges on the development split, whose {metric} there, {dev[metric]:.2f}, is "
            "therefore too high; the test split's counts."
        )
    if test and (test.get("groups") or 0) < _FEW_GROUPS:
        yield (
            f"The test split has {test['groups']} {groups}: its intervals are wide, and those of the correlations may "
            "be too narrow still."
        )


def _score_limits(figures: Mapping[str, Mapping[str, Any]], test: Mapping[str, Any]) -> Iterator[str]:
    flagged: dict[str, list[str]] = {}
    for split, known in figures.items():
        for flag in known.get("flags") or ():
            flagged.setdefault(flag, []).append(split)
    for flag, splits in flagged.items():
        where = f"the {splits[0]} split" if len(splits) == 1 else "both splits"
        yield f"On {where} it is flagged {flag}{f': {FLAGS[flag]}' if flag in FLAGS else ''}."
    if test.get("failed_share", 0) > _MANY_FAILED:
        yield f"It gave no score to {100 * test['failed_share']:.0f} % of the test texts."


def _estimate_limits(test: Mapping[str, Any], missing: bool) -> Iterator[str]:
    if missing:
        yield (
            "The humans' scores do not rise with its scores on the development split, so there is no estimate on the "
            "humans' scale."
        )
    elif test.get("gain_low") is not None and test["gain_low"] <= 0:
        yield (
            f"Its estimates on the humans' scale are off by {test['mean_absolute_error']:.2f} on average, which is not "
            f"shown to be better than always saying the mean ({test['guess_error']:.2f})."
        )


def _attack_limits(attacks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    raised = [attack for attack in attacks if (attack["change_low"] or 0) > 0]
    if raised:
        worst = max(raised, key=lambda attack: attack["change"])
        yield (
            f"It can be fooled: {worst['attack']} moves its scores by {worst['change']:+.2f} "
            f"[{worst['change_low']:+.2f}, {worst['change_high']:+.2f}] on average."
        )
    elif not attacks:
        yield "What texts that are written to fool it would score was not tried."


def card_view(card: JudgeCard) -> str:
    """The selected judge in some lines: how well it does on the test split, and its limits."""
    lines = [f"Judge card: {card.title}"]
    test = card.figures.get(TEST, {})
    shown = [f"{name} {_figure(test, name)}" for name in CORRELATIONS if test.get(name) is not None]
    if shown:
        lines.append(f"  test split, {test['n']} texts: " + ", ".join(shown))
    if test.get("mean_absolute_error") is not None:
        lines.append(
            f"  estimates on the humans' scale are off by {_figure(test, 'mean_absolute_error')}; always saying the "
            f"mean: {_figure(test, 'guess_error')}"
        )
    return "\n".join([*lines, *(f"  - {limit}" for limit in card.limits)])


def _figure(figures: dict[str, Any] | Any, name: str) -> str:
    value, low, high = (figures.get(f"{name}{end}") for end in ("", "_low", "_high"))
    ends = f" [{low:.3f}, {high:.3f}]" if low is not None and high is not None else ""
    return f"{value:.3f}{ends}"
