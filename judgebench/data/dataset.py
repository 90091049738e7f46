"""A data set as its file has it: its checks, its split into dev and test groups, the pairs that its
texts make; and `RatingDataset`, the base of all data sets.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from judgebench.data.classes import PassMarks, marked
from judgebench.data.rows import existing, local_path
from judgebench.settings.fields import Annotated, Count, Ge, Lt, Natural, OneOf, check_fields, plain
from judgebench.stats.folds import deal_folds
from judgebench.types import Array, Classes, Example, Records, Scale, by_key
from judgebench.words.errors import UserError


@dataclass(frozen=True)
class DataSettings:
    """Settings of any data set.

    Attributes:
        limit_groups: keep only the first so many groups of the file, whole; None keeps all.
        dev_share: share of the groups on which a run chooses something, in [0, 1); None: the
            default in a run that chooses something (`judgebench.config.parts.Parts.needs_dev`),
            else 0.
        seed: of the draw of dev groups.
        published: where the data can be had: `file` (its path), `repository` (on GitHub),
            `licence`; or None.
        groups_are: the groups in the plural, for titles; None takes the class's.
        pass_from: the worst human score with which a text passes, or the class; of all dimensions
            or of each. None where nobody says, or two classes say it themselves.
        longest: characters that a text may have; longer ones would fill the memory long before a
            model has read them.
    """

    path: str | None = None
    limit_groups: Count | None = None
    dev_share: Annotated[float, Ge(0), Lt(1)] | None = 0.1
    seed: Natural = 0
    published: Mapping[str, str] | None = None
    groups_are: str | None = None
    pass_from: PassMarks | None = None
    longest: Count = 10_000_000

    def __post_init__(self) -> None:
        check_fields(self, "data")

    @property
    def source(self) -> str | None:
        """A phrase on where the data can be had, as what data.path must be; None where that is
        unknown."""
        if self.published is None:
            return None
        file, repository, licence = (
            self.published.get(key, "?") for key in ("file", "repository", "licence")
        )
        return f"{file} of https://github.com/{repository} (licence: {licence})"


DEV = "dev"
TEST = "test"

JOINT = "joint"
"""The dimension that CAP's absolute scoring prompt for SummEval is about: its four criteria in one
score."""

ROUNDING = 1e-6
"""Means of ratings may overstep an end of the scale by rounding, as in 4.9999999 + 1e-7."""


@dataclass(frozen=True)
class Dataset:
    """A data set as its file has it.

    Attributes:
        examples: in file order.
        scale: dimension -> (worst, best) human score, of which the worst may be the higher one; a
            dimension without an entry is not checked.
        ratings: dimension -> [examples, raters] the scores of single raters, NaN where one gave
            none; of dimensions in which some example has two or more.
        raters: names of the raters, the columns of each of `ratings`.
        classes: dimension -> what its labels say, of those whose labels are classes.
        places: the place of each example in the file ("mini.jsonl line 3"), for errors; or empty.
        rated: False where no human scored any text: the scores are NaN and go unchecked.
        mixed: True where the texts of a group may answer to several sources, as those of a customer:
            it is what is split and resampled, and no article.
    """

    examples: list[Example]
    scale: Mapping[str, Scale]
    ratings: Mapping[str, Array] = field(default_factory=dict)
    places: Sequence[str] = ()
    rated: bool = True
    raters: Sequence[str] = ()
    classes: Mapping[str, Classes] = field(default_factory=dict)
    mixed: bool = False


def group_hash(*texts: str) -> str:
    """A short stable name for a group that has none: the same for the same texts, on any
    machine."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def validate(loaded: Dataset, longest: int = DataSettings.longest) -> None:
    """Checks what all later rooms rely on; `UserError` names the first example that is at fault,
    and its place.

    There is an example; no example_id stands there twice; no source or output is blank; no text has
    more characters than `longest`; the examples of a group answer to one source; every human score
    is finite and within the scale, or NaN where the text is unrated.
    """
    examples = loaded.examples
    if not examples:
        raise UserError("the data holds no example; it must hold at least one.")
    dimensions = tuple(examples[0].human)
    foreign = [dimension for dimension in loaded.scale if dimension not in dimensions]
    if dimensions and foreign:
        names = ", ".join(f"'{name}'" for name in dimensions)
        raise UserError(
            f"scale: '{foreign[0]}' is not a dimension with human scores; those of this data are "
            f"{names}."
        )
    for i, fault in chain(_rating_faults(loaded), _example_faults(loaded, longest)):
        raise UserError(f"{_place(loaded, i)}: {fault}.")
    # somebody rated each dimension
    end = (
        f"none of the {len(examples):,} examples has a human score for it; give some of them one, "
        "or leave it out."
    )
    if unrated := [name for name in dimensions if loaded.rated and not rated(examples, name)]:
        raise UserError(*(f"'{name}' is unrated: {end}" for name in unrated))


