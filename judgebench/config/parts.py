"""The parts that a configuration describes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

from hydra.core.hydra_config import HydraConfig
from hydra.errors import InstantiationException
from hydra.types import RunMode
from hydra.utils import get_object
from omegaconf import DictConfig
from omegaconf.errors import InterpolationToMissingValueError

from judgebench.attacks import Attack, LearnedPhrase
from judgebench.attacks.search import AdvSuffix
from judgebench.data.dataset import DEV, RatingDataset, Rivals, rated
from judgebench.decoding.rules import Decodings
from judgebench.defenses import Defense, Planned
from judgebench.judges.assistants import Assistant
from judgebench.judges.local.ray_runner import RayRunner
from judgebench.judges.spec import JUDGES, LOCAL, JudgeSettings
from judgebench.probes import Probe
from judgebench.prompts.builder import NO_DEFENSE
from judgebench.settings.components import TARGET, build_component
from judgebench.settings.costs import Asking, Costs
from judgebench.settings.fields import known_keys, plain
from judgebench.settings.margins import Margins
from judgebench.settings.metrics import Ranking
from judgebench.tuning.tune import check_tuning
from judgebench.tuning.tuners import CrossFit, Tuner
from judgebench.types import ORDERS, Condition, RatingKey
from judgebench.words.errors import UserError, reason


@dataclass
class JudgeParts:
    """Parts of a judge and of what it is asked under, each checked by its class, and together by
    the rules; of a run, and of a judge card by itself.

    Attributes:
        decodings: by name.
        cells: every dimension in every range.
        attacks: `none` first, those of phrases that were learned elsewhere last.
        defenses: in the configured order; those that are `Planned` are not ready yet.
        prompt: conf/prompt without its keys on rivals, which are `rivals`.
        probes: those that are asked; their parts are among attacks and defenses.
    """

    judge: JudgeSettings
    assistant: Assistant
    decodings: Decodings
    cells: Sequence[RatingKey] = ()
    attacks: Sequence[Attack] = ()
    defenses: Sequence[Defense] = ()
    prompt: Any = None
    rivals: Rivals | None = None
    probes: Sequence[Probe] = ()

    @property
    def place(self) -> str:
        """`LOCAL`, `SERVED`, `REPLAYED` or `RECORDED`."""
        return next(place for place in JUDGES if place in self.judge.capabilities)

    @property
    def computes(self) -> bool:
        """True where models are read here: the judge, its assistant, or those of defenses."""
        planned = any(isinstance(defense, Planned) for defense in self.defenses)
        return LOCAL in self.judge.capabilities or self.assistant.source is not None or planned

    @property
    def dimensions(self) -> list[str]:
        """Qualities that are judged, each once."""
        return list(dict.fromkeys(dimension for dimension, _ in self.cells))

    @property
    def contrasting(self) -> list[str]:
        """Names of the decodings that need an assistant."""
        return [name for name, decoding in self.decodings.items() if decoding.needs_assistant]

    @property
    def thinking(self) -> list[str]:
        """Names of the defenses under which candidates are read behind the judge's thoughts."""
        return [defense.name for defense in self.defenses if defense.thought_tokens]

    def all_conditions(self) -> list[Condition]:
        """Every cell under every attack and every defense, and where texts are compared in both
        orders; a probe by itself, in the first range."""
        first = self.cells[0][1] if self.cells else None
        probed = [probe.part.name for probe in self.probes]
        conditions = [
            Condition(dimension, score_range, attack.name, defense.name, order)
            for dimension, score_range in self.cells
            for attack in self.attacks
            for defense in self.defenses
            for order in (ORDERS if self.rivals else ("",))
        ]

        def alone(condition: Condition) -> bool:
            names = {condition.attack, condition.defense}
            if names.isdisjoint(probed):
                return True
            # beside a probe all is as it was
            return condition.range == first and NO_DEFENSE in names

        return [condition for condition in conditions if alone(condition)]


