"""From a finished run to judge cards: one for each dimension, of the setting that the rule of
`judgebench.tuning.choose` takes, with its figures and sentences that say where they end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from judgebench.cards.card import (
    NO_ASSISTANT,
    PARTS,
    RIGHT,
    Errors,
    EstimateMap,
    JudgeCard,
    check_arguments,
    maker_at,
)
from judgebench.config.keys import switch_at
from judgebench.config.parts import Parts
from judgebench.data.dataset import TEST, RatingDataset, rated
from judgebench.defenses.anchors import Anchors
from judgebench.defenses.detection import PERPLEXITY
from judgebench.defenses.references import REFERENCE_DEFENSES
from judgebench.judges.local.loading import DTYPES
from judgebench.judges.spec import PANEL, JudgeSpec
from judgebench.prompts.rubrics import load_rubrics
from judgebench.readings.reading import Recording
from judgebench.results.flags import FLAGS
from judgebench.results.results import Results
from judgebench.runtime.files import atomic, sha256_of, user_path
from judgebench.runtime.secrets import mask_secrets
from judgebench.settings.components import TARGET
from judgebench.settings.costs import Costs
from judgebench.settings.fields import (
    Annotated,
    OneOf,
    check_fields,
    plain,
    settings_of,
)
from judgebench.stats.clusters import ENDS, FEWEST, Clusters, Estimate, Numbers, safe_divide
from judgebench.stats.correlation import CORRELATIONS
from judgebench.stats.folds import by_other_folds, deal_folds
from judgebench.stats.maps import isotonic, rising_slope
from judgebench.studies.decisions import CHOSEN
from judgebench.studies.probability_scores import LEVEL, NOT_ANSWERING
from judgebench.studies.scores import ScoreSeries, cell_record
from judgebench.studies.verdict import CARE, YES
from judgebench.tuning.tuners import METRICS, CrossFit
from judgebench.types import (
    FAILED,
    LABELS,
    RANGE,
    Array,
    Classes,
    Example,
    Record,
    Records,
    Row,
    Rows,
    Scale,
    ScoreRange,
)
from judgebench.words.errors import Mistakes, UserError
from judgebench.words.formats import in_groups, say

KINDS = ("linear", "isotonic", "none")
CELL = (*RANGE, LABELS, "defense", "judge", "decoding", "lambda", "temperature")
"""Keys that identify a judge of one dimension."""
PROMISED = "promised"
"""The figures of a card that the choice promises: of articles that did not choose."""

_USE = (
    "use",
    "verdict",
    "clause",
    *(f"{name}{end}" for name in ("value", "rater") for end in ENDS),
)
_WORTH = ("worth", "gain", "gain_se", "better", "share")
_CHANGE = ("attack", "change", "change_low", "change_high", "raised_share")
_FEW_GROUPS = 20
_MANY_FAILED = 0.02
_MOST = 1000  # texts whose errors a card holds
_SAMPLE = 2000  # texts whose digests a card holds
_LIMITS = (
    "interval",
    "choice",
    "best",
    "few",
    "failed",
    "estimate",
    "width",
    "decides",
    "band",
    "texts",
)
"""Parts of the template that says where a judge must not be trusted."""

_OF_RECORDED = (
    "It was calibrated on recorded readings: it scores other texts where its models lie, which "
    "+judge.path=DIR (and +assistant.path=DIR) names and their SHA-256 tells."
)


@dataclass(frozen=True)
class CalibrationSettings:
    """The config key `calibrate`; `UserError` of values that cannot be."""

    metric: Annotated[str, OneOf(METRICS)] | None = None
    estimate: Annotated[str, OneOf(KINDS)] = "linear"

    def __post_init__(self) -> None:
        check_fields(self, "calibrate")


def calibration_of(parts: Parts) -> CalibrationSettings:
    """The config key `calibrate`; `UserError` where it, or another part, ends in no card."""
    config = parts.config
    settings = settings_of(CalibrationSettings, config.get("calibrate") or {}, "calibrate")
    if "force" in config:
        switch_at(config, "force")
    for entry in config.get("defenses") or ():
        if isinstance(entry, Mapping) and TARGET in entry:
            raise UserError(
                f"defenses: {entry[TARGET]} is a class of your own, and a judge card holds no "
                "code, so it could not be used; leave it out, or write the defense as a template "
                "({template: FILE.txt})."
            )
    for defense in parts.defenses:
        if isinstance(defense, Anchors):
            raise UserError(
                f"defenses: {defense.name} shows labelled texts, and a judge card holds none, so "
                "leave it out."
            )
    if PANEL in parts.judge.capabilities:
        raise UserError(
            "judge=panel: a judge card must score other texts, and of a panel's members there are "
            "readings of these alone; calibrate each judge with `python -m judgebench calibrate`, "
            "and take the mean of their estimates."
        )
    recording = _recording(parts)
    if recording is not None:
        made_by = maker_at(("judge",), recording.setting("judge")[TARGET])
        if made_by is None or not issubclass(made_by, JudgeSpec):
            raise UserError(
                f"judge.path: {recording.path.name} has readings of a judge that is no model here, "
                "and says nothing of its address, so its card could not be used; calibrate with "
                "that judge itself."
            )
    if not isinstance(parts.tuner, CrossFit):
        raise UserError(
            "tune: a card's setting is chosen by all rated articles, and promises what it is worth "
            "on articles that did not choose; leave tune out, or take tune=crossfit."
        )
    if "dataset" not in list(config.metrics.levels):
        raise UserError(
            "metrics.levels: a judge is chosen by its agreement over all pairs; add dataset."
        )
    across = [name for name, decoding in parts.decodings.items() if decoding.across]
    if across:
        raise UserError(
            f"decoding {', '.join(across)}: takes the readings of all ranges, and a judge card "
            "reads one; leave it out here, and see what it is worth with +exp=repairs."
        )
    return settings


def check_classes(classes: Mapping[str, Classes], dimensions: Iterable[str]) -> None:
    """Refuses labels that are classes without order, which say of no text that it is better."""
    for name in dimensions:
        if not classes.get(name, Classes()).ordered:
            raise UserError(
                f"dimensions: the classes of {name} have no order, so no judge can be chosen by "
                "them; see how far a judge agrees with people by `python -m judgebench`, or give "
                "two classes, worst first, as data.classes=[fail,pass]."
            )


def _recording(parts: Parts) -> Recording | None:
    """The recorded readings that the judge takes; None where it takes none."""
    return getattr(parts.judge, "recording", None)


def make_cards(parts: Parts, results: Results) -> list[JudgeCard]:
    """A card for each dimension of a run of these parts; `UserError` where there is none to
    choose."""
    data: RatingDataset = parts.data
    splits = list(data.split.values())
    packages = results.environment["packages"]
    making = _Making(
        parts=parts,
        results=results,
        settings=calibration_of(parts),
        about={
            "name": data.name,
            "sha256": fingerprint(data),
            "texts": text_digests(data)[:_SAMPLE],
            "groups_are": data.groups_are,
            "examples": len(data.examples),
            "groups": splits.count(TEST),
            "seed": data.seed,
        },
        made_with={
            "packages": {name: packages[name] for name in ("judgebench", "torch", "transformers")},
            **{name: results.environment[name] for name in ("git_commit", "device")},
            "chosen_by": f"{results.choice[0]['metric']} over articles, cross-fitted",
        },
    )
    cards = []
    mistakes = Mistakes()
    for name in map(str, parts.config.dimensions):
        with mistakes.caught():
            cards.append(making.card(name))
    mistakes.tell()
    return cards


@dataclass(frozen=True, kw_only=True)
class _Making:
    """A run of which cards are made; see `JudgeCard` for `about` (its data) and `made_with`."""

    parts: Parts
    results: Results
    settings: CalibrationSettings
    about: Row
    made_with: Row

    def card(self, dimension: str) -> JudgeCard:
        """The card of a dimension; `UserError` where the best judge is of no use."""
        results = self.results
        data: RatingDataset = self.parts.data
        # 1. the setting, and what its choice promises
        tried = [record for record in results.choice if record["dimension"] == dimension]
        selected = next(record for record in tried if record["taken"])
        place = {name: selected.get(name) for name in (*CELL, "split", "dimension")}
        place |= {"level": "dataset", "attack": "none"}
        measured = of_place(results.metrics, place)[0]
        useless = self._useless(selected, measured)
        # 2. its figures, and where they end
        rows = _rated_rows(results, selected)
        decided = cell_record(results.decisions, ScoreSeries.of(selected), mark=CHOSEN)
        decision = decision_of(decided, self.parts.costs) if decided else None
        estimate, errors, figures = self._estimate(selected, rows, decision)
        figures = {PROMISED: promised(selected), TEST: {**agreement(measured), **figures}}
        verdict = self._verdict(dimension)
        words = {record["use"]: record["verdict"] for record in verdict}
        sentences = limits(
            tried,
            figures,
            estimate,
            self.settings.estimate,
            self.about,
            decision,
            ScoreRange.of(selected),
            may=words.get("decide") in (YES, CARE),
        )
        if useless is not None:
            sentences.insert(0, f"Of no use, and made by force=true: {useless}.")
        if _recording(self.parts) is not None:
            sentences.append(_OF_RECORDED)
        # 3. what it is made of
        models = dict(results.environment["model_fingerprints"])
        if selected["judge"] != "pair":
            models = {"main": models["main"]}
        parts, files = _parts(self.parts, selected, results)
        return JudgeCard(
            dimension=dimension,
            range=ScoreRange.of(selected),
            series={"judge": selected["judge"], "decoding": selected["decoding"]},
            rubric=self._rubric(dimension),
            parts=parts,
            models=models,
            estimate=estimate,
            intervals=errors,
            # what has learned scores its own texts by parts that others taught
            scores=None if selected["settings"] else scores_of(data, rows),
            decision=decision,
            scale=data.scale.get(dimension),
            reversed=dimension in data.reversed,
            figures={split: figure for split, figure in figures.items() if figure},
            attacks=attacked(results.metrics, selected, dimension),
            tried=[_tried(record) for record in tried],
            data=self.about,
            limits=sentences,
            made_with=self.made_with,
            files=files,
            uses=[{name: record[name] for name in _USE} for record in verdict],
            folder=results.folder,
        )

    def _verdict(self, dimension: str) -> Rows:
        """Its records of verdict.json, with the word for groups."""
        groups = self.results.groups
        return [
            {**record, "clause": in_groups(record["clause"], groups)}
            for record in self.results.verdict
            if record["dimension"] == dimension
        ]

    def _useless(self, selected: Row, measured: Row) -> str | None:
        """See `uselessness`; `UserError` without `force`."""
        useless = uselessness(selected, measured)
        if useless is not None and not self.parts.config.get("force"):
            raise UserError(
                f"dimensions: of all judges of {selected['dimension']} that were tried, {useless}, "
                "so no card is written; try other ranges, decoding=[expectation] or a larger "
                "judge, or take force=true for a card that says so."
            )
        return useless

    def _estimate(
        self, selected: Row, rows: pd.DataFrame, decision: Row | None
    ) -> tuple[EstimateMap | None, Errors | None, Row]:
        """The map to the humans' scale with its errors, and figures of these; None and none where
        there is no map."""
        scale = self.parts.data.scale.get(selected["dimension"])
        metrics = self.parts.config.metrics
        labelled = Labelled(
            rows["score"].to_numpy(dtype=float),
            rows["human"].to_numpy(dtype=float),
            rows["group_id"].to_numpy(dtype=str),
            self.settings.estimate,
            ScoreRange.of(selected),
            scale,
            int(metrics.seed),
        )
        estimate = fit(labelled.kind, *labelled[:2], labelled.range, scale)
        if estimate is None:
            return None, None, {}
        chances = decision is not None and scale == (0, 1)
        figures = estimate_errors(labelled, int(metrics.resamples), chances=chances)
        return estimate, fit_errors(labelled)[1], figures

    def _rubric(self, dimension: str) -> dict[str, str]:
        """The rubric's text by its name, with its forms."""
        prompt = plain(self.parts.config.prompt)
        rubrics = load_rubrics(prompt["rubrics"], [dimension], prompt.get("variants"))
        rubric = rubrics[dimension]
        forms = {f"{dimension}.{form}": text for form, text in rubric.forms.items()}
        return {dimension: rubric.template, **forms}


