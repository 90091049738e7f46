"""The recipe: examples -> prompts -> readings -> scores -> metrics -> what people look at."""

from __future__ import annotations

from contextlib import ExitStack

from judgebench.config.keys import command_line
from judgebench.config.parts import Parts
from judgebench.defenses.prepared import SOURCES, TEXTS
from judgebench.results.results import Results
from judgebench.runs.job import Job, LastRun
from judgebench.runs.measurement import decode_run, measure_run
from judgebench.runs.output import show_run, write_run
from judgebench.runtime.log import StepLogger
from judgebench.runtime.session import Session

log = StepLogger(__name__)


def run_pipeline(parts: Parts, session: Session | None = None) -> Results | None:
    """Runs the experiment of some parts, alone in its run folder.

    Args:
        session: what it shares with runs before and after it; None shares nothing.

    Returns:
        Its results; None where nothing was to be written (a dry run, or a process that only helped
        to read).

    Raises:
        UserError: a mistake that the user can mend. Up to the first file in the run folder, nothing
            has been written there.
    """
    with ExitStack() as stack:
        # 1. Data, prompts, models and settings, all of them checked.
        session = session or Session()
        job = Job.begin(parts, stack, session)
        if job.config.dry_run:
            job.show_prompts()
            return None
        data = job.experiment.data
        sizes = len(data.examples), len(data.split), data.groups_are, len(data.raters)
        log.info("Began: %s", command_line())
        log.info("Loaded %s: %d texts of %d %s, %d raters.", data.name, *sizes)
        log.info("Judge: %s; assistant: %s.", *job.experiment.judge.titles.values())

        # 2. The judged texts become final: some defenses write or measure first, attacks learn.
        job.prepare(SOURCES)
        trace = job.learn()
        job.prepare(TEXTS)
        counts = len(job.experiment.prompts), len(job.experiment.parts.phrases)
        log.info("Built %d prompts; learned phrases: %d.", *counts)

        # 3. Readings: what judge and assistant answer, computed once and stored.
        readings = job.read()
        if readings is None:
            return None
        took = len(readings.readings), readings.device, job.clock.seconds["read"]
        log.info("Took %d readings from %s in %.1f s.", *took)
        log.info("Tokens of all prompts: %d; different: %d.", *job.experiment.all_tokens.values())

        # 4. Scores by every decoding, then every figure about them: functions of the readings.
        with job.clock("decode"):
            scores = decode_run(job.experiment, readings)
        counts = len(scores.columns["score"]), len(scores.tuned.decodings)
        log.info("Decoded %d scores; tuned cells: %d.", *counts)
        with job.clock("metrics"):
            results = measure_run(job.experiment, readings, scores, trace)
        log.info("Measured %d series of scores.", len(results.metrics))
        if trace is None:  # what a search finds depends on settings that the key leaves out
            session.last = LastRun.of(job.experiment, readings)

        # 5. Run folder, page, figures, tables and loggers; the terminal last.
        results = write_run(job, results, readings)
        log.info("Wrote %s.", results.path)
        show_run(job, results)
        return results