Faults = Iterator[tuple[int, str]]
"""Positions of examples that are at fault, and clauses on why."""


def _rating_faults(loaded: Dataset) -> Faults:
    """Faults of the scores of single raters."""
    if not loaded.examples[0].human:
        yield 0, "has no human score; at least one dimension must be scored"
    for dimension, ratings in loaded.ratings.items():
        scale = loaded.scale.get(dimension)
        given = np.argwhere(~np.isnan(ratings))
        for i, rater in given:
            score = ratings[i, rater]
            fault = _score_fault(scale, score)
            if fault is None:
                continue
            name = loaded.raters[rater] if loaded.raters else rater + 1
            yield i, f"the score {score:g} of rater {name} for '{dimension}' {fault}"


def _example_faults(loaded: Dataset, longest: int) -> Faults:
    """Faults of each example: its name, its texts, its group's source, its scores."""
    examples = loaded.examples
    names_at: dict[str, int] = {}
    groups_at: dict[str, int] = {}
    for i, example in enumerate(examples):
        first = names_at.setdefault(example.example_id, i)
        if first != i:
            yield i, f"this example_id is taken by {_place(loaded, first)}; each must be unique"
        for what, text in (("judged text", example.output), ("source", example.source)):
            if not text.strip():
                yield i, f"the {what} is empty; write it, or remove the example"
        length = longest_of(example)
        if length > longest:
            yield (
                i,
                f"a text has {length:,} characters, and data.longest={longest} allows no more than "
                f"{longest:,}; shorten it, remove the example, or raise data.longest",
            )
        first = i if loaded.mixed else groups_at.setdefault(example.group_id, i)
        if (example.source, example.context) != (examples[first].source, examples[first].context):
            yield (
                i,
                f"group '{example.group_id}' has another source or context here than for "
                f"{_place(loaded, first)}; a group is one article or dialogue, so give each its "
                "own group_id, or name the question about it that differs, as "
                "data.fields.question=question; where a group is something else, as a customer, say "
                "so with data.fields.group_id=group_id",
            )
        for dimension, value in example.human.items():
            fault = _score_fault(loaded.scale.get(dimension), value)
            if fault and not math.isnan(value):
                yield i, f"the human score {value:g} for '{dimension}' {fault}"


def _score_fault(scale: Scale | None, value: float) -> str | None:
    if not math.isfinite(value):
        return "is not a finite number; give one"
    if scale is not None and not min(scale) - ROUNDING <= value <= max(scale) + ROUNDING:
        return f"lies outside the data's own scale, {scale[0]:g} to {scale[1]:g}"
    return None


def _place(loaded: Dataset, i: int) -> str:
    name = f"example '{loaded.examples[i].example_id}'"
    return f"{loaded.places[i]}, {name}" if loaded.places else name


def longest_of(example: Example) -> int:
    """The characters of an example's longest text."""
    texts = (example.source, example.question, example.output, example.context, example.rival)
    return max(map(len, texts))


def rated(examples: Iterable[Example], dimension: str) -> list[Example]:
    """Examples that somebody rated on a dimension, of some."""
    return [
        example for example in examples if not math.isnan(example.human.get(dimension, math.nan))
    ]


