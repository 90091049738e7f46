"""From readings to results: scores by every decoding, and every figure about them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from judgebench.data.dataset import DEV, RatingDataset
from judgebench.decoding.rules import Decoding
from judgebench.decoding.scores import decode, decode_answers, win_probabilities
from judgebench.defenses import NONE
from judgebench.judges.judge import PromptSet, RunReadings
from judgebench.judges.spec import LOCAL
from judgebench.probes import select_probes
from judgebench.prompts.tokens import encode_texts
from judgebench.results.folder import masked
from judgebench.results.results import Results, examples_frame, frame_of, ratings_frame, texts_frame
from judgebench.results.schema import REFERENCES_SCHEMA
from judgebench.results.served import served_notes
from judgebench.runs.experiment import Experiment
from judgebench.stats.correlation import CORRELATIONS
from judgebench.studies.attacked import attacked_records
from judgebench.studies.audit import (
    Probing,
    audit_records,
    changed_prompts,
    changed_scores,
    pair_audit_records,
    probed_rows,
)
from judgebench.studies.decisions import decision_records
from judgebench.studies.errors import error_records
from judgebench.studies.evaluate import cost_records, evaluate, suffix_records
from judgebench.studies.humans import (
    beside_humans_records,
    beside_raters,
    human_records,
    panels_of,
    raters_agreement,
)
from judgebench.studies.paired import Baseline, Pairs, attack_differences, compare, default_pairs
from judgebench.studies.picks import pick_records
from judgebench.studies.prediction_powered import prediction_powered_records
from judgebench.studies.probability_scores import probability_score_records, with_silent
from judgebench.studies.probes import PROBE
from judgebench.studies.rankings import pairwise_records
from judgebench.studies.repairs import repair_records
from judgebench.studies.repeats import repeat_records
from judgebench.studies.rewards import reward_records
from judgebench.studies.scores import CLEAN, Scores, samples_of, scale_of
from judgebench.studies.systems import system_records
from judgebench.studies.variance import variance_records
from judgebench.studies.verdict import verdict_records
from judgebench.tuning.choose import choice_records
from judgebench.tuning.learned import Tuned
from judgebench.tuning.tune import tune
from judgebench.tuning.tuners import CrossFit
from judgebench.types import Classes, Columns, Prompt, Reading, Record, Records, Rows

STUDIES = {
    "beside_humans": beside_humans_records,
    "variance": variance_records,
    "systems": system_records,
    "picks": pick_records,
    "forecasts": probability_score_records,
    "errors": error_records,
    "few_labels": prediction_powered_records,
}
"""What judges are worth compared with humans: attribute of `Results`, a file of the run folder, ->
the study that fills it."""

REWARD = "reward"
"""The use, `+use=reward`, for which a run measures more; see conf/use."""

FINDINGS = ("standards", "strengths", "detectors", "own_answers", "vectors")
"""Attributes of `judgebench.defenses.Findings` that are files of the run folder as they are."""


@dataclass(frozen=True)
class Decoded:
    """The scores of a run: what was tuned, and the columns of scores.parquet."""

    tuned: Tuned
    columns: Columns


def decode_run(experiment: Experiment, readings: RunReadings) -> Decoded:
    """The scores of all readings by every decoding, tuned first where the experiment asks for
    it."""
    data = experiment.data
    decodings = experiment.judge.decodings
    tuned = tune(readings.readings, decodings, experiment.tuner, data.scale)
    columns = decode(readings.readings, decodings, tuned.decodings)
    return Decoded(tuned, win_probabilities(columns))


def measure_run(
    experiment: Experiment, readings: RunReadings, scores: Decoded, trace: pd.DataFrame | None
) -> Results:
    """Every figure about the scores of an experiment; `trace`: of a search for phrases."""
    measures = _Measures(experiment, readings, scores)
    evidence = readings.evidence
    measures.frame.attrs.update(served_notes(readings.served) or {})
    return Results(
        config=masked(experiment.parts.config),
        about=measures.about,
        readings=measures.frame,
        scores=measures.table,
        ratings=measures.ratings,
        tuning=scores.tuned.records or None,
        served=None if evidence is None else pd.DataFrame(evidence),
        trace=trace,
        labels=experiment.data.joined,
        phrases={phrase.against: phrase.to_json() for phrase in experiment.parts.phrases},
        **measures.of_judges(),
        **measures.of_pairs(),
        **measures.of_defenses(),
        **measures.of_texts(),
    )


class _Measures:
    """The figures of one run, by question; each group is attributes of `Results`.

    Attributes:
        scores: of all cells.
        settings: the configured decodings and the tuned ones, by name.
        resampling: number of resamples and seed, as all studies take them.
        ratings: of single humans; none where texts are compared, for a preference is not a score.
        scale: dimension -> ends of the humans' scale.
        classes: dimension -> what its labels say, of labels that are classes.
    """

    def __init__(self, experiment: Experiment, readings: RunReadings, scores: Decoded) -> None:
        self.experiment = experiment
        self.config = experiment.parts.config
        self.data: RatingDataset = experiment.data
        self.dataset = self.data.name
        self.readings = readings
        self.tuned = scores.tuned
        # probes are the audit's alone: no other figure is about them
        table = pd.DataFrame(scores.columns)
        self.probes = table[probed_rows(table)]
        self.table = table.drop(self.probes.index) if len(self.probes) else table
        self.scores = Scores.of(self.table)
        self.frame = readings.frame
        if len(self.probes):
            self.frame = self.frame[~probed_rows(self.frame)].reset_index(drop=True)
            self.frame.attrs.update(readings.frame.attrs)
        self.resampling = {name: self.config.metrics[name] for name in ("resamples", "seed")}
        # 1. decodings
        self.settings: dict[str, Decoding] = {}
        for by_name in (experiment.judge.decodings, *self.tuned.decodings.values()):
            for name, decoding in by_name.items():
                if decoding is not None:
                    self.settings[name] = decoding
        self.rules = {name: decoding.rule for name, decoding in self.settings.items()}
        # 2. what humans said of the same texts
        rated = {}
        for condition in experiment.conditions:
            if condition.dimension in self.data.ratings:
                rated[condition.dimension] = self.data.ratings[condition.dimension]
        ratings = ratings_frame(self.data.examples, rated, self.data.raters, self.data.split)
        self.scale = scale_of(self.scores, ratings, self.data.scale)
        self.about: Record = {
            "titles": experiment.titles,
            "scale": self.scale,
            "agreement": raters_agreement(ratings),
        }
        if self.data.reversed:
            self.about["reversed"] = list(self.data.reversed)
        self.classes = {
            name: classes
            for name, classes in self.data.classes.items()
            if name in self.scale and not self.scores.compares
        }
        if self.classes:
            # places of classes without order are no scale
            shown = {
                name: ends if self._ordered(name) else None for name, ends in self.scale.items()
            }
            self.about["scale"] = shown
            self.about["classes"] = {name: asdict(of) for name, of in self.classes.items()}
        self.ratings = ratings[:0] if self.scores.compares else ratings

    # --- judges, each by itself ------------------------------------------------------------------

    def of_judges(self) -> Record:
        """Judges against humans, the choice among their settings, and what they are worth."""
        panels = panels_of(self.scores, self.ratings, **self.resampling)
        metrics = evaluate(
            self.scores, self.dataset, **self.config.metrics, scale=self.scale, rules=self.rules
        )
        ordered = {key: panel for key, panel in panels.items() if self._ordered(key[0])}
        metrics = beside_raters(metrics, self.scores, ordered)
        records: Record = {
            "metrics": self.tuned.flagged(metrics),
            "humans": human_records(ordered, self.dataset, self.scale),
            "pairwise": pairwise_records(
                self.scores,
                self.dataset,
                self.experiment.parts.ranking.prior,
                **self.resampling,
                rules=self.rules,
            ),
            "choice": self._choice(),
        }
        if self.config.get("audit") is not None:
            records["audit"] = self._audit()
        if self.config.human_agreement and not self.scores.compares:
            self._add_agreement(records)
        if len(self.probes):
            records["probes"] = self.probes.reset_index(drop=True)
        if not all(map(self._ordered, self.scale)):
            records["metrics"] = [self._unranked(record) for record in records["metrics"]]
        return records

    def _add_agreement(self, records: Record) -> None:
        """Adds what agreement with people says the judges are worth to their records."""
        parts = self.experiment.parts
        samples = self._samples()
        # classes without order have no ranks and no distances
        graded = [sample for sample in samples if sample.ordered]
        for name, study in STUDIES.items():
            records[name] = study(graded)
        records["decisions"] = decision_records(samples, parts.costs, parts.asking)
        answers = decode_answers(self._asked_again())
        records["repeats"] = repeat_records(
            answers, records["decisions"], self.dataset, **self.resampling
        )
        records["false_passes"] = attacked_records(
            samples,
            self.scores,
            records["decisions"],
            [attack.name for attack in parts.attacks if attack.replaces],
        )
        if self.config.get("use") == REWARD:
            records["rewards"] = reward_records(graded, self.scores, records["decisions"])
        records["metrics"] = with_silent(records["metrics"], records["forecasts"])
        graded_choice = [
            record for record in records["choice"] if self._ordered(record["dimension"])
        ]
        records["verdict"] = verdict_records(
            graded,
            graded_choice,
            records,
            parts.margins,
            (parts.costs, parts.asking),
        )

    def _audit(self) -> Rows:
        """Effects of what varies in the data, and of probes; what probes cost is never lost."""
        if self.scores.compares:
            return pair_audit_records(self.scores, self._probing({}), self.dataset)
        graded = [sample for sample in self._samples() if sample.ordered]
        answers = decode_answers(self._asked_again())
        return audit_records(graded, self._probing(answers))

    def _asked_again(self) -> list[Reading]:
        """Readings without those of probes: of the prompt, one is no defense that was asked again."""
        return [
            reading
            for reading in self.readings.readings
            if not reading.prompt.condition.defense.startswith(PROBE)
        ]

    def _probing(self, answers: Columns) -> Probing:
        """Texts and conditions that the audit is about."""
        reason = None
        if not self.experiment.parts.probes:
            reason = "the judge's answers are recorded; one that can be asked takes probes"
        changed = changed_prompts(self.readings.frame)
        return Probing(
            examples=self.experiment.examples,
            judge=str(self.experiment.titles["main"]),
            probes=select_probes(self.config),
            scores=changed_scores(self.probes, changed),
            changed=set(zip(changed["attack"], changed["defense"], strict=True)),
            answers=answers,
            reason=reason,
        )

    def _ordered(self, dimension: str) -> bool:
        return self.classes.get(dimension, Classes()).ordered

    def _unranked(self, record: Record) -> Record:
        """A record of metrics.json, without correlations where classes have no order."""
        if self._ordered(record["dimension"]):
            return record
        ranked = {
            name: None
            for name in record
            if name.partition("_")[0] in (*CORRELATIONS, "lowest", "bias")
        }
        return record | ranked | {"missing": "No correlation: these classes have no order."}

    def _labels(self) -> dict[str, tuple[int, bool]]:
        """Dimension -> how many values its labels have, and whether they are ordered."""
        labels = {}
        for dimension in self.scale:
            single = self.data.ratings.get(dimension)
            if single is None:
                single = np.array([example.human[dimension] for example in self.data.examples])
            values = np.unique(single[np.isfinite(single)])
            labels[dimension] = (len(values), self._ordered(dimension))
        return labels

    def _choice(self) -> Records:
        cross_fitted = isinstance(self.experiment.tuner, CrossFit)
        if self.scores.compares or not (self.config.human_agreement or cross_fitted):
            return []
        return choice_records(
            self.scores,
            self.dataset,
            self.experiment.judge.decodings,
            self.tuned,
            self.experiment.tuner,
            self.scale,
            self.resampling["resamples"],
            reads=self.experiment.judge.assistant.reads,
            labels=self._labels(),
        )

    def _samples(self) -> list[Any]:
        """Each judge with the humans, as all studies take them."""
        # a served model has no digest, and its probabilities are not over all tokens
        models = self.readings.fingerprints.items()
        examples = self.experiment.examples
        sources: dict[str, int] = {}
        questions = {
            example.example_id: sources.setdefault(example.source, len(sources))
            for example in examples
        }
        return samples_of(
            self.scores,
            self.frame,
            self.ratings,
            self.scale,
            classes=self.classes,
            decodings=self.settings,
            texts={example.example_id: example.output for example in examples},
            questions=questions,
            dataset=self.dataset,
            over_vocabulary={role for role, model in models if model.get("sha256")},
            **self.resampling,
        )

    # --- judges against each other, texts attacked against clean ---------------------------------

    @cached_property
    def _pairs(self) -> Pairs:
        compared_with = self.config.get("baseline")
        if compared_with is None:
            return default_pairs(self.scores.cells, self.rules)
        across = [name for name, decoding in self.settings.items() if decoding.across]
        return Baseline(compared_with, across)

    def of_pairs(self) -> Record:
        """Judges against each other, and attacked texts against clean ones."""
        tuner = self.experiment.tuner
        repairs = []
        if not isinstance(self._pairs, Baseline):
            repairs = repair_records(self.scores, self.dataset, self.scale, **self.resampling)
        return {
            "comparisons": compare(
                self.scores,
                self._pairs,
                self.dataset,
                **self.config.metrics,
                chosen_on=[DEV] if tuner is not None and tuner.needs_dev else [],
            ),
            "repairs": repairs,
            "attack_differences": attack_differences(
                self.scores, self._pairs, self.dataset, **self.resampling
            ),
            "suffix": suffix_records(
                self.scores, self.experiment.parts.phrases, self.dataset, **self.resampling
            ),
        }

    # --- defenses, texts -------------------------------------------------------------------------

    def of_defenses(self) -> Record:
        """Findings of defenses, and their cost; nothing without a defense."""
        if set(self.frame["defense"]) <= {NONE.name}:
            return {}
        findings = self.experiment.findings
        return {
            **{name: getattr(findings, name) for name in FINDINGS},
            "costs": cost_records(self.frame, findings.costs, self.dataset, self._tokens()),
            "references": frame_of(findings.references, REFERENCES_SCHEMA),
        }

    def _tokens(self) -> dict[str, float]:
        """Defense -> tokens that are computed for a clean text: those of its prompt that no other
        shares, and those of its answer; nothing where no model is read here."""
        judge = self.experiment.judge
        if LOCAL not in judge.settings.capabilities:
            return {}
        frame = self.frame
        prompts: dict[str, list[Prompt]] = {name: [] for name in set(frame["defense"])}
        for prompt in self.experiment.prompts:
            # a probe of the prompt is none of the defenses
            if prompt.condition.attack == CLEAN and prompt.condition.defense in prompts:
                prompts[prompt.condition.defense].append(prompt)
        tokens = {}
        for defense, of_defense in prompts.items():
            counts = judge.reader(PromptSet(of_defense)).tokens().values()
            computed = sum(unique for _, unique in counts)
            rows = frame[(frame["defense"] == defense) & (frame["attack"] == CLEAN)]
            answers = [text for text in rows["text"] if isinstance(text, str)]
            written = sum(map(len, encode_texts(judge.tokenizer, answers))) if answers else 0
            if defense in judge.thinking:  # whose prompts were read with the thoughts behind them
                before = sum(len(prompt.token_ids) for prompt in of_defense)
                written = int(rows["prompt_tokens"].sum()) - before
            tokens[defense] = (computed + written) / len(of_defense)
        return tokens

    def of_texts(self) -> Record:
        """The judged texts and the changed ones; nothing where they may not be shown."""
        if not self.config.examples:
            return {}
        texts = texts_frame(self.experiment.changed_texts())
        return {
            "examples": examples_frame(self.experiment.examples, self.data.split),
            "texts": texts[~probed_rows(texts)].reset_index(drop=True),
        }
