"""From a finished run to judge cards: one for each dimension, of the judge that did best on the development split."""

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

from judgebench.cards.card import Estimate, JudgeCard
from judgebench.cards.figures import agreement, attacked, estimate_errors, limits
from judgebench.cards.parts import NO_ASSISTANT, PARTS, RECORDED, check_recorded, recorded_parts
from judgebench.components import TARGET, build_component
from judgebench.config.fields import Annotated, OneOf, check_fields, plain, settings_of
from judgebench.data.dataset import DEV, TEST
from judgebench.data.module import JudgeDataModule
from judgebench.defenses.references import REFERENCE_DEFENSES
from judgebench.judges.loading import DTYPES
from judgebench.prompts.rubrics import load_rubrics
from judgebench.readings.recording import Recording
from judgebench.results.results import Results
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import atomic, sha256_of
from judgebench.runtime.secrets import mask_secrets
from judgebench.stats.correlation import CORRELATIONS
from judgebench.tuning.tuners import PER_RANGE
from judgebench.types import FAILED, LABELS, RANGE, ScoreRange

KINDS = ("linear", "isotonic", "none")


def fit(
    kind: str, scores: np.ndarray, humans: np.ndarray, score_range: ScoreRange, scale: tuple[float, float] | None
) -> Estimate | None:
    """The map with the least squared error.

    Args:
        kind: one of `KINDS`.
        scores, humans: [n] scores of judge and humans for the same texts.
        score_range: the judge's.
        scale: the humans' own, which the map does not leave; None where it is not known.

    Returns:
        None for the kind `none`, and where the humans' scores do not rise with the judge's: fewer than two different
        scores, or a slope that is not above 0.
    """
    if kind == "none" or len(np.unique(scores)) < 2:
        return None
    centered = scores - scores.mean()
    slope = float(centered @ (humans - humans.mean()) / (centered @ centered))
    if not slope > 0:
        return None
    low, high = scale or (-np.inf, np.inf)
    if kind == "isotonic":
        from sklearn.isotonic import IsotonicRegression  # slow to import, and seldom asked for

        found = IsotonicRegression(out_of_bounds="clip").fit(scores, humans)
        return _of(kind, found.X_thresholds_, np.clip(found.y_thresholds_, low, high))
    # where the line leaves the humans' scale it bends: a knot there keeps it exact between
    ends = np.array([score_range.minimum, score_range.maximum])
    bends = [scores.mean() + (end - humans.mean()) / slope for end in (low, high) if np.isfinite(end)]
    knots = np.unique([*ends, *(bend for bend in bends if ends[0] < bend < ends[1])])
    return _of(kind, knots, np.clip(humans.mean() + slope * (knots - scores.mean()), low, high))


def _of(kind: str, scores: np.ndarray, humans: np.ndarray) -> Estimate:
    return Estimate(kind, tuple(map(float, scores)), tuple(map(float, np.maximum.accumulate(humans))))


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
                f"defenses: {entry[TARGET]} is a class of your own, and a judge card holds no code, so nobody could "
                "use the card; leave it out, or write the defense as a template ({template: FILE.txt})."
            )
    if (recording := _recording(config)) is not None:  # whose models the card must be able to name
        check_recorded(recording)
    if "dataset" not in list(config.metrics.levels):
        raise UserError("metrics.levels: a judge is chosen by its agreement over all pairs; add dataset.")
    return settings


_OF_RECORDED = (
    "It was calibrated on recorded readings: it scores other texts where its models lie, which +judge.path=DIR (and "
    "+assistant.path=DIR) names and their SHA-256 tells."
)


def _recording(config: DictConfig) -> Recording | None:
    """The recorded readings that the configuration's judge takes; None where it takes none."""
    return Recording.open(config.judge.path) if config.judge.get("_target_") == RECORDED else None


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
    return [_card(config, results, settings, data, about, str(dimension)) for dimension in config.dimensions]


def _card(
    config: DictConfig,
    results: Results,
    settings: CalibrationSettings,
    data: JudgeDataModule,
    about: Mapping[str, Any],
    dimension: str,
) -> JudgeCard:
    tried = candidates(results.metrics, dimension)
    selected = best(tried, settings.metric, dimension)
    score_range = ScoreRange.of(selected)
    scale = data.scale.get(dimension)
    # a text without a score has no estimate either, neither here nor where the card is used
    rows = {split: part[part["status"] != FAILED] for split, part in _rows(results.scores, selected, dimension).items()}
    judged, human = (rows[DEV][name].to_numpy() for name in ("score", "human"))
    estimate = fit(settings.estimate, judged, human, score_range, scale)
    figures = {split: agreement(selected[split]) for split in (DEV, TEST)}
    if estimate is not None and len(rows[TEST]):
        resampled = {name: int(config.metrics[name]) for name in ("resamples", "seed")}
        figures[TEST] |= estimate_errors(estimate, rows[DEV], rows[TEST], **resampled)
    attacks = attacked(results.metrics, {name: selected[name] for name in CELL}, dimension)
    prompt = plain(config.prompt)
    rubric = load_rubrics(prompt["rubrics"], [dimension], prompt.get("variants"))[dimension]
    environment = results.environment
    prints = environment["model_fingerprints"]
    parts = _parts(config, selected, results.folder)
    if (recording := _recording(config)) is not None:
        parts = recorded_parts(parts, recording)
    for role, model in (("judge", "main"), ("assistant", "assistant")):
        dtype = prints.get(model, {}).get("dtype")
        if dtype in DTYPES and parts[role].get("dtype") == "auto":  # which may stand for another elsewhere
            parts[role]["dtype"] = dtype
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
        tried=[_figures(candidate) for candidate in tried],
        data=about,
        limits=[
            *limits(settings.metric, len(tried), figures, estimate, settings.estimate, attacks, about),
            *([_OF_RECORDED] if recording is not None else []),
        ],
        made_with={
            "packages": {name: environment["packages"][name] for name in ("judgebench", "torch", "transformers")},
            "git_commit": environment["git_commit"],
            "device": environment["device"],
            "chosen_by": f"{settings.metric} on the development split",
        },
        files=_files(parts, results.folder),
        folder=results.folder,
    )


