"""A calibrated judge: in a Python program, and for a file of texts.

A card becomes a score here: its parts, agreed to (`parts_of`), the judge of those, whose readings
are decoded, and what the card makes of their scores (`scored`).
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
from omegaconf import OmegaConf

from judgebench.cards.card import NO_ASSISTANT, JudgeCard, check_arguments
from judgebench.config.check import check_judge, judge_parts
from judgebench.config.keys import FOLDER, command_line, typed_value
from judgebench.data.dataset import TEST
from judgebench.data.jsonl import Unrated
from judgebench.defenses.prepared import STAGES, planned, prepare
from judgebench.judges.judge import PromptSet, RunReadings
from judgebench.judges.local.devices import compute_with
from judgebench.judges.local.loading import ModelSource
from judgebench.judges.local.models import Models, Trainers
from judgebench.judges.precomputed.replay import ReplaySpec
from judgebench.judges.served.settings import bare_name, is_loopback
from judgebench.judges.spec import SERVED
from judgebench.prompts.builder import Judged as JudgedText
from judgebench.runs.dry_run import show_dry_run
from judgebench.runs.experiment import check_texts, judge_of
from judgebench.runs.job import trainer_for
from judgebench.runtime.files import user_path
from judgebench.runtime.parsing import read_bytes
from judgebench.runtime.values import as_word
from judgebench.settings.costs import IntervalSettings
from judgebench.types import FAILED, Array, Condition, Example, Record, Row
from judgebench.words.console import Terminal
from judgebench.words.errors import Mistakes, UserError, shown

Overridden = Mapping[str, Row | None]
"""judge and assistant -> settings that differ here from the card, such as the folder of the
model."""


@dataclass(frozen=True)
class Judged:
    """A judge's answer to a text.

    Attributes:
        score: in the card's range; NaN where the judge gave none.
        estimate: of a human's score, on the humans' scale; NaN where the card has no such map.
        status: `parsed`, `failed` or `clamped`, see `judgebench.types`.
        low, high: of the humans' score, on their scale; NaN without a score, and where the card has
            `no_intervals`.
        wide: whether that interval is too wide to use; None without one.
        decision: the name of the class, as pass or fail, or `ask`: a person is to see the text;
            None without a score, and where the card does not decide.
    """

    score: float
    estimate: float
    status: str
    low: float
    high: float
    wide: bool | None
    decision: str | None = None


class Judge:
    """The judge of a card, its models loaded at the first text and kept.

    Args:
        card: whose judge it is.
        store: file where readings are kept, so that no text is read twice, nor by another run.
        judge, assistant: what differs here from the card, as `{"path": "models/mine"}`.
        check_models: whether the models must be those that were calibrated, and read alike.
        send_to: the host, or hosts, of other machines that the card may send texts to.
        force: whether it decides where its card says that it may not.
        coverage, wide: of intervals, see `judgebench.settings.costs.IntervalSettings`.
        trainer: as conf/score.yaml has it, which shows its progress.

    Raises:
        UserError: the card's parts do not fit what is installed here.

    Example:
        judge = Judge.from_card("judge_card.yaml")
        judge.score("The article ...", "Its summary ...").score
    """

    def __init__(
        self,
        card: JudgeCard,
        *,
        store: str | Path = "outputs/readings.sqlite",
        judge: Row | None = None,
        assistant: Row | None = None,
        check_models: bool = True,
        send_to: str | Sequence[str] | None = None,
        coverage: float = 0.9,
        wide: float = 0.5,
        force: bool = False,
        trainer: Any = None,
    ) -> None:
        self.card = card
        self.force = force
        self.intervals = IntervalSettings(coverage, wide)
        self.models = Models()
        # answers to other texts are another file
        self._check = check_models and not card.replayed
        # 1. its parts
        overridden: Overridden = {"judge": judge, "assistant": assistant}
        if check_models:
            check_settings(card, overridden)
        given = parts_of(card, overridden, send_to)
        check_places(card, given)
        self._parts = judge_parts(given)
        check_judge(self._parts, store)
        # 2. the judge, and what runs it
        self._store = user_path(store)
        self._judge = judge_of(self._parts, self._store)
        self._planner = self._judge
        check_texts(self._parts, self._judge, Unrated())
        if trainer is None:
            trainer = OmegaConf.load(FOLDER / "trainer" / "auto.yaml")
            trainer.enable_progress_bar = False
        config = OmegaConf.create({"trainer": trainer})
        self.trainer: Trainers = trainer_for(config, self._parts.computes)

    @classmethod
    def from_card(cls, path: str | Path, *, trust_judge: bool = False, **options: Any) -> Judge:
        """The judge of a card file; see `JudgeCard.read` and `Judge` for options. `UserError` where
        there is no such card."""
        return cls(JudgeCard.read(path, trust_judge), **options)

    def check_estimate(self, wanted: bool = True) -> None:
        """Checks that the card has a map to the humans' scale, where that is wanted; else
        `UserError`."""
        if wanted and self.card.estimate is None:
            raise UserError(
                "card: it has no map from its scores to the humans' scale; take its scores."
            )

    def score(self, source: str, output: str, context: str = "") -> Judged:
        """The judge's answer to one text, `output`, which answers to the article or dialogue
        `source` and may draw on a further `context`; many at once (`score_all`) take less time
        each."""
        return self.score_all([{"source": source, "output": output, "context": context}])[0]

    @overload
    def score_all(self, texts: pd.DataFrame) -> pd.DataFrame: ...

    @overload
    def score_all(self, texts: Sequence[Mapping[str, str]]) -> list[Judged]: ...

    def score_all(
        self, texts: pd.DataFrame | Sequence[Mapping[str, str]]
    ) -> pd.DataFrame | list[Judged]:
        """The judge's answers to some texts: mappings with source, output and, or not, context; or
        a DataFrame with such columns, which gives a DataFrame of the same index with the fields of
        `Judged` as columns. The shared part of texts of one source is computed once. `UserError`
        names a text that is empty, has too many tokens or does not fit into memory as `line-N`."""
        frame = self.frame(texts) if len(texts) else pd.DataFrame(columns=COLUMNS)
        scores = frame[list(Judged.__dataclass_fields__)]
        if isinstance(texts, pd.DataFrame):
            return scores.set_index(texts.index)
        columns = [scores[name].tolist() for name in scores]
        return [Judged(*row) for row in zip(*columns, strict=True)]

    def reward(
        self, prompts: Sequence[Any], completions: Sequence[Any], **_: Any
    ) -> list[float | None]:
        """Rewards of completions, in the form in which TRL's trainers call a reward function.

        Args:
            prompts, completions: texts, or conversations: lists of messages `{"role", "content"}`.
                The last message of a completion is judged, and those of a prompt are its source.
            _: what trainers pass besides, such as `completion_ids`.

        Returns:
            The estimate of people's score, or the judge's score where the card has no map; None for
            an empty completion, and where the answer could not be read.

        Example:
            GRPOTrainer(model=..., reward_funcs=[judge.reward], train_dataset=...)
        """
        # 1. the texts that can be judged, by their places
        texts = {}
        for place, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
            asked = prompt
            said = completion
            if not isinstance(prompt, str):
                asked = _conversation(prompt)
            if not isinstance(completion, str):
                said = completion[-1]["content"]
            if said.strip():
                texts[place] = {"source": asked, "output": said}
        # 2. their rewards
        rewards: list[float | None] = [None] * len(completions)
        scored = self.score_all(list(texts.values()))
        for place, judged in zip(texts, scored, strict=True):
            value = judged.estimate
            if np.isnan(value):
                value = judged.score
            if not np.isnan(value):
                rewards[place] = value
        return rewards

    def frame(self, texts: pd.DataFrame | Sequence[Mapping[str, str]]) -> pd.DataFrame:
        """`COLUMNS`, one row a text, see `score_all`; texts may have names, too: example_id,
        group_id, system_id."""
        if isinstance(texts, pd.DataFrame):
            table = texts
            texts = []
            for _, row in table.iterrows():
                texts.append({str(name): text for name, text in row.dropna().items()})
        rows = [{"context": "", **text} for text in texts]
        data = Unrated(rows=rows, fields={"context": "context"}, dimensions=[self.card.dimension])
        data.setup()
        return self.judged(data.examples, self.questions(data.examples))[1]

    @property
    def _conditions(self) -> list[Condition]:
        return self._parts.all_conditions()

    @property
    def served(self) -> bool:
        """True of a judge behind a URL."""
        return self._parts.place == SERVED

    def in_shards(self) -> None:
        """Prepares for texts shard after shard: of answers of an earlier time not all are kept in
        memory, and prompts have a builder of their own."""
        if isinstance(self._parts.judge, ReplaySpec):
            self._judge = replace(self._judge, settings=self._parts.judge.indexed())
        # a tokenizer takes on the options of each call, and a builder remembers: a thread that
        # builds prompts beside the reader shares neither
        self._planner = replace(self._judge, builder=copy.deepcopy(self._judge.builder))

    def questions(self, examples: Sequence[Example], judged: JudgedText | None = None) -> PromptSet:
        """The prompts about texts, but for those under a defense that gets ready by the texts;
        behind `in_shards` any one thread may build them while others are read. `judged` gives the
        judged text of each; None takes the example's."""
        waiting = planned(self._judge)
        conditions = [each for each in self._conditions if each.defense not in waiting]
        return self._planner.questions(examples, conditions, _split(examples), judged=judged)

    def show_prompts(self, examples: Sequence[Example], console: Terminal) -> None:
        """Prints the prompts about texts that would be read."""
        compute_with(self.trainer)
        questions = self.questions(examples)
        show_dry_run(self._judge, questions, console, planned(self._judge), self._store)

    def judged(
        self, examples: Sequence[Example], questions: PromptSet
    ) -> tuple[RunReadings, pd.DataFrame]:
        """The readings, and `COLUMNS` with a row a text; see `questions`."""
        compute_with(self.trainer)
        # 1. models are looked at before hours are spent with another one, and again after, for a
        # server says what it is with its answers; those in memory do not change
        if self._check:
            reader = self._judge.reader(PromptSet([]), self.models)
            check_models(self.card, reader.fingerprints)
        # 2. the readings, once the defense is prepared
        judge = self._judge
        split = _split(examples)
        if planned(judge):
            for stage in STAGES:
                judge = prepare(
                    judge,
                    stage,
                    self._conditions,
                    examples=examples,
                    split=split,
                    dataset="texts",
                    trainer=self.trainer,
                    models=self.models,
                )
            questions = judge.questions(examples, self._conditions, split)
        readings = judge.read(questions, split, self.trainer, self.models)
        if self._check:
            check_models(self.card, readings.fingerprints)
            self._check = readings.served is not None
        # 3. what the card makes of their scores; an earlier judge may have answered none of them
        if not readings.readings:
            return readings, pd.DataFrame(columns=COLUMNS)
        scores = judge.scores(readings.readings)
        return readings, scored(self.card, scores, examples, self.intervals, self.force)