def decision_of(decided: Row, costs: Costs) -> Record:
    """The `decision` of a card, from the judge's record of worth/decisions.json."""
    fail, passes = decided["classes"]
    marks = ("pass_mark", "fail_to", "pass_from", "asked")
    return {
        "fail": fail,
        "pass": passes,
        **{name: decided[name] for name in (*marks, *RIGHT)},
        "error": decided["ask_aim"],
        "rater_error": decided["rater_error"],
        "lowest": decided["ask_lowest"],
        "costs": {"false_pass": costs.false_pass, "false_fail": costs.false_fail},
    }


def _rated_rows(results: Results, selected: Row) -> pd.DataFrame:
    """The selected judge's scores of clean texts that humans rated; one without a score has no
    estimate either, neither here nor where the card is used."""
    rows = results.scores
    clean = rows["attack"] == "none"
    answered = rows["status"] != FAILED
    rows = rows[clean & rows["human"].notna() & answered]
    for name in (*CELL, "split", "dimension"):
        if name in rows:
            value = selected.get(name)
            unset = value is None or value == ""
            wanted = [None, np.nan, ""] if unset else [value]
            rows = rows[rows[name].isin(wanted)]
    return rows


def _tried(record: Row) -> Record:
    """A setting that calibration chose among, with its figures."""
    setting = {name: record[name] for name in CELL if record.get(name) is not None}
    return setting | {name: record[name] for name in _WORTH}


