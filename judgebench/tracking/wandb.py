"""A finished run on Weights & Biases: offline, quiet and without secrets unless the user asks for more."""

from __future__ import annotations

import io
import logging
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.loggers.logger import rank_zero_experiment
from lightning.pytorch.utilities import rank_zero_only
from matplotlib.figure import Figure
from omegaconf import OmegaConf
from PIL import Image

from judgebench.errors import UserError
from judgebench.metrics.levels import shown_level
from judgebench.report.defense_files import DefenseRecords
from judgebench.report.hiding import hider
from judgebench.report.masking import environment_secrets
from judgebench.report.series import shown_split
from judgebench.report.served import served_scalars
from judgebench.tracking.artifacts import keep, used_files
from judgebench.types import ScoreRange

if TYPE_CHECKING:
    import wandb

_SETTINGS: Mapping[str, Any] = {
    "silent": True,
    "show_info": False,
    "console": "off",
    # W&B would record the command line, where `judge.api_key=...` may stand, host, user, packages and code by itself.
    "x_disable_meta": True,
    "x_disable_machine_info": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
    "disable_git": True,
    "disable_code": True,
    "save_code": False,
}

MODES = ("offline", "online", "disabled")

_KEY = ["example_id", "dimension", "range_min", "range_max", "range_step", "attack", "defense"]
_PAIR_KEY = [name for name in _KEY if not name.startswith("range_")]  # places are read, and wins scored from them
_SCALARS = (
    *("pearson", "spearman", "spearman_low", "spearman_high", "kendall"),
    *("failed_share", "clamped_share", "mean_score", "lambda", "temperature", "n"),
    *("bias_wasserstein", "bias_kl", "modal_share", "stability", "self_agreement"),
    *("position_bias", "consistency", "human_agreement"),
    *("change", "change_low", "change_high", "delta", "rate_of_means", "mean_of_rates", "raised_share", "win_share"),
)
_PAIRWISE = (
    *("strength_pearson", "strength_spearman", "strength_spearman_low", "strength_spearman_high", "strength_kendall"),
    *("tau", "auc", "accuracy", "accuracy_calibrated", "tie_threshold", "place_effect", "attack_effect"),
)
_DIFFERENCES = ("difference", "low", "high", "p", "p_holm")


class QuietWandbLogger(WandbLogger):
    """Lightning's W&B logger that prints nothing, keeps its files in the run folder, and stays off the network.

    `mode` decides alone: "offline" (the default) writes files that `wandb sync` can send later; "online" sends at once
    and needs `wandb login` or WANDB_API_KEY; "disabled" does nothing.

    Args:
        save_dir: the run folder; W&B's files go to its `wandb/`.
        mode: "offline", "online" or "disabled".
        kwargs: see `lightning.pytorch.loggers.WandbLogger` and `wandb.init`.
    """

    def __init__(self, save_dir: str | Path, mode: str = "offline", **kwargs: Any) -> None:
        if mode not in MODES:
            raise UserError(f"logger.mode: {mode!r} is not one of {', '.join(MODES)}.")
        settings = {**_SETTINGS, **(kwargs.pop("settings", None) or {})}
        hide = hider(environment_secrets())  # whatever was interpolated into a name or a note
        kwargs = {name: hide(value) if isinstance(value, str) else value for name, value in kwargs.items()}
        # W&B's service outlives a run, and reads a relative path from where it was started
        super().__init__(save_dir=Path(save_dir).absolute(), mode=mode, settings=settings, **kwargs)
        self._wandb_init.pop("anonymous", None)  # Lightning always passes it, and W&B 0.31 warns whenever it is passed

    @property
    @rank_zero_experiment
    def experiment(self) -> wandb.Run:
        """The W&B run, started at the first call."""
        if self._experiment is None:
            # Even offline, W&B's background service looks for its telemetry server; it reads this when it starts.
            os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
            os.environ.setdefault("WANDB_DISABLE_WEAVE", "true")  # it has something to say wherever openai is imported
            logging.raiseExceptions = False  # W&B keeps a log of its own, whose failures are no traceback's worth
            Path(str(self.save_dir)).mkdir(parents=True, exist_ok=True)  # W&B falls back to /tmp where it is missing
        return super().experiment


