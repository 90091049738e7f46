"""Files of texts scored by the judge of a card, shard by shard, so that any number has room, and a
scoring that was killed goes on at the first shard that is missing.

A shard's scores are one Parquet file in a folder: `out` itself, or for `out=scores.jsonl` a hidden
one next to it, whose shards are joined in the end.
"""

from __future__ import annotations

import csv
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
from omegaconf import DictConfig

from judgebench.cards.card import JudgeCard
from judgebench.cards.judge import COLUMNS, Judge
from judgebench.config.inputs import inputs_of, store_of
from judgebench.config.keys import command_line, path_of, typed_value
from judgebench.config.parts import built
from judgebench.data.jsonl import Unrated
from judgebench.data.shards import Texts
from judgebench.judges.local.ray_runner import RayRunner, by_actors
from judgebench.results.served import served_lines
from judgebench.runs.job import check_trainer_of_actors
from judgebench.runtime.distributed import begin_group, process_group
from judgebench.runtime.files import (
    LOCK,
    NO_STORE,
    Held,
    atomic,
    check_outputs,
    csv_cell,
    locked,
    sha256_of,
    user_path,
    writing,
)
from judgebench.runtime.log import StepLogger
from judgebench.runtime.parquet import Damaged, join_tables, read_table, write_table
from judgebench.runtime.parsing import read_json
from judgebench.runtime.progress import Progressing
from judgebench.runtime.secrets import mask_secrets
from judgebench.settings.fields import plain
from judgebench.types import FAILED, Condition, Example, Record, Records, Row, Rows
from judgebench.words.console import Terminal
from judgebench.words.errors import ComeBack, UserError
from judgebench.words.formats import say
from judgebench.words.terminal import print_safely

log = StepLogger(__name__)

_ENDINGS = (".jsonl", ".csv", ".parquet")
_MANIFEST = "_manifest.json"  # which readers of a folder of Parquet leave out
_NOTE = b"judgebench.shard"
"""Name of the metadata with what a shard says of itself: a digest of its texts, numbers of them,
requests to models."""

_ANSWERS = "answers (judge.path)"
"""Setting of a judge of an earlier time: the content of its file."""

_TYPES = {
    "score": pa.float64(),
    "estimate": pa.float64(),
    "low": pa.float64(),
    "high": pa.float64(),
    "wide": pa.bool_(),
}
_SCHEMA = pa.schema([(name, _TYPES.get(name, pa.string())) for name in COLUMNS])


_SETTINGS = ("check_models", "coverage", "wide", "force")
"""Keys of conf/score.yaml that are arguments of `Judge`."""

_STORE = "outputs/readings.sqlite"
_MANY = 100_000
"""Texts of which no reading is kept beside their scores, unless the user names a store."""


def score_file(config: DictConfig, card: JudgeCard) -> None:
    """Scores what conf/score.yaml describes, by the judge of a card; nothing is written after a
    mistake, but shards that were scored before it stay. Prints the file or folder of scores last, but
    after a dry run, and in a process that only helped to read."""
    # 1. the judge, and the texts, all of them checked before the first is read
    store = _STORE if config.store is None else path_of(config, "store")
    target = _target(config, card, store)
    settings: Any = {name: config[name] for name in _SETTINGS}
    settings |= {name: plain(config[name]) for name in ("trainer", "judge", "assistant", "send_to")}
    make = partial(Judge, card, **settings)
    judge = make(store=store)
    runner = _runner(config, judge)
    texts = _texts(config, card)
    if texts.rows > _MANY and config.store is None and not judge.served:
        store = NO_STORE
        judge = make(store=store)
    several = len(texts.sizes) > 1
    if several:
        judge.in_shards()
    console = Terminal()
    if config.dry_run:
        _show(judge, texts, console)
        return
    # 2. shard by shard what is missing, here or by actors
    processes = begin_group(judge.trainer)
    with ExitStack() as stack:
        parts = _Parts(target, texts, {"card": card.title, "settings": _deciding(config, card)})
        todo = processes.agree(lambda: parts.open(stack))
        before = texts.rows - sum(texts.sizes[i] for i in todo)
        log.info("%s: of %d texts %d were scored before.", card.title, texts.rows, before)
        whole = Progressing("Scoring", texts.rows, unit="texts", before=before)
        if processes.first and (several or runner is not None):
            stack.enter_context(whole)
        scoring = Scoring(partial(make, store=store), parts, judge)
        stack.callback(scoring.stopped.set)
        if runner is not None:
            scored = by_actors(runner, scoring, todo, at_once=2)
        else:
            scored = scoring.here(todo, whole if several and processes.first else None)
        _collect(scored, parts, whole if runner is not None else None)
        if not processes.first:
            return
        notes = parts.join()
        log.info("Wrote %s.", target)
    # 3. the result in sentences
    lines = _summary(judge, texts, notes)
    for line in [*lines, *card.verdict]:
        console.print(line, highlight=False, markup=False, soft_wrap=line.startswith("  "))
    print_safely(target)


