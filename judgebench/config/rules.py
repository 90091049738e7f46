"""Rules of combination: a table of what judges give, one of what choices need, and rules of all
else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from judgebench.config.choices import choices
from judgebench.config.keys import typed_overrides, typed_value
from judgebench.defenses.commit import PlannedCommit, own_rubric
from judgebench.defenses.detection import PERPLEXITY, PlannedDetection
from judgebench.defenses.prompts import NONE
from judgebench.defenses.references import REFERENCE_DEFENSES, PlannedReferences
from judgebench.judges.spec import (
    GRADIENT,
    JUDGES,
    LOCAL,
    LOG_PROBABILITIES,
    OWN,
    PANEL,
    PROBABILITIES,
    RECORDED,
    REPLAYED,
    SERVED,
)
from judgebench.prompts.rubrics import names_numbers, names_range, names_tie
from judgebench.runtime.files import NO_STORE
from judgebench.settings.components import entry_name
from judgebench.tuning.tuners import CrossFit
from judgebench.types import PLACES, PLACES_OR_TIE, TIE, Rubric
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    from judgebench.config.parts import JudgeParts, Parts
    from judgebench.data.dataset import RatingDataset
    from judgebench.prompts.builder import PromptBuilder

ASSISTANTS = {
    LOCAL: ("model", "early_exit", "null_context"),
    SERVED: ("api", "null_context"),
    REPLAYED: (),
    PANEL: ("recorded",),
    RECORDED: ("recorded",),
    OWN: (),
}
"""Place of a judge -> the kinds of assistants that can be read with it."""

GIVEN_BY = {
    (LOCAL, PROBABILITIES): ("judge.mode=generate gives a free answer", "judge.mode=score_tokens"),
    (RECORDED, PROBABILITIES): (
        "judge.mode=generate gives a free answer",
        "judge.mode=score_tokens",
    ),
    (LOCAL, GRADIENT): ("judge.engine=plain gives none", "judge.engine=prefix"),
    (OWN, PROBABILITIES): (
        "its class answers in words",
        "a class with probabilities(self, prompt)",
    ),
    (SERVED, PROBABILITIES): (
        "judge.scores_from=text gives one answer",
        "judge.scores_from=logprobs or samples",
    ),
    (SERVED, LOG_PROBABILITIES): (
        "the logarithms of shares of samples, most of them 0, are nothing to contrast",
        "judge.scores_from=logprobs",
    ),
}
"""Place of a judge and what its settings can give -> the setting that does not, and the one that
does."""


@dataclass(frozen=True)
class Need:
    """A choice, and what of `JudgeSettings.capabilities` it needs.

    Attributes:
        choice: names it, with `{}` for the names that `of` gives.
        of: whether parts make the choice; or the names of those that do.
        because: a clause on why it needs that.
        instead: what to choose in its place.
    """

    choice: str
    of: Callable[[Any], bool | Sequence[str]]
    needs: str
    because: str
    instead: str


_REFERENCES = Need(
    "defenses: {}",
    lambda parts: [
        defense.name for defense in parts.defenses if isinstance(defense, PlannedReferences)
    ],
    LOCAL,
    "its references are scored while they are made",
    "another defense",
)

_COMMIT = Need(
    "defenses: {}",
    lambda parts: [
        defense.name for defense in parts.defenses if isinstance(defense, PlannedCommit)
    ],
    LOCAL,
    "its model writes an answer of its own first",
    "another defense, as defenses=[cot]",
)

_DETECTION = Need(
    "defenses: {}",
    lambda parts: [
        defense.name
        for defense in parts.defenses
        if isinstance(defense, PlannedDetection)
        and (parts.place != SERVED or defense.helper is None)
    ],
    LOCAL,
    "a model here must read for it",
    "another defense, or with a served judge a model here, as {name: perplexity, helper: {path: "
    "DIR}}",
)

NEEDS = (
    Need(
        "decoding {}",
        lambda parts: [
            name
            for name, decoding in parts.decodings.items()
            if (
                not decoding.generates
                if parts.place in (LOCAL, RECORDED, OWN)
                else decoding.kind != "greedy"
            )
        ],
        PROBABILITIES,
        "reads the candidates' probabilities",
        "decoding=[greedy]",
    ),
    Need(
        "decoding {}",
        lambda parts: (
            parts.contrasting
            if parts.place == SERVED and PROBABILITIES in parts.judge.capabilities
            else ()
        ),
        LOG_PROBABILITIES,
        "contrasts log-probabilities",
        "decoding=[greedy,expectation]",
    ),
    Need(
        "assistant=null_context",
        lambda parts: parts.assistant.kind == "null_context" and parts.place == SERVED,
        LOG_PROBABILITIES,
        "it is asked for log-probabilities",
        "assistant=none",
    ),
    _REFERENCES,
    _COMMIT,
    _DETECTION,
)
"""Of a judge."""

RUN_NEEDS = (
    # of those that could not be made, as without a tutor
    replace(
        _REFERENCES,
        of=lambda parts: [
            entry_name(entry)
            for entry in parts.config.get("defenses") or ()
            if entry_name(entry) in REFERENCE_DEFENSES and not parts.defenses
        ],
    ),
    replace(
        _DETECTION,
        of=lambda parts: [
            PERPLEXITY
            for entry in parts.config.get("defenses") or ()
            if entry_name(entry) == PERPLEXITY
            and not parts.defenses
            and (parts.place != SERVED or entry == PERPLEXITY)
        ],
    ),
    Need(
        "tune={}",
        lambda parts: [parts.tuner.name] if parts.chooses else (),
        PROBABILITIES,
        "lambda and t are chosen by probabilities",
        "tune=none",
    ),
    Need(
        "tutor",
        lambda parts: parts.config.get("tutor") is not None,
        LOCAL,
        "its references are scored while they are made",
        "tutor=none",
    ),
    Need(
        "attacks: adv_suffix",
        lambda parts: parts.search is not None,
        LOCAL,
        "a phrase is learned by asking a model here many thousand times",
        "one that was learned on another judge, as {name: adv_suffix, phrase_file: FILE}",
    ),
    Need(
        "search",
        lambda parts: (
            parts.search is not None and parts.search.search.takes_gradient and parts.place == LOCAL
        ),
        GRADIENT,
        "it follows the gradient",
        "search=exhaustive or search.shortlist=1",
    ),
)
"""Of all else in a run."""

Broken = Iterator[str]
"""Sentences on what does not go together."""


def unmet_needs(parts: JudgeParts, needs: Sequence[Need] = NEEDS) -> Broken:
    """Needs of choices that the judge does not meet."""
    place = parts.place
    for need in needs:
        names = need.of(parts)
        if not names or need.needs in parts.judge.capabilities:
            continue
        reason, instead = GIVEN_BY.get((place, need.needs), (JUDGES[place], ""))
        choice = need.choice.format(", ".join(names) if not isinstance(names, bool) else "")
        yield (
            f"{choice}: {need.because}, and {reason}; take "
            f"{need.instead}{f', or {instead}' if instead else ''}."
        )


def judge_mismatches(parts: JudgeParts) -> Broken:
    """Needs of a judge's parts that it does not meet, and parts that do not go with each other."""
    yield from unmet_needs(parts)
    yield from _assistant_mismatches(parts)
    if parts.thinking and LOG_PROBABILITIES not in parts.judge.capabilities:
        yield (
            f"defenses: {parts.thinking[0]}: log-probabilities are read behind the judge's "
            "thoughts, and this judge gives none; take judge.mode=score_tokens of a model here, "
            "judge.scores_from=logprobs of a served one, or defenses=[cot]."
        )
    free = not {LOCAL, RECORDED, PROBABILITIES} & parts.judge.capabilities
    kinds = [decoding.kind for decoding in parts.decodings.values()]
    if free and len(kinds) > 1 and set(kinds) == {"greedy"}:
        yield (
            f"decoding: {', '.join(parts.decodings)} would all read the same answers; take "
            "decoding=[greedy]."
        )