def _conversation(messages: Sequence[Mapping[str, str]]) -> str:
    """Messages as one text: the content of one alone, else each behind its role."""
    if len(messages) == 1:
        return messages[0]["content"]
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in messages)


def _split(examples: Sequence[Example]) -> dict[str, str]:
    """group_id -> test: nothing is chosen by these texts."""
    return dict.fromkeys((example.group_id for example in examples), TEST)


# --- from a card to scores ----------------------------------------------------------------------


def parts_of(
    card: JudgeCard,
    overridden: Overridden | None = None,
    send_to: str | Sequence[str] | None = None,
) -> Record:
    """The parts of the card's judge as it scores clean texts, as plain values by the keys of a
    configuration; `UserError` where the user has not agreed to send texts or a key to another
    machine, a file is missing or another than the card states, or parts do not fit this version. A
    card never says by itself that code which comes with a model may run, nor where texts or a key
    are sent."""
    overridden = overridden or {}
    hosts = [send_to] if isinstance(send_to, str) else send_to or []
    if not isinstance(hosts, Sequence) or not all(isinstance(host, str) for host in hosts):
        raise UserError(
            f"send_to: {shown(hosts)} is no host; name one, as send_to=api.openai.com, or a list "
            "of them."
        )
    # 1. the card's own
    parts = card.parts_here()
    if card.series["judge"] == "main":  # which needs no assistant
        parts["assistant"] = dict(NO_ASSISTANT)
    check_arguments(parts)
    if card.replayed and "path" not in (overridden.get("judge") or {}):
        _check_answers(card)
    # 2. agreed to, with the user's settings
    for role in ("judge", "assistant"):
        settings = overridden.get(role) or {}
        check_consent(role, parts[role], settings, hosts)
        safe = {"trust_remote_code": False} if "trust_remote_code" in parts[role] else {}
        parts[role] = {**parts[role], **safe, **settings}
    helpers = [entry.get("helper") for entry in parts["defenses"] if isinstance(entry, dict)]
    for other in (*helpers, parts["tutor"]):
        if isinstance(other, dict):
            other["trust_remote_code"] = False
            # the judge's own model, wherever it lies here
            if other.get("path") == card.parts["judge"].get("path"):
                other["path"] = parts["judge"].get("path")
    # 3. of its dimension and range
    return {
        **parts,
        "prompt": {**parts["prompt"], "rubrics": dict(card.rubric), "variants": None},
        "dimensions": [card.dimension],
        "ranges": [card.range.given],
        "attacks": ["none"],
    }


