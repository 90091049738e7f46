"""The judge card: a judge that was calibrated, as one file that another person can read, check and use."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from judgebench.atomic import atomic
from judgebench.cards.estimate import Estimate
from judgebench.errors import UserError
from judgebench.types import ScoreRange

NAME = "judge_card.yaml"
FORMAT = "judgebench judge card 1"

_BESIDE = (("defense", "detectors"), ("tutor", "vectors"))
"""Parts and their keys that name files which a run has learned."""

PARTS = ("judge", "assistant", "prompt", "decoding", "defenses", "defense", "tutor")
"""What of a configuration makes the judge."""

_MAKERS = {
    "judgebench.judges.reader.JudgeSpec",
    "judgebench.judges.api.settings.ApiSpec",
    "judgebench.judges.replay.ReplaySpec",
    "judgebench.judges.assistants.assistant",
    "judgebench.judges.assistants.served_assistant",
    "judgebench.decoding.Greedy",
    "judgebench.decoding.Expectation",
    "judgebench.decoding.Contrastive",
    "judgebench.defenses.settings.DefenseSettings",
    "judgebench.defenses.settings.Helper",
    "judgebench.tutor.spec.TutorSpec",
}
"""What a card may name to be made: a card may come from anybody, and must not run what it likes."""

_HEAD = """\
# A judge card: a judge that was calibrated on human scores, and how far it can be trusted.
#   score a file with it:  python -m judgebench.score card=THIS_FILE data.path=FILE
#   in Python:             judgebench.cards.Judge.from_card("THIS_FILE").score(source, output)
"""


@dataclass(frozen=True)
class JudgeCard:
    """A calibrated judge.

    Attributes:
        dimension: what it judges by.
        range: the scores that it gives.
        series: `judge`, main or pair, and `decoding`, the name of the one decoding in `parts`.
        rubric: the rubric's text by its name (`coherence`), with the forms that defenses need (`coherence.cot`).
        parts: `PARTS` of the configuration, resolved.
        models: role -> title and SHA-256 of each model's content.
        estimate: from its scores to the humans' scale; None where there is no such map.
        scale: the humans' own [low, high]; None where it is not known.
        figures: dev and test: how well it agrees with humans, with 95 % intervals.
        attacks: what attacks changed of its scores, where any were tried.
        tried: every judge that calibration chose among, with its figures.
        data: what it was calibrated on: name, fingerprint, how many groups and texts, how they were split.
        limits: sentences on where it must not be trusted.
        made_with: versions.
        files: what its defense has learned, by path beside the card -> SHA-256: detectors, standard vectors.
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
        """A line that names it."""
        names = " with ".join(str(model["title"]) for model in self.models.values())
        return f"{names}, {self.dimension} {self.range}, {self.series['decoding']}"

    def parts_here(self) -> dict[str, Any]:
        """`parts`, which name the files beside the card by where they are on this machine.

        Raises:
            UserError: one is missing, or is not what the judge was calibrated with.
        """
        parts, folder = copy.deepcopy(dict(self.parts)), self.folder or Path()
        for name, digest in self.files.items():
            try:
                found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            except OSError as error:
                raise UserError(
                    f"card: {folder / name} cannot be read ({error.strerror}), and the judge's defense needs it; copy "
                    f"the folder {Path(name).parent} of the run that calibrated the judge beside the card."
                ) from error
            if found != digest:
                raise UserError(
                    f"card: {folder / name} is not what the judge was calibrated with; copy it again from the run that "
                    "did, or calibrate anew."
                )
        for part, key in _BESIDE:
            if self.files and (value := (parts[part] or {}).get(key)) is not None:
                parts[part][key] = str((folder / value).absolute())
        return parts

    def write(self, path: Path) -> None:
        """Writes the card, whole or not at all.

        Raises:
            UserError: it cannot be written.
        """
        content = {
            "format": FORMAT,
            "dimension": self.dimension,
            "range": [self.range.minimum, self.range.maximum, self.range.step],
            "scale": None if self.scale is None else list(self.scale),
            "limits": list(self.limits),
            "figures": dict(self.figures),
            "estimate": None
            if self.estimate is None
            else {
                "kind": self.estimate.kind,
                "scores": list(self.estimate.scores),
                "humans": list(self.estimate.humans),
            },
            "attacks": list(self.attacks),
            "models": dict(self.models),
            "series": dict(self.series),
            "parts": dict(self.parts),
            "rubric": dict(self.rubric),
            "data": dict(self.data),
            "tried": list(self.tried),
            "made_with": dict(self.made_with),
            "files": dict(self.files),
        }
        text = _HEAD + yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
        try:
            with atomic(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"{path}: the judge card cannot be written ({error.strerror or error}).") from error

    @classmethod
    def read(cls, path: str | Path) -> JudgeCard:
        """A card from its file.

        Raises:
            UserError: no such file, no card, or a card that asks for more than a judge.
        """
        path = Path(path).expanduser()
        if not path.is_file():
            raise UserError(
                f"card={path}: there is no such file; `python -m judgebench.calibrate` writes a judge card."
            )
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise UserError(f"card={path}: cannot be read ({reason}); give a whole judge card.") from error
        if not isinstance(content, Mapping) or content.get("format") != FORMAT:
            raise UserError(f"card={path}: this is no judge card, for it does not say `format: {FORMAT}`.")
        try:
            return replace(cls._of(content), folder=path.parent)
        except UserError as error:
            raise UserError(f"card={path}: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"card={path}: it is damaged ({type(error).__name__}: {error}); let `python -m judgebench.calibrate` "
                "write it anew."
            ) from error

    @classmethod
    def _of(cls, content: Mapping[str, Any]) -> JudgeCard:
        parts = {name: content["parts"][name] for name in PARTS}
        _check_makers(parts)
        estimate, scale = content["estimate"], content["scale"]
        return cls(
            dimension=_text(content["dimension"], "dimension"),
            range=ScoreRange.parse(content["range"]),
            series={name: _text(content["series"][name], f"series.{name}") for name in ("judge", "decoding")},
            rubric={_text(name, "rubric"): _text(text, "rubric") for name, text in content["rubric"].items()},
            parts=parts,
            models={role: dict(model) for role, model in content["models"].items()},
            estimate=None
            if estimate is None
            else Estimate(str(estimate["kind"]), tuple(estimate["scores"]), tuple(estimate["humans"])),
            scale=None if scale is None else (float(scale[0]), float(scale[1])),
            figures={split: dict(figures) for split, figures in content["figures"].items()},
            attacks=list(content["attacks"]),
            tried=list(content["tried"]),
            data=dict(content["data"]),
            limits=[str(limit) for limit in content["limits"]],
            made_with=dict(content["made_with"]),
            files=_files(content["files"]),
        )


def _check_makers(node: Any, where: str = "parts") -> None:
    """A card names only what a judge is made of, and never code that comes with a model."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == "_target_" and value not in _MAKERS:
                raise UserError(f"{where}._target_ is {value!r}, which is no part of a judge; do not use this card.")
            if str(key).startswith("_") and key not in ("_target_",):
                raise UserError(f"{where}.{key} is no part of a judge; do not use this card.")
            _check_makers(value, f"{where}.{key}")
    elif isinstance(node, list):
        for i, value in enumerate(node):
            _check_makers(value, f"{where}[{i}]")


def _files(given: Mapping[str, Any]) -> dict[str, str]:
    """Paths below the card's folder alone: a card comes from anybody, and has no business elsewhere."""
    for name in given:
        if Path(_text(name, "files")).is_absolute() or ".." in Path(name).parts:
            raise UserError(f"files: {name} lies outside the card's folder; do not use this card.")
    return {name: _text(digest, f"files.{name}") for name, digest in given.items()}


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise UserError(f"{where} must be text, got {value!r}.")
    return value


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
