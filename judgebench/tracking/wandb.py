"""A finished run on Weights & Biases: offline, quiet and without secrets unless the user asks for
more. Its numbers stand there under readable names, and its tables as records.
"""

from __future__ import annotations

import hashlib
import io
import logging
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from judgebench.report.views.run import served_scalars
from judgebench.results.results import Results, range_of
from judgebench.runtime.errors import UserError
from judgebench.runtime.fields import LOGGER_MODES as MODES
from judgebench.runtime.files import sha256_of, user_path
from judgebench.runtime.secrets import environment_secrets, hider
from judgebench.stats.correlation import shown_level
from judgebench.stats.scores import shown_split
from judgebench.types import LABELS, RANGE, ScoreRange

if TYPE_CHECKING:
    import wandb
    from matplotlib.figure import Figure

_SCALARS = (
    "pearson",
    "spearman",
    "spearman_low",
    "spearman_high",
    "kendall",
    "failed_share",
    "clamped_share",
    "mean_score",
    "lambda",
    "temperature",
    "n",
    "bias_wasserstein",
    "bias_kl",
    "bias_shift",
    "modal_share",
    "stability",
    "self_agreement",
    "position_bias",
    "consistency",
    "human_agreement",
    "change",
    "change_low",
    "change_high",
    "delta",
    "rate_of_means",
    "mean_of_rates",
    "raised_share",
    "win_share",
)

_PAIRWISE = (
    "strength_pearson",
    "strength_spearman",
    "strength_spearman_low",
    "strength_spearman_high",
    "strength_kendall",
    "tau",
    "auc",
    "accuracy",
    "accuracy_calibrated",
    "tie_threshold",
    "place_effect",
)

_DIFFERENCES = ("difference", "low", "high", "p", "p_holm")

_KEY = ["example_id", "dimension", *RANGE, LABELS, "attack", "defense"]
# places are read, and wins scored from them
_PAIR_KEY = [name for name in _KEY if not name.startswith("range_")]
_SYSTEM = (
    "dataset",
    "split",
    "dimension",
    "attack",
    "defense",
    "judge",
    "decoding",
    "lambda",
    "temperature",
)

Records = Sequence[Mapping[str, Any]]


def scalars(records: Records) -> dict[str, float]:
    """One level's numbers (`dataset`, or the first where there is no such level) under readable
    names, without nulls.

    Names are split/dimension/range/judge/decoding/number, with attack, defense and a level other
    than `dataset` after the dimension where there are such, and lambda and t after the decoding
    where one cell holds several.

    Example:
        >>> record = {"level": "dataset", "split": "test", "dimension": "coherence", "attack": "none",
        ...           "defense": "none", "range_min": 1, "range_max": 5, "range_step": 1, "judge":
        "main",
        ...           "decoding": "greedy", "lambda": None, "temperature": None, "spearman": 0.25}
        >>> scalars([record])
        {'test/coherence/1-5/main/greedy/spearman': 0.25}
    """
    level = shown_level(record["level"] for record in records)
    shown = [record for record in records if record["level"] == level]
    return _named(
        [(_within(record), record, {key: record.get(key) for key in _SCALARS}) for record in shown]
    )


def differences(comparisons: Records) -> dict[str, float]:
    """One level's paired differences in Spearman on the test split (else the first), under readable
    names, without nulls.

    Names are as in `scalars`, with `pair contrastive minus/main greedy` for judge and decoding and
    `mean` for the range of that over the ranges; the numbers are difference, low, high, p and
    p_holm.
    """
    level = shown_level(record["level"] for record in comparisons)
    split = shown_split(record["split"] for record in comparisons)
    named = []
    for record in comparisons:
        if (record["split"], record["level"], record["statistic"]) == (split, level, "spearman"):
            first, second = (
                f"{record[f'{who}_judge']} {record[f'{who}_decoding']}"
                for who in ("first", "second")
            )
            name = _within({**record, "judge": f"{first} minus", "decoding": second})
            setting = {"lambda": record["first_lambda"], "temperature": record["first_temperature"]}
            named.append((name, setting, {key: record[key] for key in _DIFFERENCES}))
    return _named(named)


def rankings(records: Records) -> dict[str, float]:
    """Rankings of systems under readable names: the numbers of a record of pairwise.json, named as
    in `scalars`, and the systems' Elo, as `test/joint/main/greedy/elo/NAME`; without nulls."""
    return _named(
        [
            (
                _name(record),
                record,
                {key: record[key] for key in _PAIRWISE}
                | {f"elo/{place['system']}": place["elo"] for place in record["ranking"]},
            )
            for record in records
        ]
    )


def _range_name(row: Mapping[str, Any]) -> str:
    # one that is about several ranges has none
    return "mean" if row["range_min"] is None else str(ScoreRange.of(row))


