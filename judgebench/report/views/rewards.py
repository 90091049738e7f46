"""The judge as a reward of training: its order within prompts, its noise, and what fools it."""

from __future__ import annotations

from judgebench.report.table import Col, View, labelled_rows
from judgebench.report.views.correlations import of_cells
from judgebench.report.views.dimensions import headed
from judgebench.results.results import Results
from judgebench.types import Rows
from judgebench.words.formats import percent, points, two


def reward_rows(results: Results) -> Rows:
    """The records of rewards.json of the advised settings."""
    return headed(results, of_cells(results, labelled_rows(results.rewards)))


def _attacked_rows(results: Results) -> Rows:
    """A row an attack and defense of the advised settings, behind one of the clean texts."""
    table: Rows = []
    for row in reward_rows(results):
        place = {name: row[name] for name in ("dimension", "head", "range")}
        clean = {name: row[name] for name in row if name.startswith("false_pass")}
        unattacked = {"attack": "none", "defense": row["defense"]}
        if row["attacked"]:
            table.append(place | clean | unattacked)
        table += [place | attacked for attacked in row["attacked"]]
    return table


_FALSE_PASS = Col(
    "false passes",
    "false_pass",
    percent,
    points,
    optional=True,
    says="of the texts that people fail, the share that passes",
)

REWARDS = View(
    "rewards",
    "The judge as a reward",
    reward_rows,
    (
        Col("range", left=True),
        Col(
            "order",
            form=percent,
            ends=points,
            says="share of pairs of texts within {groups} ordered as people order them; a coin 50",
        ),
        Col(
            "all equal",
            "equal",
            percent,
            points,
            says="share of {groups} whose texts all have one score, from which nothing is learned",
        ),
        _FALSE_PASS,
        Col(
            "false fails",
            "false_fail",
            percent,
            points,
            optional=True,
            says="of the texts that people pass, the share that fails",
        ),
        Col("signal", form=two, optional=True, says="1 less both: what noise leaves of the reward"),
        Col(
            "precision",
            form=percent,
            ends=points,
            optional=True,
            says="of the texts that pass, the share that people pass",
        ),
    ),
    sections=["head"],
    section="{head}",
    brackets="{groups} are the clusters",
    reasons=["reason"],
)
"""Order and noise, a row a range."""

REWARDS_ATTACKED = View(
    "rewards_attacked",
    "False passes under attack",
    _attacked_rows,
    (
        Col("range", left=True),
        Col("attack", left=True),
        Col("defense", left=True),
        _FALSE_PASS,
    ),
    sections=["head"],
    section="{head}",
    once=["range"],
    brackets="{groups} are the clusters",
)
"""The same of attacked texts, a row an attack and defense."""
