"""A panel: what several judges have said of the same texts, combined into one judge, which has no
model of its own.

A member gives a distribution over the candidates: its log-probabilities, or, where a score is all
that there is, the two candidates around it, in shares whose mean it is. So does the panel; it is
decoded and recorded as any judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy  # its parts come when they are first used

from judgebench.config.fields import Annotated, NotBlank, OneOf, check_fields, settings_of
from judgebench.data.rows import existing
from judgebench.decoding.parser import parse_answer
from judgebench.decoding.rules import Ranged, candidate_distribution, expected_value, has_answer
from judgebench.judges.recorded import RecordedSpec, answers_of
from judgebench.judges.replay import Answers, ReplaySpec
from judgebench.judges.spec import LOG_PROBABILITIES, PANEL, PROBABILITIES, RECORDED, check_unused
from judgebench.readings.reading import Recording
from judgebench.readings.shards import file_of
from judgebench.runtime.errors import Mistakes, UserError
from judgebench.runtime.files import user_path
from judgebench.types import CLAMPED, FAILED, Condition, Example, Prompt


def score_shares(scores: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Log-probabilities [N, K] over `values` [K], ascending, whose means are the scores [N]; all
    -inf for NaN.

    Example:
        >>> np.exp(score_shares(np.array([2.25, 3.0]), np.array([1.0, 2.0, 3.0]))).tolist()
        [[0.0, 0.75, 0.25], [0.0, 0.0, 1.0]]
    """
    shares = np.zeros((len(scores), len(values)))
    rows = np.flatnonzero(np.isfinite(scores))
    lower = np.clip(np.searchsorted(values, scores[rows], side="right") - 1, 0, len(values) - 2)
    upper = (scores[rows] - values[lower]) / (values[lower + 1] - values[lower])
    shares[rows, lower], shares[rows, lower + 1] = 1 - upper, upper
    with np.errstate(divide="ignore"):
        return np.log(shares)


def pool(logprobs: np.ndarray, weights: np.ndarray, geometric: bool = False) -> np.ndarray:
    """Log-probabilities [N, K] of M members together, from theirs [M, N, K] and weights [M, N] of
    any sum. Who has no answer to a text is left out there; who is left alone is the pool, to the
    last bit.

    The linear pool (Stone, "The opinion pool", 1961) is sum_m w_m q_m(k), q_m normalized over the
    candidates; the geometric one exp sum_m w_m log p_m(k), in which one member's 0 is all's (Genest
    and Zidek, "Combining probability distributions", 1986).

    Example:
        >>> members = np.log([[[0.8, 0.2]], [[0.2, 0.8]]])
        >>> np.exp(pool(members, np.array([[3.0], [1.0]]))).round(12).tolist()
        [[0.65, 0.35]]
        >>> np.exp(pool(members, np.ones((2, 1)), geometric=True)).round(12).tolist()
        [[0.4, 0.4]]
    """
    answered = np.array([has_answer(member) for member in logprobs])
    weights = np.where((answered * weights).any(axis=0), answered * weights, answered)
    weights = (weights / np.where(answered.any(axis=0), weights.sum(axis=0), 1.0))[:, :, None]
    together = (weights * np.where(weights > 0, logprobs, 0.0)).sum(axis=0)
    if not geometric:
        with np.errstate(divide="ignore"):
            together = np.log(
                (weights * [candidate_distribution(member) for member in logprobs]).sum(axis=0)
            )
    lone = np.flatnonzero((weights > 0).sum(axis=0) <= 1)
    together[lone] = logprobs[weights[:, lone, 0].argmax(axis=0), lone]
    return np.asarray(together)


