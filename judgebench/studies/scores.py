"""The scores of a run, and what humans and models said of the same texts.

A row of the table `Scores` is one example under one condition, judged by one judge and decoding.
Rows that share all but the example are a `ScoreSeries`; a judge's cells over the ranges are a series.
Every study of what judges are worth takes `JudgeScores`s: one clean cell each, with the humans'
ratings and the log-probabilities of its texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from judgebench.stats.agreement import categories_of
from judgebench.stats.clusters import RESAMPLES, Clusters, safe_divide
from judgebench.stats.folds import cross_fitted
from judgebench.stats.maps import rescale
from judgebench.studies.panel import Panel
from judgebench.types import (
    FAILED,
    LABELS,
    RANGE,
    Array,
    Classes,
    Columns,
    Key,
    Record,
    Row,
    Scale,
    Scales,
    ScoreRange,
)

if TYPE_CHECKING:
    import pandas as pd

CLEAN = "none"
"""The attack of texts that are not attacked, and the defense of judges without one."""


class ScoreSeries(NamedTuple):
    """Condition, judge and decoding, which a run of rows of scores shares."""

    split: str
    dimension: str
    range_min: float
    range_max: float
    range_step: float
    attack: str
    defense: str
    judge: str
    decoding: str
    lambda_: float | None
    temperature: float | None
    range_labels: str = ""

    @classmethod
    def of(cls, record: Row) -> ScoreSeries:
        """The cell that a record is about."""
        return cls._make([*(record[name] for name in CELL), record.get(LABELS) or ""])

    @property
    def named(self) -> Record:
        """By the names of the columns; `LABELS` only where the range has some."""
        columns = dict(zip(CELL, self, strict=False))
        if self.range_labels:
            columns[LABELS] = self.range_labels
        return columns

    @property
    def range(self) -> ScoreRange:
        return ScoreRange.of(self.named)

    @property
    def table(self) -> tuple[str, str, str, str]:
        """Split, dimension, attack, defense."""
        return self.split, self.dimension, self.attack, self.defense

    @property
    def hyperparameters(self) -> tuple[float | None, float | None]:
        """lambda and temperature."""
        return self.lambda_, self.temperature

    @property
    def clean(self) -> ScoreSeries:
        """The same without the attack."""
        return self._replace(attack=CLEAN)


CELL = tuple(name.rstrip("_") for name in ScoreSeries._fields if name != LABELS)
"""The columns behind a cell, to which `LABELS` comes where a range has some."""


def first_record(records: Iterable[Row], keys: Row) -> Row:
    """The first record with these keys and values; empty where there is none."""
    return next((record for record in records if keys.items() <= record.items()), {})


def cell_record(records: Iterable[Row], cell: ScoreSeries, **keys: Any) -> Row:
    """The first record about a cell, with these keys and values; empty where there is none."""
    return first_record((record for record in records if ScoreSeries.of(record) == cell), keys)


def with_flag(
    flag: str,
    records: Iterable[Row],
    named: Iterable[Row],
    names: Sequence[str],
) -> list[Row]:
    """Records with a flag more where one of those that are `named` has the same values of `names`;
    the others as they were."""

    def place(record: Row) -> Key:
        return tuple(record.get(name) for name in names)

    places = set(map(place, named))
    flagged = []
    for record in records:
        if place(record) in places:
            record = {**record, "flags": [*record["flags"], flag]}
        flagged.append(record)
    return flagged


COLUMNS = (*CELL, "example_id", "group_id", "system_id", "score", "status", "human")
"""Of a table of scores."""

COMPARED = (
    "text_id",
    "score_first",
    "score_second",
    "rival_id",
    "rival_system_id",
    "tie_first",
    "tie_second",
)
"""What a table of scores has besides where texts are compared; only the ranking of systems needs
the last four."""

_INNER = {*COLUMNS, *COMPARED} - {*CELL}
_NUMBERS = (*RANGE, "lambda", "temperature", "score", "human")


@dataclass(frozen=True)
class Scores:
    """A checked table of scores, by its cells.

    Attributes:
        columns: name -> [rows], `COLUMNS` and `LABELS`, and `COMPARED` where texts are compared;
            numbers as float64, with NaN where a decoding has no lambda or temperature, and where
            nobody rated.
        cells: cell -> its rows [n], in order of first appearance.
    """

    columns: Columns
    cells: Mapping[ScoreSeries, Array]

    @classmethod
    def of(cls, table: Scores | Row | pd.DataFrame) -> Scores:
        """From columns, or a frame; checked ones are taken as they are. `ValueError` for a column
        missing or of another length, a score that is not finite, or an example twice in one
        cell."""
        if isinstance(table, Scores):
            return table
        # 1. columns
        if missing := [name for name in COLUMNS if name not in table]:
            raise ValueError(f"scores: missing columns {', '.join(missing)}")
        columns = {name: np.asarray(table[name]) for name in (*COLUMNS, *COMPARED) if name in table}
        count = len(columns["score"])
        labels = table[LABELS] if LABELS in table else [""] * count
        labels = [text if isinstance(text, str) else "" for text in labels]
        columns[LABELS] = np.asarray(labels, dtype=object)
        if len({len(column) for column in columns.values()}) > 1:
            lengths = {name: len(column) for name, column in columns.items()}
            raise ValueError(f"scores: columns of different lengths {lengths}")
        columns |= {name: columns[name].astype(np.float64) for name in _NUMBERS}
        if not np.isfinite(columns["score"]).all():
            raise ValueError(
                "scores: score must be finite; a failed answer is scored at the minimum"
            )
        # 2. cells, in order of first appearance
        import pandas as pd  # it takes long to import

        frame = pd.DataFrame({name: columns[name] for name in (*CELL, LABELS)})
        number = frame.groupby([*frame], sort=False, dropna=False).ngroup().to_numpy()
        parts = np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])
        firsts = frame.iloc[[part[0] for part in parts if count]]
        cells: dict[ScoreSeries, Array] = {}
        for key, rows in zip(firsts.itertuples(index=False), parts, strict=False):
            # NaN differs from itself, so that it cannot be part of a key
            known = [None if value != value else value for value in key]
            cells[ScoreSeries._make(known)] = rows
        for cell, rows in cells.items():
            if len(set(columns["example_id"][rows].tolist())) < len(rows):
                raise ValueError(f"scores: an example appears twice under {cell.named}")
        return cls(columns, cells)

    def part(self, cell: ScoreSeries, rows: Array | None = None) -> dict[str, Array]:
        """The columns of a cell's rows, or of some rows, but for those of the cell itself."""
        inner = {name: self.columns[name] for name in self.columns if name in _INNER}
        return at_rows(inner, self.cells[cell] if rows is None else rows)

    def rated(self, cell: ScoreSeries) -> dict[str, Array]:
        """The columns of a cell's rows that humans rated."""
        rows = self.cells[cell]
        return self.part(cell, rows[np.isfinite(self.columns["human"][rows])])

    @property
    def compares(self) -> bool:
        """True where a row is of two texts."""
        return "score_first" in self.columns

    @cached_property
    def answered(self) -> Scores:
        """The table without the answers that could not be read, which are missing in all figures of
        agreement. A cell without any answer keeps its rows, all of one score; compared texts, where
        no answer is a tie, keep theirs."""
        if self.compares:
            return self
        # missing and not scored: the lowest score would say that the judge disliked these texts
        read = self.columns["status"] != FAILED
        cells = {}
        for cell, rows in self.cells.items():
            cells[cell] = rows[read[rows]] if read[rows].any() else rows
        return replace(self, cells=cells)

    @cached_property
    def correlated(self) -> dict[Key, Any]:
        """Correlations of cells, as `judgebench.studies.evaluate.correlate_cell` keeps them."""
        return {}

    @cached_property
    def split(self) -> str:
        """The reported split."""
        return shown_split(cell.split for cell in self.cells)