def run_mismatches(parts: Parts) -> Broken:
    """Needs of a run that its judge does not meet, and choices that do not go with each other."""
    yield from judge_mismatches(parts)
    yield from unmet_needs(parts, RUN_NEEDS)
    yield from _reading_mismatches(parts)
    yield from _decoding_mismatches(parts)
    yield from _tuning_mismatches(parts)


def unkept(parts: JudgeParts, store: object, search: bool = False) -> Broken:
    """A store that is none, where something must be kept beside it."""
    if str(store) == NO_STORE and (search or getattr(parts.judge, "batch", None)):
        yield (
            "store=none: a search for a phrase and batches keep what is under way beside the "
            "store; name a file, as store=outputs/readings.sqlite."
        )


def _assistant_mismatches(parts: JudgeParts) -> Broken:
    kind = parts.assistant.kind
    place = parts.place
    others = [f"assistant={other}" for other in ASSISTANTS[place]]
    same = parts.assistant.recording == getattr(parts.judge, "recording", None)
    if kind not in (*ASSISTANTS[place], "none"):
        instead = " or ".join([*others, "assistant=none"])
        yield (f"assistant={kind}: {JUDGES[place]}; take {instead}, or another judge.")
    elif kind == "recorded" and place == RECORDED and not same:
        yield (
            "assistant=recorded: it is in another file than judge=recorded; take both of one file."
        )
    if kind == "none" and parts.contrasting and ASSISTANTS[place]:
        yield (
            f"decoding {', '.join(parts.contrasting)}: needs an assistant; take "
            f"{' or '.join(others)}."
        )


