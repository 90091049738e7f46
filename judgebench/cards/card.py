"""The judge card: a judge that was calibrated, as one file that another person can read, check and
use.

A card comes from anybody: its parts are plain data that make a judge, refer to nothing, and name no
file whose content the card does not state.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import inspect
import json
import math
import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import yaml
from annotated_types import Gt, Lt

from judgebench.config.inputs import inputs_of
from judgebench.config.keys import command_line
from judgebench.decoding.repairs import Calibrated, Median, NullContext, Ordinal, Ridge
from judgebench.decoding.rules import Contrastive, Decoding, Expectation, Greedy
from judgebench.defenses.anchors import ANCHORS
from judgebench.judges.assistants import ServedAssistant, assistant, served_assistant
from judgebench.judges.own import OwnJudge
from judgebench.judges.precomputed.replay import ReplaySpec
from judgebench.judges.served.settings import ApiSpec
from judgebench.judges.spec import JudgeSpec
from judgebench.runtime.files import Input, atomic, user_path, writing
from judgebench.runtime.parsing import YAML_LIMITS, parse_yaml, read_bytes, read_yaml
from judgebench.runtime.shapes import check_shape
from judgebench.settings.components import entry_name
from judgebench.tutor.spec import TutorSpec
from judgebench.types import Array, Record, Records, Row, Scale, ScoreRange
from judgebench.words.errors import UserError, reason, shown
from judgebench.words.terminal import print_safely

NAME = "judge_card.yaml"
FORMAT = "judgebench judge card 1"

PARTS = ("judge", "assistant", "prompt", "decoding", "defenses", "tutor")
"""The parts of a configuration that make the judge."""

NO_ASSISTANT = {"_target_": "judgebench.judges.assistants.assistant", "kind": "none"}
_DECODINGS = (
    Greedy,
    Expectation,
    Contrastive,
    NullContext,
    Median,
    Ordinal,
    Ridge,
    Calibrated,
)
_MAKERS = {
    ("judge",): (JudgeSpec, ApiSpec, ReplaySpec),
    ("assistant",): (assistant, served_assistant),
    ("decoding", "*"): _DECODINGS,
    ("decoding", "*", "of"): _DECODINGS,
    ("tutor",): (TutorSpec,),
}
"""Position in the parts -> the classes that may be made there: a card must not run what it
likes."""


def maker_at(place: tuple[str, ...], target: Any) -> Any:
    """The class that a text of a card, or of another file, names at a position of the parts; None
    where it names none that may be made there, and nothing is imported."""
    if place[:1] == ("decoding",) and len(place) > 1:
        place = ("decoding", "*", *place[2:])
    for maker in _MAKERS.get(place, ()):
        module = _DECODING if maker in _DECODINGS else maker.__module__
        if target == f"{module}.{maker.__name__}":
            return maker
    return None


ASK = "ask"
"""The decision of a judge that leaves a text to a person."""

RIGHT = tuple(f"{name}{end}" for name in ("tpr", "tnr") for end in ("", "_low", "_high"))
"""The shares of a card's `decision`, with the ends of their intervals."""

_NAMED = (("prompt", "rubrics"), ("prompt", "variants"), ("judge", "fields"), ("judge", "title"))
"""Parts of which every text is a rubric, or a name in the file of a replayed judge; `literal` lets
them refer to nothing."""