def _check_answers(card: JudgeCard) -> None:
    """Checks that the answers that a card names are those that were calibrated, for the path could
    name any file here, and that they can be given to other texts; else `UserError`."""
    judge = card.parts["judge"]
    path = user_path(str(judge.get("path")))
    remedy = "name the file with the judge's answers to your texts, as +judge.path=FILE"
    digest = hashlib.sha256(read_bytes(path, f"card: {path}", 2**31, remedy)).hexdigest()
    if digest != card.models.get("main", {}).get("sha256"):
        raise UserError(f"card: {path} does not hold the answers that were calibrated; {remedy}.")
    # taken in their order, they would be given to other texts, if these are as many
    answers = ReplaySpec(str(path), judge["fields"], sheet=judge.get("sheet"))
    if not any(map(answers.names.name, answers.rows())):
        raise UserError(
            f"card: the answers in {path} name no texts, so that they are about those alone "
            f"by which the card was made; {remedy}."
        )


COLUMNS = (
    "example_id",
    "group_id",
    "system_id",
    "dimension",
    "score",
    "estimate",
    "low",
    "high",
    "wide",
    "decision",
    "status",
)
"""The columns of scored texts: `score`, in the card's range; `estimate` of a human's score, on the
humans' scale, null where the card has no such map; `low` and `high`, the ends of its interval, and
`wide`, whether that is too wide to use, null where the card has no intervals; `decision`, the name
of the class or `ask`, null where the card does not decide; `status`, as in scores.parquet: a failed
score is null."""


