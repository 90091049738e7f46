"""From a finished run to judge cards: one for each dimension, of the judge that did best on the development split, with
its figures and sentences that say where they end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import DictConfig

from judgebench.cards.card import LOCAL_JUDGE, NO_ASSISTANT, PARTS, Estimate, JudgeCard, check_arguments
from judgebench.components import TARGET, build_component
from judgebench.config.fields import Annotated, OneOf, check_fields, plain, settings_of
from judgebench.data.dataset import DEV, TEST, JudgeDataModule
from judgebench.defenses.references import REFERENCE_DEFENSES
from judgebench.judges.loading import DTYPES
from judgebench.prompts.rubrics import load_rubrics
from judgebench.readings.reading import Recording
from judgebench.report.views.run import FLAGS
from judgebench.results.results import Results
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import atomic, sha256_of, user_path
from judgebench.runtime.secrets import mask_secrets
from judgebench.stats.clusters import Clusters
from judgebench.stats.correlation import CORRELATIONS
from judgebench.tuning.tuners import PER_RANGE
from judgebench.types import FAILED, LABELS, RANGE, ScoreRange

KINDS = ("linear", "isotonic", "none")
CELL = (*RANGE, LABELS, "defense", "judge", "decoding", "lambda", "temperature")
"""Keys that identify a judge of one dimension."""

_RECORDED = "judgebench.judges.recorded.RecordedSpec"
_OWN = ("main", "pair")  # an assistant's scores are no candidate: it would be a judge of its own
_FEW_GROUPS = 20
_MANY_FAILED = 0.02
_OF_RECORDED = (
    "It was calibrated on recorded readings: it scores other texts where its models lie, which +judge.path=DIR (and "
    "+assistant.path=DIR) names and their SHA-256 tells."
)


@dataclass(frozen=True)
class CalibrationSettings:
    """The config key `calibrate`; `UserError` of values that cannot be."""

    metric: Annotated[str, OneOf(tuple(CORRELATIONS))] = "spearman"
    estimate: Annotated[str, OneOf(KINDS)] = "linear"

    def __post_init__(self) -> None:
        check_fields(self, "calibrate")


def calibration_of(config: DictConfig) -> CalibrationSettings:
    """The config key `calibrate`; `UserError` where it, or another key, ends in no card."""
    settings = settings_of(CalibrationSettings, config.get("calibrate") or {}, "calibrate")
    for entry in config.get("defenses") or ():
        if isinstance(entry, Mapping) and TARGET in entry:
            raise UserError(
                f"defenses: {entry[TARGET]} is a class of your own, and a judge card holds no code, so it "
                "could not be used; leave it out, or write the defense as a template ({template: FILE.txt})."
            )
    recording = _recording(config)
    if recording is not None and recording.setting("judge", "_target_") != LOCAL_JUDGE:
        raise UserError(
            f"judge.path: {recording.path.name} has readings of a judge that is no model here, and says nothing of its "
            "address, so its card could not be used; calibrate with that judge itself."
        )
    if "dataset" not in list(config.metrics.levels):
        raise UserError("metrics.levels: a judge is chosen by its agreement over all pairs; add dataset.")
    return settings


def _recording(config: DictConfig) -> Recording | None:
    """The recorded readings that the configuration's judge takes; None where it takes none."""
    return Recording.open(config.judge.path) if config.judge.get("_target_") == _RECORDED else None


def make_cards(config: DictConfig, results: Results) -> list[JudgeCard]:
    """A card for each dimension of a run with this configuration; `UserError` where there is none to choose, see
    `best`."""
    settings = calibration_of(config)
    data: JudgeDataModule = build_component(config.data)
    data.setup()
    splits = list(data.split.values())
    about = {
        "name": data.name,
        "sha256": fingerprint(data),
        "groups_are": data.groups_are,
        "examples": len(data.examples),
        "dev_groups": splits.count(DEV),
        "test_groups": splits.count(TEST),
        "seed": data.seed,
    }
    packages = results.environment["packages"]
    made_with = {
        "packages": {name: packages[name] for name in ("judgebench", "torch", "transformers")},
        **{name: results.environment[name] for name in ("git_commit", "device")},
        "chosen_by": f"{settings.metric} on the development split",
    }
    return [_card(config, results, settings, data, about, made_with, str(name)) for name in config.dimensions]