def shown_split(splits: Iterable[str]) -> str:
    """The split that is reported: test where there is one, else the first."""
    names = list(dict.fromkeys(splits))
    return "test" if "test" in names or not names else names[0]


def series_of(cells: Iterable[ScoreSeries]) -> dict[Key, dict[ScoreRange, ScoreSeries]]:
    """Series -> range -> cell, both in order of first appearance.

    A series is one judge with one decoding in one table: (split, dimension, attack, defense, judge,
    decoding, lambda, temperature). Tuning may choose another lambda and temperature in each range,
    so they are None there; only where one range holds several settings of a judge and decoding is
    each a series of its own.
    """
    listed = list(dict.fromkeys(cells))
    judges = [(*cell.table, cell.judge, cell.decoding) for cell in listed]
    # by their settings as well, where one range holds several
    times = Counter((judge, cell.range) for judge, cell in zip(judges, listed, strict=True))
    several = {judge for (judge, _), count in times.items() if count > 1}
    series: dict[Key, dict[ScoreRange, ScoreSeries]] = {}
    for judge, cell in zip(judges, listed, strict=True):
        hyperparameters = cell.hyperparameters if judge in several else (None, None)
        series.setdefault((*judge, *hyperparameters), {})[cell.range] = cell
    return series


def at_rows(part: Columns, rows: Array) -> dict[str, Array]:
    """Some rows of a part of a table: their numbers, or [n] True for each."""
    return {name: column[rows] for name, column in part.items()}