@rank_zero_only
def log_run(
    logger: WandbLogger,
    config: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    figures: Mapping[str, Figure],
    scores: pd.DataFrame,
    readings: pd.DataFrame,
    examples: int = 50,
    comparisons: Sequence[Mapping[str, Any]] = (),
    tuning: Sequence[Mapping[str, Any]] = (),
    trace: pd.DataFrame | None = None,
    defense: DefenseRecords | None = None,
    files: Sequence[Path] = (),
    models: Mapping[str, Any] | None = None,
    pairwise: Sequence[Mapping[str, Any]] = (),
    served: Mapping[str, Any] | None = None,
) -> None:
    """Logs a finished run and closes it, so that the next job of a multirun starts its own.

    Logged are the config; `scalars` such as `test/coherence/1-5/main/greedy/spearman` and `differences` (in the run's
    summary); all records as the table `metrics`, where there are such also `comparisons` and `tuning`; examples with
    prompt, answer and every score as the table `examples`; the figures as images.

    Args:
        config: what `RunFolder.write_config` returned: resolved, plain, secrets masked.
        examples: how many examples, spread evenly over the test split (over all if there is none).
        comparisons, tuning: comparisons.json and tuning.json.
        trace: of the search for a phrase, as the table `attack/trace`: every word that was scored.
        defense: the records of `defense/`, as the tables `defense/standards` (without what is nested),
            `defense/strengths`, `defense/references`, `defense/costs` and `defense/detectors`.
        files: files of the run folder that are kept as artifacts, see `judgebench.tracking.artifacts`.
        models: role -> title and fingerprint of each model, for the artifacts' metadata.
        pairwise: pairwise.json, as the tables `pairwise` (a row a judge and decoding) and `ranking` (a row a system),
            and in the summary.
        served: what was asked of judges behind a URL, as numbers of the summary under `served/`.

    Raises:
        UserError: W&B's files cannot be written, as on a full disk.
        TypeError: `config` is an OmegaConf node, hence not masked; nothing is logged then.
    """
    if OmegaConf.is_config(config):
        raise TypeError("config: an OmegaConf node may hold secrets; give what RunFolder.write_config returned.")
    failed = True
    try:
        run = logger.experiment
        try:
            import wandb

            with _files_under(Path(run.dir).parent):
                logger.log_hyperparams(dict(config))
                content: dict[str, Any] = {
                    "metrics": _table(*_metric_rows(records)),
                    "examples": _table(*_example_rows(scores, readings, examples)),
                }
                for name, found in (("comparisons", comparisons), ("tuning", [_flat(record) for record in tuning])):
                    if found:
                        content[name] = _table(*_metric_rows(found))
                if trace is not None:
                    tried = trace[trace["score"].notna()]
                    content["attack/trace"] = wandb.Table(dataframe=tried)
                content |= {f"defense/{name}": _table(*rows) for name, rows in _defense_rows(defense).items()}
                content |= {
                    name: _table(*_metric_rows(found)) for name, found in _pairwise_rows(pairwise).items() if found
                }
                keep(run, files, used_files(config), {"models": dict(models or {})})
                for name, figure in figures.items():
                    content[f"figures/{name}"] = wandb.Image(_pixels(figure), caption=str(figure.get_label()) or None)
                run.log(content)
                told = scalars(records) | differences(comparisons) | rankings(pairwise) | served_scalars(served)
                run.summary.update(told)
            failed = False
        finally:
            run.finish(exit_code=int(failed))
    except OSError as error:
        raise UserError(
            f"logger: W&B's files in {logger.save_dir} cannot be written ({error.strerror or error}). The run's own "
            "files are there; mend that and give the same command again, or leave W&B out with logger=none."
        ) from error


