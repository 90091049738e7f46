"""The command line: `python -m judgebench record RUN out=FILE.parquet`, a run's readings as one
small file to ship.

`python -m judgebench judge=recorded judge.path=FILE.parquet` then decodes, tunes, calibrates,
sweeps and reports without a model. The file holds what models gave, by example_id and condition,
and no text that was judged, no prompt, no secret and no path; free answers stand in it as they were
written.

  RUN               the folder of a finished run; start this where it was
  out=FILE.parquet  the file that is written
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from judgebench.command.words import Words
from judgebench.runtime.files import NO_STORE, check_outputs, user_path
from judgebench.types import Prompt, Record, Records, Row, Rows, Split
from judgebench.words.errors import UserError
from judgebench.words.formats import say
from judgebench.words.terminal import print_safely

if TYPE_CHECKING:
    from judgebench.results.folder import RunFolder

_WORDS = Words(
    "record", __doc__, "python -m judgebench record outputs/first out=readings.parquet", ["out"]
)


@_WORDS
def main(runs: list[str], given: dict[str, str]) -> int:
    """Writes the file and prints its path; 0, or 2 after a user's mistake. No model is loaded."""
    name = given.get("out", "").strip()
    if len(runs) != 1 or not name:
        _WORDS.refuse("one run folder and one out=FILE are needed, and nothing else")
    out = user_path(name)
    run = user_path(runs[0])
    if out.suffix != ".parquet" or out.is_dir():
        raise UserError(
            f"out={out}: recorded readings are a parquet file; give a name that ends in .parquet."
        )
    if not out.absolute().parent.is_dir():
        raise UserError(
            f"out={out}: there is no folder {out.parent}; make it, or name another file."
        )
    print_safely(*record(run, out))
    return 0


def record(run: Path, out: Path) -> list[str]:
    """Writes a run's readings as one file; lines for people: what was left out and why, what was
    recorded, its path."""
    from judgebench.config.inputs import inputs_of
    from judgebench.config.parts import class_of
    from judgebench.judges.precomputed.panel import PanelSpec
    from judgebench.judges.precomputed.recorded import RecordedSpec
    from judgebench.readings.reading import write_recording
    from judgebench.results.folder import RunFolder
    from judgebench.results.schema import run_inputs

    folder = RunFolder.open(run)
    config = folder.read("config")
    check_outputs([(f"out={out}", out)], [*run_inputs(run), *inputs_of(config)])
    made_by = class_of(config["judge"])
    # of a panel, the members' readings are recorded: what it makes of them is not
    if issubclass(made_by, RecordedSpec) and not issubclass(made_by, PanelSpec):
        raise UserError(
            f"{run}: its readings are recorded ones already; pass on the file that it read."
        )
    rebuilt = _rebuilt(folder, config)
    computed = f"for their prompts need something computed: {', '.join(rebuilt.left_out)}"
    rows = _rows(folder, rebuilt)
    if not rows:
        raise UserError(f"{run}: nothing is left to record, {computed}.")
    about = _about(folder, config, rebuilt, rows)
    write_recording(out, rows, about)
    lines = []
    if rebuilt.left_out:
        lines.append(f"Left out, {computed}.")
    lines.append(say("recorded", readings=len(rows), about=about, bytes=out.stat().st_size))
    return [*lines, str(out)]


class Rebuilt(NamedTuple):
    """A run as it was asked: its prompts in the rubrics' plain text, whether they compare, the name
    of the data and its split; and names of the defenses and attacks that must compute something,
    which they lack."""

    prompts: Sequence[Prompt]
    comparative: bool
    dataset: str
    split: Split
    left_out: Sequence[str]


def _rebuilt(folder: RunFolder, config: Row) -> Rebuilt:
    """The prompts of a run, by its own judge without a model; `UserError` where they cannot be
    built again."""
    from judgebench.attacks import AdvSuffix, LearnedPhrase, attacked_text
    from judgebench.cards.card import NO_ASSISTANT
    from judgebench.config.check import judge_parts
    from judgebench.config.parts import built
    from judgebench.data.dataset import RatingDataset
    from judgebench.defenses import Planned
    from judgebench.runs.experiment import examples_of, judge_of

    given = {
        **config,
        "judge": {"_target_": "judgebench.judges.precomputed.recorded.PlainJudge"},
        "assistant": NO_ASSISTANT,
        "decoding": {"greedy": {"_target_": "judgebench.decoding.Greedy"}},
    }
    try:
        # 1. the judge, without what must compute something before prompts can be built
        parts = judge_parts(given)
        left_out = []
        attacks = []
        for attack in parts.attacks:
            if not isinstance(attack, AdvSuffix):
                attacks.append(attack)
            elif attack.phrase_file is None:
                left_out.append("attack adv_suffix")
            else:
                attacks += LearnedPhrase.read(attack.phrase_file).attacks()
        parts.attacks = attacks
        ready = []
        for defense in parts.defenses:
            if isinstance(defense, Planned):
                left_out.append(f"defense {defense.name}")
            else:
                ready.append(defense)
        if not ready:
            raise UserError(f"all prompts need something computed: {', '.join(left_out)}.")
        data: RatingDataset = built(given, "data", RatingDataset)
        data.setup()
        parts.defenses = [defense.fitted(data, parts.cells) for defense in ready]
        judge = judge_of(parts, Path(NO_STORE))
        # 2. its prompts
        questions = judge.questions(
            examples_of(parts, data),
            parts.all_conditions(),
            data.split,
            data.name,
            attacked_text(parts.attacks),
        )
        compares = judge.builder.comparative
        return Rebuilt(questions.prompts, compares, data.name, data.split, left_out)
    except UserError as error:
        raise UserError(
            f"{folder.path}: its prompts cannot be built again "
            f"({'; '.join(error.sentences).rstrip('.')}); start this command in the folder where "
            "the run was started, with its data and rubrics in their places."
        ) from error


