"""Content of a finished run for any tracker: its numbers under readable names, and the files that
other runs use.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from judgebench.report.views.advised import distance_rows, range_shares
from judgebench.report.views.correlations import advised_rows
from judgebench.report.views.humans import human_figures
from judgebench.results.results import Results, range_of
from judgebench.stats.correlation import shown_level
from judgebench.studies.humans import RAW
from judgebench.studies.scores import shown_split
from judgebench.types import Record, Records, Row, ScoreRange

_SCALARS = (
    "spearman",
    "spearman_low",
    "spearman_high",
    "failed_share",
    "bias_wasserstein",
    "modal_share",
    "position_bias",
    "change",
    "raised_share",
    "lambda",
    "temperature",
)

_DIFFERENCES = ("difference", "low", "high", "p", "p_holm")

Named = tuple[str, Row, Row]
"""A name, the record whose lambda and t tell equal names apart, and the numbers by key."""


def headlines(results: Results) -> dict[str, float]:
    """The numbers of the advised setting of each dimension, as `coherence/spearman`, then tokens,
    seconds and cost of the run; without nulls.

    `spearman_rater` is that of one human with the others, `spearman_within` of the judge within
    groups; `pairs_of_systems` is the share that it orders as the humans do; `error` is in points of
    the humans' scale, and `range_share` the range's share of the variance of raw scores.
    """
    numbers: dict[str, float | None] = {}
    rows = distance_rows(results)
    humans = human_figures(results)
    shares = range_shares(results)
    for lead in advised_rows(results):
        dimension = lead["dimension"]
        place = (dimension, lead["range"])
        judge = next(row for row in rows if (row["dimension"], row["range"]) == place)
        pairs = judge["pairs"]
        figures = {
            "spearman": lead["spearman"],
            "spearman_low": lead.get("spearman_low"),
            "spearman_high": lead.get("spearman_high"),
            "spearman_rater": humans.get(dimension, {}).get("ceiling"),
            "spearman_within": judge["within"].get("spearman"),
            "pairs_of_systems": pairs and pairs.value,
            "error": judge["raw"].get("mae"),
            "error_calibrated": judge["calibrated"].get("mae"),
            "range_share": shares.get(dimension, {}).get(RAW),
            "failed_share": lead.get("failed_share"),
        }
        numbers |= {f"{dimension}/{name}": value for name, value in figures.items()}
    environment = results.environment
    for name in ("tokens", "seconds"):
        numbers[name] = sum((environment.get(name) or {}).values()) or None
    numbers["cost"] = (environment.get("served") or {}).get("cost")
    return _known(numbers)


def verdicts(results: Results) -> dict[str, str]:
    """The verdict on each use, as `verdict/coherence/order`."""
    return {f"verdict/{row['dimension']}/{row['use']}": row["verdict"] for row in results.verdict}


def scalars(records: Records) -> dict[str, float]:
    """One level's numbers (`dataset`, or the first where there is no such level) under readable
    names, without nulls.

    Names are split/dimension/range/judge/decoding/number, with attack, defense and a level other
    than `dataset` after the dimension where there are such, and lambda and t after the decoding
    where one cell holds several.

    Example:
        >>> record = {"level": "dataset", "split": "test", "dimension": "coherence", "attack": "none",
        ...           "defense": "none", "range_min": 1, "range_max": 5, "range_step": 1,
        ...           "judge": "main", "decoding": "greedy", "lambda": None, "temperature": None, "spearman": 0.25}
        >>> scalars([record])
        {'test/coherence/1-5/main/greedy/spearman': 0.25}
    """
    level = shown_level(record["level"] for record in records)
    shown = [record for record in records if record["level"] == level]
    named = []
    for record in shown:
        numbers = {key: record.get(key) for key in _SCALARS}
        named.append((_within(record), record, numbers))
    return _named(named)


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
        if (record["split"], record["level"], record["statistic"]) != (split, level, "spearman"):
            continue
        first = f"{record['first_judge']} {record['first_decoding']}"
        name = _within(
            {
                **record,
                "judge": f"{first} minus",
                "decoding": f"{record['second_judge']} {record['second_decoding']}",
            }
        )
        setting = {"lambda": record["first_lambda"], "temperature": record["first_temperature"]}
        named.append((name, setting, {key: record[key] for key in _DIFFERENCES}))
    return _named(named)


def best_scalars(summary: Row) -> dict[str, float]:
    """The figures of the best setting of each cell of a sweep, as
    `best/test/coherence/1-5/spearman`, see `judgebench.study.summary.summarize`; without nulls."""
    numbers = {}
    for cell in summary["cells"]:
        for split in ("dev", "test") if cell["best"] else ():
            name = f"best/{split}/{cell['dimension']}/{range_of(cell)}/{cell['metric']}"
            numbers[name] = cell["best"][split]
    return _known(numbers)


def _named(numbers: Sequence[Named]) -> dict[str, float]:
    """The finite numbers by name; where several records share a name, it has lambda and t too."""
    several = Counter(name for name, _, _ in numbers)
    named: Record = {}
    for name, record, values in numbers:
        place = name + _setting(record) if several[name] > 1 else name
        named |= {f"{place}/{key}": value for key, value in values.items()}
    return _known(named)


def _known(numbers: Row) -> dict[str, float]:
    """The numbers that are known and finite."""
    known = {name: value for name, value in numbers.items() if value is not None}
    return {name: float(value) for name, value in known.items() if math.isfinite(value)}


def _within(record: Row) -> str:
    """The name of a record of one level and range; "mean" is that of several ranges."""
    changes = [f"{axis}={record[axis]}" for axis in ("attack", "defense") if record[axis] != "none"]
    level = [] if record["level"] == "dataset" else [f"level={record['level']}"]
    score_range = "mean" if record["range_min"] is None else str(ScoreRange.of(record))
    place = (record["split"], record["dimension"], *changes, *level, score_range)
    return "/".join([*place, record["judge"], record["decoding"]])


def _setting(record: Row) -> str:
    """Lambda and t, as ` lambda=1 t=0.5`, or the one of them that the record has."""
    values = {"lambda": record["lambda"], "t": record["temperature"]}
    return "".join(f" {symbol}={value:g}" for symbol, value in values.items() if value is not None)


# --- files --------------------------------------------------------------------------------------

RESULTS = ("readings.parquet", "scores.parquet", "metrics.json")
FOLDERS = ("attack", "defense")


def tracked_files(files: Sequence[Path]) -> list[Path]:
    """The files of a run folder that a tracker keeps: `RESULTS`, and what attacks and defenses
    learned."""
    return [path for path in files if path.name in RESULTS or path.parent.name in FOLDERS]
