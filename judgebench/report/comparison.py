"""Several runs on one page: which judge is better, by how much, and what was different about
them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import pandas as pd

from judgebench.report.html import render_page, rendered
from judgebench.report.layout import Fold, PageSection
from judgebench.report.table import Block, Col, Paragraph, View, rows_by, with_records
from judgebench.report.views.beside import judge_rows
from judgebench.report.views.correlations import advised_rows, cell_scores, of_advised, spearman_of
from judgebench.report.views.humans import ceilings
from judgebench.report.views.league import league_of_tasks
from judgebench.report.views.tuning import TASKS_TABLE
from judgebench.report.views.verdicts import first_line
from judgebench.results.results import NO_DEFENSE, Results
from judgebench.stats.clusters import Estimate, keys_of
from judgebench.studies.humans import CALIBRATED
from judgebench.studies.paired import BETTER, WORSE, compare
from judgebench.studies.rules import RULES
from judgebench.studies.scores import CLEAN, Scores, first_record
from judgebench.types import LABELS, Row, Rows
from judgebench.words.errors import UserError
from judgebench.words.formats import say, short, signed_two, three, two

_MOST = 26

_OF_PLACE = (
    "run_dir",
    "store",
    "logger",
    "hydra",
    "report",
    "figures",
    "worth",
    "examples",
    "tables",
)
"""Of a configuration: where results go, not what they are."""

_TELLING = ("judge", "prompt", "ranges", "assistant", "decoding", "dimensions", "data")
"""Beginnings of keys that say most of what a run is, the first first."""

_MOST_KEYS = 3
_WIDE = 40

RATER = "one rater"
_PLACE = ("dimension", "range")

UNSET = "–"
"""The value of a key that a run's configuration does not have."""


@dataclass(frozen=True)
class Compared:
    """Several runs by their names; each is compared with the best by so many resamples."""

    runs: Mapping[str, Results]
    resamples: int = 1000

    @property
    def groups(self) -> str:
        """The word for groups of examples."""
        return next(iter(self.runs.values())).groups

    @cached_property
    def judged(self) -> list[Rows]:
        """By dimension a row a run, of the setting that it advises, those of highest Spearman
        first, with the record `less` of `paired_difference` to the first."""
        rows = []
        for name, run in self.runs.items():
            fitted = [row for row in judge_rows(run) if row["scores"] == CALIBRATED]
            advised = advised_rows(run)
            for row in with_records(advised, _PLACE, calibrated=of_advised(run, fitted)):
                for verdict in run.verdict:
                    if verdict["dimension"] == row["dimension"]:
                        row[verdict["use"]] = verdict["verdict"]
                setting = f"{row['series']} in range {row['range']}"
                rows.append(row | {"run": name, "advised": setting})
        several = len({row["dimension"] for row in rows}) > 1
        rows = [row | {"head": row["dimension"] if several else ""} for row in rows]
        parts = [
            sorted(part, key=spearman_of, reverse=True) for part in rows_by(rows, ["dimension"])
        ]
        for first, *others in parts:
            for row in others:
                row["less"] = paired_difference(self.runs, first, row, self.resamples)
        return parts

    @property
    def ranking(self) -> Rows:
        """The rows of `judged`, and below those of a dimension one rater."""
        humans = ceilings(next(iter(self.runs.values())))
        table = []
        for part in self.judged:
            table += part
            if human := humans.get(part[0]["dimension"]):
                rater = {name: part[0][name] for name in ("dimension", "head")} | {"run": RATER}
                table.append(rater | keys_of("spearman_others", Estimate.of(human, "ceiling")))
        return table


def named_runs(runs: Sequence[Results]) -> dict[str, Results]:
    """Runs by names that tell them apart: main model, judge, data set, what differs in their
    configurations, folder, or judge and folder; at most `_MOST`."""
    if not 1 <= len(runs) <= _MOST:
        raise UserError(f"a page of several runs takes up to {_MOST} run folders, got {len(runs)}.")
    judges = list(map(_judge, runs))
    settings = _settings(runs)
    folders = [run.path.name if run.path else "" for run in runs]
    both = [f"{judge}, {folder}" for judge, folder in zip(judges, folders, strict=True)]
    tried = (
        [str(run.titles["main"]) for run in runs],
        judges,
        [run.dataset for run in runs],
        settings,
        [f"{judge}, {setting}" for judge, setting in zip(judges, settings, strict=True)],
        folders,
        both,
        [f"{name} ({both[: place + 1].count(name)})" for place, name in enumerate(both)],
    )
    names = next((names for names in tried if len(set(names)) == len(runs)), tried[-1])
    return dict(zip(names, runs, strict=True))