_MADE = {"_target_": str}
_FINITE = Annotated[float, Gt(-math.inf), Lt(math.inf)]
_DECISION = {
    "fail": str,
    "pass": str,
    "pass_mark": _FINITE,
    "fail_to": (_FINITE, None),
    "pass_from": (_FINITE, None),
    "asked": _FINITE,
    "error": (_FINITE, None),
    **dict.fromkeys(("rater_error", "lowest", *RIGHT), (_FINITE, None)),
    "costs": {"false_pass": _FINITE, "false_fail": _FINITE},
}
_CARD = {
    "dimension": str,
    "range": ([float], [str]),
    "scale": (None, [float]),
    "uses": [{"use": str, "verdict": str, "clause": str, "value?": (float, None)}],
    "limits": [object],
    "figures": {str: dict},
    "estimate": (None, {"kind": str, "scores": [float], "humans": [float]}),
    "intervals": (None, {"spread": [float], "errors": [float], "articles": [int]}),
    "decision": (None, _DECISION),
    "attacks": [{"attack": str}],
    "models": {
        str: {"title": str, "sha256?": (str, None), "model?": (str, None), "served_as?": [dict]}
    },
    "series": {"judge": str, "decoding": str},
    "parts": {
        "judge": _MADE,
        "assistant": _MADE,
        "decoding": {str: _MADE},
        "defenses": [(str, dict)],
        "prompt": dict,
        "tutor": (None, _MADE),
    },
    "rubric": {str: str},
    "data": {"texts": [int]},
    "tried": [dict],
    "made_with": dict,
    "files": {str: str},
    "scores": (None, {str: float}),
}
"""The shape of a card in the order of its file, see `judgebench.runtime.shapes.check_shape`."""

_DECODING = "judgebench.decoding"
"""Package by which all decodings are named."""

_AGAIN = "let `python -m judgebench calibrate` write it again"

_SCALE = "a scale of {:g} to {:g}"

_LIMITS = replace(YAML_LIMITS, loose=True)  # which a figure may be
_LARGEST_FILE = 2**30
_DIGEST = "sha256"
"""The last key of a card's file: the digest of all others."""

_HEAD = """\
# A judge card: a judge that was calibrated on human scores, and how far it can be trusted.
#   score a file with it:  python -m judgebench score card=THIS_FILE data.path=FILE
#   in Python:             judgebench.cards.Judge.from_card("THIS_FILE").score(source, output)
"""


def no_card() -> str:
    """The mistake of a command without a card: how to get one, and the latest that lies here."""
    there = sorted(Path("outputs/calibrate").glob(f"*/{NAME}"))
    latest = f"; the latest here is card={there[-1]}" if there else ""
    return (
        "card: name a judge card, as card=judge_card.yaml. python -m judgebench calibrate, with the "
        f"words of the run that measured the judge, writes one and prints its path{latest}."
    )


@dataclass(frozen=True)
class EstimateMap:
    """A map from the judge's score to a human's: straight lines between knots, flat beyond the
    last.

    Attributes:
        kind: `linear`, least squares; or `isotonic`, the best map that never falls.
        scores: [knots] the judge's, ascending.
        humans: [knots] the humans', never falling.
    """

    kind: str
    scores: tuple[float, ...]
    humans: tuple[float, ...]

    def __post_init__(self) -> None:
        paired = len(self.scores) == len(self.humans) > 0
        knots = np.array([self.scores, self.humans] if paired else [math.nan], dtype=float)
        if not np.isfinite(knots).all() or (np.diff(knots) < 0).any():
            raise UserError(
                "estimate: its knots must be as many scores as humans, finite, the scores "
                "ascending and the humans never falling."
            )

    def __call__(self, scores: Array) -> Array:
        """[n] float64 estimates of the humans' scores.

        Example:
            >>> EstimateMap("linear", (0.0, 4.0), (1.0, 5.0))(np.array([0.0, 1.0, 9.0]))
            array([1., 2., 5.])
        """
        return np.interp(scores, self.scores, self.humans)


