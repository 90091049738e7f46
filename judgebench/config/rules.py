"""Rules of what may be combined with what: one list for settings, one for models, one for texts, each walked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from judgebench.config.keys import list_at, origin, typed, typed_overrides
from judgebench.decoding.rules import Decoding
from judgebench.judges.assistants import Assistant
from judgebench.judges.spec import (
    GRADIENT,
    LOCAL,
    LOG_PROBABILITIES,
    PROBABILITIES,
    RECORDED,
    REPLAYED,
    SERVED,
    TOKENS,
    JudgeSettings,
)
from judgebench.runtime.errors import Mistakes
from judgebench.types import PLACES, PLACES_OR_TIE, TIE, ScoreRange

if TYPE_CHECKING:
    from judgebench.attacks.search import AdvSuffix
    from judgebench.data.dataset import Rivals
    from judgebench.data.module import JudgeDataModule
    from judgebench.defenses import Defense
    from judgebench.prompts.builder import PromptBuilder

NEED_TUTOR = ("cap", "w_cap", "random_reference")
NEED_HELPER = ("perplexity", "windowed_perplexity", "classifier", "llm_detector", "paraphrase")
"""Names of defenses, known here without torch: by references, and by a model that helps."""

TUNERS = ("dev", "exact", "published", "shared")
_HYPERPARAMETERS = ("decoding.lambda", "decoding.temperature")


@dataclass(frozen=True)
class Rule:
    """A need: if `when` holds, the judge must give what the rule needs.

    Attributes:
        when: whether the rule applies; or the names of what it applies to.
        needs: a member of `JudgeSettings.gives`, or a test; None where `when` is a mistake by itself.
        message: the mistake and its remedy, with `{names}`, `{name}` (the first of them) and `{asked}`.
        keys: those that contradict each other; the message then says who has set them.
    """

    when: Callable[[Any], bool | Sequence[Any]]
    needs: str | Callable[[Any], bool] | None
    message: str
    keys: Sequence[str] = ()

    def check(self, asked: Any, mistakes: Mistakes) -> None:
        names = self.when(asked)
        if not names or (self.needs is not None and self._kept(asked)):
            return
        named = [str(name) for name in names] if not isinstance(names, bool) else [""]
        sentence = self.message.format(names=", ".join(named), name=named[0], asked=asked)
        mistakes.add(" ".join([sentence, *origin(asked.config, self.keys)]))

    def _kept(self, asked: Any) -> bool:
        return self.needs(asked) if callable(self.needs) else self.needs in asked.judge.gives


@dataclass(frozen=True)
class Asked:
    """The parts of a configuration that are known before torch is imported.

    Attributes:
        decodings: by name.
        search: how a phrase is learned; None where none is, or it is not known yet.
    """

    config: DictConfig
    judge: JudgeSettings
    assistant: Assistant
    decodings: Mapping[str, Decoding]
    search: AdvSuffix | None = None

    @property
    def contrasting(self) -> list[str]:
        """Names of the decodings that need an assistant."""
        return [name for name, decoding in self.decodings.items() if decoding.needs_assistant]

    @property
    def assistants(self) -> str:
        """The assistants that the judge can have."""
        if RECORDED in self.judge.gives:
            return "assistant=recorded, where judge.path has the readings of one"
        if SERVED in self.judge.gives:
            return "assistant=api or assistant=null_context"
        return "assistant=model, assistant=early_exit or assistant=null_context"

    @cached_property
    def defenses(self) -> list[Any]:
        return list_at(self.config, "defenses")

    @cached_property
    def tune(self) -> str:
        """The tuner; empty where nothing is tuned."""
        node = self.config.get("tune")
        return str(node.get("_target_")).rpartition(".")[2].lower() if isinstance(node, DictConfig) else ""

    @property
    def all_tuned(self) -> bool:
        """True if every decoding that contrasts is tuned."""
        return bool(self.tune) and self.config.tune.get("decodings") is None

    @property
    def wanted_tune(self) -> str:
        """The tuner that the command line asks for, where another is taken; else empty."""
        given = typed("tune")
        if given in ("", "none", "null"):
            return ""
        other = given in TUNERS and self.tune in TUNERS and given != self.tune
        return given if other or not self.tune else ""

    @property
    def taken_tune(self) -> str:
        return self.tune or "none"

    @property
    def same_answers(self) -> str:
        """The source that all decodings would read, where the judge gives answers."""
        return "judge=replay" if REPLAYED in self.judge.gives else "judge.scores_from=text"

    @property
    def learns(self) -> bool:
        return str(OmegaConf.select(self.config, "attack._target_")).endswith(".AdvSuffix")

    @property
    def model_type(self) -> str:
        """The kind of the judge's model, as transformers calls it."""
        return str(self.judge.source.config().model_type)

    @property
    def twos(self) -> tuple[str, str]:
        """Kinds of the judge and the assistant, where one is an encoder-decoder model and the other is not."""
        kinds = ("an encoder-decoder", "a decoder-only")
        return kinds if self.judge.source.encoder_decoder else kinds[::-1]


