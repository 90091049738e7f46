"""The advice of a run in each dimension: the setting to take, what it promises, and what speaks for
it. Terminal, first screen, section and league word it by one template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from judgebench.report.formats import general, say
from judgebench.report.table import Row, Rows, records, rows_by
from judgebench.results.results import NO_DEFENSE, Results, range_of, setting
from judgebench.stats.clusters import Estimate

_METRICS = ("spearman", "pearson", "error", "rps")


@dataclass(frozen=True)
class Advice:
    """The setting to take in a dimension.

    Attributes:
        dimension: that it is for.
        judge: the model or pair; decoding: how its scores are made.
        who: both, with the setting of the decoding and the defense; range: "in range 1-5", or over
            how many.
        metric: that the setting was chosen for.
        promised: metric -> its value on groups that had no part in the choice.
        share: of the folds whose choice is the same.
        gain: over the plain setting, in the metric's units.
        advised: its record of `choice_rows`.
        tried: the records of all settings, the simplest first.

    Example:
        >>> cell = {"dimension": "tone", "judge": "main", "decoding": "greedy", "defense": "none"}
        >>> cell |= {"lambda": None, "temperature": None, "range_min": 1, "range_max": 5, "range_step": 1}
        >>> cell |= {"ranges": 1, "metric": "spearman", "promised_spearman": 0.48}
        >>> cell |= {"share": 1.0, "gain": 0.0, "taken": True, "best": True}
        >>> (advice,) = advices(Results(choice=[cell]))
        >>> advice.who, advice.range, advice.promised["spearman"].value
        ('main, greedy', 'in range 1-5', 0.48)
    """

    dimension: str
    judge: str
    decoding: str
    who: str
    range: str
    metric: str
    promised: Mapping[str, Estimate | None]
    share: float | None
    gain: float
    advised: Row
    tried: Rows

    @classmethod
    def of(cls, tried: Rows) -> Advice:
        """The advice of the records of one dimension."""
        advised = next(row for row in tried if row["taken"])
        metric = advised["metric"] if advised["metric"] in _METRICS else "spearman"
        return cls(
            dimension=advised["dimension"],
            judge=advised["judge"],
            decoding=advised["decoding"],
            who=advised["who"],
            range=advised["place"],
            metric=metric,
            promised={name: Estimate.of(advised, f"promised_{name}") for name in _METRICS},
            share=advised["share"],
            gain=advised["gain"],
            advised=advised,
            tried=tried,
        )

    @property
    def best(self) -> Row:
        """The record of the setting that looks best."""
        return next((row for row in self.tried if row["best"]), self.advised)

    @property
    def plain(self) -> Row:
        """The record that all others are measured by: it gains nothing, for certain."""
        return min(self.tried, key=lambda row: abs(row["gain"]) + (row["gain_se"] or 0.0))

    @property
    def others(self) -> Rows:
        """The records of other settings that some folds take, the most often taken first."""
        rows = [row for row in self.tried if row["share"] and row is not self.advised]
        return sorted(rows, key=lambda row: -row["share"])

    @property
    def kappas(self) -> str:
        """The least and the largest kappa of the folds; empty where the setting has none."""
        kappas = sorted(self.advised["kappas"] or ())
        ends = map(general, [*kappas[:1], *kappas[-1:]])
        return " to ".join(dict.fromkeys(ends))

    def say(self, place: str, groups: str) -> str:
        """The advice in words.

        Args:
            place: terminal, screen (the first of a page), section or league.
            groups: the word for groups of examples.
        """
        return say("advice", part=place, advice=self, groups=groups)


def choice_rows(results: Results) -> Rows:
    """The records of choice.json with labels: `who`, the repair; `place`, its range or ranges;
    `remark`, whether it is taken or looks best."""
    rows = records(results.choice)
    for row in rows:
        names = [row["judge"], row["decoding"], setting(row)]
        if row["defense"] != NO_DEFENSE:
            names.append(f"defense {row['defense']}")
        row["who"] = ", ".join(filter(None, names))
        if row["ranges"] == 1:
            row["place"] = f"in range {range_of(row)}"
        else:
            row["place"] = f"over {row['ranges']} ranges"
        remarks = {"taken": row["taken"], "looks best": row["best"]}
        row["remark"] = ", ".join(name for name, holds in remarks.items() if holds)
    return rows


def advices(results: Results) -> list[Advice]:
    """The advice in each dimension that has one."""
    return list(map(Advice.of, rows_by(choice_rows(results), ["dimension"])))


def advice_lines(results: Results, place: str) -> list[str]:
    """A line a dimension, which only several of them are named by: see `Advice.say`."""
    every = advices(results)
    lines = []
    for advice in every:
        name = f"{advice.dimension}: " if len(every) > 1 else ""
        lines.append(name + advice.say(place, results.groups))
    return lines


def recommendations(results: Results) -> list[str]:
    """A sentence a dimension: the setting to take, what it promises, how many folds agreed, what
    the best-looking one would have promised."""
    return [advice.say("league", results.groups) for advice in advices(results)]
