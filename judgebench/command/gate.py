"""The command line: `python -m judgebench gate card=FILE data.path=LABELS`, a judge that passes,
fails or cannot be measured: exit codes 0, 1 and 2."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from judgebench.cards.card import JudgeCard, no_card
from judgebench.command.cli import handle_errors, run_checked
from judgebench.config.check import check_config, check_labels, data_of
from judgebench.config.defaults import ALL
from judgebench.config.inputs import inputs_of, store_of
from judgebench.config.keys import FOLDER, command_line, path_of
from judgebench.importing.own import score_command
from judgebench.runtime.ending import as_sentence
from judgebench.runtime.files import atomic, check_outputs, user_path, writing
from judgebench.runtime.log import StepLogger
from judgebench.runtime.values import literal, settle
from judgebench.settings.costs import RATER
from judgebench.settings.fields import OneOf, Words, check_fields, plain
from judgebench.study.jobs import check_one_run
from judgebench.types import Classes, Record
from judgebench.words.errors import UserError
from judgebench.words.formats import say
from judgebench.words.terminal import print_safely

if TYPE_CHECKING:
    from judgebench.cards.requirements import Outcome
    from judgebench.data.dataset import RatingDataset

log = StepLogger("judgebench.command.gate")

_MOST_LINES = 16  # of requirements in a terminal of 24
_TEMPLATES = {"junit": "gate.xml.j2", "summary": "gate.md.j2"}


@dataclass(frozen=True)
class GateSettings:
    """Keys of conf/gate.yaml; `UserError` of values that cannot be."""

    drift: Annotated[str, OneOf(("fail", "warn", "off"))]
    paired: Annotated[str, OneOf(("card",))] | None
    junit: Words | None
    summary: str | None
    readings: Words | None
    check_models: bool
    trust_judge: bool

    def __post_init__(self) -> None:
        check_fields(self, "gate")

    @property
    def files(self) -> dict[str, str]:
        """The files that are asked for, by their keys."""
        names = {"junit": self.junit, "summary": self.summary}
        return {key: name for key, name in names.items() if name is not None and name.strip()}


@dataclass(frozen=True)
class Decision:
    """The judge and its texts in a sentence, an outcome a requirement, further sentences, the run
    folder, and the sentence that was printed before anything was read."""

    head: str
    outcomes: Sequence[Outcome]
    notes: Sequence[str] = ()
    folder: Path | None = None
    before: str = ""

    @property
    def code(self) -> int:
        """The exit code: what has failed counts more than what could not be measured."""
        states = {outcome.state for outcome in self.outcomes}
        if "failed" in states:
            return 1
        return 2 if "not measured" in states else 0

    @property
    def title(self) -> str:
        return ("passed", "failed", "could not be measured")[self.code]

    def terminal(self) -> str:
        """At most 24 lines, first the requirements that are not met."""
        outcomes = sorted(self.outcomes, key=lambda outcome: outcome.state == "passed")
        width = max((len(outcome.requirement) for outcome in outcomes), default=0)
        lines = [self.head, ""]
        for outcome in outcomes[:_MOST_LINES]:
            requirement = outcome.requirement.ljust(width)
            lines.append(f"  {outcome.state:13} {requirement}  {outcome.reason}")
        left = len(outcomes) - _MOST_LINES
        if left > 0:
            lines.append(f"  and {left} more, which junit=FILE holds")
        return "\n".join([*lines, "", f"Gate: {self.title}.", *self.notes])

    def write(self, settings: GateSettings) -> None:
        """Writes the files that are asked for, each whole or not at all; GitHub's own summary keeps
        what it has."""
        from judgebench.report.render import TEMPLATES

        for key, name in settings.files.items():
            path = user_path(name)
            text = TEMPLATES.get_template(_TEMPLATES[key]).render(gate=self)
            with writing(f"{path}:", "; name another file"):
                if name == os.environ.get("GITHUB_STEP_SUMMARY") and path.is_file():
                    text = path.read_text("utf-8") + text
                with atomic(path) as temporary:
                    temporary.write_text(text, "utf-8")


def main() -> None:
    """Decides as the command line says; an error of judgebench itself ends with 2, for Python would
    say 1: failed."""
    try:
        with handle_errors("judgebench gate", "gate"):
            _main()
    except Exception:
        traceback.print_exc()
        sys.exit(2)


@hydra.main(version_base="1.3", config_path=str(FOLDER), config_name="gate")
def _main(config: DictConfig) -> None:
    with as_sentence():
        # 1. the settings and the card
        check_one_run(HydraConfig.get())
        config = settle(config)
        check_labels(config)
        settings = GateSettings(*(config.get(field.name) for field in fields(GateSettings)))
        if OmegaConf.is_missing(config, "card"):
            raise UserError(no_card())
        card = JudgeCard.read(path_of(config, "card"), settings.trust_judge)
        # these take a second to import
        from judgebench.cards.requirements import Outcome, requirements_of
        from judgebench.results.schema import run_inputs

        required = requirements_of(plain(config.get("require")), card)
        inputs = [*inputs_of(config), *card.inputs()]
        inputs += [
            *run_inputs(path_of(config, "run_dir")),
            store_of(path_of(config, "store"), inputs),
        ]
        check_outputs(
            [(f"{key}={name}", user_path(name)) for key, name in settings.files.items()], inputs
        )
        # 2. the measurement; a mistake stands in the files, too
        try:
            decision = _measured(config, card, settings, required)
        except UserError as error:
            why = " ".join(error.sentences)
            outcomes = [
                Outcome(name, str(bound), "not measured", why) for name, bound in required.items()
            ]
            Decision(f"{card.title}.", outcomes).write(settings)
            raise
        if decision is None:  # a dry run, or a process that only helped to read
            return
        decision.write(settings)
        log.info("The gate: %s.", decision.title)
        scores = score_command(config, path_of(config, "card"))
        print_safely(decision.terminal(), f"Score texts, as {scores}", decision.folder)
    sys.exit(decision.code)


def _measured(
    config: DictConfig, card: JudgeCard, settings: GateSettings, required: dict[str, str | float]
) -> Decision | None:
    """The decision of a run of the card's judge on the labelled texts; `UserError` where there
    cannot be one."""
    from judgebench.cards.calibration import scores_in_card, share_in_card
    from judgebench.cards.judge import check_models
    from judgebench.cards.requirements import (
        Measured,
        by_changes,
        drifts,
        more_low_rated,
        not_required,
        outcomes_of,
        untested,
    )

    # 1. the run
    parts = check_config(_run_of(config, card, settings, required))
    parts = replace(parts, data=data_of(parts))
    classes = parts.data.classes.get(card.dimension, Classes())
    if card.decision is not None and classes.pass_from is None:
        raise UserError(
            "data: the card's judge says {fail} or {pass}, and these labels do not say which texts "
            "pass; name the worst label that does, as data.pass_from=4, or two classes, worst "
            "first, as data.classes=[fail,pass].".format(**card.decision)
        )
    # 2. what can be noticed, which may be a reason to stop
    scores = scores_in_card(card, parts.data) if settings.paired else None
    ahead = "" if settings.drift == "off" else _noticed(card, parts.data, scores)
    if ahead:
        print_safely(ahead)
    results = run_checked(parts)
    if results is None:
        return None
    if settings.check_models:
        compared = (
            f"measure the one here and compare it with the card: {command_line()} "
            "check_models=false"
        )
        check_models(card, results.environment["model_fingerprints"], compared)
    # 3. the outcomes
    measured = Measured(results, card, config.metrics)
    outcomes = outcomes_of(required, measured.verdict, measured.figures, measured.reason)
    changes = measured.changes(scores)
    if config.get("require") is None:
        outcomes = by_changes(outcomes, card, changes)
    if settings.drift != "off":
        outcomes += drifts(changes, settings.drift)
    # 4. the decision, in sentences
    groups_of = measured.rows["group_id"].to_numpy(dtype=str)
    human = measured.rows["human"].to_numpy(dtype=float)
    tested = settings.drift == "off" or scores is not None or measured.reason is not None
    share = share_in_card(card, parts.data)
    notes = [
        say("card", part="may", card=card, force=None),
        "" if tested else untested(card, changes),
        say("gate", part="flattered", share=share, paired=settings.paired),
        more_low_rated(card, human, groups_of, **config.metrics),
        not_required(required, card, measured.verdict),
    ]
    count = len(set(groups_of))
    head = f"{card.title}: {len(groups_of)} texts of {count} {results.groups}."
    return Decision(head, outcomes, list(filter(None, notes)), results.folder, ahead)


def _noticed(card: JudgeCard, data: RatingDataset, scores: Mapping[str, float] | None) -> str:
    """A sentence on the changes that these texts can show, of those that the card has scored too
    where `scores` says which; empty where the card does not say."""
    from judgebench.cards.requirements import noticed
    from judgebench.data.dataset import rated

    compared = [
        example
        for example in rated(data.examples, card.dimension)
        if scores is None or example.example_id in scores
    ]
    groups = {example.group_id for example in compared}
    return noticed(card, len(groups), data.groups_are, scores is not None)


def _run_of(
    config: DictConfig, card: JudgeCard, settings: GateSettings, required: dict[str, str | float]
) -> DictConfig:
    """The configuration of a run of the card's judge on the labelled texts, of which nothing is
    learned or tuned."""
    from judgebench.cards.judge import check_places, check_settings, parts_of

    # 1. the card's judge, or what it has said of these texts
    data = _labelled(config, card)
    overridden = {role: plain(config[role]) for role in ("judge", "assistant")}
    if settings.check_models:
        check_settings(card, overridden)
    parts = parts_of(card, overridden, plain(config.send_to))
    if settings.readings is not None:
        for role in ("judge", "assistant") if card.series["judge"] == "pair" else ("judge",):
            recorded = plain(OmegaConf.load(FOLDER / role / "recorded.yaml"))
            del recorded["defaults"]
            parts[role] = {**recorded, "path": settings.readings}
    check_places(
        card, parts, "; or give the judge's recorded readings of these texts, as readings=FILE"
    )
    # 2. what is measured and shown
    attacks = plain(config.attacks) or []
    if not attacks and "resist_attacks" in required:
        attacks = [row["attack"] for row in card.attacks]
    run = {
        **parts,
        "data": data,
        "name": "gate",
        "run_dir": str(path_of(config, "run_dir")),
        "attacks": ["none", *attacks],
        "audit": [ALL] if "steady" in required else None,
        "report": config.report,
        "examples": config.report,
        "print": "none",
        "metrics": {"levels": ["dataset"], **plain(config.metrics)},
        **{key: plain(config[key]) for key in ("store", "dry_run", "trainer")},
    }
    if card.decision is not None:  # its own marks are measured
        mark = card.range.mirrored(card.decision["pass_mark"])
        run["costs"] = card.decision["costs"] | {"threshold": mark}
        run["ask"] = {"error": card.decision["error"] or RATER}
    # all else is as usual in a run
    usual: Any = OmegaConf.load(FOLDER / "config.yaml")
    others = {key: usual._get_node(key) for key in usual if key not in ("defaults", "hydra")}
    return OmegaConf.create({**others, **literal(run)})


def _labelled(config: DictConfig, card: JudgeCard) -> Record:
    """The key `data`, of which all texts are reported, on the card's scale."""
    data: Record = plain(config.data)
    data["dimensions"] = [card.dimension]
    if "dev_share" in data:
        data["dev_share"] = 0
    decision = card.decision or {"fail": "fail", "pass": "pass"}
    classes = [decision["fail"], decision["pass"]]
    unmarked = data.get("scale") is None and data.get("pass_from") is None
    # fail and pass are also the names of what lies below a mark of ratings, and above it
    if unmarked and "classes" in data and card.ends == (0, 1) and classes != ["fail", "pass"]:
        data["classes"] = data["classes"] or classes
    elif "scale" in data and data["scale"] is None and card.ends is not None:
        data["scale"] = list(card.ends)
    scale = data.get("scale")
    card.check_task(None, scale if isinstance(scale, list) else None)
    return data


if __name__ == "__main__":
    main()