def _reading_mismatches(parts: Parts) -> Broken:
    """Runner and store that do not go with what is read."""
    if parts.runner is not None and not parts.computes:
        yield (
            f"runner: {JUDGES[parts.place]}, so no actor would read anything; leave runner=ray out."
        )
    elif parts.runner is not None and parts.search is not None:
        yield (
            "attacks: adv_suffix is learned in this process, not by actors; take runner=lightning for "
            "it, and then read with its phrase, as {name: adv_suffix, phrase_file: FILE}."
        )
    yield from unkept(parts, parts.config.get("store"), parts.search is not None)


def _decoding_mismatches(parts: Parts) -> Broken:
    plain = parts.config.get("baseline")
    alone = []
    for name, decoding in parts.decodings.items():
        if not decoding.needs_assistant and not decoding.across:
            alone.append(name)
    if isinstance(plain, str) and plain not in alone:
        remedy = f"baseline={alone[0]}" if alone else "decoding=[expectation]"
        yield (
            f"baseline: {plain!r} is no decoding here that scores the main model alone in each "
            f"range; there are {', '.join(alone) or 'none'}; take {remedy}."
        )
    learning = _learning(parts)
    if learning and parts.rivals is not None:
        yield (
            f"decoding {', '.join(learning)}: learns from human scores of single texts, and this "
            "prompt compares two; take decoding=[greedy,expectation]."
        )
    elif learning and not isinstance(parts.tuner, CrossFit):
        yield (
            f"decoding {', '.join(learning)}: learns from human scores, of other articles than "
            "those that it is measured on; take tune=crossfit."
        )


def _learning(parts: Parts) -> list[str]:
    """Names of the decodings that learn from human scores."""
    return [name for name, decoding in parts.decodings.items() if decoding.learns]