def _runner(config: DictConfig, judge: Judge) -> RayRunner | None:
    """The actors that are to read; None where this process does. `UserError` where they cannot."""
    runner: RayRunner | None = built(config, "runner", RayRunner)
    if runner is None:
        return None
    check_trainer_of_actors(plain(config.trainer))
    if judge.served:
        raise UserError(
            "runner: a judge behind a URL is asked by this process, which keeps to its limits, "
            "so no actor would read anything; leave runner=ray out."
        )
    return runner


def _texts(config: DictConfig, card: JudgeCard) -> Texts:
    """The texts, in shards; `UserError` of any that is none."""
    shard = config.get("shard")
    if type(shard) is not int or shard < 1:
        raise UserError(
            f"shard: {shard!r} is no number of rows; give a whole number of at least 1."
        )
    data = plain(config.data)
    dimensions = [card.dimension]
    Unrated(dimensions=dimensions, **data).given_path()
    return Texts(
        data["path"],
        data["fields"],
        dimensions,
        shard,
        data["limit_groups"],
        data["longest"],
        data.get("sheet"),
    )


def _show(judge: Judge, texts: Texts, console: Terminal) -> None:
    """Prints what would be read."""
    judge.show_prompts(texts.shard(0), console)
    if len(texts.sizes) > 1:
        console.print(
            f"These are the first {texts.sizes[0]:,} of {texts.rows:,} texts; if the others "
            f"are like them, all take {texts.rows / texts.sizes[0]:,.3g} times the tokens, "
            "requests, dollars and time above.",
            highlight=False,
        )


def _collect(
    scored: Iterator[Shard | ComeBack], parts: _Parts, of_actors: Progressing | None
) -> None:
    """Takes note of shards as they are scored; raises `ComeBack` where some are not answered yet,
    once the others went into batches, too."""
    away: list[ComeBack] = []
    with parts.kept_after_mistakes():
        for shard in scored:
            if isinstance(shard, ComeBack):
                away.append(shard)
                continue
            parts.add(shard, alike=of_actors is not None)
            if of_actors is not None:
                of_actors.advance(parts.texts.sizes[shard.number])
    count = len(parts.texts.sizes)
    if away and count > 1 and process_group().first:
        raise ComeBack(
            f"{len(away):,} of {count:,} shards are not answered yet; the last of them: {away[-1]}"
        )
    if away and process_group().first:
        raise away[-1]


def _summary(judge: Judge, texts: Texts, notes: Records) -> list[str]:
    """Sentences: whether the judge may decide, counts and requests of all shards, purposes of the
    scores: means of many texts by the card's verdict, single texts by it and by the share of texts
    whose interval is too wide."""
    card = judge.card
    rows = sum(note["rows"] for note in notes)
    facts = {
        "card": card,
        "settings": judge.intervals,
        "force": judge.force,
        "verdict": card.verdicts.get("report_scores"),
        "rows": rows,
        "failed": sum(note["failed"] for note in notes),
        "wide": sum(note["wide"] for note in notes) / rows,
        "cut": texts.cut,
        "decided": sum((Counter(note["decided"]) for note in notes), Counter[str]()),
    }
    lines = [say("card", part=part, **facts) for part in ("may", "count", "decided", "cut")]
    if notes[0]["served"] is not None:
        lines.append(served_lines(reduce(_together, [note["served"] for note in notes])))
    lines.append(say("card", part="scores", **facts))
    return list(filter(None, lines))


