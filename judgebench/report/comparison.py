"""Several runs on one page: which judge is better, by how much, and what was different about
them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pandas as pd

from judgebench.report.figures.charts import ranking_chart
from judgebench.report.formats import interval, short, signed_two, three, two
from judgebench.report.html import render_page, rendered
from judgebench.report.layout import Fold, PageSection
from judgebench.report.table import Block, Col, Paragraph, Row, Rows, View, rows_by
from judgebench.report.views.beside import judge_rows
from judgebench.report.views.correlations import advised_rows, cell_scores, of_advised
from judgebench.report.views.humans import ENDS, ceilings
from judgebench.report.views.league import league_of_tasks
from judgebench.report.views.tuning import TASKS_TABLE
from judgebench.results.results import Results
from judgebench.runtime.errors import UserError
from judgebench.stats.humans import CALIBRATED
from judgebench.stats.paired import BETTER, WORSE, compare
from judgebench.stats.scores import Scores
from judgebench.stats.verdict import RULES

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

UNSET = "–"
"""The value of a key that a run's configuration does not have."""


@dataclass(frozen=True)
class Compared:
    """Several runs by their names, and the differences between the settings that each two of them
    take."""

    runs: Mapping[str, Results]
    differences: Sequence[Mapping[str, Any]] = ()

    @property
    def groups(self) -> str:
        """The word for groups of examples."""
        return next(iter(self.runs.values())).groups

    @cached_property
    def ranking(self) -> Rows:
        """A row a run and dimension, of the setting that it takes, those of highest Spearman first;
        one rater last."""
        rows: Rows = []
        for name, run in self.runs.items():
            fitted = {
                (row["dimension"], row["range"]): row
                for row in of_advised(run, judge_rows(run))
                if row["scores"] == CALIBRATED
            }
            verdicts = {(row["dimension"], row["use"]): row["verdict"] for row in run.verdict}
            for lead in advised_rows(run):
                error = fitted.get((lead["dimension"], lead["range"]), {})
                row = {"run": name, "taken": f"{lead['series']} in range {lead['range']}"} | lead
                row |= {f"error{end}": error.get(f"mae{end}") for end in ENDS}
                rows.append(row | {use: verdicts.get((lead["dimension"], use)) for use in RULES})
        table: Rows = []
        several = len({row["dimension"] for row in rows}) > 1
        rows = [row | {"head": row["dimension"] if several else ""} for row in rows]
        for part in rows_by(rows, ["dimension"]):
            table += sorted(
                part,
                key=lambda row: -2.0 if row["spearman"] is None else row["spearman"],
                reverse=True,
            )
            human = ceilings(next(iter(self.runs.values()))).get(part[0]["dimension"])
            if human:
                ends = {f"spearman_others{end}": human[f"ceiling{end}"] for end in ENDS}
                table.append(
                    {"dimension": part[0]["dimension"], "run": "one rater", "head": part[0]["head"]}
                    | ends
                )
        return table


def named_runs(runs: Sequence[Results]) -> dict[str, Results]:
    """Runs by names that tell them apart: main model, judge, data set, what differs in their
    configurations, folder, or judge and folder; at most `_MOST`."""
    if not 1 <= len(runs) <= _MOST:
        raise UserError(f"a page of several runs takes up to {_MOST} run folders, got {len(runs)}.")
    judges = list(map(_judge, runs))
    settings = _settings(runs)
    folders = [run.path.name if run.path else "" for run in runs]
    tried = (
        [str(run.titles["main"]) for run in runs],
        judges,
        [run.dataset for run in runs],
        settings,
        [*map(", ".join, zip(judges, settings, strict=True))],
        folders,
        [*map(", ".join, zip(judges, folders, strict=True))],
    )
    names = next((names for names in tried if len(set(names)) == len(runs)), None)
    if names is None:
        seen: Counter[str] = Counter()
        names = [f"{name} ({seen[name]})" for name in tried[-1] if not seen.update([name])]
    return dict(zip(names, runs, strict=True))


def _judge(run: Results) -> str:
    return " with ".join(filter(None, (run.titles["main"], run.titles.get("assistant"))))


def _settings(runs: Sequence[Results]) -> list[str]:
    """Settings that tell runs apart, as "prompt.rubrics summary": one key where it is enough, else
    the first keys."""
    # 1. key -> its values; of decodings their names, and of other keys those that all runs have
    rows = differing_keys(dict(zip(map(str, range(len(runs))), runs, strict=True)))
    values = {"decoding": [", ".join(_decodings(run)) for run in runs]}
    values |= {row["key"]: list(row.values())[1:] for row in rows if UNSET not in row.values()}
    values = {key: of for key, of in values.items() if len(set(of)) > 1}
    # 2. those that say most first
    order = {
        key: next((i for i, name in enumerate(_TELLING) if key.startswith(name)), len(_TELLING))
        for key in values
    }
    keys = sorted(values, key=lambda key: order[key])
    keys = [key for key in keys if len(set(values[key])) == len(runs)][:1] or keys[:_MOST_KEYS]
    # 3. the end of a path tells more than its beginning
    texts = {
        key: [value if len(value) <= _WIDE else f"…{value[-_WIDE:]}" for value in values[key]]
        for key in keys
    }
    return [
        ", ".join(f"{key} {of[number]}" for key, of in texts.items()) for number in range(len(runs))
    ]