def uselessness(selected: Row, measured: Row) -> str | None:
    """Why the best of a dimension's judges is of no use, a clause; None where it is of some.

    Args:
        selected: its record of choice.json.
        measured: its record of metrics.json over all pairs.
    """
    if measured["failed_share"] == 1 or NOT_ANSWERING in measured["flags"]:
        return "the best does not answer with a score"
    if measured["constant"]:
        return "the best gives every text the same score"
    promise = Estimate.of(selected, "promised_spearman")
    if promise is not None and (promise.value < 0 or (promise.high or 0) < 0):
        return f"the best is promised a Spearman of {promise:.2f}, which is below 0"
    return None


def fingerprint(data: RatingDataset) -> str:
    """SHA-256 of the data's content, in hexadecimal; the order of the examples does not matter."""
    rows = []
    for example in data.examples:
        content = asdict(example)
        for later in ("question", "reason", "segments"):  # which earlier versions had not
            if not content[later]:
                del content[later]
        rows.append(json.dumps(content, sort_keys=True, default=dict))
    rows.sort()
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def text_digests(data: RatingDataset) -> list[int]:
    """32-bit digests of the judged texts, each with what it answers to, ascending: the lowest of
    them are a sample."""
    return sorted({_digest(example) for example in data.examples})


def _digest(example: Example) -> int:
    texts = [example.source, example.context, example.output]
    texts += filter(None, [example.question, example.rival])
    content = json.dumps([text.strip() for text in texts])
    digest = hashlib.blake2b(content.encode(), digest_size=4).digest()
    return int.from_bytes(digest)