def _named(numbers: Sequence[tuple[str, Mapping[str, Any], Mapping[str, Any]]]) -> dict[str, float]:
    """Finite numbers by name, from (name, lambda and t, numbers); shared names have lambda and t as
    well."""
    several = Counter(name for name, _, _ in numbers)
    return {
        f"{name}{_setting(row) if several[name] > 1 else ''}/{key}": float(value)
        for name, row, values in numbers
        for key, value in values.items()
        if value is not None and math.isfinite(value)
    }


def _name(record: Mapping[str, Any], *more: str) -> str:
    changes = [f"{axis}={record[axis]}" for axis in ("attack", "defense") if record[axis] != "none"]
    return "/".join(
        [record["split"], record["dimension"], *changes, *more, record["judge"], record["decoding"]]
    )


def _within(record: Mapping[str, Any]) -> str:
    """The name of a record of one level and range."""
    level = [] if record["level"] == "dataset" else [f"level={record['level']}"]
    return _name(record, *level, _range_name(record))


def _setting(row: Mapping[str, Any]) -> str:
    """Lambda and t, as ` lambda=1 t=0.5`, or whichever of them the row has."""
    values = [
        (name, plain_value(row[key])) for name, key in (("lambda", "lambda"), ("t", "temperature"))
    ]
    return "".join(f" {name}={value:g}" for name, value in values if value is not None)


def tables_of(results: Results, examples: int) -> dict[str, list[dict[str, Any]]]:
    """Name of a table -> its rows, of those that have some; `metrics` and `examples` always.
    `examples` is how many of them, see `example_rows`."""
    tables = {
        "metrics": [dict(record) for record in results.metrics],
        "examples": example_rows(results.scores, results.readings, examples),
    }
    more: dict[str, list[dict[str, Any]]] = {
        "comparisons": [dict(record) for record in results.comparisons],
        "tuning": [flat(record) for record in results.tuning or ()],
        "pairwise": [flat(record) for record in results.pairwise],
        "ranking": [
            {key: record[key] for key in _SYSTEM} | dict(place)
            for record in results.pairwise
            for place in record["ranking"]
        ],
    }
    for name in ("standards", "strengths", "costs", "detectors"):
        more[f"defense/{name}"] = [flat(record) for record in getattr(results, name)]
    more["defense/references"] = _records(results.references)
    return tables | {name: rows for name, rows in more.items() if rows}