def scored(
    card: JudgeCard,
    columns: Mapping[str, Array],
    examples: Sequence[Example],
    settings: IntervalSettings,
    force: bool = False,
) -> pd.DataFrame:
    """`COLUMNS` from the columns of `decode`, one row a text, in the order of the examples."""
    frame = pd.DataFrame({name: list(column) for name, column in columns.items()})
    count = len(frame)
    frame = frame[frame["judge"] == card.series["judge"]]
    if frame.empty:
        raise UserError(
            f"card: none of the {count} readings gives a score of its judge "
            f"({card.series['judge']}, {card.series['decoding']}), so nothing is written; let "
            "`python -m judgebench calibrate` write it again."
        )
    order = {example.example_id: i for i, example in enumerate(examples)}
    frame = frame.sort_values(
        "example_id", key=lambda names: names.map(order), kind="stable", ignore_index=True
    )
    # the range's minimum stands in where scores are counted
    frame.loc[frame["status"] == FAILED, "score"] = np.nan
    scores = frame["score"].to_numpy(dtype=float)
    frame["estimate"] = card.estimate(scores) if card.estimate is not None else np.nan
    frame = frame.assign(low=np.nan, high=np.nan, wide=None, decision=card.decisions(scores, force))
    if card.intervals is not None and card.scale is not None:
        estimates = frame["estimate"].to_numpy(dtype=float)
        low, high = card.intervals.ends(estimates, settings.coverage, card.scale)
        widest = settings.wide * (card.scale[1] - card.scale[0])
        wide = pd.Series(high - low > widest + 1e-9).astype(object)
        frame = frame.assign(low=low, high=high, wide=wide.where(~np.isnan(low), None))
    if card.reversed and card.scale is not None:
        # as people know it: the lowest estimate is the best, and what was low is high
        both_ends = sum(card.scale)
        ends = {"estimate": "estimate", "low": "high", "high": "low"}
        frame = frame.assign(**{end: both_ends - frame[other] for end, other in ends.items()})
    return frame[list(COLUMNS)]