def scores_of(data: RatingDataset, rows: pd.DataFrame) -> dict[Any, float]:
    """Digest of a text, in decimal -> its score to six digits, of a judge's rows of scores.parquet:
    of the texts with the first digests, which are a sample."""
    digests = {example.example_id: str(_digest(example)) for example in data.examples}
    by_text = rows["score"].groupby(rows["example_id"].map(digests)).mean()
    return by_text[:_SAMPLE].round(6).to_dict()


def scores_in_card(card: JudgeCard, data: RatingDataset) -> dict[str, float]:
    """Example -> the card's score of the same text; `UserError` where there are too few to compare
    in pairs."""
    # 1. a card that can be compared with
    if card.scores is None:
        raise UserError(
            "paired=card: the card holds no scores of its texts, for its decoding has learned from "
            "them; leave paired out, or calibrate with another decoding."
        )
    # 2. rated texts of enough groups
    scores = {}
    groups = set()
    for example in rated(data.examples, card.dimension):
        digest = str(_digest(example))
        if digest in card.scores:
            scores[example.example_id] = card.scores[digest]
            groups.add(example.group_id)
    if len(groups) < FEWEST:
        raise UserError(
            f"paired=card: the card has scored {len(scores)} of these texts, of {len(groups)} "
            f"{data.groups_are}, and a comparison in pairs takes {FEWEST}; give the texts that made "
            "the card, or leave paired out."
        )
    return scores


