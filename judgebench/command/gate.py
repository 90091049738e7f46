"""The command line: `python -m judgebench gate card=FILE data.path=LABELS`, a judge that passes,
fails or cannot be measured: exit codes 0, 1 and 2."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from judgebench.cards.card import JudgeCard, no_card
from judgebench.command.cli import handle_errors, run_checked
from judgebench.config.check import check_config, check_labels, data_of
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
from judgebench.types import Classes
from judgebench.words.errors import UserError
from judgebench.words.formats import in_groups, say
from judgebench.words.terminal import print_safely

if TYPE_CHECKING:
    from judgebench.cards.requirements import Outcome

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
        lines.append("")
        lines.append(f"Gate: {self.title}.")
        return "\n".join([*lines, *self.notes])

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
        settle(config)
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
        inputs += [*run_inputs(path_of(config, "run_dir")), store_of(config, inputs)]
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
        Change,
        Outcome,
        by_changes,
        card_figures,
        changes_of,
        figures_of,
        more_low_rated,
        not_required,
        noticed,
        outcomes_of,
        paired_changes,
        untested,
    )
    from judgebench.data.dataset import rated
    from judgebench.studies.decisions import CHOSEN
    from judgebench.studies.scores import first_record

    # 1. the run
    parts = check_config(_run_config(config, card, settings, required))
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
    groups = {
        example.group_id
        for example in rated(parts.data.examples, card.dimension)
        if scores is None or example.example_id in scores
    }
    ahead = ""
    if settings.drift != "off":
        ahead = noticed(card, len(groups), parts.data.groups_are, scores is not None)
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
    verdict = [
        {**row, "clause": in_groups(row["clause"], results.groups)} for row in results.verdict
    ]
    # 3. what it says of the card's judge, on clean texts that humans rated
    judge = card.series["judge"]
    place = {"level": "dataset", "attack": "none", "judge": judge}
    metric = next((row for row in results.metrics if place.items() <= row.items()), None)
    rows = results.scores
    rows = rows[(rows["attack"] == "none") & (rows["judge"] == judge) & rows["human"].notna()]
    decision = first_record(results.decisions, {"judge": judge, "mark": CHOSEN})
    # 4. the outcomes; where the texts do not do, the verdict says the same of all uses that they
    # decide
    clauses = {row["clause"] for row in verdict if row["use"] != "resist_attacks"}
    reason = None
    figures = {}
    if metric is None or not clauses:
        reason = f"too few rated {results.groups}"
    elif len(clauses) == 1:
        reason = clauses.pop()
    else:
        figures = figures_of(card, verdict, metric, rows, decision, **config.metrics)
    outcomes = outcomes_of(required, verdict, figures, reason)
    changes: list[Change] = []
    if reason is None and scores is not None:
        changes = paired_changes(card, rows, scores, **config.metrics)
    elif reason is None:
        changes = changes_of(card_figures(card), figures)
    may = say("card", part="may", card=card, force=None)
    lacking = ""
    if config.get("require") is None:
        outcomes = by_changes(outcomes, card, changes)
    if settings.drift != "off":
        worse = {"fail": "failed", "warn": "warning"}[settings.drift]
        for change in changes:
            state = worse if change.worse else "passed"
            outcomes.append(Outcome(f"drift_{change.name}", "within chance", state, str(change)))
        if scores is None and reason is None:
            lacking = untested(card, changes)
    # 5. the decision
    share = share_in_card(card, parts.data)
    flattered = ""
    if share:
        texts = "These texts" if share == 1 else f"{100 * share:.3g} % of these texts"
        harder = "" if settings.paired else ", and a drift is harder to see"
        flattered = f"{texts} made the card: its verdicts flatter it here{harder}."
    human = rows["human"].to_numpy(dtype=float)
    articles = rows["group_id"].to_numpy(dtype=str)
    low = more_low_rated(card, human, articles, **config.metrics)
    left_out = not_required(required, card, verdict)
    notes = list(filter(None, [may, lacking, flattered, low, left_out]))
    head = f"{card.title}: {len(rows)} texts of {rows['group_id'].nunique()} {results.groups}."
    return Decision(head, outcomes, notes, results.folder, ahead)


def _run_config(
    config: DictConfig, card: JudgeCard, settings: GateSettings, required: dict[str, str | float]
) -> DictConfig:
    """The configuration of the card's judge on the labelled texts."""
    from judgebench.cards.judge import check_places, check_settings, scoring_config

    # 1. the texts, all of which are reported, on the card's scale
    data = plain(config.data)
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
    # 2. the card's judge, or what it has said of these texts
    overridden = {role: plain(config[role]) for role in ("judge", "assistant")}
    if settings.check_models:
        check_settings(card, overridden)
    machine = {name: plain(config[name]) for name in ("store", "send_to", "dry_run")}
    whole = scoring_config(card, data, overridden=overridden, trainer=config.trainer, **machine)
    if settings.readings is not None:
        roles = ["judge"]
        if card.series["judge"] == "pair":
            roles.append("assistant")
        for role in roles:
            whole[role] = {
                **OmegaConf.load(FOLDER / role / "recorded.yaml"),
                "path": literal(settings.readings),
            }
            del whole[role]["defaults"]
    check_places(
        card, whole, "; or give the judge's recorded readings of these texts, as readings=FILE"
    )
    # 3. what is measured and shown
    attacks = plain(config.attacks) or []
    if not attacks and "resist_attacks" in required:
        attacks = [row["attack"] for row in card.attacks]
    changed = {
        "name": "gate",
        "run_dir": str(path_of(config, "run_dir")),
        "attacks": ["none", *attacks],
        "report": config.report,
        "examples": config.report,
        "human_agreement": True,
        "print": "none",
    }
    if card.decision is not None:  # its own marks are measured
        changed |= {
            "costs": card.decision["costs"]
            | {"mark": card.range.mirrored(card.decision["pass_mark"])},
            "ask": {"error": card.decision["error"] or RATER},
        }
    whole.merge_with(literal(changed), {"metrics": config.metrics})
    return whole


if __name__ == "__main__":
    main()