@dataclass(kw_only=True)
class Parts(JudgeParts):
    """Parts of an experiment.

    Attributes:
        config: complete, see `judgebench.config.defaults`.
        learned: the attack by a phrase that is learned, or that an earlier run has learned; None
            without either, and once there are `phrases`.
        tuner: chooses lambda and t; None where they are as configured.
        data: which `data_of` reads.
    """

    config: DictConfig
    learned: AdvSuffix | None = None
    phrases: Sequence[LearnedPhrase] = ()
    tuner: Tuner | None = None
    ranking: Ranking = field(default_factory=Ranking)
    margins: Margins = field(default_factory=Margins)
    costs: Costs = field(default_factory=Costs)
    asking: Asking = field(default_factory=Asking)
    runner: RayRunner | None = None
    data: Any = None

    @property
    def computes(self) -> bool:
        """True where models are read here, be it by a search alone."""
        return super().computes or self.search is not None

    @property
    def search(self) -> AdvSuffix | None:
        """The way in which a phrase is learned; None where none is, or all are."""
        learned = self.learned
        return learned if learned is not None and learned.phrase_file is None else None

    @property
    def chooses(self) -> bool:
        """True where a tuner chooses lambda and t of decodings that stay what they are."""
        return self.tuner is not None and not isinstance(self.tuner, CrossFit)

    @property
    def needs_dev(self) -> bool:
        """True where a tuner, a search, a defense, a threshold for ties or a sweep chooses by the
        development split."""
        choosing = [self.tuner, self.search, *self.defenses]
        swept = HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN
        return (
            swept
            or self.rivals is not None
            or any(part is not None and part.needs_dev for part in choosing)
        )

    def with_phrases(self, phrases: Sequence[LearnedPhrase]) -> Self:
        """The same with phrases that were learned since, as one more attack for each of their
        lengths; `UserError` where two attacks share a name."""
        attacks = [*self.attacks, *(attack for phrase in phrases for attack in phrase.attacks())]
        names = [attack.name for attack in attacks]
        if twice := [name for i, name in enumerate(names) if name in names[:i]]:
            raise UserError(
                f"attacks: {twice[0]!r} is what a learned phrase is called; give your own file "
                "another name."
            )
        return replace(
            self,
            attacks=attacks,
            phrases=[*self.phrases, *phrases],
            learned=None if phrases else self.learned,
        )

    def tuner_of(self, data: RatingDataset) -> Tuner | None:
        """The tuner of lambda and t, which fits; None where they are as configured."""
        tuner = self.tuner
        if tuner is None:
            return None
        models = (self.judge.name, self.assistant.name)
        check_tuning(
            tuner, self.decodings, self.judge.mode, set(data.split.values()), self.cells, models
        )
        tuned = tuner.decodings or self.contrasting
        if both := [name for name in (self.search.against if self.search else ()) if name in tuned]:
            raise UserError(
                f"attacks: adv_suffix.against: a phrase against {both[0]} would be learned before "
                f"tune={tuner.name} has chosen lambda and t; add tune=none, and set "
                "decoding.lambda and decoding.temperature."
            )
        if tuner.needs_dev:
            refuse_unrated(
                data,
                self.dimensions,
                DEV,
                f"tune={tuner.name}: none of the {{groups}} of the development split has a human "
                "score for {name!r}, so there is nothing to choose by; give it more with "
                "data.dev_share=0.5, draw others with data.seed=1, or rate some of them.",
            )
        return tuner


def refuse_unrated(
    data: RatingDataset, dimensions: Sequence[str], split: str, sentence: str
) -> None:
    """Refuses dimensions on which no text of a split is rated."""
    unrated = [
        name
        for name in dimensions
        if not any(data.split[example.group_id] == split for example in rated(data.examples, name))
    ]
    if unrated:
        raise UserError(*(sentence.format(groups=data.groups_are, name=name) for name in unrated))


def class_of(node: Mapping[Any, Any]) -> type:
    """The class that an entry names; `object` where it names none that is here."""
    with suppress(Exception):  # of any module that cannot be imported
        named = get_object(node[TARGET])
        if isinstance(named, type):
            return named
    return object


def built(config: Mapping[Any, Any], key: str, kind: Any) -> Any:
    """The part that a group of a configuration, or of a judge card, describes, checked by its
    class; None where the group is null."""
    node = config.get(key)
    if node is None:
        return None
    target = node.get(TARGET) if isinstance(node, Mapping) else None
    try:
        if isinstance(target, str):
            maker: Any = get_object(target)
            parameters = inspect.signature(maker).parameters.values()
            names = [
                parameter.name
                for parameter in parameters
                if parameter.kind != inspect.Parameter.VAR_KEYWORD
            ]
            if len(names) == len(parameters):
                known_keys([name for name in node if not str(name).startswith("_")], names, key)
        made = build_component(node)
    except InterpolationToMissingValueError:  # another part's key is not given, and is named there
        raise
    except (InstantiationException, ImportError, ValueError) as error:
        cause = error.__cause__ if isinstance(error, InstantiationException) else None
        raise UserError(f"{key}: {target!r} gives nothing ({reason(cause or error)}).") from error
    if not isinstance(made, kind):
        raise UserError(
            f"{key}: {plain(node)!r} is not what this group takes; conf/{key} has what is."
        )
    return made