def scalars(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """One level's numbers under readable names; nulls are left out.

    The level is `dataset`, or the first where there is no such level. Names are
    split/dimension/range/judge/decoding/number, with attack, defense and a level other than `dataset` after the
    dimension where there are such, and lambda and t after the decoding where one cell holds several.

    Example:
        >>> record = {"level": "dataset", "split": "test", "dimension": "coherence", "attack": "none",
        ...           "defense": "none", "range_min": 1, "range_max": 5, "range_step": 1, "judge": "main",
        ...           "decoding": "greedy", "lambda": None, "temperature": None, "spearman": 0.25}
        >>> scalars([record])
        {'test/coherence/1-5/main/greedy/spearman': 0.25}
    """
    level = shown_level(record["level"] for record in records)
    records = [record for record in records if record["level"] == level]
    names = [_name(record) for record in records]
    several = {name for name, count in Counter(names).items() if count > 1}
    found: dict[str, float] = {}
    for name, record in zip(names, records, strict=True):
        if name in several:
            name += _setting(record)
        for key in _SCALARS:
            value = record.get(key)
            if value is not None and math.isfinite(value):
                found[f"{name}/{key}"] = float(value)
    return found


def differences(comparisons: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """One level's paired differences in Spearman on the test split (else the first), under readable names, without
    nulls.

    Names are as in `scalars`, with `pair contrastive minus/main greedy` for judge and decoding and `mean` for the range
    of that over the ranges; the numbers are difference, low, high, p and p_holm.
    """
    level = shown_level(record["level"] for record in comparisons)
    wanted = {"split": shown_split(record["split"] for record in comparisons), "level": level, "statistic": "spearman"}
    shown = [record for record in comparisons if all(record[name] == value for name, value in wanted.items())]
    names = [_name({**record, **_compared(record)}) for record in shown]
    several = {name for name, count in Counter(names).items() if count > 1}
    found: dict[str, float] = {}
    for name, record in zip(names, shown, strict=True):
        if name in several:
            name += _setting({"lambda": record["first_lambda"], "temperature": record["first_temperature"]})
        found |= {f"{name}/{key}": float(record[key]) for key in _DIFFERENCES if record[key] is not None}
    return found


def rankings(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """How systems are ranked, under readable names: the numbers of a record of pairwise.json, named as in `scalars`,
    and the systems' Elo, as `test/joint/main/greedy/elo/NAME`; without nulls."""
    found: dict[str, float] = {}
    several = Counter(_pairwise_name(record) for record in records)
    for record in records:
        name = _pairwise_name(record)
        name += _setting(record) if several[name] > 1 else ""
        given = {key: record[key] for key in _PAIRWISE} | {
            f"elo/{one['system']}": one["elo"] for one in record["ranking"]
        }
        found |= {f"{name}/{key}": float(value) for key, value in given.items() if value is not None}
    return found


def _pairwise_name(record: Mapping[str, Any]) -> str:
    given = [f"{axis}={record[axis]}" for axis in ("attack", "defense") if record[axis] != "none"]
    return "/".join([record["split"], record["dimension"], *given, record["judge"], record["decoding"]])


def _pairwise_rows(records: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Name of a table -> its rows."""
    keys = ("dataset", "split", "dimension", "attack", "defense", "judge", "decoding", "lambda", "temperature")
    systems = [{key: record[key] for key in keys} | dict(one) for record in records for one in record["ranking"]]
    return {"pairwise": [_flat(record) for record in records], "ranking": systems}


def _compared(record: Mapping[str, Any]) -> dict[str, str]:
    first, second = (f"{record[f'{who}_judge']} {record[f'{who}_decoding']}" for who in ("first", "second"))
    return {"judge": f"{first} minus", "decoding": second}


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of JSON without its lists, such as a grid; what is nested as `exact_low`."""
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}_{name}": inner for name, inner in value.items() if not isinstance(inner, list)}
        elif not isinstance(value, list):
            flat[key] = value
    return flat


def _defense_rows(defense: DefenseRecords | None) -> dict[str, tuple[list[str], list[list[Any]]]]:
    """Name -> columns and rows, of those that hold something."""
    if defense is None:
        return {}
    found = {
        name: [_flat(record) for record in getattr(defense, name)]
        for name in ("standards", "strengths", "costs", "detectors")
    }
    found["references"] = list(_rows(defense.references))
    return {name: _metric_rows(records) for name, records in found.items() if records}


def _name(record: Mapping[str, Any]) -> str:
    given = [f"{axis}={record[axis]}" for axis in ("attack", "defense") if record[axis] != "none"]
    given += [] if record["level"] == "dataset" else [f"level={record['level']}"]
    parts = [record["split"], record["dimension"], *given, _range(record), record["judge"], record["decoding"]]
    return "/".join(parts)


def _range(row: Mapping[str, Any]) -> str:
    if row["range_min"] is None:
        return "mean"
    return str(ScoreRange(float(row["range_min"]), float(row["range_max"]), float(row["range_step"])))


def _setting(row: Mapping[str, Any]) -> str:
    given = [(name, _cell(row[key])) for name, key in (("lambda", "lambda"), ("t", "temperature"))]
    return "".join(f" {name}={value:g}" for name, value in given if value is not None)


def _metric_rows(records: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    columns = list(dict.fromkeys(key for record in records for key in record))
    return columns, [[_cell(record.get(column)) for column in columns] for record in records]


def _example_rows(scores: pd.DataFrame, readings: pd.DataFrame, most: int) -> tuple[list[str], list[list[Any]]]:
    """One row per chosen example x condition: ids, range, human score, a column per decoding, answer and prompt."""
    of_test = scores[scores["split"] == "test"]
    pool = (of_test if len(of_test) else scores)["example_id"].drop_duplicates().to_numpy()
    chosen = (
        pool[np.unique(np.linspace(0, len(pool) - 1, min(most, len(pool))).round().astype(int))] if len(pool) else pool
    )
    keys = _PAIR_KEY if "rival_id" in scores else _KEY
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for score in _rows(scores[scores["example_id"].isin(chosen)]):
        key = tuple(score[name] for name in keys)
        row = rows.setdefault(
            key,
            {name: score[name] for name in ("example_id", "group_id", "system_id", "split", "dimension")}
            | {"range": _range(score), "attack": score["attack"], "defense": score["defense"], "human": score["human"]},
        )
        column = f"{score['judge']} {score['decoding']}{_setting(score)}"
        row[column] = score["score"]
        if score["status"] != "parsed":
            row[f"{column} status"] = score["status"]
    for reading in _rows(readings[readings["example_id"].isin(chosen)]):
        found = rows.get(tuple(reading[name] for name in keys))
        if found is not None:
            whose = (
                "answer" if _cell(reading["judge"]) is None else f"answer of {reading['judge']} {reading['decoding']}"
            )
            place = f", judged text {reading['order']}" if "order" in reading else ""
            found |= {f"{whose}{place}": reading["text"], f"prompt{place}": reading["prompt"]}
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    return columns, [[_cell(row.get(column)) for column in columns] for row in rows.values()]


def _rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for row in frame.itertuples(index=False):
        yield dict(zip(frame.columns, row, strict=True))


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> wandb.Table:
    import wandb

    # Nulls and numbers share columns, which W&B calls mixed types.
    return wandb.Table(columns=list(columns), data=list(rows), allow_mixed_types=True)


def _cell(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    if isinstance(value, np.generic):
        value = value.item()
    return None if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)) else value


def _pixels(figure: Figure) -> Image.Image:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=200)  # W&B's own conversion stops at screen resolution
    return Image.open(buffer)


@contextmanager
def _files_under(folder: Path) -> Iterator[None]:
    """W&B stages tables in the home folder until they are sent; this keeps them with the run that they belong to."""
    name = "WANDB_DATA_DIR"
    if name in os.environ:
        yield
        return
    os.environ[name] = str(folder.resolve())
    try:
        yield
    finally:
        del os.environ[name]