def _tuning_mismatches(parts: Parts) -> Broken:
    tuner = parts.tuner
    name = "none" if tuner is None else tuner.name
    tuned = parts.contrasting or _learning(parts)
    if parts.chooses and PROBABILITIES in parts.judge.capabilities and not tuned:
        yield (
            f"tune={name}: no decoding contrasts; choose one, as "
            "decoding=[greedy,contrastive], or tune=none."
        )
    if parts.chooses and NONE not in parts.defenses:
        yield (
            f"tune={name}: lambda and t are chosen on texts without a defense, and then "
            "serve the others too; add none to defenses, or add tune=none."
        )
    fixed = _typed(("decoding.lambda", "decoding.temperature"))
    if tuner is not None and tuner.decodings is None and fixed:
        yield (
            f"{fixed}: tune={name} chooses lambda and t, so this would change nothing; add "
            "tune=none."
        )
    wanted = typed_value("tune")
    named = wanted in choices("tune") and wanted not in ("none", CrossFit.name, name)
    if named and (parts.chooses or parts.config.get("tune") is None):
        yield (
            f"tune={wanted}: the sweep that is taken too sets tune={name}, so this "
            "would change nothing; leave one of the two out."
        )


def model_mismatches(parts: JudgeParts) -> Broken:
    """Choices that do not go with the kind of the judge's model, once models' configurations can be
    read."""
    source = parts.judge.source
    other = parts.assistant.source
    kinds = ("an encoder-decoder", "a decoder-only")
    if (
        other is not None
        and parts.place == LOCAL
        and other.encoder_decoder != source.encoder_decoder
    ):
        judge, assistant = kinds if source.encoder_decoder else kinds[::-1]
        yield (
            f"assistant.path={other.path}: {other.title} is {assistant} model and the judge "
            f"{judge} one; choose an assistant of the judge's family."
        )
    if parts.place != LOCAL or not source.encoder_decoder:
        return
    model = f"the judge is an encoder-decoder model ({source.config().model_type})"
    if parts.assistant.kind == "early_exit":
        yield (
            f"assistant=early_exit: {model}, which is read after its last layer alone; choose "
            "assistant=model with a smaller one of its family, or assistant=null_context."
        )
    if parts.thinking:
        yield (
            f"defenses: {parts.thinking[0]}: {model}, which does not go on with its thoughts; take "
            "defenses=[cot]."
        )


def text_mismatches(parts: JudgeParts, data: RatingDataset, builder: PromptBuilder) -> Broken:
    """Choices that do not go with the data and the rubrics, once both are read."""
    compares = builder.comparative
    if data.paired and not compares:
        yield (
            f"data: each row of {data.name} is two texts, and these rubrics judge one alone; "
            "choose prompt=comparative."
        )
    if data.paired and (rivals := _typed(("prompt.rivals=", "prompt.rivals_"))):
        yield (
            f"{rivals}: {data.name} says itself who meets whom, so this would change nothing; "
            "leave it out."
        )
    planned = [
        defense.name for defense in parts.defenses if getattr(defense, "stage", "") == "sources"
    ]
    if data.mixed and planned:
        yield (
            f"defenses: {planned[0]} has a text for each source, and groups of {data.name} have "
            "several; leave it out, or name the groups of one source with data.fields.group_id=null."
        )
    for rubric in builder.rubrics.values() if _COMMIT.of(parts) and not compares else ():
        own_rubric(rubric)
    alone = [defense.name for defense in parts.defenses if not defense.compares]
    if compares and alone:
        yield (
            f"defenses: {alone[0]} is for texts that are judged alone, and these rubrics compare "
            "two; leave it out, or choose prompt=cap or prompt=paper."
        )
    if compares and parts.rivals is None:
        yield (
            "prompt.rivals is not given, and these rubrics compare two texts; choose "
            "prompt=comparative, with prompt.rubrics=FOLDER for rubrics of your own."
        )
    if parts.rivals is not None and not data.paired and not compares:
        yield (
            "prompt.rivals: these rubrics judge one text alone, so there is nothing to compare it "
            "with; name rubrics with {{Summary_1}} and {{Summary_2}} in prompt.rubrics, or choose "
            "prompt=paper."
        )


