"""What the CAP paper calls its judges, attacks and defenses, and which of its tables is of which data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from judgebench.metrics.robustness import CLEAN
from judgebench.report.figures.style import shorten
from judgebench.report.paper.published import model_key
from judgebench.types import ScoreRange

ATTACKS = {"advsuffix": "AdvSuffix", "dsi": "DSI", "bed": "BED", "adaptive": "Adaptive"}
"""The paper's attacks, and how it prints them."""

ADAPTIVE = "adaptive"
"""The attack that tells the judge to ignore references; the paper tries it on CAP alone."""

SUFFIX_LENGTH = 4
"""Words of the learned phrase in the paper's tables."""

JUDGES = {
    "google/flan-t5-xl": "FlanT5-XL",
    "meta-llama/Llama-3.1-8B-Instruct": "Llama-3.1-8B",
    "gpt-3.5-turbo": "ChatGPT-3.5",
    "gemini-2.0": "Gemini-2.0",
    "deepseek-v3": "DeepSeek-V3",
}
"""Id in `published/` -> the printed name."""

TUTORS = {"llama": "meta-llama/Llama-3.1-8B-Instruct", "mistral": "mistralai/Mistral-7B-Instruct"}
"""The paper's tutors: what a column is called by -> id in `published/`."""

NO_DEFENSE, CAP, W_CAP, RANDOM = "none", "cap", "w_cap", "random_reference"

Place = tuple[str, str, ScoreRange]
"""Data set, dimension, range."""

_SUFFIX = re.compile(rf"adv_suffix_(?:.+_)?{SUFFIX_LENGTH}")
_FAMILIES = {"llama": re.compile(r"(meta-)?llama"), "mistral": re.compile("mistral")}
_LABELS = {NO_DEFENSE: "w/o defense", "cot": "CoT", "perplexity": "Perplexity"}
_BY_TUTOR = {RANDOM: "random reference", W_CAP: "W-CAP", CAP: "CAP"}
_MARKS = {"llama": "L", "mistral": "M"}
_FIRST, _LAST = (NO_DEFENSE, "cot", "perplexity"), (RANDOM, W_CAP, CAP)
_RANGE = (1.0, 5.0)


class Defended(NamedTuple):
    """A defense as the paper's columns tell them apart: references are their tutor's.

    Attributes:
        tutor: `llama` or `mistral`, the paper's columns, or the title of another; None of a defense without a tutor.
    """

    defense: str
    tutor: str | None = None

    @property
    def key(self) -> str:
        """As in the CSV files, such as `cap_llama`."""
        return self.defense if self.tutor is None else f"{self.defense}_{self.tutor}"

    @property
    def order(self) -> tuple[int, bool]:
        """Where it stands among a table's columns: as the paper orders them, those that it does not have in between."""
        if self.defense in _LAST:
            return len(_FIRST) + 1 + _LAST.index(self.defense), self.tutor not in _FAMILIES
        return _FIRST.index(self.defense) if self.defense in _FIRST else len(_FIRST), False

    @property
    def label(self) -> str:
        """As a table prints it, such as `CAP_L`."""
        name = {**_LABELS, **_BY_TUTOR}.get(self.defense, self.defense)
        if self.tutor is None:
            return name
        mark = _MARKS.get(self.tutor)
        return f"{name}_{mark}" if mark and self.defense != RANDOM else f"{name} ({shorten(self.tutor, 30)})"


@dataclass(frozen=True)
class PaperData:
    """A data set of the paper, and the tables that are of it.

    Attributes:
        dimension: of the rubric with all criteria in one prompt.
    """

    dataset: str
    title: str
    dimension: str
    changes: int
    ablation: int
    adaptive: int
    seconds: int


PAPER_DATA = (
    PaperData("summeval", "SummEval", "joint", changes=2, ablation=10, adaptive=11, seconds=9),
    PaperData("topicalchat", "TopicalChat", "overall", changes=3, ablation=6, adaptive=7, seconds=5),
)


def defended_by(defense: str, tutor: str | None) -> Defended:
    """The column of a run's defense.

    Args:
        tutor: the title of the run's tutor, if it has one.

    Example:
        >>> defended_by("cap", "Llama-3.1-8B-Instruct").label, defended_by("cot", "Llama-3.1-8B-Instruct").label
        ('CAP_L', 'CoT')
        >>> defended_by("w_cap", "SmolLM2-135M-Instruct").label
        'W-CAP (SmolLM2-135M-Instruct)'
    """
    if defense not in _BY_TUTOR or tutor is None:
        return Defended(defense)
    name = model_key(tutor)
    family = next((family for family, pattern in _FAMILIES.items() if pattern.match(name)), None)
    return Defended(defense, family or tutor)


def printed_defense(name: str) -> Defended:
    """The column that a name in `published/` stands for."""
    head, _, tail = name.rpartition("_")
    return Defended(head, tail) if head and tail in TUTORS else Defended(name)


def attack_kind(attack: str) -> str | None:
    """Which of the paper's attacks it is; None of another, and of clean texts."""
    if attack == CLEAN:
        return None
    return "advsuffix" if _SUFFIX.fullmatch(attack) else attack if attack in ATTACKS else None


def paper_data(place: Place) -> PaperData | None:
    """The paper's data that a place is of: judged by all criteria in one prompt, from 1 to 5."""
    dataset, dimension, score_range = place
    if (score_range.minimum, score_range.maximum) != _RANGE:
        return None
    return next((one for one in PAPER_DATA if (one.dataset, one.dimension) == (dataset, dimension)), None)