# --- the judge here and the judge that was calibrated -------------------------------------------


def check_settings(card: JudgeCard, overridden: Overridden) -> None:
    """Checks that settings which differ here from the card leave its scores the same; else
    `UserError`."""
    for role, settings in overridden.items():
        for key in _DECIDING:
            there = card.parts[role].get(key)
            if settings and settings.get(key, there) != there:
                raise UserError(
                    f"card: its {role} was calibrated with {key}={there}, and "
                    f"+{role}.{key}={settings[key]} changes its scores; leave that out, or give "
                    "check_models=false to score so at your own risk: the card's figures say "
                    "nothing of it."
                )


_DECIDING = ("dtype", "mode", "max_new_tokens", "protocol", "scores_from", "samples")
"""Keys, besides the model, that change a judge's answers."""


def check_places(card: JudgeCard, given: Row, instead: str = "") -> None:
    """Checks that models whose place the card alone has named are there; else `UserError` with what
    names another.

    Args:
        given: see `parts_of`.
        instead: what else would do, for the error.
    """
    mistakes = Mistakes()
    for role, of in (("judge", "main"), ("assistant", "assistant")):
        path = card.parts[role].get("path")
        model = card.models.get(of, {})
        if not path or given[role].get("path") != path or not model.get("sha256"):
            continue
        if role == "judge" and card.own_judge:
            continue
        if ModelSource(path).elsewhere:
            mistakes.add(
                f"card: its {role} is {model.get('title')} (SHA-256 {model['sha256'][:12]}...), "
                f"which is not here at {path}; say where its folder is, as "
                f"+{role}.path=DIR{instead}."
            )
    mistakes.tell()


ANOTHER = (
    "give check_models=false to score with another at your own risk: the card's figures say "
    "nothing of it"
)
"""What else to do where a model is not the one that was calibrated."""


