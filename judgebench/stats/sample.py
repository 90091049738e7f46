"""One judge's scores with the humans' ratings of the same texts: what every study takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from judgebench.stats.agreement import categories_of
from judgebench.stats.clusters import RESAMPLES, Clusters, divided
from judgebench.stats.points import on_scale
from judgebench.stats.scores import CLEAN, Cell, Scores
from judgebench.types import LABELS, RANGE

_CONDITION = ("dimension", *RANGE, LABELS, "attack", "defense")


@dataclass(frozen=True)
class Sample:
    """One judge and decoding in one range, and the humans.

    Attributes:
        dataset: its name.
        cell: split, dimension, range, judge, decoding and settings; the attack is always none.
        names, groups, systems: [N] example_id, group_id and system_id of the texts.
        scores: [N] in the cell's range.
        ratings: [N, R] of single raters, NaN where one gave none; [N, 1] of means where no more is known.
        raters: names of the columns; empty where they are means.
        scale: lowest and highest score that a human can give; None where it is unknown.
        logprobs: main, assistant -> [N, K] log-probabilities of the range's candidates, ascending; empty where answers
            were generated.
        texts: [N] what was judged; empty where nobody asked for it.
        model: the judge's name; None where it has none.
        rule: of its decoding, see `judgebench.decoding.scores.rules_of`; empty where it is unknown.
        over_vocabulary: judges whose log-probabilities are over all tokens, not over a list that a server cut.
        alpha: plausibility of the decoding, see `Contrastive`.
        resamples, seed: see `clusters.group_weights`.
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
    def clusters(self) -> Clusters:
        """Of its groups, with its resamples."""
        return Clusters.of(self.groups, self.resamples, self.seed)

    @cached_property
    def human(self) -> np.ndarray:
        """[N] means of the ratings; NaN where nobody rated."""
        return divided(np.nansum(self.ratings, axis=1), (~np.isnan(self.ratings)).sum(axis=1))

    @cached_property
    def on_scale(self) -> np.ndarray:
        """[N] scores mapped linearly to the humans' scale; as they are where that is unknown."""
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
        rows = self.ratings[(self.ratings["dimension"] == dimension) & self.ratings["example_id"].isin(names)]
        if not len(rows):
            return None
        raters = {rater: column for column, rater in enumerate(dict.fromkeys(rows["rater"]))}
        place = {name: row for row, name in enumerate(names.tolist())}
        table = np.full((len(names), len(raters)), np.nan)
        table[rows["example_id"].map(place), rows["rater"].map(raters)] = rows["score"]
        return table, list(raters)


def samples_of(
    scores: Scores | Mapping[str, Any] | pd.DataFrame,
    readings: pd.DataFrame,
    humans: Humans,
    dataset: str,
    models: Mapping[str, str | None],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Sample]:
    """The judges, decodings and ranges of a run, each with the humans, in the order of their scores.

    Args:
        scores: attacked texts are left out.
        readings: readings.parquet's columns, from which log-probabilities are taken.
        models: judge -> its name.
    """
    scores, samples = Scores.of(scores), []
    known = [name for name in _CONDITION if name in readings]
    by_condition = {
        tuple(value or "" for value in key): part.set_index("example_id")
        for key, part in readings.groupby(known, sort=False, dropna=False)
    }
    for cell in scores.cells:
        if cell.attack != CLEAN:
            continue
        part, condition = scores.part(cell), cell.named
        names = part["example_id"]
        table = humans.table(cell.dimension, names)
        ratings, raters = (part["human"][:, None], []) if table is None else table
        logprobs: dict[str, np.ndarray] = {}
        asked = by_condition.get(tuple(condition.get(name) or "" for name in known))
        for role in ("main", "assistant") if asked is not None else ():
            rows = asked.loc[names, f"{role}_logprobs"].tolist()  # type: ignore[union-attr]
            if all(row is not None and len(row) for row in rows):
                logprobs[role] = np.array([np.asarray(row, dtype=np.float64) for row in rows])
        samples.append(
            Sample(
                dataset=dataset,
                cell=cell,
                names=names,
                groups=part["group_id"],
                systems=part["system_id"],
                scores=part["score"],
                ratings=ratings,
                raters=raters,
                scale=humans.scale.get(cell.dimension),
                logprobs=logprobs,
                texts=[humans.texts[name] for name in names.tolist()] if humans.texts else [],
                model=models.get(cell.judge),
                resamples=resamples,
                seed=seed,
            )
        )
    return samples