def stacking_weights(scores: np.ndarray, human: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Weights [M, N] of sum 1 that the human scores [N] of all other articles (`groups` [N]) teach
    members with the scores [M, N]: non-negative least squares of what is centered, for scales
    differ (Breiman, "Stacked regressions", 1996; of sum 1 as in van der Laan, Polley and Hubbard,
    "Super learner", 2007). Equal where no member's scores rise with the humans'; NaN where no other
    article can teach. A text without one of the scores teaches nothing. Of 1, 2, 3 and 3, 2, 1
    against human scores of 10, 20, 30, all the weight is the first one's."""
    weights = np.full(scores.shape, np.nan)
    for group in np.unique(groups):
        if (learned := taught_weights(scores, human, groups != group)) is not None:
            weights[:, groups == group] = learned[:, None]
    return weights


def taught_weights(scores: np.ndarray, human: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
    """The weights [M] that the texts `rows` [N] teach, see `stacking_weights`; None where none of
    them can."""
    rows = rows & np.isfinite(human) & np.isfinite(scores).all(axis=0)
    if not rows.any():
        return None
    centered = scores[:, rows] - scores[:, rows].mean(axis=1, keepdims=True)
    learned = scipy.optimize.nnls(centered.T, human[rows] - human[rows].mean())[0]
    learned = learned if learned.any() else np.ones(len(scores))
    return np.asarray(learned / learned.sum())


def stacked(members: Ranged, human: np.ndarray, rows: np.ndarray) -> Ranged:
    """The readings of a panel, [N, K], with the weights that the texts `rows` alone teach, from its
    members', [N, M, K] (`Reading.members`); equal ones where none of them can."""
    main, other = (
        None if side is None else np.moveaxis(np.asarray(side, np.float64), 1, 0)
        for side in members[:2]
    )
    assert main is not None
    scores = np.array(
        [np.where(has_answer(one), expected_value(one, members.values), np.nan) for one in main]
    )
    learned = taught_weights(scores, human, rows)
    weights = np.broadcast_to(
        np.ones((len(main), 1)) if learned is None else learned[:, None], scores.shape
    )
    pair = None if other is None else pool(other, weights * np.isfinite(scores))
    return Ranged(pool(main, weights), pair, members.values)


@dataclass(frozen=True)
class Member:
    """A judge of a panel: a `path`, a `card`, or a `store` with the `model`.

    Attributes:
        path: recorded readings, or the name of some that come with judgebench; a run folder; or
            answers (.jsonl).
        judge: main, or the assistant by itself.
        fields: of answers, see `AnswerFields`.
        card, send_to: a judge card, whose judge reads the texts by its own prompt; the hosts that
            may have them.
        store, model: a store of readings of this run's prompts, and the model's title, SHA-256 or
            folder.
        settings: of a card, role -> what differs here (`{judge: {path: DIR}}`); of a store, how the
            model was read.
        read: of a card or store, (example_id, condition) -> see `readings`; None until it is read,
            from above.
    """

    path: Annotated[str, NotBlank()] | None = None
    judge: Annotated[str, OneOf(("main", "assistant"))] = "main"
    fields: Mapping[str, Any] | None = None
    card: Annotated[str, NotBlank()] | None = None
    send_to: Any = None
    settings: Mapping[str, Any] | None = None
    store: Annotated[str, NotBlank()] | None = None
    model: Annotated[str, NotBlank()] | None = None
    read: ClassVar[Mapping[tuple[str, Condition], tuple[Any, Any, float]] | None] = None

    @cached_property
    def source(self) -> Recording | ReplaySpec:
        assert self.path is not None
        path = user_path(self.path)
        names = ("text", "example_id", "group_id", "system_id")
        if path.suffix == ".jsonl":
            return ReplaySpec(self.path, {**{name: name for name in names}, **(self.fields or {})})
        return Recording.of_run(path) if path.is_dir() else Recording.open(self.path)

    @cached_property
    def name(self) -> str:
        if self.path is None:
            file = user_path(str(self.card or self.store))
            existing(
                file if self.card else file_of(file), f"judge.{'card' if self.card else 'store'}"
            )
            return self.model or file.stem
        title = (
            self.source.title if isinstance(self.source, Recording) else self.source.source.title
        )
        return str(title) if self.judge == "main" else f"{title}'s assistant"

    def readings(self, *asked: Any) -> dict[int, tuple[Any, Any, float]]:
        """Id of a prompt -> log-probabilities [K] of its answer, those of its assistant (None
        without one), seconds; `asked`: see `JudgeSettings.answers`."""
        if self.read is not None:
            given = {
                id(prompt): self.read.get((prompt.example.example_id, prompt.condition))
                for prompt in asked[0]
            }
            return {prompt: row for prompt, row in given.items() if row is not None}
        source = self.source
        readings = {}
        answers = (
            answers_of(source, *asked) if isinstance(source, Recording) else source.answers(*asked)
        )
        for prompt in answers.answered(asked[0]):
            given = answers.to(prompt)
            values = np.array(prompt.condition.range.values)
            rows: Any = [{"text": given, "judge": "main"}] if isinstance(given, str) else given
            row: Any = next(
                (row for row in rows if row["judge"] in (None, self.judge)), {"text": None}
            )
            main = row.get(f"{self.judge}_logprobs")
            other = row.get("assistant_logprobs")
            if main is None and (row["text"] is None or prompt.condition.order):
                raise UserError(
                    f"judge.path: {answers.file} lacks its {self.judge}'s log-probabilities; leave "
                    "it out."
                )
            if main is None:
                score = parse_answer(row["text"], prompt.condition.range, prompt.choices)
                if (
                    score.status == CLAMPED
                    and isinstance(source, ReplaySpec)
                    and not source.fields.get("range")
                ):
                    raise UserError(
                        f"judge.path: {answers.file} does not say its range, and says "
                        f"{row['text']!r} of example {prompt.example.example_id}, which "
                        f"{prompt.condition.range} does not have; take the range that was asked "
                        "for, as 'ranges=[[0,4]]', name the field with it, as fields={range: "
                        "range}, or empty an answer that is a slip."
                    )
                main = score_shares(
                    np.array([np.nan if score.status == FAILED else score.value]), values
                )[0]
            readings[id(prompt)] = (
                main,
                other if self.judge == "main" else None,
                row.get("seconds", 0.0),
            )
        return readings


@contextmanager
def member_named(number: int) -> Iterator[None]:
    """Names a member by its place in a `UserError` that is raised inside."""
    try:
        yield
    except UserError as error:
        key = f"judge.members[{number}]"
        text = re.sub("^card: ", "judge.card: ", str(error))
        named = re.sub(r"\bjudge\.(?=(path|fields|card|store|model)\b)", f"{key}.", text)
        if "send_to=" in named:
            named += (
                " A member takes these as {card: FILE, send_to: HOST, settings: {judge: "
                "{key_variable: NAME}}}; "
            )
            named += f"a panel's card as send_to=HOST and +judge.{number}.key_variable=NAME."
        raise UserError(named if key in named else f"{key}: {named}") from error


@dataclass(frozen=True, kw_only=True)
class PanelSpec(RecordedSpec):
    """Settings of a panel; `UserError` for a value that is none, or a member that cannot be read.

    Args:
        members: each a path, that of a judge card (.yaml) among them, or a mapping as `Member`.
        combine: `mean` or `geometric`: a `pool`; `nnls`: the linear one with `stacking_weights`;
            `median` of the members' expected scores; or `rank`: the mean of the shares of clean
            texts to which each member gives less, half of those with the same added, on the range
            (ridits: Bross, "How to use ridit analysis", 1958).
        weights: [members] of any sum, of a pool, in place of equal or learned ones.
    """

    members: Annotated[list[Any], NotBlank()]
    combine: Annotated[str, OneOf(("mean", "geometric", "nnls", "median", "rank"))] = "mean"
    weights: list[float] | None = None
    path: None = None  # type: ignore[assignment, misc]
    note = None  # type: ignore[assignment]
    gives = frozenset({PANEL, RECORDED, PROBABILITIES, LOG_PROBABILITIES})

    def __post_init__(self) -> None:
        mistakes = Mistakes()
        check_unused(self, mistakes, "judge", "judge=panel loads no model")
        with mistakes.caught():
            check_fields(self, "judge", of=("members", "combine", "weights", "path"))
            given = self.weights
            pooled = self.combine not in ("median", "rank")
            if given is not None and not (
                pooled and len(given) == len(self.members) and min(given) >= 0 < sum(given)
            ):
                raise UserError(
                    f"judge.weights: {given} should be one number a member, none below 0, not all "
                    "0; of a pool alone."
                )
            self.recording  # noqa: B018 - opens the members' files
        mistakes.tell()

    @cached_property
    def judges(self) -> list[Member]:
        members = []
        kinds = (
            ({"path"}, {"judge", "fields"}),
            ({"card"}, {"send_to", "settings"}),
            ({"store", "model"}, {"settings"}),
        )
        for number, entry in enumerate(self.members):
            if isinstance(entry, str):
                entry = {"card" if entry.endswith((".yaml", ".yml")) else "path": entry}
            members.append(settings_of(Member, entry, f"judge.members[{number}]"))
            if not any(needed <= set(entry) <= needed | more for needed, more in kinds):
                raise UserError(
                    f"judge.members[{number}]: a member is a path (and judge, fields), a card (and "
                    "send_to, settings) or a store with a model (and settings); got "
                    f"{', '.join(entry) or 'nothing'}."
                )
        return members

    def _each(self, asked: Callable[[Member], Any]) -> list[Any]:
        """Answers of all members; `UserError` of one that has none, by its place."""
        given = []
        for number, member in enumerate(self.judges):
            with member_named(number):
                given.append(asked(member))
        return given

    @cached_property
    def recording(self) -> Recording:
        """A recording's title and models; its rows come with `answers`, and whether they compare
        texts."""
        names = self._each(lambda one: one.name)
        models = {"main": {"title": f"{self.combine} of {len(names)} judges", "members": names}}
        return Recording(user_path("the panel"), {"models": models, "compares": None, "config": {}})

    def answers(
        self, prompts: Sequence[Prompt], split: Mapping[str, str], dataset: str
    ) -> Answers | None:  # type: ignore[override]
        """The panel's readings, each a row as recorded ones; None before members that are cards or
        stores are read. `UserError` for a member that lacks texts which others have, has other
        candidates, or has read other texts or another rubric."""
        if any(one.path is None and one.read is None for one in self.judges):
            return None
        # 1. what each member has read: all of them the same
        read = self._each(lambda member: member.readings(prompts, split, dataset))
        asked = [prompt for prompt in prompts if any(id(prompt) in one for one in read)]
        gone = [sum(id(prompt) not in one for prompt in asked) for one in read]
        lacking = ", ".join(
            f"{one.name} lacks {n:,}" for one, n in zip(self.judges, gone, strict=True) if n
        )
        if lacking:
            raise UserError(
                f"judge.members: of {len(asked):,} prompts {lacking}; have it read them, or leave "
                "it out."
            )
        # 2. cell by cell, the attacked texts with the clean ones, which alone teach weights and
        # ranks
        cells: dict[Condition, list[Prompt]] = {}
        for prompt in asked:
            cells.setdefault(replace(prompt.condition, attack="none"), []).append(prompt)
        given = {}
        failed = np.zeros(len(read), dtype=int)
        for texts in cells.values():
            parts = [[one[id(prompt)] for prompt in texts] for one in read]
            main, others = ([[row[i] for row in part] for part in parts] for i in (0, 1))
            failed += np.isneginf(main).all(axis=2).sum(axis=1)
            together, pair = self._together(np.array(main, dtype=np.float64), others, texts)
            for i, prompt in enumerate(texts):
                row = {
                    "main_logprobs": together[i],
                    "assistant_logprobs": pair and pair[i],
                    "text": None,
                }
                row |= {"seconds": sum(part[i][2] for part in parts)}
                # a choice learns weights from fewer articles
                if self.combine == "nnls" and self.weights is None:
                    row["members"] = (
                        [part[i] for part in main],
                        pair and [part[i] for part in others],
                    )
                given[prompt.example.example_id, prompt.condition] = [row]
        missing = [
            prompt
            for prompt in prompts
            if (prompt.example.example_id, prompt.condition) not in given
        ]
        scored = (
            f"{one.name} {len(asked) - count:,}"
            for one, count in zip(self.judges, failed, strict=True)
        )
        return Answers(
            f"a panel ({self.combine} of {', '.join(scored)})", len(given), given, (), (), missing
        )

    def _together(
        self, main: np.ndarray, others: Any, texts: Sequence[Prompt]
    ) -> tuple[list[Any], list[Any] | None]:
        """Log-probabilities [N, K] of the members together, and of their assistants (None where
        scores are combined, or one has none), from `main` [M, N, K] and `others`, about texts of a
        cell."""
        cell = texts[0].condition
        values = np.array(texts[0].condition.range.values)
        if cell.order and self.combine not in ("mean", "geometric"):
            raise UserError(
                f"judge.combine: {self.combine} is for texts judged alone; take mean or geometric."
            )
        weights = np.ones(main.shape[:2])
        clean = np.array([prompt.condition.attack == "none" for prompt in texts])
        scores = np.array(
            [
                np.where(has_answer(member), expected_value(member, values), np.nan)
                for member in main
            ]
        )
        if self.weights is not None:
            weights *= np.array(self.weights)[:, None]
        elif self.combine == "nnls":
            human = np.where(
                clean, [prompt.example.human[cell.dimension] for prompt in texts], np.nan
            )
            weights = stacking_weights(
                scores, human, np.array([prompt.example.group_id for prompt in texts])
            )
            if np.isnan(weights).any():
                raise UserError(
                    f"judge.combine: nnls: too few other articles are rated ({cell}); take mean "
                    "instead."
                )
        if self.combine not in ("median", "rank"):
            geometric = self.combine == "geometric"
            paired = all(row is not None for part in others for row in part)
            pair = (
                pool(np.array(others), weights * np.isfinite(scores), geometric).tolist()
                if paired
                else None
            )
            return pool(main, weights, geometric).tolist(), pair
        if self.combine == "rank":
            for i, member in enumerate(scores):
                among = np.sort(member[clean & np.isfinite(member)])
                below = (
                    np.searchsorted(among, member) + np.searchsorted(among, member, "right")
                ) / 2
                scores[i] = np.where(
                    np.isnan(member),
                    np.nan,
                    values[0] + np.ptp(values) * below / max(len(among), 1),
                )
        middle = np.ma.median if self.combine == "median" else np.ma.mean
        return score_shares(
            middle(np.ma.masked_invalid(scores), axis=0).filled(np.nan), values
        ).tolist(), None

    def taught(self, examples: Sequence[Example], cell: Condition) -> list[float] | None:
        """The weights [M] for other texts, of members that are cards: where they are learned, those
        that all rated `examples` teach (equal ones where none can), else `weights`."""
        if self.combine != "nnls" or self.weights is not None:
            return self.weights
        read: list[Any] = [one.read for one in self.judges]
        rows = [one for one in examples if all((one.example_id, cell) in each for each in read)]
        main = np.array([[each[row.example_id, cell][0] for row in rows] for each in read])
        values = cell.range.values
        scores = [
            np.where(has_answer(each), expected_value(each, np.array(values)), np.nan)
            for each in main
        ]
        human = np.array([row.human[cell.dimension] for row in rows])
        learned = taught_weights(np.array(scores), human, np.ones(len(rows), bool))
        return [1.0] * len(main) if learned is None else learned.tolist()