def example_rows(
    scores: pd.DataFrame, readings: pd.DataFrame, maximum: int
) -> list[dict[str, Any]]:
    """A row for each selected example and condition: ids, range, human score, a column per
    decoding, answer and prompt. The `maximum` examples are spread evenly over the test split (over
    all if there is none)."""
    of_test = scores[scores["split"] == "test"]
    pool = (of_test if len(of_test) else scores)["example_id"].drop_duplicates().to_numpy()
    spread = np.linspace(0, len(pool) - 1, min(maximum, len(pool))).round().astype(int)
    selected = pool[np.unique(spread)]
    keys = _PAIR_KEY if "rival_id" in scores else _KEY
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for score in _records(scores[scores["example_id"].isin(selected)]):
        ids = {
            name: score[name]
            for name in ("example_id", "group_id", "system_id", "split", "dimension")
        }
        ids |= {"range": _range_name(score)} | {
            name: score[name] for name in ("attack", "defense", "human")
        }
        row = rows.setdefault(tuple(score.get(name) for name in keys), ids)
        column = f"{score['judge']} {score['decoding']}{_setting(score)}"
        row[column] = score["score"]
        if score["status"] != "parsed":
            row[f"{column} status"] = score["status"]
    for reading in _records(readings[readings["example_id"].isin(selected)]):
        judged = rows.get(tuple(reading.get(name) for name in keys))
        if judged is not None:
            sampled = plain_value(reading["judge"]) is not None
            answer = f"answer of {reading['judge']} {reading['decoding']}" if sampled else "answer"
            order = f", judged text {reading['order']}" if "order" in reading else ""
            judged |= {f"{answer}{order}": reading["text"], f"prompt{order}": reading["prompt"]}
    return list(rows.values())


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of JSON without its lists, and with nested values as `exact_low`."""
    plain: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            plain |= {
                f"{key}_{name}": inner
                for name, inner in value.items()
                if not isinstance(inner, list)
            }
        elif not isinstance(value, list):
            plain[key] = value
    return plain


def plain_value(value: Any) -> Any:
    """A value of a table: lists as text, whatever is no number as None."""
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    if isinstance(value, np.generic):
        value = value.item()
    return (
        None
        if value is None
        or value is pd.NA
        or (isinstance(value, float) and not math.isfinite(value))
        else value
    )


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


# --- the logged run -----------------------------------------------------------------------------


_SETTINGS: Mapping[str, Any] = {
    "silent": True,
    "show_info": False,
    "console": "off",
    # W&B would record the command line, where `judge.api_key=...` may stand, host, user, packages
    # and code by itself.
    "x_disable_meta": True,
    "x_disable_machine_info": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
    "disable_git": True,
    "disable_code": True,
    "save_code": False,
}


class QuietWandbLogger:
    """Means to log to W&B that print nothing, keep their files in the run folder, and stay off the
    network.

    Args:
        save_dir: the run folder; W&B's files go to its `wandb/`.
        mode: "offline" writes files that `wandb sync` can send later; "online" sends at once and
            needs `wandb login` or WANDB_API_KEY; "disabled" does nothing.
        kwargs: see `wandb.init`.
    """

    def __init__(self, save_dir: str | Path, mode: str = "offline", **kwargs: Any) -> None:
        if mode not in MODES:
            raise UserError(f"logger.mode: {mode!r} is not one of {', '.join(MODES)}.")
        settings = {**_SETTINGS, **(kwargs.pop("settings", None) or {})}
        hide = hider(environment_secrets())  # whatever was interpolated into a name or a note
        kwargs = {
            name: hide(value) if isinstance(value, str) else value for name, value in kwargs.items()
        }
        # W&B's service outlives a run, and reads a relative path from where it was started
        self.save_dir = Path(save_dir).absolute()
        self._init: dict[str, Any] = {
            "dir": self.save_dir,
            "mode": mode,
            "settings": settings,
            **kwargs,
        }

    @cached_property
    def experiment(self) -> wandb.Run:
        # Even offline, W&B's background service looks for its telemetry server; it reads this when
        # it starts.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        # it has something to say wherever openai is imported
        os.environ.setdefault("WANDB_DISABLE_WEAVE", "true")
        # W&B keeps a log of its own, whose failures are no traceback's worth
        logging.raiseExceptions = False
        # W&B falls back to /tmp where it is missing
        self.save_dir.mkdir(parents=True, exist_ok=True)
        import wandb

        return wandb.init(**self._init)


@contextmanager
def _logged(logger: QuietWandbLogger, config: Mapping[str, Any]) -> Iterator[wandb.Run]:
    """The logger's run, which ends with the block, so that the next job of a multirun starts its
    own."""
    failed = True
    name = "WANDB_DATA_DIR"
    try:
        run = logger.experiment
        # W&B stages tables in the home folder until they are sent; so they stay with the run that
        # they belong to
        staged = name not in os.environ and os.environ.setdefault(
            name, str(Path(run.dir).parent.resolve())
        )
        try:
            run.config.update(dict(config), allow_val_change=True)
            yield run
            failed = False
        finally:
            if staged:
                del os.environ[name]
            run.finish(exit_code=int(failed))
    except OSError as error:
        raise UserError(
            f"logger: W&B's files in {logger.save_dir} cannot be written "
            f"({error.strerror or error}). The run's own files are there; mend that and give the "
            "same command again, or leave W&B out with logger=none."
        ) from error


def log_run(
    logger: QuietWandbLogger,
    results: Results,
    figures: Mapping[str, Figure],
    files: Sequence[Path] = (),
    examples: int = 50,
) -> None:
    """Logs a finished run: the config; in the run's summary `scalars` such as
    `test/coherence/1-5/main/greedy/spearman`, `differences`, and the verdict on each use; the
    tables of `tables_of` and `attack/trace` (every word that was scored); the figures.

    Args:
        files: of the run folder; readings, scores, metrics, phrases and findings of defenses are
            kept as artifacts.
        examples: see `example_rows`.

    Raises:
        UserError: W&B's files cannot be written, as on a full disk.
    """
    with _logged(logger, results.config) as run:
        import wandb

        content: dict[str, Any] = {
            name: _table(rows) for name, rows in tables_of(results, examples).items()
        }
        if results.trace is not None:
            content["attack/trace"] = wandb.Table(
                dataframe=results.trace[results.trace["score"].notna()]
            )
        main = ("readings.parquet", "scores.parquet", "metrics.json", "trace.parquet")
        kept = [
            path
            for path in files
            if path.name in main or artifact_kind(path) or path.parent.name == "defense"
        ]
        models = results.environment.get("model_fingerprints") or {}
        _keep_files(run, kept, used_files(results.config), {"models": dict(models)})
        run.log(content | _images(figures))
        run.summary.update(scalars(results.metrics) | differences(results.comparisons))
        run.summary.update(
            {f"verdict/{row['dimension']}/{row['use']}": row["verdict"] for row in results.verdict}
        )
        run.summary.update(
            rankings(results.pairwise) | served_scalars(results.environment.get("served"))
        )


def log_sweep(
    logger: QuietWandbLogger,
    config: Mapping[str, Any],
    summary: Mapping[str, Any],
    figures: Mapping[str, Figure],
) -> None:
    """Logs a finished sweep: the best setting of every cell as a table and as scalars, the figures.

    Args:
        config: resolved, plain, secrets masked.
        summary: see `judgebench.study.summary.summarize`.
    """
    with _logged(logger, config) as run:
        rows = []
        for cell in (cell for cell in summary["cells"] if cell["best"]):
            best = cell["best"]
            place = {"dimension": cell["dimension"], "range": str(range_of(cell))}
            params = {key: best["params"].get(key) for key in summary["params"]}
            ends = {key: best[key] for key in ("dev", "test", "trial")}
            rows.append({"metric": cell["metric"], **place, **params, **ends})
            for split in ("dev", "test"):
                if best[split] is not None:
                    run.summary["/".join(["best", split, *place.values(), cell["metric"]])] = best[
                        split
                    ]
        run.log({"best": _table(rows), **_images(figures)})


def _table(rows: Sequence[Mapping[str, Any]]) -> wandb.Table:
    """A table of W&B's, with all keys that any row has."""
    import wandb

    columns: list[Any] = list(dict.fromkeys(key for row in rows for key in row))
    data: list[Any] = [[plain_value(row.get(column)) for column in columns] for row in rows]
    # Nulls and numbers share columns, which W&B calls mixed types.
    return wandb.Table(columns=columns, data=data, allow_mixed_types=True)