@dataclass(frozen=True)
class Errors:
    """The errors of an estimate on articles that did not teach it, for intervals of single texts:
    conformal by article, over their usual size (Lei et al., "Distribution-Free Predictive Inference
    for Regression", 2018, section 5.2).

    Attributes:
        spread: their usual size, in points: a + b * estimate, and at least c, as (a, b, c).
        errors, articles: [n] of texts, over the usual size there, and the number of each one's
            article.
    """

    spread: tuple[float, ...]
    errors: tuple[float, ...] = ()
    articles: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        paired = len(self.spread) == 3 and len(self.errors) == len(self.articles)
        if not paired or not np.isfinite([*self.spread, *self.errors]).all() or self.spread[2] <= 0:
            raise UserError(
                "intervals: they take a spread [a, b, c], c above 0, and errors, one an article, "
                "finite."
            )

    def usual(self, estimates: Array) -> Array:
        return np.maximum(self.spread[0] + self.spread[1] * estimates, self.spread[2])

    def ends(self, estimates: Array, level: float, scale: Scale) -> tuple[Array, Array]:
        """Low and high [n] around estimates [n] within the humans' scale: where nothing is learned,
        at least `level` of new articles' texts lie there. It is the whole scale with fewer than
        level / (1 - level) articles.

        Example:
            >>> errors = Errors((0.5, 0.0, 0.1), (0.0, 1.0, 2.0), (0, 1, 2))
            >>> [ends.tolist() for ends in errors.ends(np.array([1.25, 3.0]), 0.5, (1, 5))]  # the 2nd, of .5 * (3 + 1)
            [[1.0, 2.5], [1.75, 3.5]]
        """
        # it takes a third of a second to import
        from judgebench.stats.conformal import conformal_quantile

        errors = np.array(self.errors)
        quantile = conformal_quantile(errors, np.array(self.articles), level)
        reach = self.usual(estimates) * quantile
        return np.clip(estimates - reach, *scale), np.clip(estimates + reach, *scale)