def _card(
    config: DictConfig,
    results: Results,
    settings: CalibrationSettings,
    data: JudgeDataModule,
    about: Mapping[str, Any],
    made_with: Mapping[str, Any],
    dimension: str,
) -> JudgeCard:
    # 1. the judge
    tried = candidates(results.metrics, dimension)
    selected = best(tried, settings.metric, dimension)
    score_range, scale = ScoreRange.of(selected), data.scale.get(dimension)
    # 2. its scores of clean texts; one without a score has no estimate either, neither here nor where the card is used
    scores = results.scores
    rows = scores[(scores["dimension"] == dimension) & (scores["attack"] == "none") & scores["human"].notna()]
    for name in CELL:
        if name in rows:
            empty = rows[name].isna() | (rows[name] == "")
            rows = rows[empty if selected[name] is None else rows[name] == selected[name]]
    rows = rows[rows["status"] != FAILED]
    dev, test = (rows[rows["split"] == split] for split in (DEV, TEST))
    # 3. its figures
    estimate = fit(settings.estimate, dev["score"].to_numpy(), dev["human"].to_numpy(), score_range, scale)
    figures = {split: agreement(selected[split]) for split in (DEV, TEST)}
    if estimate is not None and len(test):
        resampled = {name: int(config.metrics[name]) for name in ("resamples", "seed")}
        figures[TEST] |= estimate_errors(estimate, dev, test, **resampled)
    attacks = attacked(results.metrics, selected, dimension)
    sentences = limits(settings.metric, len(tried), figures, estimate, settings.estimate, attacks, about)
    # 4. what it is made of
    prints = results.environment["model_fingerprints"]
    parts, files = _parts(config, selected, results)
    if _recording(config) is not None:
        sentences = [*sentences, _OF_RECORDED]
    rubrics, variants = plain(config.prompt.rubrics), plain(config.prompt.get("variants"))
    rubric = load_rubrics(rubrics, [dimension], variants)[dimension]
    return JudgeCard(
        dimension=dimension,
        range=score_range,
        series={"judge": selected["judge"], "decoding": selected["decoding"]},
        rubric={dimension: rubric.template, **{f"{dimension}.{form}": text for form, text in rubric.forms.items()}},
        parts=parts,
        models={role: prints[role] for role in prints if role == "main" or selected["judge"] == "pair"},
        estimate=estimate,
        scale=scale,
        figures={split: figure for split, figure in figures.items() if figure},
        attacks=attacks,
        tried=[
            {name: judge[name] for name in CELL if judge[name] is not None}
            | {f"{s}_{name}": judge[s][name] for s in (DEV, TEST) if judge[s] is not None for name in CORRELATIONS}
            for judge in tried
        ],
        data=about,
        limits=sentences,
        made_with=made_with,
        files=files,
        folder=results.folder,
    )


def fingerprint(data: JudgeDataModule) -> str:
    """SHA-256 of the data's content, in hexadecimal; the order of the examples does not matter."""
    rows = sorted(json.dumps(asdict(example), sort_keys=True, default=dict) for example in data.examples)
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


# --- the judge --------------------------------------------------------------------------------------------------------


def candidates(records: Sequence[Mapping[str, Any]], dimension: str) -> list[dict[str, Any]]:
    """The judges of one dimension on clean texts, over all pairs of the data set: `CELL`, and `dev` and `test`, the
    record of each split (None where there is none)."""
    judges: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in records:
        clean = record["attack"] == "none" and record["level"] == "dataset" and record["dimension"] == dimension
        if clean and record["judge"] in _OWN:
            key = tuple(record.get(name) for name in CELL)
            judge = judges.setdefault(key, {**dict(zip(CELL, key, strict=True)), DEV: None, TEST: None})
            judge[record["split"]] = record
    return list(judges.values())