SETTINGS = (
    # judge and assistant
    Rule(
        lambda a: a.assistant.kind in ("model", "early_exit") and SERVED in a.judge.gives,
        LOCAL,
        "assistant={asked.assistant.kind}: the judge is served, and its layers and a model here cannot be read beside "
        "it; take assistant=api, a second model behind a URL, assistant=null_context or assistant=none.",
        ("judge", "assistant"),
    ),
    Rule(
        lambda a: a.assistant.kind == "api",
        SERVED,
        "assistant=api: a served assistant goes with a served judge; take judge=api, or a model here with "
        "assistant=model.",
        ("judge", "assistant"),
    ),
    Rule(
        lambda a: a.assistant.kind not in ("none", "api", "recorded") and RECORDED in a.judge.gives,
        None,
        "assistant={asked.assistant.kind}: judge=recorded computes nothing, and has the readings of the assistant that "
        "was read with it; take assistant=recorded, or assistant=none.",
        ("judge", "assistant"),
    ),
    Rule(
        lambda a: a.assistant.kind == "recorded",
        lambda a: RECORDED in a.judge.gives and a.assistant.recording.path == a.judge.recording.path,
        "assistant=recorded: it stands in the file of judge=recorded; take both of one file, or another assistant.",
        ("judge", "assistant"),
    ),
    Rule(
        lambda a: a.assistant.kind not in ("none", "api", "recorded") and REPLAYED in a.judge.gives,
        PROBABILITIES,
        "assistant={asked.assistant.kind}: judge=replay has answers and no probabilities to contrast with; take "
        "assistant=none.",
        ("judge", "assistant"),
    ),
    Rule(
        lambda a: a.assistant.kind == "null_context" and SERVED in a.judge.gives,
        LOG_PROBABILITIES,
        "assistant=null_context: it is asked for log-probabilities, so it needs judge.scores_from=logprobs.",
        ("judge", "assistant"),
    ),
    # decodings
    Rule(
        lambda a: a.assistant.kind == "none" and REPLAYED not in a.judge.gives and a.contrasting,
        None,
        "decoding {names}: needs an assistant; choose one with {asked.assistants}.",
        ("decoding", "assistant"),
    ),
    Rule(
        lambda a: (
            {LOCAL, RECORDED} & a.judge.gives and [n for n, decoding in a.decodings.items() if not decoding.generates]
        ),
        PROBABILITIES,
        "decoding {names}: reads the candidates' probabilities, which judge.mode=generate does not give; choose "
        "decoding=[greedy] or judge.mode=score_tokens.",
        ("decoding", "judge.mode"),
    ),
    Rule(
        lambda a: SERVED in a.judge.gives and [n for n, decoding in a.decodings.items() if decoding.kind != "greedy"],
        PROBABILITIES,
        "decoding {names}: reads the candidates' probabilities, which judge.scores_from=text does not give; choose "
        "decoding=[greedy], or judge.scores_from=logprobs or samples.",
        ("decoding", "judge.scores_from"),
    ),
    Rule(
        lambda a: SERVED in a.judge.gives and PROBABILITIES in a.judge.gives and a.contrasting,
        LOG_PROBABILITIES,
        "decoding {names}: shares of {asked.judge.samples} samples are 0 for most candidates, and their logarithms are "
        "nothing to contrast; take judge.scores_from=logprobs, or decoding=[greedy,expectation].",
        ("decoding", "judge.scores_from"),
    ),
    Rule(
        lambda a: REPLAYED in a.judge.gives and [n for n, decoding in a.decodings.items() if decoding.kind != "greedy"],
        PROBABILITIES,
        "decoding {names}: judge=replay has answers and no probabilities to decode; take decoding=[greedy].",
        ("decoding", "judge"),
    ),
    Rule(
        lambda a: {d.kind for d in a.decodings.values()} == {"greedy"} and len(a.decodings) > 1 and [*a.decodings],
        lambda a: bool({LOCAL, RECORDED, PROBABILITIES} & a.judge.gives),
        "decoding: {names} would all read the same answers of {asked.same_answers}; take decoding=[greedy].",
        ("decoding", "judge"),
    ),
    # tuning
    Rule(
        lambda a: bool(a.tune) and REPLAYED in a.judge.gives,
        PROBABILITIES,
        "tune: judge=replay has answers and no probabilities, so there is no lambda or t to choose; take tune=none.",
        ("tune", "judge"),
    ),
    Rule(
        lambda a: a.tune in TUNERS and REPLAYED not in a.judge.gives,
        PROBABILITIES,
        "tune={asked.tune}: a free answer is read under one lambda and t, so there is nothing to choose from; use "
        "judge.mode=score_tokens, or tune=none.",
        ("tune", "judge.mode"),
    ),
    Rule(
        lambda a: a.tune in TUNERS and PROBABILITIES in a.judge.gives and not a.contrasting,
        None,
        "tune={asked.tune}: no decoding contrasts; choose one, as decoding=[greedy,contrastive], or tune=none.",
        ("tune", "decoding"),
    ),
    Rule(
        lambda a: a.tune in TUNERS and "none" not in a.defenses,
        None,
        "tune={asked.tune}: lambda and t are chosen on texts without a defense, and then serve the others too; add "
        "none to defenses, or add tune=none.",
        ("tune", "defenses"),
    ),
    Rule(
        lambda a: a.all_tuned and [one for one in typed_overrides() if one.lstrip("+").startswith(_HYPERPARAMETERS)],
        None,
        "{name}: tune={asked.tune} chooses lambda and t, so this would change nothing; add tune=none.",
    ),
    Rule(
        lambda a: a.wanted_tune,
        None,
        "tune={asked.wanted_tune}: the sweep that is taken too sets tune={asked.taken_tune}, so this would change "
        "nothing; leave one of the two out.",
    ),
    # defenses and attacks
    Rule(
        lambda a: a.config.get("tutor") is not None and SERVED in a.judge.gives,
        LOCAL,
        "tutor: references are scored while they are made, which is not done with a served judge; take tutor=none.",
        ("tutor", "judge"),
    ),
    Rule(
        lambda a: a.config.get("tutor") is not None and bool(a.judge.computes_nothing),
        LOCAL,
        "tutor: {asked.judge.computes_nothing}, so nobody needs references; take tutor=none.",
        ("tutor", "judge"),
    ),
    Rule(
        lambda a: SERVED in a.judge.gives and [name for name in a.defenses if name in NEED_TUTOR],
        LOCAL,
        "defenses: {names} needs references that are scored while they are made, which is not done with a served "
        "judge; leave it out.",
        ("defenses", "judge"),
    ),
    Rule(
        lambda a: SERVED in a.judge.gives and "retokenization" in a.defenses,
        TOKENS,
        "defenses: retokenization is a matter of tokens, and judge.protocol=chat sends text; leave it out, or take "
        "judge.protocol=completions with judge.tokenizer.",
        ("defenses", "judge"),
    ),
    Rule(
        lambda a: SERVED in a.judge.gives and [name for name in a.defenses if name in NEED_HELPER],
        lambda a: OmegaConf.select(a.config, "defense.helper.path") is not None,
        "defenses: {names} needs a model here, and the judge is served; name one with defense.helper.path=DIR (and "
        "defense.helper.gguf_file=), or leave it out.",
        ("defenses", "judge"),
    ),
    Rule(
        lambda a: a.judge.computes_nothing and [name for name in a.defenses if name in (*NEED_TUTOR, *NEED_HELPER)],
        LOCAL,
        "defenses: {name} must compute something, and {asked.judge.computes_nothing}; leave it out. Answers that were "
        "given under a defense of your own go by the name of its template, as in {{template: FILE.txt, name: mine}}.",
        ("defenses", "judge"),
    ),
    Rule(
        lambda a: a.learns and bool(a.judge.computes_nothing),
        LOCAL,
        "attack: a phrase is learned by asking the judge, and {asked.judge.computes_nothing}; take attack=none, or "
        "attack=phrase for answers to texts with a phrase that was learned elsewhere.",
        ("attack", "judge"),
    ),
    Rule(
        lambda a: a.learns and SERVED in a.judge.gives,
        LOCAL,
        "attack: a phrase is learned by asking a model here many thousand times, and the judge is served; take "
        "attack=none, or attack=phrase with one that was learned on another judge.",
        ("attack", "judge"),
    ),
)
"""Rules of an `Asked` that are checked within a second."""

