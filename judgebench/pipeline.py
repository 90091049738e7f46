"""The recipe: examples -> prompts -> readings -> scores -> metrics -> what people look at."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import lightning as L
import pandas as pd
from hydra.utils import instantiate
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig

from judgebench.attacks.adv_suffix import learn
from judgebench.config.fields import MEASURE
from judgebench.config.keys import command_line, path_of
from judgebench.data.dataset import DEV
from judgebench.data.module import JudgeDataModule
from judgebench.decoding.scores import decode, rules_of, win_probabilities
from judgebench.defenses import NONE
from judgebench.defenses.prepared import SOURCES, TEXTS
from judgebench.experiment import Experiment
from judgebench.judges.engine.hardware import compute_on
from judgebench.judges.loop import Models
from judgebench.judges.pace import Pace, measure
from judgebench.judges.sharding import check_split
from judgebench.judges.spec import LOCAL
from judgebench.report.figures.style import figure_files
from judgebench.report.html import render_report
from judgebench.report.layout import draw_all, terminal_blocks
from judgebench.report.paper import check_tables, paper_tables
from judgebench.report.render import WIDTH, Terminal, to_terminal
from judgebench.report.views.run import dry_run_view, served_notes
from judgebench.results.environment import describe_environment
from judgebench.results.folder import RunFolder, masked
from judgebench.results.results import Results, examples_frame, ratings_frame, texts_frame
from judgebench.reuse import LastRun, Read, key_of, load_last, save_last
from judgebench.runtime.distributed import begin, here
from judgebench.runtime.errors import UserError
from judgebench.runtime.timing import Clock
from judgebench.stats.evaluate import evaluate
from judgebench.stats.forecasts import with_silent
from judgebench.stats.humans import beside_raters, human_records
from judgebench.stats.paired import attack_differences, compare, default_pairs
from judgebench.stats.rankings import pairwise_records
from judgebench.stats.robustness import cost_records, suffix_records
from judgebench.stats.scores import Scores
from judgebench.tracking.wandb import log_run
from judgebench.tuning.tune import tune
from judgebench.worth.judge_scores import Humans, JudgeScores, judged
from judgebench.worth.study import studied


@dataclass
class Job:
    """A run under way.

    Attributes:
        experiment: grows as defenses are prepared and phrases are learned.
        last: the run before, whose readings serve this one too; None without one.
        key: see `judgebench.reuse.key_of`.
        tables: names of the paper tables to write.
        models: those that are loaded.
    """

    config: DictConfig
    experiment: Experiment
    folder: RunFolder
    logger: Any
    last: LastRun | None
    key: str
    tables: Sequence[str]
    clock: Clock
    console: Terminal
    models: Models = field(default_factory=Models)


def run_pipeline(config: DictConfig, data: JudgeDataModule | None = None) -> Results | None:
    """Runs the experiment that `config` describes, alone in its run folder.

    Args:
        data: its data, where they are read already.

    Returns:
        Its results; None where nothing was to be written (a dry run, or a process that only helped to read).

    Raises:
        UserError: a mistake that the user can mend. Up to the first file in the run folder, nothing has been written
            there.
    """
    with ExitStack() as stack:
        job = _begin(config, stack, data)
        if config.dry_run:
            show_dry_run(job.experiment, job.console)
            return None
        _prepare(job, SOURCES)
        trace = _learn(job)
        _prepare(job, TEXTS)
        with job.clock("read"):
            read = job.last.read if job.last else _read(job.experiment, job.models, job.clock)
        if read is None:
            return None
        results = _compute(job, read, trace)
        if trace is None:  # what a search finds depends on what else reuse is free to change
            save_last(job.key, job.experiment, read)
        results = _write(job, results, read)
        job.console.print(to_terminal(terminal_blocks(results)))
        return results


def _begin(config: DictConfig, stack: ExitStack, data: JudgeDataModule | None) -> Job:
    console = Terminal(width=max(WIDTH, Terminal().width))
    clock = Clock()
    with clock("load"):
        last = load_last(config)
        key = last.key if last else key_of(config)
        trainer = trainer_of(config, [])
        processes = begin(trainer)
        compute_on(trainer.strategy.root_device, config.get("compile", True))
        experiment = processes.together(lambda: _parsed(config, trainer, last, data))
        tables = check_tables(config.tables)
        folder = processes.agree(lambda: RunFolder.check(path_of(config, "run_dir")))
        logger = instantiate(config.logger)
        if not config.dry_run:  # the first process, which alone writes there, keeps others out
            processes.agree(lambda: stack.enter_context(folder.alone()))
        notes = [source.dtype_note for source in experiment.sources if source.dtype_note is not None]
    if processes.first and notes:
        console.print("\n".join(dict.fromkeys(notes)), highlight=False, markup=False)
    return Job(config, experiment, folder, logger, last, key, tables, clock, console)


def show_dry_run(experiment: Experiment, console: Terminal) -> None:
    """Prints the prompts that would be read; reads a little where that is asked for."""
    paces = _measured(experiment) if experiment.config.dry_run == MEASURE else None
    if not here().first:
        return
    console.print(dry_run_view(experiment.prompts, experiment.tokens, experiment.titles, experiment.planned, paces))
    answers = None if experiment.answers is None else experiment.answers.note
    for line in (answers, experiment.served_estimate()):
        if line is not None:
            console.print(line, highlight=False, markup=False)


def _compute(job: Job, read: Read, trace: pd.DataFrame | None) -> Results:
    config, experiment = job.config, job.experiment
    with job.clock("decode"):
        tuned = tune(read.readings, experiment.decodings, experiment.tuner)
        columns = win_probabilities(decode(read.readings, experiment.decodings, tuned.decodings))
    with job.clock("metrics"):
        dataset = experiment.data.name
        rules = rules_of(experiment.decodings, tuned.decodings)
        resampled = {name: config.metrics[name] for name in ("resamples", "seed")}
        pairs = default_pairs(columns, rules)
        panels = experiment.panels(**resampled)
        table = Scores.of(columns)
        metrics = evaluate(table, dataset, **config.metrics, scale=experiment.scale, rules=rules)
        selected_on = [DEV] if experiment.tuner is not None and experiment.tuner.needs_dev else []
        results = Results(
            config=masked(config),
            about={"titles": experiment.titles, "scale": experiment.scale, "agreement": experiment.agreement},
            readings=read.frame,
            scores=pd.DataFrame(columns),
            metrics=tuned.flagged(beside_raters(metrics, columns, panels)),
            humans=human_records(panels, dataset, experiment.scale),
            ratings=ratings_frame(
                experiment.data.examples, experiment.ratings, experiment.data.raters, experiment.data.split
            ),
            comparisons=compare(table, pairs, dataset, **config.metrics, chosen_on=selected_on),
            attack_differences=attack_differences(table, pairs, dataset, **resampled),
            suffix=suffix_records(table, experiment.suffixes, dataset, **resampled),
            pairwise=pairwise_records(table, dataset, experiment.ranking, **resampled, rules=rules),
            tuning=None if experiment.tuner is None else tuned.records,
            served=None if read.evidence is None else pd.DataFrame(read.evidence),
            trace=trace,
            phrases={phrase.against: phrase.to_json() for phrase in experiment.phrases},
        )
        if config.worth and not results.compares:
            used = [experiment.decodings, *tuned.decodings.values()]
            alphas = {name: float(getattr(one, "alpha", 0.0)) for held in used for name, one in held.items()}
            sides = _beside_humans(results, experiment, read, (rules, alphas), resampled)
            results = replace(results, **studied(sides))
            results = replace(results, metrics=with_silent(results.metrics, results.forecasts))
        results.readings.attrs.update(served_notes(read.served) or {})
        findings = experiment.findings
        if len(experiment.defenses) > 1 or experiment.defenses[0] != NONE:
            results = results.with_findings(findings, cost_records(read.columns, findings.costs, dataset))
        if config.examples:
            examples = examples_frame(experiment.examples, experiment.data.split)
            results = replace(results, examples=examples, texts=texts_frame(experiment.changed_texts()))
    return results


def _beside_humans(
    results: Results,
    experiment: Experiment,
    read: Read,
    ways: tuple[Mapping[str, str], Mapping[str, float]],
    resampled: Mapping[str, int],
) -> list[JudgeScores]:
    """The judges of the reported split beside its humans."""
    columns = {str(name): results.scores[name].to_numpy() for name in results.scores}
    reported = columns["split"] == results.split
    texts = {example.example_id: example.output for example in experiment.examples}
    humans = Humans(results.ratings, results.scale, texts)
    models = {judge: results.titles.get(judge) for judge in ("main", "assistant")}
    own = {name: column[reported] for name, column in columns.items()}
    sides = judged(own, results.readings, humans, experiment.data.name, models, **resampled)
    whole = {role for role, one in read.fingerprints.items() if one.get("sha256")}  # a served model has none
    rules, alphas = ways
    return [
        replace(side, rule=rules.get(name, ""), alpha=alphas.get(name, 0.0), over_vocabulary=whole)
        for side in sides
        for name in [side.cell.decoding]
    ]


def _write(job: Job, results: Results, read: Read) -> Results:
    folder = job.folder
    cost: dict[str, Any] = {
        "device": read.device,
        "model_fingerprints": read.fingerprints,
        "tokens": job.experiment.all_tokens,
        "served": read.served,
        "command": command_line(),
    }
    results = replace(results, environment=describe_environment(**cost, seconds=job.clock.seconds), path=folder.path)
    folder.clear()
    files = results.save(folder)
    if job.tables:
        folder.write_tables(paper_tables(job.tables, results))
    with job.clock("report"):
        figures = draw_all(results) if job.config.report else {}
        if job.config.report:
            # each drawing moves a layout by a hair: drawn first for the page, which can so be made anew to the letter
            page = render_report(results, figures)
            folder.write_figures(figure_files(figures))
            folder.write_report(page)
        if job.logger is not None:
            log_run(job.logger, results, figures, files)
    results = replace(results, environment=describe_environment(**cost, seconds=job.clock.seconds))
    folder.write("environment", results.environment)
    folder.write_digests()
    return results


def _measured(experiment: Experiment) -> list[Pace]:
    """Speed of the experiment's passes, from reading a little of what can be read already; none where nothing is
    computed here."""
    reader = experiment.reader()
    if LOCAL not in experiment.judge.gives:
        return []
    make = partial(trainer_of, experiment.config)
    return measure(reader.passes, reader.judge.token_budget, reader.store, reader.models, make)


def _parsed(config: DictConfig, trainer: L.Trainer, last: LastRun | None, data: JudgeDataModule | None) -> Experiment:
    """The experiment, of which the last run may know the data and the prompts."""
    experiment = last.experiment.again(config) if last else Experiment.parse(config, data)
    for source in experiment.sources:
        check_split(source, trainer)
    return experiment


def _prepare(job: Job, stage: str) -> None:
    """Prepares those defenses that needed what a stage brings."""
    with job.clock("defense"):
        job.experiment = job.experiment.prepared(stage, job.models, partial(trainer_of, job.config))
    job.clock.move(job.models.seconds, "defense", "load")
    job.models.seconds = 0.0


def _learn(job: Job) -> pd.DataFrame | None:
    """Searches for the phrases that are to be learned; the search's trace, None without one."""
    search, config = job.experiment.search, job.config
    if search is None:
        return None
    with job.clock("attack"):
        trainer = trainer_of(config, [])
        if trainer.world_size > 1:
            raise UserError(
                "trainer: a phrase is learned in one process; learn it with trainer=auto, then judge with "
                "attack=phrase attack.phrase_file=RUN/attack/phrase.json in as many as you like."
            )
        reader = job.experiment.reader(job.models)
        objectives = search.objectives(job.experiment.decodings, job.experiment.judge.mode)
        folder, device = path_of(config, "store").parent / "attacks", trainer.strategy.root_device
        lesson = job.experiment.lesson()
        with job.console.status("attack") as status:
            phrases, trace = learn(search, objectives, lesson, reader, device, folder, lambda text: status.update(text))
        job.clock.move(job.models.seconds, "attack", "load")
        job.models.seconds = 0.0
    job.experiment = job.experiment.attacked(phrases)
    return trace


def _read(experiment: Experiment, models: Models, clock: Clock) -> Read | None:
    """Reads what judge and assistant answer; None in a process that only helped."""
    reader = experiment.reader(models)
    trainer = reader.read(partial(trainer_of, experiment.config))
    found = reader.readings(experiment.data.split)
    read = Read(found, reader.fingerprints, reader.device(trainer), reader.served, reader.evidence)
    clock.move(reader.models.seconds, "read", "load")
    return read if here().first else None


def trainer_of(config: DictConfig, callbacks: list[Callback]) -> L.Trainer:
    """The configured trainer, tried before anything is read."""
    # which device computes stands in environment.json; the rest is advice on training
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    try:
        trainer: L.Trainer = instantiate(config.trainer)(callbacks=callbacks)
    except (MisconfigurationException, TypeError, ValueError, RuntimeError, KeyError) as error:
        raise UserError(f"trainer: Lightning does not take it: {' '.join(str(error).split())[:400]}") from error
    return trainer