def best(tried: Sequence[Mapping[str, Any]], metric: str, dimension: str) -> Mapping[str, Any]:
    """The candidate that agrees best with the humans of the development split; of equal ones the first. `UserError`
    where there is no such split, or every judge gives all of its texts the same score."""
    if not any(judge[DEV] for judge in tried):
        raise UserError(
            "data.dev_share: a judge is chosen on the development split, and there is none; give it articles with "
            "data.dev_share=0.3 (and at least two articles)."
        )
    if not any(judge[DEV] and judge[DEV]["n"] for judge in tried):
        raise UserError(
            f"data.dev_share: a judge of {dimension} is chosen on the development split, and no text of "
            "it; give it more articles with data.dev_share=0.5, draw others with data.seed=1, or rate some of them."
        )
    usable = [judge for judge in tried if judge[DEV] and judge[DEV][metric] is not None and not judge[DEV]["constant"]]
    if not usable:
        raise UserError(
            f"dimensions: every judge of {dimension} that was tried gives all texts of the development split one "
            "score, so there is none to choose; try other ranges, decoding=[expectation], or a larger judge."
        )
    return max(usable, key=lambda judge: judge[DEV][metric])


def _parts(config: DictConfig, selected: Mapping[str, Any], results: Results) -> tuple[dict[str, Any], dict[str, str]]:
    """`PARTS`, with nothing that the selected judge does not need; and SHA-256 of their files, which are named as they
    lie beside the card."""
    parts, folder = {name: plain(config.get(name)) for name in PARTS}, results.folder
    # 1. the decoding, with the lambda and t that tuning chose for it
    name = selected["decoding"]
    decoding = dict(parts["decoding"].get(name) or parts["decoding"][name.removesuffix(PER_RANGE)])
    settings = {"lambda_": selected["lambda"], "temperature": selected["temperature"]}
    parts["decoding"] = {name: decoding | {key: value for key, value in settings.items() if value is not None}}
    if selected["judge"] != "pair":
        parts["assistant"] = dict(NO_ASSISTANT)
    # 2. the defense; a template of the user's own is copied beside the card
    entries, parts["defenses"] = parts["defenses"], []
    for entry in entries:
        template = str(entry["template"] if isinstance(entry, Mapping) else entry)
        if selected["defense"] != str((isinstance(entry, Mapping) and entry.get("name")) or Path(template).stem):
            continue
        if isinstance(entry, str) and "/" not in entry and not entry.endswith(".txt"):
            parts["defenses"] = [entry]
            continue
        content = user_path(template).read_bytes()
        copy = f"defense/template_{hashlib.sha256(content).hexdigest()[:12]}.txt"
        (folder / "defense").mkdir(exist_ok=True)
        with atomic(folder / copy) as temporary:
            temporary.write_bytes(content)
        parts["defenses"] = [{"template": copy, "name": selected["defense"]}]
    # 3. what it has learned: thresholds of this development split, and standard vectors
    detectors = "defense/detectors.json"
    parts["defense"]["detectors"] = detectors if (folder / detectors).is_file() else None
    if selected["defense"] not in REFERENCE_DEFENSES:
        parts["tutor"] = None
    elif parts["tutor"] is not None and any((folder / "defense").glob("vectors_*.safetensors")):
        parts["tutor"]["vectors"] = "defense"
    parts = mask_secrets(parts)
    # 4. its models; of recorded readings those that gave them, with which the card's judge scores other texts
    if (recording := _recording(config)) is not None:
        parts["judge"] = {**recording.setting("judge")}
        if parts["assistant"] != NO_ASSISTANT:
            parts["assistant"] = {**(recording.setting("assistant") or {}), "_target_": NO_ASSISTANT["_target_"]}
        for role in ("judge", "assistant"):
            if parts[role].get("trust_remote_code"):
                parts[role]["trust_remote_code"] = False
        for key in ("max_tokens", "truncate", "template_options"):  # what plain text has no need of
            parts["prompt"][key] = recording.setting("prompt", key)
        check_arguments(parts)
    for role, model in (("judge", "main"), ("assistant", "assistant")):
        dtype = results.environment["model_fingerprints"].get(model, {}).get("dtype")
        if dtype in DTYPES and parts[role].get("dtype") == "auto":  # which may stand for another elsewhere
            parts[role]["dtype"] = dtype
    # 5. its files
    files = [parts["defense"]["detectors"]] if parts["defense"]["detectors"] else []
    files += [entry["template"] for entry in parts["defenses"] if isinstance(entry, Mapping)]
    if (parts["tutor"] or {}).get("vectors") == "defense":
        files += sorted(f"defense/{path.name}" for path in (folder / "defense").glob("vectors_*.safetensors"))
    return parts, {name: sha256_of(folder / name) for name in files}


