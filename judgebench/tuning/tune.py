"""Tuning of a run: the lambda and t of each dimension and range, and the records of tuning.json.

A record for each tuned decoding, dimension and range, in JSON's own types, never NaN:

    {"tune": "dev",              # dev or published: how lambda and t were chosen
     "decoding": "contrastive",  # its name in scores.parquet, where `judge` is "pair"
     "rule": "argmax",           # or "expectation"
     "alpha": 0.0,               # plausibility
     "dimension": "coherence", "range_min": 0.0, "range_max": 4.0, "range_step": 1.0,
     "lambda": 0.1, "temperature": 4.0, "kappa": 0.025,  # the choice
     "dev": 0.31, "test": 0.29,  # its Spearman, level dataset; null where a split has no example
     "constant": false,          # see `Point`
     "dev_examples": 160, "dev_groups": 10, "test_examples": 1440, "test_groups": 90,
     "edge": false,              # the best may lie farther out, see `Tuner.at_edge`
     "grid": [{"lambda": 0.01, "temperature": 0.5, "kappa": 0.02, "dev": 0.30, "test": 0.28,
               "constant": false}, ...],
     "grid_best": {...},         # the point that tune=dev chooses; null without a dev split
     "grid_kappas": 18,          # distinct decodings in the grid
     "grid_scores": 7}           # truly distinct vectors of scores, over both splits

`grid` is in the order lambda by lambda, in each t by t, whatever `tune` is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from judgebench.data.dataset import DEV, TEST, rated
from judgebench.decoding.rules import Contrastive, Decoding, Decodings
from judgebench.decoding.scores import ranged
from judgebench.stats.maps import rescale
from judgebench.studies.scores import CLEAN, shown_split
from judgebench.tuning.learned import Learner, Tuned, check_groups
from judgebench.tuning.tuners import CrossFit, MeasuredCell, Setting, Tuner
from judgebench.types import RatingKey, Reading, Record, Scale, ScoreRange
from judgebench.words.errors import UserError

_SPLITS = (DEV, TEST)


def check_tuning(
    tuner: Tuner,
    decodings: Decodings,
    mode: str,
    splits: Collection[str],
    cells: Sequence[RatingKey],
    models: tuple[str | None, str | None],
) -> None:
    """Raises `UserError` where the decodings cannot be tuned, before anything is read: by the
    judge's mode, the splits that have examples, and `Tuner.check`."""
    if isinstance(tuner, CrossFit) and mode != "score_tokens":
        # free answers have nothing to learn; the choice among their settings is cross-fitted all
        # the same
        return
    if mode != "score_tokens":
        raise UserError(
            f"tune={tuner.name}: a free answer is read under one lambda and t, so there is nothing "
            "to choose from; use judge.mode=score_tokens, or tune=none."
        )
    _tuned(tuner, decodings)
    if tuner.needs_dev and DEV not in splits:
        raise UserError(
            f"tune={tuner.name}: there is no development split to choose lambda and t on; give it "
            "articles with data.dev_share=0.1 (and at least two articles), or take tune=none."
        )
    tuner.check(cells, models)


def tune(
    readings: Sequence[Reading],
    decodings: Decodings,
    tuner: Tuner | None,
    scale: Mapping[str, Scale] | None = None,
) -> Tuned:
    """Chooses lambda and t for each cell and each decoding that contrasts, from readings with
    log-probabilities of main model and assistant (see `check_tuning`); with `CrossFit` also what
    decodings learn from human scores, on a `scale` (what the scores span where it is not named)."""
    if tuner is None:
        return Tuned()
    if isinstance(tuner, CrossFit):
        return cross_fit(readings, decodings, tuner, scale or {})
    # 1. the rated clean texts without a defense, by cell and split
    parts: dict[RatingKey, dict[str, list[Reading]]] = {}
    for reading in readings:
        condition = reading.prompt.condition
        if (condition.attack, condition.defense) == ("none", "none"):
            splits = parts.setdefault((condition.dimension, condition.range), {})
            if rated([reading.prompt.example], condition.dimension):
                splits.setdefault(reading.split, []).append(reading)
    # 2. of each decoding, the choices for the dimensions and their ranges
    decoded: dict[RatingKey, dict[str, Decoding]] = {cell: {} for cell in parts}
    dimensions = list(dict.fromkeys(dimension for dimension, _ in parts))
    records = []
    for name, decoding in _tuned(tuner, decodings).items():
        for cell in sorted(parts, key=lambda cell: dimensions.index(cell[0])):
            measured = MeasuredCell(cell, parts[cell], decoding, tuner.grid)
            setting = tuner.choose(measured)
            if setting is None:
                continue
            decoded[cell][name] = replace(
                decoding, lambda_=setting.lambda_, temperature=setting.temperature
            )
            record = {"tune": tuner.name, "decoding": name, **_record(measured, setting)}
            records.append(record | {"edge": tuner.at_edge(setting)})
    return Tuned(decoded, records)


