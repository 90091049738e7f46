"""Few-shot anchors: texts of the development split with the humans' scores, which the judge reads
before its task.

Which texts are shown moves a judge (Zhao et al. 2021, "Calibrate Before Use"), so there are several
draws of them, each a defense of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from judgebench.data.dataset import DEV, RatingDataset, rated
from judgebench.prompts.builder import Defense
from judgebench.settings.fields import Count, Natural
from judgebench.types import Condition, Example, RatingKey, Rubric, ScoreRange
from judgebench.words.errors import UserError

ANCHORS = ("anchors", *(f"anchors_{draw}" for draw in range(2, 6)))
"""Names of the draws; each shows other texts, and all else is the same."""

_MOST_LEVELS = 10
_FEW_LEVELS = 5
"""A range of more scores than the first has anchors at so many of them, evenly spread from end to
end."""

_WORDS = """Examples show what scores from {min_range} to {max_range} mean: texts with the scores that people gave them.

{{Anchors}}

Here the examples end. The text to score is another one.

"""


def nearest_score(values: Sequence[float], value: float) -> float:
    """The member of ascending `values` that is nearest to a value, the lower of two."""
    return values[int(np.argmin(np.abs(np.array(values) - value)))]


def draw_anchors(
    scored: Sequence[tuple[float, Example]], levels: Sequence[float], count: int
) -> tuple[list[tuple[float, Example]], list[float]]:
    """Texts at each level, worst first, and the levels that have none of their own.

    A text belongs to the level nearest to its score. A level shows its first `count` texts. One
    without texts shows the nearest that no other level shows, with their own scores.

    Args:
        scored: score in the range and text, in drawn order.
        levels: ascending.

    Example:
        >>> a, b, c = (Example(name, name, "", "", name, {}) for name in "abc")
        >>> shown, empty = draw_anchors([(2.0, a), (1.0, b), (2.0, c)], (1.0, 2.0, 3.0), 1)
        >>> [(score, text.output) for score, text in shown], empty
        ([(1.0, 'b'), (2.0, 'a'), (2.0, 'c')], [3.0])
    """
    own = {
        level: [pair for pair in scored if nearest_score(levels, pair[0]) == level]
        for level in levels
    }
    shown = [pair for pairs in own.values() for pair in pairs[:count]]
    rest = [pair for pairs in own.values() for pair in pairs[count:]]
    empty = [level for level in levels if not own[level]]
    for level in empty:
        rest.sort(key=lambda pair: abs(pair[0] - level))
        shown = shown + rest[:count]
        rest = rest[count:]
    return sorted(shown, key=lambda pair: pair[0]), empty


@dataclass(frozen=True, eq=False)
class Anchors(Defense):
    """Example texts with the humans' scores before the rubric, `count` a score.

    A human score h of a scale from l to u stands for the score of the range a to b that is nearest
    to a + (h - l) / (u - l) (b - a): 4 of 1 to 5 is 3 of 0 to 4. Texts come from the development
    split, and never from the judged text's own group: a group that lends an anchor reads the next
    text of the draw in its place. All other groups read the same words, which are computed once.

    Args:
        name: one of `ANCHORS`.
        shown: dimension, range and group -> the examples as the judge reads them; the group is
            empty for all that lend none. Empty until the defense is `fitted`.
        seed: of all draws.
        sources: show with each text what it answers to.
    """

    name: str
    shown: Mapping[tuple[str, ScoreRange, str], str]
    note: str | None
    seed: Natural = 0
    count: Count = 1
    sources: bool = False
    compares: ClassVar[bool] = False
    needs_dev: ClassVar[bool] = True

    def fitted(self, data: RatingDataset, cells: Sequence[RatingKey]) -> Anchors:
        """The same with texts of the development split; `UserError` where there are none to
        show."""
        shown = {}
        notes = []
        for dimension, score_range in cells:
            # 1. the texts with a score, in the order of the draw, which is one for all ranges
            pool = [
                text for text in rated(data.examples, dimension) if data.split[text.group_id] == DEV
            ]
            if len({text.group_id for text in pool}) < 2:
                raise UserError(
                    f"defenses: {self.name} shows texts of the development split that people "
                    f"scored for {dimension!r}, and a text none of its own group, so two "
                    f"{data.groups_are} with such scores must be there; give it more with "
                    "data.dev_share=0.2."
                )
            pool.sort(key=lambda text: text.example_id)
            order = np.random.default_rng([self.seed, ANCHORS.index(self.name)]).permutation(
                len(pool)
            )
            human = [text.human[dimension] for text in pool]
            low, high = data.scale.get(dimension, (min(human), max(human)))
            width = (score_range.maximum - score_range.minimum) / ((high - low) or 1.0)
            values = [
                nearest_score(score_range.values, score_range.minimum + (score - low) * width)
                for score in human
            ]
            scored = [(values[i], pool[i]) for i in order]
            # 2. those that all groups see, and what a group sees that lends one of them
            levels = score_range.values
            if len(levels) > _MOST_LEVELS:
                levels = tuple(
                    levels[i]
                    for i in np.linspace(0, len(levels) - 1, _FEW_LEVELS).round().astype(int)
                )
            chosen, empty = draw_anchors(scored, levels, self.count)
            shown[dimension, score_range, ""] = self._block(chosen, score_range)
            for group in {text.group_id for _, text in chosen}:
                others, _ = draw_anchors(
                    [p for p in scored if p[1].group_id != group], levels, self.count
                )
                shown[dimension, score_range, group] = self._block(others, score_range)
            if empty:
                labels = ", ".join(score_range.text(level) for level in empty)
                notes.append(f"{labels} of {score_range} ({dimension})")
        note = (
            f"People gave no development text the scores {'; '.join(notes)}: {self.name} shows the "
            "nearest texts."
        )
        return replace(self, shown=shown, note=note if notes else None)

    def rubric(self, rubric: Rubric, said: Sequence[str]) -> Rubric:
        return replace(rubric, template=_WORDS + rubric.template)

    def more(self, example: Example, condition: Condition) -> Mapping[str, str]:
        return {
            "Anchors": self.shown[
                condition.dimension, condition.range, self.fold(example, condition)
            ]
        }

    def fold(self, example: Example, condition: Condition) -> str:
        lends = (condition.dimension, condition.range, example.group_id) in self.shown
        return example.group_id if lends else ""

    def _block(self, chosen: Sequence[tuple[float, Example]], score_range: ScoreRange) -> str:
        source = "Source:\n{0.source}\n\n" if self.sources else ""
        form = f"{source}Text:\n{{0.output}}\n\nScore: {{1}}"
        return "\n\n".join(form.format(text, score_range.text(score)) for score, text in chosen)