MODELS = (
    Rule(
        lambda a: a.search is not None and a.search.search.takes_gradient,
        GRADIENT,
        "search: the gradient needs judge.engine=prefix; or take search=exhaustive or search.shortlist=1.",
    ),
    Rule(
        lambda a: a.search is not None and a.search.search.takes_gradient and a.judge.source.encoder_decoder,
        None,
        "search: the gradient needs a decoder-only judge, and this one is an encoder-decoder model "
        "({asked.model_type}); take search=exhaustive or search.shortlist=1.",
    ),
    Rule(
        lambda a: a.assistant.source is not None and LOCAL in a.judge.gives,
        lambda a: a.assistant.source.encoder_decoder == a.judge.source.encoder_decoder,
        "assistant.path={asked.assistant.source.path}: {asked.assistant.source.title} is {asked.twos[1]} model and the "
        "judge {asked.twos[0]} one; choose an assistant of the judge's family.",
    ),
    Rule(
        lambda a: a.assistant.kind == "early_exit",
        lambda a: not a.judge.source.encoder_decoder,
        "assistant=early_exit: the judge is an encoder-decoder model ({asked.model_type}), which is read after its "
        "last layer alone; choose assistant=model with a smaller one of its family, or assistant=null_context.",
    ),
)
"""Rules of an `Asked` once its models' configurations can be read."""