def common_rows(parts: Sequence[Columns]) -> list[dict[str, Array]]:
    """The rows of parts of a table whose examples all parts have, in one order."""
    names = [part["example_id"].astype(str) for part in parts]
    if all(np.array_equal(side, names[0]) for side in names[1:]):
        order = np.argsort(names[0])
        return [at_rows(part, order) for part in parts]
    common = reduce(np.intersect1d, names)
    selected = []
    for part, side in zip(parts, names, strict=True):
        _, rows, _ = np.intersect1d(side, common, assume_unique=True, return_indices=True)
        selected.append(at_rows(part, rows))
    return selected


def missing_bounds(
    scores: Array, human: Array, answered: Array, score_range: ScoreRange
) -> tuple[Array, Array]:
    """Scores [N] with others in the place of answers that could not be read, at worst and at best.

    At worst a text has the end of the range that lies opposite to its human rating, seen from their
    mean. At best its score has the same rank among the judge's answers as its rating among the
    ratings of these texts.

    Args:
        human: [N], NaN where nobody rated; such a text has the middle of the range at worst, and
            the median at best.
        answered: [N] False where the answer could not be read.

    Example:
        >>> scores, ratings = np.array([2.0, 4.0, 3.0, 1.0, 1.0]), np.array([1.0, 3.0, 2.0, 3.0, 1.0])
        >>> worst, best = missing_bounds(scores, ratings, np.array([True, True, True, False, False]), ScoreRange(1, 5))
        >>> worst.tolist(), best.round(2).tolist()
        ([2.0, 4.0, 3.0, 1.0, 5.0], [2.0, 4.0, 3.0, 3.67, 2.33])
    """
    rated = np.isfinite(human)
    # 1. the opposite end
    middle = (score_range.minimum + score_range.maximum) / 2
    far = score_range.maximum - middle
    above_mean = human - np.nanmean(human)
    side = np.nan_to_num(np.sign(above_mean))
    # the worst that an answer could have been: as far as can be from what humans said
    opposite = middle - side * far
    # 2. the same rank
    # the best: the judge would have ordered these texts as humans do, with scores that it gives
    ratings = np.sort(human[answered & rated])
    below = np.searchsorted(ratings, human, "left")
    upto = np.searchsorted(ratings, human, "right")
    count = max(1, len(ratings))
    rank = (below + upto) / (2 * count)
    rank = np.where(rated, rank, 0.5)
    alike = np.quantile(scores[answered], rank)
    worst = np.where(answered, scores, opposite)
    best = np.where(answered, scores, alike)
    return worst, best


# --- beside humans ------------------------------------------------------------------------------


def scale_of(scores: Scores, ratings: pd.DataFrame, given: Mapping[str, Scale]) -> Scales:
    """Dimension -> ends of the humans' scale: as given, else what their ratings span; None where
    there are none, and where texts are compared: a preference is no score."""
    scale: dict[str, Scale | None] = dict(given)
    for dimension in {cell.dimension for cell in scores.cells} - set(scale):
        means = scores.columns["human"][scores.columns["dimension"] == dimension]
        single = ratings["score"][ratings["dimension"] == dimension].to_numpy()
        values = single if len(single) else means[np.isfinite(means)]
        scale[dimension] = (float(values.min()), float(values.max())) if len(values) else None
    return dict.fromkeys(scale) if scores.compares else scale


def ratings_of(
    ratings: pd.DataFrame, dimension: str, names: Sequence[str]
) -> tuple[Array, list[str]]:
    """Ratings [N, R] of the texts `names` [N] on a dimension, NaN where a rater gave none, and the
    raters' names.

    Args:
        ratings: columns example_id, dimension, rater, score: a row a rating.
    """
    # long form, a row a rating: raters rate some texts each
    place = {name: row for row, name in enumerate(names)}
    rows = ratings[(ratings["dimension"] == dimension) & ratings["example_id"].isin(place)]
    raters = {rater: column for column, rater in enumerate(dict.fromkeys(rows["rater"]))}
    table = np.full((len(place), len(raters)), np.nan)
    table[rows["example_id"].map(place), rows["rater"].map(raters)] = rows["score"]
    return table, list(raters)


