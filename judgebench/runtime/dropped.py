"""Names of things that earlier versions of judgebench had: one table, which the refusals of unknown
names look into."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from judgebench.words.errors import UserError

_SERVE = (
    "serve the model with `vllm serve MODEL`, and take judge=vllm judge.model=MODEL "
    "judge.tokenizer=MODEL"
)

_BY_WORDS = "take a defense by words, as defenses=[delimiters], instruction or sandwich"

DROPPED = {
    "defense.paraphrase_tokens": "it was for paraphrase, so leave it out",
    "defense.window": "it was for windowed_perplexity, so leave it out",
    "defenses=classifier": "take defenses=[perplexity]",
    "defenses=llm_detector": "take defenses=[perplexity]",
    "defenses=paraphrase": _BY_WORDS,
    "defenses=retokenization": _BY_WORDS,
    "defenses=windowed_perplexity": "take defenses=[perplexity]",
    "hydra.sweeper.heartbeat": (
        "after a kill, start the same command again with hydra.sweeper.retry=true"
    ),
    "hydra.sweeper.retry_failed": "take hydra.sweeper.retry=true",
    "judge.engine=vllm": f"take judge.engine=prefix or judge.engine=plain; or {_SERVE}",
    "judge.engine_options": f"they were vLLM's; {_SERVE}",
    "data.path=URL": "copy the files to a folder of this machine, or mount theirs there",
    "judge.explicit=sglang": (
        f"take judge.explicit=null, which says how far lists determine the scores; or {_SERVE}"
    ),
    "pairwise.prior=0": "strengths may be infinite without a prior; take pairwise.prior=0.001 or "
    "more, 1 is usual",
    "pairwise.ties": "a tie is half a win for each, so leave it out",
    "prompt.layout": "prompts have the papers' layout alone, so leave it out",
    "store=parquet:": (
        "readings are kept in SQLite, as store=outputs/readings.sqlite, or not at all "
        "(store=none); the readings of a Parquet store come into a SQLite file by the version that "
        "wrote them, with `python -m judgebench store copy parquet:FOLDER outputs/readings.sqlite`"
    ),
    "store list": (
        "take `python -m judgebench store verify STORE`, which says how many readings a store has"
    ),
    "store copy": ("take `python -m judgebench store merge FROM out=TO`"),
    "store prune": (
        "a reading that does not match its checksum is read again without it; `python -m "
        "judgebench.command.store merge STORE out=OTHER` leaves such readings out"
    ),
    "judgebench plan": (
        "a run says how wide its intervals are (How sure is all that?); a width shrinks with the "
        "root of the number of labelled articles, so half of it takes four times as many, drawn at "
        "random"
    ),
    "judge.members.card": (
        "members are recorded readings, run folders and answers; score the texts with the card by "
        "`python -m judgebench score card=FILE`, and name its scores, as {path: scores.jsonl, "
        "fields: {text: score}}"
    ),
    "judge.members.store": (
        "members are recorded readings, run folders and answers; run the model on these texts, "
        "which costs nothing where its readings are stored, and name the run's folder"
    ),
    "judge.combine=rank": ("take judge.combine=mean"),
    "judge.combine=nnls": (
        "take judge.combine=mean: on unseen articles it orders texts as well as learned weights do"
    ),
    "card of judgebench.judges.precomputed.panel.PanelSpec": (
        "calibrate each judge of the panel with `python -m judgebench calibrate`, and take the "
        "mean of their estimates"
    ),
    "decoding=trimmed": "take decoding=[expectation], which agrees with people as well",
    "decoding=plausible": "take decoding=[expectation], which agrees with people as well",
    "decoding=unnormalized": "take decoding=[expectation], which agrees with people as well",
    "judgebench.decoding.Trimmed": "take judgebench.decoding.Expectation, which agrees with people "
    "as well",
    "judgebench.decoding.Plausible": "take judgebench.decoding.Expectation, which agrees with "
    "people as well",
    "tune.metric=rps": "take tune.metric=error",
    "calibrate.metric=rps": "take calibrate.metric=error",
    "tune.metric=stability": "take tune.metric=spearman",
    "calibrate.metric=stability": "take calibrate.metric=spearman",
    "dry_run=measure": (
        "take dry_run=true, which says how many tokens are computed; while a run reads, its bar "
        "says what is left"
    ),
    "trainer=tensor_parallel": "take trainer=fsdp, which splits any number of heads",
    "tune=exact": "take tune=dev, which takes the best of the grid",
    "judgebench.tuning.Exact": "take tune=dev, which takes the best of the grid",
    "sweeps=cd_kappa_exact": "take tune=dev without a sweep, or +sweeps=cd_lambda_t",
    "own tables": (
        "the papers' tables hold the papers' models, data and ranges alone, and these runs have "
        "none; `python -m judgebench report RUN` makes the page with all numbers"
    ),
}
"""A command, a key, a key with its value, or a class, as it was written -> what to use instead, as
a clause."""

_ANY = object()

INERT: Mapping[str, Any] = {
    "defense.paraphrase_tokens": _ANY,
    "defense.window": _ANY,
    "judge.engine_options": {},
    "pairwise.margins": 4,
    "pairwise.outcome": "mean",
    "pairwise.ties": "half",
    "prompt.layout": "paper",
}
"""A setting of earlier versions -> the value at which it asks for what is done now, or `_ANY`."""


def dropped(name: str) -> str | None:
    """The sentence on a name that was dropped, of a list's entry without its place; None where it
    was not."""
    instead = DROPPED.get(re.sub(r"\[\d+\]", "", name))
    return f"{name}: is dropped; {instead}." if instead else None


def refuse_names(names: Iterable[str]) -> None:
    """Raises a `UserError` with a sentence on each of some names that were dropped."""
    sentences = [sentence for sentence in map(dropped, names) if sentence is not None]
    if sentences:
        raise UserError(*sentences)


def refuse_settings(config: Mapping[str, Any], where: str = "") -> None:
    """Raises `UserError` with a sentence for each setting of a configuration that was dropped;
    `where` it stands."""
    sentences = []
    for name in DROPPED:
        key, is_value, value = name.partition("=")
        setting = reduce(_entry, key.split("."), config)
        entries = [setting]
        if isinstance(setting, Sequence) and not isinstance(setting, str):
            entries = list(setting)
        asked = value in map(str, entries) if is_value else setting is not None
        if asked:
            sentences.append(f"{where}{dropped(name)}")
    if sentences:
        raise UserError(*sentences)


def _entry(settings: Any, key: str) -> Any:
    return settings.get(key) if isinstance(settings, Mapping) else None


def up_to_date(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration of an earlier version, as plain values, without settings that ask for what is
    done now."""
    current = dict(settings)
    for place, inert in INERT.items():
        group, _, name = place.partition(".")
        part = current.get(group)
        if isinstance(part, Mapping) and name in part and inert in (_ANY, part[name]):
            current[group] = {key: value for key, value in part.items() if key != name}
    return current