def _target(config: DictConfig, card: JudgeCard, store: str | Path) -> Path:
    """The file or folder that the key `out` names; `UserError` where scores cannot lie there."""
    target = path_of(config, "out")
    if target.suffix not in ("", *_ENDINGS):
        raise UserError(
            f"out={target}: the ending says what is written; it must be one of "
            f"{', '.join(_ENDINGS)}, or none for a folder of .parquet files."
        )
    if not target.suffix and target.is_file():
        raise UserError(
            f"out={target}: this is a file; name a folder, or a file with one of "
            f"{', '.join(_ENDINGS)}."
        )
    files = [target] if target.suffix else [target / _MANIFEST, target / "part-000000.parquet"]
    inputs = [*inputs_of(config), *card.inputs()]
    check_outputs(
        [(f"out={config.out}", file) for file in files], [*inputs, store_of(store, inputs)]
    )
    return target


class Shard(NamedTuple):
    """A scored shard: its number, its note, and the models by which it was read."""

    number: int
    note: Record
    models: Mapping[str, Row]


class Scoring:
    """Work of scoring shards: the texts of each are read from their place, judged, and their scores
    written. It is this process's, or that of actors (`judgebench.judges.local.ray_runner.Work`).

    While a shard is read, a thread of its own plans the next, and no other: it reads the texts and
    builds their prompts, which takes nearly all of the planning. All else, such as the store, is
    the reader's. What is wrong with the texts is said when their turn comes.

    Args:
        make: makes the judge of an actor.
        judge: that of this process.

    Attributes:
        stopped: ends what is being planned, for a process waits for its threads.
    """

    def __init__(self, make: Callable[..., Judge], parts: _Parts, judge: Judge) -> None:
        self._make = make
        self._parts = parts
        self._judge = judge
        self._planner = ThreadPoolExecutor(1)
        self._reader = ThreadPoolExecutor(1)
        self.stopped = threading.Event()

    def __reduce__(self) -> Any:
        return type(self), (self._make, self._parts, None)

    def begin(self, device: str, away: bool) -> None:
        """Makes the judge of an actor."""
        configured = self._make.keywords["trainer"]  # type: ignore[attr-defined]  # a partial
        kind = "cpu" if device == "cpu" else "gpu"
        trainer = {**configured, "accelerator": kind, "enable_progress_bar": False}
        self._judge = self._make(trainer=trainer)
        self._judge.in_shards()

    def here(self, todo: Sequence[int], whole: Progressing | None) -> Iterator[Shard | ComeBack]:
        """Shards scored by this process, one after the other; `whole`: progress of them all."""
        plan = None
        for number, following in pairwise([*todo, None]):
            assert number is not None
            plan = plan or self._planner.submit(self._plan, number)
            ahead = None if following is None else self._planner.submit(self._plan, following)
            size = self._parts.texts.sizes[number]
            with nullcontext() if whole is None else whole.part(size):
                scored = self._scored(number, plan)
            plan = ahead
            yield scored

    def __call__(self, task: int) -> Shard | ComeBack:
        """Scores the shard of a number, once those are scored that came before it: an actor calls
        this from several threads."""
        return self._reader.submit(
            self._scored, task, self._planner.submit(self._plan, task)
        ).result()

    def _plan(self, number: int) -> Any:
        """The texts of a shard and their prompts (`Judge.questions`)."""
        texts = self._parts.texts.shard(number)
        return texts, self._judge.questions(texts, self._text)

    def _text(self, example: Example, condition: Condition) -> str:
        """The judged text; planning stops here when the scoring does."""
        if self.stopped.is_set():
            raise CancelledError
        return example.output

    def _scored(self, number: int, plan: Future[Any]) -> Shard | ComeBack:
        judge = self._judge
        try:
            readings, frame = judge.judged(*plan.result())
        except ComeBack as error:
            return error
        judge.models.spent += float((readings.served or {}).get("cost") or 0.0)
        note = self._parts.write(number, frame, readings.served) if process_group().first else {}
        return Shard(number, note, readings.fingerprints)