def _decodings(run: Results) -> list[str]:
    decodings = run.config.get("decoding") or {}
    return [name for name, entry in decodings.items() if isinstance(entry, Mapping)]


def render_comparison(
    runs: Sequence[Results], links: Sequence[str] = (), resamples: int = 1000, seed: int = 0
) -> str:
    """The page as text; of runs on several data sets that of `render_tasks`.

    Args:
        links: to the report of each run, as the page is to name it; empty leaves them out.
        resamples, seed: see `compare`.
    """
    if len({run.dataset for run in runs}) > 1:
        return render_tasks(runs, links)
    named = named_runs(runs)
    compared = Compared(named, paired_differences(named, resamples, seed))
    charts = {
        f"chart_{part[0]['dimension']}": ranking_chart(part)
        for part in rows_by(compared.ranking, ["dimension"])
    }
    sections = rendered(SECTIONS, compared, charts, None, "")
    judges = set(map(_judge, runs))
    title = f"{len(named)} runs compared on {runs[0].dataset}"
    title = f"{judges.pop()}: {title}" if len(judges) == 1 else title
    facts = {
        "title": title,
        "titles": _titles(named),
        "links": links,
    }
    return render_page("comparison.html.j2", None, sections=sections, runs=named, **facts)


def render_tasks(runs: Sequence[Results], links: Sequence[str] = ()) -> str:
    """The page of runs on several data sets as text. Nothing on it sets one data set against
    another: neither tests, which take the same texts, nor figures in which equal names of
    dimensions meet."""
    named = named_runs(runs)
    sections = rendered(TASK_SECTIONS, Compared(named), {}, None, "")
    facts = {"title": f"{len(named)} tasks", "titles": _titles(named), "links": links}
    return render_page("comparison.html.j2", None, sections=sections, runs=named, **facts)


def _titles(runs: Mapping[str, Results]) -> dict[str, str]:
    """Each run in a few words: data, what is judged, and the name of its configuration."""
    return {
        name: f"{run.dataset}: {', '.join(dict.fromkeys(row['dimension'] for row in run.metrics))} "
        f"({run.config.get('name', 'run')})"
        for name, run in runs.items()
    }


def paired_differences(
    runs: Mapping[str, Results], resamples: int = 1000, seed: int = 0
) -> list[dict[str, Any]]:
    """Records of `judgebench.stats.paired.compare` between the settings that each two runs take in
    a dimension, the later less the earlier, in Spearman, on the examples that both have judged.
    Each two runs are tested by themselves: Holm's correction is over one comparison a dimension, so
    that a further run changes no verdict."""
    # a rank correlation does not know ranges: all are one here, and settings of different ranges
    # can be compared
    same: dict[str, Any] = {
        "decoding": "taken",
        "lambda": None,
        "temperature": None,
        "split": "test",
        "attack": "none",
    }
    same |= {
        "defense": "none",
        "range_min": 0.0,
        "range_max": 1.0,
        "range_step": 1.0,
        "range_labels": None,
    }
    taken = {
        name: [cell_scores(run, lead).assign(judge=name, **same) for lead in advised_rows(run)]
        for name, run in runs.items()
    }
    differences = []
    for (name, run), (later, other) in itertools.combinations(runs.items(), 2):
        if run.dataset == other.dataset and taken[name] and taken[later]:
            scores = pd.concat([*taken[name], *taken[later]], ignore_index=True)
            scores = scores[scores["human"].notna()].drop(columns="range_labels")
            asked = [((later, "taken"), (name, "taken"))]
            differences += compare(
                Scores.of(scores), asked, run.dataset, ["dataset"], resamples, seed
            )
    return [record for record in differences if record["statistic"] == "spearman"]


# --- sections -----------------------------------------------------------------------------------


def _answers(compared: Compared) -> list[Block]:
    """The first of the ranking compared with the second, a sentence a dimension."""
    lines = []
    parts = rows_by([row for row in compared.ranking if "spearman" in row], ["dimension"])
    for first, second in (part[:2] for part in parts if len(part) > 1):
        record = _difference(compared, first["run"], second["run"], first["dimension"])
        name = f"{first['dimension']}: " if len(parts) > 1 else ""
        if record is None:
            lines.append(
                f"{name}{first['run']} and {second['run']} have judged no examples in common."
            )
            continue
        says = {BETTER: "is better than", WORSE: "is worse than"}.get(
            record["says"], "is not clearly better than"
        )
        by = f"{signed_two(record['difference'])} {interval(record['low'], record['high'], signed_two)}".rstrip()
        lines.append(f"{name}{first['run']} {says} {second['run']} (Spearman {by}).")
    return [Paragraph(line) for line in lines]