def _judge(run: Results) -> str:
    return " with ".join(filter(None, (run.titles["main"], run.titles.get("assistant"))))


def _settings(runs: Sequence[Results]) -> list[str]:
    """Settings that tell runs apart, as "prompt.rubrics summary": one key where it is enough, else
    the first keys."""
    # 1. key -> the value of each run; of decodings their names, and of others those that all have
    decodings = []
    for run in runs:
        entries = (run.config.get("decoding") or {}).items()
        names = [name for name, entry in entries if isinstance(entry, Mapping)]
        decodings.append(", ".join(names))
    settings = {"decoding": decodings}
    for key, known in differing_keys(runs).items():
        if UNSET not in known:
            settings[key] = known
    # 2. those that say most first, one where it is enough
    settings = {key: known for key, known in settings.items() if len(set(known)) > 1}
    keys = sorted(settings, key=_telling)
    alone = [key for key in keys if len(set(settings[key])) == len(runs)]
    # 3. the end of a path tells more than its beginning
    named: list[list[str]] = [[] for _ in runs]
    for key in alone[:1] or keys[:_MOST_KEYS]:
        for names, value in zip(named, settings[key], strict=True):
            end = value if len(value) <= _WIDE else f"…{value[-_WIDE:]}"
            names.append(f"{key} {end}")
    return list(map(", ".join, named))


def _telling(key: str) -> int:
    """The place of a key among those that say what a run is."""
    places = (place for place, name in enumerate(_TELLING) if key.startswith(name))
    return next(places, len(_TELLING))


def render_comparison(
    runs: Sequence[Results],
    links: Sequence[str] = (),
    resamples: int = 1000,
    tasks: bool = False,
) -> str:
    """The page as text. Of runs on several data sets nothing on it sets one data set against
    another: no test, which takes the same texts, and no table in which equal names of dimensions
    meet.

    Args:
        links: to the report of each run, as the page is to name it; empty leaves them out.
        resamples: see `judgebench.studies.paired.compare`.
        tasks: whether the runs are tasks of one sweep, perhaps a single one.
    """
    named = named_runs(runs)
    sections: Sequence[PageSection] = SECTIONS
    title = f"{len(named)} runs compared on {runs[0].dataset}"
    judges = set(map(_judge, runs))
    if tasks or len({run.dataset for run in runs}) > 1:
        sections = TASK_SECTIONS
        title = f"{len(runs)} tasks"
    elif len(judges) == 1:
        title = f"{judges.pop()}: {title}"
    # each run in a few words: data, what is judged, and the name of its configuration
    titles = {}
    for name, run in named.items():
        dimensions = ", ".join(dict.fromkeys(row["dimension"] for row in run.metrics))
        titles[name] = f"{run.dataset}: {dimensions} ({run.config.get('name', 'run')})"
    return render_page(
        "comparison.html.j2",
        None,
        sections=rendered(sections, Compared(named, resamples), {}, None, ""),
        runs=named,
        title=title,
        titles=titles,
        may={name: first_line(run) for name, run in named.items()},
        links=links,
    )


def paired_difference(
    runs: Mapping[str, Results], first: Row, second: Row, resamples: int = 1000
) -> Row:
    """The record of `judgebench.studies.paired.compare` of two rows of `Compared.judged`, the first
    less the second, in Spearman on the examples that both have judged; empty where there are none.
    Each two runs are tested by themselves: Holm's correction is over one comparison a dimension, so
    that a further run changes no verdict."""
    # a rank correlation does not know ranges: all are one here, and settings of different ranges
    # can be compared
    sides = [
        cell_scores(runs[row["run"]], row).assign(
            judge=row["run"],
            split="test",
            range_min=0.0,
            range_max=1.0,
            range_step=1.0,
            attack=CLEAN,
            defense=NO_DEFENSE,
            decoding="advised",
            temperature=None,
            **{"lambda": None},
        )
        for row in (first, second)
    ]
    scores = pd.concat(sides, ignore_index=True)
    scores = scores[scores["human"].notna()].drop(columns=LABELS, errors="ignore")
    pair = ((first["run"], "advised"), (second["run"], "advised"))
    dataset = runs[first["run"]].dataset
    records = compare(Scores.of(scores), [pair], dataset, ["dataset"], resamples)
    return first_record(records, {"statistic": "spearman"})