def check_models(card: JudgeCard, fingerprints: Mapping[str, Row], another: str = ANOTHER) -> None:
    """Checks that the models are those that were calibrated, else `UserError`: by their content,
    or, where they are served, by their names and, once they have answered, by what their servers
    say they are.

    Args:
        another: what to do with another model, for the error.
    """
    if card.replayed:  # answers to other texts are another file
        return
    for role, model in card.models.items():
        here = fingerprints.get(role, {})
        name = {"main": "judge"}.get(role, role)
        served = _served_names(model)
        now = _served_names(here)
        if here.get("sha256") != model.get("sha256"):
            fault = (
                f"is {model.get('title')} with SHA-256 {str(model.get('sha256'))[:12]}..., and the "
                f"one here is {here.get('title')} with {str(here.get('sha256'))[:12]}...; "
            )
            fault += (
                "take its class, settings and files as they were calibrated"
                if card.own_judge
                else f"give the folder of the model that was calibrated (+{name}.path=)"
            )
        elif here.get("model") != model.get("model"):
            fault = (
                f"is called {model.get('model')}, and the one here {here.get('model')}; name the "
                f"one that was calibrated (+{name}.model=)"
            )
        elif served and not now <= served:
            fault = (
                f"was served as {', '.join(sorted(served))}, and {here.get('url')} now says that "
                f"it is {', '.join(sorted(now - served))}, whose answers are stored; have the one "
                "served that was calibrated"
            )
        else:
            continue
        raise UserError(f"card: its {role} model {fault}; or {another}.")


def _served_names(model: Row) -> set[str]:
    """The names that servers gave a model, without folders."""
    names = set()
    for served in model.get("served_as") or ():
        if served.get("model") is not None:
            names.add(bare_name(str(served["model"])))
    return names


def check_consent(role: str, part: Row, settings: Row, agreed: Sequence[str]) -> None:
    """Checks that the user agrees to what a card's judge or assistant (`part`) would be sent,
    before anything is; `UserError` names the host and the command that would.

    This machine's own servers need no consent to texts; a key needs it everywhere. Who names an
    address or a key variable in the `settings` agrees to it, and to texts for the hosts that are
    `agreed`.
    """
    address = settings.get("url", part.get("url"))
    if address is None:
        return
    urls = address if isinstance(address, list | tuple) else [address]
    hosts = {url: _host_of(url) for url in urls}
    others = []
    if "url" not in settings:
        known = [name.lower() for name in agreed]
        elsewhere = [url for url in hosts if not is_loopback(url)]
        others = list(dict.fromkeys(hosts[url] for url in elsewhere if hosts[url] not in known))
    variable = None if "key_variable" in settings else part.get("key_variable")
    is_name = isinstance(variable, str) and re.fullmatch(r"[A-Z_][A-Z0-9_]*", variable)
    if variable is not None and not is_name:
        raise UserError(
            f"card: parts.{role}.key_variable is {shown(variable)}, which is no name of a variable."
        )
    # what would be sent, with the argument by which the user agrees, on the command line and in
    # Python
    sent = []
    command = []
    python = []
    if others:
        several = len(others) > 1
        sent.append("every text that is scored")
        command.append(f"send_to=[{','.join(others)}]" if several else f"send_to={others[0]}")
        python.append(f"send_to={others if several else others[0]!r}")
    if variable is not None:
        sent.append(f"the key in the environment variable {variable}")
        command.append(f"+{role}.key_variable={variable}")
        python.append(f"{role}={{'key_variable': {variable!r}}}")
    if not sent:
        return
    of_command = [command_line()] if typed_value("card") else []
    again = " ".join(filter(None, [*of_command, *map(as_word, command)]))
    trusted = others or list(dict.fromkeys(hosts.values()))
    raise UserError(
        f"card: its {role} is at {', '.join(hosts)} and would be sent {' and '.join(sent)}. If you "
        f"trust {', '.join(trusted)}, say so: {again} (in Python {', '.join(python)})."
    )


def _host_of(url: Any) -> str:
    """The host of an address; `UserError` where it is none."""
    host = None
    if isinstance(url, str) and url.isascii() and url.isprintable():
        with suppress(ValueError):
            host = urlsplit(url).hostname
    if host is None or not re.fullmatch(r"[0-9A-Za-z.:_-]+", host):
        raise UserError(
            f"card: {shown(url)} is no address of a server, as http://127.0.0.1:8000/v1 is one."
        )
    return host