def choice_mismatches(parts: Parts, builder: PromptBuilder) -> Broken:
    """Choices by texts that do not go with the judge, or with its prompts."""
    if parts.tuner is not None and builder.comparative:
        yield (
            f"tune={parts.tuner.name}: lambda and t are chosen by the scores of single texts, and "
            "here texts are compared; add tune=none, and set decoding.lambda, or sweep it with -m."
        )
    if parts.search is None:
        return
    source = parts.judge.source
    if parts.search.search.takes_gradient and source.encoder_decoder:
        yield (
            "search: the gradient needs a decoder-only judge, and the judge is an encoder-decoder "
            f"model ({source.config().model_type}); take search=exhaustive or search.shortlist=1."
        )
    if not parts.defenses[0].learnable:
        name = parts.defenses[0].name
        yield (
            f"defenses: a phrase is learned under the first one, and under {name} its words are "
            "not the same tokens before the same scores in every text; put none first, as in "
            f"'defenses=[none,{name}]'."
        )


def range_mismatches(parts: JudgeParts, builder: PromptBuilder) -> Broken:
    """Ranges that do not go with the rubrics."""
    compares = builder.comparative
    ranges = list(dict.fromkeys(score_range for _, score_range in parts.cells))
    shown = ", ".join(map(str, ranges))
    worded = any(score_range.worded for score_range in ranges)
    if compares and ranges not in ([PLACES], [PLACES_OR_TIE]):
        yield (
            f"ranges: {shown} cannot be asked for where two texts are compared: the answer is the "
            "place of the better one; give 'ranges=[[1,2]]', as prompt=comparative does by itself, "
            "or 'ranges=[[0,2]]' where 0 is a tie."
        )
    if not compares and len(ranges) > 1 and (name := _first_dimension(builder, names_range, False)):
        yield (
            f"ranges: {shown} would all be asked for in the same words, for the rubric for "
            f"{name!r} does not name the range; write {{min_range}} and {{max_range}} in it, or "
            "give the one range that it speaks of."
        )
    if not compares and worded and (name := _first_dimension(builder, names_numbers)):
        yield (
            f"ranges: {shown} has no numbers, and the rubric for {name!r} speaks of scores between "
            "the ends (quarter_0 to quarter_4, low_score, high_score); give numbers, as in "
            "'ranges=[[1,5]]', or choose prompt=paper or rubrics with no more than {min_range} and "
            "{max_range}."
        )
    if worded and (
        numbered := [defense.name for defense in parts.defenses if defense.needs_numbers]
    ):
        yield (
            f"defenses: {numbered[0]} tells the judge the numbers of two references, and ranges "
            f"{shown} has none; leave it out, or give numbers, as in 'ranges=[[1,5]]'."
        )
    if (
        compares
        and PLACES_OR_TIE in ranges
        and (name := _first_dimension(builder, names_tie, False))
    ):
        yield (
            f"ranges: {PLACES_OR_TIE} lets the judge find a tie, and the rubric for {name!r} does "
            f"not say that this is answered with {TIE:g}; write so in it, as in {{{{ties:, or 0 if "
            "both are equally good}}}}, or give 'ranges=[[1,2]]'."
        )


def check_rules(*rules: Broken) -> None:
    """Raises one `UserError` of all that rules yield."""
    sentences = list(chain(*rules))
    if sentences:
        raise UserError(*sentences)


def _typed(keys: tuple[str, ...]) -> str:
    """The first override of the command line that sets one of the keys; empty where none does."""
    return (
        _first(override for override in typed_overrides() if override.lstrip("+").startswith(keys))
        or ""
    )


def _first_dimension(
    builder: PromptBuilder, names: Callable[[Rubric], bool], does: bool = True
) -> str | None:
    """The first dimension whose rubric names something, or does not."""
    return _first(name for name, rubric in builder.rubrics.items() if names(rubric) == does)


def _first(names: Iterable[str]) -> str | None:
    return next(iter(names), None)