@dataclass(frozen=True)
class JudgeCard:
    """A calibrated judge.

    Attributes:
        dimension: the quality that it judges.
        range: the scores that it gives.
        series: `judge`, main or pair, and `decoding`, the name of the one decoding in `parts`.
        rubric: the rubric's text by its name (`coherence`), with the forms that defenses need
            (`coherence.cot`).
        parts: `PARTS` of the configuration, resolved.
        models: role -> title and SHA-256 of each model's content.
        estimate: map from its scores to the humans' scale; None where there is none.
        intervals: the estimate's errors; None where `no_intervals` says why.
        scores: digest of a text that made it, in decimal -> its judge's score, of a sample; None where its
            decoding has learned from them.
        scale: the humans' own [low, high]; None where it is not known.
        reversed: True where people's lowest score is the best; the file has the scale as [high,
            low]. Here it counts as the highest.
        figures: dev and test: its agreement with humans, with 95 % intervals.
        attacks: changes of its scores by the attacks that were tried.
        tried: every judge that calibration chose among, with its figures.
        data: the data that it was calibrated on: name, fingerprint, numbers of groups and texts,
            how they were split.
        limits: sentences on where it must not be trusted.
        made_with: versions.
        files: content that it needs, by path next to the card -> SHA-256: detectors and standard
            vectors.
        uses: a record a use of `judgebench.studies.rules.RULES`: use, verdict, clause, value and
            rater with `_low` and `_high`.
        decision: of labels that are pass or fail, how scores decide: `fail` and `pass`, the names
            of the classes; `pass_mark`, the lowest score that passes; at or below `fail_to` a text
            fails, from `pass_from` on it passes, and between a human is asked, of which None is
            neither's mark; `asked`, that share of texts; `error`, the largest share of mistakes
            among the others; `rater_error`, that of one rater by another, and `lowest`, the least
            that any judge could be shown to make; `RIGHT`; `costs`, see
            `judgebench.settings.costs.Costs`. None where labels are grades.
        folder: where the card lies; None of a card that is in no file.
    """

    dimension: str
    range: ScoreRange
    series: Mapping[str, str]
    rubric: Mapping[str, str]
    parts: Row
    models: Mapping[str, Mapping[str, str]]
    estimate: EstimateMap | None
    scale: Scale | None
    figures: Mapping[str, Row]
    attacks: Records
    tried: Records
    data: Row
    limits: Sequence[str]
    made_with: Row
    files: Mapping[str, str] = field(default_factory=dict)
    uses: Records = ()
    folder: Path | None = field(default=None, compare=False)
    intervals: Errors | None = None
    decision: Row | None = None
    scores: Mapping[str, float] | None = None
    reversed: bool = False

    @property
    def own_judge(self) -> bool:
        """True where its judge is a class that does not come with judgebench."""
        return not str(self.parts["judge"]["_target_"]).startswith("judgebench.")

    @property
    def ends(self) -> Sequence[float] | None:
        """The humans' scale as people know it, the worst score first."""
        return self.scale and self.scale[:: -1 if self.reversed else 1]

    @property
    def replayed(self) -> bool:
        """True where its judge is a file of answers, so that those to other texts are another."""
        maker = maker_at(("judge",), self.parts["judge"]["_target_"])
        return maker is not None and issubclass(maker, ReplaySpec)

    @property
    def title(self) -> str:
        names = " with ".join(str(model["title"]) for model in self.models.values())
        return f"{names}, {self.dimension} {self.range}, {self.series['decoding']}"

    @property
    def verdict(self) -> Sequence[str]:
        """A line a use of its judge, in columns, then its limits."""
        from judgebench.studies.rules import RULES  # statistics take a while to import

        titles = {use: rule.title for use, rule in RULES.items()}
        uses = [
            f"  {titles.get(use['use'], ''):<16} {use['verdict']:<14} {use['clause']}"
            for use in self.uses
        ]
        without = "  - It has no verdict, for it was made with human_agreement=false; calibrate again without it."
        return [*(uses or [without]), *(f"  - {limit}" for limit in self.limits)]

    @property
    def no_intervals(self) -> str | None:
        """Why scores by the card have no intervals, a sentence; None where they have."""
        if self.estimate is None or self.scale is None:
            return (
                "No intervals: the card has no map from its scores to the humans' scale, or that "
                "is unknown."
            )
        return None

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each use."""
        return {use["use"]: use["verdict"] for use in self.uses}

    @property
    def may_decide(self) -> bool:
        """True where its verdict on deciding is yes, or with care."""
        return self.verdicts.get("decide") in ("yes", "with care")

    @property
    def decides(self) -> bool:
        """True where some texts are not for a person to see: it may decide, and has a band."""
        decision = self.decision or {}
        marks = decision.get("fail_to"), decision.get("pass_from")
        return self.may_decide and marks != (None, None)

    def decisions(self, scores: Array, force: bool = False) -> Array:
        """[n] names of classes, or `ASK`, by scores [n]; None for NaN, and where the card does not
        decide. The band of scores to ask about decides; all are asked about where there is none, or
        the judge may not decide, but with `force` then the band, else the pass mark, decides."""
        said = np.full(len(scores), None, dtype=object)
        if self.decision is None:
            return said
        # 1. the marks
        fail_to = self.decision["fail_to"]
        pass_from = self.decision["pass_from"]
        mark = self.decision["pass_mark"]
        if fail_to is None and pass_from is None:
            passes = scores >= mark
            fails = scores < mark
        else:
            passes = scores >= (math.inf if pass_from is None else pass_from)
            fails = scores <= (-math.inf if fail_to is None else fail_to)
        if not (self.decides or force):
            passes = fails = np.zeros(len(scores), dtype=bool)
        # 2. what they say
        said[~np.isnan(scores)] = ASK
        said[fails] = self.decision["fail"]
        said[passes] = self.decision["pass"]
        return said

    def inputs(self) -> list[Input]:
        """The files that its judge needs: those next to it, and those that its parts name."""
        folder = self.folder or Path()
        inputs = []
        for name in self.files:
            inputs.append(Input(f"{folder / name}, which the card needs", folder / name))
        return [*inputs, *inputs_of(self.parts)]

    def check_task(self, dimension: Any, scale: Any) -> None:
        """Checks that the card was made for a dimension, and for a humans' scale [worst, best], else
        `UserError`; None asks for neither."""
        pair = tuple(scale) if isinstance(scale, list | tuple) else ()
        numbers = len(pair) == 2 and all(type(end) in (int, float) for end in pair)
        if scale is not None and not numbers:
            raise UserError(
                f"scale: {shown(scale)} is no scale; give its worst and best score, as "
                "'scale=[1,5]'."
            )
        wanted = [] if dimension is None else [str(dimension)]
        if pair:
            wanted.append(_SCALE.format(*pair))
        if dimension not in (None, self.dimension) or pair not in ((), self.ends):
            here = "an unknown scale" if self.ends is None else _SCALE.format(*self.ends)
            raise UserError(
                f"card: it was calibrated for {self.dimension} on {here} "
                f"({self.data.get('name', 'data')}), and {' on '.join(wanted)} is wanted here; its "
                "figures and estimates say nothing of that. Calibrate a card on such texts with "
                "`python -m judgebench calibrate data=...`."
            )

    def parts_here(self) -> Record:
        """`parts`, with the files next to the card by their paths on this machine; `UserError`
        where one is missing, is not that of the calibration, or is not among `files`: it could be
        any file of this machine."""
        folder = self.folder or Path()
        for name, digest in self.files.items():
            again = (
                f"copy the folder {Path(name).parent} of the run that calibrated the judge beside "
                "the card"
            )
            remedy = f"the judge needs it, so {again}"
            content = read_bytes(folder / name, f"card: {folder / name}", _LARGEST_FILE, remedy)
            if hashlib.sha256(content).hexdigest() != digest:
                raise UserError(
                    f"card: {folder / name} is not what the judge was calibrated with; copy it "
                    "again from the run that did, or calibrate again."
                )

        def file_here(where: str, value: Any, files: Mapping[str, str] = self.files) -> str:
            if not isinstance(value, str) or not any(
                f"{name}/".startswith(f"{value}/") for name in files
            ):
                raise UserError(
                    f"card: parts.{where} names {shown(value)}, and the card does not state what "
                    "is in it, so that it could be any file here; `python -m judgebench calibrate` "
                    "writes a card that has its files beside it."
                )
            return f"{folder.absolute()}/{value}"

        parts = copy.deepcopy(dict(self.parts))
        if parts["defenses"] in ([], ["none"]):  # nothing reads what these name
            parts["tutor"] = None
        # which a run has learned
        if (value := (parts["tutor"] or {}).get("vectors")) is not None:
            parts["tutor"]["vectors"] = file_here("tutor.vectors", value)
        for i, entry in enumerate(parts["defenses"]):
            if isinstance(entry, dict):
                for key in entry.keys() & {"template", "detectors"}:
                    entry[key] = file_here(f"defenses[{i}].{key}", entry[key])
            elif "/" in entry or "\\" in entry or entry.endswith(".txt"):
                file_here(f"defenses[{i}]", entry, {})
        if (parts["tutor"] or {}).get("prompts", "summary") not in ("summary", "dialogue", "code"):
            file_here("tutor.prompts", parts["tutor"]["prompts"], {})
        return parts

    def write(self, path: Path) -> None:
        """Writes the card, whole or not at all; `UserError` where it cannot be written."""
        values = {**vars(self), "range": self.range.given, "scale": self.ends}
        for name in ("estimate", "intervals"):
            values[name] = values[name] and vars(values[name])
        content = {"format": FORMAT} | {name: values[name] for name in _CARD}
        text = _HEAD + yaml.dump(
            content,
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=110,
        )
        text += f"{_DIGEST}: {digest_of(parse_yaml(text, str(path), limits=_LIMITS))}\n"
        with writing(f"{path}: the judge card"), atomic(path) as temporary:
            temporary.write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, path: str | Path, trust_judge: bool = False) -> JudgeCard:
        """A card from its file, with a warning where its content is not what calibration wrote, or
        does not say so. `UserError` where there is none, it is no card, or it asks for more than a
        judge.

        Args:
            trust_judge: whether its judge may be a class of somebody's own, whose code runs here.
        """
        path = user_path(path)
        name = f"card={path}"
        content = _content(path, name)
        try:
            scale = content["scale"]
            if scale is not None and not (
                len(scale) == 2 and -math.inf < min(scale) <= max(scale) < math.inf
            ):
                raise UserError(f"scale must be [worst, best], got {shown(scale)}.")
            for file in content["files"]:
                if not file or Path(file).is_absolute() or ".." in Path(file).parts:
                    raise UserError(
                        f"files: {file} lies outside the card's folder; do not use this card."
                    )
            parts = content["parts"]
            values: Record = {key: content[key] for key in _CARD}
            values |= {
                "range": ScoreRange.parse(content["range"]),
                "series": {key: content["series"][key] for key in ("judge", "decoding")},
                "parts": {key: parts[key] for key in PARTS},
                "scale": scale and (float(min(scale)), float(max(scale))),
                "reversed": bool(scale and scale[0] > scale[1]),
                "estimate": _made(EstimateMap, content["estimate"]),
                "intervals": _made(Errors, content["intervals"]),
                "limits": [str(limit) for limit in content["limits"]],
                "uses": content["uses"] or (),
            }
            card = cls(**values, folder=path.parent)
            card.check_parts(trust_judge)
        except UserError as error:
            raise UserError(f"{name}: {error}") from error
        except ValueError as error:
            raise UserError(f"{name}: it is damaged ({error}); {_AGAIN}.") from error
        if content.get(_DIGEST) != digest_of(content):
            fault = "it does not state the SHA-256 of its content"
            if _DIGEST in content:
                fault = (
                    "it was changed after `python -m judgebench calibrate` wrote it, for its "
                    "content does not have the SHA-256 that it states"
                )
            print_safely(
                f"judgebench: {name}: {fault}; its figures may not be those of this judge.",
                error=True,
            )
        return card

    def check_parts(self, trust_judge: bool = False) -> None:
        """Checks that the parts are those of a judge, refer to nothing, and belong together; else
        `UserError`. `trust_judge`: see `read`."""
        for where, key, value in _walk({"parts": self.parts, "dimension": self.dimension}):
            at = ".".join((*where, key))
            inside = where[1:]
            if key == "_target_":
                if inside == ("judge",) and isinstance(value, str) and self.own_judge:
                    if trust_judge:
                        continue
                    again = f"{command_line() or ''} trust_judge=true".lstrip()
                    raise UserError(
                        f"{at} is {shown(value)}, a class that does not come with judgebench, and "
                        "its code would run on this machine; do not use this card, unless you know "
                        f"that class and trust it; then say so: {again} (in Python "
                        "trust_judge=True)."
                    )
                if maker_at(inside, value) is None:
                    raise UserError(
                        f"{at} is {shown(value)}, which is no part of a judge; do not use this "
                        "card."
                    )
            elif key.startswith("_"):
                raise UserError(f"{at} is no part of a judge; do not use this card.")
            # the card's own rubric is used; columns of a file may be called anything
            if (*inside, key)[:2] in (_NAMED if self.replayed else _NAMED[:2]):
                continue
            for text in (key, value):
                if isinstance(text, str) and ("${" in text or text == "???"):
                    raise UserError(
                        f"{at} refers to something else ({shown(text)}), and a card is plain data; "
                        "do not use it."
                    )
        marks = self.decision or {}
        fail_to, pass_from = marks.get("fail_to"), marks.get("pass_from")
        if fail_to is not None and pass_from is not None and fail_to >= pass_from:
            raise UserError(
                f"decision: fail_to is {fail_to:g} and pass_from {pass_from:g}, so that a text may "
                "fail and pass at once; let `python -m judgebench calibrate` write the card again."
            )
        for name in map(entry_name, self.parts["defenses"]):
            if name in ANCHORS:
                raise UserError(
                    f"parts.defenses: {name} shows labelled texts, and a judge card holds none."
                )
        decodings = self.parts["decoding"]
        judge, decoding = self.series.values()
        if list(decodings) != [decoding]:
            raise UserError(
                f"series.decoding is {decoding!r}, and parts.decoding has {', '.join(decodings)}."
            )
        needed = "main"
        part = decodings[decoding]
        while isinstance(part, Mapping):
            maker = maker_at(("decoding", decoding), part["_target_"])
            if maker.needs_assistant is True or part.get("of") == "both":
                needed = "pair"
            part = part.get("of")
        if judge != needed:
            raise UserError(
                f"series.judge is {shown(judge)}, and {decoding} gives scores of {needed} alone."
            )


def _content(path: Path, name: str) -> Record:
    """The content of a card's file; `UserError` where it has not the shape of a card."""
    if not path.is_file():
        raise UserError(
            f"{name}: there is no such file; `python -m judgebench calibrate` writes a judge card."
        )
    content = read_yaml(path, name, limits=_LIMITS, remedy="give a whole judge card")
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UserError(f"{name}: this is no judge card, for it does not say `format: {FORMAT}`.")
    damaged = f"it is damaged, so {_AGAIN}"
    check_shape(content, _CARD, name, damaged)
    for split, figures in content["figures"].items():
        numbers = {key: value for key, value in figures.items() if key != "flags"}
        check_shape(numbers, {str: (float, None)}, name, damaged, f"figures.{split}")
    return content