def completed(loaded: Dataset) -> Dataset:
    """`loaded` with all its dimensions in every example, in order of first appearance, NaN where
    one is unrated; and with the source and context of a group's first example in all others that
    differ from it only in white space at the ends."""
    unrated = dict.fromkeys(
        (name for example in loaded.examples for name in example.human), math.nan
    )
    first: dict[str, Example] = {}
    examples = []
    for example in loaded.examples:
        texts = first.setdefault(example.group_id, example)
        human = {**unrated, **example.human}
        changed = replace(example, human=human, source=texts.source, context=texts.context)
        same = (changed.source.strip(), changed.context.strip()) == (
            example.source.strip(),
            example.context.strip(),
        )
        examples.append(changed if same else replace(example, human=human))
    return replace(loaded, examples=examples)


def best_last(loaded: Dataset) -> Dataset:
    """`loaded` with scales of which the lowest score is the best turned round, so that a higher score
    is a better one on all: from 6 to 1, 1 counts 6."""
    for dimension, (worst, best) in loaded.scale.items():
        if worst < best:
            continue
        ratings = dict(loaded.ratings)
        if dimension in ratings:
            ratings[dimension] = worst + best - ratings[dimension]
        examples = []
        for example in loaded.examples:
            score = worst + best - example.human[dimension]
            examples.append(replace(example, human={**example.human, dimension: score}))
        scale = {**loaded.scale, dimension: (best, worst)}
        loaded = replace(loaded, examples=examples, ratings=ratings, scale=scale)
    return loaded


def with_joint(loaded: Dataset, of: Sequence[str]) -> Dataset:
    """`loaded` with the dimension `joint`: the mean of the human scores on the dimensions `of`, of
    one common scale.

    Where scores of single raters are known, the joint score of a rater is the mean of their own, of
    all dimensions. Where no text is rated on all of them, `loaded` is as it was.
    """
    examples = []
    for example in loaded.examples:
        scores = [example.human[dimension] for dimension in of]
        examples.append(replace(example, human={**example.human, JOINT: float(np.mean(scores))}))
    if not rated(examples, JOINT):
        return loaded
    ratings = dict(loaded.ratings)
    if all(dimension in ratings for dimension in of):
        ratings[JOINT] = np.mean([ratings[dimension] for dimension in of], axis=0)
    return replace(
        loaded,
        examples=examples,
        scale={**loaded.scale, JOINT: loaded.scale[of[0]]},
        ratings=ratings,
    )


def split_groups(group_ids: Iterable[str], dev_share: float, seed: int) -> dict[str, str]:
    """Splits whole groups into "dev" and "test".

    The dev set has `dev_share` of the groups, rounded half up; at least one if `dev_share` is above
    0, and always leaves one group to test on. The draw depends on `seed` and on the set of ids
    alone, not on their order; with a greater `dev_share` the dev set only grows.

    Returns:
        group_id -> "dev" or "test", in the order of first appearance.

    Example:
        >>> split_groups(["b", "a", "b", "c"], dev_share=0.1, seed=0)
        {'b': 'test', 'a': 'test', 'c': 'dev'}
    """
    groups = list(dict.fromkeys(group_ids))
    most = max(len(groups) - 1, 0)
    # as a decimal, because 0.145 * 100 is 14.499999999999998 in binary and would round down
    share = Decimal(repr(float(dev_share)))
    count = int((share * len(groups)).to_integral_value(ROUND_HALF_UP))
    if dev_share > 0:
        count = max(count, 1)
    # a fold a group is its place in the order drawn, whatever the order of the names
    places = deal_folds(np.array(groups), len(groups), seed).tolist()
    dev = min(count, most)
    return {
        group: DEV if place < dev else TEST for group, place in zip(groups, places, strict=True)
    }


ALL = "all"


@dataclass(frozen=True)
class Rivals:
    """Number of other texts of its group that each text is compared with ("all": each), and the seed
    of their draw."""

    rivals: Count | Annotated[str, OneOf((ALL,))] = 3
    rivals_seed: Natural = 0

    @property
    def count(self) -> int | None:
        return None if isinstance(self.rivals, str) else self.rivals