def _rows(folder: RunFolder, rebuilt: Rebuilt) -> Rows:
    """The run's readings as rows of a recording; `UserError` where a prompt is another by now."""
    from judgebench.judges.precomputed.recorded import matched, was_read
    from judgebench.readings.reading import AXES, SCHEMA, Recording, prompt_digest

    run = Recording.of_run(folder.path)
    answers = matched(run, rebuilt.prompts, rebuilt.split, rebuilt.dataset)
    answered = answers.answered(rebuilt.prompts)
    changed = [
        f"{prompt.example.example_id} ({prompt.condition})"
        for prompt in answered
        if not was_read(answers.to(prompt)[0], prompt)
    ]
    # readings of a condition that is not asked any more would be lost in silence
    axes = [axis for axis in AXES if axis != "order"]
    asked = {tuple(str(getattr(each.condition, axis)) for axis in axes) for each in rebuilt.prompts}
    gone = {name.split(" ")[1] for name in rebuilt.left_out}
    for row in run.rows:
        computed = row["defense"] in gone or (
            "adv_suffix" in gone and "adv_suffix" in row["attack"]
        )
        if not computed and tuple(str(row[axis]) for axis in axes) not in asked:
            condition = ", ".join(str(row[axis]) for axis in axes)
            changed.append(f"{row['example_id']} ({condition})")
    if changed := [*answers.strays, *changed]:
        raise UserError(
            f"{folder.path}: the prompt about example {changed[0]} is another than the run has "
            "read: its data or its rubric have changed since. Bring them back, or start the run "
            "again, and then record it."
        )
    rows = []
    for prompt in answered:
        for row in answers.to(prompt):
            held = {**row, "prompt_sha256": prompt_digest(prompt)}
            rows.append({name: held[name] for name in SCHEMA.names})
    return rows


def _about(folder: RunFolder, config: Row, rebuilt: Rebuilt, rows: Records) -> Record:
    """The file's metadata; nothing in it depends on this machine but what models and code were
    used."""
    from judgebench.readings.reading import AXES
    from judgebench.runtime.secrets import mask_secrets

    environment = folder.read("environment")
    titles = folder.read("about")["titles"]
    ended = (folder.path / "environment.json").stat().st_mtime
    models = environment["model_fingerprints"]
    command = environment.get("command")
    if command is not None:
        words = [public(word) for word in shlex.split(command)]
        command = " ".join(map(shlex.quote, words))
    scored = any(row["main_logprobs"] is not None for row in rows)
    groups = ("judge", "assistant", "prompt", "data", "dimensions", "ranges", "attacks", "defenses")
    # name and content of each model, without where it lay
    identity = ("title", "sha256", "dtype", "kernels", "model")
    described = {
        role: {name: model[name] for name in identity if model.get(name) is not None}
        for role, model in models.items()
    }
    cells = dict.fromkeys(tuple(row[axis] for axis in AXES[:4]) for row in rows)
    about = {
        "mode": "score_tokens" if scored else "generate",
        "compares": rebuilt.comparative,
        "models": described,
        "assistant": {
            "kind": config["assistant"].get("kind") or "api",
            "title": titles["assistant"],
        },
        "command": command,
        "made_with": {
            "judgebench": environment["packages"]["judgebench"],
            "git_commit": environment["git_commit"],
            "git_changed": environment["git_changed"],
            "device": environment["device"],
        },
        "data": {
            "name": rebuilt.dataset,
            "examples": len({row["example_id"] for row in rows}),
        },
        "conditions": [dict(zip(AXES, cell, strict=False)) for cell in cells],
        "left_out": list(rebuilt.left_out),
        "date": datetime.fromtimestamp(ended, UTC).date().isoformat(),
        "config": {name: public(config.get(name)) for name in groups},
    }
    return mask_secrets(about)


_PRIVATE = ("url", "key_variable", "explicit", "tokenizer", "price", "fields")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s,\]}\"']*", re.IGNORECASE)
_FOLDERS = re.compile(
    r"(?<![\w.~/\\-])(?:[A-Za-z]:)?(?:~|\.{1,2})?[/\\](?:[^,\[\]{}\"'=/\\]+[/\\])*"
)


def public(node: Any) -> Any:
    """A part of a configuration, or an argument of a command, as it may be passed on: without
    addresses, long texts and the folders of paths.

    Example:
        >>> public({"path": "/home/me/my models/small", "dtype": "auto", "url": "http://10.0.0.1:8000/v1"})
        {'path': 'small', 'dtype': 'auto'}
        >>> public("judge.url=http://10.0.0.1:8000/v1"), public("attacks=[none,./mine/lead.txt]")
        ('judge.url=...', 'attacks=[none,lead.txt]')
    """
    if isinstance(node, Mapping):
        entries = {}
        for key, value in node.items():
            if key == "rubrics" and isinstance(value, Mapping):  # which hold their texts
                entries[key] = sorted(map(str, value))
            elif key not in _PRIVATE:
                entries[str(key)] = public(value)
        return entries
    if isinstance(node, list | tuple):
        return [public(value) for value in node]
    if not isinstance(node, str):
        return node
    if len(node) > 200 or not node.isprintable():
        return None
    # a relative path looks as the name of a model on the hub does, but is there
    if "/" in node and Path(node).exists():
        node = Path(node).name
    return _FOLDERS.sub("", _URL.sub("...", node))


if __name__ == "__main__":
    sys.exit(main())
