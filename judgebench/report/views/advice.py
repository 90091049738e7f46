"""The advice of a run in each dimension: the setting to take, what it promises, and what speaks for
it. Terminal, first screen, section and league word it by one template."""

from __future__ import annotations

from dataclasses import dataclass

from judgebench.report.table import records, rows_by
from judgebench.results.results import NO_DEFENSE, Results, range_of, setting
from judgebench.stats.clusters import Estimate
from judgebench.studies.rules import BESIDE, NO, UNMEASURED
from judgebench.types import Row, Rows, ScoreRange
from judgebench.words.formats import general, say

_METRICS = ("spearman", "pearson", "error", "rps", "pairs", "agreement")


@dataclass(frozen=True)
class Advice:
    """The setting to take in a dimension.

    Attributes:
        tried: the records of `choice_rows` of all settings, the simplest first.

    Example:
        >>> cell = {"dimension": "tone", "judge": "main", "decoding": "greedy", "defense": "none"}
        >>> cell |= {"lambda": None, "temperature": None, "range_min": 1, "range_max": 5, "range_step": 1}
        >>> cell |= {"ranges": 1, "metric": "spearman", "promised_spearman": 0.48}
        >>> cell |= {"share": 1.0, "gain": 0.0, "taken": True, "best": True}
        >>> advice = advices(Results(choice=[cell]))["tone"]
        >>> advice.advised["who"], advice.advised["place"], advice.promised("spearman").value
        ('main, greedy', 'in range 1-5', 0.48)
    """

    tried: Rows

    @property
    def advised(self) -> Row:
        """The record of the setting."""
        return next(row for row in self.tried if row["taken"])

    @property
    def metric(self) -> str:
        """The metric that the setting was chosen for."""
        return self.advised["metric"] if self.advised["metric"] in _METRICS else "spearman"

    def promised(self, metric: str) -> Estimate | None:
        """A metric on groups that had no part in the choice."""
        return Estimate.of(self.advised, f"promised_{metric}")

    @property
    def best(self) -> Row:
        """The record of the setting that looks best."""
        return next((row for row in self.tried if row["best"]), self.advised)

    @property
    def plain(self) -> Row:
        """The record that all others are measured by: it gains nothing, for certain."""
        return min(self.tried, key=lambda row: abs(row["gain"]) + (row["gain_se"] or 0.0))

    @property
    def kappas(self) -> str:
        """The least and the largest kappa of the folds; empty where the setting has none."""
        kappas = sorted(self.advised["kappas"] or ())
        ends = map(general, [*kappas[:1], *kappas[-1:]])
        return " to ".join(dict.fromkeys(ends))

    def say(self, place: str, results: Results) -> str:
        """The advice in words; place: terminal, screen (the first of a page), section or league."""
        dimension = self.advised["dimension"]
        # 1. people's scale turned round, worst first
        ends = results.scale.get(dimension) or ()
        turned = [f"{results.as_rated(dimension, end):g}" for end in reversed(ends)]
        classes = (results.about.get("classes") or {}).get(dimension) or {}
        names = classes.get("names")
        # 2. and the judge's; words of a judge are in the order of people's, and turn with them
        score_range = ScoreRange.of(self.advised)
        judge = []
        if not score_range.worded:
            worst, best, step = map(general, score_range.given)
            judge = [best, worst, step] if score_range.step != 1 else [best, worst]
        return say(
            "advice",
            part=place,
            advice=self,
            groups=results.groups,
            key="data.classes" if names else "data.scale",
            people=names[::-1] if names else turned,
            judge=judge,
            useless=_is_useless(results, dimension),
        )


def _is_useless(results: Results, dimension: str) -> bool:
    """True where every verdict on a dimension is no, but for attacks."""
    verdicts = {
        row["verdict"]
        for row in results.verdict
        if row["dimension"] == dimension and row["use"] not in BESIDE
    }
    return verdicts - {UNMEASURED} == {NO}


def choice_rows(results: Results) -> Rows:
    """The records of choice.json with labels: `who`, the repair; `place`, its range or ranges;
    `remark`, whether it is taken or looks best."""
    rows = records(results.choice)
    for row in rows:
        names = [row["judge"], row["decoding"], setting(row)]
        if row["defense"] != NO_DEFENSE:
            names.append(f"defense {row['defense']}")
        row["who"] = ", ".join(filter(None, names))
        row["place"] = f"over {row['ranges']} ranges"
        if row["ranges"] == 1:
            row["place"] = f"in range {range_of(row)}"
        remarks = {"taken": row["taken"], "looks best": row["best"]}
        row["remark"] = ", ".join(name for name, holds in remarks.items() if holds)
    return rows


def advices(results: Results) -> dict[str, Advice]:
    """Dimension -> its advice, of those that have one."""
    parts = rows_by(choice_rows(results), ["dimension"])
    return {part[0]["dimension"]: Advice(part) for part in parts}


def advice_lines(results: Results, place: str) -> list[str]:
    """A line a dimension, which only several of them are named by: see `Advice.say`."""
    every = advices(results)
    lines = {name: advice.say(place, results) for name, advice in every.items()}
    return [f"{name}: {line}" if len(lines) > 1 else line for name, line in lines.items()]


def recommendations(results: Results) -> list[str]:
    """A sentence a dimension: the setting to take, what it promises, how many folds agreed, what
    the best-looking one would have promised."""
    return [advice.say("league", results) for advice in advices(results).values()]
