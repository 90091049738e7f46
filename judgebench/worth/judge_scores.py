"""One judge's scores beside the humans' ratings of the same texts: what every study of its worth takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from judgebench.stats.agreement import categories_of
from judgebench.stats.clusters import RESAMPLES
from judgebench.stats.points import on_scale
from judgebench.stats.scores import CLEAN, Cell, cells, checked
from judgebench.types import LABELS, RANGE

_CONDITION = ("dimension", *RANGE, LABELS, "attack", "defense")
_ROLES = ("main", "assistant")


@dataclass(frozen=True)
class JudgeScores:
    """One judge and decoding in one range, and the humans.

    Attributes:
        dataset: its name.
        cell: split, dimension, range, judge, decoding and settings; the attack is always none.
        names, groups, systems: [N] example_id, group_id and system_id of the texts.
        scores: [N] in the cell's range.
        ratings: [N, R] of single raters, NaN where one gave none; [N, 1] of means where no more is known.
        raters: names of the columns; empty where they are means.
        scale: lowest and highest score that a human can give; None where nobody knows.
        logprobs: main, assistant -> [N, K] log-probabilities of the range's candidates, ascending; empty where answers
            were generated.
        texts: [N] what was judged; empty where nobody asked for it.
        model: the judge's name; None where it has none.
        rule: of its decoding, see `judgebench.decoding.scores.rules_of`; empty where nobody tells.
        over_vocabulary: judges whose log-probabilities are over all tokens, not over a list that a server cut.
        alpha: plausibility of the decoding, see `Contrastive`.
        resamples, seed: see `resampling.group_weights`.
    """

    dataset: str
    cell: Cell
    names: np.ndarray
    groups: np.ndarray
    systems: np.ndarray
    scores: np.ndarray
    ratings: np.ndarray
    raters: Sequence[str] = ()
    scale: tuple[float, float] | None = None
    logprobs: Mapping[str, np.ndarray] = field(default_factory=dict)
    texts: Sequence[str] = ()
    model: str | None = None
    rule: str = ""
    over_vocabulary: Collection[str] = ()
    alpha: float = 0.0
    resamples: int = RESAMPLES
    seed: int = 0

    @property
    def head(self) -> dict[str, object]:
        """The keys that every record about it begins with."""
        return {"dataset": self.dataset} | self.cell.named

    @cached_property
    def human(self) -> np.ndarray:
        """[N] means of the ratings; NaN where nobody rated."""
        given = ~np.isnan(self.ratings)
        sums = np.where(given, self.ratings, 0.0).sum(axis=1)
        count = given.sum(axis=1)
        return np.divide(sums, count, out=np.full(len(sums), np.nan), where=count > 0)

    @cached_property
    def on_scale(self) -> np.ndarray:
        """[N] scores mapped linearly to the humans' scale; as they are where nobody knows the scale."""
        return self.scores if self.scale is None else on_scale(self.scores, self.cell.range, self.scale)

    @cached_property
    def categories(self) -> np.ndarray | None:
        """[C] all scores that a rater may give, ascending; None where there is no list."""
        return None if self.scale is None else categories_of(self.ratings, self.scale)


@dataclass(frozen=True)
class Humans:
    """Human ratings of a data set, and the texts.

    Attributes:
        ratings: columns example_id, dimension, rater, score: a row a rating; empty where means alone are known.
        scale: dimension -> lowest and highest score that a human can give.
        texts: example_id -> the text that is judged.
    """

    ratings: pd.DataFrame
    scale: Mapping[str, tuple[float, float] | None]
    texts: Mapping[str, str] = field(default_factory=dict)

    def table(self, dimension: str, names: np.ndarray) -> tuple[np.ndarray, list[str]] | None:
        """[N, R] ratings of the texts `names` on a dimension, and the raters' names; None where single ones are not
        known."""
        of = self.ratings[(self.ratings["dimension"] == dimension) & self.ratings["example_id"].isin(names)]
        if not len(of):
            return None
        raters = {rater: column for column, rater in enumerate(dict.fromkeys(of["rater"]))}
        place = {name: row for row, name in enumerate(names.tolist())}
        table = np.full((len(names), len(raters)), np.nan)
        table[of["example_id"].map(place), of["rater"].map(raters)] = of["score"]
        return table, list(raters)


def judged(
    columns: Mapping[str, np.ndarray],
    readings: pd.DataFrame,
    humans: Humans,
    dataset: str,
    models: Mapping[str, str | None],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[JudgeScores]:
    """The judges, decodings and ranges of a run, each beside the humans, in the order of their scores.

    Args:
        columns: of scores, see `cells.COLUMNS`; attacked texts are left out.
        readings: readings.parquet's columns, from which log-probabilities are taken.
        models: judge -> its name.
    """
    columns = checked(columns)
    held = _logprobs(readings)
    found = []
    for cell, rows in cells(columns).items():
        if cell.attack != CLEAN:
            continue
        part = {name: columns[name][rows] for name in ("example_id", "group_id", "system_id", "score", "human")}
        table = humans.table(cell.dimension, part["example_id"])
        ratings, raters = (part["human"][:, None], []) if table is None else table
        named = cell.named
        texts = [humans.texts[name] for name in part["example_id"].tolist()] if humans.texts else []
        found.append(
            JudgeScores(
                dataset=dataset,
                cell=cell,
                names=part["example_id"],
                groups=part["group_id"],
                systems=part["system_id"],
                scores=part["score"],
                ratings=ratings,
                raters=raters,
                scale=humans.scale.get(cell.dimension),
                logprobs=_aligned(held.get(tuple(named.get(name) or "" for name in _CONDITION)), part["example_id"]),
                texts=texts,
                model=models.get(cell.judge),
                resamples=resamples,
                seed=seed,
            )
        )
    return found


def _logprobs(readings: pd.DataFrame) -> dict[tuple[object, ...], pd.DataFrame]:
    """Condition -> its readings by example_id."""
    names = [name for name in _CONDITION if name in readings]
    keyed = dict(iter(readings.groupby(names, sort=False, dropna=False)))
    at = [names.index(name) if name in names else None for name in _CONDITION]
    return {
        tuple("" if place is None else key[place] or "" for place in at): part.set_index("example_id")
        for key, part in keyed.items()
    }


def _aligned(readings: pd.DataFrame | None, names: np.ndarray) -> dict[str, np.ndarray]:
    """Role -> [N, K] of the texts `names`."""
    found: dict[str, np.ndarray] = {}
    for role in _ROLES if readings is not None else ():
        assert readings is not None
        given = readings.loc[names, f"{role}_logprobs"].tolist()
        if all(one is not None and len(one) for one in given):
            found[role] = np.array([np.asarray(one, dtype=np.float64) for one in given])
    return found
