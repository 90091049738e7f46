"""The recipe: examples -> prompts -> readings -> scores -> metrics -> what people look at."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import lightning as L
import pandas as pd
from hydra.utils import instantiate
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig

from judgebench.asked.keys import path_of
from judgebench.asked.run import MEASURE
from judgebench.attacks.search.learn import learn
from judgebench.clock import Clock
from judgebench.data.split import DEV
from judgebench.decoding.comparative import win_probabilities
from judgebench.decoding.decode import decode, rules_of
from judgebench.defenses import NONE
from judgebench.defenses.prepared import SOURCES, TEXTS
from judgebench.errors import UserError
from judgebench.experiment import Experiment
from judgebench.judges.api.reader import ApiReader
from judgebench.judges.hardware import compute_on
from judgebench.judges.judge import Models
from judgebench.judges.loading import ModelSource
from judgebench.judges.pace import Pace, measure
from judgebench.judges.reader import Reader
from judgebench.judges.sharding import check_split
from judgebench.last_run import LastRun, Read, key_of, recall, remember
from judgebench.metrics.attack_differences import attack_differences
from judgebench.metrics.compare import compare, default_pairs
from judgebench.metrics.costs import cost_records
from judgebench.metrics.diagnostics import family_records
from judgebench.metrics.evaluate import evaluate
from judgebench.metrics.pairwise import pairwise_records
from judgebench.metrics.suffix import suffix_records
from judgebench.processes import begin, here
from judgebench.report.defense_files import DefenseRecords, write_defenses
from judgebench.report.dry_run import dry_run_view
from judgebench.report.example_files import write_examples
from judgebench.report.figures import draw_all
from judgebench.report.html import render_report
from judgebench.report.paper.files import check_tables, paper_tables
from judgebench.report.printed import run_tables
from judgebench.report.run_folder import RunFolder
from judgebench.report.served import served_lines, served_notes
from judgebench.report.tables import WIDTH, agreement_lines
from judgebench.report.terminal import Terminal
from judgebench.report.tutors import tutor_title
from judgebench.tracking.wandb import log_run
from judgebench.tuning.tune import tune


@dataclass(frozen=True)
class Finished:
    """What a run has left.

    Attributes:
        path: its folder.
        records: those of metrics.json.
    """

    path: Path
    records: Sequence[Mapping[str, Any]]


def run(config: DictConfig) -> Finished | None:
    """Runs the experiment that `config` describes, alone in its run folder.

    Returns:
        Its folder and metrics; None where nothing was to be written (a dry run, or a process that only helped to read).

    Raises:
        UserError: whatever the user can mend. Up to the first file in the run folder, nothing has been written there.
    """
    with ExitStack() as held:
        return _run(config, held)


def _run(config: DictConfig, held: ExitStack) -> Finished | None:
    console = Terminal(width=max(WIDTH, Terminal().width))
    clock = Clock()
    with clock("load"):
        last = recall(config)
        key = last.key if last else key_of(config)
        trainer = trainer_of(config, [])
        processes = begin(trainer)
        compute_on(trainer.strategy.root_device, config.get("compile", True))
        experiment = processes.together(lambda: _parsed(config, trainer, last))
        tables = check_tables(config.tables)
        folder = processes.agree(lambda: RunFolder.check(path_of(config, "run_dir")))
        logger = instantiate(config.logger)
        if not config.dry_run:  # the first process, which alone writes there, keeps others out
            processes.agree(lambda: held.enter_context(folder.alone()))
        notes = [source.dtype_note for source in _sources(experiment) if source.dtype_note is not None]
    if processes.first and notes:
        console.print("\n".join(dict.fromkeys(notes)), highlight=False, markup=False)
    if config.dry_run:
        paces = measured(experiment) if config.dry_run == MEASURE else None
        if not processes.first:
            return None
        console.print(dry_run_view(experiment.prompts, experiment.tokens, experiment.titles, experiment.planned, paces))
        if experiment.answers is not None:
            console.print(experiment.answers.note, highlight=False, markup=False)
        if (expected := experiment.served_estimate()) is not None:
            console.print(expected, highlight=False, markup=False)
        return None

    models, trace = Models(), None
    experiment = _prepared(experiment, SOURCES, models, clock)
    if experiment.search is not None:
        with clock("attack"):
            experiment, trace = _learned(experiment, models, clock, console)
    experiment = _prepared(experiment, TEXTS, models, clock)
    with clock("read"):
        read = last.read if last else _read(experiment, models, clock)
    if read is None:
        return None
    with clock("decode"):
        tuned = tune(read.readings, experiment.decodings, experiment.tuner)
        columns = win_probabilities(decode(read.readings, experiment.decodings, tuned.decodings))
    with clock("metrics"):
        dataset = experiment.data.name
        rules = rules_of(experiment.decodings, tuned.decodings)
        records = tuned.flagged(evaluate(columns, dataset, **config.metrics, scale=experiment.scale, rules=rules))
        chosen_on = [DEV] if experiment.tuner is not None and experiment.tuner.needs_dev else []
        pairs = default_pairs(columns, rules)
        comparisons = compare(columns, pairs, dataset, **config.metrics, chosen_on=chosen_on)
        resampled = {name: config.metrics[name] for name in ("resamples", "seed")}
        differences = attack_differences(columns, pairs, dataset, **resampled)
        suffix = suffix_records(columns, experiment.suffixes, dataset, **resampled)
        rankings = pairwise_records(columns, dataset, experiment.ranking, **resampled, rules=rules)
        findings = experiment.findings
        defended = DefenseRecords.of(findings, cost_records(read.columns, findings.costs, dataset))

    folder.clear()
    written = folder.write_config(config)
    readings, scores = read.frame, pd.DataFrame(columns)
    if trace is None:  # what a search finds depends on what else reuse is free to change
        remember(key, experiment, read)
    folder.write_readings(readings, served_notes(read.served))
    folder.write_scores(scores)
    if read.evidence is not None:
        folder.write_served(pd.DataFrame(read.evidence))
    folder.write_metrics(records)
    folder.write_about(experiment.titles, experiment.scale, experiment.agreement)
    texts = None
    if config.examples:
        texts = write_examples(folder, experiment.examples, experiment.data.split, experiment.changed_texts())
    folder.write_comparisons(comparisons)
    phrase_files: list[Path] = []
    if rankings:
        folder.write_pairwise(rankings)
    if experiment.phrases:
        kept = {phrase.against: phrase.to_json() for phrase in experiment.phrases}
        phrase_files = folder.write_phrases(kept, trace)
    if differences:
        folder.write_attack_differences(differences)
    if suffix:
        folder.write_suffix(suffix)
    defense_files: list[Path] = []
    if len(experiment.defenses) > 1 or experiment.defenses[0] != NONE:
        defense_files = write_defenses(folder, defended, findings)
    if experiment.tuner is not None:
        folder.write_tuning(tuned.records)
    if tables:
        named = experiment.titles | {"tutor": tutor_title(config.tutor)}
        folder.write_tables(paper_tables(tables, records, tuned.records, named, defended))
    cost: dict[str, Any] = {
        "device": read.device,
        "model_fingerprints": read.fingerprints,
        "seconds": clock.seconds,
        "tokens": experiment.all_tokens,
        "served": read.served,
    }
    environment = folder.write_environment(**cost)
    with clock("report"):
        seen: dict[str, Any] = {"scores": scores, "records": records, "tuning": tuned.records}
        known: dict[str, Any] = {"scale": experiment.scale, "titles": experiment.titles}
        told: dict[str, Any] = {"comparisons": comparisons, "similarity": family_records(read.columns)}
        told |= {"suffix": suffix, "attack_differences": differences, "defense": defended, "pairwise": rankings}
        drawn: dict[str, Any] = {"readings": readings, "suffix": suffix, "defense": defended, "pairwise": rankings}
        figures = draw_all(**drawn, **seen, **known) if config.report else {}
        if config.report:
            ours: dict[str, Any] = {"config": written, "environment": environment, "agreement": experiment.agreement}
            ours |= {"readings": readings, "texts": texts}
            # each drawing moves a layout by a hair: drawn first for the page, which can so be made anew to the letter
            page = render_report(figures=figures, **seen, **known, **told, **ours)
            folder.write_figures(figures)
            folder.write_report(page)
        if logger is not None:
            more: dict[str, Any] = {"comparisons": comparisons, "tuning": tuned.records, "trace": trace}
            more |= {"defense": defended if defense_files else None, "models": read.fingerprints, "pairwise": rankings}
            files = [folder.path / name for name in ("readings.parquet", "scores.parquet", "metrics.json")]
            more["files"] = [*files, *phrase_files, *defense_files]
            more["served"] = read.served
            log_run(logger, written, records, figures, scores, readings, **more)
    folder.write_environment(**cost)
    folder.write_digests()
    if experiment.agreement:
        console.print(agreement_lines(experiment.agreement))
    console.print(run_tables(records, experiment.titles, tuning=tuned.records, **told))
    if read.served is not None:
        console.print(served_lines(read.served), highlight=False, markup=False)
    return Finished(folder.path, records)


def measured(experiment: Experiment) -> list[Pace]:
    """How fast the experiment's passes are, from reading a little of what can be read already; nothing of answers that
    were given earlier."""
    reader = experiment.reader()
    if not isinstance(reader, Reader):
        return []
    make = partial(trainer_of, experiment.config)
    return measure(reader.passes, reader.judge.token_budget, reader.store, reader.models, experiment.data, make)


def _parsed(config: DictConfig, trainer: L.Trainer, last: LastRun | None) -> Experiment:
    """The experiment, of which the last run may know the data and the prompts."""
    experiment = last.experiment.again(config) if last else Experiment.parse(config)
    for source in _sources(experiment):
        check_split(source, trainer)
    return experiment


def _sources(experiment: Experiment) -> list[ModelSource]:
    """The models that judge."""
    given = (experiment.judge.source, experiment.assistant.source)
    return [source for source in given if isinstance(source, ModelSource)]


def _prepared(experiment: Experiment, stage: str, models: Models, clock: Clock) -> Experiment:
    """The experiment with those defenses ready that needed what a stage brings."""
    with clock("defense"):
        found = experiment.prepared(stage, models, partial(trainer_of, experiment.config))
    clock.move(models.seconds, "defense", "load")
    models.seconds = 0.0
    return found


def _learned(
    experiment: Experiment, models: Models, clock: Clock, console: Terminal
) -> tuple[Experiment, pd.DataFrame]:
    """The experiment with the phrases that its search has found, and the search's trace."""
    trainer = trainer_of(experiment.config, [])
    if trainer.world_size > 1:
        raise UserError(
            "trainer: a phrase is learned in one process; learn it with trainer=auto, then judge with attack=phrase "
            "attack.phrase_file=RUN/attack/phrase.json in as many as you like."
        )
    assert experiment.search is not None
    reader = experiment.reader(models)
    assert isinstance(reader, Reader)
    objectives = experiment.search.objectives(experiment.decodings, experiment.judge.mode)
    folder = path_of(experiment.config, "store").parent / "attacks"
    device = trainer.strategy.root_device
    with console.status("attack") as status:
        found = learn(
            experiment.search, objectives, experiment.lesson(), reader, device, folder, lambda text: status.update(text)
        )
    clock.move(models.seconds, "attack", "load")
    models.seconds = 0.0
    return experiment.attacked(found.phrases), found.trace


def _read(experiment: Experiment, models: Models, clock: Clock) -> Read | None:
    """What judge and assistant say; None in a process that only helped."""
    reader = experiment.reader(models)
    trainer = reader.read(experiment.data, partial(trainer_of, experiment.config))
    found = reader.readings(experiment.data.split)
    served, evidence = (reader.served, reader.evidence) if isinstance(reader, ApiReader) else (None, None)
    read = Read(found, reader.fingerprints, reader.device(trainer), served, evidence)
    clock.move(reader.models.seconds, "read", "load")
    return read if here().first else None


def trainer_of(config: DictConfig, callbacks: list[Callback]) -> L.Trainer:
    """The configured trainer; whether there can be one is tried before anything is read."""
    # which device computes stands in environment.json; the rest is advice on training
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    try:
        trainer: L.Trainer = instantiate(config.trainer)(callbacks=callbacks)
    except (MisconfigurationException, TypeError, ValueError, RuntimeError, KeyError) as error:
        raise UserError(f"trainer: Lightning does not take it: {' '.join(str(error).split())[:400]}") from error
    return trainer
