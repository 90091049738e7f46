"""How good a sweep over lambda and t could have been: the exact optimum of every cell, from the trials' readings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from judgebench.data.dataset import DEV, TEST
from judgebench.decoding.rules import Contrastive
from judgebench.metrics.correlation import spearman
from judgebench.results.folder import RunFolder
from judgebench.runtime.errors import UserError
from judgebench.study.summary import Cell, Trial, cell_of, complete, direction_of
from judgebench.tuning.optimum import optimum
from judgebench.types import ScoreRange

_KNOBS = {"decoding.lambda", "decoding.temperature"}
_WHERE = ("dimension", "range_min", "range_max", "range_step", "attack", "defense")
_READ = ("example_id", "split", *_WHERE, "main_logprobs", "assistant_logprobs")


def exact_optima(trials: Sequence[Trial], directions: Sequence[str] = ()) -> dict[Cell, dict[str, Any]]:
    """Cell (see `cell_of`) -> the best of all kappas on dev: kappa, dev, test, low, high and width of its interval.

    High and width are null where the interval never ends.

    Only where nothing but lambda and t is swept, by the largest dev Spearman of the pair over the whole data, scored by
    argmax: then the readings, which all trials share, tell what any kappa would have given. Empty where they are out of
    reach, as on another worker's machine.
    """
    told = complete(trials)
    if not told or not {key.lstrip("+") for trial in told for key in trial["params"]} <= _KNOBS:
        return {}
    asked = [cell for cell in told[0]["attributes"]["cells"] if _has_path(cell, directions)]
    run = next(_folders(told), None) if asked else None
    if run is None:
        return {}
    try:
        decodings = run.read("config").get("decoding") or {}
        readings, scores = run.read("readings", _READ), run.read("scores")
    except (UserError, OSError):  # half-written, or changed since
        return {}
    if "rival_id" in scores:  # of texts compared: a mean over two orders is no argmax of one reading
        return {}
    found = {}
    for cell in asked:
        decoding = decodings.get(cell["decoding"]) or {}
        if str(decoding.get("_target_")).endswith(".Contrastive") and decoding.get("rule") == "argmax":
            found[cell_of(cell)] = _optimum(_of(readings, cell), _of(scores, cell), cell, decoding.get("alpha", 0.0))
    return found


def _has_path(cell: Mapping[str, Any], directions: Sequence[str]) -> bool:
    given = tuple(cell.get(key) for key in ("metric", "split", "level", "judge"))
    maximized = direction_of(cell["objective"], directions) == "maximize"
    plain = all(cell.get(axis, "none") == "none" for axis in ("attack", "defense"))
    return plain and maximized and cell[DEV] is not None and given == ("spearman", DEV, "dataset", "pair")


def _folders(trials: Sequence[Trial]) -> Iterator[RunFolder]:
    for trial in trials:
        path = Path(str(trial["attributes"].get("run_dir")))
        if all((path / name).is_file() for name in ("config.yaml", "readings.parquet", "scores.parquet")):
            yield RunFolder(path)


def _of(frame: pd.DataFrame, cell: Mapping[str, Any]) -> pd.DataFrame:
    where = {**cell, "attack": "none", "defense": "none"}
    held = np.logical_and.reduce([frame[name] == where[name] for name in _WHERE])
    return frame[held]


def _optimum(readings: pd.DataFrame, scores: pd.DataFrame, cell: Mapping[str, Any], alpha: float) -> dict[str, Any]:
    values = np.array(ScoreRange(cell["range_min"], cell["range_max"], cell["range_step"]).values)
    human = dict(zip(scores["example_id"], scores["human"], strict=True))
    parts: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
    for split, rows in readings.groupby("split"):
        main, assistant = (
            np.array(rows[f"{who}_logprobs"].tolist(), dtype=np.float32) for who in ("main", "assistant")
        )
        parts[str(split)] = (main, assistant, np.array([human[one] for one in rows["example_id"]], dtype=np.float64))
    main, assistant, rated = parts[DEV]
    best = optimum(main, assistant, values, rated, alpha)
    test = None
    if TEST in parts:
        main, assistant, rated = parts[TEST]
        test = spearman(Contrastive(best.kappa, alpha=alpha).scores(main, assistant, values), rated)
    high, width = (value if np.isfinite(value) else None for value in (best.high, best.width))
    return {"kappa": best.kappa, "dev": best.value, "test": test, "low": best.low, "high": high, "width": width}