def fingerprint(data: JudgeDataModule) -> str:
    """SHA-256 of the data's content, in hexadecimal; the order of the examples does not matter."""
    rows = sorted(json.dumps(asdict(example), sort_keys=True, default=dict) for example in data.examples)
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _parts(config: DictConfig, chosen: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """`PARTS`, with nothing that the chosen judge does not need; files are named as they lie beside the card."""
    parts = {name: plain(config.get(name)) for name in PARTS}
    parts["decoding"] = {chosen["decoding"]: _decoding(parts["decoding"], chosen)}
    if chosen["judge"] != "pair":
        parts["assistant"] = dict(NO_ASSISTANT)
    own: dict[str, Any] = {}  # by their names in tables
    for entry in parts["defenses"]:
        named = entry if isinstance(entry, Mapping) else {"template": entry}
        own[str(named.get("name") or Path(str(named["template"])).stem)] = entry
    parts["defenses"] = [_kept(own[chosen["defense"]], chosen["defense"], path)] if chosen["defense"] in own else []
    # thresholds of this development split, to be used again
    detectors = "defense/detectors.json"
    parts["defense"]["detectors"] = detectors if (path / detectors).is_file() else None
    if chosen["defense"] not in REFERENCE_DEFENSES:
        parts["tutor"] = None
    elif parts["tutor"] is not None and any((path / "defense").glob("vectors_*.safetensors")):
        parts["tutor"]["vectors"] = "defense"
    masked: dict[str, Any] = mask_secrets(parts)
    return masked


def _kept(entry: Any, name: str, path: Path) -> Any:
    """A defense as a card names it: the user's own template is copied beside the card."""
    if isinstance(entry, str) and "/" not in entry and not entry.endswith(".txt"):
        return entry
    given = entry["template"] if isinstance(entry, Mapping) else entry
    content = Path(given).expanduser().read_bytes()
    copy = f"defense/template_{hashlib.sha256(content).hexdigest()[:12]}.txt"
    (path / "defense").mkdir(exist_ok=True)
    with atomic(path / copy) as temporary:
        temporary.write_bytes(content)
    return {"template": copy, "name": name}


def _files(parts: Mapping[str, Any], path: Path) -> dict[str, str]:
    names = [parts["defense"]["detectors"]] if parts["defense"]["detectors"] else []
    names += [entry["template"] for entry in parts["defenses"] if isinstance(entry, Mapping)]
    if (parts["tutor"] or {}).get("vectors") == "defense":
        names += sorted(f"defense/{one.name}" for one in (path / "defense").glob("vectors_*.safetensors"))
    return {name: sha256_of(path / name) for name in names}


def _decoding(given: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The chosen decoding with the lambda and t that tuning has found for it."""
    name = chosen["decoding"]
    node = dict(given[name] if name in given else given[name.removesuffix(PER_RANGE)])
    for key, column in (("lambda_", "lambda"), ("temperature", "temperature")):
        if chosen[column] is not None:
            node[key] = chosen[column]
    return node


def _rows(scores: pd.DataFrame, chosen: Mapping[str, Any], dimension: str) -> dict[str, pd.DataFrame]:
    """split -> the chosen judge's scores of clean texts."""
    own = (scores["dimension"] == dimension) & (scores["attack"] == "none")
    for name in CELL if LABELS in scores else (name for name in CELL if name != LABELS):
        column = scores[name]
        own &= column.isna() | (column == "") if chosen[name] is None else column == chosen[name]
    rated = scores[own & scores["human"].notna()]
    return {split: rated[rated["split"] == split] for split in (DEV, TEST)}


def _figures(one: Mapping[str, Any]) -> dict[str, Any]:
    line = {name: one[name] for name in CELL if one[name] is not None}
    for split in (DEV, TEST):
        if one[split] is not None:
            line |= {f"{split}_{name}": one[split][name] for name in CORRELATIONS}
    return line


CELL = (*RANGE, LABELS, "defense", "judge", "decoding", "lambda", "temperature")
"""Keys that identify a judge of one dimension."""

_OWN = ("main", "pair")  # what an assistant says by itself is no candidate: it would be a judge of its own


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
    """The candidate that agrees best with the humans of the development split; of equal ones the first.

    Raises:
        UserError: there is no development split, or every judge gives all of its texts the same score.
    """
    if not any(one[DEV] for one in tried):
        raise UserError(
            "data.dev_share: a judge is chosen on the development split, and there is none; give it articles with "
            "data.dev_share=0.3 (and at least two articles)."
        )
    if not any(one[DEV] and one[DEV]["n"] for one in tried):
        raise UserError(
            f"data.dev_share: a judge of {dimension} is chosen on the development split, and nobody rated a text of "
            "it; give it more articles with data.dev_share=0.5, draw others with data.seed=1, or rate some of them."
        )
    known = [one for one in tried if one[DEV] and one[DEV][metric] is not None and not one[DEV]["constant"]]
    if not known:
        raise UserError(
            f"dimensions: every judge of {dimension} that was tried gives all texts of the development split one "
            "score, so there is none to choose; try other ranges, decoding=[expectation], or a larger judge."
        )
    return max(known, key=lambda one: one[DEV][metric])