def share_in_card(card: JudgeCard, data: RatingDataset) -> float:
    """The share of the texts that made the card, estimated by those whose digests are among the
    lowest, where it was made by more texts than it states (Broder, "On the resemblance and
    containment of documents", 1997)."""
    known = card.data["texts"]
    highest = known[-1] if len(known) >= _SAMPLE else 2**32
    compared = [digest for digest in text_digests(data) if digest <= highest]
    return float(np.isin(compared, known).mean()) if compared else 0.0


# --- what it is made of -------------------------------------------------------------------------


def _parts(run: Parts, selected: Row, results: Results) -> tuple[Record, dict[str, str]]:
    """`PARTS`, with nothing that the selected judge does not need; and SHA-256 of their files,
    which are named as they lie next to the card."""
    folder = results.folder
    parts = {name: plain(run.config.get(name)) for name in PARTS}
    parts["decoding"] = _decoding(parts["decoding"], selected)
    if selected["judge"] != "pair":
        parts["assistant"] = dict(NO_ASSISTANT)
    parts["defenses"], files = _defense(parts["defenses"], selected["defense"], folder)
    vectors = sorted(path.name for path in (folder / "defense").glob("vectors_*.safetensors"))
    if selected["defense"] not in REFERENCE_DEFENSES:
        parts["tutor"] = None
    elif parts["tutor"] is not None and vectors:
        parts["tutor"]["vectors"] = "defense"
        files += [f"defense/{name}" for name in vectors]
    parts = mask_secrets(parts)
    if (recording := _recording(run)) is not None:
        _of_recorded(parts, recording)
    for role, model in (("judge", "main"), ("assistant", "assistant")):
        dtype = results.environment["model_fingerprints"].get(model, {}).get("dtype")
        # which may stand for another elsewhere
        if dtype in DTYPES and parts[role].get("dtype") == "auto":
            parts[role]["dtype"] = dtype
    return parts, {name: sha256_of(folder / name) for name in files}


def _decoding(decodings: Row, selected: Row) -> Record:
    """The selected decoding, with what all texts have taught it."""
    name = selected["decoding"]
    chosen = {"lambda_": selected["lambda"], "temperature": selected["temperature"]}
    learned = selected["settings"] or {
        key: value for key, value in chosen.items() if value is not None
    }
    return {name: {**decodings[name], **learned}}