# --- its estimate and figures -----------------------------------------------------------------------------------------


def fit(
    kind: str, scores: np.ndarray, humans: np.ndarray, score_range: ScoreRange, scale: tuple[float, float] | None
) -> Estimate | None:
    """The map of one of `KINDS` with the least squared error over [n] scores of judge and humans for the same texts,
    which does not leave the humans' own scale; None for the kind `none`, and where the humans' scores do not rise with
    the judge's: fewer than two different scores, or a slope that is not above 0."""
    if kind == "none" or len(np.unique(scores)) < 2:
        return None
    centered = scores - scores.mean()
    slope = float(centered @ (humans - humans.mean()) / (centered @ centered))
    if not slope > 0:
        return None
    low, high = scale or (-np.inf, np.inf)
    if kind == "isotonic":
        from sklearn.isotonic import IsotonicRegression  # slow to import, and seldom asked for

        isotonic = IsotonicRegression(out_of_bounds="clip").fit(scores, humans)
        knots, values = isotonic.X_thresholds_, isotonic.y_thresholds_
    else:
        # where the line leaves the humans' scale it bends: a knot there keeps it exact between
        first, last = score_range.minimum, score_range.maximum
        bends = [scores.mean() + (end - humans.mean()) / slope for end in (low, high) if np.isfinite(end)]
        knots = np.unique([first, last, *(bend for bend in bends if first < bend < last)])
        values = humans.mean() + slope * (knots - scores.mean())
    values = np.maximum.accumulate(np.clip(values, low, high))
    return Estimate(kind, tuple(map(float, knots)), tuple(map(float, values)))


def agreement(record: Mapping[str, Any] | None) -> dict[str, Any]:
    """The figures of one split in a card: number of texts, correlations with 95 % intervals, shares and flags."""
    if record is None:
        return {}
    agreement = [f"{name}{end}" for name in CORRELATIONS for end in ("", "_low", "_high")]
    kept = ("n", "groups", *agreement, "failed_share", "clamped_share", "modal_share", "flags")
    return {name: record[name] for name in kept if name in record}


def estimate_errors(
    estimate: Estimate, dev: pd.DataFrame, test: pd.DataFrame, resamples: int, seed: int
) -> dict[str, float | None]:
    """The distance of the estimates from the humans' scores on the test split: `mean_absolute_error`; `guess_error`,
    that of always saying the development split's mean; `gain`, the latter less the former; each with the `_low` and
    `_high` of a 95 % interval by `resamples` of the groups. `dev` and `test` have the columns score, human, group_id.
    """
    human = test["human"].to_numpy(dtype=float)
    clusters = Clusters.of(test["group_id"].to_numpy(dtype=str), resamples, seed)
    error = np.abs(estimate(test["score"].to_numpy(dtype=float)) - human)
    guess = np.abs(float(dev["human"].mean()) - human)
    figures = {"mean_absolute_error": error, "guess_error": guess, "gain": guess - error}
    return clusters.record({name: clusters.mean(values) for name, values in figures.items()})