class _Parts:
    """The shards of a scoring, in its folder.

    Args:
        target: `out`.
        made_with: card and settings, which all shards share; kept in the folder's manifest.
    """

    def __init__(self, target: Path, texts: Texts, made_with: Row) -> None:
        self.texts = texts
        self._target = target
        self._made_with = made_with
        self._holder = ""
        self._models: Mapping[str, Row] | None = None
        self._folder = target.with_name(f".{target.name}.parts") if target.suffix else target
        self._notes: dict[int, Record] = {}

    def open(self, stack: ExitStack) -> list[int]:
        """The numbers of the shards that are missing or damaged; `stack` keeps other runs out of
        the folder."""
        folder = self._folder
        manifest = self._folder / _MANIFEST
        with self._writing():
            if self._target.suffix:
                stack.callback(self._remove)
            try:
                stack.enter_context(locked(folder))
                self._holder = (folder / LOCK).read_text()
                stack.callback(self._forget)
            except Held as error:
                raise UserError(
                    f"out={self._target}: another scoring writes there ({error}); wait until it is "
                    "done, or name another."
                ) from error
            hidden = bool(self._target.suffix)
            if manifest.is_file():
                made_with = read_json(manifest, str(manifest), shape={"settings": dict})
                here = self._made_with["settings"]
                there = made_with["settings"]
                differs = [name for name in {**here, **there} if here.get(name) != there.get(name)]
                shards = list(folder.glob("part-*.parquet"))
                if not differs and len(shards) > len(self.texts.sizes):
                    differs = ["data.path (there were more texts)"]
            else:
                others = [file.name for file in folder.iterdir() if file.name != LOCK]
                differs = [] if hidden or not others else [f"{others[0]}, which is no scoring's"]
            earlier = manifest.is_file() and not differs
            for number, digest in enumerate(self.texts.digests if earlier else ()):
                note = self._note(number)
                if note is not None and note["texts"] == digest:
                    self._notes[number] = note
                elif note is not None:
                    differs = [f"data.path (the texts of {self._part(number).name})"]
                    break
            if differs and not hidden:
                raise UserError(
                    f"out={self._target}: scores of another command lie there, which differs in "
                    f"{', '.join(differs)}; name another folder, or remove that one."
                )
            if differs:  # what an earlier command has left of another file of this name
                self._notes = {}
                for file in [*folder.glob("part-*.parquet"), manifest]:
                    file.unlink(missing_ok=True)
            for file in folder.glob(".*.tmp"):  # of a process that was killed
                file.unlink()
            if not manifest.is_file():
                with atomic(manifest) as temporary:
                    text = json.dumps(self._made_with, indent=1)
                    temporary.write_text(f"{text}\n", encoding="utf-8")
        return [number for number in range(len(self.texts.sizes)) if number not in self._notes]

    def write(self, number: int, frame: pd.DataFrame, served: Row | None) -> Record:
        """Writes a shard, whole or not at all, and gives its note. `UserError` where another scoring
        has the folder by now, as where the command of an actor was killed and given again."""
        note = {
            "texts": self.texts.digests[number],
            "rows": len(frame),
            "served": served,
            "failed": int((frame["status"] == FAILED).sum()),
            "wide": int(frame["wide"].eq(True).sum()),
            "decided": Counter(frame["decision"].dropna()),
        }
        columns = [pa.array(frame[field.name], field.type, from_pandas=True) for field in _SCHEMA]
        table = pa.table(columns, schema=_SCHEMA.with_metadata({_NOTE: json.dumps(note)}))
        with self._writing():
            if (self._folder / LOCK).read_text() != self._holder:
                raise UserError(f"out={self._target}: another scoring writes there by now.")
            with atomic(self._part(number)) as temporary:
                write_table(temporary, table)
        return dict(json.loads(json.dumps(note)))

    def add(self, shard: Shard, alike: bool) -> None:
        """Takes note of a shard; `UserError` where all shards must be read `alike`, and this one was
        not."""
        self._models = shard.models if self._models is None else self._models
        if alike and shard.models != self._models:
            self._part(shard.number).unlink()
            raise UserError(
                f"runner: an actor has read with {shard.models}, and another with {self._models}; "
                "all machines that read must have the same models, and devices of one kind."
            )
        self._notes[shard.number] = shard.note

    def join(self) -> Rows:
        """Puts the shards together where one file is asked for; gives what each of them says of
        itself."""
        parts = [self._part(number) for number in range(len(self.texts.sizes))]
        notes = [self._notes[number] for number in range(len(parts))]
        if not sum(note["rows"] for note in notes):
            raise UserError(
                "judge.path: there is no answer about any of the texts, so nothing is written."
            )
        with self._writing():
            if self._target.suffix:
                with atomic(self._target) as temporary:
                    join_scores(parts, temporary, self._target.suffix)
                for file in [*parts, self._folder / _MANIFEST]:
                    file.unlink()
        return notes

    @contextmanager
    def kept_after_mistakes(self) -> Iterator[None]:
        """Adds to a mistake what is kept of the work so far, if anything, and how to go on."""
        try:
            yield
        except UserError as error:
            # whose mending makes all others, too
            if not self._notes or _ANSWERS in self._made_with["settings"]:
                raise
            done = sum(note["rows"] for note in self._notes.values())
            command = command_line()
            out = "" if typed_value("out") else f" out={self._target}"
            again = f"`{command}{out}`" if command else "the same command"
            raise UserError(
                f"{error} The scores of {done:,} texts are kept in {self._folder}; once that is "
                f"mended, {again} goes on behind them."
            ) from error

    def _writing(self) -> AbstractContextManager[None]:
        return writing(f"out={self._target}:", "; name another file")

    def _forget(self) -> None:
        """Removes the manifest of no shard, as after a mistake in the first."""
        if not any(self._folder.glob("part-*.parquet")):
            (self._folder / _MANIFEST).unlink(missing_ok=True)

    def _remove(self) -> None:
        with suppress(OSError):  # not empty, as after a mistake
            self._folder.rmdir()

    def _part(self, number: int) -> Path:
        return self._folder / f"part-{number:06}.parquet"

    def _note(self, number: int) -> Record | None:
        """The note of a shard; None of one that is missing or damaged."""
        try:
            schema = read_table(self._part(number)).schema
            if schema.names != _SCHEMA.names:
                return None
            return dict(json.loads(schema.metadata[_NOTE]))
        except (Damaged, pa.ArrowException, OSError, KeyError, TypeError, ValueError):
            return None