def _defense(entries: Sequence[Any], selected: str, folder: Path) -> tuple[list[Any], list[str]]:
    """The entry of the selected defense, and the names of its files next to the card."""
    for entry in entries:
        given = dict(entry) if isinstance(entry, Mapping) else {"name": entry}
        if isinstance(entry, str) and ("/" in entry or entry.endswith(".txt")):
            given = {"template": entry}
        template = given.get("template")
        name = given["name"] = given.get("name") or Path(str(template)).stem
        if selected != name:
            continue
        files = []
        # a template of the user's own is copied next to the card
        if template is not None:
            content = user_path(str(template)).read_bytes()
            given["template"] = f"defense/template_{hashlib.sha256(content).hexdigest()[:12]}.txt"
            files.append(given["template"])
            (folder / "defense").mkdir(exist_ok=True)
            with atomic(folder / given["template"]) as temporary:
                temporary.write_bytes(content)
        # what it has learned: thresholds of this development split
        elif name == PERPLEXITY:
            given["detectors"] = "defense/detectors.json"
            files.append(given["detectors"])
        return [given if len(given) > 1 else name], files
    return [], []


def _of_recorded(parts: Record, recording: Recording) -> None:
    """Puts the models that gave recorded readings into their places, with which the card's judge
    scores other texts."""
    parts["judge"] = recording.setting("judge")
    if parts["assistant"] != NO_ASSISTANT:
        assistant = recording.setting("assistant") or {}
        parts["assistant"] = {**assistant, "_target_": NO_ASSISTANT["_target_"]}
    for role in ("judge", "assistant"):
        if parts[role].get("trust_remote_code"):
            parts[role]["trust_remote_code"] = False
    for key in ("max_tokens", "truncate", "template_options"):  # what plain text has no need of
        parts["prompt"][key] = recording.setting("prompt", key)
    check_arguments(parts)


# --- its estimate and figures -------------------------------------------------------------------


def fit(
    kind: str,
    scores: Array,
    humans: Array,
    score_range: ScoreRange,
    scale: Scale | None,
) -> EstimateMap | None:
    """The map of one of `KINDS` with the least squared error over [n] scores of judge and humans
    for the same texts, which does not leave the humans' own scale; None for the kind `none`, and
    where the humans' scores do not rise with the judge's: fewer than two different scores, or a
    slope that is not above 0."""
    if kind == "none" or len(np.unique(scores)) < 2:
        return None
    slope = float(rising_slope(scores, humans))
    if not slope:
        return None
    low, high = scale or (-np.inf, np.inf)
    if kind == "isotonic":
        knots, values = isotonic(scores, humans)
    else:
        # where the line leaves the humans' scale it bends: a knot there keeps it exact between
        first = score_range.minimum
        last = score_range.maximum
        ends = [end for end in (low, high) if np.isfinite(end)]
        bends = [scores.mean() + (end - humans.mean()) / slope for end in ends]
        inside = [bend for bend in bends if first < bend < last]
        knots = np.unique([first, last, *inside])
        values = humans.mean() + slope * (knots - scores.mean())
    values = np.maximum.accumulate(np.clip(values, low, high))
    return EstimateMap(kind, tuple(map(float, knots)), tuple(map(float, values)))


def agreement(record: Row) -> Record:
    """The figures of one split in a card: number of texts, correlations with 95 % intervals, shares
    and flags."""
    correlations = [f"{name}{end}" for name in CORRELATIONS for end in ENDS]
    shares = ("failed_share", "clamped_share", "modal_share")
    names = ("n", "groups", *correlations, *shares, "flags")
    return {name: record[name] for name in names if name in record}


def promised(selected: Row) -> Record:
    """The promise of the choice: spearman, pearson and error, each with `_low` and `_high` of a 95
    % interval."""
    return {
        name.removeprefix("promised_"): value
        for name, value in selected.items()
        if name.startswith("promised_")
    }