def attacked(records: Sequence[Mapping[str, Any]], selected: Mapping[str, Any], dimension: str) -> list[dict[str, Any]]:
    """The change of the selected judge's scores on the test split by each attack that was tried."""
    return [
        {name: record[name] for name in ("attack", "change", "change_low", "change_high", "raised_share")}
        for record in records
        if record["attack"] != "none"
        and (record["split"], record["level"], record["dimension"]) == (TEST, "dataset", dimension)
        and all(record.get(axis) == selected[axis] for axis in CELL)
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
    """Sentences on where the judge, of so many that were `tried`, must not be trusted, most important first; every
    number in them stands in the card too. `wanted` is the kind of the estimate that was asked for."""
    # 1. its agreement with the humans
    dev, test = figures[DEV], figures.get(TEST) or {}
    low, high = test.get(f"{metric}_low"), test.get(f"{metric}_high")
    sentences = []
    if not test:
        sentences.append("Nothing was kept back to test it on: how well it agrees with humans is not known.")
    elif low is None:
        sentences.append(f"Its {metric} on the test split has no interval: how sure it is cannot be said.")
    elif low <= 0:
        value = f"{test[metric]:.2f} [{low:.2f}, {high:.2f}]"
        sentences.append(f"Its agreement with humans on the test split, {metric} {value}, is not shown to be above 0.")
    if tried > 1:
        sentences.append(
            f"It is the best of {tried} judges on the development split, whose {metric} there, {dev[metric]:.2f}, is "
            "therefore too high; the test split's counts."
        )
    if test and (test.get("groups") or 0) < _FEW_GROUPS:
        sentences.append(
            f"The test split has {test['groups']} {data['groups_are']}: its intervals are wide, and those of the "
            "correlations may be too narrow still."
        )
    for flag in dict.fromkeys(flag for figure in figures.values() for flag in figure.get("flags") or ()):
        splits = [split for split, figure in figures.items() if flag in (figure.get("flags") or ())]
        where = f"the {splits[0]} split" if len(splits) == 1 else "both splits"
        sentences.append(f"On {where} it is flagged {flag}{f': {FLAGS[flag]}' if flag in FLAGS else ''}.")
    if test.get("failed_share", 0) > _MANY_FAILED:
        sentences.append(f"It gave no score to {100 * test['failed_share']:.0f} % of the test texts.")
    # 2. its estimates, and the attacks on it
    if wanted != "none" and estimate is None:
        sentences.append(
            "The humans' scores do not rise with its scores on the development split, so there is no estimate on the "
            "humans' scale."
        )
    elif test.get("gain_low") is not None and test["gain_low"] <= 0:
        sentences.append(
            f"Its estimates on the humans' scale are off by {test['mean_absolute_error']:.2f} on average, which is not "
            f"shown to be better than always saying the mean ({test['guess_error']:.2f})."
        )
    raised = [attack for attack in attacks if (attack["change_low"] or 0) > 0]
    if raised:
        worst = max(raised, key=lambda attack: attack["change"])
        sentences.append(
            f"It can be fooled: {worst['attack']} moves its scores by {worst['change']:+.2f} "
            f"[{worst['change_low']:+.2f}, {worst['change_high']:+.2f}] on average."
        )
    elif not attacks:
        sentences.append("What texts that are written to fool it would score was not tried.")
    return [*sentences, f"All of this holds for texts as those of {data['name']}; for others, calibrate again."]


def card_view(card: JudgeCard) -> str:
    """The selected judge in some lines: how well it does on the test split, and its limits."""
    test = card.figures.get(TEST, {})

    def figure(name: str) -> str:
        low, high = test.get(f"{name}_low"), test.get(f"{name}_high")
        return f"{test[name]:.3f}" + (f" [{low:.3f}, {high:.3f}]" if low is not None and high is not None else "")

    lines = [f"Judge card: {card.title}"]
    if values := [f"{name} {figure(name)}" for name in CORRELATIONS if test.get(name) is not None]:
        lines.append(f"  test split, {test['n']} texts: " + ", ".join(values))
    if test.get("mean_absolute_error") is not None:
        lines.append(
            f"  estimates on the humans' scale are off by {figure('mean_absolute_error')}; always saying the mean: "
            f"{figure('guess_error')}"
        )
    return "\n".join([*lines, *(f"  - {limit}" for limit in card.limits)])
