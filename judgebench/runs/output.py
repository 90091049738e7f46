"""From results to what people look at: the run folder, its page, figures and tables, loggers and
the terminal."""

from __future__ import annotations

import sys
from dataclasses import replace

from judgebench.config.keys import command_line
from judgebench.judges.judge import RunReadings
from judgebench.report.html import render_report, write_figures
from judgebench.report.layout import draw_all, terminal_blocks
from judgebench.report.render import to_terminal
from judgebench.results.folder import describe_environment
from judgebench.results.results import Results
from judgebench.runs.job import Job
from judgebench.types import Record, Row


def write_run(job: Job, results: Results, readings: RunReadings) -> Results:
    """Writes all files of a run, and logs it; the results with their environment and path."""
    # 1. the files that hold the results, and tables as papers print them
    folder = job.folder
    results = replace(results, environment=_environment(job, readings), path=folder.path)
    folder.clear()
    files = results.save(folder)
    if job.tables:
        from judgebench.report.paper import paper_tables  # matplotlib with them

        for name, text in paper_tables(job.tables, results).items():
            folder.write_file(f"tables/{name}", text)
    # 2. what shows them
    with job.clock("report"):
        figures = _report(job, results)
        if job.loggers:
            from judgebench.tracking.loggers import log_run

            log_run(job.loggers, results, figures, files)
    # 3. how long all of it took, and the digests of the files
    results = replace(results, environment=_environment(job, readings))
    folder.write("environment", results.environment)
    folder.write_digests()
    return results


def _environment(job: Job, readings: RunReadings) -> Record:
    # there only where this process has read models
    engine = sys.modules.get("judgebench.judges.engine.hardware")
    return describe_environment(
        steps=None if engine is None else engine.hardware().steps,
        device=readings.device,
        model_fingerprints=readings.fingerprints,
        tokens=job.experiment.all_tokens,
        served=readings.served,
        command=command_line(),
        seconds=job.clock.seconds,
    )


def _report(job: Job, results: Results) -> Row:
    """Writes page and figures where they are asked for; the figures that are files, by name."""
    if not job.config.report:
        return {}
    # each drawing moves a layout by a hair: drawn first for the page, which can be made again to
    # the letter
    figures = draw_all(results)
    job.folder.write_file("report.html", render_report(results, figures))
    return figures if write_figures(job.folder, results, figures) else {}


def show_run(job: Job, results: Results) -> None:
    """Prints the results, as much of them as `print` asks for."""
    amount = job.config.get("print")
    if amount != "none":
        job.console.print(to_terminal(terminal_blocks(results, tables=amount == "all")))