def cross_fit(
    readings: Sequence[Reading],
    decodings: Decodings,
    tuner: CrossFit,
    scale: Mapping[str, Scale],
) -> Tuned:
    """Every decoding that learns or contrasts, cross-fitted in each dimension and range over the
    rated clean texts of the reported split, judged without a defense. Attacked and defended texts
    of an article are decoded as it is. Where too few texts are answered for a decoding to
    learn, without any two folds' articles, it is left out; `UserError` where no other is."""
    # 1. the texts that were read, by what they were judged under; nothing is learned with a defense
    split = shown_split(reading.split for reading in readings)
    cells: dict[tuple[str, ScoreRange, str], dict[tuple[str, str], Reading]] = {}
    for reading in readings:
        condition = reading.prompt.condition
        example = reading.prompt.example
        clean = condition.attack == CLEAN and reading.split == split and reading.text is None
        if clean and rated([example], condition.dimension):
            cell = condition.dimension, condition.range, condition.defense
            cells.setdefault(cell, {})[example.example_id, condition.order] = reading
    names = _tuned(tuner, decodings)
    tuned: dict[RatingKey, dict[str, Decoding | None]] = {}
    left_out: dict[str, list[str]] = {}
    learners: dict[tuple[str, ScoreRange, str], dict[str, tuple[Learner, list[str]]]] = {}
    # 2. a learner for each cell and decoding; one across the ranges has the first alone
    for (dimension, score_range, defense), texts in cells.items():
        ranges = [other for name, other, shown in cells if (name, shown) == (dimension, defense)]
        for name, decoding in names.items():
            if decoding.across and ranges[0] != score_range:
                continue
            asked = ranges if decoding.across else [score_range]
            sides = []
            for shown, part in product((CLEAN, defense), asked):
                sides.append(cells.get((dimension, part, shown), {}))
            keys = [key for key in texts if all(key in side for side in sides)]
            if not keys:
                continue
            read = [ranged([side[key] for key in keys]) for side in sides]
            examples = [texts[key].prompt.example for key in keys]
            human = np.array([example.human[dimension] for example in examples], dtype=np.float64)
            low, high = scale.get(dimension) or (human.min(), human.max())
            human = rescale(human, (low, high if high > low else low + 1.0), score_range.ends)
            groups = np.array([example.group_id for example in examples])
            check_groups(len(set(groups)), dimension)
            plain, defended = read[: len(asked)], read[len(asked) :]
            learner = Learner(decoding, plain, human, groups, tuner.grid, defended)
            of_range = tuned.setdefault((dimension, score_range), {})
            try:
                learner.learn(learner.scarce(tuner.folds))
                folded = learner.folded(min(tuner.folds, len(set(groups))), tuner.seed)
            except UserError as error:
                if len(decodings) == 1:
                    raise
                if defense == CLEAN:
                    of_range[name] = None
                left_out.setdefault(dimension, []).append(f"in range {score_range} {error}")
                continue
            of_cell = learners.setdefault((dimension, score_range, defense), {})
            of_cell[name] = learner, [example.example_id for example in examples]
            if defense == CLEAN:
                of_range[name] = folded
    reasons = {dimension: list(dict.fromkeys(texts)) for dimension, texts in left_out.items()}
    return Tuned(tuned, (), learners, reasons)


def _tuned(tuner: Tuner, decodings: Decodings) -> dict[str, Contrastive]:
    """The decodings that are tuned, those that learn with `CrossFit`; `UserError` where none can
    be."""
    contrasting: Record = {
        name: rule
        for name, rule in decodings.items()
        if isinstance(rule, Contrastive) and not rule.fixed
    }
    learning = {name: rule for name, rule in decodings.items() if rule.learns}
    cross_fits = isinstance(tuner, CrossFit)
    if not contrasting and not cross_fits:
        raise UserError(
            f"tune={tuner.name}: no decoding contrasts; choose one, as "
            "decoding=[greedy,contrastive], or tune=none."
        )
    for name in tuner.decodings or ():
        if name not in contrasting:
            listed = ", ".join(contrasting) or "none"
            raise UserError(
                f"tune.decodings: {name!r} is not one of those that contrast: {listed}."
            )
    kept = {
        name: rule
        for name, rule in contrasting.items()
        if tuner.decodings is None or name in tuner.decodings
    }
    return kept | (learning if cross_fits else {})


def _record(measured: MeasuredCell, setting: Setting) -> Record:
    """The part of a record of tuning.json that is about one cell under one decoding."""
    dimension, score_range = measured.cell
    record = {
        "rule": measured.decoding.rule,
        "alpha": measured.decoding.alpha,
        "dimension": dimension,
        **score_range.columns,
        **measured.at(setting),
    }
    for split in _SPLITS:
        rows = measured.readings.get(split, ())
        groups = {reading.prompt.example.group_id for reading in rows}
        record |= {f"{split}_examples": len(rows), f"{split}_groups": len(groups)}
    best = measured.best and measured.at(measured.best)
    return record | {
        "edge": False,
        "grid": measured.points,
        "grid_best": best,
        "grid_kappas": len({point.same for point in measured.grid}),
        "grid_scores": measured.vectors,
    }