class Labelled(NamedTuple):
    """Texts [n] of a judge and humans, in articles `groups`, from which an estimate of a kind is
    learned."""

    scores: Array
    humans: Array
    groups: Array
    kind: str
    range: ScoreRange
    scale: Scale | None
    seed: int

    def at(self, rows: Array) -> Labelled:
        """Of some texts [n]; all where there are none."""
        rows = rows if rows.any() else ~rows
        return self._replace(
            scores=self.scores[rows], humans=self.humans[rows], groups=self.groups[rows]
        )

    def learned(self) -> tuple[EstimateMap, Errors]:
        """The map of `fit`, else the mean, and its errors' spread: a line by them, at least half
        their mean."""
        estimate = fit(
            self.kind,
            self.scores,
            self.humans,
            self.range,
            self.scale,
        )
        if estimate is None:
            mean = float(self.humans.mean())
            estimate = EstimateMap("none", (self.range.minimum,), (mean,))
        estimates = estimate(self.scores)
        middle = estimates.mean()
        centered = estimates - middle
        off = np.abs(self.humans - estimates)
        usual = float(off.mean())
        slope = float(centered @ off / max(centered @ centered, 1e-9))
        offset = usual - slope * float(middle)
        least = usual / 2 if usual > 1e-9 else 1.0
        return estimate, Errors((offset, slope, least))

    def cross_fitted(self, folds: int = 5) -> Array:
        """[2, n] estimates that other articles teach less the humans' scores, and the usual
        distances there."""
        articles = len(np.unique(self.groups))

        def answer(teaching: Array, asked: Array) -> Array:
            estimate, spread = self.at(teaching).learned()
            estimates = estimate(self.scores[asked])
            return np.stack([estimates - self.humans[asked], spread.usual(estimates)])

        return by_other_folds(deal_folds(self.groups, min(folds, articles), self.seed), answer)


def fit_errors(rated: Labelled) -> tuple[EstimateMap, Errors]:
    """The map that all texts teach, and its cross-fitted errors, of at most `_MOST` texts drawn
    with the seed; of none where there is a single article, which no other can teach."""
    error, usual = rated.cross_fitted()
    estimate, spread = rated.learned()
    labels, article = np.unique(rated.groups, return_inverse=True)
    most = _MOST if len(labels) > 1 else 0
    generator = np.random.default_rng(rated.seed)
    sample = generator.permutation(len(article))[:most]
    relative = np.abs(error) / usual
    return estimate, replace(
        spread,
        errors=tuple(relative[sample].round(6).tolist()),
        articles=tuple(article[sample].tolist()),
    )


def estimate_errors(
    rated: Labelled, resamples: int, folds: int = 5, chances: bool = False
) -> Numbers:
    """The distance of cross-fitted estimates from the humans' scores: `mean_absolute_error`;
    `guess_error`, that of always saying the mean; `gain`, the latter less the former; `bias`, the
    mean of estimates less the humans'. On a known scale, of the intervals of each tenth of the
    articles by the others: `coverage`, the share that holds the humans' score; `low_coverage`, of
    texts that people rate below the middle of the scale, and `low_share`, theirs; mean `width`;
    `constant_width`, around the mean; `narrower`, 1 - width / constant_width. Where estimates are
    `chances` that a text passes: `brier` and `guess_brier`, the squared distances from its labels.
    Each has a 95 % interval by `resamples` of the groups."""
    clusters = Clusters.of(rated.groups, resamples, rated.seed)
    constant = rated._replace(kind="none")
    # 1. errors of the estimates, and of always saying the mean
    bias = rated.cross_fitted(folds)[0]
    error = np.abs(bias)
    guess = np.abs(constant.cross_fitted(folds)[0])
    figures = {
        "mean_absolute_error": error,
        "guess_error": guess,
        "gain": guess - error,
        "bias": bias,
    }
    if chances:
        # labels of one text that differ are as far from their mean as its share allows
        apart = rated.humans * (1 - rated.humans)
        figures |= {"brier": error**2 + apart, "guess_brier": guess**2 + apart}
    means = {name: clusters.mean(values) for name, values in figures.items()}
    # 2. intervals of each tenth of the articles by the others
    if rated.scale is not None:
        low, high = _intervals(rated)
        middle = (low + high) / 2
        inside = np.abs(rated.humans - middle) <= (high - low) / 2 + 1e-9
        constant_low, constant_high = _intervals(constant)
        width = clusters.mean(high - low)
        constant_width = clusters.mean(constant_high - constant_low)
        below = rated.humans < sum(rated.scale) / 2
        means |= {
            "coverage": clusters.mean(inside),
            "low_coverage": clusters.mean(inside, below),
            "low_share": clusters.mean(below),
            "width": width,
            "constant_width": constant_width,
            "narrower": 1 - safe_divide(width, constant_width),
        }
    return clusters.record(means)


