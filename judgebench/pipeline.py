"""The recipe: examples -> prompts -> readings -> scores -> metrics -> what people look at."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from judgebench.config.keys import command_line
from judgebench.config.parts import Parts
from judgebench.data.dataset import DEV
from judgebench.decoding.scores import decode, win_probabilities
from judgebench.defenses import NONE
from judgebench.defenses.prepared import SOURCES, TEXTS
from judgebench.job import Job, RunReadings, save_last, show_dry_run
from judgebench.report.html import render_report, write_figures
from judgebench.report.layout import draw_all, terminal_blocks
from judgebench.report.render import to_terminal
from judgebench.report.views.run import served_notes
from judgebench.results.folder import describe_environment, masked
from judgebench.results.results import Results, examples_frame, frame_of, ratings_frame, texts_frame
from judgebench.results.schema import REFERENCES_SCHEMA
from judgebench.stats.errors import error_records
from judgebench.stats.evaluate import cost_records, evaluate, suffix_records
from judgebench.stats.few_labels import few_labels_records
from judgebench.stats.forecasts import forecast_records, with_silent
from judgebench.stats.humans import (
    beside_humans_records,
    beside_raters,
    human_records,
    panels_of,
    raters_agreement,
)
from judgebench.stats.paired import Pairs, Plain, attack_differences, compare, default_pairs
from judgebench.stats.rankings import pairwise_records
from judgebench.stats.repairs import repair_records
from judgebench.stats.scores import Scores, samples_of, scale_of
from judgebench.stats.systems import system_records
from judgebench.stats.variance import variance_records
from judgebench.stats.verdict import verdict_records
from judgebench.tuning.choose import choice_records
from judgebench.tuning.tune import Tuned, tune
from judgebench.tuning.tuners import CrossFit

FINDINGS = ("standards", "strengths", "detectors", "vectors")
"""Attributes of `judgebench.defenses.Findings` that are files of the run folder as they are."""


def run_pipeline(parts: Parts) -> Results | None:
    """Runs the experiment of some parts, alone in its run folder.

    Returns:
        Its results; None where nothing was to be written (a dry run, or a process that only helped
        to read).

    Raises:
        UserError: a mistake that the user can mend. Up to the first file in the run folder, nothing
            has been written there.
    """
    with ExitStack() as stack:
        # 1. data, prompts, models and settings, all of them checked
        job = Job.begin(parts, stack)
        if job.config.dry_run:
            show_dry_run(job.experiment, job.console)
            return None
        # 2. what must be read before the judged texts are final: texts for defenses, phrases of
        # attacks
        job.prepare(SOURCES)
        trace = job.learn()
        job.prepare(TEXTS)
        # 3. what judge and assistant answer, read once and stored
        with job.clock("read"):
            read = job.last.read if job.last else job.read()
        if read is None:
            return None
        # 4. scores, then every figure about them
        with job.clock("decode"):
            experiment, data = job.experiment, job.experiment.data
            names = [example.example_id for example in data.examples]
            ratings = {
                of: dict(zip(names, table, strict=True)) for of, table in data.ratings.items()
            }
            tuned = tune(read.readings, experiment.decodings, experiment.tuner, data.scale, ratings)
            columns = win_probabilities(
                decode(read.readings, experiment.decodings, tuned.decodings)
            )
        with job.clock("metrics"):
            results = _measured(job, read, tuned, columns, trace)
        if trace is None:  # what a search finds depends on what else reuse is free to change
            save_last(job.key, job.experiment, read)
        # 5. run folder, page, figures, tables, loggers and terminal
        results = _write(job, results, read)
        if job.config.get("print") != "none":
            job.console.print(
                to_terminal(terminal_blocks(results, tables=job.config.get("print") == "all"))
            )
        return results


STUDIES = {
    "beside_humans": beside_humans_records,
    "variance": variance_records,
    "systems": system_records,
    "forecasts": forecast_records,
    "errors": error_records,
    "few_labels": few_labels_records,
}
"""What judges are worth beside humans: attribute of `Results`, a file of the run folder, -> the
study that fills it."""


def _measured(
    job: Job,
    read: RunReadings,
    tuned: Tuned,
    columns: Mapping[str, np.ndarray],
    trace: pd.DataFrame | None,
) -> Results:
    config, experiment, data = job.config, job.experiment, job.experiment.data
    dataset = data.name
    drawn = {name: config.metrics[name] for name in ("resamples", "seed")}
    used = (experiment.decodings, *tuned.decodings.values())
    decodings = {
        name: decoding
        for by_name in used
        for name, decoding in by_name.items()
        if decoding is not None
    }
    rules = {name: decoding.rule for name, decoding in decodings.items()}
    # 1. scores, and what humans said of the same texts
    scores = Scores.of(columns)
    dimensions = dict.fromkeys(condition.dimension for condition in experiment.conditions)
    single = {name: data.ratings[name] for name in dimensions if name in data.ratings}
    ratings = ratings_frame(data.examples, single, data.raters, data.split)
    agreement = raters_agreement(ratings)
    scale = scale_of(scores, ratings, data.scale)
    ratings = ratings[: 0 if scores.compares else None]  # a preference is no score
    # 2. judges against humans, against each other, attacked against clean
    pairs: Pairs = default_pairs(scores.cells, rules)
    if config.get("compare_with") is not None:
        pairs = Plain(
            config.compare_with, [name for name, decoding in decodings.items() if decoding.across]
        )
    panels = panels_of(scores, ratings, **drawn)
    metrics = evaluate(scores, dataset, **config.metrics, scale=scale, rules=rules)
    chosen_on = [DEV] if experiment.tuner is not None and experiment.tuner.needs_dev else []
    results = Results(
        config=masked(config),
        about={"titles": experiment.titles, "scale": scale, "agreement": agreement},
        readings=read.frame,
        scores=pd.DataFrame(columns),
        metrics=tuned.flagged(beside_raters(metrics, scores, panels)),
        humans=human_records(panels, dataset, scale),
        ratings=ratings,
        comparisons=compare(scores, pairs, dataset, **config.metrics, chosen_on=chosen_on),
        repairs=[] if isinstance(pairs, Plain) else repair_records(scores, dataset, scale, **drawn),
        attack_differences=attack_differences(scores, pairs, dataset, **drawn),
        suffix=suffix_records(scores, experiment.phrases, dataset, **drawn),
        pairwise=pairwise_records(scores, dataset, experiment.ranking, **drawn, rules=rules),
        tuning=tuned.records or None,
        choice=[]
        if scores.compares or not (config.worth or isinstance(experiment.tuner, CrossFit))
        else choice_records(
            scores,
            dataset,
            experiment.decodings,
            tuned,
            experiment.tuner,
            scale,
            drawn["resamples"],
            reads=experiment.assistant.reads,
        ),
        served=None if read.evidence is None else pd.DataFrame(read.evidence),
        trace=trace,
        phrases={phrase.against: phrase.to_json() for phrase in experiment.phrases},
    )
    results.readings.attrs.update(served_notes(read.served) or {})
    # 3. what judges are worth beside humans
    if config.worth and not scores.compares:
        # a served model has no digest, and its probabilities are not over all tokens
        whole = {role for role, model in read.fingerprints.items() if model.get("sha256")}
        models = experiment.titles
        texts = {example.example_id: example.output for example in experiment.examples}
        shared = {"dataset": dataset, "over_vocabulary": whole, **drawn}
        samples = samples_of(
            scores, results.readings, ratings, scale, models, decodings, texts, **shared
        )
        studied: dict[str, Any] = {name: study(samples) for name, study in STUDIES.items()}
        results = replace(results, **studied)
        results = replace(results, metrics=with_silent(results.metrics, results.forecasts))
        verdict = verdict_records(samples, results.choice, vars(results), experiment.margins)
        results = replace(results, verdict=verdict)
    # 4. what defenses found and cost; the texts
    if len(experiment.defenses) > 1 or experiment.defenses[0] != NONE:
        findings = {name: getattr(experiment.findings, name) for name in FINDINGS}
        costs = cost_records(read.columns, experiment.findings.costs, dataset)
        references = frame_of(experiment.findings.references, REFERENCES_SCHEMA)
        results = replace(results, **findings, costs=costs, references=references)
    if config.examples:
        examples = examples_frame(experiment.examples, data.split)
        results = replace(results, examples=examples, texts=texts_frame(experiment.changed_texts()))
    return results


def _write(job: Job, results: Results, read: RunReadings) -> Results:
    folder = job.folder
    seconds = job.clock.seconds
    cost: dict[str, Any] = {
        "device": read.device,
        "model_fingerprints": read.fingerprints,
        "tokens": job.experiment.all_tokens,
        "served": read.served,
        "command": command_line(),
    }
    results = replace(
        results, environment=describe_environment(**cost, seconds=seconds), path=folder.path
    )
    folder.clear()
    files = results.save(folder)
    if job.tables:
        from judgebench.report.paper import paper_tables  # matplotlib with them

        for name, text in paper_tables(job.tables, results).items():
            folder.write_file(f"tables/{name}", text)
    with job.clock("report"):
        figures: Mapping[str, Any] = {}
        if job.config.report:
            # each drawing moves a layout by a hair: drawn first for the page, which can be made
            # again to the letter
            drawn = draw_all(results)
            folder.write_file("report.html", render_report(results, drawn))
            figures = drawn if write_figures(folder, results, drawn) else {}
        if job.logger is not None:
            from judgebench.tracking.wandb import log_run

            log_run(job.logger, results, figures, files)
    results = replace(results, environment=describe_environment(**cost, seconds=job.clock.seconds))
    folder.write("environment", results.environment)
    folder.write_digests()
    return results