def _made(maker: Any, content: Row | None) -> Any:
    """A dataclass from a mapping of its fields, lists as tuples; None for none."""
    if not content:
        return None
    values = [content[field.name] for field in dataclasses.fields(maker)]
    return maker(*(tuple(value) if isinstance(value, list) else value for value in values))


def _walk(node: Any, where: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Position, key and value of everything inside a plain value."""
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(node, Mapping):
        items = node.items()
    elif isinstance(node, list):
        items = enumerate(node)
    for key, value in items:
        yield where, str(key), value
        yield from _walk(value, (*where, str(key)))


def check_arguments(parts: Row) -> None:
    """Checks that the classes that parts name take the keys that they have, and values of their
    kinds; else `UserError`. Each value may be null, which the class checks itself."""
    makers = ("judge", "assistant", "tutor")
    places: dict[tuple[str, ...], Row] = {
        (name,): parts[name] for name in makers if parts[name] is not None
    }
    places |= {("decoding", name): part for name, part in parts["decoding"].items()}
    for place, part in places.items():
        where = ".".join(place)
        maker = maker_at(place, part["_target_"])
        if maker is None:  # a judge of somebody's own, whose code the user trusts
            _check_own(part["_target_"])
            continue
        if maker is served_assistant:  # which takes any keys
            maker = ServedAssistant
        hints = typing.get_type_hints(maker)
        parameters = inspect.signature(maker).parameters
        shape = {}
        for key, parameter in parameters.items():
            made = hints[key] is Decoding or dataclasses.is_dataclass(hints[key])
            needed = parameter.default is inspect.Parameter.empty
            shape[key if needed else f"{key}?"] = (dict if made else hints[key], None)
        for key in part:
            if key != "_target_" and (key == "role" or key not in parameters):
                raise UserError(
                    f"card: parts.{where}.{key} is unknown to this version of judgebench; "
                    "calibrate again."
                )
        check_shape(part, shape, "card", at=f"parts.{where}")


def _check_own(target: str) -> None:
    """Checks that a class of somebody's own, whose code the user trusts, is a judge; else
    `UserError`."""
    module, _, name = target.rpartition(".")
    try:
        maker = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(
            f"card: its judge is the class {shown(target)}, which is not here ({reason(error)}); "
            "start the command where its file lies, name that folder in PYTHONPATH, or install it."
        ) from error
    if not (isinstance(maker, type) and issubclass(maker, OwnJudge)):
        raise UserError(
            f"card: parts.judge._target_ is {shown(target)}, which is no judge; do not use this "
            "card."
        )


def digest_of(content: Row) -> str:
    """SHA-256 of a card's content but for the digest itself, in hexadecimal; white space, comments,
    the order of keys, and whether a whole number is written 5 or 5.0 do not matter."""

    def number(digits: str) -> float | int:
        return float(digits) if abs(int(digits)) < 2**53 else int(digits)

    values = {name: value for name, value in content.items() if name != _DIGEST}
    canonical = json.loads(json.dumps(values), parse_int=number)
    text = json.dumps(canonical, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class _Dumper(yaml.SafeDumper):
    """Writes long texts as they are read, and numbers on one line."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = "\n" in text and not re.search(r"[ \t]\n|[^\S\n ]|^\s", text)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if plain else None)


def _represent_list(dumper: yaml.SafeDumper, items: Sequence[Any]) -> yaml.SequenceNode:
    flat = all(not isinstance(item, Mapping | list | str) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=flat)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(tuple, _represent_list)
_Dumper.ignore_aliases = lambda self, data: True  # type: ignore[method-assign]