def pairs(examples: Iterable[Example], rivals: Rivals) -> list[Example]:
    """One example a pair: a text with its rival, its human scores less the rival's; a text's pairs
    together, texts in the order given. `UserError` where no group has two texts, or two pairs would
    have one name.

    The texts of a group, those on one question, are laid on a circle in a drawn order, and each
    meets the next ones on it: every text is rival as often as it is judged. Two texts meet once
    where the group has more than twice as many texts as a text has rivals. What is drawn for a
    group depends on the seed and on the names of its own texts alone. A text without others in its
    group is compared with nothing and left out.
    """
    listed = list(examples)
    groups: dict[tuple[str, ...], list[Example]] = by_key(
        listed, attrgetter("group_id", "question", "source", "context")
    )
    against: dict[str, list[Example]] = {}
    for (group_id, *_), group in groups.items():
        ordered = sorted(group, key=lambda example: example.example_id)
        names = "\0".join(example.example_id for example in ordered)
        digest = hashlib.sha256(f"{group_id}\0{names}".encode()).digest()
        order = np.random.default_rng(
            [rivals.rivals_seed, int.from_bytes(digest[:8], "big")]
        ).permutation(len(ordered))
        others = len(ordered) - 1
        met = others if rivals.count is None else min(rivals.count, others)
        for i, at in enumerate(order):
            rival_places = (order[(i + step) % len(order)] for step in range(1, met + 1))
            against[ordered[at].example_id] = [ordered[place] for place in rival_places]
    made: dict[str, Example] = {}
    for text in listed:
        for rival in against[text.example_id]:
            name = f"{text.example_id}~{rival.example_id}"
            if name in made:
                raise UserError(
                    f"prompt.rivals: two pairs of texts would be called {name!r}; give examples "
                    "names without ~."
                )
            made[name] = replace(
                text,
                example_id=name,
                human={
                    dimension: score - rival.human[dimension]
                    for dimension, score in text.human.items()
                },
                rival_id=rival.example_id,
                rival=rival.output,
                rival_system_id=rival.system_id,
            )
    if not made:
        raise UserError(
            "prompt.rivals: every text of this data is alone in its group, so there is nothing to "
            "compare it with; give data with several texts a group_id, or judge them alone with "
            "prompt=paper."
        )
    return list(made.values())


# --- base of all data sets ----------------------------------------------------------------------


ANY_KIND = "a file of rows (.jsonl, .json, .csv, .tsv, .parquet), or a folder of them"


