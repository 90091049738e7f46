"""The judge card: a judge that was calibrated, as one file that another person can read, check and use."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from judgebench.cards.parts import PARTS, SHAPE, check_card_parts, with_files
from judgebench.runtime.errors import UserError, escape_control, shown
from judgebench.runtime.files import atomic
from judgebench.runtime.parsing import YAML_LIMITS, check_shape, parse_yaml, read_bytes, read_yaml
from judgebench.types import ScoreRange

NAME = "judge_card.yaml"
FORMAT = "judgebench judge card 1"

_CARD = {
    **{"dimension": str, "range": [float], "scale": (None, [float]), "limits": [object], "figures": {str: dict}},
    "estimate": (None, {"kind": str, "scores": [float], "humans": [float]}),
    "attacks": [dict],
    "models": {str: {"title": str, "sha256?": (str, None), "model?": (str, None), "served_as?": [dict]}},
    **{"series": {"judge": str, "decoding": str}, "parts": SHAPE, "rubric": {str: str}, "data": dict},
    **{"tried": [dict], "made_with": dict, "files": {str: str}},
}
"""The shape of a card in the order of its file, see `judgebench.runtime.parsing.check_shape`."""

_LIMITS = replace(YAML_LIMITS, nan=True)  # which a figure may be
_LARGEST_FILE = 2**30
_DIGEST = "sha256"
"""The last key of a card's file: the digest of all others. Cards of 0.1.0 have none, and are not checked."""

_HEAD = """\
# A judge card: a judge that was calibrated on human scores, and how far it can be trusted.
#   score a file with it:  python -m judgebench.score card=THIS_FILE data.path=FILE
#   in Python:             judgebench.cards.Judge.from_card("THIS_FILE").score(source, output)
"""


@dataclass(frozen=True)
class Estimate:
    """A map from the judge's score to a human's: straight lines between knots, flat beyond the last.

    Attributes:
        kind: `linear`, least squares; or `isotonic`, the best map that never falls.
        scores: [knots] the judge's, ascending.
        humans: [knots] the humans', never falling.
    """

    kind: str
    scores: tuple[float, ...]
    humans: tuple[float, ...]

    def __post_init__(self) -> None:
        knots = np.array([self.scores, self.humans], dtype=float) if len(self.scores) == len(self.humans) else None
        if (
            knots is None
            or not knots.size
            or not np.isfinite(knots).all()
            or (np.diff(knots[0]) < 0).any()
            or (np.diff(knots[1]) < 0).any()
        ):
            raise UserError(
                "estimate: its knots must be as many scores as humans, finite, the scores ascending and the humans "
                "never falling."
            )

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """[n] float64 estimates of the humans' scores.

        Example:
            >>> Estimate("linear", (0.0, 4.0), (1.0, 5.0))(np.array([0.0, 1.0, 9.0]))
            array([1., 2., 5.])
        """
        return np.interp(scores, self.scores, self.humans)