@dataclass(frozen=True)
class JudgeScores:
    """One judge and decoding in one range, and the humans: the texts whose answers could be read.

    Attributes:
        dataset: its name.
        cell: split, dimension, range, judge, decoding and settings; the attack is always none.
        names, groups, systems: [N] example_id, group_id and system_id of the texts.
        scores: [N] in the cell's range.
        ratings: [N, R] of single raters, NaN where one gave none; [N, 1] of means where no more is
            known.
        raters: names of the columns; empty where they are means.
        scale: lowest and highest score that a human can give; None where it is unknown.
        classes: what the labels say; None where they are plain grades.
        logprobs: main, assistant -> [N, K] log-probabilities of the range's candidates, ascending;
            empty where answers were generated.
        texts: [N] what was judged; empty where nobody asked for it.
        questions: [N] equal where texts of one group answer to the same source; None where that is
            not known.
        alpha: of the decoding, see `judgebench.decoding.rules.Contrastive`.
        over_vocabulary: judges whose log-probabilities are over all tokens, not over a list that a
            server cut.
        resamples, seed: see `clusters.group_weights`.
        unread: [N] True where the answer could not be read, of `whole` alone.
        whole: all texts, also those whose answers could not be read, with the scores that stand in;
            None where there are no such texts, or no others.
    """

    dataset: str
    cell: ScoreSeries
    names: Array
    groups: Array
    systems: Array
    scores: Array
    ratings: Array
    raters: Sequence[str] = ()
    scale: Scale | None = None
    classes: Classes | None = None
    logprobs: Mapping[str, Array] = field(default_factory=dict)
    texts: Sequence[str] = ()
    questions: Array | None = None
    over_vocabulary: Collection[str] = ()
    alpha: float = 0.0
    resamples: int = RESAMPLES
    seed: int = 0
    unread: Array | None = None
    whole: JudgeScores | None = None

    @property
    def ordered(self) -> bool:
        """False where the humans' labels are classes without order."""
        return self.classes is None or self.classes.ordered

    @property
    def answered(self) -> JudgeScores:
        """The texts whose answers could be read, with all of them as `whole`; itself where these
        are all, or none."""
        if self.unread is None or not self.unread.any() or self.unread.all():
            return self
        read = ~self.unread
        texts = []
        if self.texts:
            texts = [self.texts[row] for row in np.flatnonzero(read).tolist()]
        return replace(
            self,
            names=self.names[read],
            groups=self.groups[read],
            systems=self.systems[read],
            scores=self.scores[read],
            ratings=self.ratings[read],
            logprobs={role: values[read] for role, values in self.logprobs.items()},
            texts=texts,
            questions=None if self.questions is None else self.questions[read],
            unread=None,
            whole=self,
        )

    def without(self, columns: Collection[int]) -> JudgeScores:
        """Without the ratings of some raters, by their columns."""
        kept = [column for column in range(self.ratings.shape[1]) if column not in columns]
        return replace(
            self,
            ratings=self.ratings[:, kept],
            raters=[self.raters[column] for column in kept],
            # bounds by failed answers are of the same raters
            whole=self.whole and self.whole.without(columns),
        )

    @property
    def bounds(self) -> list[JudgeScores]:
        """All texts, where some answers could not be read, at worst and at best (see `missing_bounds`),
        without resamples; none where all could be read."""
        if self.whole is None or self.whole.unread is None:
            return []
        sides = missing_bounds(
            self.whole.scores, self.whole.human, ~self.whole.unread, self.cell.range
        )
        return [replace(self.whole, scores=scores, resamples=0) for scores in sides]

    @property
    def head(self) -> Record:
        """The keys that every record about it begins with."""
        return {"dataset": self.dataset, **self.cell.named}

    @cached_property
    def clusters(self) -> Clusters:
        """Of its groups, with its resamples."""
        return Clusters.of(self.groups, self.resamples, self.seed)

    @cached_property
    def human(self) -> Array:
        """[N] means of the ratings; NaN where nobody rated."""
        return safe_divide(np.nansum(self.ratings, axis=1), (~np.isnan(self.ratings)).sum(axis=1))

    @cached_property
    def panel(self) -> Panel:
        """Its raters, of whom the ratings may be means."""
        return Panel(self.ratings, self.clusters)

    def beside(self, other: JudgeScores) -> JudgeScores:
        """This, with what people say as another judge of the same texts has it: once for both."""
        for name in ("clusters", "human", "categories", "panel", "constant", "constant_unseen"):
            vars(self)[name] = getattr(other, name)
        return self

    @cached_property
    def on_scale(self) -> Array:
        """[N] scores mapped linearly to the humans' scale; as they are where that is unknown."""
        if self.scale is None:
            return self.scores
        return rescale(self.scores, self.cell.range.ends, self.scale)

    @cached_property
    def calibrated(self) -> Array:
        """[N] scores mapped to the humans' scale by what texts of other groups teach, see
        `cross_fitted`."""
        return cross_fitted(self.scores, self.human, self.clusters.number, seed=self.seed)

    @cached_property
    def calibrated_unseen(self) -> Array:
        """[N] the same by what texts of other systems teach."""
        return cross_fitted(self.scores, self.human, self.systems, seed=self.seed)

    @cached_property
    def constant(self) -> Array:
        """[N] the mean rating of other groups."""
        return cross_fitted(
            self.human, self.human, self.clusters.number, "constant", seed=self.seed
        )

    @cached_property
    def constant_unseen(self) -> Array:
        """[N] the mean rating of other systems."""
        return cross_fitted(self.human, self.human, self.systems, "constant", seed=self.seed)

    @cached_property
    def categories(self) -> Array | None:
        """[C] all scores that a rater may give, ascending; None where there is no list."""
        return None if self.scale is None else categories_of(self.ratings, self.scale)