class RatingDataset(ABC):
    """Human-rated examples. A data set is a subclass with a `name` and a `load`.

    Args:
        path: the file (or what else `load` takes).
        rubrics: which family of rubrics asks about such texts ("summary", "dialogue"); conf/prompt
            reads it.
        dimensions, ranges: what is judged of such texts, and in which score ranges, where nothing
            else is asked for; conf/config.yaml reads them.
        settings: the further fields of `DataSettings`.

    Attributes:
        name: what tables call the data set (column `dataset`).
        groups_are: its groups in the plural, for titles: "articles", "dialogues", or "groups" where
            they are unknown.
        note: a sentence that readers of its results must know.
        paired: True where its examples are pairs of texts, which people compared.
        expects: what `path` must be, where there is no data without one.
        examples, scale, ratings, raters, rated: from `setup` on, see `Dataset`.
        mixed: from `setup` on, True where a group has texts of several sources.
        joined: labels of other files that need a look, as records of labels.json.
        classes: from `setup` on, dimension -> what its labels say, of those whose labels are classes
            or that have a mark from which a text passes.
        reversed: from `setup` on, dimensions on which people's lowest score is the best; here it counts
            as the highest.
        dimensions: with human scores; every example has all of them, NaN where it is unrated.
        split: group_id -> "dev" or "test", in file order.

    Raises:
        UserError: an argument out of its bounds; from `setup`, everything that is wrong with the
            data.
    """

    name: str
    groups_are: str = "articles"
    note: str | None = None
    paired: bool = False
    expects: str | None = None
    joined: Records = ()
    mixed: bool = False

    examples: list[Example]
    dimensions: tuple[str, ...]
    scale: Mapping[str, Scale]
    ratings: Mapping[str, Array]
    raters: tuple[str, ...]
    classes: Mapping[str, Classes]
    reversed: tuple[str, ...]
    rated: bool
    split: dict[str, str]

    def __init__(
        self,
        path: str | None = None,
        rubrics: str = "summary",
        dimensions: Sequence[str] = (),
        ranges: Sequence[Any] = (),
        **settings: Any,
    ) -> None:
        checked = DataSettings(path, **plain(settings))
        self.path = path
        self.limit_groups = checked.limit_groups
        self.dev_share = float(checked.dev_share or 0)
        self.seed = checked.seed
        self.published = checked.source
        self.longest = checked.longest
        self.pass_from = checked.pass_from
        self.groups_are = checked.groups_are or type(self).groups_are
        self.rubrics = rubrics
        self.asked = {"dimensions": dimensions, "ranges": ranges}

    @abstractmethod
    def load(self) -> Dataset:
        """The whole data set, unchecked beyond what reading needs; `setup` checks it."""

    def setup(self, stage: str | None = None) -> None:
        """Loads, checks, limits and splits the data, once.

        The split is drawn among the groups that the limit leaves, so that a short trial run has dev
        groups too: results of different limits do not mix.
        """
        if "examples" in vars(self):
            return
        loaded = completed(self.load())
        validate(loaded, self.longest)
        falling = {name: ends for name, ends in loaded.scale.items() if ends[0] > ends[1]}
        self.reversed = tuple(falling)
        for name, (worst, best) in falling.items():
            self.add_note(
                f"Of people's scores of {name} {best:g} is the best: figures count it as "
                f"{worst:g}, so that higher is better everywhere."
            )
        given_scale = loaded.scale
        loaded = best_last(loaded)
        groups = dict.fromkeys(example.group_id for example in loaded.examples)
        within = set(islice(groups, self.limit_groups))
        rows = []
        for i, example in enumerate(loaded.examples):
            if example.group_id in within:
                rows.append(i)
        self.examples = [loaded.examples[i] for i in rows]
        self.dimensions = tuple(self.examples[0].human)
        self.scale = loaded.scale
        self.classes = loaded.classes
        if self.pass_from is not None:
            self.classes = marked(self.classes, given_scale, self.dimensions, self.pass_from)
        self.raters = tuple(loaded.raters)
        self.rated = loaded.rated
        sources = {(x.group_id, x.source, x.context) for x in loaded.examples}
        self.mixed = loaded.mixed and len(sources) > len(groups)
        if self.mixed:
            self.add_note(
                f"Groups answer to several sources ({len(groups):,} groups, {len(sources):,} "
                "sources): a group is what is drawn at once, and no article."
            )
        self.ratings = {dimension: ratings[rows] for dimension, ratings in loaded.ratings.items()}
        self.divide(self.dev_share)

    def add_note(self, *sentences: str | None) -> None:
        """Adds sentences to what is said of the data; None adds nothing."""
        self.note = " ".join(filter(None, [self.note, *sentences])) or None

    def divide(self, dev_share: float) -> None:
        """Splits the groups again, with another share of them in the development split."""
        self.dev_share = dev_share
        if "examples" in vars(self):
            groups = (example.group_id for example in self.examples)
            self.split = split_groups(groups, dev_share, self.seed)

    def check_path(self) -> None:
        """Raises `UserError` where `path` leads nowhere, before anything is read."""
        if self.expects is not None:
            path = self.given_path()
            if not path.is_dir():
                existing(path)

    def given_path(self) -> Path:
        """`path`, with "~" expanded; `UserError` where none is given, which says what it must be,
        or where published data is not there."""
        if not self.path or not self.path.strip():
            raise UserError(f"data.path is not given; it must be {self.published or self.expects}.")
        path = local_path(self.path)
        if self.published and not path.exists():
            raise UserError(f"{path}: there is no such file; data.path must be {self.published}.")
        return path