@dataclass(frozen=True)
class JudgeCard:
    """A calibrated judge.

    Attributes:
        dimension: the quality that it judges.
        range: the scores that it gives.
        series: `judge`, main or pair, and `decoding`, the name of the one decoding in `parts`.
        rubric: the rubric's text by its name (`coherence`), with the forms that defenses need (`coherence.cot`).
        parts: `PARTS` of the configuration, resolved.
        models: role -> title and SHA-256 of each model's content.
        estimate: map from its scores to the humans' scale; None where there is none.
        scale: the humans' own [low, high]; None where it is not known.
        figures: dev and test: its agreement with humans, with 95 % intervals.
        attacks: changes of its scores by the attacks that were tried.
        tried: every judge that calibration chose among, with its figures.
        data: the data that it was calibrated on: name, fingerprint, numbers of groups and texts, how they were split.
        limits: sentences on where it must not be trusted.
        made_with: versions.
        files: content that its defense needs, by path beside the card -> SHA-256: detectors, standard vectors.
        folder: where the card lies; None of a card that is in no file.
    """

    dimension: str
    range: ScoreRange
    series: Mapping[str, str]
    rubric: Mapping[str, str]
    parts: Mapping[str, Any]
    models: Mapping[str, Mapping[str, str]]
    estimate: Estimate | None
    scale: tuple[float, float] | None
    figures: Mapping[str, Mapping[str, Any]]
    attacks: Sequence[Mapping[str, Any]]
    tried: Sequence[Mapping[str, Any]]
    data: Mapping[str, Any]
    limits: Sequence[str]
    made_with: Mapping[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = field(default=None, compare=False)

    @property
    def title(self) -> str:
        names = " with ".join(str(model["title"]) for model in self.models.values())
        return f"{names}, {self.dimension} {self.range}, {self.series['decoding']}"

    def check_task(self, dimension: Any, scale: Any) -> None:
        """Checks that the card was made for a dimension, and for a humans' scale [low, high]; None asks for neither.

        Raises:
            UserError: it was made for another one, or the scale is none.
        """
        pair = None if scale is None else tuple(scale) if isinstance(scale, list | tuple) else ()
        if pair is not None and (len(pair) != 2 or not all(type(end) in (int, float) for end in pair)):
            raise UserError(f"scale: {shown(scale)} is no scale; give its lowest and highest score, as 'scale=[1,5]'.")
        other_name = dimension is not None and dimension != self.dimension
        other_scale = pair is not None and pair != self.scale
        if other_name or other_scale:
            own = "an unknown scale" if self.scale is None else f"a scale of {self.scale[0]:g} to {self.scale[1]:g}"
            wanted = [str(dimension)] if dimension is not None else []
            wanted += [f"a scale of {pair[0]:g} to {pair[1]:g}"] if pair is not None else []
            raise UserError(
                f"card: it was calibrated for {self.dimension} on {own} ({self.data.get('name', 'data')}), and "
                f"{' on '.join(wanted)} is wanted here; its figures and estimates say nothing of that. Calibrate a "
                "card on such texts with `python -m judgebench.calibrate data=...`."
            )

    def parts_here(self) -> dict[str, Any]:
        """`parts`, with the files beside the card named by their paths on this machine; `UserError` where one is
        missing, or is not that of the calibration."""
        folder = self.folder or Path()
        for name, digest in self.files.items():
            again = f"copy the folder {Path(name).parent} of the run that calibrated the judge beside the card"
            remedy = f"the judge's defense needs it, so {again}"
            content = read_bytes(folder / name, f"card: {folder / name}", _LARGEST_FILE, remedy)
            if hashlib.sha256(content).hexdigest() != digest:
                raise UserError(
                    f"card: {folder / name} is not what the judge was calibrated with; copy it again from the run that "
                    "did, or calibrate anew."
                )
        return with_files(copy.deepcopy(dict(self.parts)), self.files, str(folder.absolute()))

    def write(self, path: Path) -> None:
        """Writes the card, whole or not at all; `UserError` where it cannot be written."""
        estimate = None if self.estimate is None else {name: _plain(it) for name, it in vars(self.estimate).items()}
        content = {"format": FORMAT} | {name: _plain(getattr(self, name)) for name in _CARD}
        content |= {"range": self.range.given, "estimate": estimate}
        text = _HEAD + yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
        text += f"{_DIGEST}: {digest_of(parse_yaml(text, str(path), limits=_LIMITS))}\n"
        try:
            with atomic(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"{path}: the judge card cannot be written ({error.strerror or error}).") from error

    @classmethod
    def read(cls, path: str | Path) -> JudgeCard:
        """A card from its file, with a warning if its content is not what calibration wrote; `UserError` where there is
        none, it is no card, or it asks for more than a judge."""
        path = Path(path).expanduser()
        if not path.is_file():
            raise UserError(
                f"card={path}: there is no such file; `python -m judgebench.calibrate` writes a judge card."
            )
        name, anew = f"card={path}", "let `python -m judgebench.calibrate` write it anew"
        content = read_yaml(path, name, limits=_LIMITS, remedy="give a whole judge card")
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise UserError(f"{name}: this is no judge card, for it does not say `format: {FORMAT}`.")
        check_shape(content, _CARD, name, f"it is damaged, so {anew}")
        try:
            card = replace(cls._of(content), folder=path.parent)
        except UserError as error:
            raise UserError(f"{name}: {error}") from error
        except ValueError as error:
            raise UserError(f"{name}: it is damaged ({error}); {anew}.") from error
        if content.get(_DIGEST, digest := digest_of(content)) != digest:
            print(
                f"judgebench: {escape_control(name)}: it was changed after `python -m judgebench.calibrate` wrote it, "
                "for its content does not have the SHA-256 that it states; its figures may not be those of this judge.",
                file=sys.stderr,
            )
        return card

    @classmethod
    def _of(cls, content: Mapping[str, Any]) -> JudgeCard:
        parts = {name: content["parts"][name] for name in PARTS}
        dimension, series = content["dimension"], {name: content["series"][name] for name in ("judge", "decoding")}
        check_card_parts(parts, series, dimension)
        estimate, scale = content["estimate"], content["scale"]
        low, high = (math.nan, math.nan) if scale is None else map(float, scale)
        if scale is not None and not -math.inf < low <= high < math.inf:
            raise UserError(f"scale must be [low, high], got {shown(scale)}.")
        known = {name: content[name] for name in _CARD} | {
            "range": ScoreRange.parse(content["range"]),
            "series": series,
            "parts": parts,
            "estimate": None
            if estimate is None
            else Estimate(estimate["kind"], tuple(estimate["scores"]), tuple(estimate["humans"])),
            "scale": None if scale is None else (low, high),
            "limits": [str(limit) for limit in content["limits"]],
            "files": _files(content["files"]),
        }
        return cls(**known)


def digest_of(content: Mapping[str, Any]) -> str:
    """SHA-256 of a card's content but for the digest itself, in hexadecimal; white space, comments, the order of keys,
    and whether a whole number is written 5 or 5.0 do not matter."""

    def canonical(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(key): canonical(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [canonical(item) for item in value]
        return float(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53 else value

    values = canonical({name: value for name, value in content.items() if name != _DIGEST})
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """A value as YAML has it: lists and mappings alone."""
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value


def _files(given: Mapping[str, str]) -> Mapping[str, str]:
    """Checks that paths lie below the card's folder: a card comes from anybody, and has no business elsewhere."""
    for name in given:
        if not name or Path(name).is_absolute() or ".." in Path(name).parts:
            raise UserError(f"files: {name} lies outside the card's folder; do not use this card.")
    return given


class _Dumper(yaml.SafeDumper):
    """Writes long texts as they are read, and numbers on one line."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = "\n" in text and not re.search(r"[ \t]\n|[^\S\n ]|^\s", text)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if plain else None)


def _represent_list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.SequenceNode:
    flat = all(not isinstance(item, Mapping | list | str) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=flat)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(list, _represent_list)
_Dumper.ignore_aliases = lambda self, data: True  # type: ignore[method-assign]