def _logprobs_of(read: pd.DataFrame | None, names: list[str]) -> dict[str, Array]:
    """main, assistant -> [N, K] log-probabilities of the texts that were read."""
    logprobs = {}
    for role in ("main", "assistant") if read is not None else ():
        rows = read.loc[names, f"{role}_logprobs"].tolist()  # type: ignore[union-attr]
        # of a server some answers may come without them; then the judge's are not known
        if all(row is not None and len(row) for row in rows):
            logprobs[role] = np.array([np.asarray(row, dtype=np.float64) for row in rows])
    return logprobs


def samples_of(
    scores: Scores,
    readings: pd.DataFrame,
    ratings: pd.DataFrame,
    scale: Scales,
    decodings: Row | None = None,
    texts: Mapping[str, str] | None = None,
    questions: Mapping[str, int] | None = None,
    classes: Mapping[str, Classes] | None = None,
    **run: Any,
) -> list[JudgeScores]:
    """The judges, decodings and ranges of the reported split, each with the humans; attacked texts
    are left out, and answers that could not be read, see `JudgeScores.answered`.

    Args:
        readings: readings.parquet's columns, from which log-probabilities are taken.
        ratings: see `ratings_of`; empty where means alone are known.
        decodings: name -> `Decoding`.
        texts: example_id -> the text that is judged; questions: -> the number of its source.
        classes: dimension -> what its labels say, of labels that are classes.
        run: what all samples share: dataset, and more fields of `JudgeScores`.
    """
    condition = [
        name for name in ("dimension", *RANGE, LABELS, "attack", "defense") if name in readings
    ]
    # a reading is of a condition, whatever decodes it: several cells share its log-probabilities
    asked = {
        tuple(value or "" for value in key): part.set_index("example_id")
        for key, part in readings.groupby(condition, sort=False, dropna=False)
    }
    samples = []
    first: dict[Key, JudgeScores] = {}
    tables: dict[Key, tuple[Array, list[str]]] = {}
    logprobs: dict[Key, dict[str, Array]] = {}
    for cell in (
        cell for cell in scores.cells if cell.attack == CLEAN and cell.split == scores.split
    ):
        part = scores.part(cell)
        decoding = (decodings or {}).get(cell.decoding)
        names = part["example_id"].tolist()
        # many cells are of the same texts
        key = (cell.dimension, *names)
        if key not in tables:
            tables[key] = ratings_of(ratings, cell.dimension, names)
        table, raters = tables[key]
        place = tuple(cell.named.get(name) or "" for name in condition)
        if (key, place) not in logprobs:
            logprobs[key, place] = _logprobs_of(asked.get(place), names)
        sample = JudgeScores(
            cell=cell,
            names=part["example_id"],
            groups=part["group_id"],
            systems=part["system_id"],
            scores=part["score"],
            ratings=table if raters else part["human"][:, None],
            raters=raters,
            scale=scale.get(cell.dimension),
            classes=(classes or {}).get(cell.dimension),
            unread=part["status"] == FAILED,
            logprobs=logprobs[key, place],
            texts=[texts[name] for name in names] if texts else [],
            questions=np.array([questions[name] for name in names]) if questions else None,
            alpha=float(getattr(decoding, "alpha", 0.0)),
            **run,
        )
        # of those that people rated alike, the first computes what they say
        samples.append(sample.beside(first.setdefault(key, sample)).answered)
    return samples
