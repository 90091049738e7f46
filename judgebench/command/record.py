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
from typing import TYPE_CHECKING, Any

from judgebench.command.words import Words
from judgebench.runtime.files import check_outputs, user_path
from judgebench.runtime.values import literal
from judgebench.types import Record, Records, Row, Rows
from judgebench.words.errors import UserError
from judgebench.words.terminal import print_safely

if TYPE_CHECKING:
    from judgebench.results.folder import RunFolder
    from judgebench.runs.experiment import Experiment

_WORDS = Words(
    "record",
    __doc__,
    "python -m judgebench record outputs/first out=readings.parquet",
    ["out"],
)
_RECORDED = "judgebench.judges.precomputed.recorded.RecordedSpec"


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the file and prints its path; 0, or 2 after a user's mistake. No model is loaded."""
    return _WORDS.run(arguments, _work)


def _work(runs: list[str], given: dict[str, str]) -> int:
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
    from judgebench.readings.reading import write_recording
    from judgebench.results.folder import RunFolder
    from judgebench.results.schema import run_inputs

    folder = RunFolder.open(run)
    config = folder.read("config")
    check_outputs([(f"out={out}", out)], [*run_inputs(run), *inputs_of(config)])
    if config["judge"].get("_target_") == _RECORDED:
        raise UserError(
            f"{run}: its readings are recorded ones already; pass on the file that it read."
        )
    experiment, left_out = _rebuilt(folder, config)
    computed = f"for their prompts need something computed: {', '.join(left_out)}"
    rows = _rows(folder, experiment, left_out)
    if not rows:
        raise UserError(f"{run}: nothing is left to record, {computed}.")
    about = _about(folder, config, experiment, rows, left_out)
    write_recording(out, rows, about)
    lines = []
    if left_out:
        lines.append(f"Left out, {computed}.")
    titles = [model["title"] for model in about["models"].values()]
    count = len(about["conditions"])
    conditions = f"{count} conditions" if count > 1 else f"{count} condition"
    kind = "free answers" if about["mode"] == "generate" else "readings"
    data = about["data"]
    lines.append(
        f"{len(rows):,} {kind} of {' with '.join(titles)} on {data['examples']:,} {data['name']} "
        f"texts under {conditions}, {out.stat().st_size:,} bytes."
    )
    return [*lines, str(out)]


def _rebuilt(folder: RunFolder, config: Row) -> tuple[Experiment, list[str]]:
    """The run's experiment with the rubrics' plain text as prompts, and the names of the defenses
    and attacks that must compute something, which it lacks."""
    from judgebench.attacks.attack import ADV_SUFFIX
    from judgebench.cards.card import NO_ASSISTANT
    from judgebench.cards.judge import run_config
    from judgebench.config.earlier import in_entries
    from judgebench.config.keys import list_at
    from judgebench.defenses import Planned, select_defenses
    from judgebench.runs.experiment import Experiment
    from judgebench.settings.components import build_component, entry_name

    content = {
        **in_entries(config),
        "judge": {"_target_": "judgebench.judges.precomputed.recorded.PlainJudge"},
        "assistant": NO_ASSISTANT,
        "decoding": {"greedy": {"_target_": "judgebench.decoding.Greedy"}},
        "tune": None,
    }
    left_out = []
    attacks = [
        entry
        for entry in content["attacks"]
        if entry_name(entry) != ADV_SUFFIX or "phrase_file" in entry
    ]
    if len(attacks) < len(content["attacks"]):
        content["attacks"] = attacks
        left_out.append("attack adv_suffix")
    rebuilt = run_config(content, "config.yaml")
    try:
        # defenses that must compute something before prompts can be built
        tutor = None if rebuilt.get("tutor") is None else build_component(rebuilt.tutor)
        defenses = select_defenses(list_at(rebuilt, "defenses"), tutor)
        planned = {
            i: defense.name for i, defense in enumerate(defenses) if isinstance(defense, Planned)
        }
        rebuilt.defenses = [
            entry for i, entry in enumerate(literal(content["defenses"])) if i not in planned
        ]
        left_out += [f"defense {name}" for name in planned.values()]
        if not rebuilt.defenses:
            raise UserError(f"all prompts need something computed: {', '.join(left_out)}.")
        rebuilt.tutor = None
        return Experiment.parse(rebuilt), left_out
    except UserError as error:
        raise UserError(
            f"{folder.path}: its prompts cannot be built again "
            f"({'; '.join(error.sentences).rstrip('.')}); start this command in the folder where "
            "the run was started, with its data and rubrics in their places."
        ) from error


def _rows(folder: RunFolder, experiment: Experiment, left_out: Sequence[str]) -> Rows:
    from judgebench.decoding.scores import KEYS, key_columns
    from judgebench.readings.reading import AXES, SCHEMA, holds, prompt_digest
    from judgebench.types import LABELS, Reading

    readings = folder.read("readings")
    names = [name for name in (*KEYS, LABELS, "order") if name in readings and name != "split"]
    columns = key_columns([Reading(prompt, "") for prompt in experiment.prompts])
    keys = (
        zip(*(columns[name] for name in names), strict=True) if set(names) <= set(columns) else ()
    )
    prompts = dict(zip(keys, experiment.prompts, strict=False))
    gone = {name.split(" ")[1] for name in left_out}
    rows = []
    for reading in readings.to_dict("records"):
        prompt = prompts.get(tuple(reading[name] for name in names))
        if prompt is None and (
            reading["defense"] in gone
            or ("adv_suffix" in gone and "adv_suffix" in reading["attack"])
        ):
            continue
        if prompt is None or not holds(reading, prompt):
            raise UserError(
                f"{folder.path}: the prompt about example {reading['example_id']} "
                f"({reading['dimension']}, attack {reading['attack']}, defense "
                f"{reading['defense']}) is another than the run has read: its data or its rubric "
                "have changed since. Bring them back, or start the run again, and then record it."
            )
        values = {name: reading.get(name) for name in SCHEMA.names}
        row = {
            name: None if isinstance(value, float) and value != value else value
            for name, value in values.items()
        }
        rows.append(
            {
                **row,
                **{axis: str(getattr(prompt.condition, axis)) for axis in AXES},
                "example_id": prompt.example.example_id,
                "candidates": list(reading["candidates"]),
                "prompt_sha256": prompt_digest(prompt),
            }
        )
    return rows


def _about(
    folder: RunFolder,
    config: Row,
    experiment: Experiment,
    rows: Records,
    left_out: Sequence[str],
) -> Record:
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
        "compares": experiment.comparative,
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
            "name": experiment.data.name,
            "examples": len({row["example_id"] for row in rows}),
        },
        "conditions": [dict(zip(AXES, cell, strict=False)) for cell in cells],
        "left_out": list(left_out),
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