@dataclass(frozen=True)
class AskedTexts:
    """The texts that are judged, once data and rubrics are read.

    Attributes:
        rivals: the texts that meet, where rubrics compare two.
        defenses: in the configured order.
    """

    asked: Asked
    data: JudgeDataModule
    builder: PromptBuilder
    rivals: Rivals | None
    ranges: Sequence[ScoreRange]
    defenses: Sequence[Defense]

    @property
    def config(self) -> DictConfig:
        return self.asked.config

    @property
    def shown_ranges(self) -> str:
        return ", ".join(map(str, self.ranges))

    @property
    def compares(self) -> bool:
        return self.builder.comparative


TEXTS = (
    Rule(
        lambda t: t.data.paired,
        lambda t: t.compares,
        "data: each row of {asked.data.name} is two texts, and these rubrics judge one alone; choose "
        "prompt=comparative.",
        ("data", "prompt"),
    ),
    Rule(
        lambda t: (
            t.data.paired
            and [one for one in typed_overrides() if one.lstrip("+").startswith(("prompt.rivals=", "prompt.rivals_"))]
        ),
        None,
        "{name}: {asked.data.name} says itself who meets whom, so this would change nothing; leave it out.",
    ),
    Rule(
        lambda t: t.compares and [defense.name for defense in t.defenses if not defense.compares],
        None,
        "defenses: {name} is for texts that are judged alone, and these rubrics compare two; leave it out, or choose "
        "prompt=cap or prompt=paper.",
        ("defenses", "prompt"),
    ),
    Rule(
        lambda t: t.compares,
        lambda t: t.rivals is not None,
        "prompt.rivals is not given, and these rubrics compare two texts; choose prompt=comparative, with "
        "prompt.rubrics=FOLDER for rubrics of your own.",
    ),
    Rule(
        lambda t: t.rivals is not None and not t.data.paired,
        lambda t: t.compares,
        "prompt.rivals: these rubrics judge one text alone, so there is nothing to compare it with; name rubrics with "
        "{{{{Summary_1}}}} and {{{{Summary_2}}}} in prompt.rubrics, or choose prompt=paper.",
    ),
    Rule(
        lambda t: t.compares,
        lambda t: t.ranges in ([PLACES], [PLACES_OR_TIE]),
        "ranges: {asked.shown_ranges} cannot be asked for where two texts are compared: the answer is the place of the "
        "better one; give 'ranges=[[1,2]]', as prompt=comparative does by itself, or 'ranges=[[0,2]]' where 0 is a "
        "tie.",
        ("ranges", "prompt"),
    ),
    Rule(
        lambda t: not t.compares and len(t.ranges) > 1 and t.builder.rangeless,
        None,
        "ranges: {asked.shown_ranges} would all be asked for in the same words, for the rubric for {name!r} does not "
        "name the range; write {{min_range}} and {{max_range}} in it, or give the one range that it speaks of.",
    ),
    Rule(
        lambda t: not t.compares and any(one.worded for one in t.ranges) and t.builder.numbered,
        None,
        "ranges: {asked.shown_ranges} has no numbers, and the rubric for {name!r} speaks of scores between the ends "
        "(quarter_0 to quarter_4, low_score, high_score); give numbers, as in 'ranges=[[1,5]]', or choose prompt=paper "
        "or rubrics with no more than {{min_range}} and {{max_range}}.",
        ("ranges", "prompt"),
    ),
    Rule(
        lambda t: (
            any(one.worded for one in t.ranges) and [defense.name for defense in t.defenses if defense.needs_numbers]
        ),
        None,
        "defenses: {name} tells the judge the numbers of two references, and ranges {asked.shown_ranges} has none; "
        "leave it out, or give numbers, as in 'ranges=[[1,5]]'.",
        ("defenses", "ranges"),
    ),
    Rule(
        lambda t: t.compares and PLACES_OR_TIE in t.ranges and t.builder.tieless,
        None,
        f"ranges: {PLACES_OR_TIE} lets the judge find a tie, and the rubric for {{name!r}} does not say that this is "
        f"answered with {TIE:g}; write so in it, as in {{{{ties:, or 0 if both are equally good}}}}, or give "
        "'ranges=[[1,2]]'.",
    ),
    Rule(
        lambda t: bool(t.asked.tune) and t.compares,
        None,
        "tune={asked.asked.tune}: lambda and t are chosen by the scores of single texts, and here texts are compared; "
        "add tune=none, and set decoding.lambda, or sweep it with -m.",
        ("tune", "prompt"),
    ),
    Rule(
        lambda t: t.asked.search is not None and not t.defenses[0].learnable and [t.defenses[0].name],
        None,
        "defenses: a phrase is learned under the first one, and under {name} its words are not the same tokens before "
        "the same scores in every text; put none first, as in 'defenses=[none,{name}]'.",
        ("defenses", "attack"),
    ),
)
"""Rules of an `AskedTexts`."""


def check_rules(rules: Sequence[Rule], asked: Any, mistakes: Mistakes | None = None) -> None:
    """Adds the mistakes of all broken rules to `mistakes`; without them, raises a `UserError`.

    Args:
        rules: `SETTINGS`, `MODELS` or `TEXTS`.
        asked: an `Asked`, for `TEXTS` an `AskedTexts`.
    """
    found = Mistakes() if mistakes is None else mistakes
    for rule in rules:
        rule.check(asked, found)
    if mistakes is None:
        found.tell()