def _images(figures: Mapping[str, Figure]) -> dict[str, Any]:
    """Figures at the resolution of print; W&B's own conversion stops at that of screens."""
    import wandb
    from PIL import Image

    images = {}
    for name, figure in figures.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=200)
        images[f"figures/{name}"] = wandb.Image(
            Image.open(buffer), caption=str(figure.get_label()) or None
        )
    return images


_PHRASE = "phrase"
_ALONE = (
    (_PHRASE, re.compile(r"phrase(_\w+)?\.json")),
    ("vectors", re.compile(r"vectors_[\w-]+\.safetensors")),
    ("detectors", re.compile(r"detectors\.json")),
)
"""Kinds of files that other runs take, each an artifact of its own."""


def artifact_kind(path: Path) -> str | None:
    """The kind of a file that other runs take; None for any other."""
    return next((kind for kind, name in _ALONE if name.fullmatch(path.name)), None)


def used_files(config: Mapping[str, Any]) -> list[Path]:
    """The existing files of other runs that a configuration names."""
    attacks = [config.get("attack"), *(config.get("attacks") or ())]
    names = [attack.get("phrase_file") for attack in attacks if isinstance(attack, Mapping)]
    names.append((config.get("defense") or {}).get("detectors"))
    vectors = (config.get("tutor") or {}).get("vectors")
    if isinstance(vectors, str):
        folder = user_path(vectors)
        names += (
            sorted(map(str, folder.glob("vectors_*.safetensors"))) if folder.is_dir() else [vectors]
        )
    paths = [user_path(name) for name in names if name]
    return [path for path in dict.fromkeys(paths) if path.is_file()]


def _keep_files(
    run: wandb.Run, files: Sequence[Path], used: Sequence[Path], about: Mapping[str, Any]
) -> None:
    """Gives W&B a run's files as artifacts: those that other runs take one by one, the others
    together as `results`.

    An artifact is named by its kind and a digest of its content: the same files have the same name,
    whatever folder holds them. A run that uses another's phrase, vectors or detectors has their
    names in its config (`uses`) and in the metadata of what it makes (`made_from`); online W&B also
    draws the line itself.
    """
    import wandb

    def artifact(kind: str, paths: Sequence[Path], metadata: Mapping[str, Any]) -> wandb.Artifact:
        hashes = {path.name: sha256_of(path) for path in paths}
        digest = hashlib.sha256("".join(sorted(hashes.values())).encode()).hexdigest()[:12]
        made = wandb.Artifact(
            f"{kind}-{digest}", type=kind, metadata={**metadata, "sha256": hashes}
        )
        for path in paths:
            made.add_file(str(path))
        return made

    # a phrase's file has any name
    taken = [artifact(artifact_kind(path) or _PHRASE, [path], {}) for path in used]
    origin = [str(made.name) for made in taken]
    if origin:
        run.config.update({"uses": origin})
    for made in taken if not (run.offline or run.disabled) else ():
        run.use_artifact(made)
    together = [path for path in files if artifact_kind(path) is None]
    kinds = [("results", together)] if together else []
    kinds += [(kind, [path]) for path in files if (kind := artifact_kind(path))]
    for kind, paths in kinds:
        run.log_artifact(artifact(kind, paths, {**about, "made_from": origin}))