def _intervals(rated: Labelled) -> Array:
    """[2, n] low and high of each tenth of the articles, which the others teach."""
    scale = rated.scale
    assert scale is not None

    def answer(teaching: Array, asked: Array) -> Array:
        estimate, errors = fit_errors(rated.at(teaching))
        return np.stack(errors.ends(estimate(rated.scores[asked]), LEVEL, scale))

    return by_other_folds(deal_folds(rated.groups, 10, rated.seed), answer)


def attacked(records: Records, selected: Row, dimension: str) -> Rows:
    """The change of the selected judge's scores on the test split by each attack that was tried."""
    place = {name: selected.get(name) for name in CELL}
    place |= {"split": TEST, "level": "dataset", "dimension": dimension}
    changes = []
    for record in of_place(records, place):
        if record["attack"] != "none" and record.get("change") is not None:
            changes.append({name: record[name] for name in _CHANGE})
    return changes


def of_place(records: Records, place: Row) -> list[Row]:
    """The records that agree with a place, in which None is what a record lacks."""
    return [
        record
        for record in records
        if all(record.get(name) == value for name, value in place.items())
    ]


def limits(
    tried: Records,
    figures: Mapping[str, Row],
    estimate: EstimateMap | None,
    wanted: str,
    data: Row,
    decision: Row | None = None,
    score_range: ScoreRange | None = None,
    may: bool = True,
) -> list[str]:
    """Sentences on where the judge must not be trusted, most important first; every number in them
    stands in the card too. `tried` are the records of the choice, `wanted` is the kind of the
    estimate that was asked for, `decision` and `score_range` the card's, `may` whether it may
    decide."""
    test = figures[TEST]
    mark = score_range.threshold_text(decision["pass_mark"]) if decision and score_range else None
    facts = {
        "tried": [{**record, "range": ScoreRange.of(record)} for record in tried],
        "promise": figures[PROMISED],
        "test": test,
        "data": data,
        "decision": decision,
        "mark": mark,
        "may": may,
        "few": (test.get("groups") or 0) < _FEW_GROUPS,
        "many_failed": _MANY_FAILED,
        "unmapped": wanted != "none" and estimate is None,
        "level": LEVEL,
    }
    sentences = [say("limits", part=part, **facts) for part in _LIMITS[:4]]
    for flag in test.get("flags") or ():
        sentences.append(say("limits", part="flag", flag=flag, meaning=FLAGS.get(flag), **facts))
    sentences += [say("limits", part=part, **facts) for part in _LIMITS[4:]]
    return [sentence for sentence in sentences if sentence]


def card_view(card: JudgeCard) -> str:
    """The selected judge in some lines: what it promises, and its limits."""
    test = card.figures.get(TEST, {})
    promise = card.figures.get(PROMISED, {})
    parts = [
        say(
            "card",
            part=part,
            card=card,
            test=test,
            mean_absolute_error=Estimate.of(test, "mean_absolute_error"),
            guess_error=Estimate.of(test, "guess_error"),
            brier=Estimate.of(test, "brier"),
            guess_brier=Estimate.of(test, "guess_brier"),
            spearman=Estimate.of(promise, "spearman"),
            pearson=Estimate.of(promise, "pearson"),
        )
        for part in ("promise", "error")
    ]
    lines = [f"  {line}" for line in parts if line]
    return "\n".join([f"Judge card: {card.title}", *lines, *card.verdict])