def join_scores(parts: Sequence[Path], path: Path, ending: str) -> None:
    """Writes the rows of Parquet files, one after the other, as an ending says; a missing number is
    null, in CSV an empty cell."""
    if ending == ".parquet":
        join_tables(path, parts)
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for i, table in enumerate(map(read_table, parts)):
            if ending == ".csv":
                if i == 0:
                    writer.writerow(map(csv_cell, table.column_names))
                writer.writerows(map(csv_cell, row.values()) for row in table.to_pylist())
                continue
            for row in table.to_pylist():
                file.write(f"{json.dumps(row, ensure_ascii=False)}\n")


def _deciding(config: DictConfig, card: JudgeCard) -> Record:
    """The settings on which scores may depend, without secrets."""
    settings = {name: config[name] for name in ("coverage", "wide", "shard", "check_models")}
    if config.force:
        settings["force"] = True
    card_file = path_of(config, "card")
    settings["card"] = sha256_of(card_file)
    for role in ("judge", "assistant"):
        part = plain(config[role]) or {}
        for key, value in part.items():
            if key not in _FREE:
                settings[f"{role}.{key}"] = value
    for name in ("fields", "limit_groups"):
        settings[f"data.{name}"] = plain(config.data[name])
    if config.data.get("sheet") is not None:
        settings["data.sheet"] = config.data.sheet
    if card.replayed:
        path = settings.pop("judge.path", None) or card.parts["judge"].get("path")
        answers = user_path(path)
        settings[_ANSWERS] = sha256_of(answers)
    text = json.dumps(mask_secrets(settings), default=str)
    return dict(json.loads(text))


_FREE = (
    "url",
    "key_variable",
    "price",
    "max_cost",
    "concurrency",
    "requests_per_minute",
    "tokens_per_minute",
    "timeout",
    "retries",
    "backoff",
    "longest_wait",
    "batch",
    "retry_refused",
)
"""Settings of served judges that say where and how fast they are asked."""


def _together(first: Any, second: Any) -> Any:
    """Two shards' records of requests as one: numbers are added, those of conditions and of served
    models stand one behind the other."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        joint = dict(first)
        for name in second:
            if name not in _ALIKE:
                joint[name] = _together(first.get(name), second[name])
        return joint
    if isinstance(first, list) and isinstance(second, list):
        known = [(part.get("model"), part.get("fingerprint")) for part in first]
        joint_list = list(first)
        for part in second:
            if "readings" in part or (part.get("model"), part.get("fingerprint")) not in known:
                joint_list.append(part)
        return joint_list
    if type(first) in (int, float) and type(second) in (int, float):
        return first + second
    return second if first is None else first


_ALIKE = ("max_cost", "samples", "temperature", "floor", "price", "explicit")
"""Numbers of a record that are settings."""