# --- sections -----------------------------------------------------------------------------------


def _answers(compared: Compared) -> list[Block]:
    """The first of the ranking compared with the second, a sentence a dimension."""
    blocks: list[Block] = []
    for first, second in (part[:2] for part in compared.judged if len(part) > 1):
        facts = {"record": second["less"], "first": first, "second": second}
        blocks.append(Paragraph(say("compared", **facts, BETTER=BETTER, WORSE=WORSE)))
    return blocks


def _less(row: Row) -> Estimate:
    """The first run's Spearman less that of a row's run, with its interval."""
    numbers: Any = row.get("less") or {}
    return Estimate(numbers.get("difference"), numbers.get("low"), numbers.get("high"))


RUNS = View(
    "runs",
    "Ranking",
    lambda compared: compared.ranking,
    (
        Col("run", detail="advised", left=True),
        Col(
            "Spearman",
            "spearman",
            three,
            short,
            says="of the setting taken, with the mean of all raters",
        ),
        Col(
            "with the others",
            "spearman_others",
            three,
            short,
            optional=True,
            says="Spearman with the mean of all raters but one, mean over raters, as for one rater",
        ),
        Col(
            "calibrated",
            "calibrated.mae",
            two,
            two,
            optional=True,
            says="mean distance from the mean of all raters, calibrated by the ratings of other "
            "{groups}",
        ),
        Col(
            "the first less it",
            _less,
            signed_two,
            signed_two,
            marked=lambda row: row.get("less", {}).get("says") in (BETTER, WORSE),
            optional=True,
            says="difference in Spearman, on the examples that both runs have judged; each two "
            "runs are tested by themselves, so that a further run changes no verdict",
        ),
        *(
            Col(rule.title, use, left=True, optional=True, says=rule.measured_by)
            for use, rule in RULES.items()
        ),
    ),
    sections=["head"],
    section="{head}",
    brackets="{groups} resampled",
    marks="the interval leaves out 0 and p of the paired permutation test is at most .05",
)


def differing_keys(runs: Sequence[Results]) -> dict[str, list[str]]:
    """Key -> its value in each run's configuration, where these differ; without keys of where
    results go."""
    configs = [_flat(run.config) for run in runs]
    keys = dict.fromkeys(itertools.chain.from_iterable(configs))
    values = {key: [config.get(key, UNSET) for config in configs] for key in keys}
    return {
        key: known
        for key, known in values.items()
        if len(set(known)) > 1 and key.split(".")[0] not in _OF_PLACE
    }


def _flat(node: Any, name: str = "") -> dict[str, str]:
    """The values of a configuration as text, by keys such as "judge.model"."""
    if not isinstance(node, Mapping) or not node:
        return {name: "null" if node is None else str(node)}
    flat: dict[str, str] = {}
    for key, value in node.items():
        flat |= _flat(value, f"{name}.{key}" if name else str(key))
    return flat


def config_tables(compared: Compared) -> list[Block]:
    """Keys of which not all runs have the same value."""
    rows = [
        {"key": key, **dict(zip(compared.runs, known, strict=True))}
        for key, known in differing_keys(list(compared.runs.values())).items()
    ]
    names = ["key", *compared.runs]
    view = View(
        "configs",
        "What was different",
        lambda _: rows,
        [Col(name, itemgetter(name), left=True) for name in names],
        note="Keys of the configuration in which the runs differ; where results go is left out.",
    )
    return [*view.tables(compared)] or [Paragraph("The configurations say the same.")]


_DIFFERENT = PageSection(
    "more", "More", (Fold("What was different: keys of the configurations", (config_tables,)),)
)
SECTIONS = (PageSection("ranking", "Which judge is better?", (_answers, RUNS.tables)), _DIFFERENT)
"""Of runs on one data set; what moves their scores, and examples, are on the page of each."""

TASK_SECTIONS = (
    PageSection(
        "league", "Which repair helps?", (lambda compared: league_of_tasks(compared.runs),)
    ),
    PageSection("tasks", "Tasks", (lambda compared: TASKS_TABLE(compared.runs),)),
    _DIFFERENT,
)
"""Of runs on several data sets."""