def _examples(compared: Compared) -> list[Block]:
    """The place of the examples of each run."""
    return [Paragraph("Examples stand on the page of each run: report.html in its folder.")]


def _difference(compared: Compared, first: str, second: str, dimension: str) -> Row | None:
    """The record of the first run less the second; None where they were not compared."""
    turned = {BETTER: WORSE, WORSE: BETTER}
    for record in (record for record in compared.differences if record["dimension"] == dimension):
        if (record["first_judge"], record["second_judge"]) == (first, second):
            return record
        if (record["first_judge"], record["second_judge"]) == (second, first):
            low, high = (None if record[end] is None else -record[end] for end in ("high", "low"))
            ends = {"low": low, "high": high, "says": turned.get(record["says"], record["says"])}
            return {**record, "difference": -record["difference"], **ends}
    return None


RUNS = View(
    "runs",
    "Ranking",
    lambda compared: compared.ranking,
    (
        Col("run", "run", detail="taken", left=True),
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
            "error",
            two,
            two,
            optional=True,
            says="mean distance from the mean of all raters, calibrated by the ratings of other "
            "{groups}",
        ),
        *(
            Col(rule.title, use, left=True, optional=True, says=rule.measured_by)
            for use, rule in RULES.items()
        ),
    ),
    sections=["head"],
    section="{head}",
    brackets="{groups} resampled",
)


def matrix_tables(compared: Compared) -> list[Block]:
    """Differences in Spearman, row less column, runs in the order of the ranking."""
    rows: Rows = []
    for part in rows_by([row for row in compared.ranking if "spearman" in row], ["dimension"]):
        for row in part if len(part) > 1 else ():
            cells: dict[str, Any] = {
                "run": row["run"],
                "dimension": row["dimension"],
                "head": row["head"],
            }
            for place, other in enumerate(part):
                record = _difference(compared, row["run"], other["run"], row["dimension"])
                if record is not None:
                    cells |= {f"{place}": record["difference"], f"{place}_low": record["low"]}
                    cells |= {
                        f"{place}_high": record["high"],
                        f"{place}_clear": record["says"] in (BETTER, WORSE),
                    }
            rows.append(cells | {"names": [other["run"] for other in part]})
    tables: list[Block] = []
    for part in rows_by(rows, ["dimension"]):
        columns = [
            Col(name, f"{place}", signed_two, signed_two, marked=f"{place}_clear")
            for place, name in enumerate(part[0]["names"])
        ]
        view = View(
            "differences",
            "Differences",
            partial(lambda part, _: part, part),
            [Col("row less column", "run", left=True), *columns],
            by=["head"],
            note="Of the settings taken, on the examples that both runs have judged. Each two runs "
            "are tested by themselves, so that a further run changes no verdict.",
            brackets="{groups} resampled",
            marks="the interval leaves out 0 and p of the paired permutation test is at most .05",
        )
        tables += view.tables(compared)
    return tables


def differing_keys(runs: Mapping[str, Results]) -> Rows:
    """A row a key of the configurations of which not all runs have the same value: `key`, and the
    value of each run by its name. Keys of where results go are left out."""

    def flat(node: Any, name: str = "") -> dict[str, str]:
        if isinstance(node, Mapping) and node:
            parts = (
                flat(value, f"{name}.{key}" if name else str(key)) for key, value in node.items()
            )
            return {key: value for part in parts for key, value in part.items()}
        return {name: "null" if node is None else str(node)}

    configs = {name: flat(run.config) for name, run in runs.items()}
    keys = dict.fromkeys(
        key for config in configs.values() for key in config if key.split(".")[0] not in _OF_PLACE
    )
    values = {
        key: {name: config.get(key, UNSET) for name, config in configs.items()} for key in keys
    }
    return [{"key": key} | of for key, of in values.items() if len(set(of.values())) > 1]


def config_tables(compared: Compared) -> list[Block]:
    """Keys of which not all runs have the same value."""
    rows = differing_keys(compared.runs)
    columns = (
        Col("key", "key", left=True),
        *(Col(name, name, left=True) for name in compared.runs),
    )
    note = "Keys of the configuration in which the runs differ; where results go is left out."
    tables = View("configs", "What was different", lambda _: rows, columns, note=note).tables(
        compared
    )
    return [*tables] or [Paragraph("The configurations say the same.")]


SECTIONS = (
    PageSection("ranking", "Which judge is better?", (_answers, "chart_", RUNS.tables)),
    PageSection("differences", "By how much?", (matrix_tables,)),
    PageSection("examples", "Examples", (_examples,)),
    PageSection(
        "more", "More", (Fold("What was different: keys of the configurations", (config_tables,)),)
    ),
)
"""Of a comparison."""

TASK_SECTIONS = (
    PageSection(
        "league", "Which repair helps?", (lambda compared: league_of_tasks(compared.runs),)
    ),
    PageSection("tasks", "Tasks", (lambda compared: TASKS_TABLE(compared.runs),)),
    PageSection(
        "more", "More", (Fold("What was different: keys of the configurations", (config_tables,)),)
    ),
)
"""Of runs on several data sets."""
