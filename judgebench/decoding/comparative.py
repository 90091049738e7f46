"""From the places that a judge prefers to the probability that a text wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from judgebench.decoding.decode import KEYS, TIED
from judgebench.types import CLAMPED, FAILED, FIRST, ORDERS, PARSED, PLACES, SECOND, ScoreRange

WINS = ScoreRange(0, 1, 0.5)
"""The scores of a pair: its judged text loses, nothing is decided, it wins; expectations lie between."""

UNDECIDED = 0.5

_SAME = (*KEYS, "judge", "decoding", "lambda", "temperature")
_ENDS = {"range_min": WINS.minimum, "range_max": WINS.maximum, "range_step": WINS.step}


def win_probabilities(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """How likely a judge finds each text better than its rival, both orders averaged.

    The CAP paper's `p = 1/2 (P(first wins | A first) + P(second wins | A second))` (section 2.1, after Shi et al.
    2024), with `P` the share of a decoding's answer that is the text's own place: 0 or 1 where it is one of the places,
    something between where it is their expectation. A tie, where the judge may find one, is half a win for each.

    An order whose answer could not be read, or named a place that there is not, is undecided, like a tie: to count it
    as the lowest score, as for texts judged alone, would be a verdict for the rival.

    Args:
        columns: of scores, as `decode` gives them, a row an order; those of texts that were judged alone, which have
            no column `order`, are returned as they are.

    Returns:
        A row a pair, condition, judge and decoding, in the order in which these appear: the columns without `order`,
        on the range `WINS`, with score_first and score_second, the probability of winning in each place, half of that
        of a tie added; score, their mean; tie_first and tie_second, the probability of a tie itself; status, `failed`
        where either order is undecided for want of an answer, else `parsed`.

    Raises:
        ValueError: one of the two orders is missing, or there twice.

    Example:
        >>> keys = dict.fromkeys(_SAME, np.array(["x", "x"])) | {"lambda": np.full(2, np.nan)}
        >>> keys |= {"order": np.array(["first", "second"]), "status": np.array(["parsed", "parsed"])}
        >>> won = win_probabilities(keys | {"score": np.array([1.25, 1.25]), "temperature": np.full(2, np.nan)})
        >>> [float(won[name][0]) for name in ("score_first", "score_second", "score")]
        [0.75, 0.25, 0.5]
    """
    if "order" not in columns:
        return dict(columns)
    places = _places(columns)
    first, second = places[FIRST], places[SECOND]
    lost = np.isin(np.asarray(columns["status"]).astype(str), (FAILED, CLAMPED))
    place = np.asarray(columns["score"], dtype=np.float64)
    won = {
        FIRST: np.where(lost[first], UNDECIDED, PLACES.maximum - place[first]),
        SECOND: np.where(lost[second], UNDECIDED, place[second] - PLACES.minimum),
    }
    kept: dict[str, np.ndarray] = {name: np.asarray(column)[first] for name, column in columns.items()}
    del kept["order"]
    kept.pop(TIED, None)
    count = len(first)
    tied = np.where(lost, 1.0, np.asarray(columns.get(TIED, np.zeros(len(place))), dtype=np.float64))
    return kept | {
        **{name: np.full(count, value) for name, value in _ENDS.items()},
        "score_first": won[FIRST],
        "score_second": won[SECOND],
        "score": (won[FIRST] + won[SECOND]) / 2,
        "tie_first": tied[first],
        "tie_second": tied[second],
        "status": np.where(lost[first] | lost[second], FAILED, PARSED),
    }


def _places(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Order -> [pairs] rows of it, pair for pair alike."""
    rows: dict[str, dict[tuple[Any, ...], int]] = {order: {} for order in ORDERS}
    keys = zip(*([_plain(value) for value in np.asarray(columns[name]).tolist()] for name in _SAME), strict=True)
    for row, (order, key) in enumerate(zip(columns["order"], keys, strict=True)):
        if key in rows[str(order)]:
            raise ValueError(f"scores: {key} appears twice with its text {order}")
        rows[str(order)][key] = row
    if rows[FIRST].keys() != rows[SECOND].keys():
        lone = next(iter(rows[FIRST].keys() ^ rows[SECOND].keys()))
        raise ValueError(f"scores: {lone} was read in one order only")
    at = rows[SECOND]
    return {
        FIRST: np.array(list(rows[FIRST].values()), dtype=np.int64),
        SECOND: np.array([at[key] for key in rows[FIRST]], dtype=np.int64),
    }


def _plain(value: Any) -> Any:
    return None if value != value else value  # NaN, which is not even itself, stands for a knob that is not there
