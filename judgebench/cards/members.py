"""The members of a panel that must be read before it can answer: judge cards, and stores that have
its prompts."""

from __future__ import annotations

from dataclasses import replace

from judgebench.cards.judge import card_judges, with_members
from judgebench.config.fields import known_keys
from judgebench.config.keys import path_of
from judgebench.config.parts import Parts
from judgebench.data.rows import existing
from judgebench.decoding.rules import Expectation
from judgebench.experiment import Experiment
from judgebench.judges.assistants import Assistant
from judgebench.judges.loading import ModelSource
from judgebench.judges.panel import Member, PanelSpec, member_named
from judgebench.judges.spec import JudgeSpec
from judgebench.readings.shards import file_of, open_store
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import user_path


def read_members(parts: Parts) -> None:
    """Reads the members of a panel that are cards or stores, once all of them are checked; cards
    not in a dry run."""
    panel = parts.judge
    if not isinstance(panel, PanelSpec) or all(member.path is not None for member in panel.judges):
        return
    judges = card_judges(panel, path_of(parts.config, "store"))
    experiment = Experiment.parse(parts.config, parts)
    for number, member in enumerate(panel.judges):
        if member.store is not None:
            with member_named(number):
                _read_store(member, replace(parts, data=experiment.data))
    if not parts.config.dry_run:
        with_members(experiment, judges)


def _read_store(member: Member, parts: Parts) -> None:
    """Gives a member what a store has of a run's own prompts; `UserError` where it lacks some, with
    how many."""
    # 1. the same run with its model as the judge; by title or SHA-256, one whose readings were
    # stored from here
    path = user_path(str(member.store))
    settings = member.settings or {}
    existing(file_of(path), "judge.store")
    known = ("gguf_file", "revision", "dtype", "trust_remote_code", "engine", "engine_options")
    known_keys(settings, known, "settings")
    store = open_store(path)
    files = [
        file
        for file in store.model_files()
        if file.suffix == ".gguf" or (file.parent / "config.json").is_file()
    ]
    sources = [ModelSource(str(file if file.suffix == ".gguf" else file.parent)) for file in files]
    named = (
        one.path
        for one in sources
        if member.model in (one.title, one.fingerprint(store.file_digest))
    )
    judge = JudgeSpec(**{"path": next(named, member.model), **settings})
    config = parts.config.copy()
    config.store = str(path)
    config.tune = None
    alone = replace(
        parts, config=config, judge=judge, assistant=Assistant(), decodings={"it": Expectation()}
    )
    experiment = Experiment.parse(config, alone)
    # 2. what the store has for that
    reader = experiment.reader()
    keys = {
        key: prompt for one in reader.passes for prompt in one.prompts for key in one.keys(prompt)
    }
    if lacking := {id(keys[key]) for key in reader.store.missing(keys)}:
        raise UserError(
            f"judge.store: of {len(experiment.prompts):,} prompts of this run {path.name} lacks "
            f"the probabilities of {judge.source.title} for {len(lacking):,}; have it read them "
            f"(judge=local judge.path={judge.path} store={path}), with the settings that the "
            "member has (dtype, engine)."
        )
    member.__dict__["name"] = judge.source.title
    member.__dict__["read"] = {
        (one.prompt.example.example_id, one.prompt.condition): (
            one.main_logprobs,
            None,
            one.seconds,
        )
        for one in reader.readings(experiment.data.split)
    }
